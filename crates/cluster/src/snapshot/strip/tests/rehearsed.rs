//! A rehearsal says the same of a cluster and of its snapshot, to the byte, whatever else the
//! objects of the cluster say.

use super::super::strip;
use super::filled::filled;
use crate::snapshot::{EVERYTHING, SavedCollection};
use divvy_differential::{Topic, generate};
use divvy_sim::{EMBEDDED_CLUSTER, Input, Rehearsal, Setup};
use divvy_testbed::manifests::{GpuNode, cpu_node, pod, with_fraction, with_gpus, with_memory};
use divvy_words::keys;
use serde_json::{Value, json};
use std::sync::LazyLock;

fn saved(object: &Value) -> &'static SavedCollection {
    let is_its = |SavedCollection { resource, .. }: &&SavedCollection| {
        object["kind"] == resource.kind && object["apiVersion"] == resource.api_version
    };
    EVERYTHING.iter().find(is_its).unwrap_or_else(|| panic!("not in a snapshot: {object}"))
}

/// The object, and beside what it has already all that a snapshot leaves out.
fn noisy(object: &Value) -> Value {
    fn add(object: &mut Value, all: &Value, kept: &Value) {
        match (object, all, kept) {
            (Value::Object(object), Value::Object(all), Value::Object(kept)) => {
                for (name, value) in all {
                    match (object.get_mut(name), kept.get(name)) {
                        (None, None) => drop(object.insert(name.clone(), value.clone())),
                        (Some(object), Some(kept)) => add(object, value, kept),
                        _ => {}
                    }
                }
            }
            (Value::Array(objects), Value::Array(all), Value::Array(kept)) => {
                objects.iter_mut().for_each(|object| add(object, &all[0], &kept[0]));
            }
            _ => {}
        }
    }
    static ALL: LazyLock<[(Value, Value); EVERYTHING.len()]> = LazyLock::new(|| {
        EVERYTHING.map(|saved| {
            let all = filled(&saved.resource);
            (all.clone(), strip(&saved, all))
        })
    });
    let saved = saved(object);
    let at = EVERYTHING.iter().position(|other| other == saved).unwrap();
    let (all, kept) = &ALL[at];
    let mut noisy = object.clone();
    add(&mut noisy, all, kept);
    noisy
}

/// All that `simulate`, `explain` and `top` say of a cluster, and how many pods they placed and
/// not.
fn said(objects: &[Value]) -> (String, [usize; 2]) {
    let text = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let cluster = Some(Input { name: "cluster".to_owned(), text });
    let mut rehearsal = match Rehearsal::load(&Setup { cluster, ..Setup::default() }, &()) {
        Ok(rehearsal) => rehearsal,
        Err(why) => return (why.to_string(), [0, 0]),
    };
    rehearsal.run(&());
    let Rehearsal { scheduler, pods, ended, others, running, warnings, .. } = &rehearsal;
    let simulation = divvy_views::simulation(scheduler, pods);
    let placed = [simulation.summary.placed, simulation.summary.pending];
    let explained: Vec<_> =
        pods.iter().map(|p| divvy_views::explain(scheduler, p, false)).collect();
    let text = serde_json::to_string(&(
        simulation,
        explained,
        (
            divvy_views::top_nodes(scheduler),
            divvy_views::top_cards(scheduler),
            divvy_views::top_pods(scheduler),
        ),
        (warnings, format!("{ended:?} {others:?} {running:?}")),
    ));
    (text.unwrap(), placed)
}

/// Rehearses the cluster and its snapshot; gives how many pods were placed and not.
fn rehearse(objects: &[Value]) -> [usize; 2] {
    let noisy: Vec<Value> = objects.iter().map(noisy).collect();
    let of = |objects: &[Value]| -> Vec<Value> {
        objects.iter().map(|object| strip(saved(object), object.clone())).collect()
    };
    let stripped = of(&noisy);
    assert_eq!(stripped, of(objects), "what is left out changes what is kept");
    let (expected, placed) = said(&noisy);
    assert_eq!(said(&stripped).0, expected);
    placed
}

#[test]
fn random_clusters_are_rehearsed_the_same_from_a_snapshot() {
    use Topic::{Affinity, Mixed, PodAffinity, Ports, Resources, Spread, Taints, Volumes};
    for group in [Resources, Taints, Affinity, Ports, PodAffinity, Spread, Volumes, Mixed] {
        let mut sum = [0, 0];
        for seed in 1..=25 {
            let case = generate(group, seed);
            let objects: Vec<Value> = case.objects.into_iter().chain([case.pod]).collect();
            let [placed, pending] = rehearse(&objects);
            sum = [sum[0] + placed, sum[1] + pending];
        }
        assert!(sum[0] > 0 && sum[1] > 0, "{group}: both outcomes are tried, not {sum:?}");
    }
}

/// Objects of YAML, of the kinds that a snapshot has.
fn objects_of(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let items = documents.into_iter().flat_map(|document| match &document["items"] {
        Value::Array(items) => items.clone(),
        _ => vec![document],
    });
    items
        .filter(|object| EVERYTHING.iter().any(|saved| object["kind"] == saved.resource.kind))
        .collect()
}

