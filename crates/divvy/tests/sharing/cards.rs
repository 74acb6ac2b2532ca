//! Cards and drivers that fail while shares run on them.

use crate::cluster::{Cluster, half, whole};
use crate::settling::{condition, delete_reservations};
use divvy_testbed::Process;
use divvy_testbed::node::Card;

impl Cluster {
    /// Lets something go wrong with a shared card, by its name in `/dev`, and waits until the kubelet
    /// has told, and divvy knows.
    async fn hurt(&mut self, divvy: &Process, card: &str, fault: fn(&mut Card)) {
        let index: usize = card.trim_start_matches("nvidia").parse().unwrap();
        self.is_hurt(true);
        self.node().change_cards(|inventory| fault(&mut inventory.cards[index])).unwrap();
        self.until_told(divvy, "7").await;
        self.until("the kubelet says so on the reservation", async || {
            let pods = self.reservations().await;
            pods.iter().any(|pod| pod["status"].to_string().contains(r#""health":"Unhealthy""#))
        })
        .await;
    }

    /// Nothing is wrong any more. The device plugin takes no card for well again until it is
    /// started anew.
    async fn heal(&mut self) {
        self.node().heal().unwrap();
        self.is_hurt(false);
        self.until_node_has("8", "nvidia.com/gpu").await;
    }

    /// The uids of the reservation pods, which are the same as long as none is lost or made anew.
    async fn reservation_uids(&self) -> Vec<String> {
        let uid = |pod: &serde_json::Value| pod["metadata"]["uid"].to_string();
        self.reservations().await.iter().map(uid).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_that_fails_keeps_its_shares_and_takes_no_new_ones_until_it_is_well() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let divvy = cluster.start_divvy();
    cluster.create(&half("default", "a")).await;
    cluster.create(&whole("default", "w", 6)).await;
    let dead = cluster.card_of("default", "a").await;
    cluster.cards_of("default", "w").await;
    let held = cluster.reservation_uids().await;
    cluster.hurt(&divvy, &dead, |card| card.failed = true).await;
    // The card that is well and free is given; the half of the dead one is not.
    cluster.create(&half("default", "b")).await;
    let alive = cluster.card_of("default", "b").await;
    assert_ne!(alive, dead);
    cluster.create(&half("team", "c")).await;
    assert_eq!(cluster.card_of("team", "c").await, alive);
    cluster.create(&half("team", "d")).await;
    cluster.said("team", "d", "7 of 8 cards allocatable").await;
    assert_eq!(cluster.card_of("default", "a").await, dead, "what runs runs on");
    cluster.check().await;
    cluster.heal().await;
    assert_eq!(cluster.card_of("team", "d").await, dead, "the card is as good as any");
    assert!(cluster.reservation_uids().await.contains(&held[0]), "its reservation stayed");
    cluster.until_reservations(2).await;
    cluster.check().await;
}

/// While a card is off the bus, NVIDIA's device plugin can give none: each reservation is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_card_that_falls_off_the_bus_is_said_on_whoever_waits_and_costs_no_share_its_card() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let divvy = cluster.start_divvy();
    cluster.create(&half("default", "a")).await;
    let dead = cluster.card_of("default", "a").await;
    let held = cluster.reservation_uids().await;
    cluster.hurt(&divvy, &dead, |card| card.lost = true).await;
    cluster.create(&half("default", "b")).await;
    cluster.said("default", "b", "GPU is lost").await;
    cluster.until_reservations(1).await;
    cluster.create(&whole("default", "w", 8)).await;
    cluster.said("default", "w", "7 of 8 cards allocatable").await;
    assert_eq!(cluster.card_of("default", "a").await, dead);
    cluster.heal().await;
    cluster.card_of("default", "b").await;
    assert_eq!(cluster.card_of("default", "a").await, dead);
    assert!(cluster.reservation_uids().await.contains(&held[0]), "its reservation stayed");
    cluster.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_fails_for_a_while_costs_no_share_its_card() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let divvy = cluster.start_divvy();
    for name in ["a", "b", "c"] {
        cluster.create(&half("default", name)).await;
    }
    let mut before = Vec::new();
    for name in ["a", "b", "c"] {
        before.push(cluster.card_of("default", name).await);
    }
    let held = cluster.reservation_uids().await;
    assert_eq!(held.len(), 2);
    cluster.is_hurt(true);
    let failing = [("nvmlInit_v2".to_owned(), 9)].into();
    cluster.node().change_cards(|inventory| inventory.failing = failing).unwrap();
    assert!(cluster.node().restart_plugin().is_err(), "there is no driver");
    cluster.until_told(&divvy, "0").await;
    cluster.create(&whole("default", "w", 1)).await;
    cluster.create(&half("team", "d")).await;
    for (namespace, name) in [("default", "w"), ("team", "d")] {
        cluster.said(namespace, name, "0 of 8 cards allocatable").await;
    }
    cluster.heal().await;
    let own = cluster.card_of("default", "w").await;
    assert!(!before.contains(&own), "{own} {before:?}");
    let alone = before.iter().find(|card| before.iter().filter(|c| c == card).count() == 1);
    assert_eq!(Some(&cluster.card_of("team", "d").await), alone, "the half that was free");
    let mut after = Vec::new();
    for name in ["a", "b", "c"] {
        after.push(cluster.card_of("default", name).await);
    }
    assert_eq!(after, before);
    assert_eq!(cluster.reservation_uids().await, held, "none is lost, none is made anew");
    cluster.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_card_that_loses_its_reservation_is_said_to_be_missing_and_the_node_goes_on() {
    const MISSING: &str = "divvy.dev/CardMissing";
    let Some(mut cluster) = Cluster::enter().await else { return };
    let divvy = cluster.start_divvy();
    cluster.create(&half("default", "a")).await;
    let dead = cluster.card_of("default", "a").await;
    cluster.hurt(&divvy, &dead, |card| card.failed = true).await;
    delete_reservations(&cluster).await;
    cluster
        .until("the share says that its card is missing", async || {
            condition(&cluster, "a", MISSING).await == Some("True".to_owned())
        })
        .await;
    cluster.create(&whole("default", "w", 7)).await;
    let others = cluster.cards_of("default", "w").await;
    assert!(others.len() == 7 && !others.contains(&dead), "{others:?}");
    cluster.create(&half("default", "b")).await;
    cluster.said("default", "b", "0/1 nodes are available").await;
    cluster.heal().await;
    cluster
        .until("the share says that it is over", async || {
            condition(&cluster, "a", MISSING).await == Some("False".to_owned())
        })
        .await;
    assert_eq!(cluster.card_of("default", "b").await, dead);
    cluster.until_reservations(1).await;
    cluster.check().await;
}
