//! Rehearsals of clusters and workloads that are not there yet.

use super::{divvy, pod, simulate};
use crate::output::{code, stderr, stdout};
use crate::program;
use serde_json::Value;
use std::path::PathBuf;

/// A file that is gone at the end of the test.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("divvy-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Two nodes of two cards; the first has a share, a daemon and a pod without a controller.
fn cluster() -> String {
    let node = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}, \
             nvidia.com/gpu.product: Tesla-T4, nvidia.com/gpu.memory: \"16384\", nvidia.com/gpu.count: \"2\"}}}}\n\
             status: {{allocatable: {{nvidia.com/gpu: 2, cpu: 8, memory: 8Gi, pods: 9}}}}\n---\n"
        )
    };
    let pod = |name: &str, owner: &str, annotations: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: ml, annotations: {{{annotations}}}, \
             ownerReferences: [{owner}]}}\nspec: {{nodeName: n1, schedulerName: divvy-scheduler, containers: \
             [{{name: c}}]}}\nstatus: {{phase: Running}}\n---\n"
        )
    };
    let owner = |kind: &str| format!("{{kind: {kind}, name: o, controller: true, uid: u}}");
    node("n1")
        + &node("n2")
        + &pod(
            "share",
            &owner("ReplicaSet"),
            "gpu-fraction: \"0.5\", divvy.dev/cards: \"1:8589934592\"",
        )
        + &pod("daemon", &owner("DaemonSet"), "")
        + &pod("alone", "", "")
}

fn places(json: &Value) -> Vec<String> {
    let pods = json["pods"].as_array().unwrap().iter();
    pods.map(|p| format!("{} {}", p["name"].as_str().unwrap(), p["node"].as_str().unwrap_or("-")))
        .collect()
}

#[test]
fn nodes_like_one_that_is_there_can_be_added() {
    let file = File::new("added.yaml", &cluster());
    let whole = "{apiVersion: v1, kind: Pod, metadata: {name: w}, spec: {containers: [{name: c, resources: \
        {limits: {nvidia.com/gpu: 2}}}]}}";
    let on = |more: &[&str]| {
        simulate(whole, &[&["--cluster", file.path(), "--replicas", "3"], more].concat())
    };
    assert_eq!(on(&[]).0["summary"]["pending"], 2);
    let (json, code) = on(&["--add-nodes", "2=n1"]);
    assert_eq!((code, json["summary"]["pending"].as_u64()), (0, Some(0)));
    let nodes: Vec<&str> =
        json["nodes"].as_array().unwrap().iter().map(|n| n["name"].as_str().unwrap()).collect();
    assert_eq!(nodes, ["n1", "n1-new-0", "n1-new-1", "n2"]);
}

#[test]
fn the_pods_of_a_node_that_goes_are_placed_elsewhere() {
    let file = File::new("drained.yaml", &cluster());
    let run = |more: &[&str]| {
        divvy(&[&["simulate", "--cluster", file.path(), "-o", "json"], more].concat(), "")
    };
    let drained = run(&["--drain", "n1"]);
    assert_eq!(code(&drained), 0, "{}", stderr(&drained));
    let json: Value = serde_json::from_str(&stdout(&drained)).unwrap();
    assert_eq!(places(&json), ["share n2", "alone n2"], "the daemon stays");
    assert_eq!(json["summary"]["cards"], 4);
    assert!(
        stderr(&drained).contains("pods of n1 without a controller: 1;"),
        "{}",
        stderr(&drained)
    );
    let removed: Value = serde_json::from_str(&stdout(&run(&["--remove-node", "n1"]))).unwrap();
    assert_eq!(places(&removed), ["share n2", "alone n2"]);
    assert_eq!(removed["summary"]["cards"], 2);
    let both = run(&["--remove-node", "n1", "--drain", "n2"]);
    assert_eq!(code(&both), 2, "nobody is left");
}

