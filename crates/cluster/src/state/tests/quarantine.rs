//! Cards of pods that vanished without ending.

use super::reservations::{handing, key, ready, reservation, runs};
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
fn a_whole_gpu_pod_that_vanished_closes_its_cards_for_ten_minutes_at_most() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    let runs = bound(&whole("p", 1), "a", "");
    let runs = with(&runs, "status.startTime", "2026-01-01T00:00:00Z".into());
    let runs = with(&runs, "spec.terminationGracePeriodSeconds", json!(86_400));
    see(&mut state, &runs);
    state.pod_changed(Change::Gone(item(&runs)), now);
    state.tick(now + 600 * SECOND);
    assert_eq!(held(&state, "a"), [80]);
    state.tick(now + 610 * SECOND);
    assert_eq!(held(&state, "a"), [0]);
}

/// And whoever makes pods of many names leaves nothing behind.
#[test]
fn how_long_a_pod_had_to_end_is_forgotten_with_it() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    let pod = |uid: &str, seconds: u32| {
        let pod = with(&half("p"), "metadata.uid", uid.into());
        let pod = with(
            &bound(&pod, "a", "0:42949672960"),
            "spec.terminationGracePeriodSeconds",
            json!(seconds),
        );
        with(&pod, "status.startTime", "2026-01-01T00:00:00Z".into())
    };
    let long = pod("first", 500);
    see(&mut state, &long);
    see(&mut state, &with(&long, "status.phase", "Succeeded".into()));
    state.pod_changed(Change::Gone(item(&long)), now);
    see(&mut state, &pod("second", 5));
    state.pod_changed(Change::Gone(item(&pod("second", 5))), now);
    assert_eq!(held(&state, "a"), [40]);
    state.tick(now + 15 * SECOND);
    assert_eq!(held(&state, "a"), [0], "it had five seconds, and another one of its name had more");
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

/// A pod of half of card GPU-1 of node `a` that has been started, and has so long to end.
fn started(name: &str, grace: u32) -> Value {
    let runs = with(&runs(name, "GPU-1"), "status.startTime", "2026-01-01T00:00:00Z".into());
    with(&runs, "spec.terminationGracePeriodSeconds", json!(grace))
}

#[test]
fn a_new_list_does_not_forget_how_long_a_pod_had_to_end() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    let runs = bound(&half("p"), "a", "0:42949672960");
    see(&mut state, &with(&runs, "spec.terminationGracePeriodSeconds", json!(600)));
    state.pod_changed(Change::Relisting, now);
    state.pod_changed(Change::Listed, now);
    state.tick(now + 600 * SECOND);
    assert_eq!(held(&state, "a"), [40]);
    state.tick(now + 611 * SECOND);
    assert_eq!(held(&state, "a"), [0]);
}

#[test]
fn a_restart_knows_from_the_reservation_what_is_not_free_yet() {
    let mut state = handing(&[("a", 1)]);
    let now = Instant::now();
    let reserved = reservation("a", "g", Some("GPU-1"));
    see(&mut state, &reserved);
    see(&mut state, &started("p", 50));
    assert!(acts(&mut state).is_empty());
    state.pod_changed(Change::Gone(item(&started("p", 50))), now);
    let until = state.cx.settings.clock.unix(now + 60 * SECOND) + 2;
    let ghost = format!("ml/p/p-uid:42949672960:{until}");
    assert_eq!(acts(&mut state), [format!("remember {} {ghost}", key("g"))]);

    let mut next = handing(&[("a", 1)]);
    let told = with(&reserved, "metadata.annotations.divvy~dev/ghosts", ghost.clone().into());
    see(&mut next, &told);
    assert!(acts(&mut next).is_empty(), "it is neither returned nor written again");
    assert_eq!(held(&next, "a"), [40]);
    see(&mut next, &told);
    assert_eq!(held(&next, "a"), [40], "and known once");
    next.tick(now + 64 * SECOND);
    assert_eq!(held(&next, "a"), [0]);
    let done = acts(&mut next);
    assert_eq!(
        done,
        [format!("remember {} ", key("g")), format!("unreserve {} g-reservation", key("g"))]
    );
    // What is over is not entered again, should that have been the last that was written.
    let mut later = handing(&[("a", 1)]);
    later.cx.settings.clock.unix = until;
    see(&mut later, &told);
    assert_eq!(held(&later, "a"), [0]);
}

