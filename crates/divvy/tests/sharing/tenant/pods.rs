//! Pods that a tenant makes.
#![allow(clippy::needless_pass_by_value)]

use super::{CUDA, Tenant, VARIABLE, assert_refused, foreign, share};
use crate::cluster::plain;
use divvy_testbed::node::{Card, Node};
use serde_json::{Value, json};

/// A pod of another scheduler with these fields added to its container.
fn container(fields: Value) -> Value {
    extended(foreign(), "/spec/containers/0", fields)
}

fn extended(mut pod: Value, at: &str, fields: Value) -> Value {
    let place = pod.pointer_mut(at).unwrap().as_object_mut().unwrap();
    place.extend(fields.as_object().unwrap().clone());
    pod
}

fn variable(source: Value) -> Value {
    let mut entry = json!({"name": VARIABLE});
    entry.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    json!({"env": [entry]})
}

fn annotated(pod: Value, annotations: Value) -> Value {
    extended(pod, "/metadata", json!({"annotations": annotations}))
}

fn granted_variable() -> Value {
    let path = "metadata.annotations['divvy.dev/visible-devices']";
    variable(json!({"valueFrom": {"fieldRef": {"fieldPath": path}}}))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_variable_image_or_mount_of_a_tenants_pod_names_a_card() {
    let Some(tenant) = Tenant::enter().await else { return };
    let cuda = json!({"image": CUDA});
    let mut tries: Vec<(String, Value)> = Vec::new();
    let uuid = Card::a100(0).uuid;
    for value in ["all", "0", &uuid, "nvidia.com/gpu=0", "nvidia.com/gpu=all", "void,0", "", "ALL"]
    {
        tries.push((format!("{VARIABLE}={value}"), container(variable(json!({"value": value})))));
    }
    for name in ["nvidia_visible_devices", "Nvidia_Visible_Devices"] {
        let env = json!({"env": [{"name": name, "value": "all"}]});
        tries.push((format!("{name}=all"), container(env)));
    }
    let sources = [
        ("a ConfigMap", json!({"configMapKeyRef": {"name": "parts", "key": "VISIBLE_DEVICES"}})),
        ("a Secret", json!({"secretKeyRef": {"name": "parts", "key": "VISIBLE_DEVICES"}})),
        ("an annotation", json!({"fieldRef": {"fieldPath": "metadata.annotations['mine']"}})),
        ("a label", json!({"fieldRef": {"fieldPath": "metadata.labels['mine']"}})),
        ("a file", json!({"fileKeyRef": {"volumeName": "v", "path": "env", "key": VARIABLE}})),
    ];
    for (what, source) in sources {
        let mut pod = container(variable(json!({"valueFrom": source})));
        pod["metadata"]["annotations"] = json!({"mine": "all"});
        pod["metadata"]["labels"] = json!({"mine": "all"});
        pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
        tries.push((format!("the variable from {what}"), pod));
    }
    let parts = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "team", "name": "parts"},
        "data": {"VISIBLE_DEVICES": "all"},
    });
    // There after the first time.
    let _ = tenant.api.create(&parts).await;
    let from = json!({"envFrom": [{"prefix": "NVIDIA_", "configMapRef": {"name": "parts"}}]});
    tries.push(("envFrom with a prefix".into(), container(from.clone())));
    tries.push(("envFrom with a prefix, beside a whole card".into(), whole_card(from)));
    for kind in ["ConfigMap", "Secret"] {
        let mut source = json!({"apiVersion": "v1", "kind": kind,
            "metadata": {"namespace": "team", "name": "whole"}});
        let data = if kind == "Secret" { "stringData" } else { "data" };
        source[data] = json!({VARIABLE: "all"});
        match tenant.api.create(&source).await {
            Ok(_) => {
                let from = json!({format!("{}Ref", ["configMap", "secret"][usize::from(kind == "Secret")]): {"name": "whole"}});
                tries.push((
                    format!("envFrom a {kind}, beside a whole card"),
                    whole_card(json!({"envFrom": [from]})),
                ));
            }
            Err(why) => assert_refused(kind, &why),
        }
    }
    tries.push(("an image that says all".into(), container(cuda.clone())));
    let none = json!({"image": CUDA, "resources": {"limits": {"nvidia.com/gpu": "0"}}});
    tries.push(("an image that says all, with zero GPUs".into(), container(none)));
    for inner in [json!({"image": CUDA}), variable(json!({"value": "all"}))] {
        let aside = json!({"name": "aside", "image": CUDA, "restartPolicy": "Always"});
        let mut pod = foreign();
        pod["spec"]["initContainers"] = json!([extended(aside, "", inner)]);
        tries.push(("an init container that stays".into(), pod));
    }
    for path in [
        "/var/run/nvidia-container-devices/all",
        "/var//run/nvidia-container-devices/all",
        "/var/run/./nvidia-container-devices/all",
        "/var/run/x/../nvidia-container-devices/cdi/nvidia.com/gpu/all",
        "/run/nvidia-container-devices/all",
    ] {
        for volume in [json!({"emptyDir": {}}), json!({"hostPath": {"path": "/dev/null"}})] {
            let mounts = json!({"volumeMounts": [{"name": "v", "mountPath": path}]});
            let mut pod = container(mounts);
            pod["spec"]["volumes"] = json!([extended(json!({"name": "v"}), "", volume.clone())]);
            tries.push((format!("a mount at {path} of {volume}"), pod));
        }
    }
    tenant.try_pods(tries).await;
    // Where nobody guards the cards, the image alone is enough.
    assert_eq!(tenant.unguarded(container(cuda)).await.len(), 8);
}