#[test]
fn a_node_that_is_drained_in_a_rehearsal_is_not_called_cordoned() {
    let file = File::new("drain.yaml", &cluster());
    let whole = "{apiVersion: v1, kind: Pod, metadata: {name: w, namespace: ml}, spec: {containers: [{name: c, \
        resources: {limits: {nvidia.com/gpu: 2}}}]}}";
    let args = ["--cluster", file.path(), "--drain", "n1", "--drain", "n2", "-f", "-"];
    let (json, code) = simulate(whole, &args[..6]);
    assert_eq!((code, &json["pods"][2]["name"]), (2, &"w".into()));
    assert_eq!(json["pods"][2]["reason"], "drained in this rehearsal");
    assert_eq!(json["pods"][2]["reasons"][0]["reason"], "NodeDrained");
    let text = stdout(&divvy(&[&["explain", "pod", "ml/w"], &args[..]].concat(), whole));
    assert!(
        text.starts_with("ml/w is pending: 0/2 nodes are available: 2 drained in this"),
        "{text}"
    );
    assert!(text.contains("Next: make room on other nodes") && !text.contains("cordon"), "{text}");
}

#[test]
fn options_that_cannot_be_read_say_what_is_allowed_and_show_an_example() {
    let rules = File::new("rules.yaml", "- {kind: Lab, pods: [{template: 5, count: [a]}]}\n");
    let parts = File::new("parts.yaml", "- {kind: Lab, pods: [{templates: x}]}\n");
    let map = File::new("map.yaml", "{kind: Lab, pods: []}\n");
    let example = "- {kind: Lab, group: example.com, pods: [{template: spec.template, count: spec.replicas}]}";
    for (args, told) in [
        (
            &["--fill=many"][..],
            "'many' for '--fill[=<MOST>]': allowed is a whole number from 1 to 1000000, for example --fill=100",
        ),
        (&["--fill=0"], "allowed is a whole number from 1 to 1000000"),
        (
            &["--replicas=-1"],
            "allowed is a whole number from 0 to 1000000, for example --replicas 12",
        ),
        (&["--add-nodes", "two"], "for example 2=a100-1"),
        (&["--partition", "n1"], "for example a100-1=all-1g.10gb"),
        (
            &["--pods-of", rules.path()],
            "rule 1 (Lab): pods[0]: template and count are the name of a field or a list",
        ),
        (
            &["--pods-of", parts.path()],
            "rule 1 (Lab): pods[0]: unknown field `templates`, expected one of `each`,",
        ),
        (&["--pods-of", parts.path()], example),
        (&["--pods-of", map.path()], "a list of rules is expected, such as "),
        (&["--pods-of", map.path()], example),
    ] {
        let output = divvy(&[&["simulate", "--demo"], args].concat(), "");
        assert!(code_and_error(&output).contains(told), "{args:?}: {}", stderr(&output));
    }
    let cards = divvy(&["mig", "plan", "--model", "A30", "--cards", "lots", "-f", "-"], "");
    let told = "allowed is a whole number from 1 to 1024, for example --cards 4";
    assert!(code_and_error(&cards).contains(told), "{}", stderr(&cards));
}

#[test]
fn a_node_that_is_not_there_is_told_with_those_that_are() {
    for (args, told) in [
        (&["--drain", "moon"][..], "--drain moon: the cluster has no node moon; it has a100-40-1,"),
        (&["--remove-node", "moon"], "--remove-node moon: the cluster has no node moon"),
        (&["--add-nodes", "2=moon"], "--add-nodes 2=moon: the cluster has no node moon"),
        (
            &["--add-nodes", "0=l40s-1"],
            "allowed is a number from 1 to 100000, =, and the name of a node",
        ),
        (&["--add-nodes", "l40s-1"], "allowed is a number from 1 to 100000"),
    ] {
        let output = divvy(&[&["simulate", "--demo"], args].concat(), "");
        assert_eq!(code(&output), 1, "{args:?}");
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
}

#[test]
fn two_strategies_and_two_clusters_are_compared() {
    let output = divvy(&["simulate", "--demo", "--compare", "spread", "-o", "json"], "");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (&json["kind"], &json["sides"][0]["name"]),
        (&"Comparison".into(), &"binpack".into())
    );
    let in_use = |side: usize| json["sides"][side]["summary"]["cardsInUse"].as_u64().unwrap();
    assert!(in_use(0) < in_use(1), "{json}");
    assert!(!json["differences"].as_array().unwrap().is_empty());
    let (first, second) = (File::new("then.yaml", &cluster()), File::new("now.yaml", &cluster()));
    let pods = File::new("pods.yaml", &pod("new", "{gpu-fraction: \"0.5\"}"));
    let args =
        ["simulate", "--cluster", first.path(), "-f", pods.path(), "--compare", second.path()];
    let text = stdout(&divvy(&args, ""));
    let same = "Every pod with a GPU or to be placed has the same place on both sides.\n";
    assert!(text.ends_with(same), "{text}");
    let moved = cluster().replace("\"1:8589934592\"", "\"0:8589934592\"");
    let moved = File::new("moved.yaml", &moved);
    let args = ["simulate", "--cluster", first.path(), "--compare", moved.path()];
    let text = stdout(&divvy(&args, ""));
    assert!(text.contains("1 pod differs:\n") && text.contains("ml/share"), "{text}");
    let typo = divvy(&["simulate", "--demo", "--compare", "spred"], "");
    let told = "--compare spred: there is no such file; allowed are binpack, spread, embedded and the file of a cluster";
    assert!(code_and_error(&typo).contains(told), "{}", stderr(&typo));
    let stdin = divvy(&["simulate", "-f", "-", "--compare", "spread"], "");
    assert!(stderr(&stdin).contains("--compare reads everything twice"), "{}", stderr(&stdin));
}

