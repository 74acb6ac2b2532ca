//! Objects of a small cluster: few names, so that they have to do with each other.

use crate::input::Input;
use crate::objects;
use crate::targets::clusters::classes::{LEVELS, label};
use divvy_words::{keys, reservation};
use serde_json::{Value, json};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const CARDS: [&str; 4] = ["GPU-a", "GPU-b", "GPU-c", "GPU-d"];
const GROUPS: [&str; 4] = ["g1", "g2", "p0-uid", "p1-uid"];

/// A node, of so many cards as it likes now.
pub fn node(input: &mut Input<'_>) -> Value {
    let name = input.pick(&NODES);
    let cards = input.pick(&["2", "1", "0", "4", "2000"]);
    let usable = if input.once_in(3) { input.pick(&["1", "0", "9"]) } else { cards };
    let mut labels = json!({
        keys::LABEL_GPU_COUNT: cards,
        keys::LABEL_GPU_MEMORY: input.pick(&["81920", "40960", "1", "x"]),
        "zone": input.pick(&["a", "b"]),
    });
    if input.once_in(8) {
        labels[keys::LABEL_GPU_REPLICAS] = json!("4");
    }
    if input.once_in(8)
        && let Some(labels) = labels.as_object_mut()
    {
        labels.remove(keys::LABEL_GPU_MEMORY);
    }
    let taint = json!({ "key": keys::UNSETTLED, "effect": "NoSchedule" });
    let taints = if input.once_in(4) { json!([taint]) } else { json!([]) };
    json!({
        "metadata": {
            "name": name, "uid": format!("{name}-uid{}", input.below(2)), "labels": labels,
            "resourceVersion": version(input),
        },
        "spec": { "unschedulable": input.once_in(8), "taints": taints },
        "status": { "allocatable": {
            "cpu": input.pick(&["32", "1", "0"]), "memory": "64Gi",
            "pods": input.pick(&["110", "3", "0"]), keys::GPU: usable,
        } },
    })
}

fn version(input: &mut Input<'_>) -> String {
    input.pick(&["10", "20", "9", "30", ""]).to_owned()
}

/// A pod: a share, one of whole cards, a plain one, or a reservation.
pub fn pod(input: &mut Input<'_>) -> Value {
    if input.once_in(4) {
        return reserved(input);
    }
    let name = format!("p{}", input.below(6));
    let uid = format!("{name}-uid{}", if input.once_in(6) { "2" } else { "" });
    let mut pod = json!({
        "metadata": {
            "namespace": input.pick(&["ml", "ml", "ml", "team"]), "name": name, "uid": uid,
            "resourceVersion": version(input), "annotations": {}, "labels": {},
        },
        "spec": {
            "schedulerName": input.pick(&["divvy-scheduler", "divvy-scheduler", "kai-scheduler", "other"]),
            "containers": [{ "name": "c" }],
        },
        "status": { "phase": input.pick(&["Pending", "Running", "Succeeded", "Failed"]) },
    });
    ask(input, &mut pod);
    if input.once_in(2) {
        bind(input, &mut pod);
    }
    if input.once_in(6) {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(input.number());
    }
    if input.once_in(4) {
        pod["spec"]["terminationGracePeriodSeconds"] = json!(input.pick(&[1, 600, 601, 0, -5]));
    }
    if input.once_in(4) {
        pod["status"]["startTime"] = json!("2026-01-01T00:00:00Z");
    }
    if input.once_in(8) {
        pod["status"]["nominatedNodeName"] = json!(input.pick(&NODES));
    }
    if input.once_in(8) {
        pod["spec"]["priority"] = json!(input.number());
    }
    if input.once_in(8) {
        let condition = json!({ "type": "DisruptionTarget", "reason": "DeletionByPodGC" });
        pod["status"]["conditions"] = json!([condition]);
    }
    pod
}

