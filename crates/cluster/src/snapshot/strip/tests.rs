mod filled;
mod rehearsed;

use super::*;
use crate::snapshot::{EVERYTHING, SavedCollection};
use divvy_words::{Object, keys};
use filled::filled;
use serde_json::json;
use std::collections::BTreeSet;

fn saved(kind: &str) -> &'static SavedCollection {
    EVERYTHING.iter().find(|saved| saved.resource.kind == kind).unwrap()
}

/// The object with every field, and with the annotations that divvy reads of any.
fn annotated(saved: &SavedCollection) -> Value {
    let mut object = filled(&saved.resource);
    for key in keys::ANNOTATIONS {
        object["metadata"]["annotations"][key] = "read".into();
    }
    object
}

/// A path one step further: no name has a space.
fn under(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path} {name}") }
}

/// The paths of all that a value says: by fields, through lists as if they were not there.
fn paths(value: &Value, path: &str) -> Vec<String> {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let of_field = |(name, value): (&String, _)| paths(value, &under(path, name));
            fields.iter().flat_map(of_field).collect()
        }
        Value::Array(items) => items.iter().flat_map(|item| paths(item, path)).collect(),
        _ => vec![path.to_owned()],
    }
}

/// The paths of all that is kept.
fn kept_paths(kept: &Kept, path: &str) -> Vec<String> {
    match kept {
        Kept::Plain | Kept::Phrase(_) | Kept::Fields([]) => vec![path.to_owned()],
        Kept::Map => vec![under(path, "*")],
        Kept::Keys(keys) => keys.iter().map(|key| under(path, key)).collect(),
        Kept::Fields(fields) => {
            let of_field = |(name, kept): &(&str, Kept)| kept_paths(kept, &under(path, name));
            fields.iter().flat_map(of_field).collect()
        }
    }
}

#[test]
fn of_all_that_the_api_knows_only_what_the_table_names_is_kept() {
    for saved in &EVERYTHING {
        let stripped = strip(saved, annotated(saved));
        let found: BTreeSet<String> = paths(&stripped, "").into_iter().collect();
        let head = ["apiVersion", "kind"].map(str::to_owned);
        let expected: BTreeSet<String> =
            kept_paths(saved.kept, "").into_iter().chain(head).collect();
        let kind = saved.resource.full_name();
        let beyond: Vec<_> = found.difference(&expected).collect();
        assert!(beyond.is_empty(), "{kind}: kept without being named: {beyond:?}");
        let unknown: Vec<_> = expected.difference(&found).collect();
        assert!(unknown.is_empty(), "{kind}: named, but the API has no such field: {unknown:?}");
    }
}

/// What `divvy scheduler` reads and a rehearsal does not, and what is read of other kinds only.
const NOT_REHEARSED: [(&str, &[&str]); 10] = [
    (
        "Pod",
        &[
            "spec containers env",
            "spec initContainers env",
            "status conditions message",
            "status containerStatuses state",
            "status initContainerStatuses state",
        ],
    ),
    ("PriorityClass", &["metadata labels"]),
    ("ResourceQuota", &["metadata labels"]),
    ("PersistentVolumeClaim", &["metadata labels"]),
    ("StorageClass", &["metadata labels"]),
    ("CSINode", &["metadata labels"]),
    ("CSIDriver", &["metadata labels"]),
    ("CSIStorageCapacity", &["metadata labels"]),
    ("VolumeAttachment", &["metadata labels"]),
    ("PodGroup", &["metadata labels"]),
];

fn remove(value: &mut Value, path: &str) {
    match (value, path.split_once(' ')) {
        (Value::Array(items), _) => items.iter_mut().for_each(|item| remove(item, path)),
        (value, Some((name, rest))) => remove(&mut value[name], rest),
        (value, None) => {
            let removed = value.as_object_mut().and_then(|fields| fields.remove(path));
            assert!(removed.is_some(), "there is no {path} in {value}");
        }
    }
}

fn read(object: Value) -> Object {
    serde_json::from_value(object).unwrap()
}

fn not_rehearsed(saved: &SavedCollection) -> impl Iterator<Item = &'static str> {
    let of_kind = NOT_REHEARSED.iter().filter(|(kind, _)| *kind == saved.resource.kind);
    of_kind.flat_map(|(_, paths)| *paths).copied()
}

#[test]
fn all_that_divvy_reads_for_a_rehearsal_is_kept() {
    for saved in &EVERYTHING {
        let mut object = filled(&saved.resource);
        not_rehearsed(saved).for_each(|path| remove(&mut object, path));
        let stripped = strip(saved, object.clone());
        assert_eq!(read(stripped), read(object), "{}", saved.resource.full_name());
    }
}