#[test]
fn what_is_odd_in_a_workload_is_told_once_by_a_comparison() {
    let file = File::new("odd.yaml", &pod("odd", "{gpu_fraction: \"0.5\"}"));
    let output = divvy(&["simulate", "-f", file.path(), "--compare", "spread"], "");
    assert_eq!(stderr(&output).matches("nothing reads it").count(), 1, "{}", stderr(&output));
}

#[test]
fn how_many_more_fit_is_counted_of_examples_and_on_both_sides_of_a_comparison() {
    let demo = divvy(&["simulate", "--demo", "--fill"], "");
    assert!(stdout(&demo).contains(" more of ml/"), "{}", stderr(&demo));
    let json =
        stdout(&divvy(&["simulate", "--demo", "--fill", "--compare", "spread", "-o", "json"], ""));
    let json: Value = serde_json::from_str(&json).unwrap();
    let more = json["more"].as_array().unwrap();
    assert!(more.iter().any(|of| of["more"][0].as_u64() > Some(0)), "{json}");
    let text = stdout(&divvy(&["simulate", "--demo", "--fill", "--compare", "spread"], ""));
    assert!(text.contains("\nMORE-OF "), "{text}");
    let only = divvy(
        &["simulate", "-f", "-", "--replicas", "0", "--fill"],
        &pod("more", "{gpu-fraction: \"0.5\"}"),
    );
    assert!(stdout(&only).contains("80 more of default/more fit: "), "{}", stdout(&only));
    assert_eq!(stderr(&only), "", "that it makes none was asked for");
    let nothing = divvy(&["simulate", "--cluster", "embedded", "--fill"], "");
    assert_eq!(code(&nothing), 1);
    assert!(stderr(&nothing).contains("--fill counts more of what is given"), "{nothing:?}");
}

const POD: &str = "{spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}";

