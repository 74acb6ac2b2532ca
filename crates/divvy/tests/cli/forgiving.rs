//! Mistakes that people make, and what they are told.

use super::{divvy, pod, simulate};
use crate::output::{code, stderr, stdout};

#[test]
fn the_demo_needs_nothing_but_the_binary_and_is_the_folder_of_examples() {
    let demo = divvy(&["simulate", "--demo"], "");
    assert_eq!(code(&demo), 0, "{}", stderr(&demo));
    assert_eq!(stdout(&demo), stdout(&divvy(&["simulate", "-f", "examples/"], "")));
    let one = divvy(&["explain", "pod", "ml/notebook-0", "--demo"], "");
    assert_eq!(code(&one), 0, "{}", stderr(&one));
    let help = stdout(&divvy(&["--help"], ""));
    assert!(help.contains("with nothing but this binary:\n  divvy simulate --demo"), "{help}");
    let nothing = divvy(&["simulate"], "");
    assert!(stderr(&nothing).contains("or --demo to try it with examples"), "{}", stderr(&nothing));
}

#[test]
fn only_options_of_the_live_cluster_stand_under_its_heading() {
    for command in
        [&["simulate"][..], &["top"], &["explain", "pod"], &["mig", "plan"], &["snapshot"]]
    {
        let help = stdout(&divvy(&[command, &["-h"]].concat(), ""));
        let (_, live) = help.split_once("Live cluster:\n").unwrap();
        let live = live.split("\n\n").next().unwrap();
        let options = live.lines().filter(|line| line.trim_start().starts_with('-'));
        let options: Vec<&str> =
            options.filter_map(|line| line.split_whitespace().next()).collect();
        let all = ["--device-plugin-config-map", "--kubeconfig", "--context", "--request-timeout"];
        assert_eq!(options, all, "{command:?}");
    }
}

#[test]
fn an_output_that_is_meant_as_a_place_is_told_apart_from_the_format() {
    for args in [
        &["snapshot", "-o", "now.yaml"][..],
        &["snapshot", "-o", "./json"],
        &["top", "-o", "top.txt"],
    ] {
        let output = divvy(args, "");
        assert_eq!(code(&output), 1);
        let said = stderr(&output);
        let place =
            format!("tip: -o is the format; the place is written `> {}`", args.last().unwrap());
        assert!(said.contains(&place), "{said}");
    }
    let said = stderr(&divvy(&["top", "-o", "xml"], ""));
    assert!(said.contains("possible values: table") && !said.contains("the place"), "{said}");
}

#[test]
fn kais_words_are_followed_by_what_was_given_and_what_to_write() {
    let manifest = pod("a", "{gpu-memory: \"2Gi\"}") + &pod("b", "{gpu-fraction: \"50%\"}");
    let (json, code) = simulate(&manifest, &[]);
    assert_eq!(code, 2);
    let reason = |i: usize| json["pods"][i]["reason"].as_str().unwrap().to_owned();
    assert_eq!(
        reason(0),
        "gpu-memory annotation value must be a positive integer greater than 0; gpu-memory: \"2Gi\" given, \
         the unit is MiB: write gpu-memory: \"2048\" for 2048 MiB"
    );
    assert!(reason(1).ends_with(
        "such as gpu-fraction: \"0.5\", or ask whole cards by the limit nvidia.com/gpu"
    ));
}

