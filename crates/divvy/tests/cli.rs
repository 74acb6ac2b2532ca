//! The binary as a user runs it.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "cli/forgiving.rs"]
mod forgiving;
#[path = "common/output.rs"]
mod output;
#[path = "cli/planning.rs"]
mod planning;
#[path = "common/program.rs"]
mod program;
#[path = "cli/seeing.rs"]
mod seeing;

use output::{code, stderr, stdout};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn divvy(args: &[&str], stdin: &str) -> Output {
    let mut child = program::divvy()
        .args(args)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that stops before it reads its input closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

/// Runs a rehearsal of `manifest` on the embedded cluster and returns the JSON and exit code.
fn simulate(manifest: &str, more: &[&str]) -> (Value, i32) {
    let output = divvy(&[&["simulate", "-f", "-", "-o", "json"], more].concat(), manifest);
    let json = serde_json::from_str(&stdout(&output));
    (json.unwrap_or_else(|e| panic!("{e}: {}", stderr(&output))), code(&output))
}

fn pod(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  annotations: {annotations}\n\
         spec:\n  schedulerName: divvy-scheduler\n  containers:\n  - name: main\n---\n"
    )
}

#[test]
fn the_examples_are_placed_as_their_comments_say() {
    let output = divvy(&["simulate", "-f", "examples/"], "");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output));
}

#[test]
fn outside_of_a_share_node_card_says_that_there_is_none() {
    let output = divvy(&["node", "card"], "");
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert_eq!(stdout(&output), "This container has no share of a card.\n");
}

#[test]
fn every_example_can_be_placed_by_itself() {
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let output = divvy(&["simulate", "-f", path.to_str().unwrap()], "");
            assert_eq!(code(&output), 0, "{}: {}", path.display(), stdout(&output));
        }
    }
}

