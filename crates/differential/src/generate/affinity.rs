//! Node selector, node affinity and node name.

use super::{NODE_LABELS, set};
use divvy_testbed::dice::Dice;
use serde_json::{Map, Value, json};

pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn enter_pod(pod: &mut Value, nodes: &[String], dice: &mut Dice) {
    if dice.once_in(3) {
        set(pod, &["spec", "nodeSelector"], selector(nodes, dice));
    }
    if dice.once_in(16) {
        let name = dice.of(&[0, 1, 2]);
        let name = nodes.get(name).map_or("elsewhere", String::as_str);
        set(pod, &["spec", "nodeName"], name.into());
    }
    if dice.once_in(2) {
        let terms: Vec<Value> = (0..dice.between(1, 3)).map(|_| term(nodes, dice)).collect();
        let required = json!({"nodeSelectorTerms": terms});
        set(pod, &["spec", "affinity", "nodeAffinity", REQUIRED], required);
    }
    if dice.once_in(4) {
        let preferred = json!([{"weight": dice.between(1, 100), "preference": term(nodes, dice)}]);
        set(pod, &["spec", "affinity", "nodeAffinity", PREFERRED], preferred);
    }
}

fn selector(nodes: &[String], dice: &mut Dice) -> Value {
    let mut selector = Map::new();
    for _ in 0..dice.between(0, 2) {
        let (key, value) = label(nodes, dice);
        selector.insert(key.to_owned(), value.into());
    }
    selector.into()
}

/// A label that nodes have, with a value that some may have.
fn label(nodes: &[String], dice: &mut Dice) -> (&'static str, String) {
    let (key, values) = dice.of(&NODE_LABELS);
    let value = match values {
        [] => nodes[dice.index(nodes.len())].clone(),
        values => dice.of(values).to_owned(),
    };
    (key, value)
}

pub(super) fn term(nodes: &[String], dice: &mut Dice) -> Value {
    let mut term = json!({});
    if !dice.once_in(6) {
        let expressions: Vec<Value> =
            (0..dice.between(0, 2)).map(|_| expression(nodes, dice)).collect();
        term["matchExpressions"] = expressions.into();
    }
    if dice.once_in(4) {
        let name = nodes[dice.index(nodes.len())].as_str();
        let name = if dice.once_in(6) { "elsewhere" } else { name };
        term["matchFields"] = json!([{
            "key": "metadata.name", "operator": dice.of(&["In", "NotIn"]), "values": [name],
        }]);
    }
    term
}

fn expression(nodes: &[String], dice: &mut Dice) -> Value {
    let operator = dice.of(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
    let (key, value) = label(nodes, dice);
    let key = if dice.once_in(8) { "missing" } else { key };
    match operator {
        "In" | "NotIn" => {
            let mut values = vec![value];
            while dice.once_in(3) {
                values.push(label(nodes, dice).1);
            }
            json!({"key": key, "operator": operator, "values": values})
        }
        "Gt" | "Lt" => {
            let value = dice.of(&["0", "4", "5", "05", "10"]);
            json!({"key": dice.of(&["size", key]), "operator": operator, "values": [value]})
        }
        _ => json!({"key": key, "operator": operator}),
    }
}