#[test]
fn explain_names_the_pods_that_are_placed_first() {
    let first = pod("a-first", "{gpu-memory: \"81000\"}");
    let cluster = "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {nvidia.com/gpu.memory: \"81920\", \
        nvidia.com/gpu.count: \"1\"}}\nstatus: {allocatable: {nvidia.com/gpu: 1, cpu: 8, memory: 8Gi, pods: 9}}\n";
    let file = std::env::temp_dir().join(format!("divvy-first-{}.yaml", std::process::id()));
    std::fs::write(&file, cluster).unwrap();
    let on = ["--cluster", file.to_str().unwrap()];
    let manifest = first + &pod("b-second", "{gpu-memory: \"1000\"}") + &pod("web", "{}");
    let ask = |name: &str, more: &[&str]| {
        divvy(&[&["explain", "pod", name, "-f", "-"], &on[..], more].concat(), &manifest)
    };
    let second = ask("b-second", &[]);
    assert_eq!(code(&second), 2, "{}", stderr(&second));
    let line = "Before it: 1 other pending pod, by priority, age and name: default/a-first\n";
    assert!(stdout(&second).contains(line), "{}", stdout(&second));
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&ask("b-second", &["-o", "json"]))).unwrap();
    assert_eq!(json["placedFirst"], serde_json::json!(["default/a-first"]));
    assert!(!stdout(&ask("a-first", &[])).contains("Before it"));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_terminating_pod_does_not_just_run() {
    let cluster = stdout(&divvy(&["simulate", "--print-cluster"], ""))
        + "- apiVersion: v1\n  kind: Pod\n  metadata: {name: old, namespace: ml, deletionTimestamp: \
           \"2026-01-01T00:00:00Z\", annotations: {gpu-fraction: \"0.5\", \
           divvy.dev/cards: \"0:42949672960\"}}\n  spec: {nodeName: a100-80-1, \
           containers: [{name: c}]}\n  status: {phase: Running}\n";
    let explain = divvy(&["explain", "pod", "ml/old", "--cluster", "-"], &cluster);
    assert_eq!(code(&explain), 0, "{}", stderr(&explain));
    let start = "ml/old is terminating, and until it has ended holds a100-80-1 card 0 (0.5, ";
    assert!(stdout(&explain).starts_with(start), "{}", stdout(&explain));
    let top = stdout(&divvy(&["top", "pods", "--cluster", "-"], &cluster));
    assert!(
        top.lines().next().unwrap().ends_with("STATUS") && top.contains("terminating"),
        "{top}"
    );
    let json = stdout(&divvy(&["top", "pods", "--cluster", "-", "-o", "json"], &cluster));
    assert!(json.contains("\"terminating\": true"), "{json}");
}

#[test]
fn a_priority_class_that_is_read_is_not_listed_as_left_out() {
    let manifest = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 9}\n---\n\
        {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {priorityClassName: high, containers: [{name: c}]}}\n";
    let output = divvy(&["simulate", "-f", "-"], manifest);
    assert!(!stdout(&output).contains("Not placed"), "{}", stdout(&output));
    assert_eq!(stderr(&output), "");
}

#[test]
fn top_takes_singulars() {
    for (one, all) in [("node", "nodes"), ("card", "cards"), ("slice", "slices"), ("pod", "pods")] {
        let list = |kind| stdout(&divvy(&["top", kind, "--cluster", "embedded"], ""));
        assert_eq!(list(one), list(all));
    }
}

