//! How many more of a workload would fit.
#![allow(clippy::unwrap_used)]

use divvy_engine::Diagnosis;
use divvy_sim::{Input, More, Rehearsal, Setup};

fn input(text: &str) -> Input {
    Input { name: "test.yaml".to_owned(), text: text.to_owned() }
}

/// Two nodes of two cards.
fn cluster() -> Input {
    let node = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  labels:\n    \
             nvidia.com/gpu.count: \"2\"\n    nvidia.com/gpu.memory: \"40960\"\n\
             status:\n  allocatable: {{cpu: \"32\", memory: 128Gi, pods: \"20\", nvidia.com/gpu: \"2\"}}\n---\n"
        )
    };
    input(&(node("a") + &node("b")))
}

fn pod(name: &str, annotations: &str, limits: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: ml, annotations: {{{annotations}}}}}\n\
         spec: {{containers: [{{name: c, resources: {{limits: {{{limits}}}}}}}]}}\n---\n"
    )
}

fn half(name: &str) -> String {
    pod(name, "gpu-fraction: \"0.5\"", "")
}

fn rehearse(workload: &str, replicas: Option<u32>) -> Rehearsal {
    let setup = Setup {
        cluster: Some(cluster()),
        workload: vec![input(workload)],
        replicas,
        ..Setup::default()
    };
    let mut rehearsal = Rehearsal::load(&setup, &()).unwrap();
    rehearsal.run(&());
    rehearsal
}

/// `kind ns/name ...: 2 on a, 1 on b; reason`.
fn lines(more: &[More]) -> Vec<String> {
    let line = |more: &More| {
        let objects = more.objects.iter().map(|(kind, key)| format!("{kind} {key}"));
        let nodes = more.fill.nodes.iter().map(|(node, count)| format!("{count} on {node}"));
        let (objects, nodes): (Vec<_>, Vec<_>) = (objects.collect(), nodes.collect());
        let why = more.fill.why.as_ref().map_or("and so on".to_owned(), Diagnosis::headline);
        format!("{}: {}; {why}", objects.join(" "), nodes.join(", "))
    };
    more.iter().map(line).collect()
}

#[test]
fn how_many_more_of_each_object_fit_is_counted_for_itself_and_nothing_of_it_stays() {
    let workload = half("h") + &pod("w", "", "nvidia.com/gpu: 1");
    let mut rehearsal = rehearse(&workload, None);
    let held = rehearsal.scheduler.ledger().clone();
    let found = lines(&rehearsal.fill(100, &()));
    assert_eq!(
        found,
        [
            "Pod ml/h: 1 on a, 4 on b; largest free share 0 < 0.5 asked",
            "Pod ml/w: 2 on b; free cards 0 < 1 asked",
        ]
    );
    assert!(*rehearsal.scheduler.ledger() == held);
    assert_eq!(lines(&rehearsal.fill(100, &())), found);
}

#[test]
fn what_is_not_placed_can_be_counted_too() {
    let mut rehearsal = rehearse(&half("h"), Some(0));
    assert_eq!(rehearsal.pods, []);
    assert!(lines(&rehearsal.fill(100, &()))[0].starts_with("Pod ml/h: 4 on a, 4 on b; "));
}

#[test]
fn it_is_counted_only_so_far() {
    let mut rehearsal = rehearse(&pod("p", "", ""), None);
    assert_eq!(lines(&rehearsal.fill(7, &())), ["Pod ml/p: 7 on a; and so on"]);
    let all = lines(&rehearsal.fill(100, &()));
    assert_eq!(all, ["Pod ml/p: 19 on a, 20 on b; no free pod slot"]);
}

#[test]
fn objects_that_ask_the_same_are_counted_once_and_daemon_sets_not_at_all() {
    let daemon = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d, namespace: ml}\n\
        spec: {selector: {}, template: {spec: {containers: [{name: c}]}}}\n";
    let mut rehearsal = rehearse(&(half("h") + &half("i") + &half("j") + daemon), None);
    let found = lines(&rehearsal.fill(100, &()));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("Pod ml/h Pod ml/i Pod ml/j: 1 on a, 4 on b; "), "{found:?}");
}

#[test]
fn of_a_pod_that_can_never_be_placed_no_more_fit() {
    let wrong = pod("w", "gpu-fraction: \"1.5\"", "");
    let found = lines(&rehearse(&wrong, None).fill(100, &()));
    assert!(found[0].starts_with("Pod ml/w: ; ") && found[0].contains("gpu-fraction"), "{found:?}");
}

#[test]
fn no_more_fit_than_a_resource_quota_leaves_room_for() {
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: ml}\n\
        spec: {hard: {pods: 3, requests.nvidia.com/gpu: 2}}\n---\n";
    let found = lines(&rehearse(&(half("h") + quota), None).fill(100, &()));
    assert_eq!(
        found,
        ["Pod ml/h: 2 on a; ResourceQuota q: pods: 1 asked, 3 of 3 used: the API server \
             refuses the pod; ask less, end a pod of the namespace, or raise spec.hard"]
    );
    let whole = pod("w", "", "nvidia.com/gpu: 2");
    let found = lines(&rehearse(&(whole + quota), None).fill(100, &()));
    let why = "requests.nvidia.com/gpu: 2 asked, 2 of 2 used";
    assert!(found[0].starts_with("Pod ml/w: ; ") && found[0].contains(why), "{found:?}");
}
