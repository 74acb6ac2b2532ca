//! Affinity and anti-affinity between pods.

use super::affinity::{PREFERRED, REQUIRED};
use super::pods::NAMESPACES;
use super::{TOPOLOGIES, set};
use crate::random::Random;
use serde_json::{Value, json};

pub(super) fn enter_pod(pod: &mut Value, random: &mut Random) {
    let labels = pod["metadata"]["labels"].clone();
    for field in ["podAffinity", "podAntiAffinity"] {
        if random.once_in(2) {
            let terms: Vec<Value> =
                (0..random.between(1, 2)).map(|_| term(&labels, random)).collect();
            set(pod, &["spec", "affinity", field, REQUIRED], terms.into());
        }
        if random.once_in(5) {
            let preferred = json!([{"weight": 10, "podAffinityTerm": term(&labels, random)}]);
            set(pod, &["spec", "affinity", field, PREFERRED], preferred);
        }
    }
}

fn term(labels: &Value, random: &mut Random) -> Value {
    let topologies = if random.once_in(4) { &TOPOLOGIES[..] } else { &TOPOLOGIES[..3] };
    let mut term = json!({"topologyKey": random.pick(topologies)});
    enter_selector(&mut term, labels, random);
    if random.once_in(4) {
        let count = random.between(1, 2);
        term["namespaces"] = (0..count).map(|_| random.pick(&NAMESPACES)).collect();
    }
    if random.once_in(4) {
        let by_label = json!({"matchLabels": {"team": random.pick(&["a", "b"])}});
        let by_name = json!({"matchExpressions": [{
            "key": "kubernetes.io/metadata.name", "operator": random.pick(&["In", "NotIn"]),
            "values": [random.pick(&NAMESPACES)],
        }]});
        let all = [json!({}), Value::Null, by_label, by_name];
        term["namespaceSelector"] = all[random.below(all.len())].clone();
    }
    if random.once_in(6) && term["labelSelector"].is_object() {
        let field = random.pick(&["matchLabelKeys", "mismatchLabelKeys"]);
        term[field] = json!([other_label(&term, random)]);
    }
    term
}

/// A label that the selector does not name; the API server takes no other as a label key.
pub(super) fn other_label(term: &Value, random: &mut Random) -> &'static str {
    let named = term["labelSelector"].to_string();
    let other = random.pick(&["app", "tier", "missing"]);
    if named.contains(other) { "missing" } else { other }
}

/// A label selector. Most match some pods, and many the pod whose labels these are.
pub(super) fn enter_selector(term: &mut Value, labels: &Value, random: &mut Random) {
    let (key, values) = random.pick(&super::pods::LABELS);
    if let Some(value) = labels[key].as_str()
        && random.once_in(3)
    {
        term["labelSelector"] = json!({"matchLabels": {key: value}});
        return;
    }
    term["labelSelector"] = match random.below(8) {
        0 => return,
        1 => Value::Null,
        2 => json!({}),
        3..=5 => json!({"matchLabels": {key: random.pick(values)}}),
        _ => {
            let operator = random.pick(&["In", "NotIn", "Exists", "DoesNotExist"]);
            let mut expression = json!({"key": key, "operator": operator});
            if matches!(operator, "In" | "NotIn") {
                expression["values"] = json!([random.pick(values), random.pick(values)]);
            }
            json!({"matchExpressions": [expression]})
        }
    };
}