#[test]
fn the_config_example_is_accepted() {
    let config = "examples/config/bin-packing.yaml";
    let output = divvy(&["simulate", "-f", "examples/", "--config", config], "");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

#[test]
fn the_json_is_the_contract() {
    let manifest = pod("half", "{gpu-fraction: \"0.5\"}") + &pod("huge", "{gpu-memory: \"98304\"}");
    let (json, code) = simulate(&manifest, &[]);
    assert_eq!(code, 2);
    let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let all = ["apiVersion", "displaced", "kind", "more", "nodes", "partitions", "pods", "summary"];
    assert_eq!(keys(&json), all);
    assert_eq!(json["more"], Value::Null);
    assert_eq!(
        (&json["apiVersion"], &json["kind"]),
        (&"divvy.dev/v1alpha1".into(), &"Simulation".into())
    );
    let half = 46_068u64 * (1 << 20) / 2;
    assert_eq!(
        json["pods"],
        serde_json::json!([
            {"namespace": "default", "name": "half", "node": "l40s-1",
             "cards": [{"index": 0, "number": 0, "bytes": half, "computePercent": null}], "gpus": 0, "reason": null, "reasons": []},
            {"namespace": "default", "name": "huge", "node": null, "cards": [], "gpus": 0,
             "reason": "largest card 80.0 GiB < 96.0 GiB asked",
             "reasons": json["pods"][1]["reasons"].clone()},
        ])
    );
    let reasons = json["pods"][1]["reasons"].as_array().unwrap();
    let nodes: u64 = reasons.iter().map(|r| r["nodes"].as_u64().unwrap()).sum();
    assert_eq!(nodes, 8, "every node has one reason");
    assert_eq!(keys(&reasons[0]), ["message", "nodes", "reason"]);
    let l40s = json["nodes"].as_array().unwrap().iter().find(|n| n["name"] == "l40s-1").unwrap();
    assert_eq!(l40s["model"], "NVIDIA-L40S");
    assert_eq!(
        l40s["cards"][0],
        serde_json::json!({"index": 0, "number": 0, "uuid": null, "state": "shared", "closed": [],
            "capacityBytes": half * 2, "usedBytes": half,
            "shares": [{"pod": "default/half", "bytes": half, "computePercent": null}]})
    );
    assert_eq!(l40s["cards"][1]["state"], "free");
    let sums = ["allocatedRatio", "cards", "cardsInUse", "fragmentationRatio", "pending", "placed"];
    assert_eq!(keys(&json["summary"]), [&sums[..], &["slices", "slicesTaken"]].concat());
    assert_eq!(json["summary"]["cards"], 40);
}

#[test]
fn how_many_more_fit_is_told_with_the_nodes_and_why_no_more() {
    let manifest = pod("most", "{gpu-memory: \"70000\"}") + &pod("huge", "{gpu-memory: \"98304\"}");
    let (json, status) = simulate(&manifest, &["--fill"]);
    assert_eq!(status, 2);
    let more = json["more"].as_array().unwrap();
    let objects =
        |name: &str| serde_json::json!([{"kind": "Pod", "namespace": "default", "name": name}]);
    assert_eq!(more[0]["objects"], objects("most"));
    assert_eq!((&more[0]["more"], &more[0]["atLeast"]), (&15.into(), &false.into()));
    let on = more[0]["nodes"].as_array().unwrap().iter().map(|n| n["count"].as_u64().unwrap());
    assert_eq!(on.sum::<u64>(), 15);
    assert_eq!((&more[1]["objects"], &more[1]["more"]), (&objects("huge"), &0.into()));
    assert_eq!(more[1]["reason"], json["pods"][1]["reason"]);
    assert_eq!(more[1]["reasons"], json["pods"][1]["reasons"]);
    let (json, _) = simulate(&manifest, &["--fill=7"]);
    let counted = ["more", "atLeast", "reason"].map(|key| json["more"][0][key].clone());
    assert_eq!(counted, [7.into(), true.into(), Value::Null]);
    let output = divvy(&["simulate", "--fill", "-f", "-"], &manifest);
    let text = stdout(&output);
    assert!(text.contains("\n15 more of default/most fit: "), "{text}");
    assert!(
        text.contains("\nNo more of default/huge fits: largest card 80.0 GiB < 96.0 GiB asked\n")
    );
    let output = divvy(&["simulate", "--fill", "--cluster", "embedded"], "");
    assert_eq!(code(&output), 1, "there is nothing to count");
}

#[test]
fn a_whole_gpu_pod_lists_whole_cards_with_the_full_bytes() {
    let manifest = "{apiVersion: v1, kind: Pod, metadata: {name: w}, spec: {containers: \
        [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]}}";
    let (json, _) = simulate(manifest, &[]);
    let pod = &json["pods"][0];
    assert_eq!((pod["gpus"].as_u64(), pod["cards"].as_array().unwrap().len()), (Some(2), 2));
    assert_eq!(pod["cards"][0]["bytes"].as_u64(), Some(46_068 << 20));
}

#[test]
fn json_and_yaml_say_the_same() {
    let json = divvy(&["simulate", "-f", "examples/", "-o", "json"], "");
    let yaml = divvy(&["simulate", "-f", "examples/", "-o", "yaml"], "");
    let json: Value = serde_json::from_str(&stdout(&json)).unwrap();
    let yaml: Value = serde_saphyr::from_str(&stdout(&yaml)).unwrap();
    assert_eq!(json, yaml);
}

#[test]
fn the_printed_cluster_can_be_given_back() {
    let cluster = divvy(&["simulate", "--print-cluster"], "");
    let from_it = divvy(&["simulate", "--cluster", "-", "-f", "examples/"], &stdout(&cluster));
    assert_eq!(stdout(&from_it), stdout(&divvy(&["simulate", "-f", "examples/"], "")));
}

#[test]
fn exit_codes_tell_placed_pending_and_bad_input_apart() {
    for (args, stdin, expected) in [
        (vec!["simulate", "-f", "-"], pod("ok", "{gpu-fraction: \"0.5\"}"), 0),
        (vec!["simulate", "-f", "-"], pod("no", "{gpu-fraction: \"1.5\"}"), 2),
        (vec!["simulate", "-f", "-"], "kind: [".to_owned(), 1),
        (vec!["simulate", "-f", "-"], "just text".to_owned(), 1),
        (vec!["simulate", "-f", "no-such-file.yaml"], String::new(), 1),
        (vec!["simulate"], String::new(), 1),
        (vec!["simulate", "-f", "-", "--strategy", "tetris"], String::new(), 1),
        (vec!["simulate", "-f", "-", "--replicas", "-3"], String::new(), 1),
        (vec!["explain", "pod", "nobody", "--cluster", "embedded"], String::new(), 1),
        (vec!["top", "sideways"], String::new(), 1),
        (vec!["--help"], String::new(), 0),
        (vec!["--version"], String::new(), 0),
    ] {
        let output = divvy(&args, &stdin);
        assert_eq!(code(&output), expected, "{args:?}: {}", stderr(&output));
        assert_eq!(expected == 1, !output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn each_mistake_is_the_reason_of_its_pod_and_the_others_go_on() {
    let manifest = [
        pod("a-big", "{gpu-fraction: \"1.5\"}"),
        pod("b-unquoted", "{gpu-fraction: 0.5}"),
        pod("c-both", "{gpu-fraction: \"0.5\", gpu-memory: \"100\"}"),
        pod("d-fine", "{gpu-fraction: \"0.5\"}"),
    ]
    .concat()
        + "apiVersion: v1\nkind: Pod\nmetadata: {name: e-half}\nspec:\n  containers:\n  \
           - {name: c, resources: {limits: {nvidia.com/gpu: 0.5}}}\n---\n\
           apiVersion: v1\nkind: Pod\nmetadata: {name: f-odd}\nspec: {containers: none}\n";
    let (json, code) = simulate(&manifest, &[]);
    assert_eq!(code, 2);
    let lines: Vec<String> = json["pods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| {
            format!("{}: {}", p["name"].as_str().unwrap(), p["reason"].as_str().unwrap_or("placed"))
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn explain_answers_first_then_shows_the_numbers() {
    let manifest = pod("xl", "{gpu-memory: \"98304\"}");
    let output = divvy(&["explain", "pod", "xl", "-f", "-"], &manifest);
    assert_eq!(code(&output), 2);
    insta::assert_snapshot!(stdout(&output));
    let placed = divvy(&["explain", "pod", "default/gpu-sharing", "-f", "examples"], "");
    assert_eq!(code(&placed), 0);
    insta::assert_snapshot!(stdout(&placed));
}

#[test]
fn explain_names_pods_that_are_nearly_the_one_asked_for() {
    let output = divvy(&["explain", "pod", "ml/notebook", "-f", "examples"], "");
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output).contains("there is ml/notebook-0, ml/notebook-1"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn kinds_that_make_no_pods_are_counted_in_one_line() {
    let manifest = "{apiVersion: v1, kind: Service, metadata: {name: s}}\n---\n\
        {apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {replicas: lots}}\n";
    let manifest = format!("{manifest}\n---\n{}", pod("p", "{gpu-fraction: \"0.5\"}"));
    let output = divvy(&["simulate", "-f", "-"], &manifest);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("Not placed, as divvy makes no pods of them: 1 Service, 1 Widget."),
        "{text}"
    );
}

#[test]
fn replicas_make_so_many_of_each() {
    let (json, _) = simulate(&pod("p", "{gpu-fraction: \"0.5\"}"), &["--replicas", "12"]);
    assert_eq!(json["summary"]["placed"], 12);
    assert_eq!(json["pods"][11]["name"], "p-11");
}

#[test]
fn output_to_a_pipe_has_no_colour_and_the_picture_is_xml() {
    let svg = std::env::temp_dir().join(format!("divvy-test-{}.svg", std::process::id()));
    let output = divvy(&["simulate", "-f", "examples/", "--svg", svg.to_str().unwrap()], "");
    assert!(!stdout(&output).contains('\u{1b}'));
    let picture = std::fs::read_to_string(&svg).unwrap();
    std::fs::remove_file(&svg).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    let shown = std::fs::read_to_string(root().join("docs/card-map.svg")).unwrap();
    assert_eq!(picture, shown, "docs/card-map.svg is old: run `cargo xtask docs`");
}

#[test]
fn the_cli_reference_is_up_to_date() {
    let page = std::fs::read_to_string(root().join("docs/cli.md")).unwrap();
    assert_eq!(stdout(&divvy(&["reference"], "")), page, "run `cargo xtask docs`");
}

#[test]
fn a_share_may_be_given_from_a_second_to_a_day_to_end() {
    for seconds in ["0", "86401", "-1", "ten"] {
        let output = divvy(&["admission", &format!("--max-grace-period={seconds}")], "");
        assert_ne!(code(&output), 0, "{seconds}");
        assert!(stderr(&output).contains("--max-grace-period"), "{}", stderr(&output));
    }
}

#[test]
fn completion_scripts_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = divvy(&["completion", shell], "");
        assert!(code(&output) == 0 && stdout(&output).contains("simulate"), "{shell}");
    }
}

#[test]
fn top_names_the_provider_of_a_card_as_bindings_recorded_it() {
    let cluster = std::fs::read_to_string(root().join("examples/isolation/cluster.yaml")).unwrap();
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ml, annotations: {gpu-fraction: \"0.5\", \
               divvy.dev/cards: \"0:21474836480\", divvy.dev/class: Isolated/MPS}}\n\
               spec: {nodeName: gpu-node-1, containers: [{name: c}]}\nstatus: {phase: Running}\n";
    let output = divvy(&["top", "cards", "--cluster", "-"], &(cluster + pod));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("Isolated/MPS"), "{}", stdout(&output));
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mut child = program::divvy()
        .args(["simulate", "--print-cluster"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn an_error_that_nobody_can_read_is_no_crash() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(full) = full else { return };
    let status = program::divvy()
        .args(["simulate", "-f", "no-such-file.yaml"])
        .stderr(full)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn nothing_in_a_message_is_obeyed_by_the_terminal() {
    let pod = "apiVersion: v1\nkind: \"Odd\\e[31m\\u202e\"\nmetadata: {name: p}\n---\n\
        apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {priorityClassName: \"x\\e[2J\", \
        containers: [{name: c}]}\n";
    let output = divvy(&["simulate", "-f", "-"], pod);
    for text in [stdout(&output), stderr(&output)] {
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    }
    assert!(stderr(&output).contains("priority class x\\u{1b}[2J is not in the input"));
}

#[test]
fn text_that_is_not_utf8_is_refused_with_its_line() {
    let file = std::env::temp_dir().join(format!("divvy-latin1-{}.yaml", std::process::id()));
    std::fs::write(&file, b"apiVersion: v1\nkind: Pod\nmetadata: {name: caf\xe9}\n").unwrap();
    let output = divvy(&["simulate", "-f", file.to_str().unwrap()], "");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("line 3 is not UTF-8 text"), "{}", stderr(&output));
}

#[test]
fn input_that_holds_nothing_is_refused() {
    for nothing in ["", "---\n", "# only a comment\n", "null\n"] {
        let output = divvy(&["simulate", "-f", "-"], nothing);
        assert_eq!(code(&output), 1, "{nothing:?}: {}", stdout(&output));
    }
}

#[test]
fn the_recipes_mig_configs_are_legal_and_one_of_them_wastes_a_quarter() {
    let check = ["mig", "check", "-f", "examples/mig/sharing-config.yaml"];
    let output = divvy(&[&check[..], &["--model", "NVIDIA-A100-SXM4-80GB"]].concat(), "");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output));
    let shown = std::fs::read_to_string(root().join("docs/partitions.md")).unwrap();
    assert!(shown.contains(stdout(&output).trim_end()), "docs/partitions.md shows another answer");
    let json = divvy(&[&check[..], &["-o", "json"]].concat(), "");
    let json: Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!((&json["kind"], &json["items"][1]["legal"]), (&"MigCheck".into(), &true.into()));
    let cards = &json["items"][1]["cards"][0];
    assert_eq!(cards["model"], "A100-80GB");
    assert_eq!(
        cards["slices"][4],
        serde_json::json!({"profile": "2g.20gb", "start": 4, "size": 2})
    );
    assert_eq!(
        cards["unused"],
        serde_json::json!({"memorySlices": 2, "computeSlices": 1, "memoryBytes": 20_096u64 << 20,
            "fits": ["1g.10gb", "1g.10gb+me", "1g.20gb"]})
    );
}

#[test]
fn mig_configs_that_cannot_be_are_told_why() {
    let file = "version: v1\nmig-configs:\n  big: [{devices: all, mig-enabled: true, mig-devices: \
        {3g.40gb: 2, 1g.10gb: 1}}]\n  off: [{devices: all, mig-enabled: false}]\n  typo: [{devices: \
        [0, 1], mig-enabled: true, mig-devices: {1g.7gb: 1}}]\n";
    let output = divvy(&["mig", "check", "-f", "-", "--model", "A100-80GB"], file);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output));
    for (args, stdin, told) in [
        (vec!["-f", "-"], "kind: Pod\n", "no mig-configs: give a file of mig-parted"),
        (vec!["-f", "-"], "version: v3\nmig-configs: {}\n", "version: \"v3\"; allowed is v1"),
        (vec!["-f", "-", "--model", "A100"], file, "may be A100-40GB or A100-80GB: say which"),
        (vec![], "", "--filename <FILE>"),
    ] {
        let output = divvy(&[&["mig", "check"], &args[..]].concat(), stdin);
        assert_eq!(code(&output), 1, "{args:?}");
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
}

#[test]
fn a_mig_plan_is_shown_saved_and_legal() {
    let file = std::env::temp_dir().join(format!("divvy-mig-{}.yaml", std::process::id()));
    let plan = ["mig", "plan", "-f", "examples/mig/workloads.yaml"];
    let output = divvy(&[&plan[..], &["--save", file.to_str().unwrap()]].concat(), "");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output));
    let shown = std::fs::read_to_string(root().join("docs/partitions.md")).unwrap();
    assert!(shown.contains(stdout(&output).trim_end()), "docs/partitions.md shows another plan");
    let saved = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(saved.contains("#   kubectl label node a100-80-1 nvidia.com/mig.config="), "{saved}");
    let check = divvy(&["mig", "check", "-f", "-", "--model", "A100-80GB"], &saved);
    assert_eq!(code(&check), 0, "{}", stdout(&check));
}

#[test]
fn a_mig_plan_for_a_profile_that_the_model_does_not_have_says_which_it_has() {
    let manifest = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, resources: \
        {limits: {nvidia.com/mig-3g.40gb: 1}}}]}}";
    let output = divvy(&["mig", "plan", "-f", "-", "--model", "A30"], manifest);
    let told = "3g.40gb is no profile of A30; allowed are 1g.6gb, 1g.6gb+me, 2g.12gb, 2g.12gb+me, 4g.24gb\n";
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stdout(&output).contains(told), "{}", stdout(&output));
}

