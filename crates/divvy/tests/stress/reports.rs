//! What is said about pods: events, conditions, metrics, `divvy explain`.

use crate::arena::{Arena, NAMESPACE, pod};
use crate::program;
use crate::scheduler::Divvy;
use divvy_testbed::manifests::{GpuNode, with_fraction};
use serde_json::json;

/// The condition PodScheduled of a pod.
fn condition(arena: &Arena, name: &str) -> serde_json::Value {
    arena.history.look(|now| {
        let pod = &now.pods[&format!("{NAMESPACE}/{name}")];
        let all = pod["status"]["conditions"].as_array().unwrap();
        all.iter().find(|c| c["type"] == "PodScheduled").unwrap().clone()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_pod_is_announced_once() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(GpuNode::T4, "t4", 1).await;
    let divvy = Divvy::start(&arena).await;
    arena.create(&with_fraction(pod("a"), "0.5", 1)).await;
    arena.bound("a").await;
    let end = tokio::time::Instant::now() + crate::arena::PATIENCE;
    while arena.events("a", "Scheduled").await.is_empty() {
        assert!(tokio::time::Instant::now() < end, "no event");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let events = arena.events("a", "Scheduled").await;
    assert_eq!(events, ["Successfully assigned default/a to t4-0"]);
    assert_eq!(condition(&arena, "a")["status"], "True");
    assert!(arena.events("a", "FailedScheduling").await.is_empty());
    let metrics = divvy.page("/metrics").await.unwrap();
    assert!(metrics.contains("divvy_"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_waits_says_why_once_for_each_change_and_explain_says_the_same() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(GpuNode { cards: 1, ..GpuNode::T4 }, "t4", 2).await;
    let _divvy = Divvy::start(&arena).await;
    let large = |i| with_fraction(pod(&format!("large-{i}")), "0.8", 1);
    arena.create_all((0..2).map(large).collect()).await;
    arena.all_bound(2).await;
    arena.create(&large(2)).await;
    let first = arena.said("large-2", "0/2 nodes are available").await;
    let told = condition(&arena, "large-2");
    assert_eq!((&told["status"], &told["reason"]), (&json!("False"), &json!("Unschedulable")));

    let explained = program::divvy()
        .args(["explain", "pod", "default/large-2", "-o", "json", "--kubeconfig"])
        .arg(arena.plane.kubeconfig())
        .output()
        .unwrap();
    let text = String::from_utf8(explained.stdout).unwrap();
    let said: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    assert!(said.to_string().contains(&first), "{first}\n{text}");

    // Nothing that has to do with it changes: nothing new is said.
    arena.create(&pod("small")).await;
    arena.bound("small").await;
    // Another reason: another sentence, and another event.
    arena.patch_node("t4-1", &json!({"spec": {"unschedulable": true}})).await;
    let second = arena.said("large-2", "unschedulable").await;
    assert_ne!(first, second);
    let end = tokio::time::Instant::now() + crate::arena::PATIENCE;
    let mut events = Vec::new();
    while events.len() < 2 {
        assert!(tokio::time::Instant::now() < end, "{events:?}");
        events = arena.events("large-2", "FailedScheduling").await;
    }
    events.sort();
    let mut expected = [first, second];
    expected.sort();
    assert_eq!(events, expected);
}
