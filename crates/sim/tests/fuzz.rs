//! No input panics, whatever it is, from the text to the picture.
#![allow(clippy::unwrap_used)]

use divvy_sim::{EMBEDDED_CLUSTER, Input, Rehearsal, Setup};
use proptest::prelude::*;

/// Reads, places, explains and prints; errors are fine.
fn survive(cluster: Option<&str>, workload: &str) {
    let input = |text: &str| Input { name: "fuzz".to_owned(), text: text.to_owned() };
    let setup =
        Setup { cluster: cluster.map(input), workload: vec![input(workload)], ..Setup::default() };
    let Ok(mut rehearsal) = Rehearsal::load(&setup, &()) else { return };
    if rehearsal.pods.len() > 10_000 {
        return;
    }
    rehearsal.run(&());
    for node in rehearsal.scheduler.ledger().nodes() {
        for card in node.cards() {
            assert!(card.used() <= card.capacity());
        }
    }
    let options = divvy_views::TextOptions {
        wide: true,
        colour: true,
        width: 80,
        ..divvy_views::TextOptions::default()
    };
    let simulation = divvy_views::simulation(&rehearsal.scheduler, &rehearsal.pods);
    let _ = divvy_views::simulation_text(&simulation, options);
    let _ = divvy_views::card_map_svg(&simulation);
    for key in rehearsal.pods.iter().take(20) {
        if let Some(explanation) = divvy_views::explain(&rehearsal.scheduler, key, false) {
            let _ = divvy_views::explanation_text(&explanation, options);
        }
    }
    let _ = divvy_views::top_nodes_text(&divvy_views::top_nodes(&rehearsal.scheduler), options);
    let _ = divvy_views::top_cards_text(&divvy_views::top_cards(&rehearsal.scheduler), options);
    let _ = divvy_views::top_pods_text(&divvy_views::top_pods(&rehearsal.scheduler), options);
}

/// What people and fuzzers put where a value belongs.
fn value() -> impl Strategy<Value = String> {
    let odd = [
        "",
        "null",
        "~",
        "[]",
        "{}",
        "true",
        "yes",
        "0",
        "-1",
        "1",
        "8",
        "0.5",
        "1e-400",
        "1e400",
        ".inf",
        ".nan",
        "\"0.5\"",
        "\"2000\"",
        "\"-2000\"",
        "\"NaN\"",
        "\"1e-9\"",
        "\"٠.٥\"",
        "100m",
        "1Ei",
        "9223372036854775807",
        "18446744073709551616",
        "99999999999999999999999999999999",
        "\"99999999999999999999\"",
        "[a, b]",
        "{a: b}",
        "!!binary x",
        "&a [*a]",
        "|\n  text",
        "\"\\u0000\\u202e\"",
        "999999",
        "0x7fffffffffffffff",
        "NoSchedule",
        "In",
        "Exists",
    ];
    prop_oneof![
        prop::sample::select(odd.to_vec()).prop_map(str::to_owned),
        "[ -~]{0,12}",
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:?}")),
    ]
}

/// A line `key: value` of the text with another value.
fn mutated(text: &'static str) -> impl Strategy<Value = String> {
    let count = text.lines().count();
    prop::collection::vec((0..count, value()), 1..4).prop_map(move |changes| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (at, value) in changes {
            if let Some((key, _)) = lines[at].split_once(": ") {
                lines[at] = format!("{key}: {value}");
            } else {
                lines[at].push_str(&value);
            }
        }
        lines.join("\n")
    })
}

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: ml
  creationTimestamp: \"2026-01-01T00:00:00Z\"
  labels:
    app: x
  annotations:
    gpu-fraction: \"0.5\"
    gpu-fraction-num-devices: \"2\"
    gpu-fraction-container-name: c
    scheduling.run.ai/scheduling-strategy: spread
spec:
  priority: 5
  priorityClassName: high
  nodeName: a100-80-1
  overhead:
    cpu: 100m
  nodeSelector:
    nvidia.com/gpu.present: \"true\"
  tolerations:
  - key: k
    operator: Equal
    value: v
    effect: NoSchedule
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - key: nvidia.com/gpu.memory
            operator: Gt
            values: [\"100\"]
  schedulingGates:
  - name: g
  initContainers:
  - name: i
    restartPolicy: Always
    resources:
      requests:
        cpu: 1
  containers:
  - name: c
    resources:
      limits:
        cpu: 2
        memory: 1Gi
        rdma/nic: 1
      requests:
        nvidia.com/mig-1g.10gb: 1
";

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: d
  annotations:
    scheduling.run.ai/scheduling-strategy: binpack
spec:
  replicas: 3
  template:
    metadata:
      annotations:
        gpu-memory: \"2000\"
    spec:
      containers:
      - name: c
        resources:
          limits:
            ephemeral-storage: 1Gi
";

const BOUND: &str = "\
apiVersion: v1
kind: Node
metadata:
  name: n
  labels:
    nvidia.com/gpu.count: \"2\"
    nvidia.com/gpu.memory: \"40960\"
    nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB
    nvidia.com/gpu.replicas: \"1\"
spec:
  unschedulable: false
  taints:
  - key: k
    value: v
    effect: NoSchedule
status:
  allocatable:
    cpu: \"8\"
    memory: 64Gi
    pods: \"10\"
    nvidia.com/gpu: \"2\"
    nvidia.com/mig-1g.5gb: \"0\"
---
apiVersion: v1
kind: Pod
metadata:
  name: held
  labels:
    runai-gpu-group: x
  annotations:
    gpu-fraction: \"0.5\"
    divvy.dev/cards: \"0:21474836480\"
spec:
  nodeName: n
  containers:
  - name: c
status:
  phase: Running
";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_survived(text in ".{0,200}") {
        survive(Some(&text), &text);
    }

    #[test]
    fn any_pod_is_survived(pod in mutated(POD)) {
        survive(None, &pod);
    }

    #[test]
    fn any_controller_is_survived(text in mutated(DEPLOYMENT)) {
        survive(None, &text);
    }

    #[test]
    fn any_cluster_is_survived(cluster in mutated(BOUND), pod in mutated(POD)) {
        survive(Some(&cluster), &pod);
    }

    #[test]
    fn a_cut_or_spliced_cluster_is_survived(at in 0..EMBEDDED_CLUSTER.len(), splice in ".{0,20}") {
        let mut text = EMBEDDED_CLUSTER.to_owned();
        let at = (at..=text.len()).find(|i| text.is_char_boundary(*i)).unwrap();
        text.insert_str(at, &splice);
        survive(Some(&text), POD);
        survive(Some(&text[..at]), POD);
    }
}
