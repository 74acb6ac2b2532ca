//! What is said on pods that wait.

use super::*;

#[test]
fn the_same_reason_is_told_once_also_after_a_restart() {
    let sentence = "0/1 nodes are available: 1 largest card 80.0 GiB < 100.0 GiB asked.";
    let mut first = state(&[("a", 1)]);
    let large = with(&half("p"), "metadata.annotations", json!({"gpu-memory": "102400"}));
    see(&mut first, &large);
    assert_eq!(acts(&mut first), [format!("tell ml/p: {sentence}")]);
    see(&mut first, &large);
    assert!(acts(&mut first).is_empty());
    let mut second = state(&[("a", 1)]);
    let condition = json!([{"type": "PodScheduled", "status": "False", "message": sentence}]);
    see(&mut second, &with(&large, "status.conditions", condition));
    assert!(acts(&mut second).is_empty());
    second.node_changed(Change::Seen(node("b", 1)));
    second.refresh(Instant::now());
    assert_eq!(
        acts(&mut second),
        ["tell ml/p: 0/2 nodes are available: 2 largest card 80.0 GiB < 100.0 GiB asked."]
    );
}

#[test]
fn a_reason_that_could_not_be_written_is_told_again_though_nothing_changes() {
    for nodes in [&[][..], &[("a", 0)]] {
        let mut state = state(nodes);
        let now = Instant::now();
        state.refresh(now);
        see(&mut state, &half("p"));
        let told = acts(&mut state);
        assert!(told.len() == 1 && told[0].starts_with("tell ml/p: "), "{told:?}");
        let result = Err(Failure::Unclear("no answer".into()));
        let told_on = "10".into();
        state.outcome(Outcome::Told { pod: target("p"), told_on, result }, now);
        state.refresh(now + 10 * SECOND);
        assert_eq!(acts(&mut state), told);
    }
}

#[test]
fn a_reason_that_a_storage_object_changes_is_told_anew() {
    let mut state = state(&[("a", 0)]);
    let now = Instant::now();
    see(&mut state, &with_claim("p", "data"));
    let before = acts(&mut state);
    state.refresh(now);
    storage(&mut state, StorageKind::Claim, claim(None));
    assert!(acts(&mut state).is_empty());
    state.refresh(now + 10 * SECOND);
    let after = acts(&mut state);
    assert!(after.len() == 1 && after != before, "{before:?} {after:?}");
}

#[test]
fn a_reason_is_told_on_the_version_that_it_holds_for_and_not_once_the_pod_has_a_place() {
    let mut state = state(&[]);
    let now = Instant::now();
    see(&mut state, &half("p"));
    state.pass(now);
    let mut tell = state.actions.pop().unwrap();
    see(&mut state, &with(&half("p"), "metadata.resourceVersion", "11".into()));
    assert!(state.is_due(&mut tell));
    assert!(matches!(&tell, Action::Tell { version, .. } if **version == *"11"), "{tell:?}");
    // Somebody else has changed the pod meanwhile: what is known of it is still version 11.
    let (told_on, result) = ("12".into(), Ok("13".into()));
    state.outcome(Outcome::Told { pod: target("p"), told_on, result }, now);
    state.node_changed(Change::Seen(node("a", 1)));
    assert_eq!(acts(&mut state), ["bind ml/p v11 to a 0:42949672960"]);
    assert!(!state.is_due(&mut tell), "a pod that may be bound any moment");
    bind_fails(&mut state, "p", "a", Failure::Conflict("changed".into()), now);
    state.node_changed(Change::Gone(node("a", 1)));
    looked(&mut state, "p", Some(&with(&half("p"), "metadata.resourceVersion", "13".into())), now);
    state.actions.clear();
    assert_eq!(acts(&mut state), ["tell ml/p: the cluster has no nodes"], "it was never written");
    let (told_on, result) = ("13".into(), Ok("14".into()));
    state.outcome(Outcome::Told { pod: target("p"), told_on, result }, now);
    state.node_changed(Change::Seen(node("a", 1)));
    assert_eq!(acts(&mut state), ["bind ml/p v14 to a 0:42949672960"]);
}

#[test]
fn reasons_that_change_all_the_time_are_told_of_every_pod_in_turn() {
    let mut state = state(&[("a", 0)]);
    let mut now = Instant::now();
    let pods: Vec<String> = (0..1200).map(|i| format!("p{i}")).collect();
    for pod in &pods {
        see(&mut state, &half(pod));
    }
    acts(&mut state);
    let mut told = std::collections::BTreeSet::new();
    for round in 0..3 {
        // One more node, and so another reason.
        state.node_changed(Change::Seen(node(&format!("more-{round}"), 0)));
        now += 10 * SECOND;
        state.refresh(now);
        told.extend(std::mem::take(&mut state.actions).into_iter().map(|act| match act {
            Action::Tell { pod, .. } => pod.key,
            other => panic!("{other:?}"),
        }));
    }
    assert_eq!(told.len(), pods.len());
}