#[test]
fn a_ghost_of_two_cards_is_known_from_both_reservations() {
    let mut state = handing(&[("a", 2)]);
    let ghost = "ml/p/p-uid:5:1800000100";
    for (group, card) in [("g", "GPU-1"), ("h", "GPU-2")] {
        let told = reservation("a", group, Some(card));
        see(&mut state, &with(&told, "metadata.annotations.divvy~dev/ghosts", ghost.into()));
    }
    let left = ObjectKey::new("ml", "p(gone-p)");
    let bytes = |share: &divvy_ledger::CardShare| share.bytes.0;
    let cards = &state.scheduler().holding(&left).unwrap().cards;
    assert_eq!(cards.iter().map(bytes).collect::<Vec<_>>(), [5, 5]);
    assert!(acts(&mut state).is_empty());
    state.tick(Instant::now() + 101 * SECOND);
    assert!(state.scheduler().holding(&left).is_none());
}

#[test]
fn ghosts_take_no_pod_slot() {
    let mut state = handing(&[]);
    state.node_changed(Change::Seen(hands_out(1, 1, 3)));
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    for i in 0..5 {
        let pod =
            with(&started(&format!("p{i}"), 600), "metadata.annotations.gpu-memory", "1".into());
        let mut pod = pod;
        pod["metadata"]["annotations"].as_object_mut().unwrap().remove("gpu-fraction");
        see(&mut state, &pod);
        state.pod_changed(Change::Gone(item(&pod)), Instant::now());
    }
    assert_eq!(state.ghost_count(), 5);
    assert_eq!(state.cx.node("a").unwrap().room().pods, 2, "one is the reservation's");
}

#[test]
fn a_namespace_that_makes_many_pods_vanish_gets_nothing_until_their_time_is_over() {
    let mut state = handing(&[("a", 8)]);
    let now = Instant::now();
    for i in 0..8 {
        let (group, card) = (format!("g{i}"), format!("GPU-{i}"));
        see(&mut state, &reservation("a", &group, Some(&card)));
        let pod =
            with(&runs(&format!("p{i}"), &card), "status.startTime", "2026-01-01T00:00:00Z".into());
        see(&mut state, &pod);
        // It waits since before, and is held back when it would have its turn.
        if i == 6 {
            see(&mut state, &ready("early"));
            state.cx.settings.writes = 0;
            acts(&mut state);
        }
        state.pod_changed(Change::Gone(item(&pod)), now);
    }
    state.cx.settings.writes = 32;
    let why = "pods of namespace ml were deleted by force while their containers may run on 8 cards: until they must have \
        ended, no more GPUs are given to it";
    let acts = |state: &mut State| -> Vec<String> {
        acts(state).into_iter().filter(|act| !act.starts_with("remember")).collect()
    };
    assert_eq!(acts(&mut state), ["look ml/early"]);
    looked(&mut state, "early", Some(&ready("early")), now);
    see(&mut state, &ready("late"));
    see(&mut state, &with(&ready("other"), "metadata.namespace", "team".into()));
    let done = acts(&mut state);
    assert_eq!(done[0].split(' ').take(2).collect::<Vec<_>>(), ["bind", "team/other"], "{done:?}");
    assert_eq!(done[1..], [format!("tell ml/early: {why}"), format!("tell ml/late: {why}")]);
    state.tick(now + 41 * SECOND);
    acts(&mut state);
    state.tick(now + 43 * SECOND);
    let mut looks = acts(&mut state);
    looks.retain(|act| act.starts_with("look"));
    assert_eq!(looks, ["look ml/early", "look ml/late"]);
    looked(&mut state, "late", Some(&ready("late")), now + 41 * SECOND);
    let done = acts(&mut state);
    assert!(
        done.iter().any(|act| act.starts_with("bind ml/late") || act.starts_with("reserve")),
        "{done:?}"
    );
}

#[test]
fn the_longest_time_that_a_pod_was_ever_given_to_end_counts() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    let runs = bound(&half("p"), "a", "0:42949672960");
    let runs = with(&runs, "status.startTime", "2026-01-01T00:00:00Z".into());
    see(&mut state, &with(&runs, "metadata.deletionGracePeriodSeconds", json!(300)));
    let forced = with(&runs, "metadata.deletionGracePeriodSeconds", json!(0));
    state.pod_changed(Change::Gone(item(&forced)), now);
    state.tick(now + 300 * SECOND);
    assert_eq!(held(&state, "a"), [40]);
    state.tick(now + 311 * SECOND);
    assert_eq!(held(&state, "a"), [0]);
}

#[test]
fn a_share_that_may_take_too_long_to_end_is_not_placed() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &with(&ready("p"), "spec.terminationGracePeriodSeconds", json!(601)));
    let told = acts(&mut state);
    assert!(told.len() == 1 && told[0].contains("allowed are 0 to 600"), "{told:?}");
}
