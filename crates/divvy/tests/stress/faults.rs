//! An API server that answers wrongly, late or not at all.

use crate::arena::{Arena, NAMESPACE, pod};
use crate::scheduler::{ALONE, Divvy};
use divvy_testbed::manifests::{GpuNode, with_fraction};
use divvy_testbed::proxy::{Fault, Proxy, Target};
use http::StatusCode;
use std::time::Duration;

/// divvy behind a proxy, and one node with eight cards.
async fn behind_proxy(arena: &Arena, options: &[&str]) -> (Proxy, Divvy) {
    arena.nodes(GpuNode::A100, "a100", 2).await;
    let proxy = Proxy::start(&arena.api).await.unwrap();
    let kubeconfig = arena.plane.kubeconfig_through("kubeconfig-faults", proxy.url()).unwrap();
    let options = [&ALONE, options].concat();
    let divvy = Divvy::spawn(arena, &kubeconfig, &options);
    (proxy, divvy)
}

const PODS: usize = 24;

async fn create_pods(arena: &Arena) {
    let half = |i| with_fraction(pod(&format!("p-{i}")), "0.5", 1);
    arena.create_all((0..PODS).map(half).collect()).await;
}

/// Writes go wrong in this way for a while: all pods are bound in the end, exactly, and with a
/// number of requests that is bounded by the number of faults.
async fn writes_fail(target: Target, fault: Fault, times: usize) {
    let Some(arena) = Arena::enter().await else { return };
    let (proxy, mut divvy) = behind_proxy(&arena, &[]).await;
    divvy.ready().await;
    proxy.inject(target, fault, times);
    create_pods(&arena).await;
    arena.all_bound(PODS).await;
    arena.check().await;
    let injected = proxy.injected();
    assert!(injected > 0, "no fault was injected");
    let counts = proxy.counts();
    let bindings = counts["POST pods/binding"];
    assert!(bindings <= PODS + injected, "{injected} faults, {counts:?}");
    // One look, one condition and one event at most for each fault.
    let requests: usize = counts.values().sum();
    assert!(requests <= 3 * PODS + 5 * injected + 40, "{injected} faults, {counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_on_bindings_are_looked_into_and_tried_again() {
    writes_fail(Target::Bindings, Fault::Status(StatusCode::CONFLICT), 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_is_asked_again_when_it_said() {
    writes_fail(Target::Writes, Fault::TooMany { retry_after: 1 }, 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_server_are_tried_again() {
    writes_fail(Target::Writes, Fault::Status(StatusCode::INTERNAL_SERVER_ERROR), 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_server_is_waited_for() {
    writes_fail(Target::Any, Fault::Status(StatusCode::SERVICE_UNAVAILABLE), 30).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_before_the_server_hears_are_tried_again() {
    writes_fail(Target::Writes, Fault::Drop, 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_hang_and_break_are_tried_again() {
    writes_fail(Target::Writes, Fault::Hang(Duration::from_secs(2)), 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_answers_only_take_longer() {
    writes_fail(Target::Any, Fault::Slow(Duration::from_secs(1)), 40).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_whose_answer_is_lost_counts_as_bound_and_is_not_repeated_elsewhere() {
    writes_fail(Target::Bindings, Fault::LoseAnswer, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_never_ends_makes_no_hot_loop_and_is_said_on_the_pod() {
    let Some(arena) = Arena::enter().await else { return };
    let (proxy, mut divvy) = behind_proxy(&arena, &[]).await;
    divvy.ready().await;
    proxy.inject(Target::Bindings, Fault::Status(StatusCode::FORBIDDEN), usize::MAX);
    arena.create(&with_fraction(pod("unlucky"), "0.5", 1)).await;
    // Both nodes are tried, then it waits, longer and longer.
    arena.said("unlucky", "refused by the fault proxy").await;
    let before = proxy.counts()["POST pods/binding"];
    // To see that something does not happen takes time.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let after = proxy.counts()["POST pods/binding"];
    assert!(after - before <= 5, "{} bindings in 6 s", after - before);
    proxy.heal();
    arena.bound("unlucky").await;
    arena.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_at_the_start_is_waited_for() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(GpuNode::A100, "a100", 2).await;
    let proxy = Proxy::start(&arena.api).await.unwrap();
    proxy.inject(Target::Any, Fault::Status(StatusCode::SERVICE_UNAVAILABLE), 6);
    proxy.inject(Target::Any, Fault::Drop, 6);
    let kubeconfig = arena.plane.kubeconfig_through("kubeconfig-down", proxy.url()).unwrap();
    let _divvy = Divvy::spawn(&arena, &kubeconfig, &ALONE);
    create_pods(&arena).await;
    arena.all_bound(PODS).await;
    arena.check().await;
}

/// Watches go wrong in this way, again and again, while pods and nodes come and go.
async fn watches_fail(options: &[&str], disturb: impl Fn(&Proxy)) {
    let Some(arena) = Arena::enter().await else { return };
    let (proxy, mut divvy) = behind_proxy(&arena, options).await;
    divvy.ready().await;
    let rounds = 4;
    for round in 0..rounds {
        disturb(&proxy);
        // Half of them fit on what is there; the other half needs the node that comes only now.
        let half = |i| with_fraction(pod(&format!("p-{round}-{i}")), "0.5", 1);
        arena.create_all((0..16).map(half).collect()).await;
        arena.nodes(GpuNode::A100, &format!("more-{round}"), 1).await;
        arena.all_bound(16 * (round + 1)).await;
    }
    arena.check().await;
    // One that is silent is opened anew however long the test takes; but nothing is listed anew.
    let is_bounded = |asked: &str| {
        asked.starts_with("LIST") || (asked.starts_with("WATCH") && options.is_empty())
    };
    let counts = proxy.counts();
    let wrong = counts.iter().find(|(asked, count)| is_bounded(asked) && **count > 4 * rounds);
    assert_eq!(wrong, None, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_that_break_are_opened_again_and_miss_nothing() {
    watches_fail(&[], Proxy::cut_watches).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_whose_version_expired_are_listed_anew() {
    watches_fail(&[], Proxy::expire_watches).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_that_hang_are_noticed_and_opened_again() {
    watches_fail(&["--watch-silence=2"], Proxy::freeze_watches).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_deleted_while_the_watch_was_broken_holds_nothing_afterwards() {
    let Some(arena) = Arena::enter().await else { return };
    let options = ["--quarantine=0", "--watch-silence=5"];
    let (proxy, mut divvy) = behind_proxy(&arena, &options).await;
    divvy.ready().await;
    let full = |i| with_fraction(pod(&format!("p-{i}")), "0.9", 1);
    arena.create_all((0..16).map(full).collect()).await;
    arena.all_bound(16).await;
    proxy.freeze_watches();
    for i in 0..16 {
        arena.delete(&format!("p-{i}")).await;
    }
    let again = |i| with_fraction(pod(&format!("q-{i}")), "0.9", 1);
    arena.create_all((0..16).map(again).collect()).await;
    proxy.expire_watches();
    arena.until("all are bound", |now| now.bound(NAMESPACE) == 16).await;
    arena.check().await;
}