#[test]
fn nothing_is_kept_that_divvy_does_not_read() {
    for saved in &EVERYTHING {
        let kind = saved.resource.full_name();
        let stripped = strip(saved, annotated(saved));
        for path in kept_paths(saved.kept, "") {
            let mut without = stripped.clone();
            remove(&mut without, &path);
            assert_ne!(read(without), read(stripped.clone()), "{kind}: nobody reads {path}");
            let mut others = not_rehearsed(saved);
            assert!(
                !others.any(|other| path.starts_with(other)),
                "{kind}: no rehearsal reads {path}"
            );
        }
    }
}

#[test]
fn every_annotation_that_divvy_reads_is_kept_where_it_is_read_and_no_other() {
    let mut kept = BTreeSet::new();
    for saved in &EVERYTHING {
        let stripped = strip(saved, annotated(saved));
        let Some(annotations) = stripped["metadata"]["annotations"].as_object() else { continue };
        kept.extend(annotations.keys().cloned());
    }
    assert_eq!(kept, keys::ANNOTATIONS.map(str::to_owned).into());
    assert_eq!(
        strip(saved("Node"), annotated(saved("Node")))["metadata"]["annotations"],
        json!({keys::CDI_KIND: "read"})
    );
}

/// A pod with all that got through when fields were left out by name.
fn pod() -> Value {
    let template = json!({"metadata": {"annotations": {"token": "hunter2"}},
        "spec": {"storageClassName": "hunter2", "dataSource": {"name": "hunter2"}}});
    json!({
        "metadata": {
            "name": "p", "namespace": "ml", "uid": "u", "generation": 3,
            "labels": {"app": "web"},
            "annotations": {
                "gpu-fraction": "0.5",
                "kubectl.kubernetes.io/last-applied-configuration": "{\"env\":\"hunter2\"}",
                "kubectl.kubernetes.io/restartedAt": "hunter2",
                "seccomp.security.alpha.kubernetes.io/pod": "hunter2",
                "vault.example.com/token": "hunter2",
            },
            "managedFields": [{"manager": "hunter2"}],
            "finalizers": ["hunter2"],
        },
        "spec": {
            "schedulerName": "divvy-scheduler",
            "imagePullSecrets": [{"name": "hunter2"}],
            "securityContext": {"sysctls": [{"name": "x", "value": "hunter2"}]},
            "readinessGates": [{"conditionType": "hunter2"}],
            "containers": [{
                "name": "main", "image": "hunter2", "command": ["hunter2"], "args": ["hunter2"],
                "env": [{"name": "TOKEN", "value": "hunter2"}],
                "envFrom": [{"secretRef": {"name": "hunter2"}}],
                "ports": [{"name": "hunter2", "containerPort": 80}],
                "resources": {"limits": {"nvidia.com/gpu": "1"}, "claims": [{"name": "hunter2"}]},
                "lifecycle": {"preStop": {"httpGet": {"httpHeaders": [{"value": "hunter2"}]}}},
                "livenessProbe": {"exec": {"command": ["hunter2"]}},
                "volumeMounts": [{"mountPath": "hunter2"}],
            }],
            "ephemeralContainers": [{"name": "debug", "command": ["hunter2"]}],
            "volumes": [
                {"name": "a", "gitRepo": {"repository": "https://me:hunter2@example.com/"}},
                {"name": "b", "flexVolume": {"driver": "d", "options": {"password": "hunter2"}}},
                {"name": "c", "scaleIO": {"gateway": "hunter2", "secretRef": {"name": "hunter2"}}},
                {"name": "d", "ephemeral": {"volumeClaimTemplate": template}},
                {"name": "e", "csi": {"driver": "d", "volumeAttributes": {"p": "hunter2"}}},
                {"name": "f", "rbd": {"image": "i", "user": "hunter2", "keyring": "hunter2"}},
                {"name": "g", "iscsi": {"iqn": "i", "initiatorName": "hunter2"}},
                {"name": "h", "cephfs": {"user": "hunter2", "monitors": ["hunter2"]}},
                {"name": "i", "secret": {"secretName": "hunter2"}},
            ],
        },
        "status": {
            "phase": "Failed", "message": "hunter2", "reason": "hunter2",
            "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "SchedulerError", "message": "denied the request: hunter2"}],
            "containerStatuses": [{"name": "main", "imageID": "hunter2",
                "state": {"waiting": {"reason": "ErrImagePull", "message": "hunter2"}},
                "lastState": {"terminated": {"message": "hunter2"}}}],
            "resourceClaimStatuses": [{"name": "hunter2"}],
        },
    })
}

