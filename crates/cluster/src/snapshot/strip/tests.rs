use super::*;
use crate::snapshot::EVERYTHING;
use divvy_words::Object;
use serde_json::json;

fn resource(kind: &str) -> &'static Resource {
    EVERYTHING.iter().find(|resource| resource.kind == kind).unwrap()
}

/// A pod with everything that somebody might not want to hand on, and all that decides.
fn pod() -> Value {
    json!({
        "metadata": {
            "name": "p", "namespace": "ml", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": "2026-01-31T12:00:00Z", "generation": 3,
            "labels": {"app": "web", "runai-gpu-group": "g"},
            "annotations": {
                "gpu-fraction": "0.5", "divvy.dev/cards": "0:5",
                "kubectl.kubernetes.io/last-applied-configuration": "{\"env\":\"hunter2\"}",
                "vault.example.com/token": "hunter2",
            },
            "managedFields": [{"manager": "hunter2"}],
            "ownerReferences": [{"kind": "Job", "name": "j", "controller": true}],
        },
        "spec": {
            "schedulerName": "divvy-scheduler", "nodeName": "n1", "priority": 5,
            "priorityClassName": "high", "hostNetwork": true,
            "terminationGracePeriodSeconds": 30, "nodeSelector": {"pool": "ml"},
            "overhead": {"cpu": "1"}, "resources": {"requests": {"cpu": "2"}},
            "schedulingGates": [{"name": "g"}],
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}}}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]}},
            "resourceClaims": [{"name": "c"}],
            "imagePullSecrets": [{"name": "hunter2"}],
            "containers": [{
                "name": "main", "image": "hunter2", "command": ["hunter2"], "args": ["hunter2"],
                "env": [{"name": "TOKEN", "value": "hunter2"}],
                "envFrom": [{"secretRef": {"name": "hunter2"}}],
                "ports": [{"containerPort": 80, "hostPort": 80}],
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
                "lifecycle": {"preStop": {"exec": {"command": ["hunter2"]}}},
            }],
            "initContainers": [{"name": "side", "restartPolicy": "Always", "args": ["hunter2"]}],
            "ephemeralContainers": [{"name": "debug", "command": ["hunter2"]}],
            "volumes": [
                {"name": "a", "secret": {"secretName": "hunter2"}},
                {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "c", "csi": {"driver": "d", "volumeAttributes": {"p": "hunter2"}}},
            ],
        },
        "status": {
            "phase": "Pending", "nominatedNodeName": "n2", "startTime": "2026-01-31T12:00:01Z",
            "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "0/1 nodes are available"}],
            "containerStatuses": [{"name": "main", "imageID": "hunter2",
                "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}},
                "lastState": {"terminated": {"message": "hunter2"}}}],
        },
    })
}

/// The object with its type and nothing taken away.
fn typed(kind: &str, mut object: Value) -> Value {
    object["apiVersion"] = resource(kind).api_version.into();
    object["kind"] = kind.into();
    object
}

#[test]
fn nothing_secret_is_kept_of_a_pod() {
    let text = strip(resource("Pod"), pod()).to_string();
    assert!(!text.contains("hunter2"), "{text}");
    assert!(!text.contains("managedFields"), "{text}");
}

#[test]
fn divvy_reads_the_same_of_a_pod_with_and_without_the_rest() {
    let read = |object: Value| serde_json::from_value::<Object>(object).unwrap();
    assert_eq!(read(strip(resource("Pod"), pod())), read(typed("Pod", pod())));
}

#[test]
fn annotations_of_kubernetes_itself_are_kept() {
    for (key, kept) in [
        ("volume.kubernetes.io/selected-node", true),
        ("pv.kubernetes.io/bind-completed", true),
        ("storageclass.kubernetes.io/is-default-class", true),
        ("gpu-memory", true),
        ("kubectl.kubernetes.io/last-applied-configuration", false),
        ("example.com/kubernetes.io", false),
        ("notkubernetes.io/x", false),
        ("plain", false),
    ] {
        assert_eq!(is_read(key), kept, "{key}");
    }
}