#[test]
fn a_mig_plan_takes_only_cards_that_nobody_holds() {
    let pod = |name: &str, resource: &str, count: u32| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, \
             resources: {{limits: {{{resource}: {count}}}}}}}]}}}}\n---\n"
        )
    };
    let pods = pod("whole", "nvidia.com/gpu", 2)
        + &pod("slice", "nvidia.com/mig-4g.40gb", 1)
        + &pod("late", "nvidia.com/mig-4g.40gb", 1)
        + &pod("foreign", "nvidia.com/mig-1g.5gb", 1);
    let cards = ["mig", "plan", "-f", "-", "--model", "A100-80GB", "--cards", "3", "-o", "json"];
    let output = divvy(&cards, &pods);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        json["summary"],
        serde_json::json!({"helped": 1, "pending": 2, "cards": 1, "atLeast": 1, "freeCards": 1})
    );
    assert_eq!(json["nodes"][0]["cards"][0]["index"], 2, "the whole GPUs will be 0 and 1");
    let reasons: Vec<&str> =
        json["pending"].as_array().unwrap().iter().map(|p| p["reason"].as_str().unwrap()).collect();
    assert_eq!(
        reasons,
        [
            "1g.5gb is no profile of A100-80GB; allowed are 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, \
             4g.40gb, 7g.80gb",
            "no room for 1 x 4g.40gb on the free card beside those before it",
        ]
    );
    // A pod that runs holds cards that only the kubelet could name.
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: a30-1, labels: {nvidia.com/gpu.product: \
        NVIDIA-A30, nvidia.com/gpu.count: \"4\"}}\nstatus: {allocatable: {nvidia.com/gpu: 4, cpu: 8, \
        memory: 8Gi, pods: 9}}\n---\n";
    let running = pod("runs", "nvidia.com/gpu", 1).replace("spec: {", "spec: {nodeName: a30-1, ");
    let waits = pod("waits", "nvidia.com/mig-1g.6gb", 1);
    let cluster = format!("{node}{running}{waits}");
    let output = divvy(&["mig", "plan", "--cluster", "-"], &cluster);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(
        stdout(&output).contains(
            "Left as it is: a30-1: 1 of its 4 cards are in use, and nobody says which these are."
        ),
        "{}",
        stdout(&output)
    );
}

