//! What nodes have and containers ask.

use crate::random::Random;
use serde_json::{Map, Value, json};

const CPU: [&str; 10] = ["0", "1m", "100m", "0.25", "500m", "0.5", "1", "1500m", "2", "2e0"];
const MEMORY: [&str; 9] =
    ["0", "1", "500m", "100Mi", "104857600", "0.5Gi", "512M", "1Gi", "1073741824500m"];
const STORAGE: [&str; 4] = ["0", "100Mi", "1Gi", "1e9"];
const HUGE: &str = "hugepages-2Mi";
const HUGE_AMOUNTS: [&str; 4] = ["0", "2Mi", "4Mi", "6Mi"];
const COUNTED: [&str; 3] = ["example.com/dev", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"];

/// What a node has for pods.
pub(super) fn of_node(is_small: bool, random: &mut Random) -> Value {
    if !is_small {
        return json!({"cpu": "64", "memory": "64Gi", "ephemeral-storage": "64Gi", "pods": "110"});
    }
    let mut list = Map::new();
    let mut enter = |name: &str, amount: &str| list.insert(name.to_owned(), amount.into());
    enter("cpu", random.pick(&["0", "1500m", "2", "2.5", "4", "8", "8", "16"]));
    enter("memory", random.pick(&["1Gi", "2Gi", "2147483648500m", "4G", "8Gi", "16Gi"]));
    enter("pods", random.pick(&["0", "2", "5", "10", "110", "110"]));
    enter("ephemeral-storage", random.pick(&["0", "2Gi", "10G", "64Gi"]));
    if random.once_in(2) {
        enter(HUGE, random.pick(&["0", "4Mi", "8Mi"]));
    }
    if !random.once_in(3) {
        enter("example.com/dev", random.pick(&["0", "2", "5", "9"]));
    }
    if !random.once_in(3) {
        enter("nvidia.com/gpu", random.pick(&["0", "1", "2", "4", "8"]));
    }
    if random.once_in(3) {
        enter("nvidia.com/mig-1g.5gb", random.pick(&["0", "3", "7"]));
    }
    list.into()
}

/// `resources` of a container.
pub(super) fn of_container(random: &mut Random) -> Value {
    let mut requests = Map::new();
    let mut limits = Map::new();
    let plain: [(&str, &[&str]); 3] =
        [("cpu", &CPU), ("memory", &MEMORY), ("ephemeral-storage", &STORAGE)];
    for (name, amounts) in plain {
        let often = if name == "ephemeral-storage" { 4 } else { 2 };
        if !random.once_in(often) {
            continue;
        }
        let amount = random.pick(amounts);
        match random.below(4) {
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
    if random.once_in(6) && (requests.contains_key("cpu") || requests.contains_key("memory")) {
        limits.insert(HUGE.to_owned(), random.pick(&HUGE_AMOUNTS).into());
    }
    for name in COUNTED {
        if random.once_in(if name == "nvidia.com/gpu" { 4 } else { 8 }) {
            let amount = random.pick(&["0", "1", "1", "2", "3"]);
            limits.insert(name.to_owned(), amount.into());
            if random.once_in(3) {
                requests.insert(name.to_owned(), amount.into());
            }
        }
    }
    lists(requests, limits, random)
}

/// `spec.resources`, of the pod as a whole.
pub(super) fn of_pod(random: &mut Random) -> Value {
    let mut requests = Map::new();
    let mut limits = Map::new();
    // Large enough for most containers, so that the API server takes it.
    let all: [(&str, &[&str]); 3] = [
        ("cpu", &["2", "3", "4", "4500m", "6"]),
        ("memory", &["2Gi", "3Gi", "4G", "18Gi"]),
        (HUGE, &["6Mi", "12Mi"]),
    ];
    for (name, amounts) in all {
        let amount = random.pick(amounts);
        match random.below(if name == HUGE { 8 } else { 4 }) {
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
    lists(requests, limits, random)
}

fn lists(requests: Map<String, Value>, limits: Map<String, Value>, random: &mut Random) -> Value {
    let mut resources = json!({});
    for (field, list) in [("requests", requests), ("limits", limits)] {
        if !list.is_empty() || random.once_in(4) {
            resources[field] = list.into();
        } else if random.once_in(6) {
            resources[field] = Value::Null;
        }
    }
    resources
}

/// Amounts as a status or overhead has them.
pub(super) fn amounts(random: &mut Random) -> Value {
    let mut list = Map::new();
    list.insert("cpu".to_owned(), random.pick(&CPU).into());
    if random.once_in(2) {
        list.insert("memory".to_owned(), random.pick(&MEMORY).into());
    }
    if random.once_in(8) {
        list.insert(random.pick(&COUNTED).to_owned(), random.pick(&["1", "2"]).into());
    }
    list.into()
}
