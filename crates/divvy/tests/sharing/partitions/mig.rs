//! Cards that are divided by MIG.

use super::{divided, own_and_aside, pod, strategy, tries_are_refused};
use crate::check::devices as given;
use crate::cluster::{Cluster, devices, half, whole};
use crate::tenant::tenant;
use divvy_testbed::node::Card;

const SMALL: &str = "nvidia.com/mig-1g.10gb";
const LARGE: &str = "nvidia.com/mig-3g.40gb";

/// As they are before they are divided.
fn whole_cards(count: u32) -> Vec<Card> {
    (0..count).map(Card::a100_80).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recipes_slices_are_given_by_profile_while_the_cards_are_divided_anew() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let mixed = divided(2, "mixed-workload");
    cluster.reconfigure(whole_cards(2), strategy("mixed"));
    cluster.reconfigure_as_rehearsed(mixed.clone(), strategy("mixed")).await;
    for (resource, count) in [(SMALL, "4"), ("nvidia.com/mig-2g.20gb", "2"), (LARGE, "2")] {
        assert_eq!(cluster.allocatable(resource).await, count, "{resource}");
    }
    let divvy = cluster.start_divvy();
    for name in ["small-inference", "medium-training", "large-training"] {
        cluster.create(&pod(name)).await;
    }
    for name in ["small-inference", "medium-training", "large-training"] {
        assert_eq!(cluster.cards_of("team", name).await.len(), 1, "{name}");
    }
    cluster.create(&devices("default", "other", LARGE, 1)).await;
    cluster.until_running("default", "other").await;
    for name in ["third", "fourth"] {
        cluster.create(&devices("default", name, LARGE, 1)).await;
        cluster.said("default", name, "2 of 2 nvidia.com/mig-3g.40gb are taken").await;
    }
    cluster.create(&whole("team", "whole", 1)).await;
    let told = "no nvidia.com/gpu: MIG slices are called nvidia.com/mig-1g.10gb there";
    cluster.said("team", "whole", told).await;
    cluster.create(&half("team", "half")).await;
    cluster.said("team", "half", "its GPUs are MIG slices, which take no shares").await;
    cluster.check().await;
    cluster.delete("default", "other").await;
    cluster
        .until("one of them runs", async || {
            let pods = cluster.pods("default").await;
            pods.iter().any(|pod| pod["status"]["phase"] == "Running")
        })
        .await;
    cluster.check().await;
    cluster.delete_all(&["third", "fourth"].map(|name| ("default", name.to_owned()))).await;

    // The card without the large slice that is held is divided into small ones.
    let large = given(&cluster.get("team", "large-training").await);
    let has_it =
        |card: &Card| card.slices.iter().flatten().any(|slice| card.slice_uuid(slice) == large[0]);
    let mut anew = divided(2, "all-1g.10gb");
    let kept = usize::from(has_it(&mixed[1]));
    anew[kept] = mixed[kept].clone();
    cluster.reconfigure_under(&divvy, anew, strategy("mixed")).await;
    assert_eq!(cluster.allocatable(SMALL).await, "9");
    assert_eq!(cluster.allocatable(LARGE).await, "1");
    cluster.create(&devices("default", "late", LARGE, 1)).await;
    cluster.said("default", "late", "1 of 1 nvidia.com/mig-3g.40gb are taken").await;
    for name in ["small-inference", "medium-training", "large-training"] {
        assert_eq!(cluster.cards_of("team", name).await.len(), 1, "what runs runs on: {name}");
    }
    cluster.delete("team", "large-training").await;
    cluster.until_running("default", "late").await;

    // While nobody schedules, the slice that is held is taken away and small ones are made.
    drop(divvy);
    cluster.reconfigure(divided(2, "all-1g.10gb"), strategy("mixed"));
    let _divvy = cluster.start_divvy();
    // One is held already.
    cluster.start_each("small", SMALL, 13).await;
    for (name, resource, told) in [
        ("small", SMALL, "14 of 14 nvidia.com/mig-1g.10gb are taken"),
        ("large", LARGE, "no nvidia.com/mig-3g.40gb"),
    ] {
        cluster.create(&devices("team", name, resource, 1)).await;
        cluster.said("team", name, told).await;
    }
    for pod in [cluster.pods("default").await, cluster.pods("team").await].concat() {
        assert_ne!(pod["status"]["phase"], "Failed", "{pod:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_has_a_slice_reaches_no_other() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    cluster.reconfigure(divided(1, "mixed-workload"), strategy("mixed"));
    let _divvy = cluster.start_divvy();
    cluster.create(&devices("default", "neighbour", LARGE, 1)).await;
    let neighbour = given(&cluster.until_running("default", "neighbour").await).remove(0);
    let own = devices("team", "own", SMALL, 1);
    let api = tenant(&cluster).await;
    tries_are_refused(&api, &own, &["all", &neighbour, "0:0"]).await;
    let (inside, aside) = own_and_aside(&cluster, &api, own).await;
    assert_eq!((inside.cards.len(), inside.capabilities.len()), (1, 2));
    assert!(aside.cards.is_empty() && aside.capabilities.is_empty(), "{aside:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_that_are_called_gpus_are_given_one_by_one_and_never_shared() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    cluster.reconfigure(whole_cards(1), strategy("single"));
    cluster.reconfigure_as_rehearsed(divided(1, "all-1g.10gb"), strategy("single")).await;
    assert_eq!(cluster.allocatable("nvidia.com/gpu").await, "7");
    let _divvy = cluster.start_divvy();
    let names = cluster.start_each("slice", "nvidia.com/gpu", 7).await;
    cluster.create(&whole("default", "late", 1)).await;
    cluster.said("default", "late", "7 of 7 MIG slices are taken").await;
    // The recipe's pods ask by names that this strategy does not give.
    let called = "no nvidia.com/mig-1g.10gb: MIG slices are called nvidia.com/gpu there";
    for (name, told) in
        [("small-inference", called), ("large-training", "no nvidia.com/mig-3g.40gb")]
    {
        cluster.create(&pod(name)).await;
        cluster.said("team", name, told).await;
    }
    cluster.create(&half("team", "half")).await;
    cluster.said("team", "half", "its GPUs are MIG slices, which take no shares").await;
    cluster.check().await;
    cluster.delete("default", &names[0]).await;
    cluster.until_running("default", "late").await;
    let half = cluster.get("team", "half").await;
    assert!(half["spec"]["nodeName"].is_null(), "a slice is no card to share");
    cluster.check().await;
}
