//! Claims, volumes, classes and drivers, and the pods that use them.

use super::pods::NAMESPACES;
use super::set;
use divvy_testbed::dice::Dice;
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const ZONES: [&str; 3] = ["z1", "z2", "z3"];
const DRIVERS: [&str; 2] = ["csi.a", "csi.b"];
const GCE: &str = "pd.csi.storage.gke.io";
const CLASSES: [&str; 4] = ["now", "wait", "topology", "local"];
const CLAIMS: usize = 4;
const MODES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];

/// All that is not a pod or a node. Sizes differ from each other: among volumes of one size
/// kube-scheduler takes whichever its map shows it first.
pub(super) fn objects(nodes: &[String], dice: &mut Dice) -> Vec<Value> {
    let mut objects: Vec<Value> = CLASSES.iter().map(|name| class(name, dice)).collect();
    objects.retain(|_| !dice.once_in(24));
    for driver in DRIVERS {
        let mut object = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
            "metadata": {"name": driver}, "spec": {"attachRequired": true},
        });
        if dice.once_in(2) {
            object["spec"]["storageCapacity"] = dice.once_in(2).into();
        }
        if !dice.once_in(4) {
            objects.push(object);
        }
    }
    for index in 0..dice.index(4) {
        objects.push(capacity(index, dice));
    }
    for node in nodes {
        if !dice.once_in(4) {
            objects.push(csi_node(node, dice));
        }
    }
    for namespace in NAMESPACES {
        for index in 0..CLAIMS {
            let number = objects.len();
            if !dice.once_in(24) {
                claim(namespace, index, number, nodes, &mut objects, dice);
            }
        }
    }
    for index in 0..dice.index(3) {
        objects.push(attachment(index, nodes, dice));
    }
    for index in 0..dice.index(5) {
        objects.push(volume(&format!("free{index}"), 20 + index, nodes, dice));
    }
    objects
}

fn class(name: &str, dice: &mut Dice) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": dice.of(&DRIVERS), "volumeBindingMode": "WaitForFirstConsumer",
    });
    match name {
        "now" if dice.once_in(2) => class["volumeBindingMode"] = Value::Null,
        "now" => class["volumeBindingMode"] = "Immediate".into(),
        "local" => class["provisioner"] = "kubernetes.io/no-provisioner".into(),
        "topology" => {
            let term = |dice: &mut Dice| {
                let values = [dice.of(&ZONES), dice.of(&ZONES)];
                json!({"matchLabelExpressions": [{"key": ZONE, "values": values}]})
            };
            let terms: Vec<Value> = (0..dice.between(0, 2)).map(|_| term(dice)).collect();
            class["allowedTopologies"] = terms.into();
        }
        _ => {}
    }
    class
}

fn capacity(index: usize, dice: &mut Dice) -> Value {
    let mut capacity = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
        "metadata": {"name": format!("capacity{index}"), "namespace": "default"},
        "storageClassName": dice.of(&["wait", "topology"]),
    });
    if !dice.once_in(6) {
        capacity["capacity"] = dice.of(&["0", "4Gi", "10Gi", "100Gi"]).into();
    }
    if dice.once_in(4) {
        capacity["maximumVolumeSize"] = dice.of(&["3Gi", "50Gi"]).into();
    }
    match dice.index(4) {
        0 => {}
        1 => capacity["nodeTopology"] = json!({}),
        _ => capacity["nodeTopology"] = json!({"matchLabels": {ZONE: dice.of(&ZONES)}}),
    }
    capacity
}

fn csi_node(node: &str, dice: &mut Dice) -> Value {
    let mut drivers = Vec::new();
    for name in DRIVERS.into_iter().chain([GCE]) {
        if dice.once_in(3) {
            continue;
        }
        let mut driver = json!({"name": name, "nodeID": node});
        match dice.index(4) {
            0 => {}
            1 => driver["allocatable"] = json!({}),
            _ => driver["allocatable"] = json!({"count": dice.between(0, 3)}),
        }
        drivers.push(driver);
    }
    let mut object = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {"name": node}, "spec": {"drivers": drivers},
    });
    if dice.once_in(2) {
        let migrated =
            json!({"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"});
        object["metadata"]["annotations"] = migrated;
    }
    object
}