#[test]
fn kinds_of_other_projects_are_placed_as_the_pods_that_they_make() {
    let manifest = format!(
        "{{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {{name: train, namespace: ml}}, spec: \
         {{replicatedJobs: [{{name: workers, replicas: 2, template: {{spec: {{parallelism: 2, template: {POD}}}}}}}]}}}}\n\
         ---\n{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: nightly}}, spec: {{jobTemplate: {{spec: \
         {{template: {POD}}}}}}}}}\n---\n{{apiVersion: batch/v1, kind: Job, metadata: {{name: train-workers-0, \
         namespace: ml, ownerReferences: [{{kind: JobSet, name: train, controller: true}}]}}, spec: {{parallelism: 2, \
         template: {POD}}}}}\n"
    );
    let (json, code) = simulate(&manifest, &[]);
    assert_eq!(code, 0);
    let names: Vec<String> =
        places(&json).iter().map(|p| p.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(
        names,
        ["train-workers-0", "train-workers-1", "train-workers-2", "train-workers-3", "nightly-0"]
    );
}

#[test]
fn a_job_of_volcano_is_placed_as_the_pods_of_its_tasks() {
    let manifest = format!(
        "{{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {{name: train, namespace: ml}}, spec: \
         {{schedulerName: volcano, tasks: [{{name: ps, replicas: 1, template: {POD}}}, {{name: worker, replicas: 2, \
         template: {POD}}}]}}}}\n---\n{{apiVersion: batch/v1, kind: Job, metadata: {{name: train, namespace: ml}}, \
         spec: {{template: {POD}}}}}\n"
    );
    let (json, code) = simulate(&manifest, &[]);
    assert_eq!(code, 0);
    let names: Vec<String> =
        places(&json).iter().map(|p| p.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["train-ps-0", "train-worker-0", "train-worker-1", "train-0"]);
}

#[test]
fn users_say_where_pods_stand_in_kinds_of_their_own() {
    let rules = "- kind: Lab\n  group: example.com\n  pods:\n  - {name: desk, template: spec.desk, count: spec.students}\n";
    let file = File::new("pods-of.yaml", rules);
    let lab = |students: &str| {
        format!(
            "{{apiVersion: example.com/v1, kind: Lab, metadata: {{name: lab}}, spec: {{students: {students}, desk: {POD}}}}}"
        )
    };
    let (json, _) = simulate(&lab("2"), &["--pods-of", file.path()]);
    assert_eq!(json["pods"][1]["name"], "lab-desk-1");
    let (json, code) = simulate(&lab("many"), &["--pods-of", file.path()]);
    assert_eq!(code, 2);
    assert_eq!(json["pods"][0]["reason"], "spec.students: \"many\" is given, expected an integer");
    let broken = File::new("broken.yaml", "- {kind: Lab, pods: [{templates: x}]}\n");
    let output = divvy(&["simulate", "--demo", "--pods-of", broken.path()], "");
    assert!(code_and_error(&output).contains("--pods-of "), "{}", stderr(&output));
}

fn code_and_error(output: &std::process::Output) -> String {
    assert_eq!(code(output), 1);
    stderr(output)
}

#[test]
fn folders_in_folders_are_read_if_that_is_asked() {
    let folder = std::env::temp_dir().join(format!("divvy-folders-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("a/b")).unwrap();
    std::fs::write(folder.join("a/b/pod.yaml"), pod("deep", "{}")).unwrap();
    let flat = divvy(&["simulate", "-f", folder.to_str().unwrap()], "");
    assert!(code_and_error(&flat).contains("-R looks into folders in it too"));
    let deep = divvy(&["simulate", "-R", "-f", folder.to_str().unwrap()], "");
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(code(&deep), 0, "{}", stderr(&deep));
    assert!(stdout(&deep).contains("default/deep"));
}

#[test]
fn a_kustomization_is_made_by_kubectl_or_told_that_it_is_not_there() {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("divvy-kustomize-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("overlays/prod")).unwrap();
    let run = |path: &std::path::Path| {
        program::divvy()
            .args(["simulate", "-k", "overlays/prod"])
            .current_dir(&folder)
            .env("PATH", path)
            .output()
            .unwrap()
    };
    let without = run(&folder);
    assert!(code_and_error(&without).contains("-k overlays/prod: kubectl is not on the PATH"));
    let kubectl = folder.join("kubectl");
    let script = |text: &str| {
        std::fs::write(&kubectl, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&kubectl, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    script(
        "echo \"{apiVersion: v1, kind: Pod, metadata: {name: $1-$2}, spec: {containers: [{name: c}]}}\" | /usr/bin/tr / -",
    );
    let with = run(&folder);
    assert_eq!(code(&with), 0, "{}", stderr(&with));
    assert!(stdout(&with).contains("default/kustomize-overlays-prod"), "{}", stdout(&with));
    script("echo no such folder >&2; exit 1");
    assert!(code_and_error(&run(&folder)).contains("kubectl kustomize failed: no such folder"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_deployment_and_a_job_are_explained_with_all_their_pods() {
    let manifest = format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web, namespace: ml}}, spec: {{replicas: 3, template: {POD}}}}}\n\
         ---\n{{apiVersion: batch/v1, kind: Job, metadata: {{name: big}}, spec: {{parallelism: 2, template: {{spec: {{containers: \
         [{{name: c, resources: {{limits: {{nvidia.com/gpu: 5}}}}}}]}}}}}}}}\n"
    );
    let node = cluster().split("---\n").next().unwrap().to_owned();
    let file = File::new("explained.yaml", &node);
    let on = ["-f", "-", "--cluster", file.path()];
    let web = divvy(&[&["explain", "deployment", "ml/web"], &on[..]].concat(), &manifest);
    assert_eq!(code(&web), 2, "{}", stderr(&web));
    let text = stdout(&web);
    assert!(
        text.starts_with("Deployment ml/web: 2 of 3 pods have a place, 1 pending\n\nPOD "),
        "{text}"
    );
    assert!(text.contains("\nml/web-2 is pending: 0/1 nodes are available"), "{text}");
    let args = [&["explain", "job", "big", "-o", "json"], &on[..]].concat();
    let job: Value = serde_json::from_str(&stdout(&divvy(&args, &manifest))).unwrap();
    assert_eq!((&job["kind"], &job["pending"]), (&"WorkloadExplanation".into(), &2.into()));
    assert_eq!(job["explanation"]["reasons"][0]["reason"], "TooFewCards");
    let none = divvy(&[&["explain", "deploy", "nope"], &on[..]].concat(), &manifest);
    assert!(
        code_and_error(&none).contains("no Deployment default/nope with pods; there is ml/web")
    );
    // In a cluster, by the owners of pods and the hash of a Deployment's ReplicaSets.
    let running =
        cluster().replace("{kind: ReplicaSet, name: o,", "{kind: ReplicaSet, name: web-5d8f,");
    let running = running.replace(
        "name: share, namespace: ml,",
        "name: share, namespace: ml, labels: {pod-template-hash: 5d8f},",
    );
    let live = divvy(&["explain", "deployment", "ml/web", "--cluster", "-"], &running);
    assert!(
        stdout(&live).starts_with("Deployment ml/web: 1 of 1 pod has a place"),
        "{}",
        stderr(&live)
    );
}

#[test]
fn a_resource_quota_keeps_away_what_the_api_server_would_refuse() {
    let quota = |hard: &str| {
        format!(
            "{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: team, namespace: ml}}, spec: {{hard: {{{hard}}}}}}}\n---\n"
        )
    };
    let running = "{apiVersion: v1, kind: Pod, metadata: {name: runs, namespace: ml}, spec: {nodeName: n1, containers: \
        [{name: c, resources: {requests: {cpu: 1500m}, limits: {nvidia.com/gpu: 1}}}]}, status: {phase: Running}}\n---\n";
    let new = |name: &str, namespace: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{containers: [{{name: c, \
             resources: {{requests: {{cpu: 500m}}, limits: {{nvidia.com/gpu: 1}}}}}}]}}}}\n---\n"
        )
    };
    let pods = new("one", "ml") + &new("two", "ml") + &new("other", "web");
    let reasons = |quota: &str| {
        let file =
            File::new(&format!("quota-{}.yaml", quota.len()), &(cluster() + running + quota));
        let output = divvy(&["simulate", "-f", "-", "--cluster", file.path(), "-o", "json"], &pods);
        let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let pods = json["pods"].as_array().unwrap().iter();
        let told =
            pods.map(|p| p["reason"].as_str().unwrap_or("placed").to_owned()).collect::<Vec<_>>();
        (told, stderr(&output))
    };
    let (told, _) = reasons(&quota("requests.nvidia.com/gpu: 2"));
    assert_eq!(told[0], "placed");
    let refused = "ResourceQuota team: requests.nvidia.com/gpu: 1 asked, 2 of 2 used: the API server refuses the pod";
    assert!(told[1].starts_with(refused) && told[1].contains("; ask less"), "{told:?}");
    assert_eq!(told[2], "placed", "another namespace");
    let (told, _) = reasons(&quota("requests.cpu: \"2\", pods: \"50\""));
    assert_eq!(told[0], "placed");
    assert!(told[1].contains("requests.cpu: 500m asked, 2 of 2 used"), "{told:?}");
    let (told, warned) = reasons(&quota("limits.cpu: 1, requests.storage: 5Gi"));
    assert_eq!(told[1], "placed");
    assert!(warned.contains("ResourceQuota ml/team: limits.cpu is not respected"), "{warned}");
    assert!(!warned.contains("storage"), "claims are no pods: {warned}");
}

