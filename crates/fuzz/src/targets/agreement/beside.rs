//! What else pods and nodes have beside cards and CPU: priorities, taints, time slices, MIG slices, a
//! claim whose volume is on one node, another namespace, ports of the host, and pods that keep others
//! away from their zone. It is read off the second half of an input, so that what is read
//! off the first means the same as ever.

use super::there::NAMESPACES;
use crate::input::Input;
use crate::targets::clusters::{Shape, World};
use divvy_words::keys;
use serde_json::{Value, json};

const TAINT: &str = "gpu";
const SLICE: &str = "nvidia.com/mig-1g.10gb";
const ZONE: &str = "topology.kubernetes.io/zone";
const CLAIM: &str = "data";

/// Changes some of the nodes, and makes the claim.
pub(super) fn furnish(input: &mut Input<'_>, world: &mut World, nodes: &[Shape]) {
    for Shape { name, .. } in nodes {
        let (is_tainted, has_zone) = (input.once_in(4), input.once_in(2));
        let divided = input.pick(&["", "", "", "time", "mig"]);
        world.steps.push(format!("{name} tainted: {is_tainted}, zone: {has_zone}, {divided}"));
        if divided == "time" {
            world.slice_time(name, 2);
        }
        world.change_node(name, |node| {
            if is_tainted {
                node["spec"]["taints"] = json!([{ "key": TAINT, "effect": "NoSchedule" }]);
            }
            if has_zone {
                node["metadata"]["labels"][ZONE] = json!(name);
            }
            if divided == "mig" {
                node["status"]["allocatable"][SLICE] = json!("2");
            }
        });
    }
    let zone = nodes[input.below(nodes.len())].name;
    let is_one_pods = input.once_in(2);
    world.steps.push(format!("the claim is in {zone}, of one pod: {is_one_pods}"));
    let modes = json!([if is_one_pods { "ReadWriteOncePod" } else { "ReadWriteMany" }]);
    let term = json!({ "matchExpressions": [{ "key": ZONE, "operator": "In", "values": [zone] }] });
    let claim = json!({
        "metadata": { "namespace": "ml", "name": CLAIM, "uid": "claim",
            "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": { "accessModes": modes, "volumeName": "v",
            "resources": { "requests": { "storage": "1Gi" } } },
        "status": { "phase": "Bound" },
    });
    let volume = json!({
        "metadata": { "name": "v", "uid": "volume" },
        "spec": { "accessModes": modes, "capacity": { "storage": "1Gi" },
            "claimRef": { "namespace": "ml", "name": CLAIM, "uid": "claim" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [term] } } },
        "status": { "phase": "Bound" },
    });
    world.store(claim, volume);
}

/// Gives pods what they ask beside cards. They come by priority: a rehearsal takes all of them at once.
pub(super) fn ask(input: &mut Input<'_>, pods: &mut [Value]) {
    let mut priorities: Vec<i32> = pods.iter().map(|_| input.pick(&[0, 0, 7, -1])).collect();
    priorities.sort_unstable_by_key(|priority| -priority);
    for (pod, priority) in pods.iter_mut().zip(priorities) {
        pod["spec"]["priority"] = json!(priority);
        if input.once_in(3) {
            pod["spec"]["tolerations"] = json!([{ "key": TAINT, "operator": "Exists" }]);
        }
        if input.once_in(5) {
            pod["spec"]["volumes"] =
                json!([{ "name": "d", "persistentVolumeClaim": { "claimName": CLAIM } }]);
        }
        let is_share = pod["metadata"]["annotations"] != json!({});
        let resources = &mut pod["spec"]["containers"][0]["resources"];
        if !is_share && resources["limits"][keys::GPU].is_null() && input.once_in(3) {
            resources["limits"] = json!({ SLICE: "1" });
        }
    }
}

/// Gives pods what they say of others.
pub(super) fn relate(input: &mut Input<'_>, pods: &mut [Value]) {
    for pod in pods {
        pod["metadata"]["namespace"] = json!(input.pick(&NAMESPACES));
        if input.once_in(5) {
            pod["spec"]["containers"][0]["ports"] =
                json!([{ "containerPort": 80, "hostPort": 8080 }]);
        }
        if input.once_in(4) {
            pod["metadata"]["labels"]["app"] = json!("a");
        }
        if input.once_in(6) {
            let term =
                json!({ "topologyKey": ZONE, "labelSelector": { "matchLabels": { "app": "a" } } });
            pod["spec"]["affinity"] = json!({ "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
        }
    }
}