/// A claim, and the volume that it is bound to.
fn claim(
    namespace: &str,
    index: usize,
    number: usize,
    nodes: &[String],
    objects: &mut Vec<Value>,
    dice: &mut Dice,
) {
    let name = format!("c{index}");
    let uid = format!("u-{namespace}-{name}");
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": uid},
        "spec": {
            "accessModes": [dice.of(&MODES)],
            "resources": {"requests": {"storage": format!("{}Gi", 1 + index)}},
        },
        "status": {"phase": "Pending"},
    });
    match dice.index(12) {
        0 => {}
        1 => claim["spec"]["storageClassName"] = "".into(),
        _ => claim["spec"]["storageClassName"] = dice.of(&CLASSES).into(),
    }
    if dice.once_in(8) {
        claim["spec"]["volumeMode"] = dice.of(&["Block", "Filesystem"]).into();
    }
    if dice.once_in(8) {
        claim["spec"]["selector"] = json!({"matchLabels": {"kind": dice.of(&["fast", "slow"])}});
    }
    if dice.once_in(16) {
        claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    if dice.once_in(20) {
        claim["status"]["phase"] = "Lost".into();
    }
    match dice.index(6) {
        // Bound.
        0..=2 => {
            let name = format!("v{number}");
            claim["spec"]["volumeName"] = name.as_str().into();
            if !dice.once_in(8) {
                set(
                    &mut claim,
                    &["metadata", "annotations"],
                    json!({"pv.kubernetes.io/bind-completed": "yes"}),
                );
            }
            let mut volume = volume(&name, 10, nodes, dice);
            volume["spec"]["claimRef"] =
                json!({"namespace": namespace, "name": claim["metadata"]["name"], "uid": uid});
            volume["status"] = json!({"phase": "Bound"});
            if !dice.once_in(16) {
                objects.push(volume);
            }
        }
        // A node was chosen for it.
        3 if dice.once_in(2) => {
            let node = nodes[dice.index(nodes.len())].as_str();
            set(
                &mut claim,
                &["metadata", "annotations"],
                json!({"volume.kubernetes.io/selected-node": node}),
            );
        }
        _ => {}
    }
    objects.push(claim);
}

fn volume(name: &str, size: usize, nodes: &[String], dice: &mut Dice) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {"kind": dice.of(&["fast", "slow"])}},
        "spec": {
            "capacity": {"storage": format!("{size}Gi")},
            "accessModes": [dice.of(&MODES), dice.of(&MODES)],
        },
        "status": {"phase": dice.of(&["Available", "Available", "Available", "Released", "Pending"])},
    });
    match dice.index(8) {
        0 => volume["spec"]["hostPath"] = json!({"path": "/data"}),
        1 => volume["spec"]["gcePersistentDisk"] = json!({"pdName": dice.of(&["d1", "d2"])}),
        _ => {
            // Two volumes of one handle are one disk.
            let handle = if dice.once_in(4) { "shared" } else { name };
            volume["spec"]["csi"] = json!({"driver": dice.of(&DRIVERS), "volumeHandle": handle});
        }
    }
    if !dice.once_in(10) {
        volume["spec"]["storageClassName"] = dice.of(&CLASSES).into();
    }
    if dice.once_in(8) {
        volume["spec"]["volumeMode"] = dice.of(&["Block", "Filesystem"]).into();
    }
    if dice.once_in(3) {
        let term = super::affinity::term(nodes, dice);
        set(&mut volume, &["spec", "nodeAffinity", "required", "nodeSelectorTerms"], json!([term]));
    }
    if dice.once_in(4) {
        let key = dice.of(&[
            ZONE,
            "topology.kubernetes.io/region",
            "failure-domain.beta.kubernetes.io/zone",
        ]);
        let zones = dice.of(&["z1", "z2", "z1__z3"]);
        volume["metadata"]["labels"][key] = zones.into();
    }
    if name.starts_with("free") && dice.once_in(4) {
        // Kept for a claim that is not bound to it yet.
        let claim = format!("c{}", dice.index(CLAIMS));
        let mut kept = json!({"namespace": dice.of(&NAMESPACES), "name": claim});
        if dice.once_in(2) {
            kept["uid"] = format!("u-{}-{claim}", dice.of(&NAMESPACES)).into();
        }
        volume["spec"]["claimRef"] = kept;
    }
    if dice.once_in(20) {
        volume["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    volume
}

/// Attachments of volumes that no pod of the node may use any more.
fn attachment(index: usize, nodes: &[String], dice: &mut Dice) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": format!("a{index}")},
        "spec": {
            "attacher": dice.of(&DRIVERS),
            "nodeName": nodes[dice.index(nodes.len())],
            "source": {"persistentVolumeName": format!("free{}", dice.index(5))},
        },
        "status": {"attached": dice.once_in(2)},
    })
}

