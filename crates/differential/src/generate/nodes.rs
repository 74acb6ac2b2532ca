//! Nodes.

use super::{Group, NODE_LABELS, Parts, resources, set, taints};
use crate::random::Random;
use serde_json::{Map, Value, json};

pub(super) fn node(parts: &Parts, name: &str, random: &mut Random) -> Value {
    let mut labels = Map::new();
    for (key, values) in NODE_LABELS {
        if !random.once_in(6) {
            let value = if values.is_empty() { name } else { random.pick(values) };
            labels.insert(key.to_owned(), value.into());
        }
    }
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
    });
    if random.once_in(25) {
        // A node that has not reported yet.
        if random.once_in(2) {
            node["status"] = json!({});
        }
        return node;
    }
    if random.once_in(10) {
        // Neither keeps pods off by itself; taints do.
        let ready = random.pick(&["True", "False", "Unknown"]);
        set(&mut node, &["status", "conditions"], json!([{"type": "Ready", "status": ready}]));
        set(&mut node, &["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z".into());
    }
    if parts.has(Group::Resources) && random.once_in(2) {
        enter_gpu_labels(&mut node["metadata"]["labels"], random);
    }
    let list = if random.once_in(6) { "capacity" } else { "allocatable" };
    set(
        &mut node,
        &["status", list],
        resources::of_node(parts.is_on(Group::Resources, random), random),
    );
    if parts.is_on(Group::Taints, random) {
        taints::enter_node(&mut node, random);
    }
    node
}

/// What GPU feature discovery says, which does not change how many GPUs there are to hand out.
fn enter_gpu_labels(labels: &mut Value, random: &mut Random) {
    let all: [(&str, &[&str]); 4] = [
        ("nvidia.com/gpu.count", &["0", "1", "2", "4", "8"]),
        ("nvidia.com/gpu.memory", &["40960", "81559"]),
        ("nvidia.com/gpu.product", &["NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"]),
        ("nvidia.com/gpu.replicas", &["1", "4"]),
    ];
    for (key, values) in all {
        if random.once_in(2) {
            labels[key] = random.pick(values).into();
        }
    }
}
