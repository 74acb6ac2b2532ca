//! Shares on a real kubelet with NVIDIA's device plugin and container runtime: what is compared is
//! what the containers find in `/dev`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/account.rs"]
mod account;
#[path = "../common/leases.rs"]
mod leases;
#[path = "../common/pages.rs"]
mod pages;
#[path = "../common/program.rs"]
mod program;

mod adoption;
mod cards;
mod check;
mod churn;
mod cluster;
mod deployed;
mod faults;
mod helm;
mod partitions;
mod reservations;
mod settling;
mod soak;
mod tenant;

use cluster::{Cluster, half, whole};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn shares_see_exactly_their_card_and_whole_pods_get_others() {
    let Some(cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    for (namespace, name) in [("default", "a"), ("team", "b"), ("team", "c")] {
        cluster.create(&half(namespace, name)).await;
    }
    cluster.create(&whole("default", "w", 1)).await;
    let a = cluster.card_of("default", "a").await;
    let b = cluster.card_of("team", "b").await;
    let c = cluster.card_of("team", "c").await;
    let w = cluster.card_of("default", "w").await;
    assert_eq!(a, b, "two halves share a card");
    assert!(a != c && a != w && c != w, "{a} {c} {w}");
    assert_eq!(cluster.reservations().await.len(), 2);
    // The last share of a card is gone: so is its reservation, and the card is free.
    cluster.delete("team", "c").await;
    cluster.until_reservations(1).await;
    cluster.create(&whole("default", "rest", 6)).await;
    let rest = cluster.cards_of("default", "rest").await;
    assert_eq!(rest.len(), 6);
    assert!(!rest.contains(&a) && !rest.contains(&w), "{rest:?} {a} {w}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_that_does_not_fit_waits_with_the_numbers_and_runs_when_another_ends() {
    let Some(cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    cluster.create(&whole("default", "w", 7)).await;
    assert_eq!(cluster.cards_of("default", "w").await.len(), 7);
    for name in ["a", "b", "c"] {
        cluster.create(&half("default", name)).await;
    }
    let card = cluster.card_of("default", "a").await;
    assert_eq!(cluster.card_of("default", "b").await, card);
    cluster.said("default", "c", "largest free share 0 < 0.5 asked").await;
    cluster.delete("default", "a").await;
    assert_eq!(cluster.card_of("default", "c").await, card);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_container_is_told_is_what_was_booked() {
    let Some(cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    let mut pod = half("default", "memory");
    pod["metadata"]["annotations"] = json!({"gpu-memory": "2000"});
    cluster.create(&pod).await;
    let card = cluster.card_of("default", "memory").await;
    let told = cluster.environment("default", "memory");
    let uuid = cluster.uuid(&card);
    assert_eq!(told["DIVVY_CARDS"], format!("{uuid}:{}", 2000_u64 << 20));
    let portion: f64 = told["GPU_PORTION"].parse().unwrap();
    assert!((portion - 2000.0 / 40_960.0).abs() < 0.001, "{portion}");
    let pod = cluster.get("default", "memory").await;
    assert_eq!(pod["metadata"]["annotations"]["received-resource-type"], "Fraction");
    let group = pod["metadata"]["labels"]["runai-gpu-group"].as_str().unwrap();
    let reservations = cluster.reservations().await;
    assert_eq!(reservations[0]["metadata"]["labels"]["runai-gpu-group"], group);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_run_with_their_card_and_a_third_pod_that_does_not_fit_waits() {
    let Some(cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    cluster.create(&whole("default", "w", 7)).await;
    cluster.cards_of("default", "w").await;
    cluster.apply("examples/gpu-sharing.yaml");
    cluster.apply("examples/gpu-memory.yaml");
    let card = cluster.only_card("default", "gpu-sharing", "gpu-workload").await;
    assert_eq!(cluster.only_card("default", "gpu-memory", "gpu-workload").await, card);
    cluster.create(&half("team", "third")).await;
    cluster.said("team", "third", "largest free share 0.451 < 0.5 asked").await;
    cluster.delete("default", "gpu-memory").await;
    assert_eq!(cluster.card_of("team", "third").await, card);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_of_two_cards_joins_one_and_opens_the_other_and_sees_both() {
    let Some(cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    cluster.create(&half("default", "a")).await;
    let a = cluster.card_of("default", "a").await;
    let mut two = half("team", "two");
    two["metadata"]["annotations"]["gpu-fraction-num-devices"] = json!("2");
    cluster.create(&two).await;
    let cards = cluster.cards_of("team", "two").await;
    assert!(cards.len() == 2 && cards.contains(&a), "{cards:?} {a}");
    assert_eq!(cluster.environment("team", "two")["DIVVY_CARDS"].split(',').count(), 2);
    cluster.until_reservations(2).await;
    cluster.check().await;
    cluster.delete("team", "two").await;
    cluster.until_reservations(1).await;
    cluster.delete("default", "a").await;
    cluster.until_reservations(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_container_that_is_named_sees_the_card_and_the_others_see_none() {
    let Some(cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    let mut pod = half("default", "named");
    pod["metadata"]["annotations"]["gpu-fraction-container-name"] = json!("side");
    let mut side = pod["spec"]["containers"][0].clone();
    side["name"] = json!("side");
    pod["spec"]["containers"].as_array_mut().unwrap().push(side);
    cluster.create(&pod).await;
    cluster
        .until("both containers run", async || {
            let pod = cluster.get("default", "named").await;
            let states = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
            states.len() == 2 && states.iter().all(|state| state["ready"] == true)
        })
        .await;
    assert!(cluster.cards_of("default", "named").await.is_empty());
    let card = cluster.only_card("default", "named", "side").await;
    let pod = cluster.get("default", "named").await;
    let devices = pod["metadata"]["annotations"]["divvy.dev/visible-devices"].as_str().unwrap();
    assert_eq!(devices, cluster.uuid(&card));
}

#[tokio::test(flavor = "multi_thread")]
async fn top_cards_says_which_card_the_containers_of_a_share_have() {
    let Some(cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    // The one that is opened first is the first by divvy's count, whichever the device plugin gave.
    for name in ["a", "b"] {
        let mut most = half("default", name);
        most["metadata"]["annotations"]["gpu-fraction"] = json!("0.9");
        cluster.create(&most).await;
    }
    for name in ["a", "b"] {
        let card = cluster.card_of("default", name).await;
        let number: u32 = card.trim_start_matches("nvidia").parse().unwrap();
        let pod = format!("default/{name}");
        // The kubelet says sooner which card a reservation has than that says its number.
        cluster
            .until("the number of the card is shown", async || {
                let top: Value =
                    serde_json::from_str(&cluster.run(&["top", "cards", "-o", "json"])).unwrap();
                let rows = top["items"].as_array().unwrap();
                let row = rows.iter().find(|row| row["shares"][0]["pod"] == *pod).unwrap();
                assert_eq!(row["uuid"], cluster.uuid(&card), "{top:#}");
                row["number"] == number
            })
            .await;
        let wide = cluster.run(&["top", "cards", "-o", "wide"]);
        assert!(wide.contains(&cluster.uuid(&card)), "{wide}");
    }
}
