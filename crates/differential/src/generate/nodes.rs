//! Nodes.

use super::{Group, NODE_LABELS, resources, set, taints};
use crate::random::Random;
use serde_json::{Map, Value, json};

pub(super) fn node(group: Group, name: &str, random: &mut Random) -> Value {
    let mut labels = Map::new();
    for (key, values) in NODE_LABELS {
        if !random.once_in(5) {
            let value = if values.is_empty() { name } else { random.pick(values) };
            labels.insert(key.to_owned(), value.into());
        }
    }
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
    });
    if random.once_in(10) {
        // A node that has not reported yet.
        if random.once_in(2) {
            node["status"] = json!({});
        }
        return node;
    }
    let list = if random.once_in(6) { "capacity" } else { "allocatable" };
    set(&mut node, &["status", list], resources::of_node(group, random));
    if group.has(Group::Taints, random) || (group == Group::Spread && random.once_in(3)) {
        taints::enter_node(&mut node, random);
    }
    node
}
