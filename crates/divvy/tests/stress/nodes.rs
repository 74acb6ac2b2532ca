//! Nodes that change while pods hold them or wait for them.

use crate::arena::{Arena, pod};
use crate::scheduler::Divvy;
use divvy_testbed::history::Now;
use divvy_testbed::manifests::{GpuNode, with_fraction, with_gpus, with_memory};
use serde_json::json;

const ONE_T4: GpuNode = GpuNode { cards: 1, ..GpuNode::T4 };

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_node_takes_no_more_and_has_its_holders_again_when_it_comes_back() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(ONE_T4, "t4", 1).await;
    let _divvy = Divvy::start(&arena).await;
    arena.create(&with_fraction(pod("stays"), "0.6", 1)).await;
    arena.bound("stays").await;
    arena.api.delete("/api/v1/nodes/t4-0").await.unwrap();
    arena.create(&with_fraction(pod("waits"), "0.6", 1)).await;
    arena.said("waits", "the cluster has no nodes").await;

    arena.nodes(ONE_T4, "t4", 1).await;
    // What is left beside the one that stayed is 0.4: the first that waits does not fit.
    arena.create(&with_fraction(pod("small"), "0.4", 1)).await;
    assert_eq!(arena.bound("small").await, "t4-0");
    arena.said("waits", "0/1 nodes").await;
    arena.end("stays").await;
    arena.end("small").await;
    arena.bound("waits").await;
    arena.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_ready_or_cordoned_gets_no_pods_until_it_is_again() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(ONE_T4, "t4", 1).await;
    let divvy = Divvy::start(&arena).await;
    let not_ready = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    let table = [
        (json!({"spec": {"taints": not_ready}}), json!({"spec": {"taints": null}}), "not-ready"),
        (
            json!({"spec": {"unschedulable": true}}),
            json!({"spec": {"unschedulable": false}}),
            "unschedulable",
        ),
    ];
    for (i, (closed, open, reason)) in table.into_iter().enumerate() {
        divvy.has_seen(&arena.patch_node("t4-0", &closed).await).await;
        let name = format!("p-{i}");
        arena.create(&with_fraction(pod(&name), "0.4", 1)).await;
        arena.said(&name, reason).await;
        arena.patch_node("t4-0", &open).await;
        arena.bound(&name).await;
    }
    arena.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relabelled_node_takes_pods_by_its_new_labels() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(ONE_T4, "t4", 2).await;
    let _divvy = Divvy::start(&arena).await;
    let mut picky = with_fraction(pod("picky"), "0.5", 1);
    picky["spec"]["nodeSelector"] = json!({"disk": "fast"});
    arena.create(&picky).await;
    arena.said("picky", "0/2 nodes are available").await;
    arena.patch_node("t4-1", &json!({"metadata": {"labels": {"disk": "fast"}}})).await;
    assert_eq!(arena.bound("picky").await, "t4-1");
    arena.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_memory_label_counts_once_the_card_is_free() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(ONE_T4, "t4", 1).await;
    let divvy = Divvy::start(&arena).await;
    arena.create(&with_fraction(pod("first"), "0.5", 1)).await;
    arena.bound("first").await;
    let larger = json!({"metadata": {"labels": {"nvidia.com/gpu.memory": "30720"}}});
    divvy.has_seen(&arena.patch_node("t4-0", &larger).await).await;
    arena.create(&with_memory(pod("large"), 20_000)).await;
    arena.said("large", "0/1 nodes are available").await;
    arena.end("first").await;
    arena.bound("large").await;
    arena.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_shrinks_below_what_is_held_keeps_its_pods_and_takes_no_more() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(GpuNode::T4, "t4", 1).await;
    let divvy = Divvy::start(&arena).await;
    let whole = |i| with_gpus(pod(&format!("w-{i}")), 1);
    arena.create_all((0..3).map(whole).collect()).await;
    arena.all_bound(3).await;
    let status = json!({"status": {"allocatable": {"nvidia.com/gpu": "2"}}});
    divvy.has_seen(&arena.patch_node("t4-0/status", &status).await).await;
    arena.create(&whole(3)).await;
    arena.create(&with_fraction(pod("half"), "0.5", 1)).await;
    arena.said("w-3", "0/1 nodes are available").await;
    arena.said("half", "0/1 nodes are available").await;
    // Two of two are still full after the first of them.
    arena.end("w-0").await;
    arena.end("w-1").await;
    // One is left: one of the two that wait goes.
    let wait = ["default/w-3", "default/half"];
    let goes = |now: &Now| wait.iter().any(|pod| now.node_of(pod).is_some());
    arena.until("one of the two is bound", goes).await;
    arena.check().await;
}
