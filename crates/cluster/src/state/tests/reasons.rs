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
    let mut tell = state.take_actions().pop().unwrap();
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
    state.take_actions();
    assert_eq!(acts(&mut state), ["tell ml/p: the cluster has no nodes"], "it was never written");
    let (told_on, result) = ("13".into(), Ok("14".into()));
    state.outcome(Outcome::Told { pod: target("p"), told_on, result }, now);
    state.node_changed(Change::Seen(node("a", 1)));
    assert_eq!(acts(&mut state), ["bind ml/p v14 to a 0:42949672960"]);
}

/// What was told of whom; all of it is written at once.
fn tells(state: &mut State) -> Vec<ObjectKey> {
    let told = state.take_actions().into_iter().map(|act| match act {
        Action::Tell { pod, version, .. } => (pod, version),
        other => panic!("{other:?}"),
    });
    let write = |(pod, told_on): (Target, Box<str>)| {
        let (key, result) = (pod.key.clone(), Ok(told_on.clone()));
        state.outcome(Outcome::Told { pod, told_on, result }, Instant::now());
        key
    };
    told.map(write).collect()
}

#[test]
fn reasons_that_change_all_the_time_are_told_of_every_pod_in_turn() {
    let mut state = state(&[("a", 0)]);
    let mut now = Instant::now();
    let pods: Vec<String> = (0..1200).map(|i| format!("p{i}")).collect();
    for pod in &pods {
        see(&mut state, &half(pod));
    }
    state.pass(now);
    while !tells(&mut state).is_empty() {
        state.pass(now);
    }
    let mut told = std::collections::BTreeSet::new();
    for round in 0..24 {
        // One more node, and so another reason.
        state.node_changed(Change::Seen(node(&format!("more-{round}"), 0)));
        now += SECOND;
        state.refresh(now);
        told.extend(tells(&mut state));
    }
    assert_eq!(told.len(), pods.len());
}

/// Very many nodes without cards, and pods of a namespace that all ask for something else.
fn crowded() -> State {
    let names: Vec<String> = (0..2000).map(|i| format!("n{i:04}")).collect();
    let nodes: Vec<(&str, u32)> = names.iter().map(|name| (&**name, 0)).collect();
    let mut state = state(&nodes);
    for i in 0..2000 {
        let pod = with(&half(&format!("p{i}")), "metadata.namespace", "many".into());
        let fraction = format!("0.{:06}", 100_000 + i);
        see(&mut state, &with(&pod, "metadata.annotations", json!({"gpu-fraction": fraction})));
    }
    state
}

#[test]
fn nobody_waits_for_another_namespaces_many_different_pods() {
    let mut state = crowded();
    let now = Instant::now();
    state.pass(now);
    assert!(state.is_behind(), "it is more than is looked at in one go");
    state.take_actions();
    see(&mut state, &half("late"));
    state.node_changed(Change::Seen(node("with-card", 1)));
    for passes in 1.. {
        state.pass(now);
        let is_bound = |act: &Action| matches!(act, Action::Bind(b) if b.pod.key.name() == "late");
        if state.cx.actions().iter().any(is_bound) {
            assert!(passes <= 3, "it was placed after {passes} passes");
            assert!(state.is_behind(), "before the others were all looked at");
            return;
        }
        assert!(state.is_behind(), "it is not placed");
    }
}

#[test]
fn why_a_pod_waits_is_told_before_all_reasons_of_another_namespace_are() {
    let mut state = crowded();
    let now = Instant::now();
    state.pass(now);
    let large = with(&half("late"), "metadata.annotations", json!({"gpu-memory": "102400"}));
    see(&mut state, &large);
    let mut told = 0;
    while told < 2000 {
        assert!(state.is_behind(), "all are told, but not of the late one");
        state.pass(now);
        let keys = tells(&mut state);
        told += keys.len();
        if keys.contains(&ObjectKey::new("ml", "late")) {
            assert!(told < 1500, "{told} were told before");
            return;
        }
    }
}

#[test]
fn no_more_reasons_are_worked_out_than_can_be_written() {
    let mut state = state(&[("a", 0)]);
    (0..1200).for_each(|i| see(&mut state, &half(&format!("p{i}"))));
    let now = Instant::now();
    (0..10).for_each(|_| state.pass(now));
    assert_eq!(state.cx.action_count(), 500);
    assert!(!state.is_behind(), "there is nothing to do before some are written");
    assert_eq!(tells(&mut state).len(), 500);
    assert!(state.is_behind());
}
