//! A tenant names devices to the container runtime by annotations.

use crate::cluster::{cluster, eventually, is_about, namespace, pod, with_share};
use divvy_testbed::api::JSON;
use http::Method;
use serde_json::{Map, Value, json};

const REFUSED: &str = "annotations under cdi.k8s.io name devices to the container runtime";
const KEYS: [&str; 6] = [
    "cdi.k8s.io/gpu",
    "nvidia.cdi.k8s.io",
    "nvidia.cdi.k8s.io/pod",
    "nvidia.cdi.k8s.io/container.main",
    "my.cdi.k8s.io.example.com/x",
    "example.com/cdi.k8s.io",
];

fn annotated(mut pod: Value, key: &str) -> Value {
    pod["metadata"]["annotations"][key] = json!("nvidia.com/gpu=all");
    pod
}

fn annotate(key: &str, value: &Value) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

#[test]
fn no_pod_names_devices_by_an_annotation_from_the_start_or_later() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let path = format!("/api/v1/namespaces/{tenant}/pods/stays");
    cluster.runtime.block_on(async {
        api.create(&pod(&tenant, "stays", "default-scheduler")).await.unwrap();
        for key in KEYS {
            for given in [
                pod(&tenant, "own", "default-scheduler"),
                with_share(pod(&tenant, "own", "divvy-scheduler"), "0.5"),
            ] {
                let result = api.create(&annotated(given, key)).await;
                assert!(is_about(&result, REFUSED), "{key}: {result:?}");
            }
            let result = api.patch(&path, &annotate(key, &json!("nvidia.com/gpu=all"))).await;
            assert!(is_about(&result, REFUSED), "{key}: {result:?}");
            let debug = json!({"metadata": {"annotations": {key: "x"}},
                "spec": {"ephemeralContainers": [{"name": "debug", "image": "x"}]}});
            let merge = "application/strategic-merge-patch+json";
            let inside = format!("{path}/ephemeralcontainers");
            let stored = api.send(Method::PATCH, &inside, merge, Some(&debug)).await.unwrap();
            assert_eq!(
                stored["metadata"].get("annotations"),
                None,
                "debugging changes no metadata"
            );
        }
        // What only looks like it is nobody's business.
        let mut alike = pod(&tenant, "alike", "default-scheduler");
        alike["metadata"]["annotations"] =
            json!({"note": "see cdi.k8s.io/gpu", "cdi.k8s.example.com/io": "x"});
        api.create(&alike).await.unwrap();
    });
}

#[test]
fn whoever_may_bind_brings_no_device_along() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let binding = |key: &str| {
        json!({"apiVersion": "v1", "kind": "Binding",
            "metadata": {"namespace": tenant, "name": "own", "annotations": {key: "nvidia.com/gpu=all"}},
            "target": {"kind": "Node", "name": "n1"}})
    };
    cluster.runtime.block_on(async {
        api.create(&pod(&tenant, "own", "own-scheduler")).await.unwrap();
        for path in ["pods/own/binding", "bindings"] {
            let path = format!("/api/v1/namespaces/{tenant}/{path}");
            for key in KEYS {
                let result =
                    cluster.admin.send(Method::POST, &path, JSON, Some(&binding(key))).await;
                assert!(is_about(&result, REFUSED), "{path} {key}: {result:?}");
            }
        }
    });
}

/// As many as the API server takes, of three letters each.
fn very_many() -> Map<String, Value> {
    let letters = || ('a'..='z').chain('A'..='Z');
    let keys = letters().flat_map(|a| letters().map(move |b| format!("{a}{b}")));
    let keys = keys.flat_map(|key| letters().map(move |c| format!("{key}{c}")));
    keys.take(87_000).map(|key| (key, json!(""))).collect()
}

#[test]
fn an_annotation_from_before_blocks_neither_updates_nor_the_kubelet() {
    let Some(cluster) = cluster() else { return };
    let mut place = namespace("before");
    place["metadata"]["labels"] = json!({"divvy.dev/gpu-system": "true"});
    cluster.admin_create(&place);
    cluster.wait_for_account("before", "default");
    let mut many = pod("before", "many", "default-scheduler");
    many["metadata"]["annotations"] = Value::Object(very_many());
    for made in [pod("before", "few", "default-scheduler"), many] {
        cluster.admin_create(&annotated(made, "cdi.k8s.io/gpu"));
    }
    // From now on the namespace is a tenant's.
    let label = json!({"metadata": {"labels": {"divvy.dev/gpu-system": null}}});
    cluster.runtime.block_on(cluster.admin.patch("/api/v1/namespaces/before", &label)).unwrap();
    let path = |name: &str| format!("/api/v1/namespaces/before/pods/{name}");
    let patch = |name: &str, patch: Value| {
        cluster.runtime.block_on(cluster.admin.patch(&path(name), &patch))
    };
    eventually("the namespace is guarded", || {
        is_about(&patch("few", annotate("nvidia.cdi.k8s.io", &json!("x"))), REFUSED)
    });
    patch("few", annotate("note", &json!("x"))).unwrap();
    let other = patch("few", annotate("cdi.k8s.io/gpu", &json!("nvidia.com/gpu=1")));
    assert!(is_about(&other, REFUSED), "{other:?}");
    for name in ["few", "many"] {
        patch(name, json!({"metadata": {"finalizers": ["example.com/x"]}})).unwrap();
        patch(name, json!({"metadata": {"finalizers": null}})).unwrap();
        patch(&format!("{name}/status"), json!({"status": {"phase": "Running"}})).unwrap();
    }
    patch("few", annotate("cdi.k8s.io/gpu", &Value::Null)).unwrap();
    // Very many of them hide none.
    let hidden = patch("many", annotate("nvidia.cdi.k8s.io", &json!("x")));
    assert!(is_about(&hidden, REFUSED), "{hidden:?}");
}