/// NVIDIA's runtime prefers them to variables; here it is shown them as by CRI-O.
#[tokio::test(flavor = "multi_thread")]
async fn no_annotation_of_a_tenants_pod_names_a_card() {
    let Some(tenant) = Tenant::enter().await else { return };
    let mut tries: Vec<(String, Value)> = Vec::new();
    for key in [
        "cdi.k8s.io/vendor",
        "nvidia.cdi.k8s.io/vendor",
        "nvidia.cdi.k8s.io",
        "nvidia.cdi.k8s.io/pod",
        "nvidia.cdi.k8s.io/container.main",
    ] {
        for value in ["nvidia.com/gpu=all", &Card::a100(0).uuid, "0"] {
            let own = share("team", "x", "0.05");
            for (whose, mut pod) in [("another scheduler's", foreign()), ("a share", own)] {
                pod["metadata"]["annotations"][key] = json!(value);
                tries.push((format!("{whose} with {key}: {value}"), pod));
            }
        }
    }
    tenant.try_pods(tries).await;
    // Where nobody guards the cards, one is enough, whatever the variable says.
    for key in ["cdi.k8s.io/vendor", "nvidia.cdi.k8s.io/pod"] {
        let pod = container(variable(json!({"value": "void"})));
        let pod = annotated(pod, json!({key: "nvidia.com/gpu=all"}));
        assert_eq!(tenant.unguarded(pod).await.len(), 8, "{key}");
    }
}

/// The same with a GPU of its own.
fn whole_card(fields: Value) -> Value {
    let limits = json!({"resources": {"limits": {"nvidia.com/gpu": "1"}}});
    extended(container(fields), "/spec/containers/0", limits)
}