fn kubeconfig(user: &str) -> String {
    let context = |name| format!("- {{name: {name}, context: {{cluster: c, user: u}}}}\n");
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: dev\nclusters:\n- {{name: c, cluster: {{server: \
         \"https://127.0.0.1:1\", insecure-skip-tls-verify: true}}}}\ncontexts:\n{}{}users:\n- {{name: u, \
         user: {user}}}\n",
        context("dev"),
        context("prod")
    )
}

#[test]
fn a_context_that_is_not_there_is_told_with_those_that_are() {
    let file = std::env::temp_dir().join(format!("divvy-contexts-{}", std::process::id()));
    std::fs::write(&file, kubeconfig("{token: x}")).unwrap();
    let path = file.to_str().unwrap();
    let output = divvy(&["top", "--kubeconfig", path, "--context", "prd"], "");
    assert_eq!(code(&output), 1);
    let expected = format!("the kubeconfig {path} has no context \"prd\"; it has dev and prod");
    assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
    std::fs::write(&file, kubeconfig("{token: x}").replace("current-context: dev", "")).unwrap();
    let output = divvy(&["top", "--kubeconfig", path], "");
    assert!(stderr(&output).contains("it has dev and prod"), "{}", stderr(&output));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_missing_exec_plugin_of_a_kubeconfig_is_named_with_its_hint() {
    let user = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-cloud-auth, installHint: \
        \"install it with: cloud components install auth\", interactiveMode: Never}}";
    let file = std::env::temp_dir().join(format!("divvy-plugin-{}", std::process::id()));
    std::fs::write(&file, kubeconfig(user)).unwrap();
    let output = divvy(&["top", "--kubeconfig", file.to_str().unwrap()], "");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(code(&output), 1);
    let said = stderr(&output);
    for part in
        ["the command no-such-cloud-auth", "cannot be started", "cloud components install auth"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn an_exec_plugin_that_fails_is_told_with_what_it_said() {
    let user = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, \"echo token has \
        expired >&2; exit 3\"], interactiveMode: Never}}";
    let file = std::env::temp_dir().join(format!("divvy-plugin-fails-{}", std::process::id()));
    std::fs::write(&file, kubeconfig(user)).unwrap();
    let output = divvy(&["top", "--kubeconfig", file.to_str().unwrap()], "");
    std::fs::remove_file(&file).unwrap();
    let said = stderr(&output);
    assert_eq!(code(&output), 1);
    let told = "from the command sh, which failed with exit status: 3: token has expired; run it by itself";
    assert!(said.contains(told) && !said.contains("Output {"), "{said}");
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_told_in_one_line() {
    let nope = stderr(&divvy(&["top", "--kubeconfig", "nope"], ""));
    assert!(nope.contains("failed to use the kubeconfig nope: No such file"), "{nope}");
    let file = std::env::temp_dir().join(format!("divvy-no-kubeconfig-{}", std::process::id()));
    std::fs::write(&file, "kind: [").unwrap();
    let broken = stderr(&divvy(&["top", "--kubeconfig", file.to_str().unwrap()], ""));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(broken.lines().count(), 1, "{broken}");
    assert!(!broken.contains("error: line"), "{broken}");
}

#[test]
fn explain_takes_kinds_as_kubectl_does() {
    let answer = "ml/notebook-0 would go to a100-80-1 card 0";
    for asked in [
        &["pods", "ml/notebook-0"][..],
        &["po", "notebook-0", "-n", "ml"],
        &["pod/notebook-0", "-n", "ml"],
        &["pod/ml/notebook-0"],
    ] {
        let output = divvy(&[&["explain"], asked, &["--demo"]].concat(), "");
        assert!(stdout(&output).starts_with(answer), "{asked:?}: {}", stderr(&output));
    }
}

#[test]
fn a_folder_of_kustomize_that_is_not_there_is_told_without_kubectls_log() {
    let said = stderr(&divvy(&["simulate", "-k", "nope"], ""));
    assert_eq!(
        said,
        "error: -k nope: there is no such folder; a folder with a kustomization.yaml is meant\n"
    );
}

#[test]
fn a_list_of_which_nothing_is_selected_says_so_of_what_is_selected() {
    let nothing =
        |args: &[&str]| stdout(&divvy(&[&["top"], args, &["--cluster", "embedded"]].concat(), ""));
    assert_eq!(nothing(&["cards", "-l", "foo"]), "No node that -l selects has a card.\n");
    assert_eq!(nothing(&["nodes", "-l", "foo"]), "No node that -l selects is there.\n");
    assert_eq!(nothing(&["pods", "-n", "nope"]), "No pod in namespace nope holds a GPU.\n");
    assert_eq!(nothing(&["pending", "-n", "nope"]), "No pod in namespace nope waits.\n");
}

#[test]
fn a_name_that_is_not_in_a_list_is_an_error_beside_those_that_are() {
    let output = divvy(&["top", "node", "l40s-1", "moon", "--cluster", "embedded"], "");
    assert_eq!(code(&output), 1);
    assert_eq!(stdout(&output).lines().count(), 2, "{}", stdout(&output));
    assert!(stderr(&output).contains("moon is not among the nodes"), "{}", stderr(&output));
}

#[test]
fn a_pod_that_is_named_is_listed_without_the_columns_of_wide() {
    let cluster = stdout(&divvy(&["simulate", "--print-cluster"], ""))
        + "- apiVersion: v1\n  kind: Pod\n  metadata: {name: web, namespace: ml}\n  spec: {nodeName: l40s-1, \
           containers: [{name: c}]}\n  status: {phase: Running}\n";
    let text = stdout(&divvy(&["top", "pod", "web", "--cluster", "-"], &cluster));
    assert!(text.contains("web") && !text.contains("GPU-BYTES"), "{text}");
}

#[test]
fn a_file_of_nothing_but_mistakes_is_told_with_them() {
    let output =
        divvy(&["simulate", "-f", "-"], "apiVersion: v1\nkind: Pods\nmetadata: {name: a}\n");
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("[UnknownKind]"), "{}", stderr(&output));
}

#[test]
fn a_rehearsal_says_once_that_the_default_scheduler_gives_no_gpu() {
    let manifest = pod("a", "{gpu-fraction: \"0.5\"}") + &pod("b", "{gpu-fraction: \"0.5\"}");
    let manifest = manifest.replace("  schedulerName: divvy-scheduler\n", "");
    let said = stderr(&divvy(&["simulate", "-f", "-"], &manifest));
    assert_eq!(said.matches("[DefaultScheduler], and so for 1 more").count(), 1, "{said}");
}
