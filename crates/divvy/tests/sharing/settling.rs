//! Nodes on which it is not certain who has which card.

use crate::cluster::{Cluster, half, whole};
use divvy_testbed::api::Api;
use divvy_testbed::node::Node;
use serde_json::{Value, json};

pub async fn has_taint(cluster: &Cluster) -> bool {
    let node = cluster.api.get(&format!("/api/v1/nodes/{}", Node::NAME)).await.unwrap();
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.iter().any(|taint| taint["key"] == "divvy.dev/unsettled")
}

/// What a condition of a pod says: its status, if it has it.
pub async fn condition(cluster: &Cluster, pod: &str, kind: &str) -> Option<String> {
    let pod = cluster.get("default", pod).await;
    let conditions = pod["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    found["status"].as_str().map(str::to_owned)
}

pub async fn delete_reservations(cluster: &Cluster) {
    for pod in cluster.reservations().await {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let path = format!("/api/v1/namespaces/kai-resource-reservation/pods/{name}");
        cluster.api.delete(&path).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taint_keeps_other_schedulers_off_until_the_cards_are_held_again() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    cluster.create(&half("default", "a")).await;
    let card = cluster.card_of("default", "a").await;
    assert!(!has_taint(&cluster).await);
    cluster.node().reboot_without_plugin().unwrap();
    cluster.until("the node is tainted", async || has_taint(&cluster).await).await;
    cluster.node().restart_plugin().unwrap();
    cluster.until("the taint is gone", async || !has_taint(&cluster).await).await;
    cluster.until_reservations(1).await;
    assert_eq!(cluster.card_of("default", "a").await, card);
    cluster.create(&half("default", "b")).await;
    assert_eq!(cluster.card_of("default", "b").await, card);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_card_that_another_scheduler_gave_away_is_said_on_both_pods_until_it_is_back() {
    const CONFLICT: &str = "divvy.dev/CardConflict";
    let Some(cluster) = Cluster::enter().await else { return };
    let divvy = cluster.start_divvy();
    cluster.create(&half("default", "a")).await;
    let card = cluster.card_of("default", "a").await;
    drop(divvy);
    delete_reservations(&cluster).await;
    cluster.until_reservations(0).await;
    // Nobody guards the card now, and somebody takes them all.
    let mut taker = whole("default", "taker", 8);
    taker["spec"]["schedulerName"] = "another-scheduler".into();
    cluster.create(&taker).await;
    cluster.bind("default", "taker").await;
    assert_eq!(cluster.cards_of("default", "taker").await.len(), 8);
    let _divvy = cluster.start_divvy();
    cluster
        .until("both pods say it", async || {
            let yes = Some("True".to_owned());
            condition(&cluster, "a", CONFLICT).await == yes
                && condition(&cluster, "taker", CONFLICT).await == yes
        })
        .await;
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    cluster
        .until("both have an event", async || {
            let events = cluster.api.get(events).await.unwrap();
            let all = events["items"].as_array().unwrap();
            let of = |pod: &str| {
                let is_it = |event: &&Value| {
                    event["reason"] == "CardConflict" && event["regarding"]["name"] == pod
                };
                all.iter().any(|event| is_it(&event))
            };
            of("a") && of("taker")
        })
        .await;
    cluster.create(&half("default", "b")).await;
    cluster.said("default", "b", "0/1 nodes are available").await;
    assert_eq!(cluster.card_of("default", "a").await, card, "no running pod is deleted");
    // Once it is given back, the card is won back.
    cluster.delete("default", "taker").await;
    cluster
        .until("the share says that it is over", async || {
            condition(&cluster, "a", CONFLICT).await == Some("False".to_owned())
        })
        .await;
    assert_eq!(cluster.card_of("default", "b").await, card);
    cluster.until_reservations(1).await;
    cluster.until("the taint is gone", async || !has_taint(&cluster).await).await;
    cluster.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scheduler_may_change_nothing_of_a_node_but_its_taint() {
    let Some(cluster) = Cluster::enter().await else { return };
    let account = cluster.kubeconfig_as("divvy-system", "divvy-scheduler");
    let divvy = Api::from_kubeconfig(&account).await.unwrap();
    let path = format!("/api/v1/nodes/{}", Node::NAME);
    let taint =
        |key: &str, effect: &str| json!({"spec": {"taints": [{"key": key, "effect": effect}]}});
    for (patch, why) in [
        (json!({"metadata": {"labels": {"pool": "mine"}}}), "may change nothing of a node but"),
        (json!({"spec": {"unschedulable": true}}), "may change nothing of a node but"),
        (taint("other", "NoSchedule"), "may change no taint of a node but"),
        (taint("divvy.dev/unsettled", "NoExecute"), "is NoSchedule"),
    ] {
        let refused = divvy.patch(&path, &patch).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{patch}: {refused}");
    }
    for path in ["/api/v1/namespaces/default/secrets", "/api/v1/namespaces/divvy-system/secrets"] {
        let refused = divvy.get(path).await.unwrap_err().to_string();
        assert!(refused.contains("forbidden"), "{path}: {refused}");
    }
    divvy.patch(&path, &taint("divvy.dev/unsettled", "NoSchedule")).await.unwrap();
    let _divvy = cluster.start_divvy();
    cluster.until("a taint that was left is removed", async || !has_taint(&cluster).await).await;
}
