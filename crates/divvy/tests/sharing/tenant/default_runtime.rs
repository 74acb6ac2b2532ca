//! A node whose default runtime hands out cards: there no runtime class tells which pods to guard.

use super::{CUDA, Tenant, foreign};
use divvy_testbed::api::JSON;
use http::Method;
use serde_json::{Value, json};

const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A pod of an image that asks for all cards, without a runtime class.
fn silent(name: &str) -> Value {
    let mut pod = foreign();
    pod["metadata"]["name"] = json!(name);
    pod["spec"].as_object_mut().unwrap().remove("runtimeClassName");
    pod["spec"]["containers"][0]["image"] = json!(CUDA);
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn no_container_gets_a_card_of_the_default_runtime_by_its_image_nor_by_debugging() {
    let Some(mut tenant) = Tenant::enter().await else { return };
    tenant.cluster.is_hurt(true);
    tenant.cluster.node().change_default_runtime("nvidia").unwrap();
    assert_eq!(tenant.unguarded(silent("x")).await.len(), 8, "where nobody guards the cards");
    tenant.cluster.apply("deploy/optional-default-runtime.yaml");
    let pods = "/api/v1/namespaces/team/pods";
    tenant
        .cluster
        .until("the policy acts", async || {
            let (path, probe) = (format!("{pods}?dryRun=All"), silent("probe"));
            let made = tenant.api.send(Method::POST, &path, JSON, Some(&probe)).await.unwrap();
            made["spec"]["containers"][0]["env"].is_array()
        })
        .await;
    let mut pod = silent("idle");
    let aside = json!({"name": "aside", "image": CUDA, "restartPolicy": "Always", "imagePullPolicy": "Never"});
    pod["spec"]["initContainers"] = json!([aside]);
    let pod = tenant.api.create(&pod).await.unwrap();
    tenant.bind(&pod).await;
    tenant.sees_nothing("its image", &pod, false).await;
    let debug = json!({"spec": {"ephemeralContainers": [
        {"name": "debug", "image": CUDA, "imagePullPolicy": "Never", "targetContainerName": "main"},
    ]}});
    let path = format!("{pods}/idle/ephemeralcontainers");
    tenant.api.send(Method::PATCH, &path, STRATEGIC, Some(&debug)).await.unwrap();
    tenant
        .cluster
        .until("the container for debugging runs", async || {
            let pod = tenant.cluster.get("team", "idle").await;
            pod["status"]["ephemeralContainerStatuses"][0]["state"]["running"].is_object()
        })
        .await;
    tenant.sees_nothing("debugging", &pod, false).await;
    // The share has kept its card, and the default runtime is none of its business.
    assert_eq!(tenant.cluster.card_of("team", "own").await, tenant.card);
}