#[test]
fn nothing_secret_is_kept() {
    let metadata = json!({"name": "x", "annotations": {"example.com/key": "hunter2",
        "volume.kubernetes.io/storage-provisioner": "hunter2"}});
    for (kind, object) in [
        ("Pod", pod()),
        (
            "Node",
            json!({"metadata": metadata, "spec": {"providerID": "hunter2"},
                "status": {"images": [{"names": ["hunter2"]}], "nodeInfo": {"machineID": "hunter2"},
                    "conditions": [{"type": "Ready", "message": "hunter2"}]}}),
        ),
        (
            "PersistentVolume",
            json!({"metadata": metadata, "status": {"phase": "Failed", "message": "hunter2"},
                "spec": {"mountOptions": ["password=hunter2"],
                    "csi": {"driver": "d", "volumeHandle": "h", "fsType": "hunter2",
                        "volumeAttributes": {"password": "hunter2"},
                        "nodePublishSecretRef": {"name": "hunter2"}},
                    "azureFile": {"secretName": "hunter2"}, "nfs": {"path": "hunter2"},
                    "flexVolume": {"options": {"password": "hunter2"}}}}),
        ),
        (
            "PersistentVolumeClaim",
            json!({"metadata": metadata, "spec": {"dataSourceRef": {"name": "hunter2"}},
                "status": {"conditions": [{"type": "Resizing", "message": "hunter2"}]}}),
        ),
        (
            "StorageClass",
            json!({"metadata": metadata, "parameters": {"secret": "hunter2"},
                "mountOptions": ["password=hunter2"]}),
        ),
        (
            "VolumeAttachment",
            json!({"metadata": metadata, "status": {"attachError": {"message": "hunter2"}},
                "spec": {"source": {"inlineVolumeSpec": {"mountOptions": ["hunter2"]}}}}),
        ),
        ("PriorityClass", json!({"metadata": metadata, "description": "hunter2"})),
        (
            "Pod",
            json!({"status": {"phase": "Failed", "reason": "hunter2 UnexpectedAdmissionError",
                "message": "hunter2: maximum request size for shared resources is 1; found hunter2"}}),
        ),
        ("CSIDriver", json!({"spec": {"tokenRequests": [{"audience": "hunter2"}]}})),
        ("CSINode", json!({"spec": {"drivers": [{"name": "d", "nodeID": "hunter2"}]}})),
    ] {
        let text = strip(saved(kind), object).to_string();
        assert!(!text.contains("hunter2"), "{kind}: {text}");
    }
}

#[test]
fn of_what_a_device_plugin_says_the_words_that_decide_are_kept() {
    let status = |message: &str| {
        let status = json!({"phase": "Failed", "reason": "UnexpectedAdmissionError",
            "message": message});
        strip(saved("Pod"), json!({"status": status}))["status"].take()
    };
    let refused = "Allocate failed due to rpc error: code = Unknown desc = request for 'nvidia.com/gpu: 2' \
                   too large: maximum request size for shared resources is 1; found 2, which is unexpected";
    assert_eq!(
        status(refused),
        json!({"phase": "Failed", "reason": "UnexpectedAdmissionError",
            "message": "maximum request size for shared resources is 1"})
    );
    let other = "Allocate failed due to hunter2, which is unexpected";
    assert_eq!(status(other), json!({"phase": "Failed", "reason": "UnexpectedAdmissionError"}));
}

#[test]
fn what_has_not_the_form_that_it_should_have_is_not_kept() {
    let hidden = json!({"deeper": "hunter2"});
    let pod = json!({
        "metadata": {"name": hidden, "uid": [hidden, ["hunter2"], "u"],
            "labels": {"a": hidden, "b": ["hunter2"], "c": "kept"},
            "annotations": {"gpu-fraction": hidden}, "ownerReferences": "hunter2"},
        "spec": {"nodeSelector": "hunter2", "resourceClaims": [hidden, "hunter2"],
            "containers": ["hunter2", {"name": "main"}]},
        "status": ["hunter2"],
    });
    assert_eq!(
        strip(saved("Pod"), pod),
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"uid": ["u"], "labels": {"c": "kept"}, "annotations": {}},
            "spec": {"resourceClaims": [{}], "containers": [{"name": "main"}]},
            "status": []})
    );
    for odd in [json!(null), json!(5), json!(["hunter2"]), json!([{"metadata": {"name": "x"}}])] {
        for saved in &EVERYTHING {
            let expected =
                json!({"apiVersion": saved.resource.api_version, "kind": saved.resource.kind});
            assert_eq!(strip(saved, odd.clone()), expected);
        }
    }
}
