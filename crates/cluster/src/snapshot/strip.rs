//! What is kept of an object. Secrets hide in environment variables, commands, annotations and
//! the messages of containers that failed; no decision looks at any of them.

use super::Resource;
use divvy_words::keys;
use serde_json::{Map, Value};

/// Of `metadata`. Annotations are picked one by one.
const METADATA: [&str; 11] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generateName",
    "labels",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "uid",
];
/// Of a container.
const CONTAINER: [&str; 4] = ["name", "ports", "resources", "restartPolicy"];
/// Of the status of a container: what it holds.
const CONTAINER_STATUS: [&str; 4] =
    ["allocatedResources", "allocatedResourcesStatus", "name", "resources"];
/// Of the status of a pod.
const POD_STATUS: [&str; 8] = [
    "allocatedResources",
    "conditions",
    "containerStatuses",
    "initContainerStatuses",
    "nominatedNodeName",
    "phase",
    "resources",
    "startTime",
];
/// Of the spec of a pod, what says nothing of where it may run.
const POD_LEAVES: [&str; 10] = [
    "dnsConfig",
    "ephemeralContainers",
    "hostAliases",
    "hostname",
    "imagePullSecrets",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "setHostnameAsFQDN",
    "subdomain",
];
/// Kinds of volumes that are the same on every node.
const VOLUME_LEAVES: [&str; 7] =
    ["configMap", "downwardAPI", "emptyDir", "hostPath", "image", "projected", "secret"];
/// Of the status of a node.
const NODE_STATUS: [&str; 2] = ["allocatable", "capacity"];

/// The object with its type, which items of a list lack, and without what no decision needs.
pub(super) fn strip(resource: &Resource, mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), resource.api_version.into());
        fields.insert("kind".to_owned(), resource.kind.into());
    }
    with(&mut object, "metadata", metadata);
    match resource.kind {
        "Pod" => {
            with(&mut object, "spec", pod_spec);
            with(&mut object, "status", |status| {
                keep(status, &POD_STATUS);
                for list in ["containerStatuses", "initContainerStatuses"] {
                    each(status, list, |container| keep(container, &CONTAINER_STATUS));
                }
            });
        }
        "Node" => with(&mut object, "status", |status| keep(status, &NODE_STATUS)),
        // Parameters of a driver may name credentials.
        "StorageClass" => with(&mut object, "parameters", Map::clear),
        "PersistentVolume" => with(&mut object, "spec", |spec| with_field(spec, "csi", csi)),
        _ => {}
    }
    object
}

fn metadata(metadata: &mut Map<String, Value>) {
    keep(metadata, &METADATA);
    with_field(metadata, "annotations", |annotations| annotations.retain(|key, _| is_read(key)));
}

/// What divvy reads, and what Kubernetes itself notes, but not what kubectl does: that is a copy
/// of the whole object.
fn is_read(annotation: &str) -> bool {
    let domain = annotation.split_once('/').map_or("", |(domain, _)| domain);
    keys::ANNOTATIONS.contains(&annotation)
        || (domain != "kubectl.kubernetes.io"
            && (domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")))
}

fn pod_spec(spec: &mut Map<String, Value>) {
    spec.retain(|field, _| !POD_LEAVES.contains(&field.as_str()));
    for list in ["containers", "initContainers"] {
        each(spec, list, |container| keep(container, &CONTAINER));
    }
    each(spec, "volumes", |volume| {
        volume.retain(|kind, _| !VOLUME_LEAVES.contains(&kind.as_str()));
        with_field(volume, "csi", csi);
    });
}

/// A CSI volume without what is meant for its driver alone.
fn csi(volume: &mut Map<String, Value>) {
    keep(volume, &["driver", "fsType", "readOnly", "volumeHandle"]);
}

fn keep(fields: &mut Map<String, Value>, kept: &[&str]) {
    fields.retain(|field, _| kept.contains(&field.as_str()));
}

fn with(object: &mut Value, field: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    if let Some(fields) = object.get_mut(field).and_then(Value::as_object_mut) {
        change(fields);
    }
}

fn with_field(
    fields: &mut Map<String, Value>,
    field: &str,
    change: impl FnOnce(&mut Map<String, Value>),
) {
    if let Some(fields) = fields.get_mut(field).and_then(Value::as_object_mut) {
        change(fields);
    }
}

fn each(fields: &mut Map<String, Value>, list: &str, change: impl Fn(&mut Map<String, Value>)) {
    if let Some(Value::Array(items)) = fields.get_mut(list) {
        items.iter_mut().filter_map(Value::as_object_mut).for_each(change);
    }
}

#[cfg(test)]
mod tests;
