//! Node selector, node affinity and node name.

use super::{NODE_LABELS, set};
use crate::random::Random;
use serde_json::{Map, Value, json};

pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn enter_pod(pod: &mut Value, nodes: &[String], random: &mut Random) {
    if random.once_in(3) {
        set(pod, &["spec", "nodeSelector"], selector(nodes, random));
    }
    if random.once_in(16) {
        let name = random.pick(&[0, 1, 2]);
        let name = nodes.get(name).map_or("elsewhere", String::as_str);
        set(pod, &["spec", "nodeName"], name.into());
    }
    if random.once_in(2) {
        let terms: Vec<Value> = (0..random.between(1, 3)).map(|_| term(nodes, random)).collect();
        let required = json!({"nodeSelectorTerms": terms});
        set(pod, &["spec", "affinity", "nodeAffinity", REQUIRED], required);
    }
    if random.once_in(4) {
        let preferred =
            json!([{"weight": random.between(1, 100), "preference": term(nodes, random)}]);
        set(pod, &["spec", "affinity", "nodeAffinity", PREFERRED], preferred);
    }
}

fn selector(nodes: &[String], random: &mut Random) -> Value {
    let mut selector = Map::new();
    for _ in 0..random.between(0, 2) {
        let (key, value) = label(nodes, random);
        selector.insert(key.to_owned(), value.into());
    }
    selector.into()
}

/// A label that nodes have, with a value that some may have.
fn label(nodes: &[String], random: &mut Random) -> (&'static str, String) {
    let (key, values) = random.pick(&NODE_LABELS);
    let value = match values {
        [] => nodes[random.below(nodes.len())].clone(),
        values => random.pick(values).to_owned(),
    };
    (key, value)
}

pub(super) fn term(nodes: &[String], random: &mut Random) -> Value {
    let mut term = json!({});
    if !random.once_in(6) {
        let expressions: Vec<Value> =
            (0..random.between(0, 2)).map(|_| expression(nodes, random)).collect();
        term["matchExpressions"] = expressions.into();
    }
    if random.once_in(4) {
        let name = nodes[random.below(nodes.len())].as_str();
        let name = if random.once_in(6) { "elsewhere" } else { name };
        term["matchFields"] = json!([{
            "key": "metadata.name", "operator": random.pick(&["In", "NotIn"]), "values": [name],
        }]);
    }
    term
}

fn expression(nodes: &[String], random: &mut Random) -> Value {
    let operator = random.pick(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
    let (key, value) = label(nodes, random);
    let key = if random.once_in(8) { "missing" } else { key };
    match operator {
        "In" | "NotIn" => {
            let mut values = vec![value];
            while random.once_in(3) {
                values.push(label(nodes, random).1);
            }
            json!({"key": key, "operator": operator, "values": values})
        }
        "Gt" | "Lt" => {
            let value = random.pick(&["0", "4", "5", "05", "10"]);
            json!({"key": random.pick(&["size", key]), "operator": operator, "values": [value]})
        }
        _ => json!({"key": key, "operator": operator}),
    }
}
