//! Nodes.

use super::{NODE_LABELS, Parts, Topic, resources, set, taints};
use divvy_testbed::dice::Dice;
use serde_json::{Map, Value, json};

pub(super) fn node(parts: &Parts, name: &str, dice: &mut Dice) -> Value {
    let mut labels = Map::new();
    for (key, values) in NODE_LABELS {
        if !dice.once_in(6) {
            let value = if values.is_empty() { name } else { dice.of(values) };
            labels.insert(key.to_owned(), value.into());
        }
    }
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
    });
    if dice.once_in(25) {
        // A node that has not reported yet.
        if dice.once_in(2) {
            node["status"] = json!({});
        }
        return node;
    }
    if dice.once_in(10) {
        // Neither keeps pods off by itself; taints do.
        let ready = dice.of(&["True", "False", "Unknown"]);
        set(&mut node, &["status", "conditions"], json!([{"type": "Ready", "status": ready}]));
        set(&mut node, &["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z".into());
    }
    if parts.has(Topic::Resources) && dice.once_in(2) {
        enter_gpu_labels(&mut node["metadata"]["labels"], dice);
    }
    let list = if dice.once_in(6) { "capacity" } else { "allocatable" };
    set(
        &mut node,
        &["status", list],
        resources::of_node(parts.is_on(Topic::Resources, dice), dice),
    );
    if parts.is_on(Topic::Taints, dice) {
        taints::enter_node(&mut node, dice);
    }
    node
}

/// What GPU feature discovery says, which does not change how many GPUs there are to hand out.
fn enter_gpu_labels(labels: &mut Value, dice: &mut Dice) {
    let all: [(&str, &[&str]); 4] = [
        ("nvidia.com/gpu.count", &["0", "1", "2", "4", "8"]),
        ("nvidia.com/gpu.memory", &["40960", "81559"]),
        ("nvidia.com/gpu.product", &["NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"]),
        ("nvidia.com/gpu.replicas", &["1", "4"]),
    ];
    for (key, values) in all {
        if dice.once_in(2) {
            labels[key] = dice.of(values).into();
        }
    }
}
