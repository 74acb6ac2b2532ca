//! What the kubelet says of a bound pod.

use super::{resources, set};
use divvy_testbed::dice::Dice;
use serde_json::{Value, json};

pub(super) fn enter(pod: &mut Value, dice: &mut Dice) {
    let phase = dice.of(&["", "Pending", "Running", "Running", "Running", "Succeeded", "Failed"]);
    if !phase.is_empty() {
        set(pod, &["status", "phase"], phase.into());
    }
    if dice.once_in(8) {
        set(pod, &["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z".into());
        set(pod, &["metadata", "deletionGracePeriodSeconds"], 30.into());
    }
}

/// A resize that is under way, or none.
pub(super) fn enter_resize(pod: &mut Value, dice: &mut Dice) {
    for (list, statuses) in
        [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")]
    {
        let containers = pod["spec"][list].as_array().map_or(0, Vec::len);
        let all: Vec<Value> = (0..containers)
            .filter(|_| !dice.once_in(4))
            .map(|i| container(&pod["spec"][list][i]["name"]))
            .collect();
        let all: Vec<Value> = all.into_iter().map(|status| filled(status, dice)).collect();
        if !all.is_empty() {
            set(pod, &["status", statuses], all.into());
        }
    }
    if dice.once_in(6) {
        set(pod, &["status", "allocatedResources"], resources::amounts(dice));
    }
    if dice.once_in(6) {
        set(pod, &["status", "resources"], json!({"requests": resources::amounts(dice)}));
    }
    let reason = dice.of(&["", "", "Infeasible", "Deferred", "Other"]);
    let kind = dice.of(&["PodResizePending", "PodResizePending", "PodResizeInProgress"]);
    if !reason.is_empty() {
        let conditions = json!([
            {"type": "Ready", "status": "True"},
            {"type": kind, "status": dice.of(&["True", "False"]), "reason": reason},
        ]);
        set(pod, &["status", "conditions"], conditions);
    }
}

fn container(name: &Value) -> Value {
    json!({"name": name, "ready": true, "restartCount": 0, "image": "i", "imageID": "i"})
}

fn filled(mut status: Value, dice: &mut Dice) -> Value {
    if dice.once_in(2) {
        status["allocatedResources"] = resources::amounts(dice);
    }
    match dice.index(4) {
        0 | 1 => status["resources"] = json!({"requests": resources::amounts(dice)}),
        2 => status["resources"] = json!({"limits": resources::amounts(dice)}),
        _ => {}
    }
    status
}