/// A node with cards of 40 GiB that MIG can divide.
fn a100(name: &str, labels: &str, gpus: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}, \
         nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB, nvidia.com/gpu.memory: \"40960\", {labels}}}}}\n\
         status: {{allocatable: {{{gpus}, cpu: 8, memory: 8Gi, pods: 9}}}}\n---\n"
    )
}

fn asks_slice(name: &str, profile: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{{spec}containers: [{{name: c, \
         resources: {{limits: {{nvidia.com/mig-{profile}: 1}}}}}}]}}}}\n---\n"
    )
}

fn plan(cluster: &str) -> Value {
    let output = divvy(&["mig", "plan", "--cluster", "-", "-o", "json"], cluster);
    serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)))
}

#[test]
fn a_mig_plan_names_no_card_that_may_be_divided_already() {
    let labels = "nvidia.com/gpu.count: \"4\", nvidia.com/gpu.replicas: \"1\", \
                  nvidia.com/mig-1g.5gb.count: \"7\"";
    let node = a100("mixed", labels, "nvidia.com/gpu: 3, nvidia.com/mig-1g.5gb: 7");
    // Three of four cards are whole, and nobody says which.
    let waits = asks_slice("waits", "3g.20gb", "");
    let share = "{apiVersion: v1, kind: Pod, metadata: {name: share, annotations: {gpu-fraction: \"0.5\", \
                 divvy.dev/cards: \"1:21474836480\"}}, spec: {nodeName: mixed, schedulerName: \
                 divvy-scheduler, containers: [{name: c}]}, status: {phase: Running}}\n---\n";
    for pods in [waits.clone(), waits + share] {
        let json = plan(&(node.clone() + &pods));
        assert_eq!(json["nodes"], serde_json::json!([]), "{json:#}");
        let why = "some of its cards are divided already, and nobody says which";
        assert_eq!(json["leftOut"], serde_json::json!([{"node": "mixed", "reason": why}]));
    }
}

