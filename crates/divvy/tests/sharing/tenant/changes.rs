//! What a tenant does to pods that are there, and to what is not its own.

use super::{CUDA, Tenant, VARIABLE, assert_refused, foreign};
use divvy_testbed::api::JSON;
use divvy_testbed::node::Node;
use http::Method;
use serde_json::{Value, json};

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const OWN: &str = "/api/v1/namespaces/team/pods/own";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_tenant_may_write_changes_what_its_share_has() {
    let Some(tenant) = Tenant::enter().await else { return };
    let before = tenant.cluster.get("team", "own").await["metadata"].clone();
    let neighbour = tenant.cluster.get("default", "neighbour").await;
    let group = neighbour["metadata"]["labels"]["runai-gpu-group"].clone();
    let annotations = [
        ("divvy.dev/visible-devices", json!("all")),
        ("divvy.dev/visible-devices", Value::Null),
        ("divvy.dev/cards", json!("0:42949672960")),
        ("divvy.dev/cards", Value::Null),
        ("divvy.dev/portion", json!("1")),
        ("received-resource-type", json!("Regular")),
        ("gpu-fraction", json!("0.9")),
        ("gpu-fraction", Value::Null),
        ("gpu-memory", json!("40000")),
        ("gpu-fraction-num-devices", json!("2")),
        ("cdi.k8s.io/vendor", json!("nvidia.com/gpu=all")),
        ("nvidia.cdi.k8s.io", json!("nvidia.com/gpu=all")),
        ("nvidia.cdi.k8s.io/pod", json!("nvidia.com/gpu=all")),
    ];
    let labels = [
        ("runai-gpu-group".to_owned(), group.clone()),
        ("runai-gpu-group".to_owned(), Value::Null),
        (format!("runai-gpu-group/{}", group.as_str().unwrap()), group),
    ];
    let annotate = |(key, value): (&str, Value)| json!({"annotations": {key: value}});
    let label = |(key, value): (String, Value)| json!({"labels": {key: value}});
    let metadata = annotations.into_iter().map(annotate).chain(labels.into_iter().map(label));
    for metadata in metadata {
        let what = format!("patch {metadata}");
        let patch = json!({"metadata": metadata});
        let why = tenant.api.send(Method::PATCH, OWN, MERGE, Some(&patch)).await.unwrap_err();
        assert_refused(&what, &why);
        let mut whole = tenant.cluster.get("team", "own").await;
        for (field, entries) in metadata.as_object().unwrap() {
            for (key, value) in entries.as_object().unwrap() {
                let entries = whole["metadata"][field].as_object_mut().unwrap();
                match value {
                    Value::Null => drop(entries.remove(key)),
                    value => drop(entries.insert(key.clone(), value.clone())),
                }
            }
        }
        let why = tenant.api.send(Method::PUT, OWN, JSON, Some(&whole)).await.unwrap_err();
        assert_refused(&what.replace("patch", "update"), &why);
    }
    let after = tenant.cluster.get("team", "own").await["metadata"].clone();
    for field in ["annotations", "labels"] {
        assert_eq!(after[field], before[field]);
    }
    // What it may change starts the container anew, with the same card.
    let image = json!({"spec": {"containers": [{"name": "main", "image": CUDA}]}});
    tenant.api.send(Method::PATCH, OWN, STRATEGIC, Some(&image)).await.unwrap();
    tenant
        .cluster
        .until("the container runs the other image", async || {
            let status = &tenant.cluster.get("team", "own").await["status"]["containerStatuses"][0];
            status["restartCount"] != 0 && status["ready"] == true
        })
        .await;
    assert_eq!(tenant.cluster.card_of("team", "own").await, tenant.card);
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_for_debugging_and_other_images_of_running_pods_see_no_card() {
    let Some(tenant) = Tenant::enter().await else { return };
    let mut pod = foreign();
    pod["metadata"]["name"] = json!("idle");
    let idle = tenant.api.create(&pod).await.unwrap();
    tenant.bind(&idle).await;
    tenant.sees_nothing("before", &idle, false).await;
    let image = json!({"spec": {"containers": [{"name": "main", "image": CUDA}]}});
    let path = "/api/v1/namespaces/team/pods/idle";
    tenant.api.send(Method::PATCH, path, STRATEGIC, Some(&image)).await.unwrap();
    let variable = |value: Value| {
        let mut entry = json!({"name": VARIABLE});
        entry.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        json!([entry])
    };
    let granted =
        json!({"fieldRef": {"fieldPath": "metadata.annotations['divvy.dev/visible-devices']"}});
    for pod in ["own", "idle"] {
        for (name, env) in [
            ("silent", json!([])),
            ("all", variable(json!({"value": "all"}))),
            ("granted", variable(json!({"valueFrom": granted}))),
            ("void", variable(json!({"value": "void"}))),
        ] {
            let debug = json!({"spec": {"ephemeralContainers": [
                {"name": name, "image": CUDA, "imagePullPolicy": "Never", "env": env, "targetContainerName": "main"},
            ]}});
            let path = format!("/api/v1/namespaces/team/pods/{pod}/ephemeralcontainers");
            if let Err(why) = tenant.api.send(Method::PATCH, &path, STRATEGIC, Some(&debug)).await {
                assert_refused(&format!("debug {pod}: {name}"), &why);
            }
        }
    }
    tenant
        .cluster
        .until("the container runs the other image", async || {
            tenant.cluster.get("team", "idle").await["status"]["containerStatuses"][0]["restartCount"] != 0
        })
        .await;
    for (pod, is_share) in [("own", true), ("idle", false)] {
        let pod = tenant.cluster.get("team", pod).await;
        assert!(
            pod["spec"]["ephemeralContainers"].as_array().is_some_and(|c| c.len() == 2),
            "{pod}"
        );
        tenant.sees_nothing("debug", &pod, is_share).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hands_out_cards_is_not_a_tenants_to_touch() {
    let Some(tenant) = Tenant::enter().await else { return };
    let place = "/api/v1/namespaces/kai-resource-reservation/pods";
    let held = tenant.cluster.reservations().await;
    let held = held[0]["metadata"]["name"].as_str().unwrap();
    let mut reservation = foreign();
    reservation["metadata"]["namespace"] = json!("kai-resource-reservation");
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "own", "annotations": {"divvy.dev/visible-devices": "all"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": Node::NAME},
    });
    let token =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": "own"}, "handler": "nvidia"});
    let mut as_divvy = foreign();
    as_divvy["spec"]["serviceAccountName"] = json!("divvy-scheduler");
    let label = json!({"metadata": {"labels": {"divvy.dev/gpu-system": "true"}}});
    let registration = "/apis/admissionregistration.k8s.io/v1";
    let tries: [(&str, Method, String, Option<Value>); 18] = [
        ("make a reservation", Method::POST, place.into(), Some(reservation)),
        ("delete a reservation", Method::DELETE, format!("{place}/{held}"), None),
        ("label a reservation", Method::PATCH, format!("{place}/{held}"), Some(label.clone())),
        ("get into a reservation", Method::POST, format!("{place}/{held}/exec?command=sh"), None),
        ("bind", Method::POST, format!("{OWN}/binding"), Some(binding.clone())),
        (
            "bind the old way",
            Method::POST,
            "/api/v1/namespaces/team/bindings".into(),
            Some(binding),
        ),
        ("write the status", Method::PATCH, format!("{OWN}/status"), Some(label.clone())),
        (
            "a token of the scheduler",
            Method::POST,
            "/api/v1/namespaces/divvy-system/serviceaccounts/divvy-scheduler/token".into(),
            Some(token.clone()),
        ),
        (
            "a token of reservations",
            Method::POST,
            "/api/v1/namespaces/kai-resource-reservation/serviceaccounts/divvy-reserve/token"
                .into(),
            Some(token),
        ),
        ("a pod as divvy", Method::POST, "/api/v1/namespaces/team/pods".into(), Some(as_divvy)),
        (
            "the key of the webhooks",
            Method::GET,
            "/api/v1/namespaces/divvy-system/secrets/divvy-admission-tls".into(),
            None,
        ),
        (
            "take a policy away",
            Method::DELETE,
            format!("{registration}/validatingadmissionpolicybindings/divvy-hand-off"),
            None,
        ),
        (
            "take the webhooks away",
            Method::DELETE,
            format!("{registration}/mutatingwebhookconfigurations/divvy"),
            None,
        ),
        (
            "a webhook of one's own",
            Method::POST,
            format!("{registration}/mutatingwebhookconfigurations"),
            Some(json!({"metadata": {"name": "own"}})),
        ),
        (
            "manage GPUs in the own namespace",
            Method::PATCH,
            "/api/v1/namespaces/team".into(),
            Some(label.clone()),
        ),
        (
            "a runtime class",
            Method::POST,
            "/apis/node.k8s.io/v1/runtimeclasses".into(),
            Some(class),
        ),
        ("change the node", Method::PATCH, format!("/api/v1/nodes/{}", Node::NAME), Some(label)),
        ("the kubelet", Method::GET, format!("/api/v1/nodes/{}/proxy/pods", Node::NAME), None),
    ];
    for (what, method, path, body) in tries {
        let kind = if method == Method::PATCH { MERGE } else { JSON };
        let result = tenant.api.send(method, &path, kind, body.as_ref()).await;
        assert_refused(what, &result.expect_err(what));
    }
    tenant.cluster.check().await;
}
