//! Pods, bound and waiting.

use super::{
    Parts, Topic, affinity, ports, relations, resources, set, spread, status, taints, volumes,
};
use divvy_testbed::dice::Dice;
use serde_json::{Map, Value, json};

pub(super) const NAMESPACES: [&str; 3] = ["default", "ml", "web"];

/// Labels of pods and their values.
pub(super) const LABELS: [(&str, &[&str]); 2] = [("app", &["a", "b", "c"]), ("tier", &["x", "y"])];

/// A pod of the cluster. Most are bound, to one of its nodes or to one that is gone.
pub(super) fn bound(parts: &Parts, index: usize, nodes: &[String], dice: &mut Dice) -> Value {
    let mut pod = pod(parts, &format!("p{index}"), nodes, dice);
    status::enter(&mut pod, dice);
    if parts.is_on(Topic::Resources, dice) && dice.once_in(3) {
        status::enter_resize(&mut pod, dice);
    }
    let node = match dice.index(20) {
        0 => return pod,
        1 => "gone",
        // More on the first than on the last, so that there is something to even out.
        _ => nodes[dice.index(nodes.len()).min(dice.index(nodes.len()))].as_str(),
    };
    set(&mut pod, &["spec", "nodeName"], node.into());
    pod
}

/// The pod that looks for a node.
pub(super) fn waiting(parts: &Parts, nodes: &[String], dice: &mut Dice) -> Value {
    let mut pod = pod(parts, "waiting", nodes, dice);
    for field in ["nodeSelector", "affinity", "tolerations", "overhead", "initContainers"] {
        if pod["spec"].get(field).is_none() && dice.once_in(12) {
            set(&mut pod, &["spec", field], Value::Null);
        }
    }
    pod
}

fn pod(parts: &Parts, name: &str, nodes: &[String], dice: &mut Dice) -> Value {
    let mut labels = Map::new();
    for (key, values) in LABELS {
        if !dice.once_in(4) {
            labels.insert(key.to_owned(), dice.of(values).into());
        }
    }
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": dice.of(&["ml", "ml", "ml", "ml", "ml", "default", "web"]), "labels": labels},
        "spec": {},
    });
    let has_resources = parts.is_on(Topic::Resources, dice);
    let containers = containers("c", dice.between(1, 2), has_resources, dice);
    set(&mut pod, &["spec", "containers"], containers.into());
    if dice.once_in(3) {
        let mut inits = self::containers("i", dice.between(1, 3), has_resources, dice);
        for init in &mut inits {
            if dice.once_in(2) {
                init["restartPolicy"] = "Always".into();
            }
        }
        set(&mut pod, &["spec", "initContainers"], inits.into());
    }
    if has_resources {
        if dice.once_in(5) {
            let overhead = json!({"cpu": "100m", "memory": "10Mi"});
            set(&mut pod, &["spec", "overhead"], overhead);
        }
        if dice.once_in(6) {
            set(&mut pod, &["spec", "resources"], resources::of_pod(dice));
        }
    }
    if parts.is_on(Topic::Taints, dice) {
        taints::enter_pod(&mut pod, dice);
    }
    if parts.is_on(Topic::Affinity, dice) {
        affinity::enter_pod(&mut pod, nodes, dice);
    }
    if parts.is_on(Topic::Ports, dice) {
        ports::enter_pod(&mut pod, dice);
    }
    if parts.has(Topic::Volumes) && !parts.has(Topic::PodAffinity) {
        // Claims that are made for a pod name it. A pod that has been created has its label keys
        // in its selectors already, so not where those are about.
        let uid = format!("u-{name}");
        set(&mut pod, &["metadata", "uid"], uid.into());
    }
    if parts.is_on(Topic::Volumes, dice) {
        volumes::enter_pod(&mut pod, dice);
    }
    let is_waiting = name == "waiting";
    // Few of the pods that are there, so that others can be there beside them.
    if parts.is_on(Topic::PodAffinity, dice) && (is_waiting || dice.once_in(4)) {
        relations::enter_pod(&mut pod, dice);
    }
    if parts.is_on(Topic::Spread, dice) && (is_waiting || dice.once_in(8)) {
        spread::enter_pod(&mut pod, dice);
    }
    pod
}

fn containers(prefix: &str, count: usize, has_resources: bool, dice: &mut Dice) -> Vec<Value> {
    let container = |i: usize| {
        let mut container = json!({"name": format!("{prefix}{i}"), "image": "i"});
        if has_resources && !dice.once_in(5) {
            container["resources"] = resources::of_container(dice);
        }
        container
    };
    (0..count).map(container).collect()
}
