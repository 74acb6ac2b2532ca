//! Many pods at once.

use crate::arena::{Arena, pod};
use crate::scheduler::{ALONE, Divvy};
use divvy_testbed::dice::Dice;
use divvy_testbed::manifests::{GpuNode, with_fraction, with_gpus, with_memory};
use divvy_testbed::proxy::Proxy;
use serde_json::Value;

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_halves_on_eight_cards_are_all_bound_and_no_card_is_over_its_bytes() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(GpuNode::A100, "a100", 1).await;
    let _divvy = Divvy::start(&arena).await;
    let half = |i| with_fraction(pod(&format!("half-{i}")), "0.5", 1);
    arena.create_all((0..16).map(half).collect()).await;
    arena.all_bound(16).await;
    assert_eq!(arena.check().await.bindings, 16);

    // The cards are full: one more waits, and goes as soon as one ends.
    arena.create(&half(16)).await;
    arena.said("half-16", "0/1 nodes are available").await;
    arena.end("half-3").await;
    arena.bound("half-16").await;
    arena.check().await;
}

/// Shares of all sizes, whole GPUs, and shares over several cards.
pub fn mixed(dice: &mut Dice, name: &str) -> Value {
    let pod = pod(name);
    match dice.below(10) {
        0..4 => with_fraction(pod, dice.of(&["0.1", "0.25", "0.33", "0.5", "0.7"]), 1),
        4..7 => with_memory(pod, 500 + dice.below(14_000)),
        7 => with_fraction(pod, dice.of(&["0.2", "0.5"]), dice.of(&[2, 3, 4])),
        _ => with_gpus(pod, dice.of(&[1, 1, 1, 2, 4])),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_2000_mixed_pods_is_packed_exactly_and_everything_that_fits_is_bound() {
    let Some(arena) = Arena::enter().await else { return };
    for (model, prefix, count) in
        [(GpuNode::A100, "a100", 80), (GpuNode::L40S, "l40s", 40), (GpuNode::T4, "t4", 40)]
    {
        arena.nodes(model, prefix, count).await;
    }
    let proxy = Proxy::start(&arena.api).await.unwrap();
    let kubeconfig = arena.plane.kubeconfig_through("kubeconfig-burst", proxy.url()).unwrap();
    let mut divvy = Divvy::spawn(&arena, &kubeconfig, &ALONE);
    divvy.ready().await;
    let mut dice = Dice(1);
    let pods: Vec<Value> = (0..2000).map(|i| mixed(&mut dice, &format!("p-{i}"))).collect();
    arena.create_all(pods).await;
    arena.until_placed().await;
    let bound = arena.check().await.bindings;
    assert!(bound > 1000, "only {bound} of 2000 fit: the nodes are too few for this test");

    // No livelock: a pod that fits is bound by one write, not by many.
    let writes = proxy.counts()["POST pods/binding"];
    assert!(writes <= bound + bound / 10, "{writes} writes for {bound} bindings");

    // A third ends while the rest of them waits: what becomes free is used again.
    for i in (0..2000).step_by(3) {
        let name = format!("p-{i}");
        if arena.history.look(|now| now.node_of(&format!("default/{name}")).is_some()) {
            arena.end(&name).await;
        }
    }
    arena.until_placed().await;
    arena.check().await;
}
