//! Topology spread constraints.

use super::relations::{enter_selector, other_label};
use super::{TOPOLOGIES, set};
use crate::random::Random;
use serde_json::{Value, json};

pub(super) fn enter_pod(pod: &mut Value, random: &mut Random) {
    let mut constraints = Vec::new();
    for topology in TOPOLOGIES {
        // Two constraints on one topology would have to differ in whenUnsatisfiable.
        if random.once_in(if topology == "missing" { 16 } else { 2 }) {
            constraints.push(constraint(topology, &pod["metadata"]["labels"], random));
        }
    }
    set(pod, &["spec", "topologySpreadConstraints"], constraints.into());
}

fn constraint(topology: &str, labels: &Value, random: &mut Random) -> Value {
    let mut constraint = json!({
        "maxSkew": random.pick(&[1, 1, 1, 2, 3]),
        "topologyKey": topology,
        "whenUnsatisfiable": random.pick(&["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
    });
    enter_selector(&mut constraint, labels, random);
    if random.once_in(3) && constraint["whenUnsatisfiable"] == "DoNotSchedule" {
        constraint["minDomains"] = random.between(1, 4).into();
    }
    for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        match random.below(6) {
            0 => constraint[field] = Value::Null,
            1 | 2 => constraint[field] = random.pick(&["Honor", "Ignore"]).into(),
            _ => {}
        }
    }
    if random.once_in(5) && constraint["labelSelector"].is_object() {
        constraint["matchLabelKeys"] = json!([other_label(&constraint, random)]);
    }
    constraint
}
