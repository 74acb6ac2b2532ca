//! Topology spread constraints.

use super::relations::{enter_selector, other_label};
use super::{TOPOLOGIES, set};
use divvy_testbed::dice::Dice;
use serde_json::{Value, json};

pub(super) fn enter_pod(pod: &mut Value, dice: &mut Dice) {
    let mut constraints = Vec::new();
    for topology in TOPOLOGIES {
        // Two constraints on one topology would have to differ in whenUnsatisfiable.
        if dice.once_in(if topology == "missing" { 16 } else { 2 }) {
            constraints.push(constraint(topology, &pod["metadata"]["labels"], dice));
        }
    }
    set(pod, &["spec", "topologySpreadConstraints"], constraints.into());
}

fn constraint(topology: &str, labels: &Value, dice: &mut Dice) -> Value {
    let mut constraint = json!({
        "maxSkew": dice.of(&[1, 1, 1, 2, 3]),
        "topologyKey": topology,
        "whenUnsatisfiable": dice.of(&["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
    });
    enter_selector(&mut constraint, labels, dice);
    if dice.once_in(3) && constraint["whenUnsatisfiable"] == "DoNotSchedule" {
        constraint["minDomains"] = dice.between(1, 4).into();
    }
    for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        match dice.index(6) {
            0 => constraint[field] = Value::Null,
            1 | 2 => constraint[field] = dice.of(&["Honor", "Ignore"]).into(),
            _ => {}
        }
    }
    if dice.once_in(5) && constraint["labelSelector"].is_object() {
        constraint["matchLabelKeys"] = json!([other_label(&constraint, dice)]);
    }
    constraint
}
