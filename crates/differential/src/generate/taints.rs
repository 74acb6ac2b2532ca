//! Taints, tolerations and cordon.

use super::set;
use crate::random::Random;
use serde_json::{Value, json};

const KEYS: [&str; 4] =
    ["gpu", "dedicated", "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"];
const VALUES: [&str; 3] = ["", "a", "b"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn enter_node(node: &mut Value, random: &mut Random) {
    let count = random.below(4);
    let taints: Vec<Value> = (0..count).map(|_| taint(random)).collect();
    if count > 0 {
        set(node, &["spec", "taints"], taints.into());
    }
    match random.below(6) {
        0 => set(node, &["spec", "unschedulable"], true.into()),
        1 => set(node, &["spec", "unschedulable"], false.into()),
        2 => set(node, &["spec", "unschedulable"], Value::Null),
        _ => {}
    }
}

fn taint(random: &mut Random) -> Value {
    let mut taint = json!({"key": random.pick(&KEYS), "effect": random.pick(&EFFECTS)});
    match random.below(4) {
        0 => taint["value"] = Value::Null,
        1 => {}
        _ => taint["value"] = random.pick(&VALUES).into(),
    }
    taint
}

pub(super) fn enter_pod(pod: &mut Value, random: &mut Random) {
    let count = random.below(4);
    let tolerations: Vec<Value> = (0..count).map(|_| toleration(random)).collect();
    if count > 0 || random.once_in(4) {
        set(pod, &["spec", "tolerations"], tolerations.into());
    }
}

fn toleration(random: &mut Random) -> Value {
    let mut toleration = json!({});
    if !random.once_in(8) {
        toleration["key"] = random.pick(&KEYS).into();
    }
    if toleration.get("key").is_none() || random.once_in(3) {
        toleration["operator"] = "Exists".into();
    } else {
        if random.once_in(2) {
            toleration["operator"] = random.pick(&["Equal", ""]).into();
        }
        if !random.once_in(3) {
            toleration["value"] = random.pick(&VALUES).into();
        }
    }
    if !random.once_in(3) {
        toleration["effect"] = random.pick(&EFFECTS).into();
        if toleration["effect"] == "NoExecute" && random.once_in(2) {
            toleration["tolerationSeconds"] = random.pick(&[0, 300]).into();
        }
    }
    toleration
}