#[test]
fn a_mig_plan_says_which_nodes_it_leaves_out() {
    let replicas = "nvidia.com/gpu.count: \"2\", nvidia.com/gpu.replicas: \"4\"";
    let slices = "nvidia.com/gpu.count: \"1\", nvidia.com/mig-1g.5gb.count: \"7\"";
    let cluster = a100("renamed", replicas, "nvidia.com/gpu.shared: 8")
        + &a100("replicated", replicas, "nvidia.com/gpu: 8")
        + &a100("sliced", slices, "nvidia.com/gpu: 0, nvidia.com/mig-1g.5gb: 7")
        + &asks_slice("waits", "3g.20gb", "");
    let json = plan(&cluster);
    let left: Vec<&str> =
        json["leftOut"].as_array().unwrap().iter().map(|n| n["node"].as_str().unwrap()).collect();
    assert_eq!(left, ["renamed", "replicated", "sliced"]);
    assert_eq!(json["leftOut"][2]["reason"], "its GPUs are slices or replicas already");
}

#[test]
fn a_mig_plan_of_many_cards_says_how_few_could_do() {
    let pinned = |at: usize| format!("nodeSelector: {{kubernetes.io/hostname: n{at:02}}}, ");
    let node = |at| a100(&format!("n{at:02}"), "nvidia.com/gpu.count: \"1\"", "nvidia.com/gpu: 1");
    let pod = |at| asks_slice(&format!("p{at:02}"), "1g.5gb", &pinned(at));
    let cluster: String = (0..12).map(|at| node(at) + &pod(at)).collect();
    let output = divvy(&["mig", "plan", "--cluster", "-"], &cluster);
    let first = stdout(&output).lines().next().unwrap_or_default().to_owned();
    assert_eq!(
        first,
        "12 pods get their MIG slices on 12 of 12 free cards; at least 9 are needed."
    );
}

#[test]
fn what_is_suspended_or_described_elsewhere_is_said_to_make_no_pods() {
    let set = |suspend: bool| {
        format!(
            "{{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {{name: s}}, spec: {{suspend: {suspend}, \
             replicatedJobs: [{{name: a, template: {{spec: {{template: {POD}}}}}}}]}}}}\n"
        )
    };
    let suspended = divvy(&["simulate", "-f", "-"], &set(true));
    let told = "JobSet s makes no pods: it is suspended";
    assert!(stderr(&suspended).contains(told), "{}", stderr(&suspended));
    let resumed = divvy(&["simulate", "-f", "-"], &set(false));
    assert!(stdout(&resumed).contains("default/s-a-0"), "{}", stdout(&resumed));
    let job = "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: t}, spec: {}}";
    let by_reference = divvy(&["simulate", "-f", "-"], job);
    let told = "the pods of TrainJob t are described by the runtime that it names";
    assert!(code_and_error(&by_reference).contains(told), "{}", stderr(&by_reference));
}
