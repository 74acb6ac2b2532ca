//! Input that somebody made to hurt.

use crate::arena::{Arena, path, pod};
use crate::scheduler::Divvy;
use divvy_testbed::manifests::{GpuNode, cpu_node, with_fraction, with_gpus, with_memory};
use serde_json::{Value, json};

/// What the API server takes at most of annotations, keys and values together.
const ANNOTATIONS: usize = 256 * 1024;

fn annotated(name: &str, key: &str, value: &str) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["annotations"][key] = json!(value);
    pod
}

fn asking(name: &str, resource: &str, amount: &str) -> Value {
    let mut pod = pod(name);
    let resources = &mut pod["spec"]["containers"][0]["resources"];
    resources["limits"][resource] = json!(amount);
    resources["requests"] = json!({});
    pod
}

/// Pods that the API server takes; it may refuse some of them in another version.
fn pods() -> Vec<Value> {
    let long = |count: usize| "9".repeat(count);
    let mut pods = vec![
        annotated("big-note", "note", &"x".repeat(ANNOTATIONS - "note".len())),
        annotated("long-fraction", "gpu-fraction", &format!("0.{}", long(200_000))),
        annotated("long-memory", "gpu-memory", &long(200_000)),
        annotated("tiny-fraction", "gpu-fraction", "1e-300"),
        annotated("arabic-fraction", "gpu-fraction", "\u{660}.\u{665}"),
        annotated("own-record", "divvy.dev/cards", &"0:1,".repeat(50_000)),
        annotated("emoji", "gpu-memory", "\u{1f980}\u{202e}\u{0}\u{7f}\u{1b}[2J"),
        annotated("newlines", "gpu-fraction", "0.5\n\n\r\n0.5"),
        asking("all-cpu", "cpu", "9223372036854775807"),
        asking("all-memory", "memory", "9223372036854775807"),
        asking("large-memory", "memory", "8191Pi"),
        asking("nano-cpu", "cpu", "1n"),
        asking("all-gpus", "nvidia.com/gpu", "9223372036854775807"),
        asking("odd-resource", "example.com/\u{61}.b-c_d", "9223372036854775807"),
        with_memory(pod("all-gpu-memory"), u64::MAX),
        with_fraction(pod("many-cards"), "0.5", u32::MAX),
    ];
    // As long as a name may be.
    pods.push(with_gpus(pod(&format!("{}.{}", "n".repeat(126), "m".repeat(126))), 100_000));
    let terms = |count: usize, term: fn(usize) -> Value| -> Value {
        (0..count).map(term).collect::<Vec<_>>().into()
    };
    let mut many = pod("many-node-terms");
    let required = json!({"nodeSelectorTerms": terms(3000, |i| json!({"matchExpressions": [
        {"key": format!("k{i}"), "operator": "In", "values": ["a", "b", "c"]},
    ]}))});
    many["spec"]["affinity"] =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    pods.push(many);
    for kind in ["podAffinity", "podAntiAffinity"] {
        let mut many = pod(&format!("many-{}", kind.to_lowercase()));
        let term = |i: usize| {
            json!({
                "topologyKey": "kubernetes.io/hostname", "namespaceSelector": {},
                "labelSelector": {"matchLabels": {"app": format!("a{i}")}},
            })
        };
        many["spec"]["affinity"] =
            json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms(3000, term)}});
        pods.push(many);
    }
    let mut many = pod("many-spreads");
    many["spec"]["topologySpreadConstraints"] = terms(2000, |i| {
        json!({
            "maxSkew": 1, "topologyKey": format!("k{i}"), "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        })
    });
    pods.push(many);
    let mut many = pod("many-tolerations");
    many["spec"]["tolerations"] =
        terms(5000, |i| json!({"key": format!("k{i}"), "operator": "Exists"}));
    pods.push(many);
    let mut many = pod("many-containers");
    many["spec"]["containers"] =
        terms(2000, |i| json!({"name": format!("c{i}"), "image": "example.com/main:1"}));
    pods.push(many);
    let mut many = pod("many-ports");
    many["spec"]["containers"][0]["ports"] =
        terms(5000, |i| json!({"containerPort": i + 1, "hostPort": i + 1}));
    pods.push(many);
    pods
}

/// Nodes with labels that nobody should believe.
fn nodes() -> Vec<Value> {
    let label = |name: &str, key: &str, value: &str| {
        let mut node = GpuNode::T4.node(name);
        node["metadata"]["labels"][format!("nvidia.com/gpu.{key}")] = json!(value);
        // Whatever it is, no pod of the test is to land there.
        node["spec"]["taints"] = json!([{"key": "hostile", "effect": "NoSchedule"}]);
        node
    };
    let mut many = cpu_node("many-labels");
    for i in 0..4000 {
        many["metadata"]["labels"][format!("example.com/l{i}")] = json!("x");
    }
    let taint = |i: usize| json!({"key": format!("t{i}"), "effect": "NoSchedule"});
    many["spec"]["taints"] = (0..4000).map(taint).collect::<Vec<_>>().into();
    let mut absurd = label("absurd", "count", "8");
    for resource in ["cpu", "memory", "pods", "nvidia.com/gpu", "example.com/x"] {
        absurd["status"]["allocatable"][resource] = json!("9223372036854775807");
    }
    vec![
        label("count-huge", "count", "99999999999999999999"),
        label("count-words", "count", "eight"),
        label("memory-zero", "memory", "0"),
        label("memory-huge", "memory", "18446744073709551615"),
        label("replicas-huge", "replicas", "18446744073709551615"),
        many,
        absurd,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_pods_and_nodes_neither_stop_divvy_nor_hold_up_the_others() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(GpuNode::A100, "a100", 1).await;
    let mut divvy = Divvy::start(&arena).await;
    let mut refused = Vec::new();
    let hostile = nodes().into_iter().chain(pods());
    for object in hostile {
        if let Err(why) = arena.api.create(&object).await {
            refused.push(why.to_string());
        }
    }
    assert!(refused.len() < 8, "too many do not even reach divvy: {refused:#?}");
    let half = |i| with_fraction(pod(&format!("half-{i}")), "0.5", 1);
    arena.create_all((0..16).map(half).collect()).await;
    for i in 0..16 {
        arena.bound(&format!("half-{i}")).await;
    }
    assert_eq!(divvy.process.exited(), None);
    // From nothing but the API, as after a crash.
    drop(divvy);
    arena.end("half-7").await;
    let mut divvy = Divvy::start(&arena).await;
    arena.create(&half(16)).await;
    arena.bound("half-16").await;
    assert_eq!(divvy.process.exited(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_at_the_limit_leave_the_pod_valid() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(GpuNode::A100, "a100", 1).await;
    let _divvy = Divvy::start(&arena).await;
    // The record would not fit in beside these.
    let mut full = with_fraction(pod("full"), "0.5", 1);
    let used = "gpu-fraction0.5note".len();
    full["metadata"]["annotations"]["note"] = json!("x".repeat(ANNOTATIONS - used));
    arena.create(&full).await;
    arena.create(&with_fraction(pod("next"), "0.5", 1)).await;
    arena.bound("next").await;
    arena.said("full", "leave no room for divvy.dev/cards").await;
    // Bound, it could not even say that it runs.
    let phase = json!({"status": {"message": "still alive"}});
    arena.api.patch(&format!("{}/status", path("full")), &phase).await.unwrap();
    arena.check().await;
}
