//! Two replicas, of which one works.

use crate::arena::{Arena, PATIENCE, pod};
use crate::scheduler::Divvy;
use divvy_testbed::manifests::{GpuNode, with_fraction};
use divvy_testbed::proxy::Proxy;
use serde_json::{Value, json};
use std::time::Duration;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/divvy-scheduler";
const OPTIONS: [&str; 2] = ["--lease-namespace=default", "--lease-duration=6"];
/// It does not expire within a test: whoever takes over does so for another reason.
const LASTING: [&str; 2] = ["--lease-namespace=default", "--lease-duration=3600"];

/// Whoever holds the lease, once that is not `before`.
async fn holder(arena: &Arena, before: Option<&str>) -> String {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let lease = arena.api.get(LEASE).await.unwrap_or(Value::Null);
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        if !holder.is_empty() && Some(holder) != before {
            return holder.to_owned();
        }
        assert!(tokio::time::Instant::now() < end, "nobody takes the lease: {lease}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Two replicas: who leads, and who waits.
async fn two(arena: &Arena, options: &[&str]) -> (Divvy, Divvy, String) {
    arena.nodes(GpuNode::A100, "a100", 4).await;
    let kubeconfig = arena.plane.kubeconfig();
    let leader = Divvy::spawn(arena, &kubeconfig, options);
    let identity = holder(arena, None).await;
    let other = Divvy::spawn(arena, &kubeconfig, options);
    (leader, other, identity)
}

async fn load(arena: &Arena, prefix: &str, count: usize) {
    let half = |i| with_fraction(pod(&format!("{prefix}-{i}")), "0.5", 1);
    arena.create_all((0..count).map(half).collect()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_replicas_works_and_the_other_takes_over_when_it_is_killed() {
    let Some(arena) = Arena::enter().await else { return };
    let (mut leader, mut other, identity) = two(&arena, &OPTIONS).await;
    load(&arena, "a", 20).await;
    arena.all_bound(20).await;
    other.logged("waiting to lead").await;
    load(&arena, "b", 20).await;
    leader.process.kill();
    holder(&arena, Some(&identity)).await;
    arena.all_bound(40).await;
    other.ready().await;
    let lease = arena.api.get(LEASE).await.unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 1, "{lease}");
    arena.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_paused_and_resumed_does_no_harm() {
    let Some(arena) = Arena::enter().await else { return };
    let (leader, _other, identity) = two(&arena, &OPTIONS).await;
    // Caught in the middle of its work.
    load(&arena, "a", 8).await;
    load(&arena, "b", 24).await;
    leader.process.signal("STOP").unwrap();
    holder(&arena, Some(&identity)).await;
    load(&arena, "c", 24).await;
    arena.all_bound(56).await;
    leader.process.signal("CONT").unwrap();
    // It wakes up with decisions of long ago while the other one goes on.
    load(&arena, "d", 16).await;
    arena.until_placed().await;
    assert_eq!(arena.check().await.bindings, 64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stops_as_told_hands_over_at_once() {
    let Some(arena) = Arena::enter().await else { return };
    let (mut leader, mut other, identity) = two(&arena, &LASTING).await;
    leader.leads().await;
    other.logged("waiting to lead").await;
    leader.process.signal("TERM").unwrap();
    holder(&arena, Some(&identity)).await;
    load(&arena, "a", 8).await;
    arena.all_bound(8).await;
    assert_eq!(leader.ended().await, "exit status: 0");
    arena.check().await;
}

/// A lease that is held by a replica on another machine.
fn held(renewed: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "default", "name": "divvy-scheduler"},
        "spec": {
            "holderIdentity": "elsewhere", "leaseDurationSeconds": 6, "leaseTransitions": 0,
            "acquireTime": renewed, "renewTime": renewed,
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_clock_jumped_back_is_not_robbed_while_it_renews() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(GpuNode::A100, "a100", 1).await;
    arena.create(&held("1971-01-01T00:00:00.000000Z")).await;
    let proxy = Proxy::start(&arena.api).await.unwrap();
    let kubeconfig = arena.plane.kubeconfig_through("kubeconfig-clock", proxy.url()).unwrap();
    let divvy = Divvy::spawn(&arena, &kubeconfig, &OPTIONS);
    // It looks once a second: two leases long, and each time the lease has been renewed.
    for second in 1..=12 {
        while proxy.counts().get("GET leases").is_none_or(|looks| *looks < second) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let renewed =
            json!({"spec": {"renewTime": format!("1971-01-01T00:00:{second:02}.000000Z")}});
        arena.api.patch(LEASE, &renewed).await.unwrap();
    }
    assert!(!divvy.log().contains("leading"), "{}", divvy.log());
    assert_eq!(holder(&arena, None).await, "elsewhere");
    load(&arena, "a", 4).await;
    arena.all_bound(4).await;
    assert_ne!(holder(&arena, None).await, "elsewhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_clock_jumped_ahead_keeps_the_lease_no_longer_than_it_lives() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(GpuNode::A100, "a100", 1).await;
    arena.create(&held("2099-01-01T00:00:00.000000Z")).await;
    let _divvy = Divvy::spawn(&arena, &arena.plane.kubeconfig(), &OPTIONS);
    load(&arena, "a", 4).await;
    arena.all_bound(4).await;
    arena.check().await;
}
