//! Taints, tolerations and cordon.

use super::set;
use divvy_testbed::dice::Dice;
use serde_json::{Value, json};

const KEYS: [&str; 4] =
    ["gpu", "dedicated", "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"];
const VALUES: [&str; 3] = ["", "a", "b"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn enter_node(node: &mut Value, dice: &mut Dice) {
    let count = dice.index(4);
    let taints: Vec<Value> = (0..count).map(|_| taint(dice)).collect();
    if count > 0 {
        set(node, &["spec", "taints"], taints.into());
    }
    match dice.index(6) {
        0 => set(node, &["spec", "unschedulable"], true.into()),
        1 => set(node, &["spec", "unschedulable"], false.into()),
        2 => set(node, &["spec", "unschedulable"], Value::Null),
        _ => {}
    }
}

fn taint(dice: &mut Dice) -> Value {
    let mut taint = json!({"key": dice.of(&KEYS), "effect": dice.of(&EFFECTS)});
    match dice.index(4) {
        0 => taint["value"] = Value::Null,
        1 => {}
        _ => taint["value"] = dice.of(&VALUES).into(),
    }
    taint
}

pub(super) fn enter_pod(pod: &mut Value, dice: &mut Dice) {
    let count = dice.index(4);
    let tolerations: Vec<Value> = (0..count).map(|_| toleration(dice)).collect();
    if count > 0 || dice.once_in(4) {
        set(pod, &["spec", "tolerations"], tolerations.into());
    }
}

fn toleration(dice: &mut Dice) -> Value {
    let mut toleration = json!({});
    if !dice.once_in(8) {
        toleration["key"] = dice.of(&KEYS).into();
    }
    if toleration.get("key").is_none() || dice.once_in(3) {
        toleration["operator"] = "Exists".into();
    } else {
        if dice.once_in(2) {
            toleration["operator"] = dice.of(&["Equal", ""]).into();
        }
        if !dice.once_in(3) {
            toleration["value"] = dice.of(&VALUES).into();
        }
    }
    if !dice.once_in(3) {
        toleration["effect"] = dice.of(&EFFECTS).into();
        if toleration["effect"] == "NoExecute" && dice.once_in(2) {
            toleration["tolerationSeconds"] = dice.of(&[0, 300]).into();
        }
    }
    toleration
}
