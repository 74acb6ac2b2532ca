//! Pods whose claims are bound before they are.

use super::*;

#[test]
fn a_claim_is_bound_before_its_pod() {
    let mut state = state(&[("a", 0)]);
    let now = Instant::now();
    class_and_claim(&mut state);
    see(&mut state, &with_claim("p", "data"));
    assert_eq!(acts(&mut state), ["provide ml/p on a: ml/data"]);
    state.outcome(Outcome::Provided { pod: target("p"), result: Ok(()) }, now);
    assert!(acts(&mut state).is_empty(), "the claim is not bound yet");
    storage(
        &mut state,
        StorageKind::Volume,
        json!({
            "metadata": {"name": "pv-1"},
            "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"}, "claimRef": {"namespace": "ml", "name": "data", "uid": "c"}},
            "status": {"phase": "Bound"},
        }),
    );
    storage(&mut state, StorageKind::Claim, claim(Some("pv-1")));
    assert_eq!(acts(&mut state), ["bind ml/p v10 to a -"]);
}

#[test]
fn a_pod_whose_claim_is_not_bound_in_time_gives_its_place_up() {
    let mut state = state(&[("a", 0)]);
    let now = Instant::now();
    class_and_claim(&mut state);
    see(&mut state, &with_claim("p", "data"));
    acts(&mut state);
    state.outcome(Outcome::Provided { pod: target("p"), result: Ok(()) }, now);
    state.tick(now + 601 * SECOND);
    let why = "void ml/p: binding failed: to a: its claims were not bound in time";
    assert_eq!(acts(&mut state), [why]);
    let later = now + 602 * SECOND;
    made_void(&mut state, "p", &with_claim("p", "data"), later);
    assert!(state.scheduler().holding(&ObjectKey::new("ml", "p")).is_none());
}

#[test]
fn a_pod_deleted_while_its_claim_is_bound_is_not_bound() {
    let mut state = state(&[("a", 0)]);
    let now = Instant::now();
    class_and_claim(&mut state);
    see(&mut state, &with_claim("p", "data"));
    acts(&mut state);
    state.pod_changed(Change::Gone(item(&with_claim("p", "data"))), now);
    state.outcome(Outcome::Provided { pod: target("p"), result: Ok(()) }, now);
    storage(&mut state, StorageKind::Claim, claim(Some("pv-1")));
    assert!(acts(&mut state).is_empty());
}

#[test]
fn each_place_has_its_own_time_for_claims_to_be_bound() {
    let mut state = state(&[("a", 0), ("b", 0)]);
    let now = Instant::now();
    class_and_claim(&mut state);
    see(&mut state, &with_claim("p", "data"));
    assert_eq!(acts(&mut state), ["provide ml/p on a: ml/data"]);
    let later = now + 590 * SECOND;
    let result = Err("no space".to_owned());
    state.outcome(Outcome::Provided { pod: target("p"), result }, later);
    made_void(&mut state, "p", &with_claim("p", "data"), later);
    state.take_actions();
    state.pass(later);
    assert!(state.bindings.is_providing(&ObjectKey::new("ml", "p")));
    state.take_actions();
    state.tick(now + 605 * SECOND);
    assert!(
        state.bindings.is_providing(&ObjectKey::new("ml", "p")),
        "that was the first one's time"
    );
    state.tick(later + 601 * SECOND);
    assert!(!state.bindings.is_providing(&ObjectKey::new("ml", "p")));
}

#[test]
fn a_pod_whose_claims_are_being_bound_gives_up_a_node_that_goes() {
    let mut state = state(&[("a", 0)]);
    class_and_claim(&mut state);
    see(&mut state, &with_claim("p", "data"));
    acts(&mut state);
    state.outcome(Outcome::Provided { pod: target("p"), result: Ok(()) }, Instant::now());
    state.node_changed(Change::Gone(node("a", 0)));
    let why = "void ml/p: binding failed: to a: the node is gone";
    assert_eq!(acts(&mut state), [why]);
}

#[test]
fn a_decision_that_waits_loses_to_what_was_bound_meanwhile() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    class_and_claim(&mut state);
    let mut pod = with_claim("p", "data");
    pod["metadata"]["annotations"]["gpu-fraction"] = "0.5".into();
    see(&mut state, &pod);
    assert_eq!(acts(&mut state), ["provide ml/p on a: ml/data"]);
    // Another process has filled the card.
    for name in ["q", "r"] {
        see(&mut state, &bound(&half(name), "a", "0:42949672960"));
    }
    state.outcome(Outcome::Provided { pod: target("p"), result: Ok(()) }, now);
    storage(&mut state, StorageKind::Claim, claim(Some("pv-1")));
    let why = "void ml/p: binding failed: to a: its card was given to another pod meanwhile";
    assert_eq!(acts(&mut state), [why]);
    made_void(&mut state, "p", &pod, now);
    assert_eq!(held(&state, "a"), [80], "both that are bound are counted");
    assert!(
        state.scheduler().holding(&ObjectKey::new("ml", "r")).is_some_and(|h| !h.cards.is_empty())
    );
}