/// The same with a level, or with the record of one.
pub fn with_level(input: &mut Input<'_>) -> Value {
    let mut pod = pod(input);
    label(input.pick(&LEVELS), &mut pod);
    if input.once_in(2) {
        let class = input.pick(&["Shared", "Isolated/HAMi-core", "Isolated/other", "", "x"]);
        pod["metadata"]["annotations"][keys::CLASS] = json!(class);
    }
    if input.once_in(8) {
        let text = r#"{"gpu":[{"minor":1,"id":"GPU-a"}]}"#;
        pod["metadata"]["annotations"][keys::DEVICE_ALLOCATED] =
            json!(input.pick(&[text, r#"{"gpu":[{"minor":1}]}"#, "x"]));
        pod["spec"]["containers"][0]["resources"] =
            json!({ "limits": { keys::KOORDINATOR_RATIO: "50" } });
    }
    pod
}

fn ask(input: &mut Input<'_>, pod: &mut Value) {
    let annotations = &mut pod["metadata"]["annotations"];
    match input.below(8) {
        0..3 => {
            let fraction = input.pick(&["0.5", "0.25", "0.9", "0.3333333333333333"]);
            annotations[keys::GPU_FRACTION] = json!(fraction);
        }
        3 => annotations[keys::GPU_MEMORY] = json!(input.pick(&["2000", "40960", "81920", "1"])),
        4 => {
            annotations[keys::GPU_FRACTION] = json!("0.5");
            annotations[keys::FRACTION_DEVICES] = json!("2");
        }
        5 | 6 => {
            let count = input.pick(&["1", "2", "4"]);
            pod["spec"]["containers"][0]["resources"] = json!({ "limits": { keys::GPU: count } });
        }
        _ => {
            pod["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "100m" } });
        }
    }
    if pod["metadata"]["annotations"].as_object().is_some_and(|all| !all.is_empty())
        && !input.once_in(4)
    {
        let variable = |(name, annotation): &(&str, &str)| {
            let path = format!("metadata.annotations['{annotation}']");
            json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } })
        };
        let variables: Vec<Value> = keys::HAND_OFF_VARIABLES.iter().map(variable).collect();
        pod["spec"]["containers"][0]["env"] = json!(variables);
    }
}

/// On a node, with cards or without, as divvy or KAI writes them, or nobody.
fn bind(input: &mut Input<'_>, pod: &mut Value) {
    pod["spec"]["nodeName"] = json!(input.pick(&NODES));
    let card = |input: &mut Input<'_>| match input.below(4) {
        0 => format!("{}:{}", input.below(3), 40u64 << 30),
        _ => {
            format!("{}:{}", input.pick(&CARDS), input.pick(&[40u64 << 30, 20 << 30, 1, u64::MAX]))
        }
    };
    match input.below(6) {
        0..3 => pod["metadata"]["annotations"][keys::CARDS] = json!(card(input)),
        3 => {
            let cards = format!("{},{}", card(input), card(input));
            pod["metadata"]["annotations"][keys::CARDS] = json!(cards);
        }
        4 => {
            pod["metadata"]["labels"][keys::GPU_GROUP] = json!(input.pick(&GROUPS));
            pod["metadata"]["annotations"][keys::RECEIVED_TYPE] = json!("Fraction");
        }
        _ => {}
    }
    if input.once_in(4) {
        pod["status"]["containerStatuses"] = given(input);
    }
}

/// What the kubelet says which devices a pod has.
fn given(input: &mut Input<'_>) -> Value {
    let id = input.pick(&["GPU-a", "GPU-b", "GPU-c", "GPU-d", "GPU-a::1", "x"]);
    let health = input.pick(&["Healthy", "Unhealthy"]);
    let mut status = json!({ "name": "c", "allocatedResourcesStatus": [
        { "name": keys::GPU, "resources": [{ "resourceID": id, "health": health }] },
    ] });
    if input.once_in(6) {
        status["state"] = json!({ "waiting": { "reason": "ImagePullBackOff" } });
    }
    json!([status])
}

fn reserved(input: &mut Input<'_>) -> Value {
    let (node, group) = (input.pick(&NODES), input.pick(&GROUPS));
    let mut pod = json!({
        "metadata": {
            "namespace": reservation::NAMESPACE, "name": reservation::name(node, group),
            "uid": format!("{node}-{group}-{}", input.below(2)), "resourceVersion": version(input),
            "labels": { "app": reservation::NAMESPACE, keys::GPU_GROUP: group },
            "annotations": {},
        },
        "spec": {
            "nodeName": node,
            "containers": [{ "name": "c", "resources": { "limits": { keys::GPU: "1" } } }],
        },
        "status": { "phase": input.pick(&["Running", "Pending", "Failed", "Succeeded"]) },
    });
    if !input.once_in(4) {
        pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] = json!("divvy");
    }
    match input.below(4) {
        0 | 1 => pod["status"]["containerStatuses"] = given(input),
        2 => {
            pod["metadata"]["annotations"][keys::RESERVED_CARD] = json!(input.pick(&CARDS));
        }
        _ => {}
    }
    if input.once_in(4) {
        let until = input.pick(&["1800000100", "1800100000", "5", "9223372036854775807"]);
        let ghosts = format!("ml/p{}/p0-uid:{}:{until}", input.below(3), 40u64 << 30);
        pod["metadata"]["annotations"][keys::GHOSTS] = json!(ghosts);
    }
    if input.once_in(6) {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    if input.once_in(6) {
        pod["status"]["reason"] = json!("UnexpectedAdmissionError");
    }
    pod
}

/// Any other object, and the watch that tells of it.
pub fn other(input: &mut Input<'_>) -> (&'static str, Value) {
    let object = |kind: &str| objects::of_kind(kind).next().cloned().unwrap_or_default();
    match input.below(9) {
        0 => ("namespaces", object("Namespace")),
        1 => ("persistentvolumeclaims", object("PersistentVolumeClaim")),
        2 => ("persistentvolumes", object("PersistentVolume")),
        3 => ("storageclasses", object("StorageClass")),
        4 => ("csinodes", object("CSINode")),
        5 => ("csistoragecapacities", object("CSIStorageCapacity")),
        6 => ("volumeattachments", object("VolumeAttachment")),
        7 => ("podgroups.scheduling.run.ai", object("PodGroup")),
        _ => {
            let pod = format!("p{}", input.below(6));
            let owner = json!({ "kind": "Pod", "name": pod, "uid": format!("{pod}-uid") });
            let request = json!({
                "metadata": { "namespace": "ml", "name": pod, "ownerReferences": [owner] },
                "spec": {
                    "podName": pod, "selectedNode": input.pick(&NODES),
                    "selectedGPUGroups": [input.pick(&GROUPS)],
                },
                "status": { "phase": input.pick(&["Succeeded", "Pending"]) },
            });
            ("bindrequests.scheduling.run.ai", request)
        }
    }
}
