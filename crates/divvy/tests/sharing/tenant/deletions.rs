//! A tenant takes its pod away, and lets the containers run on.

use super::{Tenant, assert_refused, share};
use divvy_testbed::api::{ApiError, JSON};
use http::Method;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/team/pods";

/// A share whose container does not want to end.
fn stubborn(name: &str, fraction: &str, seconds: u32) -> Value {
    let mut pod = share("team", name, fraction);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(seconds);
    pod["spec"]["containers"][0]["command"] =
        json!(["/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"]);
    pod
}

impl Tenant {
    async fn started(&self, pod: &Value) -> Value {
        self.api.create(pod).await.unwrap();
        let name = pod["metadata"]["name"].as_str().unwrap();
        self.cluster.card_of("team", name).await;
        self.cluster.get("team", name).await
    }

    /// All ways to take a pod away before its containers have ended.
    async fn is_kept_from_force(&self, pod: &str) {
        let path = format!("{PODS}/{pod}");
        let now = json!({"gracePeriodSeconds": 0});
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": "team", "name": pod},
            "deleteOptions": now,
        });
        for (what, method, path, body) in [
            ("delete", Method::DELETE, path.clone(), &now),
            ("delete them all", Method::DELETE, PODS.to_owned(), &now),
            ("evict", Method::POST, format!("{path}/eviction"), &eviction),
        ] {
            let result = self.api.send(method, &path, JSON, Some(body)).await;
            assert_refused(what, &result.expect_err(what));
        }
    }

    async fn delete(&self, pod: &str, seconds: u32) -> Result<Value, ApiError> {
        let options = json!({"gracePeriodSeconds": seconds});
        self.api.send(Method::DELETE, &format!("{PODS}/{pod}"), JSON, Some(&options)).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_container_of_a_tenants_share_outlives_its_pod() {
    let Some(tenant) = Tenant::enter().await else { return };
    let pod = tenant.started(&stubborn("stays", "0.05", 5)).await;
    tenant.is_kept_from_force("stays").await;
    // It may ask for more time than the pod has; that is no harm while the pod is there.
    tenant.delete("stays", 7).await.unwrap();
    tenant.is_kept_from_force("stays").await;
    tenant
        .cluster
        .until("the pod is gone", async || {
            tenant.cluster.api.get(&format!("{PODS}/stays")).await.is_err()
        })
        .await;
    assert!(!tenant.cluster.runs(&pod), "the pod is gone, and its container is there");
}

/// What an administrator may do: the kubelet does not shorten an end that it has begun, so that the
/// container runs on for the time of the first deletion, and nobody sees its pod.
#[tokio::test(flavor = "multi_thread")]
async fn a_share_that_is_forced_while_it_ends_keeps_its_card_until_its_container_is_gone() {
    let Some(tenant) = Tenant::enter().await else { return };
    let pod = tenant.started(&stubborn("first", "0.9", 12)).await;
    tenant.delete("first", 12).await.unwrap();
    let events = format!(
        "/api/v1/namespaces/team/events?fieldSelector=reason%3DKilling,involvedObject.uid%3D{}",
        pod["metadata"]["uid"].as_str().unwrap()
    );
    let asked = async || tenant.cluster.api.get(&events).await.unwrap()["items"] != json!([]);
    tenant.cluster.until("the kubelet has asked it to end", asked).await;
    tenant.cluster.api.delete(&format!("{PODS}/first")).await.unwrap();
    tenant.api.create(&share("team", "next", "0.9")).await.unwrap();
    let bound = async || !tenant.cluster.get("team", "next").await["spec"]["nodeName"].is_null();
    tenant.cluster.until("the next share has its card", bound).await;
    assert!(!tenant.cluster.runs(&pod), "both have a card that is too small for two");
}
