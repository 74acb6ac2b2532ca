//! Pods that a tenant lets a controller make.

use super::{CUDA, Tenant, VARIABLE, foreign, share};
use crate::cluster::half;
use serde_json::{Value, json};

/// A Deployment, a Job and a CronJob of this pod.
fn workloads(name: &str, pod: &Value) -> Vec<Value> {
    let mut template = json!({"metadata": pod["metadata"].clone(), "spec": pod["spec"].clone()});
    let metadata = template["metadata"].as_object_mut().unwrap();
    metadata.remove("name");
    metadata.remove("namespace");
    template["metadata"]["labels"]["run"] = json!(name);
    let of = |kind: &str, group: &str, spec: Value| {
        let metadata = json!({"namespace": "team", "name": name});
        json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata, "spec": spec})
    };
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = json!("Never");
    let selector = json!({"matchLabels": {"run": name}});
    vec![
        of("Deployment", "apps", json!({"selector": selector, "template": template})),
        of("Job", "batch", json!({"template": once.clone()})),
        of(
            "CronJob",
            "batch",
            json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_controllers_make_for_a_tenant_are_guarded_like_its_own() {
    let Some(tenant) = Tenant::enter().await else { return };
    let mut says = foreign();
    says["spec"]["containers"][0]["env"] = json!([{"name": VARIABLE, "value": "all"}]);
    let mut image = foreign();
    image["spec"]["containers"][0]["image"] = json!(CUDA);
    let mut brings = half("team", "x");
    brings["metadata"]["annotations"]["gpu-fraction"] = json!("0.05");
    brings["metadata"]["annotations"]["divvy.dev/visible-devices"] = json!("all");
    brings["spec"]["containers"][0]["image"] = json!(CUDA);
    let templates = [("says", &says), ("image", &image), ("brings", &brings)];
    for (name, pod) in templates {
        for workload in workloads(name, pod).iter().take(2) {
            tenant.api.create(workload).await.unwrap();
        }
    }
    // One that runs in a minute is no other than a Job; that it can be made is enough.
    for workload in workloads("later", &share("team", "x", "0.05")).iter().skip(2) {
        tenant.api.create(workload).await.unwrap();
    }
    tenant
        .cluster
        .until("the controllers have tried", async || {
            let sets = "/apis/apps/v1/namespaces/team/replicasets?labelSelector=run%3Dsays";
            let sets = tenant.cluster.api.get(sets).await.unwrap().to_string();
            sets.contains("ReplicaFailure")
                && tenant.made("image").await.len() == 2
                && tenant.made("brings").await.len() == 2
        })
        .await;
    assert_eq!(tenant.made("says").await, Vec::<Value>::new());
    for (name, is_share) in [("image", false), ("brings", true)] {
        for pod in tenant.made(name).await {
            tenant.bind(&pod).await;
            tenant.sees_nothing(name, &pod, is_share).await;
        }
    }
    for (name, _) in templates {
        for kind in ["apps/v1/namespaces/team/deployments", "batch/v1/namespaces/team/jobs"] {
            let _ = tenant.cluster.api.delete(&format!("/apis/{kind}/{name}")).await;
        }
    }
    let _ = tenant.cluster.api.delete("/apis/batch/v1/namespaces/team/cronjobs/later").await;
}

impl Tenant {
    /// The pods that were made of a template.
    async fn made(&self, name: &str) -> Vec<Value> {
        let path = format!("/api/v1/namespaces/team/pods?labelSelector=run%3D{name}");
        self.cluster.api.get(&path).await.unwrap()["items"].as_array().unwrap().clone()
    }
}
