//! What goes wrong on a node while shares run on it.

use crate::cluster::{Cluster, Divvy, half, whole};
use crate::settling::{delete_reservations, has_taint};
use divvy_testbed::proxy::{Fault, Target};
use serde_json::json;
use std::time::Duration;

/// Three halves on two cards, in two namespaces; their cards.
async fn three_halves(cluster: &Cluster) -> [String; 3] {
    let pods = [("default", "a"), ("team", "b"), ("default", "c")];
    for (namespace, name) in pods {
        cluster.create(&half(namespace, name)).await;
    }
    let mut cards = Vec::new();
    for (namespace, name) in pods {
        cards.push(cluster.card_of(namespace, name).await);
    }
    cards.try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_keep_their_cards_over_a_reboot_and_whole_pods_that_arrive_meanwhile_get_others() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    let before = three_halves(&cluster).await;
    cluster.create(&whole("default", "w", 1)).await;
    cluster.card_of("default", "w").await;
    cluster.node().reboot().unwrap();
    for name in ["x", "y"] {
        cluster.create(&whole("default", name, 2)).await;
    }
    for name in ["x", "y"] {
        let cards = cluster.cards_of("default", name).await;
        assert!(cards.len() == 2 && !cards.iter().any(|card| before.contains(card)), "{cards:?}");
    }
    let mut after = Vec::new();
    for (namespace, name) in [("default", "a"), ("team", "b"), ("default", "c")] {
        after.push(cluster.card_of(namespace, name).await);
    }
    assert_eq!(after, before);
    cluster.until_reservations(2).await;
    cluster.check().await;
}

/// Deletes the reservations of shares; the kubelet may give the next ones any card that is free.
async fn deleted_reservations_are_won_back(restart: bool) {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    let before = three_halves(&cluster).await;
    delete_reservations(&cluster).await;
    if restart {
        cluster.node().restart_kubelet().unwrap();
    }
    cluster.create(&whole("default", "rest", 6)).await;
    let rest = cluster.cards_of("default", "rest").await;
    assert!(!rest.iter().any(|card| before.contains(card)), "{rest:?} {before:?}");
    cluster.until_reservations(2).await;
    cluster.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_that_somebody_deletes_is_won_back() {
    deleted_reservations_are_won_back(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_that_is_deleted_while_the_kubelet_restarts_is_won_back() {
    deleted_reservations_are_won_back(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_kubelet_or_device_plugin_changes_nothing_for_shares() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    let before = three_halves(&cluster).await;
    cluster.node().restart_kubelet().unwrap();
    cluster.node().restart_plugin().unwrap();
    cluster.create(&half("team", "d")).await;
    let alone = before.iter().find(|card| before.iter().filter(|c| c == card).count() == 1);
    assert_eq!(Some(&cluster.card_of("team", "d").await), alone, "the half that was free");
    cluster.create(&whole("default", "rest", 6)).await;
    let rest = cluster.cards_of("default", "rest").await;
    assert!(!rest.iter().any(|card| before.contains(card)), "{rest:?} {before:?}");
    cluster.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_webhooks_no_share_is_made_and_what_runs_keeps_its_card() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    cluster.create(&half("default", "a")).await;
    let card = cluster.card_of("default", "a").await;
    cluster.stop_admission();
    let refused = cluster.api.create(&half("default", "b")).await.unwrap_err().to_string();
    assert!(refused.contains("mutate.divvy.dev"), "{refused}");
    // Nobody gives a pod a card by hand meanwhile.
    let cards = json!({"metadata": {"annotations": {"divvy.dev/visible-devices": "all"}}});
    let path = "/api/v1/namespaces/default/pods/a";
    let refused = cluster.api.patch(path, &cards).await.unwrap_err().to_string();
    assert!(refused.contains("come with the binding by divvy"), "{refused}");
    cluster.create(&whole("default", "w", 1)).await;
    assert_ne!(cluster.card_of("default", "w").await, card);
    cluster.start_admission().await;
    cluster.create(&half("default", "b")).await;
    assert_eq!(cluster.card_of("default", "b").await, card);
}

/// Starts a scheduler whose requests hang after so many writes, and kills it when one does, or when
/// `done` holds before: what has been written by then is all that the next one finds.
async fn killed_after(cluster: &Cluster, writes: usize, done: impl AsyncFn() -> bool) {
    let proxy = cluster.start_proxy().await;
    proxy.inject(Target::Writes, Fault::Slow(Duration::ZERO), writes);
    proxy.inject(Target::Writes, Fault::Hang(Duration::from_secs(600)), usize::MAX);
    let divvy = cluster.start_divvy_with(&Divvy { through: Some(&proxy), ..Divvy::USUAL });
    cluster
        .until(&format!("{writes} writes"), async || proxy.injected() > writes || done().await)
        .await;
    drop(divvy);
    // The next one does not wait for what this one has sent, so that we do.
    cluster.until("nothing is under way", async || proxy.is_quiet()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_killed_after_each_of_its_writes_for_a_share_is_no_loss() {
    let Some(cluster) = Cluster::enter().await else { return };
    // A reservation, two bindings, their events.
    for writes in 0..5 {
        let pods: Vec<_> = (0..2).map(|i| ("team", format!("p-{writes}-{i}"))).collect();
        for (namespace, name) in &pods {
            cluster.create(&half(namespace, name)).await;
        }
        killed_after(&cluster, writes, async || false).await;
        let divvy = cluster.start_divvy();
        let first = cluster.card_of("team", &pods[0].1).await;
        assert_eq!(cluster.card_of("team", &pods[1].1).await, first);
        cluster.until_reservations(1).await;
        cluster.check().await;
        cluster.delete_all(&pods).await;
        cluster.until_reservations(0).await;
        drop(divvy);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_killed_while_it_wins_a_card_back_or_returns_one_is_no_loss() {
    let Some(cluster) = Cluster::enter().await else { return };
    let divvy = cluster.start_divvy();
    cluster.create(&half("default", "a")).await;
    let card = cluster.card_of("default", "a").await;
    drop(divvy);
    // The taint, eight reservations, a label, seven of them returned, the taint.
    for writes in [0, 1, 4, 9, 10, 13] {
        delete_reservations(&cluster).await;
        cluster.until_reservations(0).await;
        let settled =
            async || cluster.reservations().await.len() == 1 && !has_taint(&cluster).await;
        killed_after(&cluster, writes, async || writes > 9 && settled().await).await;
        let divvy = cluster.start_divvy();
        cluster.until(&format!("settled again after {writes}"), settled).await;
        assert_eq!(cluster.card_of("default", "a").await, card);
        cluster.check().await;
        drop(divvy);
    }
    let start = cluster.start_divvy();
    cluster.delete("default", "a").await;
    cluster.until_reservations(0).await;
    drop(start);
}
