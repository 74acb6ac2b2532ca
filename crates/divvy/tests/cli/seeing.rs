//! Lists and reports: what is shown of whom, in which order and form.

use super::divvy;
use crate::output::{code, stderr, stdout};
use crate::program;
use serde_json::Value;

/// Two nodes; what runs there, who waits, and who waits for somebody else.
fn cluster() -> String {
    let node = |name: &str, pool: &str| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{pool: {pool}, nvidia.com/gpu.product: \
             Tesla-T4, nvidia.com/gpu.memory: \"16384\", nvidia.com/gpu.count: \"2\"}}}}\nstatus: {{allocatable: \
             {{nvidia.com/gpu: 2, cpu: 8, memory: 8Gi, pods: 9}}}}\n---\n"
        )
    };
    let pod = |name: &str, labels: &str, annotations: &str, spec: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: ml, creationTimestamp: \
             \"2026-01-01T00:00:00Z\", labels: {{{labels}}}, annotations: {{{annotations}}}}}\nspec: {{{spec}, \
             containers: [{{name: c}}]}}\n---\n"
        )
    };
    let ours = "schedulerName: divvy-scheduler";
    node("t4-1", "a")
        + &node("t4-2", "b")
        + &pod(
            "big",
            "app: x, kai.scheduler/queue: research",
            "gpu-fraction: \"0.75\", divvy.dev/cards: \"0:12884901888\"",
            "nodeName: t4-1",
        )
        + &pod(
            "small",
            "app: z, runai/queue: teaching",
            "gpu-fraction: \"0.25\", divvy.dev/cards: \"0:4294967296\"",
            "nodeName: t4-2",
        )
        + &pod("fits", "app: x", "gpu-fraction: \"0.5\"", ours)
        + &pod("xl", "app: x, kai.scheduler/queue: research", "gpu-memory: \"98304\"", ours)
        + &pod("theirs", "app: x", "gpu-fraction: \"0.5\"", "schedulerName: default-scheduler")
}

fn top(args: &[&str]) -> String {
    let output = divvy(&[&["top"], args, &["--cluster", "-"]].concat(), &cluster());
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    stdout(&output)
}

/// The first cells of all rows.
fn column(text: &str, at: usize) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_whitespace().nth(at)).collect()
}

#[test]
fn who_waits_is_listed_in_turn_with_the_reason() {
    let text = top(&["pending"]);
    assert_eq!(column(&text, 1), ["NAME", "fits", "xl", "theirs"]);
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap();
    assert!(line("fits").ends_with("fits on t4-2 now"), "{text}");
    assert!(line("xl").ends_with("largest card 16.0 GiB < 96.0 GiB asked"), "{text}");
    assert!(line("theirs").ends_with("scheduled by default-scheduler, not by divvy"), "{text}");
    let json: Value = serde_json::from_str(&top(&["pending", "-o", "json"])).unwrap();
    let xl = &json["items"][1];
    assert_eq!((&json["kind"], &xl["reason"]), (&"TopPending".into(), &"CardTooSmall".into()));
    assert_eq!(
        (&xl["createdAt"], &xl["queue"]),
        (&"2026-01-01T00:00:00Z".into(), &"research".into())
    );
    assert!(json["items"][0]["node"] == "t4-2" && json["items"][0]["reason"].is_null());
}

#[test]
fn queues_show_what_their_pods_hold_in_whole_gpus() {
    let text = top(&["queues"]);
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["QUEUE", "PODS", "GPUS", "GPU-MEM", "PENDING"]);
    assert_eq!(rows[1], ["research", "1", "0.75", "12.0Gi", "1"]);
    assert_eq!(rows[2], ["teaching", "1", "0.25", "4.0Gi", "0"]);
    assert_eq!(rows[3], ["-", "0", "0", "0", "1"]);
    let output = divvy(&["top", "queue", "--cluster", "-"], &cluster());
    assert_eq!(stderr(&output), "note: quotas of queues are not enforced yet\n");
    let explain = divvy(&["explain", "pod", "ml/xl", "--cluster", "-"], &cluster());
    let note = "Note: it is in queue research, which is shown and counted; quotas of queues are not enforced yet\n";
    assert!(stdout(&explain).contains(note), "{}", stdout(&explain));
    assert!(top(&["pods"]).lines().next().unwrap().ends_with("QUEUE"));
}

#[test]
fn a_pod_that_no_card_is_large_enough_for_is_told_so_also_beside_a_record_that_cannot_be_read() {
    let unread = cluster().replace("\"0:12884901888\"", "\"of all\"");
    let unread = unread.replace("\"0:4294967296\"", "\"of all\"");
    let output = divvy(&["top", "pending", "--cluster", "-"], &unread);
    assert!(stderr(&output).contains("no GPU is given on t4-1"), "{}", stderr(&output));
    let text = stdout(&output);
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap();
    assert!(line("xl").ends_with("largest card 16.0 GiB < 96.0 GiB asked"), "{text}");
    assert!(line("fits").contains("does not say which cards it has"), "{text}");
}