#[test]
fn a_node_keeps_what_it_is_and_has() {
    let node = json!({
        "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.count": "8"},
            "annotations": {"example.com/secret": "hunter2"}},
        "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "8"}, "capacity": {"cpu": "8"},
            "images": [{"names": ["hunter2"]}], "nodeInfo": {"machineID": "hunter2"}},
    });
    let stripped = strip(resource("Node"), node.clone());
    assert!(!stripped.to_string().contains("hunter2"), "{stripped}");
    let read = |object: Value| serde_json::from_value::<Object>(object).unwrap();
    assert_eq!(read(stripped), read(typed("Node", node)));
}

#[test]
fn divvy_reads_the_same_of_storage_with_and_without_the_rest() {
    let annotations = json!({"pv.kubernetes.io/bind-completed": "yes",
        "volume.kubernetes.io/selected-node": "n1", "example.com/key": "hunter2",
        "storageclass.kubernetes.io/is-default-class": "true"});
    let metadata = json!({"name": "x", "namespace": "ml", "annotations": annotations});
    let csi = json!({"driver": "d", "volumeHandle": "h",
        "volumeAttributes": {"password": "hunter2"}});
    let selector = json!({"matchLabels": {"zone": "a"}});
    for (kind, object) in [
        (
            "PersistentVolumeClaim",
            json!({"metadata": metadata, "status": {"phase": "Bound"},
            "spec": {"storageClassName": "fast", "volumeName": "v", "selector": selector,
                "accessModes": ["ReadWriteOncePod"],
                "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        (
            "PersistentVolume",
            json!({"metadata": metadata, "status": {"phase": "Bound"},
            "spec": {"capacity": {"storage": "1Gi"}, "csi": csi, "accessModes": ["ReadWriteOnce"],
                "claimRef": {"namespace": "ml", "name": "x", "uid": "u"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["a"]}]}]}}}}),
        ),
        (
            "StorageClass",
            json!({"metadata": metadata, "provisioner": "d",
            "parameters": {"secret": "hunter2"}, "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [
                {"key": "zone", "values": ["a"]}]}]}),
        ),
        (
            "CSINode",
            json!({"metadata": metadata, "spec": {"drivers": [
            {"name": "d", "allocatable": {"count": 3}}]}}),
        ),
        ("CSIDriver", json!({"metadata": metadata, "spec": {"storageCapacity": true}})),
        (
            "CSIStorageCapacity",
            json!({"metadata": metadata, "storageClassName": "fast",
            "capacity": "1Gi", "maximumVolumeSize": "1Gi", "nodeTopology": selector}),
        ),
        (
            "VolumeAttachment",
            json!({"metadata": metadata, "spec": {"attacher": "d",
            "nodeName": "n1", "source": {"persistentVolumeName": "v"}}}),
        ),
        ("PodGroup", json!({"metadata": metadata, "spec": {"minMember": 3}})),
        ("Namespace", json!({"metadata": {"name": "ml", "labels": {"team": "a"}}})),
        ("PriorityClass", json!({"metadata": {"name": "high"}, "value": 5})),
    ] {
        let read = |object: Value| serde_json::from_value::<Object>(object).unwrap();
        let stripped = strip(resource(kind), object.clone());
        assert!(!stripped.to_string().contains("hunter2"), "{stripped}");
        assert_eq!(read(stripped), read(typed(kind, object)), "{kind}");
    }
}

#[test]
fn whatever_an_object_is_it_is_not_a_reason_to_stop() {
    for odd in [json!(null), json!(5), json!({"metadata": 5, "spec": [], "status": "x"})] {
        for resource in &EVERYTHING {
            strip(resource, odd.clone());
        }
    }
}