#[test]
fn the_examples_are_rehearsed_the_same_from_a_snapshot() {
    let examples = [
        include_str!("../../../../../../examples/gpu-memory.yaml"),
        include_str!("../../../../../../examples/gpu-sharing.yaml"),
        include_str!("../../../../../../examples/mixed-team.yaml"),
    ];
    let mut objects = objects_of(EMBEDDED_CLUSTER);
    objects.extend(examples.into_iter().flat_map(objects_of));
    let [placed, _] = rehearse(&objects);
    assert_eq!(placed, 3, "the pods among them");
}

/// Shares with records, KAI's groups and reservations, gates, groups, and what is wrong.
#[test]
fn shared_cards_are_rehearsed_the_same_from_a_snapshot() {
    let ours = |name: &str| pod("ml", name, "divvy-scheduler");
    let bound = |mut pod: Value, node: &str| {
        pod["spec"]["nodeName"] = node.into();
        pod["status"] = json!({"phase": "Running"});
        pod
    };
    let annotated = |mut pod: Value, key: &str, value: &str| {
        pod["metadata"]["annotations"][key] = value.into();
        pod
    };
    let labelled = |mut pod: Value, labels: Value| {
        pod["metadata"]["labels"] = labels;
        pod
    };
    let with_node = |mut pod: Value, node: &str| {
        pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
        pod
    };
    let group = |api: &str, spec: Value| {
        json!({"apiVersion": api, "kind": "PodGroup", "spec": spec,
            "metadata": {"namespace": "ml", "name": "gang"}})
    };
    let half = |name: &str| with_fraction(ours(name), "0.5", 1);
    let kais = |name: &str| {
        let given = annotated(half(name), keys::RECEIVED_TYPE, "Fraction");
        labelled(given, json!({keys::GPU_GROUP: "g"}))
    };
    let reservation = with_gpus(pod(keys::RESERVATION_NAMESPACES[0], "r", "x"), 1);
    let reservation = annotated(reservation, keys::RESERVED_CARD, "GPU-1");
    let mut closed = GpuNode::L40S.node("l40s-1");
    closed["spec"]["taints"] = json!([{"key": keys::UNSETTLED, "effect": "NoSchedule"}]);
    let mut ended = bound(with_gpus(ours("ended"), 2), "a100-1");
    ended["status"]["phase"] = "Succeeded".into();
    let mut refused = bound(with_gpus(ours("refused"), 2), "t4-1");
    refused["status"] = json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message":
        "maximum request size for shared resources is 1; found 2, which is unexpected"});
    let mut gated = half("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/later"}]);
    let mut claims = half("claims");
    claims["spec"]["resourceClaims"] = json!([{"name": "a"}, {"name": "b"}]);
    let mut grouped = ours("grouped");
    grouped["spec"]["schedulingGroup"] = json!({"podGroupName": "gang"});
    let mut first = with_memory(ours("first"), 1000);
    first["spec"]["priorityClassName"] = "high".into();
    let mut resized = bound(ours("resized"), "cpu-1");
    let requests = json!({"requests": {"cpu": "100"}});
    resized["status"]["containerStatuses"] =
        json!([{"name": "main", "resources": requests, "allocatedResources": {"cpu": "2"}}]);
    resized["status"]["conditions"] =
        json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
    let objects = [
        GpuNode { cards: 2, ..GpuNode::A100 }.node("a100-1"),
        GpuNode { replicas: 4, ..GpuNode::T4 }.node("t4-1"),
        closed,
        cpu_node("cpu-1"),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000,
            "metadata": {"name": "high"}}),
        group("scheduling.k8s.io/v1beta1", json!({"schedulingPolicy": {"gang": {"minCount": 2}}})),
        group("scheduling.x-k8s.io/v1alpha1", json!({"minMember": 3})),
        group("scheduling.run.ai/v2alpha2", json!({"minMember": 4})),
        annotated(bound(half("held"), "a100-1"), keys::CARDS, "1:42949672960"),
        bound(kais("kai-1"), "a100-1"),
        bound(kais("kai-2"), "a100-1"),
        bound(labelled(reservation, json!({keys::GPU_GROUP: "g"})), "a100-1"),
        resized,
        half("half"),
        first,
        with_gpus(ours("whole"), 1),
        with_memory(ours("too-large"), 98_304),
        annotated(half("named"), keys::FRACTION_CONTAINER, "nobody"),
        annotated(half("spread"), keys::STRATEGY, "sideways"),
        gated,
        claims,
        grouped,
        labelled(half("plugins"), json!({keys::POD_GROUP_LABELS[0]: "gang"})),
        annotated(half("kais"), keys::POD_GROUP, "gang"),
        with_fraction(pod("ml", "theirs", "default-scheduler"), "0.5", 1),
        ended,
        refused,
        with_node(with_gpus(ours("two-slices"), 2), "t4-1"),
        with_node(with_gpus(ours("one-slice"), 1), "t4-1"),
    ];
    let [placed, pending] = rehearse(&objects);
    assert!(placed >= 3 && pending >= 9, "{placed} {pending}");
    let stripped = objects.each_ref().map(|object| strip(saved(object), object.clone()));
    let told = "a container gets one of its nvidia.com/gpu, 2 asked";
    assert!(said(&stripped).0.contains(told), "the snapshot has what the plugin refused");
}
