//! Pods that change, go, or are refused between the decision and the binding.

use crate::arena::{Arena, PATIENCE, path, pod};
use crate::scheduler::{ALONE, Divvy};
use divvy_testbed::api::ApiError;
use divvy_testbed::manifests::{self, GpuNode, with_fraction, with_gpus, with_memory};
use divvy_testbed::proxy::{Fault, Proxy, Target};
use http::{Method, StatusCode};
use serde_json::json;
use std::time::{Duration, Instant};

const ONE_T4: GpuNode = GpuNode { cards: 1, ..GpuNode::T4 };

/// One card, divvy behind a proxy that holds its next binding back until it is healed, and a pod that
/// is just being bound.
async fn caught_in_the_act(arena: &Arena) -> (Proxy, Divvy) {
    arena.nodes(ONE_T4, "t4", 1).await;
    let proxy = Proxy::start(&arena.api).await.unwrap();
    let kubeconfig = arena.plane.kubeconfig_through("kubeconfig-pods", proxy.url()).unwrap();
    let mut divvy = Divvy::spawn(arena, &kubeconfig, &ALONE);
    divvy.ready().await;
    proxy.inject(Target::Bindings, Fault::Held, 1);
    arena.create(&with_fraction(pod("a"), "0.8", 1)).await;
    let end = tokio::time::Instant::now() + PATIENCE;
    while proxy.injected() == 0 {
        assert!(tokio::time::Instant::now() < end, "nothing was decided: {}", divvy.log());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (proxy, divvy)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_deleted_between_decision_and_binding_leaves_its_card_free() {
    let Some(arena) = Arena::enter().await else { return };
    let (proxy, _divvy) = caught_in_the_act(&arena).await;
    arena.delete("a").await;
    proxy.heal();
    arena.create(&with_fraction(pod("b"), "0.8", 1)).await;
    arena.bound("b").await;
    arena.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_made_anew_under_the_same_name_is_decided_on_anew() {
    let Some(arena) = Arena::enter().await else { return };
    let (proxy, _divvy) = caught_in_the_act(&arena).await;
    arena.delete("a").await;
    arena.create(&with_memory(pod("a"), 1000)).await;
    proxy.heal();
    arena.bound("a").await;
    // The checker compares the record with what this pod asked, not with the one before it.
    assert_eq!(arena.check().await.bindings, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_asks_for_something_else_meanwhile_gets_that() {
    let Some(arena) = Arena::enter().await else { return };
    let (proxy, _divvy) = caught_in_the_act(&arena).await;
    let more = json!({"metadata": {"annotations": {"gpu-fraction": "0.9"}}});
    arena.api.patch(&path("a"), &more).await.unwrap();
    proxy.heal();
    arena.bound("a").await;
    arena.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_that_is_refused_on_one_node_goes_to_another() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(ONE_T4, "guarded", 2).await;
    refuse_bindings_to(&arena, "guarded-0").await;
    let _divvy = Divvy::start(&arena).await;
    for i in 0..3 {
        let name = format!("p-{i}");
        arena.create(&with_fraction(pod(&name), "0.3", 1)).await;
        assert_eq!(arena.bound(&name).await, "guarded-1");
    }
    // The other node is full: what stays is the reason of the one that refused.
    arena.create(&with_fraction(pod("p-3"), "0.3", 1)).await;
    arena.said("p-3", "closed by the test").await;
    arena.check().await;
}

/// A policy of the API server itself, and waits until it is in force.
async fn refuse_bindings_to(arena: &Arena, node: &str) {
    let group = "admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": group, "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "closed"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["pods/binding"],
            }]},
            "validations": [{
                "expression": format!("object.target.name != '{node}'"),
                "message": "closed by the test",
            }],
        },
    });
    let binding = json!({
        "apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "closed"},
        "spec": {"policyName": "closed", "validationActions": ["Deny"]},
    });
    let send = async |plural: &str, object| {
        let path = format!("/apis/{group}/{plural}");
        arena.api.send(Method::POST, &path, "application/json", Some(object)).await.unwrap();
    };
    send("validatingadmissionpolicies", &policy).await;
    send("validatingadmissionpolicybindings", &binding).await;
    arena.create(&manifests::pod("default", "probe", "nobody")).await;
    let probe = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "probe"},
        "target": {"kind": "Node", "name": node},
    });
    let path = format!("{}/binding?dryRun=All", path("probe"));
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let tried = arena.api.send(Method::POST, &path, "application/json", Some(&probe)).await;
        if matches!(tried, Err(ApiError::Refused { status, .. }) if status != StatusCode::NOT_FOUND)
        {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "the policy is not in force");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    arena.delete("probe").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_announced_deletion_frees_nothing() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(ONE_T4, "t4", 1).await;
    let _divvy =
        Divvy::start_with(&arena, &["--leader-elect=false", "--takeover-wait=0", "--quarantine=0"])
            .await;
    arena.create(&with_fraction(pod("a"), "0.8", 1)).await;
    arena.bound("a").await;
    let slowly = json!({"gracePeriodSeconds": 30});
    let json = "application/json";
    arena.api.send(Method::DELETE, &path("a"), json, Some(&slowly)).await.unwrap();
    arena.create(&with_fraction(pod("b"), "0.8", 1)).await;
    arena.said("b", "0/1 nodes are available").await;
    arena.delete("a").await;
    arena.bound("b").await;
    arena.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cards_of_a_pod_deleted_by_force_stay_closed_for_the_quarantine() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(ONE_T4, "t4", 1).await;
    let _divvy =
        Divvy::start_with(&arena, &["--leader-elect=false", "--takeover-wait=0", "--quarantine=2"])
            .await;
    arena.create(&with_fraction(pod("a"), "0.8", 1)).await;
    arena.bound("a").await;
    // A kubelet has taken it up: its containers may outlive the object.
    let started = json!({"status": {"startTime": "2026-01-01T00:00:00Z"}});
    arena.api.patch(&format!("{}/status", path("a")), &started).await.unwrap();
    arena.create(&with_fraction(pod("b"), "0.8", 1)).await;
    arena.said("b", "0/1 nodes are available").await;
    let deleted = Instant::now();
    arena.delete("a").await;
    arena.bound("b").await;
    let closed = deleted.elapsed();
    assert!(closed >= Duration::from_secs(2), "given after {closed:?}");
    arena.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_other_schedulers_count_as_used_and_are_left_alone() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(GpuNode::T4, "t4", 1).await;
    let _divvy = Divvy::start(&arena).await;
    let mut theirs = with_gpus(manifests::pod("default", "theirs", "other"), 3);
    arena.create(&theirs).await;
    theirs["metadata"]["name"] = json!("theirs-bound");
    theirs["spec"]["nodeName"] = json!("t4-0");
    arena.create(&theirs).await;
    arena.create(&with_gpus(pod("two"), 2)).await;
    arena.said("two", "0/1 nodes are available").await;
    arena.create(&with_fraction(pod("half"), "0.5", 1)).await;
    arena.bound("half").await;
    assert_eq!(arena.history.look(|now| now.node_of("default/theirs").map(str::to_owned)), None);
    assert_eq!(arena.history.look(|now| now.message("default/theirs").map(str::to_owned)), None);
    arena.check().await;
}
