//! A tenant tries to get more than its Isolated share through the API: it is refused, or its
//! container has its limit all the same.

use super::cluster::{Cluster, SERVER};
use super::divvy::{LEVEL, PROVIDER, share};
use http::Method;
use serde_json::{Value, json};

const ENV: &str = "/spec/containers/0/env";
const MOUNTS: &str = "/spec/containers/0/volumeMounts";

pub async fn gets_no_more_than_its_part(cluster: &Cluster) {
    is_refused_at_create(cluster).await;
    is_refused_later(cluster).await;
    is_limited_all_the_same(cluster).await;
}

fn isolated(name: &str) -> Value {
    share(name, "0.2", Some("Isolated"))
}

fn with(pod: &Value, pointer: &str, value: Value) -> Value {
    let mut pod = pod.clone();
    let mut at = &mut pod;
    for part in pointer.split('/').skip(1) {
        at = match part.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[part.replace("~1", "/").as_str()],
        };
    }
    *at = value;
    pod
}

async fn is_refused_at_create(cluster: &Cluster) {
    let pod = isolated("tries");
    let label = |key: &str| format!("/metadata/labels/{}", key.replace('/', "~1"));
    let annotation = |key: &str| format!("/metadata/annotations/{}", key.replace('/', "~1"));
    let mounted = |path: &str| {
        let pod = with(&pod, MOUNTS, json!([{"name": "v", "mountPath": path}]));
        with(&pod, "/spec/volumes", json!([{"name": "v", "emptyDir": {}}]))
    };
    let variable =
        |name: &str, value: &str| with(&pod, ENV, json!([{"name": name, "value": value}]));
    let mut beside = pod.clone();
    let other = json!({"name": "beside", "image": SERVER, "imagePullPolicy": "Never", "restartPolicy": "Always",
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]});
    beside["spec"]["initContainers"] = json!([other]);
    for (what, pod, said) in [
        (
            "no level",
            with(&pod, &label(LEVEL), json!("Isoalted")),
            "allowed are Isolated and Shared",
        ),
        (
            "no provider",
            with(&share("tries", "0.2", Some("Shared")), &label(LEVEL), json!("Isolated")),
            "needs a provider",
        ),
        ("another provider", with(&pod, &label(PROVIDER), json!("mine")), "is no provider"),
        (
            "an off-switch",
            variable("CUDA_DISABLE_CONTROL", "true"),
            "can switch provider HAMi-core off",
        ),
        (
            "the limit of one card",
            variable("CUDA_DEVICE_MEMORY_LIMIT_0", "80g"),
            "can switch provider HAMi-core off",
        ),
        ("more compute", variable("CUDA_DEVICE_SM_LIMIT", "100"), "says how much it may use"),
        ("its devices", variable("NVIDIA_VISIBLE_DEVICES", "nvidia.com/gpu=all"), ""),
        ("a mount", mounted("/etc"), "would hide /etc/ld.so.preload"),
        ("a mount, spelled otherwise", mounted("/tmp/..//etc/."), "would hide /etc/ld.so.preload"),
        ("the library's folder", mounted("/usr/local/vgpu/"), "would hide /usr/local/vgpu"),
        ("another container", beside, ""),
        ("its own limit", with(&pod, &annotation("divvy.dev/memory-limit"), json!("0")), ""),
    ] {
        match cluster.api.create(&pod).await {
            Err(why) => assert!(why.to_string().contains(said), "{what}: {why}"),
            Ok(stored) => {
                // What was taken out instead.
                assert_eq!(said, "", "{what}: {stored}");
                let running = cluster.running("default", "tries").await;
                cluster.sees_its_part(&running);
                if running["spec"]["initContainers"].is_array() {
                    let beside = cluster.node.look_into(&running, "beside").unwrap();
                    assert!(beside.cards.is_empty(), "{what}: {beside:?}");
                }
                cluster.delete("default", "tries").await;
            }
        }
    }
}

/// Nor can it change what its containers read when they start again.
async fn is_refused_later(cluster: &Cluster) {
    cluster.api.create(&isolated("tries")).await.unwrap();
    cluster.running("default", "tries").await;
    let path = "/api/v1/namespaces/default/pods/tries";
    for (change, said) in [
        (json!({"labels": {LEVEL: "Shared"}}), "cannot become"),
        (json!({"labels": {PROVIDER: null}}), "cannot become"),
        (json!({"annotations": {"divvy.dev/memory-limit": "0"}}), "come with the binding by divvy"),
        (json!({"annotations": {"divvy.dev/class": "Shared"}}), "come with the binding by divvy"),
        (
            json!({"annotations": {"scheduling.koordinator.sh/device-allocated": "{}"}}),
            "come with the binding by divvy",
        ),
        (
            json!({"annotations": {"divvy.dev/visible-devices": "nvidia.com/gpu=all"}}),
            "come with the binding by divvy",
        ),
    ] {
        let patch = json!({ "metadata": change });
        let why = cluster.api.patch(path, &patch).await.unwrap_err().to_string();
        assert!(why.contains(said), "{change}: {why}");
    }
    // A container for debugging has no card.
    let debug = json!({"spec": {"ephemeralContainers": [{
        "name": "debug", "image": "x", "targetContainerName": "server",
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "nvidia.com/gpu=all"}],
    }]}});
    let of_debug = format!("{path}/ephemeralcontainers");
    let kind = "application/strategic-merge-patch+json";
    assert!(cluster.api.send(Method::PATCH, &of_debug, kind, Some(&debug)).await.is_err());
    cluster.delete("default", "tries").await;
}

/// What is not refused changes nothing.
async fn is_limited_all_the_same(cluster: &Cluster) {
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "unlimited"},
        "data": {"CUDA_DEVICE_MEMORY_LIMIT": "0", "CUDA_DISABLE_CONTROL": "true"},
    });
    cluster.api.create(&config).await.unwrap();
    let from = json!([{"configMapRef": {"name": "unlimited"}}]);
    let pod = with(&isolated("tries"), "/spec/containers/0/envFrom", from);
    let limit = json!([
        {"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "0"},
        {"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "80g"},
    ]);
    cluster.api.create(&with(&pod, ENV, limit)).await.unwrap();
    let running = cluster.running("default", "tries").await;
    let found = cluster.node.look_into(&running, "server").unwrap();
    // The runtime's own value wins for the first process.
    assert_eq!(found.environment["CUDA_DISABLE_CONTROL"], "false");
    cluster.sees_its_part(&running);
    cluster.delete("default", "tries").await;
}
