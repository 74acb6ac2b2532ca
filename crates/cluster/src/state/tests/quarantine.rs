//! Cards of pods that vanished without ending.

use super::*;

#[test]
fn cards_of_a_pod_deleted_by_force_stay_closed_until_its_containers_must_be_gone() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    let runs = bound(&half("p"), "a", "0:42949672960");
    let runs = with(&runs, "status.startTime", "2026-01-01T00:00:00Z".into());
    let runs = with(&runs, "spec.terminationGracePeriodSeconds", json!(5));
    see(&mut state, &runs);
    state.pod_changed(Change::Gone(item(&runs)), now);
    assert_eq!(held(&state, "a"), [40]);
    state.tick(now + 14 * SECOND);
    assert_eq!(held(&state, "a"), [40]);
    state.tick(now + 15 * SECOND);
    assert_eq!(held(&state, "a"), [0]);
}

#[test]
fn cards_of_a_pod_that_ended_are_free_at_once() {
    let mut state = state(&[("a", 1)]);
    let runs = bound(&half("p"), "a", "0:42949672960");
    let runs = with(&runs, "status.startTime", "2026-01-01T00:00:00Z".into());
    see(&mut state, &runs);
    see(&mut state, &with(&runs, "metadata.deletionTimestamp", "2026-01-01T00:01:00Z".into()));
    assert_eq!(held(&state, "a"), [40], "a deletion that is only asked for frees nothing");
    let ended = with(&runs, "status.phase", "Succeeded".into());
    see(&mut state, &ended);
    assert_eq!(held(&state, "a"), [0]);
    state.pod_changed(Change::Gone(item(&ended)), Instant::now());
    assert_eq!(held(&state, "a"), [0]);
}

#[test]
fn an_absurd_grace_period_closes_cards_for_a_while_and_not_for_ever() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    let runs = bound(&half("p"), "a", "0:42949672960");
    let runs = with(&runs, "status.startTime", "2026-01-01T00:00:00Z".into());
    let runs = with(&runs, "spec.terminationGracePeriodSeconds", json!(i64::MAX));
    see(&mut state, &runs);
    state.pod_changed(Change::Gone(item(&runs)), now);
    assert_eq!(held(&state, "a"), [40]);
    state.tick(now + 2 * 24 * 3600 * SECOND);
    assert_eq!(held(&state, "a"), [0]);
}

#[test]
fn a_pod_that_vanished_and_came_again_between_two_lists_leaves_its_cards_closed() {
    let mut state = state(&[("a", 2)]);
    let now = Instant::now();
    for (generation, after) in [("first", [40, 0]), ("second", [80, 0])] {
        let pod = with(&half("p"), "metadata.uid", generation.into());
        see(&mut state, &bound(&pod, "a", "0:42949672960"));
        state.pod_changed(Change::Relisting, now);
        see(&mut state, &with(&half("p"), "metadata.uid", format!("after {generation}").into()));
        state.pod_changed(Change::Listed, now);
        assert_eq!(held(&state, "a"), after, "nobody saw how {generation} went");
    }
    state.tick(Instant::now() + 40 * SECOND);
    assert_eq!(held(&state, "a"), [0, 0]);
}

#[test]
fn cards_of_a_pod_that_is_given_up_with_its_node_stay_closed_for_a_while() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    let runs = bound(&half("p"), "a", "0:42949672960");
    see(&mut state, &runs);
    state.node_changed(Change::Gone(node("a", 1)));
    let failed = with(&runs, "status.phase", "Failed".into());
    let reason =
        json!([{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]);
    let failed = with(&failed, "status.conditions", reason);
    state.pod_changed(Change::Seen(item(&failed)), now);
    state.pod_changed(Change::Gone(item(&failed)), now);
    state.node_changed(Change::Seen(node("a", 1)));
    assert_eq!(held(&state, "a"), [40], "its containers may still run");
    state.tick(now + 40 * SECOND);
    assert_eq!(held(&state, "a"), [0]);
}

#[test]
fn a_pod_that_vanished_from_a_node_with_replicas_leaves_their_number_closed() {
    let mut state = state(&[]);
    let mut replicas = node("a", 4);
    replicas.metadata.labels = serde_json::from_value(json!({
        "nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "81920",
        "nvidia.com/gpu.replicas": "4",
    }))
    .unwrap();
    state.node_changed(Change::Seen(replicas));
    let now = Instant::now();
    let gone = whole("gone", 4);
    see(&mut state, &bound(&gone, "a", ""));
    state.pod_changed(Change::Relisting, now);
    see(&mut state, &whole("next", 1));
    state.pod_changed(Change::Listed, now);
    assert!(acts(&mut state).iter().all(|act| !act.starts_with("bind")));
    state.tick(now + 40 * SECOND);
    assert_eq!(acts(&mut state), ["bind ml/next v10 to a -"]);
}
