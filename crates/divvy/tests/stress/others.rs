//! Pods that are not divvy's to schedule: a KAI scheduler runs, or a group starts together.

use crate::arena::{Arena, NAMESPACE, PATIENCE, pod};
use crate::scheduler::Divvy;
use divvy_testbed::manifests::{self, GpuNode, foreign_kind, with_fraction};
use serde_json::{Value, json};
use std::time::Duration;

const KAI: &str = "kai-scheduler";

/// A pod for KAI.
fn theirs(name: &str) -> Value {
    with_fraction(manifests::pod(NAMESPACE, name, KAI), "0.5", 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_kai_are_left_alone_exactly_while_a_kai_scheduler_runs() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(GpuNode::T4, "t4", 1).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KAI}});
    arena.create(&namespace).await;
    let mut scheduler = manifests::pod(KAI, "kai-scheduler-default-1", "nobody");
    scheduler["metadata"]["labels"] = json!({"app": "kai-scheduler-default"});
    scheduler["spec"]["nodeName"] = "t4-0".into();
    arena.create(&scheduler).await;
    let options = ["--leader-elect=false", "--takeover-wait=0", "--scheduler-names", KAI];
    let mut divvy = Divvy::start_with(&arena, &options).await;
    divvy.logged("a KAI scheduler runs").await;
    arena.create(&theirs("first")).await;
    arena.create(&with_fraction(pod("ours"), "0.5", 1)).await;
    arena.bound("ours").await;
    let waits = |name: &str| arena.history.look(|now| now.node_of(name).is_none());
    assert!(waits("default/first"));
    // KAI is removed.
    let path = format!("/api/v1/namespaces/{KAI}/pods/kai-scheduler-default-1");
    arena.api.delete(&path).await.unwrap();
    arena.bound("first").await;
    // And installed again.
    arena.create(&scheduler).await;
    let end = tokio::time::Instant::now() + PATIENCE;
    while divvy.log().matches("a KAI scheduler runs").count() < 2 {
        assert!(tokio::time::Instant::now() < end, "{}", divvy.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    arena.create(&theirs("second")).await;
    arena.create(&with_fraction(pod("ours-too"), "0.5", 1)).await;
    arena.bound("ours-too").await;
    assert!(waits("default/second"));
    arena.api.delete(&path).await.unwrap();
    arena.bound("second").await;
}

/// The kind PodGroup of KAI, with any content.
async fn install_pod_groups(arena: &Arena) {
    let kind = foreign_kind("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups");
    arena.create(&kind).await;
    let end = tokio::time::Instant::now() + PATIENCE;
    while arena.api.get(GROUPS).await.is_err() {
        assert!(tokio::time::Instant::now() < end, "the kind is not served");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

const GROUPS: &str = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups";

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_group_that_starts_together_waits_with_that_reason_until_it_does_not() {
    let Some(arena) = Arena::enter().await else { return };
    install_pod_groups(&arena).await;
    arena.nodes(GpuNode::T4, "t4", 1).await;
    let group = json!({
        "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"namespace": NAMESPACE, "name": "gang"}, "spec": {"minMember": 2},
    });
    arena.create(&group).await;
    let _divvy = Divvy::start(&arena).await;
    let mut member = with_fraction(pod("member"), "0.5", 1);
    member["metadata"]["annotations"]["pod-group-name"] = "gang".into();
    arena.create(&member).await;
    arena.said("member", "PodGroup gang starts 2 pods together").await;
    let alone = json!({"spec": {"minMember": 1}});
    arena.api.patch(&format!("{GROUPS}/gang"), &alone).await.unwrap();
    arena.bound("member").await;
    arena.check().await;
}