pub(super) fn enter_pod(pod: &mut Value, dice: &mut Dice) {
    let count = if dice.once_in(5) { 0 } else { dice.between(1, 3) };
    let has_uid = pod["metadata"].get("uid").is_some();
    let volumes: Vec<Value> = (0..count).map(|index| of_pod(index, has_uid, dice)).collect();
    set(pod, &["spec", "volumes"], volumes.into());
}

fn of_pod(index: usize, has_uid: bool, dice: &mut Dice) -> Value {
    let mut volume = json!({"name": format!("v{index}")});
    match dice.index(12) {
        0 => volume["emptyDir"] = json!({}),
        1 => {
            let disk = json!({"pdName": dice.of(&["d1", "d2"]), "readOnly": dice.once_in(2)});
            volume["gcePersistentDisk"] = disk;
        }
        2 => volume["awsElasticBlockStore"] = json!({"volumeID": dice.of(&["e1", "e2"])}),
        3 => {
            volume["iscsi"] = json!({
                "targetPortal": "10.0.0.1", "iqn": dice.of(&["iqn.2001-04.com.example:a", "iqn.2001-04.com.example:b"]),
                "lun": 0, "readOnly": dice.once_in(2),
            });
        }
        4 => {
            volume["rbd"] = json!({
                "monitors": [dice.of(&["m1", "m2"]), dice.of(&["m2", "m3"])],
                "image": dice.of(&["i1", "i2"]), "readOnly": dice.once_in(2),
            });
        }
        5 if has_uid && dice.once_in(2) => {
            let class = dice.of(&["wait", "topology", "local"]);
            let size = format!("{}Gi", 11 + index);
            let spec = json!({
                "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": {"requests": {"storage": size}},
            });
            volume["ephemeral"] = json!({"volumeClaimTemplate": {"spec": spec}});
        }
        _ => {
            let claim = format!("c{}", dice.index(CLAIMS));
            volume["persistentVolumeClaim"] = json!({"claimName": claim});
        }
    }
    volume
}

/// The claims that the ephemeral volumes of a pod lead to; not always made yet, nor always by it.
pub(super) fn made_for(pod: &Value, dice: &mut Dice) -> Vec<Value> {
    let metadata = &pod["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let mut claims = Vec::new();
    for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
        let spec = &volume["ephemeral"]["volumeClaimTemplate"]["spec"];
        if spec.is_null() || dice.once_in(8) {
            continue;
        }
        // Of another pod only where that keeps this pod off: docs/differences.md.
        let is_bound = pod["spec"].get("nodeName").is_some();
        let is_own = is_bound || !dice.once_in(10);
        let uid = if is_own { metadata["uid"].clone() } else { "u-another".into() };
        let claim = format!("{name}-{}", volume["name"].as_str().unwrap_or_default());
        claims.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": claim, "namespace": metadata["namespace"], "uid": format!("u-{claim}"),
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": true,
                }],
            },
            "spec": spec, "status": {"phase": "Pending"},
        }));
    }
    claims
}
