//! What nodes have and containers ask.

use divvy_testbed::dice::Dice;
use serde_json::{Map, Value, json};

const CPU: [&str; 10] = ["0", "1m", "100m", "0.25", "500m", "0.5", "1", "1500m", "2", "2e0"];
const MEMORY: [&str; 9] =
    ["0", "1", "500m", "100Mi", "104857600", "0.5Gi", "512M", "1Gi", "1073741824500m"];
const STORAGE: [&str; 4] = ["0", "100Mi", "1Gi", "1e9"];
const HUGE: &str = "hugepages-2Mi";
const HUGE_AMOUNTS: [&str; 4] = ["0", "2Mi", "4Mi", "6Mi"];
const COUNTED: [&str; 3] = ["example.com/dev", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"];

/// What a node has for pods.
pub(super) fn of_node(is_small: bool, dice: &mut Dice) -> Value {
    if !is_small {
        return json!({"cpu": "64", "memory": "64Gi", "ephemeral-storage": "64Gi", "pods": "110"});
    }
    let mut list = Map::new();
    let mut enter = |name: &str, amount: &str| list.insert(name.to_owned(), amount.into());
    enter("cpu", dice.of(&["0", "1500m", "2", "2.5", "4", "8", "8", "16"]));
    enter("memory", dice.of(&["1Gi", "2Gi", "2147483648500m", "4G", "8Gi", "16Gi"]));
    enter("pods", dice.of(&["0", "2", "5", "10", "110", "110"]));
    enter("ephemeral-storage", dice.of(&["0", "2Gi", "10G", "64Gi"]));
    if dice.once_in(2) {
        enter(HUGE, dice.of(&["0", "4Mi", "8Mi"]));
    }
    if !dice.once_in(3) {
        enter("example.com/dev", dice.of(&["0", "2", "5", "9"]));
    }
    if !dice.once_in(3) {
        enter("nvidia.com/gpu", dice.of(&["0", "1", "2", "4", "8"]));
    }
    if dice.once_in(3) {
        enter("nvidia.com/mig-1g.5gb", dice.of(&["0", "3", "7"]));
    }
    list.into()
}

/// `resources` of a container.
pub(super) fn of_container(dice: &mut Dice) -> Value {
    let mut requests = Map::new();
    let mut limits = Map::new();
    let plain: [(&str, &[&str]); 3] =
        [("cpu", &CPU), ("memory", &MEMORY), ("ephemeral-storage", &STORAGE)];
    for (name, amounts) in plain {
        let often = if name == "ephemeral-storage" { 4 } else { 2 };
        if !dice.once_in(often) {
            continue;
        }
        let amount = dice.of(amounts);
        match dice.index(4) {
            0 => {
                limits.insert(name.to_owned(), amount.into());
            }
            1 => {
                requests.insert(name.to_owned(), amount.into());
                limits.insert(name.to_owned(), if name == "cpu" { "2" } else { "2Gi" }.into());
            }
            _ => {
                requests.insert(name.to_owned(), amount.into());
            }
        }
    }
    if dice.once_in(6) && (requests.contains_key("cpu") || requests.contains_key("memory")) {
        limits.insert(HUGE.to_owned(), dice.of(&HUGE_AMOUNTS).into());
    }
    for name in COUNTED {
        if dice.once_in(if name == "nvidia.com/gpu" { 4 } else { 8 }) {
            let amount = dice.of(&["0", "1", "1", "2", "3"]);
            limits.insert(name.to_owned(), amount.into());
            if dice.once_in(3) {
                requests.insert(name.to_owned(), amount.into());
            }
        }
    }
    lists(requests, limits, dice)
}

/// `spec.resources`, of the pod as a whole.
pub(super) fn of_pod(dice: &mut Dice) -> Value {
    let mut requests = Map::new();
    let mut limits = Map::new();
    // Large enough for most containers, so that the API server takes it.
    let all: [(&str, &[&str]); 3] = [
        ("cpu", &["2", "3", "4", "4500m", "6"]),
        ("memory", &["2Gi", "3Gi", "4G", "18Gi"]),
        (HUGE, &["6Mi", "12Mi"]),
    ];
    for (name, amounts) in all {
        let amount = dice.of(amounts);
        match dice.index(if name == HUGE { 8 } else { 4 }) {
            0 => {
                limits.insert(name.to_owned(), amount.into());
            }
            1 => {
                requests.insert(name.to_owned(), amount.into());
                limits.insert(name.to_owned(), amount.into());
            }
            2 if name != HUGE => {
                requests.insert(name.to_owned(), amount.into());
            }
            _ => {}
        }
    }
    lists(requests, limits, dice)
}

fn lists(requests: Map<String, Value>, limits: Map<String, Value>, dice: &mut Dice) -> Value {
    let mut resources = json!({});
    for (field, list) in [("requests", requests), ("limits", limits)] {
        if !list.is_empty() || dice.once_in(4) {
            resources[field] = list.into();
        } else if dice.once_in(6) {
            resources[field] = Value::Null;
        }
    }
    resources
}

/// Amounts as a status or overhead has them.
pub(super) fn amounts(dice: &mut Dice) -> Value {
    let mut list = Map::new();
    list.insert("cpu".to_owned(), dice.of(&CPU).into());
    if dice.once_in(2) {
        list.insert("memory".to_owned(), dice.of(&MEMORY).into());
    }
    if dice.once_in(8) {
        list.insert(dice.of(&COUNTED).to_owned(), dice.of(&["1", "2"]).into());
    }
    list.into()
}
