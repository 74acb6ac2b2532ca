//! Affinity and anti-affinity between pods.

use super::affinity::{PREFERRED, REQUIRED};
use super::pods::NAMESPACES;
use super::{TOPOLOGIES, set};
use divvy_testbed::dice::Dice;
use serde_json::{Value, json};

pub(super) fn enter_pod(pod: &mut Value, dice: &mut Dice) {
    let labels = pod["metadata"]["labels"].clone();
    for field in ["podAffinity", "podAntiAffinity"] {
        if dice.once_in(2) {
            let terms: Vec<Value> = (0..dice.between(1, 2)).map(|_| term(&labels, dice)).collect();
            set(pod, &["spec", "affinity", field, REQUIRED], terms.into());
        }
        if dice.once_in(5) {
            let preferred = json!([{"weight": 10, "podAffinityTerm": term(&labels, dice)}]);
            set(pod, &["spec", "affinity", field, PREFERRED], preferred);
        }
    }
}

fn term(labels: &Value, dice: &mut Dice) -> Value {
    let topologies = if dice.once_in(4) { &TOPOLOGIES[..] } else { &TOPOLOGIES[..3] };
    let mut term = json!({"topologyKey": dice.of(topologies)});
    enter_selector(&mut term, labels, dice);
    if dice.once_in(4) {
        let count = dice.between(1, 2);
        term["namespaces"] = (0..count).map(|_| dice.of(&NAMESPACES)).collect();
    }
    if dice.once_in(4) {
        let by_label = json!({"matchLabels": {"team": dice.of(&["a", "b"])}});
        let by_name = json!({"matchExpressions": [{
            "key": "kubernetes.io/metadata.name", "operator": dice.of(&["In", "NotIn"]),
            "values": [dice.of(&NAMESPACES)],
        }]});
        let all = [json!({}), Value::Null, by_label, by_name];
        term["namespaceSelector"] = all[dice.index(all.len())].clone();
    }
    if dice.once_in(6) && term["labelSelector"].is_object() {
        let field = dice.of(&["matchLabelKeys", "mismatchLabelKeys"]);
        term[field] = json!([other_label(&term, dice)]);
    }
    term
}

/// A label that the selector does not name; the API server takes no other as a label key.
pub(super) fn other_label(term: &Value, dice: &mut Dice) -> &'static str {
    let named = term["labelSelector"].to_string();
    let other = dice.of(&["app", "tier", "missing"]);
    if named.contains(other) { "missing" } else { other }
}

/// A label selector. Most match some pods, and many the pod whose labels these are.
pub(super) fn enter_selector(term: &mut Value, labels: &Value, dice: &mut Dice) {
    let (key, values) = dice.of(&super::pods::LABELS);
    if let Some(value) = labels[key].as_str()
        && dice.once_in(3)
    {
        term["labelSelector"] = json!({"matchLabels": {key: value}});
        return;
    }
    term["labelSelector"] = match dice.index(8) {
        0 => return,
        1 => Value::Null,
        2 => json!({}),
        3..=5 => json!({"matchLabels": {key: dice.of(values)}}),
        _ => {
            let operator = dice.of(&["In", "NotIn", "Exists", "DoesNotExist"]);
            let mut expression = json!({"key": key, "operator": operator});
            if matches!(operator, "In" | "NotIn") {
                expression["values"] = json!([dice.of(values), dice.of(values)]);
            }
            json!({"matchExpressions": [expression]})
        }
    };
}