#[test]
fn the_recipes_configs_are_rehearsed_as_the_docs_show() {
    let shown = std::fs::read_to_string(root().join("docs/partitions.md")).unwrap();
    let time_slicing = ["simulate", "-f", "examples/partitions/recipe-time-slicing.yaml"];
    let mig = ["simulate", "-f", "examples/partitions/recipe-mig.yaml", "--partition"];
    for (args, expected, warned) in [
        (&time_slicing[..], 2, "[RenamedResource]\n"),
        (&[&mig[..], &["a100-80-1=mixed-workload"]].concat(), 0, "[MigConfig]\n"),
        (&[&mig[..3], &["-o", "wide"]].concat(), 2, "[MigConfig]\n"),
    ] {
        let output = divvy(args, "");
        assert_eq!(code(&output), expected, "{}", stderr(&output));
        let warnings = stderr(&output);
        assert!(warnings.lines().count() == 1 && warnings.ends_with(warned), "{warnings}");
        let said = stdout(&output);
        let is_shown = shown.contains(said.trim_end());
        assert!(is_shown || args.contains(&"wide"), "docs/partitions.md shows another: {said}");
    }
    let explain = ["explain", "pod", "ml-training/notebook-small", "-f", time_slicing[2]];
    let said = stdout(&divvy(&explain, ""));
    assert!(
        said.starts_with(
            "time-slicing-config: 4 replicas on 7 nodes, resource nvidia.com/gpu.shared\n\n"
        ),
        "{said}"
    );
    assert!(said.contains("Next: ask nvidia.com/gpu.shared: 1"), "{said}");
}

