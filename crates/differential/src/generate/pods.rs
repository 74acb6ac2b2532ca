//! Pods, bound and waiting.

use super::{
    Group, Parts, affinity, ports, relations, resources, set, spread, status, taints, volumes,
};
use crate::random::Random;
use serde_json::{Map, Value, json};

pub(super) const NAMESPACES: [&str; 3] = ["default", "ml", "web"];

/// Labels of pods and their values.
pub(super) const LABELS: [(&str, &[&str]); 2] = [("app", &["a", "b", "c"]), ("tier", &["x", "y"])];

/// A pod of the cluster. Most are bound, to one of its nodes or to one that is gone.
pub(super) fn bound(parts: &Parts, index: usize, nodes: &[String], random: &mut Random) -> Value {
    let mut pod = pod(parts, &format!("p{index}"), nodes, random);
    status::enter(&mut pod, random);
    if parts.is_on(Group::Resources, random) && random.once_in(3) {
        status::enter_resize(&mut pod, random);
    }
    let node = match random.below(20) {
        0 => return pod,
        1 => "gone",
        // More on the first than on the last, so that there is something to even out.
        _ => nodes[random.below(nodes.len()).min(random.below(nodes.len()))].as_str(),
    };
    set(&mut pod, &["spec", "nodeName"], node.into());
    pod
}

/// The pod that looks for a node.
pub(super) fn waiting(parts: &Parts, nodes: &[String], random: &mut Random) -> Value {
    let mut pod = pod(parts, "waiting", nodes, random);
    for field in ["nodeSelector", "affinity", "tolerations", "overhead", "initContainers"] {
        if pod["spec"].get(field).is_none() && random.once_in(12) {
            set(&mut pod, &["spec", field], Value::Null);
        }
    }
    pod
}

fn pod(parts: &Parts, name: &str, nodes: &[String], random: &mut Random) -> Value {
    let mut labels = Map::new();
    for (key, values) in LABELS {
        if !random.once_in(4) {
            labels.insert(key.to_owned(), random.pick(values).into());
        }
    }
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": random.pick(&["ml", "ml", "ml", "ml", "ml", "default", "web"]), "labels": labels},
        "spec": {},
    });
    let has_resources = parts.is_on(Group::Resources, random);
    let containers = containers("c", random.between(1, 2), has_resources, random);
    set(&mut pod, &["spec", "containers"], containers.into());
    if random.once_in(3) {
        let mut inits = self::containers("i", random.between(1, 3), has_resources, random);
        for init in &mut inits {
            if random.once_in(2) {
                init["restartPolicy"] = "Always".into();
            }
        }
        set(&mut pod, &["spec", "initContainers"], inits.into());
    }
    if has_resources {
        if random.once_in(5) {
            let overhead = json!({"cpu": "100m", "memory": "10Mi"});
            set(&mut pod, &["spec", "overhead"], overhead);
        }
        if random.once_in(6) {
            set(&mut pod, &["spec", "resources"], resources::of_pod(random));
        }
    }
    if parts.is_on(Group::Taints, random) {
        taints::enter_pod(&mut pod, random);
    }
    if parts.is_on(Group::Affinity, random) {
        affinity::enter_pod(&mut pod, nodes, random);
    }
    if parts.is_on(Group::Ports, random) {
        ports::enter_pod(&mut pod, random);
    }
    if parts.has(Group::Volumes) && !parts.has(Group::PodAffinity) {
        // Claims that are made for a pod name it. A pod that has been created has its label keys
        // in its selectors already, so not where those are about.
        let uid = format!("u-{name}");
        set(&mut pod, &["metadata", "uid"], uid.into());
    }
    if parts.is_on(Group::Volumes, random) {
        volumes::enter_pod(&mut pod, random);
    }
    let is_waiting = name == "waiting";
    // Few of the pods that are there, so that others can be there beside them.
    if parts.is_on(Group::PodAffinity, random) && (is_waiting || random.once_in(4)) {
        relations::enter_pod(&mut pod, random);
    }
    if parts.is_on(Group::Spread, random) && (is_waiting || random.once_in(8)) {
        spread::enter_pod(&mut pod, random);
    }
    pod
}

fn containers(prefix: &str, count: usize, has_resources: bool, random: &mut Random) -> Vec<Value> {
    let container = |i: usize| {
        let mut container = json!({"name": format!("{prefix}{i}"), "image": "i"});
        if has_resources && !random.once_in(5) {
            container["resources"] = resources::of_container(random);
        }
        container
    };
    (0..count).map(container).collect()
}