#[test]
fn lists_are_selected_by_labels_and_by_name() {
    assert_eq!(column(&top(&["nodes", "-l", "pool=b"]), 0), ["NODE", "t4-2"]);
    assert_eq!(column(&top(&["cards", "-l", "pool in (a),pool!=b"]), 0), ["NODE", "t4-1", "t4-1"]);
    assert_eq!(column(&top(&["pods", "-l", "app=x"]), 1), ["NAME", "big"]);
    assert_eq!(column(&top(&["pending", "-l", "!kai.scheduler/queue,app"]), 1), ["NAME", "fits"]);
    assert_eq!(column(&top(&["node", "t4-2"]), 0), ["NODE", "t4-2"]);
    assert_eq!(column(&top(&["pod", "small", "-n", "ml"]), 1), ["NAME", "small"]);
    assert_eq!(column(&top(&["pod", "ml/big", "ml/small"]), 1), ["NAME", "big", "small"]);
    assert_eq!(column(&top(&["queue", "research"]), 0), ["QUEUE", "research"]);
    for (args, told) in [
        (&["node", "t4-9"][..], "t4-9 is not among the nodes; `divvy top nodes` lists them"),
        (&["pod", "big", "-n", "web"], "big is not among the pods in namespace web"),
        (&["nodes", "-l", "a b"], "is no part of a selector; allowed are key=value"),
        (&["queues", "-l", "a=b"], "queues have no labels here"),
        (&["nodes", "-n", "ml"], "-n is for `top pods` and `top pending`"),
    ] {
        let output = divvy(&[&["top"], args, &["--cluster", "-"]].concat(), &cluster());
        assert_eq!(code(&output), 1, "{args:?}");
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
}

#[test]
fn in_a_pipe_the_map_is_broken_at_columns_and_nothing_is_cut() {
    let run = |columns: &str| {
        let mut command = program::divvy();
        command.args(["simulate", "--demo"]).env("COLUMNS", columns);
        stdout(&command.output().unwrap())
    };
    let (narrow, usual) = (run("60"), run(""));
    assert_eq!(narrow.lines().next(), usual.lines().next(), "tables are as wide as they are");
    let table = |text: &str| text.lines().take_while(|line| !line.is_empty()).count();
    let map = |text: &str| -> Vec<String> {
        let lines = text.lines().skip(table(text)).take_while(|line| !line.contains(" placed. "));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(table(&narrow), table(&usual));
    assert!(map(&narrow).iter().all(|line| line.chars().count() <= 60), "{narrow}");
    let words =
        |text: &str| map(text).join(" ").split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&narrow), words(&usual));
}

#[test]
fn lists_are_sorted_and_written_for_spreadsheets() {
    assert_eq!(column(&top(&["nodes", "--sort-by", "gpu-mem"]), 0), ["NODE", "t4-1", "t4-2"]);
    assert_eq!(column(&top(&["pods", "--sort-by=gpu-mem", "--no-headers"]), 1), ["big", "small"]);
    let csv = top(&["nodes", "-o", "csv"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines[0].starts_with("NODE,MODEL,CARDS,WHOLE,") && lines[1].starts_with("t4-1,T4,1/2,0,")
    );
    assert!(csv.lines().all(|line| !line.contains("  ")), "{csv}");
    assert_eq!(top(&["nodes", "-o", "csv", "--no-headers"]).lines().count(), 2);
    for (args, told) in [
        (
            &["nodes", "--sort-by", "size"][..],
            "--sort-by: no column \"size\"; there are node, model,",
        ),
        (&["nodes", "--sort-by", "node", "-o", "json"], "--sort-by is for tables and csv"),
        (&["pending", "--watch"], "--watch cannot say why pods wait"),
    ] {
        let on: &[&str] = if args.contains(&"--watch") { &[] } else { &["--cluster", "-"] };
        let output = divvy(&[&["top"], args, on].concat(), &cluster());
        assert_eq!(code(&output), 1, "{args:?}");
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
}

#[test]
fn the_report_is_text_json_and_a_page_that_loads_nothing() {
    let report = |more: &[&str]| {
        let output = divvy(&[&["report", "--cluster", "-"], more].concat(), &cluster());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        stdout(&output)
    };
    let text = report(&[]);
    let start =
        "2 of 4 cards in use, 16 of 64 GiB allocated. Cards in use are 50% full. 3 pods pending.\n";
    assert!(text.starts_with(start), "{text}");
    for part in ["Pools: ", "Nodes: ", "Idle cards: ", "Queues: ", "Pending: "] {
        assert!(text.contains(&format!("\n{part}")), "{part}: {text}");
    }
    let json: Value = serde_json::from_str(&report(&["-o", "json"])).unwrap();
    assert_eq!(json["kind"], "Report");
    assert_eq!(json["summary"]["packingRatio"], 0.5);
    assert_eq!(json["nodePools"][0]["name"], "T4");
    assert_eq!(json["nodes"][1]["fragmentedBytes"], 12u64 << 30);
    assert_eq!(json["pending"].as_array().unwrap().len(), 3, "what fits is not counted as held");
    let pools = report(&["-o", "json", "--pool-label", "pool"]);
    let pools: Value = serde_json::from_str(&pools).unwrap();
    assert_eq!(
        (&pools["nodePools"][0]["name"], &pools["nodePools"][1]["name"]),
        (&"a".into(), &"b".into())
    );
    let file = std::env::temp_dir().join(format!("divvy-report-{}.html", std::process::id()));
    report(&["--output-file", file.to_str().unwrap()]);
    let page = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html>")
            && page.contains("<svg ")
            && page.contains("<td>xl</td>")
    );
    assert!(!page.contains("<script") && !page.contains("href=") && !page.contains("src="));
}
