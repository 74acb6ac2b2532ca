//! How long a share takes to end, and who may take its pod away before.

use crate::cluster::{Cluster, cluster, is_about, pod, with_share};
use divvy_testbed::api::{Api, JSON};
use http::Method;
use serde_json::{Value, json};

fn share(namespace: &str, name: &str, seconds: Value) -> Value {
    let mut pod = with_share(pod(namespace, name, "divvy-scheduler"), "0.5");
    pod["spec"]["terminationGracePeriodSeconds"] = seconds;
    pod
}

fn path(namespace: &str, pod: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{pod}")
}

#[test]
fn a_share_has_at_most_ten_minutes_to_end() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let too_long = "spec.terminationGracePeriodSeconds: 86400 is too long for a pod with a GPU share, whose cards stay \
                    closed for so long if it is deleted by force; allowed are 0 to 600";
    cluster.runtime.block_on(async {
        let result = api.create(&share(&tenant, "day", json!(86_400))).await;
        assert!(is_about(&result, too_long), "{result:?}");
        for (name, given, stored) in
            [("ten", json!(600), 600), ("usual", Value::Null, 30), ("none", json!(0), 1)]
        {
            let made = api.create(&share(&tenant, name, given)).await.unwrap();
            assert_eq!(made["spec"]["terminationGracePeriodSeconds"], stored, "{name}");
        }
        // Others are given what they ask for.
        let mut whole = pod(&tenant, "whole", "divvy-scheduler");
        whole["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
        let mut other = share(&tenant, "other", json!(86_400));
        other["spec"]["schedulerName"] = json!("default-scheduler");
        for mut given in [whole, other] {
            given["spec"]["terminationGracePeriodSeconds"] = json!(86_400);
            api.create(&given).await.unwrap();
        }
    });
}

#[test]
fn the_time_that_a_pod_has_to_end_is_that_of_its_creation() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let path = path(&tenant, "share");
    let longer = json!({"spec": {"terminationGracePeriodSeconds": 86_400}});
    cluster.runtime.block_on(async {
        api.create(&share(&tenant, "share", json!(30))).await.unwrap();
        let result = api.patch(&path, &longer).await;
        assert!(is_about(&result, "pod updates may not change fields other than"), "{result:?}");
        for part in ["ephemeralcontainers", "resize", "status"] {
            let _ = cluster.admin.patch(&format!("{path}/{part}"), &longer).await;
            let stored = api.get(&path).await.unwrap();
            assert_eq!(stored["spec"]["terminationGracePeriodSeconds"], 30, "{part}");
        }
    });
}

impl Cluster {
    /// Lets divvy bind a pod to a card.
    async fn bind(&self, divvy: &Api, namespace: &str, name: &str) {
        let binding = json!({"apiVersion": "v1", "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "annotations": {"divvy.dev/cards": "0:1"}},
            "target": {"kind": "Node", "name": "n2"}});
        let path = format!("{}/binding", path(namespace, name));
        divvy.send(Method::POST, &path, JSON, Some(&binding)).await.unwrap();
    }
}

#[test]
fn no_tenant_takes_a_share_away_before_its_containers_have_ended() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"namespace": tenant, "name": "bind"},
        "rules": [{"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}]});
    cluster.admin_create(&role);
    cluster.grant(&tenant, "Role", "bind", "divvy-system", "divvy-scheduler");
    cluster.admin_create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}}));
    let divvy = cluster.api_of("divvy-system", "divvy-scheduler");
    let (all, path) = (format!("/api/v1/namespaces/{tenant}/pods"), path(&tenant, "share"));
    let delete = async |api: &Api, path: &str, seconds: Value| {
        let options = json!({"gracePeriodSeconds": seconds});
        api.send(Method::DELETE, path, JSON, Some(&options)).await
    };
    let evict = async |seconds: Value| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"namespace": tenant, "name": "share"},
            "deleteOptions": {"gracePeriodSeconds": seconds}});
        api.send(Method::POST, &format!("{path}/eviction"), JSON, Some(&eviction)).await
    };
    let only = "only administrators may";
    cluster.runtime.block_on(async {
        // A pod that is on no node has no containers.
        api.create(&share(&tenant, "share", json!(30))).await.unwrap();
        delete(&api, &path, json!(0)).await.unwrap();
        api.create(&share(&tenant, "share", json!(30))).await.unwrap();
        cluster.bind(&divvy, &tenant, "share").await;
        let is_refused = async || {
            for (what, result) in [
                ("delete", delete(&api, &path, json!(0)).await),
                ("delete them all", delete(&api, &all, json!(0)).await),
                ("evict", evict(json!(0)).await),
            ] {
                assert!(is_about(&result, only), "{what}: {result:?}");
            }
        };
        is_refused().await;
        // A deletion may give more time than the pod has, and from then on only less.
        for (asked, given) in [(900, 900), (5000, 900), (60, 60), (-1, 1)] {
            delete(&api, &path, json!(asked)).await.unwrap();
            let stored = api.get(&path).await.unwrap();
            assert_eq!(stored["metadata"]["deletionGracePeriodSeconds"], given, "{asked}");
            is_refused().await;
        }
        // Once it has ended, whoever wants to may take it away.
        let ended = json!({"status": {"phase": "Succeeded"}});
        cluster.admin.patch(&format!("{path}/status"), &ended).await.unwrap();
        delete(&api, &path, json!(0)).await.unwrap();
        assert!(api.get(&path).await.is_err());

        // An eviction that names no time has that of the pod; an administrator may do it by force.
        api.create(&share(&tenant, "share", json!(30))).await.unwrap();
        cluster.bind(&divvy, &tenant, "share").await;
        evict(Value::Null).await.unwrap();
        let stored = api.get(&path).await.unwrap();
        assert_eq!(stored["metadata"]["deletionGracePeriodSeconds"], 30);
        delete(&cluster.admin, &path, json!(0)).await.unwrap();
        assert!(api.get(&path).await.is_err());

        // Pods without a share are no business of divvy's.
        let mut other = pod(&tenant, "other", "default-scheduler");
        other["spec"]["nodeName"] = json!("n2");
        api.create(&other).await.unwrap();
        delete(&api, &format!("{all}/other"), json!(0)).await.unwrap();
    });
}