#[test]
fn a_config_says_what_it_does_and_what_pods_would_lose_to_programs_too() {
    let config =
        std::fs::read_to_string(root().join("examples/partitions/recipe-mig.yaml")).unwrap();
    let cluster = stdout(&divvy(&["simulate", "--print-cluster"], ""))
        + "- apiVersion: v1\n  kind: Pod\n  metadata: {name: train, namespace: ml}\n  spec: {nodeName: \
           a100-80-1, containers: [{name: c, resources: {limits: {nvidia.com/gpu: 3}}}]}\n  status: {phase: Running}\n";
    let file = std::env::temp_dir().join(format!("divvy-partition-{}.yaml", std::process::id()));
    std::fs::write(&file, cluster).unwrap();
    let more = ["--cluster", file.to_str().unwrap(), "--partition"];
    let args = |one: &'static str| [&more[..], &[one]].concat();
    let (json, done) = simulate(&config, &args("a100-80-1=all-1g.10gb"));
    let (left, pending) = simulate(&config, &args("a100-80-1=too-much"));
    std::fs::remove_file(&file).unwrap();
    assert_eq!((done, pending), (2, 2));
    let pods = serde_json::json!([{"pod": "ml/train", "request": "3 GPUs"}]);
    let lost = serde_json::json!({"node": "a100-80-1", "resource": "nvidia.com/gpu",
        "undivided": true, "held": 3, "left": 0, "pods": pods});
    assert_eq!(json["displaced"], serde_json::json!([lost]));
    let partition = &json["partitions"][0];
    assert_eq!(partition["config"], "mig-config/all-1g.10gb");
    assert_eq!(partition["effect"], "applied");
    assert_eq!(partition["nodes"], serde_json::json!(["a100-80-1"]));
    assert_eq!(partition["resources"], serde_json::json!({"nvidia.com/mig-1g.10gb": 56}));
    assert_eq!(
        (&left["partitions"][0]["effect"], &left["displaced"]),
        (&"unchanged".into(), &serde_json::json!([]))
    );
}