/// The kubelet does not mind resources that its node does not have: such a pod holds no card, and
/// its image is believed.
#[tokio::test(flavor = "multi_thread")]
async fn no_pod_gets_past_the_schedulers_to_a_card() {
    let Some(tenant) = Tenant::enter().await else { return };
    let mut tries = Vec::new();
    for resource in
        ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/gpu-x", "nvidia.com/mig-1g.5gb"]
    {
        let limits = json!({"image": CUDA, "resources": {"limits": {resource: "1"}}});
        let mut pod = container(limits);
        pod["spec"]["nodeName"] = json!(Node::NAME);
        tries.push((format!("straight to the node with {resource}"), pod));
    }
    let node = json!({"nodeName": Node::NAME});
    let image = || container(json!({"image": CUDA}));
    tries.push(("straight to the node".into(), extended(image(), "/spec", node.clone())));
    let mirror = json!({"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"});
    let mirror = annotated(extended(image(), "/spec", node.clone()), mirror);
    tries.push(("as if it were a static pod".into(), mirror));
    let own = share("team", "x", "0.05");
    tries.push(("a share straight to the node".into(), extended(own, "/spec", node)));
    for scheduler in ["default-scheduler", "no-such-scheduler", "kai-scheduler"] {
        let mut own = share("team", "x", "0.05");
        own["spec"]["schedulerName"] = json!(scheduler);
        own["spec"]["containers"][0]["image"] = json!(CUDA);
        tries.push((format!("a share of {scheduler}"), own));
    }
    tenant.try_pods(tries).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_pod_brings_a_grant_of_its_own() {
    let Some(tenant) = Tenant::enter().await else { return };
    let mut tries = Vec::new();
    let neighbour = tenant.cluster.get("default", "neighbour").await;
    let theirs = neighbour["metadata"]["annotations"]["divvy.dev/visible-devices"].clone();
    let group = neighbour["metadata"]["labels"]["runai-gpu-group"].clone();
    let grants = [
        json!({"divvy.dev/visible-devices": "all"}),
        json!({"divvy.dev/visible-devices": theirs, "divvy.dev/cards": format!("{}:1", theirs.as_str().unwrap())}),
        json!({"divvy.dev/portion": "1", "received-resource-type": "Regular"}),
    ];
    for grant in grants {
        let mut with_share = grant.clone();
        with_share["gpu-fraction"] = json!("0.05");
        let mut plain = plain("team", "x");
        plain = extended(plain, "/spec/containers/0", granted_variable());
        for (whose, pod) in [
            ("another scheduler's", annotated(container(granted_variable()), grant.clone())),
            ("a share", annotated(share("team", "x", "0.05"), with_share)),
        ] {
            tries.push((format!("{whose} with {grant}"), pod));
        }
        tries.push((format!("divvy's, no share, with {grant}"), annotated(plain, grant)));
    }
    for labels in [
        json!({"runai-gpu-group": group}),
        json!({format!("runai-gpu-group/{}", group.as_str().unwrap()): group}),
        json!({"app": "kai-resource-reservation", "app.kubernetes.io/managed-by": "divvy", "runai-gpu-group": group}),
    ] {
        for pod in [share("team", "x", "0.05"), foreign()] {
            let pod = extended(pod, "/metadata", json!({"labels": labels}));
            tries.push((format!("labels {labels}"), pod));
        }
    }
    // Containers beside the share's own.
    let mut pod = share("team", "x", "0.05");
    let all = variable(json!({"value": "all"}));
    let beside = extended(
        json!({"name": "beside", "image": CUDA, "imagePullPolicy": "Never"}),
        "",
        all.clone(),
    );
    pod["spec"]["containers"].as_array_mut().unwrap().push(beside);
    tries.push(("a container beside the share that says all".into(), pod));
    let mut pod = share("team", "x", "0.05");
    pod["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "beside", "image": CUDA, "imagePullPolicy": "Never"}));
    tries.push(("a container beside the share whose image says all".into(), pod));
    let mut pod = share("team", "x", "0.05");
    pod["spec"]["initContainers"] =
        json!([{"name": "first", "image": CUDA, "restartPolicy": "Always"}]);
    tries.push(("an init container of a share".into(), pod));
    let own = extended(share("team", "x", "0.05"), "/spec/containers/0", all);
    tries.push(("a share that says all itself".into(), own));
    let own = extended(share("team", "x", "0.05"), "/spec/containers/0", json!({"image": CUDA}));
    tries.push(("a share whose image says all".into(), own));
    tenant.try_pods(tries).await;
    // Whoever pretends to be a reservation holds nothing and frees nothing.
    assert_eq!(tenant.cluster.reservations().await.len(), 2);
}
