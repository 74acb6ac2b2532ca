//! Pods that somebody else has bound before the others come: shares without a record or with one that
//! cannot be read, such as KAI leaves, with and without the reservation of their card, and pods that
//! cannot be read at all. It is read off the same half of an input as what is beside the cards.

use crate::input::Input;
use crate::targets::clusters::{Shape, World};
use divvy_words::{keys, reservation};
use serde_json::{Value, json};

/// The namespaces of pods.
pub(super) const NAMESPACES: [&str; 2] = ["ml", "web"];

/// So many are there at most on each node.
const MOST: usize = 3;

/// Puts them there, as they run, and has them heard of. Whether there are any.
pub(super) fn settle(input: &mut Input<'_>, world: &mut World, nodes: &[Shape]) -> bool {
    let mut made = 0;
    for Shape { name: node, cards, .. } in nodes {
        let mut kais = false;
        for _ in 0..input.pick(&[0, 0, 0, 1, 2, MOST]) {
            let what = input.pick(&["plain", "unrecorded", "labelled", "foreign", "kais", "odd"]);
            let namespace = input.pick(&NAMESPACES);
            world.steps.push(format!("{what} b{made} in {namespace} is on {node}"));
            if what == "kais" && *cards > 0 && !std::mem::replace(&mut kais, true) {
                world.run(kais_reservation(node));
            }
            world.run(bound(what, namespace, &format!("b{made}"), node));
            made += 1;
        }
        if input.once_in(12) {
            world.steps.push(format!("a pod that cannot be read is on {node}"));
            let mut pod = bound("plain", "ml", &format!("b{made}"), node);
            pod["spec"]["containers"] = json!("none");
            world.run(pod);
            made += 1;
        }
    }
    world.list_all();
    world.pass();
    made > 0
}

/// What `divvy reserve` and KAI's own program keep a card with; KAI's is not labelled as divvy's.
fn kais_reservation(node: &str) -> Value {
    json!({
        "metadata": { "namespace": reservation::NAMESPACE, "name": format!("kais-{node}"),
            "labels": { "app": reservation::NAMESPACE, keys::GPU_GROUP: format!("kais-{node}") },
            "annotations": {}, "creationTimestamp": "2027-01-15T07:00:00Z",
            "uid": format!("kais-{node}") },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "resources": {
            "requests": { "cpu": "1m", "memory": "16Mi", keys::GPU: "1" },
            "limits": { keys::GPU: "1" },
        } }] },
        "status": { "phase": "Pending" },
    })
}

fn bound(what: &str, namespace: &str, name: &str, node: &str) -> Value {
    let mut pod = json!({
        "metadata": { "namespace": namespace, "name": name, "uid": name, "labels": {},
            "annotations": {}, "creationTimestamp": "2027-01-15T07:00:00Z" },
        "spec": { "schedulerName": "divvy-scheduler", "nodeName": node,
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": "100m" } } }] },
        "status": { "phase": "Pending" },
    });
    if what != "plain" {
        pod["metadata"]["annotations"][keys::GPU_FRACTION] = json!("0.3");
    }
    match what {
        "labelled" | "kais" => {
            pod["metadata"]["labels"][keys::GPU_GROUP] = json!(format!("kais-{node}"));
        }
        "foreign" => pod["spec"]["schedulerName"] = json!("default-scheduler"),
        "odd" => pod["metadata"]["annotations"][keys::CARDS] = json!("nonsense"),
        _ => {}
    }
    if what == "kais" {
        pod["spec"]["schedulerName"] = json!(keys::KAI_SCHEDULER);
        pod["metadata"]["annotations"][keys::RECEIVED_TYPE] = json!("Fraction");
    }
    pod
}