#[test]
fn a_partition_that_cannot_be_is_refused_with_what_is_allowed() {
    let mig = ["simulate", "-f", "examples/partitions/recipe-mig.yaml", "--partition"];
    for (given, expected) in [
        ("a100-80-1", "allowed is the name of a node, =, and that of a config"),
        ("a100-80-1=nine", "no such config is given; there are all-1g.10gb, "),
        ("moon=too-much", "--partition moon=too-much: the cluster has no such node"),
    ] {
        let output = divvy(&[&mig[..], &[given]].concat(), "");
        assert_eq!(code(&output), 1);
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

/// A folder of its own for a test, with a file in it.
fn file(test: &str, name: &str, text: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

const MISTAKEN: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a # mine\n  annotations:\n    \
                        gpu_fraction: \"0.5\"\nspec:\n  schedulerName: divvy-scheduler\n  \
                        containers:\n  - name: c\n";

#[test]
fn lint_says_what_is_wrong_in_a_line_and_mends_it_once() {
    let path = file("lint-fix", "pod.yaml", MISTAKEN.as_bytes());
    let path = path.to_str().unwrap();
    let found = divvy(&["lint", "-f", path], "");
    assert_eq!(code(&found), 2);
    let text = stdout(&found);
    let line = format!(
        "{path}:6:5: Pod a: metadata.annotations[\"gpu_fraction\"]: nothing reads it, so the pod gets no GPU"
    );
    assert!(text.starts_with(&line), "{text}");
    assert!(
        text.ends_with("\n1 finding in 1 file. Next: --fix mends 1 of them, --diff shows how.\n"),
        "{text}"
    );

    let shown = divvy(&["lint", "-f", path, "--diff"], "");
    assert!(
        stdout(&shown).contains("\n-    gpu_fraction: \"0.5\"\n+    gpu-fraction: \"0.5\"\n"),
        "{}",
        stdout(&shown)
    );
    assert_eq!((code(&shown), std::fs::read_to_string(path).unwrap().as_str()), (2, MISTAKEN));

    let mended = divvy(&["lint", "-f", path, "--fix"], "");
    assert_eq!(code(&mended), 0, "{}", stdout(&mended));
    assert!(
        stdout(&mended).ends_with("1 finding mended. Nothing is left.\n"),
        "{}",
        stdout(&mended)
    );
    assert_eq!(std::fs::read_to_string(path).unwrap(), MISTAKEN.replace("gpu_", "gpu-"));
    let again = divvy(&["lint", "-f", path, "--fix"], "");
    assert_eq!((code(&again), stdout(&again).as_str()), (0, "No findings in 1 file.\n"));
}

#[test]
fn nothing_that_lint_repeats_turns_the_lines_of_a_terminal() {
    let turned = MISTAKEN.replace("name: ", "name: \u{202e}");
    let found = divvy(&["lint", "-f", "-"], &turned);
    let text = stdout(&found);
    assert!(text.contains("\\u{202e}") && !text.contains('\u{202e}'), "{text}");
    // A diff in a pipe is for `patch`.
    let shown = stdout(&divvy(&["lint", "-f", "-", "--diff"], &turned));
    assert!(shown.contains('\u{202e}'), "{shown}");
}

#[test]
fn lint_has_a_contract_for_programs() {
    let output = divvy(&["lint", "-f", "-", "-o", "json"], MISTAKEN);
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((code(&output), &json["kind"], &json["diff"]), (2, &"Lint".into(), &"".into()));
    assert_eq!(
        json["findings"],
        serde_json::json!([{
            "name": "MisspeltName", "file": "-", "line": 6, "column": 5, "object": "Pod a",
            "field": "metadata.annotations[\"gpu_fraction\"]",
            "message": "nothing reads it, so the pod gets no GPU by it", "next": "write gpu-fraction",
            "fixable": true,
        }])
    );
    assert_eq!(
        json["summary"],
        serde_json::json!({"files": 1, "findings": 1, "fixable": 1, "fixed": 0})
    );
    let yaml = divvy(&["lint", "-f", "-", "-o", "yaml"], MISTAKEN);
    assert_eq!(serde_saphyr::from_str::<Value>(&stdout(&yaml)).unwrap(), json);
}

#[test]
fn lint_passes_over_files_that_hold_no_objects_and_refuses_to_look_at_nothing() {
    let pod = file("lint-chart", "pod.yaml", MISTAKEN.as_bytes());
    let folder = Path::new(&pod).parent().unwrap();
    let _ = std::fs::remove_file(folder.join("broken.yaml"));
    std::fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: chart\n").unwrap();
    std::fs::write(folder.join("all.yaml"), "{{- if .Values.x }}\nkind: Pod\n{{- end }}\n")
        .unwrap();
    let found = divvy(&["lint", "-f", folder.to_str().unwrap()], "");
    let text = stdout(&found);
    assert_eq!(code(&found), 2, "{text}{}", stderr(&found));
    assert_eq!(text.matches(": not looked at: ").count(), 2, "{text}");
    assert!(text.contains("pod.yaml:") && text.contains(" in 1 file"), "{text}");
    std::fs::write(folder.join("broken.yaml"), "kind: [").unwrap();
    assert_eq!(code(&divvy(&["lint", "-f", folder.to_str().unwrap()], "")), 1);
    let nothing = divvy(&["lint", "-f", "-"], "");
    assert_eq!((code(&nothing), stdout(&nothing)), (1, String::new()));
    assert!(stderr(&nothing).contains("- holds no Kubernetes object"), "{}", stderr(&nothing));
}

#[test]
fn a_file_that_cannot_be_read_hides_no_findings_of_the_others() {
    let pod = file("lint-unread", "pod.yaml", MISTAKEN.as_bytes());
    let folder = pod.parent().unwrap().to_str().unwrap();
    let wide: Vec<u8> = MISTAKEN.encode_utf16().flat_map(u16::to_le_bytes).collect();
    file("lint-unread", "a-wide.yaml", &wide);
    file("lint-unread", "latin.yaml", b"kind: Pod\nmetadata: {name: caf\xe9}\n");
    let missing = format!("{folder}/missing.yaml");
    let found = divvy(&["lint", "-f", &missing, "-f", folder], "");
    let text = stdout(&found);
    assert_eq!(code(&found), 1, "{text}");
    for line in [
        format!("{missing}: not looked at: No such file or directory"),
        format!(
            "{folder}/a-wide.yaml: not looked at: the file is UTF-16, as some editors on Windows write it"
        ),
        format!("{folder}/latin.yaml: not looked at: line 2 is not UTF-8 text"),
        format!("{folder}/pod.yaml:6:5: Pod a: metadata.annotations"),
    ] {
        assert!(text.lines().any(|said| said.starts_with(&line)), "{line}\n{text}");
    }
    assert!(text.contains("\n1 finding in 1 file. Next: --fix mends 1 of them"), "{text}");
    let json = divvy(&["lint", "-f", &missing, "-f", folder, "-o", "json"], "");
    let json: Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(json["notLookedAt"].as_array().unwrap().len(), 3, "{json}");
    assert_eq!(json["summary"]["files"], 1);

    let mended = divvy(&["lint", "-f", folder, "--fix"], "");
    assert_eq!(code(&mended), 1);
    assert_eq!(std::fs::read_to_string(&pod).unwrap(), MISTAKEN.replace("gpu_", "gpu-"));
}

#[test]
fn what_is_no_file_is_not_told_to_be_mended_in_place() {
    let next = |output: &Output| stdout(output).lines().last().unwrap_or_default().to_owned();
    assert_eq!(
        next(&divvy(&["lint", "-f", "-"], MISTAKEN)),
        "1 finding in 1 file. Next: --diff shows how to mend 1 of them; --fix writes files: give them with -f instead of -."
    );
    assert_eq!(
        next(&divvy(&["lint", "-f", "-", "--diff"], MISTAKEN)),
        "1 finding in 1 file. Next: mend 1 of them as shown; --fix writes files: give them with -f instead of -."
    );
    let pod = file("lint-kustomize", "pod.yaml", MISTAKEN.as_bytes());
    file("lint-kustomize", "kustomization.yaml", b"resources: [pod.yaml]\n");
    let shown = divvy(&["lint", "-f", pod.to_str().unwrap(), "--diff"], "");
    assert_eq!(next(&shown), "1 finding in 1 file. Next: --fix mends 1 of them.");
    let made = divvy(&["lint", "-k", pod.parent().unwrap().to_str().unwrap()], "");
    if code(&made) == 1 {
        // There is no kubectl.
        assert!(stderr(&made).contains("kubectl"), "{}", stderr(&made));
        return;
    }
    assert!(
        next(&made).ends_with(
            "; --fix writes files: give those of the kustomization with -f instead of -k."
        ),
        "{}",
        stdout(&made)
    );
}

#[test]
fn what_lint_cannot_read_or_write_is_an_error() {
    for (args, stdin, expected) in [
        (&["lint", "-f", "no-such-file.yaml"][..], "", "cannot read no-such-file.yaml"),
        (&["lint", "-f", "-"], "kind: [", "document 1, line 1"),
        (&["lint", "-f", "-", "--fix"], MISTAKEN, "--fix writes files, and - is standard input"),
    ] {
        let output = divvy(args, stdin);
        assert_eq!(code(&output), 1, "{args:?}");
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_rehearsal_warns_of_what_lint_finds_and_takes_it_for_an_error_if_strict() {
    let warned = divvy(&["simulate", "-f", "-"], MISTAKEN);
    assert_eq!(code(&warned), 0);
    let warning = "warning: -:6:5: Pod a: metadata.annotations[\"gpu_fraction\"]: nothing reads it";
    assert!(stderr(&warned).starts_with(warning), "{}", stderr(&warned));
    let explained = divvy(&["explain", "pod", "a", "-f", "-"], MISTAKEN);
    assert!(stderr(&explained).starts_with(warning), "{}", stderr(&explained));
    let strict = divvy(&["simulate", "-f", "-", "--strict"], MISTAKEN);
    assert_eq!((code(&strict), stdout(&strict).as_str()), (1, ""));
    assert!(
        stderr(&strict).contains("error: 1 mistake in the manifests, and --strict"),
        "{}",
        stderr(&strict)
    );
    let right = MISTAKEN.replace("gpu_", "gpu-");
    assert_eq!(code(&divvy(&["simulate", "-f", "-", "--strict"], &right)), 0);
}

#[test]
fn templates_of_helm_and_utf_16_are_called_what_they_are() {
    let template = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\nspec: {}\n";
    let output = divvy(&["simulate", "-f", "-"], template);
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output)
            .contains("a template of Helm is no manifest yet ({{ in line 4): render it first"),
        "{}",
        stderr(&output)
    );
    let both = [u16::to_le_bytes as fn(u16) -> [u8; 2], u16::to_be_bytes];
    for (at, bytes) in both.into_iter().enumerate() {
        for mark in ["\u{feff}", ""] {
            let text: Vec<u8> =
                format!("{mark}kind: Pod\n").encode_utf16().flat_map(bytes).collect();
            let path = file("lint-utf-16", &format!("{at}{}.yaml", mark.len()), &text);
            let output = divvy(&["simulate", "-f", path.to_str().unwrap()], "");
            assert_eq!(code(&output), 1);
            assert!(stderr(&output).contains("the file is UTF-16"), "{}", stderr(&output));
        }
    }
}

#[test]
fn manifests_that_make_no_pods_are_an_error_that_says_what_was_meant() {
    for (text, expected) in [
        (
            "apiVersion: v1\nkind: Pods\nmetadata: {name: a}\n",
            "1 Pods is given, and none of that makes pods; write kind: Pod for Pods",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
            "1 ConfigMap is given, and none of that makes pods; give Pods",
        ),
        (
            "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: a}\n",
            "1 Deployment is given, and none of that makes pods; write apiVersion: apps/v1 for Deployment",
        ),
    ] {
        let output = divvy(&["simulate", "-f", "-"], text);
        assert_eq!((code(&output), stdout(&output).as_str()), (1, ""));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}
