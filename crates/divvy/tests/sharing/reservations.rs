//! What keeps a reservation pod from getting its card, and a card from being given too early.

use crate::cluster::{Cluster, Divvy, half, plain, whole};
use divvy_testbed::proxy::{Fault, Target};
use serde_json::json;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn the_card_of_a_share_deleted_by_force_is_nobodys_until_the_quarantine_is_over() {
    let Some(cluster) = Cluster::enter().await else { return };
    let quarantine = 8;
    let _divvy = cluster.start_divvy_with(&Divvy { quarantine, ..Divvy::USUAL });
    cluster.create(&half("default", "a")).await;
    let card = cluster.card_of("default", "a").await;
    cluster.create(&whole("default", "rest", 7)).await;
    cluster.cards_of("default", "rest").await;
    let mut most = half("team", "most");
    most["metadata"]["annotations"]["gpu-fraction"] = json!("0.6");
    cluster.create(&whole("default", "next", 1)).await;
    cluster.create(&most).await;
    cluster.said("default", "next", "free cards 0 < 1 asked").await;
    cluster.said("team", "most", "largest free share 0.5 < 0.6 asked").await;
    let start = Instant::now();
    cluster.api.delete("/api/v1/namespaces/default/pods/a").await.unwrap();
    let is_over = || start.elapsed() >= Duration::from_secs(quarantine);
    cluster
        .until("one of both is bound", async || {
            let kept = cluster.reservations().await.len();
            assert!(kept == 1 || is_over(), "returned when the share is gone for sure");
            let bound = |pod: serde_json::Value| pod["spec"]["nodeName"].is_string();
            bound(cluster.get("default", "next").await) || bound(cluster.get("team", "most").await)
        })
        .await;
    assert!(is_over(), "bound after {:?}", start.elapsed());
    cluster.delete("default", "next").await;
    assert_eq!(cluster.card_of("team", "most").await, card);
    cluster.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_and_top_know_what_a_share_deleted_by_force_may_still_use() {
    let Some(cluster) = Cluster::enter().await else { return };
    let quarantine = 30;
    let start = || cluster.start_divvy_with(&Divvy { quarantine, ..Divvy::USUAL });
    let divvy = start();
    cluster.create(&half("default", "a")).await;
    let card = cluster.card_of("default", "a").await;
    cluster.create(&whole("default", "rest", 7)).await;
    cluster.cards_of("default", "rest").await;
    let mut most = half("team", "most");
    most["metadata"]["annotations"]["gpu-fraction"] = json!("0.6");
    cluster.create(&most).await;
    cluster.said("team", "most", "largest free share 0.5 < 0.6 asked").await;
    let begin = Instant::now();
    cluster.api.delete("/api/v1/namespaces/default/pods/a").await.unwrap();
    cluster
        .until("it is written on the reservation", async || {
            let pods = cluster.reservations().await;
            pods.iter().any(|pod| pod["metadata"]["annotations"]["divvy.dev/ghosts"].is_string())
        })
        .await;
    cluster
        .until("it is counted", async || {
            let metrics = crate::pages::page(&divvy, "/metrics").await.unwrap_or_default();
            metrics.contains("\ndivvy_ghosts 1\n")
        })
        .await;
    drop(divvy);
    let top = cluster.run(&["top", "pods"]);
    assert!(top.contains("a(gone-"), "{top}");
    let _divvy = start();
    assert_eq!(cluster.card_of("team", "most").await, card);
    let waited = begin.elapsed();
    assert!(waited >= Duration::from_secs(quarantine), "runs after {waited:?}");
    cluster.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_gpu_of_another_scheduler_counts_whatever_its_annotations_say() {
    let Some(cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    let mut theirs = whole("team", "theirs", 1);
    theirs["spec"]["schedulerName"] = json!("default-scheduler");
    theirs["metadata"]["annotations"] = json!({"gpu-fraction": "0.5"});
    cluster.create(&theirs).await;
    cluster.bind("team", "theirs").await;
    cluster.card_of("team", "theirs").await;
    cluster.create(&whole("default", "all", 8)).await;
    cluster.said("default", "all", "free cards 7 < 8 asked").await;
    cluster.create(&whole("default", "rest", 7)).await;
    assert_eq!(cluster.cards_of("default", "rest").await.len(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_pulled_is_said_on_the_share_and_leaves_no_reservation() {
    let Some(cluster) = Cluster::enter().await else { return };
    let image = "docker.io/local/no-such-image:1";
    let divvy = cluster.start_divvy_with(&Divvy { image, ..Divvy::USUAL });
    cluster.create(&half("default", "a")).await;
    cluster.said("default", "a", "no card could be reserved: ErrImagePull").await;
    cluster.said("default", "a", "no-such-image").await;
    cluster.until_reservations(0).await;
    drop(divvy);
    let _divvy = cluster.start_divvy();
    cluster.card_of("default", "a").await;
    cluster.until_reservations(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_that_another_scheduler_takes_first_is_said_on_the_share_which_runs_when_one_is_free()
 {
    let Some(cluster) = Cluster::enter().await else { return };
    let proxy = cluster.start_proxy().await;
    let _divvy = cluster.start_divvy_with(&Divvy { through: Some(&proxy), ..Divvy::USUAL });
    // divvy has decided, and its reservation is on its way.
    proxy.inject(Target::Pods, Fault::Held, 1);
    cluster.create(&half("default", "a")).await;
    cluster.until("the reservation is on its way", async || proxy.injected() == 1).await;
    let mut all = whole("team", "all", 8);
    all["spec"]["schedulerName"] = json!("another-scheduler");
    cluster.create(&all).await;
    cluster.bind("team", "all").await;
    assert_eq!(cluster.cards_of("team", "all").await.len(), 8);
    proxy.heal();
    cluster.said("default", "a", "no card could be reserved: ").await;
    cluster.until_reservations(0).await;
    cluster.said("default", "a", "largest free share 0 < 0.5 asked").await;
    let before = proxy.counts()["POST pods"];
    cluster.delete("team", "all").await;
    cluster.card_of("default", "a").await;
    assert_eq!(proxy.counts()["POST pods"], before + 1, "tried when there was a card, and once");
    cluster.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_pod_slot_takes_a_share_that_joins_a_card_and_none_that_opens_one() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    cluster.is_hurt(true);
    cluster.node().change_kubelet(&json!({"maxPods": 3})).unwrap();
    cluster.until_node_has("3", "pods").await;
    let _divvy = cluster.start_divvy();
    cluster.create(&half("default", "a")).await;
    let card = cluster.card_of("default", "a").await;
    let mut opens = half("team", "opens");
    opens["metadata"]["annotations"]["gpu-fraction"] = json!("0.6");
    cluster.create(&opens).await;
    cluster.said("team", "opens", "free pod slots 1 < 2 asked (1 to reserve cards)").await;
    cluster.create(&half("team", "joins")).await;
    assert_eq!(cluster.card_of("team", "joins").await, card);
    cluster.create(&plain("default", "small")).await;
    cluster.said("default", "small", "no free pod slot").await;
    cluster.node().change_kubelet(&json!({"maxPods": 110})).unwrap();
    cluster.is_hurt(false);
    assert_ne!(cluster.card_of("team", "opens").await, card);
    cluster.until_reservations(2).await;
    cluster.check().await;
}

/// As before Kubernetes 1.36: no kubelet says which card a pod has, so the reservation says it itself.
#[tokio::test(flavor = "multi_thread")]
async fn where_no_kubelet_tells_the_reservation_writes_which_card_it_has() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    cluster.is_hurt(true);
    let silent = json!({"featureGates": {
        "ResourceHealthStatus": false, "ResourceHealthStatusMessage": false,
    }});
    cluster.node().change_kubelet(&silent).unwrap();
    let _divvy = cluster.start_divvy();
    cluster.create(&half("default", "a")).await;
    let card = cluster.card_of("default", "a").await;
    let [reservation] = &cluster.reservations().await[..] else { panic!("one reservation") };
    let status = &reservation["status"]["containerStatuses"][0];
    assert!(status["allocatedResourcesStatus"].is_null(), "{status}");
    let written = &reservation["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"];
    assert_eq!(written, &json!(cluster.uuid(&card)));
    let number = card.trim_start_matches("nvidia");
    assert_eq!(reservation["metadata"]["annotations"]["divvy.dev/card-number"], number);
    let top = cluster.run(&["top", "pods"]);
    let row = top.lines().find(|line| line.starts_with("default ")).unwrap();
    assert_eq!(row.split_whitespace().nth(3), Some(number), "{top}");
    cluster.create(&half("team", "b")).await;
    assert_eq!(cluster.card_of("team", "b").await, card);
    cluster.create(&whole("default", "rest", 7)).await;
    assert!(!cluster.cards_of("default", "rest").await.contains(&card));
    cluster.node().change_kubelet(&json!({"featureGates": {}})).unwrap();
    cluster.is_hurt(false);
}
