//! Shares on cards that reservation pods hold.

use super::super::cards::slots::Hold;
use super::*;

/// What the state wants done with pods, in words.
fn acts(state: &mut State) -> Vec<String> {
    super::acts(state).into_iter().filter(|act| !act.starts_with("taint ")).collect()
}

pub(super) const NAMESPACE: &str = "kai-resource-reservation";

/// A state that hands shares to their containers.
pub(super) fn handing(nodes: &[(&str, u32)]) -> State {
    let mut state = state(nodes);
    let hand_off = Some(reservation::USUAL);
    state.apply(Event::Settings(Config { hand_off, ..Config::default() }));
    state
}

/// A pod of half a card whose container reads its card from the binding.
pub(super) fn ready(name: &str) -> Value {
    let variable = |(variable, annotation): (&str, &str)| {
        let path = format!("metadata.annotations['{annotation}']");
        json!({"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}})
    };
    let mut pod = half(name);
    pod["spec"]["containers"][0]["env"] = keys::HAND_OFF_VARIABLES.map(variable).into();
    pod
}

/// A reservation pod that runs with this card, or does not run yet.
pub(super) fn reservation(node: &str, group: &str, uuid: Option<&str>) -> Value {
    let name = reservation::name(node, group);
    let devices = uuid.map(|uuid| json!([{"resourceID": uuid}]));
    json!({
        "metadata": {
            "namespace": NAMESPACE, "name": name, "uid": format!("{group}-reservation"),
            "labels": {
                "app": NAMESPACE, "runai-gpu-group": group, "app.kubernetes.io/managed-by": "divvy",
            },
        },
        "spec": {"nodeName": node, "containers": [{"name": "c"}]},
        "status": {
            "phase": if uuid.is_some() { "Running" } else { "Pending" },
            "containerStatuses": [{"name": "c", "allocatedResourcesStatus":
                [{"name": "nvidia.com/gpu", "resources": devices}]}],
        },
    })
}

/// A pod as it is once it has been bound to this card of node `a`.
pub(super) fn runs(name: &str, uuid: &str) -> Value {
    bound(&ready(name), "a", &format!("{uuid}:42949672960"))
}

pub(super) fn gone(state: &mut State, pod: &Value) {
    state.pod_changed(Change::Gone(item(pod)), Instant::now());
}

pub(super) fn ended(state: &mut State, pod: &Value) {
    see(state, &with(pod, "status.phase", "Succeeded".into()));
}

/// Its reservation, as words name it.
pub(super) fn key(group: &str) -> String {
    format!("{NAMESPACE}/{}", reservation::name("a", group))
}

#[test]
fn a_share_that_opens_a_card_is_bound_once_the_reservation_says_which_one_it_is() {
    let mut state = handing(&[("a", 2)]);
    see(&mut state, &ready("p"));
    assert_eq!(acts(&mut state), [format!("reserve {} on a for p-uid", key("p-uid"))]);
    // Whoever shares the card waits with it.
    see(&mut state, &ready("q"));
    assert!(acts(&mut state).is_empty());
    see(&mut state, &reservation("a", "p-uid", None));
    assert!(acts(&mut state).is_empty());
    see(&mut state, &reservation("a", "p-uid", Some("GPU-7")));
    let mut bound = acts(&mut state);
    bound.sort();
    let bind = |name: &str| format!("bind ml/{name} v10 to a GPU-7:42949672960");
    assert_eq!(bound, [bind("p"), bind("q")]);
    see(&mut state, &runs("p", "GPU-7"));
    see(&mut state, &runs("q", "GPU-7"));
    assert_eq!(held(&state, "a"), [80, 0]);
    assert!(acts(&mut state).is_empty());
}

#[test]
fn other_cards_are_not_waited_for() {
    let mut state = handing(&[("a", 2)]);
    for name in ["p", "q", "r"] {
        see(&mut state, &ready(name));
    }
    let asked = acts(&mut state);
    assert_eq!(asked.len(), 2, "two cards for three halves: {asked:?}");
    see(&mut state, &reservation("a", "r-uid", Some("GPU-2")));
    assert_eq!(acts(&mut state), ["bind ml/r v10 to a GPU-2:42949672960"]);
}

#[test]
fn the_card_of_the_last_share_is_given_to_nobody_until_its_reservation_is_gone() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    see(&mut state, &runs("p", "GPU-1"));
    assert!(acts(&mut state).is_empty());
    ended(&mut state, &runs("p", "GPU-1"));
    assert_eq!(acts(&mut state), [format!("unreserve {} g-reservation", key("g"))]);
    // News of it that are older than its deletion change nothing.
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    see(&mut state, &ready("next"));
    let told = acts(&mut state);
    assert!(told.len() == 1 && told[0].starts_with("tell "), "{told:?}");
    gone(&mut state, &reservation("a", "g", Some("GPU-1")));
    assert_eq!(acts(&mut state), [format!("reserve {} on a for next-uid", key("next-uid"))]);
}

#[test]
fn a_share_that_comes_as_the_last_one_goes_takes_over_its_reservation() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    see(&mut state, &runs("p", "GPU-1"));
    ended(&mut state, &runs("p", "GPU-1"));
    see(&mut state, &ready("next"));
    assert_eq!(acts(&mut state), ["bind ml/next v10 to a GPU-1:42949672960"]);
}

#[test]
fn what_was_reserved_before_a_restart_serves_the_shares_that_wait_after_it() {
    let mut state = handing(&[("a", 4)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    see(&mut state, &reservation("a", "h", None));
    for name in ["p", "q", "r"] {
        see(&mut state, &ready(name));
    }
    let done = acts(&mut state);
    assert!(
        done.len() == 2 && done.iter().all(|act| act.ends_with(" GPU-1:42949672960")),
        "{done:?}"
    );
    see(&mut state, &reservation("a", "h", Some("GPU-2")));
    assert_eq!(acts(&mut state), ["bind ml/r v10 to a GPU-2:42949672960"]);
}

#[test]
fn what_was_reserved_is_kept_while_shares_wait_for_a_writer() {
    let mut state = handing(&[("a", 4)]);
    state.cx.settings.writes = 1;
    for (group, card) in [("g", "GPU-1"), ("h", "GPU-2")] {
        see(&mut state, &reservation("a", group, Some(card)));
    }
    for name in ["p", "q", "r"] {
        see(&mut state, &ready(name));
    }
    assert_eq!(acts(&mut state), ["bind ml/p v10 to a GPU-1:42949672960"]);
}

#[test]
fn a_whole_card_is_not_given_where_a_reservation_still_holds_one() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    assert_eq!(acts(&mut state), [format!("unreserve {} g-reservation", key("g"))]);
    see(&mut state, &whole("w", 1));
    assert!(!acts(&mut state).iter().any(|act| act.starts_with("bind")));
    gone(&mut state, &reservation("a", "g", Some("GPU-1")));
    assert_eq!(acts(&mut state), ["bind ml/w v10 to a -"]);
}

#[test]
fn a_restart_finds_each_share_on_its_card_in_whatever_order_it_is_told() {
    let told = [
        reservation("a", "g", Some("GPU-1")),
        reservation("a", "h", Some("GPU-2")),
        runs("p", "GPU-1"),
        runs("q", "GPU-2"),
        runs("r", "GPU-1"),
    ];
    for first in 0..told.len() {
        let mut state = handing(&[("a", 3)]);
        for pod in told.iter().cycle().skip(first).take(told.len()) {
            see(&mut state, pod);
        }
        let mut used = held(&state, "a");
        used.sort_unstable();
        assert_eq!(used, [0, 40, 80], "from {first}");
        see(&mut state, &ready("next"));
        assert_eq!(acts(&mut state), ["bind ml/next v10 to a GPU-2:42949672960"], "from {first}");
    }
}

#[test]
fn a_reservation_that_fails_is_said_on_the_pod_and_the_next_choice_differs() {
    let mut state = handing(&[("a", 1), ("b", 1)]);
    see(&mut state, &ready("p"));
    assert_eq!(acts(&mut state), [format!("reserve {} on a for p-uid", key("p-uid"))]);
    let failed = with(&reservation("a", "p-uid", None), "status.phase", "Failed".into());
    let failed = with(&failed, "status.reason", "UnexpectedAdmissionError".into());
    see(&mut state, &failed);
    let why = "binding failed: to a: no card could be reserved: UnexpectedAdmissionError";
    let mut done = acts(&mut state);
    done.sort();
    assert_eq!(
        done,
        [format!("unreserve {} p-uid-reservation", key("p-uid")), format!("void ml/p: {why}")]
    );
    made_void(&mut state, "p", &ready("p"), Instant::now());
    let next = acts(&mut state);
    assert!(next[0].starts_with("reserve ") && next[0].ends_with(" on b for p-uid"), "{next:?}");
}

#[test]
fn a_reservation_whose_container_cannot_start_is_given_up_at_once() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &ready("p"));
    acts(&mut state);
    let pulls = with(
        &reservation("a", "p-uid", None),
        "status.containerStatuses",
        json!([{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]),
    );
    see(&mut state, &pulls);
    let done = acts(&mut state);
    assert!(done[0].starts_with("unreserve "), "{done:?}");
    assert!(done[1].ends_with("no card could be reserved: ImagePullBackOff"), "{done:?}");
    see(&mut state, &pulls);
    assert!(acts(&mut state).is_empty(), "given up once");
    gone(&mut state, &pulls);
    assert_eq!(held(&state, "a"), [40], "until it is certain that the pod is not bound");
    made_void(&mut state, "p", &ready("p"), Instant::now());
    acts(&mut state);
    assert_eq!(held(&state, "a"), [0]);
}

#[test]
fn a_reservation_that_does_not_come_to_run_is_given_up_in_time() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &ready("p"));
    acts(&mut state);
    let creating = with(
        &reservation("a", "p-uid", None),
        "status.containerStatuses",
        json!([{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}]),
    );
    see(&mut state, &creating);
    assert!(acts(&mut state).is_empty());
    state.tick(Instant::now() + 61 * SECOND);
    let done = acts(&mut state);
    assert!(done[0].starts_with("unreserve "), "{done:?}");
    let why = "no card could be reserved within a minute: ContainerCreating";
    assert!(done[1].ends_with(why), "{done:?}");
}

#[test]
fn a_shared_card_that_fails_keeps_its_shares_and_takes_no_new_ones_until_it_is_well() {
    let mut state = handing(&[("a", 2)]);
    let held = reservation("a", "g", Some("GPU-1"));
    see(&mut state, &held);
    see(&mut state, &runs("p", "GPU-1"));
    assert!(acts(&mut state).is_empty());
    let mut sick = held.clone();
    sick["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0]["resources"][0]["health"] =
        "Unhealthy".into();
    see(&mut state, &sick);
    state.node_changed(Change::Seen(hands_out(2, 1, 110)));
    // The one that works is still free.
    see(&mut state, &ready("q"));
    assert_eq!(acts(&mut state), [format!("reserve {} on a for q-uid", key("q-uid"))]);
    see(&mut state, &reservation("a", "q-uid", Some("GPU-0")));
    see(&mut state, &ready("r"));
    assert_eq!(acts(&mut state).len(), 2);
    see(&mut state, &ready("s"));
    let told = acts(&mut state);
    assert!(told.len() == 1 && told[0].contains("1 of 2 cards allocatable"), "{told:?}");
    see(&mut state, &held);
    state.node_changed(Change::Seen(hands_out(2, 2, 110)));
    assert_eq!(acts(&mut state), ["bind ml/s v10 to a GPU-1:42949672960"]);
}

#[test]
fn a_card_that_failed_while_it_was_shared_is_a_card_like_others_once_it_is_returned() {
    let mut state = handing(&[("a", 2)]);
    let mut sick = reservation("a", "g", Some("GPU-1"));
    sick["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0]["resources"][0]["health"] =
        "Unhealthy".into();
    see(&mut state, &sick);
    see(&mut state, &runs("p", "GPU-1"));
    state.node_changed(Change::Seen(hands_out(2, 1, 110)));
    ended(&mut state, &runs("p", "GPU-1"));
    assert_eq!(acts(&mut state).len(), 1, "it is returned");
    gone(&mut state, &sick);
    acts(&mut state);
    state.node_changed(Change::Seen(hands_out(2, 2, 110)));
    see(&mut state, &whole("w", 2));
    assert_eq!(acts(&mut state), ["bind ml/w v10 to a -"]);
}

/// A reservation pod that was made to look for a lost card of node `a`.
pub(super) fn searcher(nth: usize, uuid: Option<&str>) -> Value {
    reservation("a", &reservation::search_group("a", nth), uuid)
}

/// Node `a` with four cards, one of which is shared and has lost its reservation.
pub(super) fn lost() -> State {
    let mut state = handing(&[("a", 4)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    see(&mut state, &runs("p", "GPU-1"));
    assert!(acts(&mut state).is_empty());
    gone(&mut state, &reservation("a", "g", Some("GPU-1")));
    state
}

#[test]
fn no_gpu_is_given_on_a_node_whose_shared_card_has_lost_its_reservation() {
    let mut state = lost();
    see(&mut state, &whole("w", 1));
    see(&mut state, &ready("q"));
    let done = acts(&mut state);
    let told = done.iter().filter(|act| act.contains("not held by their reservations"));
    assert_eq!(told.count(), 2, "{done:?}");
    assert!(!done.iter().any(|act| act.starts_with("bind")), "{done:?}");
    assert_eq!(held(&state, "a")[0], 40, "what runs keeps running");
}

#[test]
fn a_lost_card_is_won_back_by_taking_all_that_are_free_and_returning_the_rest() {
    let mut state = lost();
    let asked = acts(&mut state);
    assert_eq!(asked.len(), 4, "{asked:?}");
    assert!(asked.iter().all(|act| act.starts_with("reserve ")), "{asked:?}");
    for (nth, uuid) in ["GPU-3", "GPU-0", "GPU-1"].into_iter().enumerate() {
        see(&mut state, &searcher(nth, Some(uuid)));
        let done = acts(&mut state);
        if uuid == "GPU-1" {
            let found = key(&reservation::search_group("a", nth));
            assert_eq!(done[0], format!("relabel {found} g"));
            let returned = done.iter().filter(|act| act.starts_with("unreserve ")).count();
            assert_eq!(returned, 2, "{done:?}");
        } else {
            assert!(done.is_empty(), "none is returned before the lost one is found: {done:?}");
        }
    }
    // The last one is returned as soon as it is seen; then the cards are free again.
    see(&mut state, &searcher(3, Some("GPU-2")));
    assert_eq!(acts(&mut state).len(), 1);
    for (nth, uuid) in [(0, "GPU-3"), (1, "GPU-0"), (3, "GPU-2")] {
        gone(&mut state, &searcher(nth, Some(uuid)));
    }
    assert_eq!(held(&state, "a"), [40, 0, 0, 0]);
    see(&mut state, &ready("q"));
    assert_eq!(acts(&mut state), ["bind ml/q v10 to a GPU-1:42949672960"]);
    see(&mut state, &whole("w", 3));
    assert_eq!(acts(&mut state), ["bind ml/w v10 to a -"]);
}

#[test]
fn a_search_that_fails_is_repeated_in_time_and_not_at_once() {
    let mut state = lost();
    let now = Instant::now();
    assert_eq!(acts(&mut state).len(), 4);
    for nth in 0..4 {
        let failed = with(&searcher(nth, None), "status.phase", "Failed".into());
        see(&mut state, &failed);
        gone(&mut state, &failed);
    }
    let done = acts(&mut state);
    assert!(done.iter().all(|act| act.starts_with("unreserve ")), "{done:?}");
    let later = now + 3 * SECOND;
    state.tick(later);
    state.pass(later);
    let asked = std::mem::take(&mut state.cx.actions);
    assert_eq!(asked.len(), 4, "{asked:?}");
    assert!(asked.iter().all(|act| matches!(act, Action::Reserve { .. })), "{asked:?}");
}

#[test]
fn a_share_whose_variables_are_not_in_place_is_not_bound() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &half("p"));
    let acts = acts(&mut state);
    assert!(acts[0].contains("NVIDIA_VISIBLE_DEVICES of container c is not as"), "{acts:?}");
}

#[test]
fn a_share_that_opens_a_card_needs_a_second_pod_slot_and_one_that_joins_does_not() {
    let mut state = handing(&[]);
    state.node_changed(Change::Seen(hands_out(2, 2, 3)));
    see(&mut state, &ready("p"));
    assert_eq!(acts(&mut state).len(), 1);
    // One slot is left: enough beside the first, not for a card of its own.
    let mut large = ready("large");
    large["metadata"]["annotations"]["gpu-fraction"] = "0.6".into();
    see(&mut state, &large);
    let told = acts(&mut state);
    assert!(told[0].contains("free pod slots 1 < 2 asked (1 to reserve cards)"), "{told:?}");
    see(&mut state, &ready("q"));
    see(&mut state, &reservation("a", "p-uid", Some("GPU-1")));
    assert_eq!(acts(&mut state).iter().filter(|act| act.starts_with("bind")).count(), 2);
}

#[test]
fn a_share_that_opens_a_card_needs_cpu_and_memory_for_its_reservation_too() {
    let mut state = handing(&[("a", 2)]);
    let mut all = ready("all");
    all["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "32"}});
    see(&mut state, &all);
    let told = acts(&mut state);
    assert!(told.len() == 1 && told[0].contains("CPU 32 < 32.001 asked"), "{told:?}");
    all["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "40"}});
    see(&mut state, &all);
    let told = acts(&mut state);
    assert!(told.len() == 1 && told[0].contains("CPU 32 < 40 asked"), "{told:?}");
    all["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "31999m"}});
    see(&mut state, &all);
    assert_eq!(acts(&mut state).len(), 1);
    assert_eq!(state.cx.node("a").unwrap().room().cpu.0, 0);
}

#[test]
fn shares_that_are_placed_at_once_leave_room_for_the_reservations_of_each_other() {
    let mut state = handing(&[]);
    state.node_changed(Change::Seen(hands_out(8, 8, 5)));
    for name in ["p", "q", "r", "s"] {
        let mut large = ready(name);
        large["metadata"]["annotations"]["gpu-fraction"] = "0.6".into();
        see(&mut state, &large);
    }
    let asked = acts(&mut state);
    assert_eq!(asked.iter().filter(|act| act.starts_with("reserve")).count(), 2, "{asked:?}");
    assert_eq!(state.cx.node("a").unwrap().room().pods, 1);
}

/// Node `a` while its device plugin is not up and its labels are gone.
pub(super) fn bare() -> NodeItem {
    let mut bare = node("a", 0);
    bare.metadata.labels = serde_json::from_value(json!({})).unwrap();
    bare
}

#[test]
fn a_node_that_shows_no_cards_for_a_while_keeps_its_reservations() {
    let told = [reservation("a", "g", Some("GPU-1")), runs("p", "GPU-1")];
    // While it runs, and at a restart in just that moment.
    for mut state in [handing(&[("a", 2)]), handing(&[])] {
        let is_restart = state.cx.node("a").is_none();
        if is_restart {
            state.node_changed(Change::Seen(bare()));
        }
        told.iter().for_each(|pod| see(&mut state, pod));
        assert_eq!(acts(&mut state), [""; 0], "restart: {is_restart}");
        state.node_changed(Change::Seen(bare()));
        told.iter().for_each(|pod| see(&mut state, pod));
        assert_eq!(acts(&mut state), [""; 0], "restart: {is_restart}");
        state.node_changed(Change::Seen(node("a", 2)));
        see(&mut state, &whole("w", 2));
        let told = acts(&mut state);
        assert!(told.len() == 1 && told[0].contains("free cards 1 < 2"), "{told:?}");
    }
}

#[test]
fn the_late_answer_about_a_reservation_does_not_touch_the_next_one_of_its_name() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    see(&mut state, &runs("p", "GPU-1"));
    let name = reservation::name("a", "g");
    let (key, uid) = (PodKey::new(NAMESPACE, &name), "an-older-one".into());
    let result = Err(Failure::Conflict("another uid".to_owned()));
    state.outcome(Outcome::Unreserved { key, uid, result }, Instant::now());
    assert!(acts(&mut state).is_empty());
    see(&mut state, &ready("q"));
    assert_eq!(acts(&mut state), ["bind ml/q v10 to a GPU-1:42949672960"]);
}

#[test]
fn a_deletion_that_met_a_conflict_frees_no_card_and_is_tried_again() {
    let mut state = handing(&[("a", 1)]);
    let now = Instant::now();
    let held = reservation("a", "g", Some("GPU-1"));
    see(&mut state, &held);
    let deletes = acts(&mut state);
    assert!(deletes[0].starts_with("unreserve"), "{deletes:?}");
    let (key, uid) = (item(&held).key(), item(&held).metadata.uid);
    let result = Err(Failure::Conflict("somebody was faster".to_owned()));
    state.outcome(Outcome::Unreserved { key, uid, result }, now);
    see(&mut state, &whole("w", 1));
    let told = acts(&mut state);
    assert!(told.len() == 1 && told[0].starts_with("tell ml/w"), "{told:?}");
    state.tick(now + 6 * SECOND);
    assert_eq!(acts(&mut state), deletes);
    state.pod_changed(Change::Gone(item(&held)), now);
    assert_eq!(acts(&mut state), ["bind ml/w v10 to a -"]);
}

#[test]
fn a_search_that_hung_when_the_leader_changed_is_given_up_in_time() {
    let mut state = handing(&[("a", 2)]);
    see(&mut state, &runs("p", "GPU-1"));
    see(&mut state, &searcher(0, None));
    assert!(acts(&mut state).is_empty(), "one is on its way");
    let later = Instant::now() + 61 * SECOND;
    state.tick(later);
    state.pass(later);
    let is_deletion = |act: &Action| matches!(act, Action::Unreserve { .. });
    assert!(state.cx.actions.iter().any(is_deletion), "{:?}", state.cx.actions);
}

#[test]
fn a_reservation_that_a_new_list_does_not_tell_leaves_no_ghost() {
    let mut state = handing(&[("a", 1)]);
    let now = Instant::now();
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    state.pod_changed(Change::Relisting, now);
    state.pod_changed(Change::Listed, now);
    see(&mut state, &whole("w", 1));
    assert_eq!(acts(&mut state), ["bind ml/w v10 to a -"]);
}

#[test]
fn a_reservation_that_was_deleted_before_anybody_saw_it_frees_its_card() {
    let mut state = handing(&[("a", 1)]);
    let now = Instant::now();
    see(&mut state, &ready("p"));
    acts(&mut state);
    state.tick(now + 61 * SECOND);
    let done = acts(&mut state);
    assert!(done[0].starts_with("unreserve "), "{done:?}");
    let name = reservation::name("a", "p-uid");
    let (key, uid) = (PodKey::new(NAMESPACE, &name), "".into());
    state.outcome(Outcome::Unreserved { key, uid, result: Ok(()) }, now);
    made_void(&mut state, "p", &ready("p"), now);
    gone(&mut state, &ready("p"));
    see(&mut state, &whole("w", 1));
    // Once a list shows it that has begun since.
    state.pod_changed(Change::Listed, now);
    assert!(!acts(&mut state).iter().any(|act| act.starts_with("bind ")));
    state.tick(now + 66 * SECOND);
    assert!(acts(&mut state).contains(&"relist pods".to_owned()));
    state.pod_changed(Change::Relisting, now);
    see(&mut state, &whole("w", 1));
    state.pod_changed(Change::Listed, now);
    assert!(acts(&mut state).contains(&"bind ml/w v10 to a -".to_owned()));
}

#[test]
fn a_reservation_that_turns_up_with_another_card_does_not_make_a_known_one_forgotten() {
    let mut state = handing(&[("a", 4)]);
    // The reservation of the card that p runs on is lost, and asked for again.
    see(&mut state, &runs("p", "GPU-1"));
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    assert!(acts(&mut state).is_empty());
    let mut claims = ready("q");
    claims["spec"]["volumes"] =
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    class_and_claim(&mut state);
    see(&mut state, &claims);
    acts(&mut state);
    // Its reservation says GPU-2 now, as after a restart of the kubelet.
    let other = with(&reservation("a", "g", Some("GPU-2")), "metadata.uid", "another".into());
    see(&mut state, &other);
    let index = state.cards.slots().by_card("a", "GPU-1").unwrap();
    let slot = state.cards.slots().get("a", index).unwrap();
    assert_eq!(slot.hold, Hold::Lost, "p still runs on GPU-1: {slot:?}");
    let done = acts(&mut state);
    let why = "void ml/q: binding failed: to a: its reservation was given another card";
    assert!(done.contains(&why.to_owned()), "{done:?}");
    assert!(state.cx.node("a").unwrap().is_unsettled(), "GPU-1 is looked for");
    see(&mut state, &searcher(0, Some("GPU-3")));
    let card = state.cards.slots().get("a", index).unwrap().uuid.clone();
    assert_eq!(card.as_deref(), Some("GPU-1"));
}

#[test]
fn a_reservation_that_was_given_up_is_not_joined() {
    let mut state = handing(&[("a", 1), ("b", 1)]);
    see(&mut state, &ready("p"));
    acts(&mut state);
    let pulls = with(
        &reservation("a", "p-uid", None),
        "status.containerStatuses",
        json!([{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]),
    );
    see(&mut state, &pulls);
    see(&mut state, &ready("q"));
    let done = acts(&mut state);
    let asked = done.iter().filter(|act| act.starts_with("reserve ")).collect::<Vec<_>>();
    assert!(asked.len() == 1 && asked[0].ends_with(" on b for q-uid"), "{done:?}");
    // Once it is gone, its card is one like others.
    gone(&mut state, &pulls);
    made_void(&mut state, "p", &ready("p"), Instant::now() + 301 * SECOND);
    see(&mut state, &whole("w", 1));
    let done = acts(&mut state);
    assert!(done.contains(&"bind ml/w v10 to a -".to_owned()), "{done:?}");
}

/// Found by fuzzing: each such reservation took the place of the one before it, was returned, and
/// the next one was asked for, without end.
#[test]
fn a_card_that_was_returned_and_given_to_the_next_reservation_at_once_is_that_ones() {
    let mut state = handing(&[("a", 2)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    see(&mut state, &runs("p", "GPU-1"));
    ended(&mut state, &runs("p", "GPU-1"));
    assert_eq!(acts(&mut state), [format!("unreserve {} g-reservation", key("g"))]);
    see(&mut state, &ready("next"));
    assert_eq!(acts(&mut state), [format!("reserve {} on a for next-uid", key("next-uid"))]);
    gone(&mut state, &reservation("a", "g", Some("GPU-1")));
    see(&mut state, &reservation("a", "next-uid", Some("GPU-1")));
    assert_eq!(acts(&mut state), ["bind ml/next v10 to a GPU-1:42949672960"]);
}

/// Found by fuzzing: the deletion was still to come, and then a share ran on a card that nobody held.
#[test]
fn a_reservation_that_is_seen_only_after_it_was_given_up_is_not_joined() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &ready("p"));
    acts(&mut state);
    state.tick(Instant::now() + 61 * SECOND);
    let done = acts(&mut state);
    assert_eq!(done[0], format!("unreserve {} ", key("p-uid")), "{done:?}");
    see(&mut state, &reservation("a", "p-uid", Some("GPU-1")));
    see(&mut state, &ready("q"));
    let done = acts(&mut state);
    let again = format!("unreserve {} p-uid-reservation", key("p-uid"));
    assert!(done.contains(&again), "it may have been made after the deletion: {done:?}");
    assert!(!done.iter().any(|act| act.starts_with("bind ")), "{done:?}");
}

/// Found by fuzzing: it was forgotten as soon as it was deleted, and what the watch told only then
/// made it one to be joined, for a share on a card that nobody held.
#[test]
fn a_reservation_that_is_seen_only_after_it_was_deleted_is_not_joined() {
    for result in [Ok(()), Err(Failure::NotFound("it is gone".into()))] {
        let mut state = handing(&[("a", 1)]);
        see(&mut state, &ready("p"));
        acts(&mut state);
        let now = Instant::now() + 61 * SECOND;
        state.tick(now);
        acts(&mut state);
        let pod = reservation("a", "p-uid", None);
        let unreserved = |uid: &str, result: &Result<(), Failure>| Outcome::Unreserved {
            key: item(&pod).key(),
            uid: uid.into(),
            result: result.clone(),
        };
        made_void(&mut state, "p", &ready("p"), now);
        gone(&mut state, &ready("p"));
        state.outcome(unreserved("", &result), now);
        // From before the deletion, which the first of them may not even have met.
        see(&mut state, &pod);
        state.outcome(unreserved("p-uid-reservation", &result), now);
        see(&mut state, &reservation("a", "p-uid", Some("GPU-1")));
        see(&mut state, &ready("q"));
        let done = acts(&mut state);
        assert!(!done.iter().any(|act| act.starts_with("bind ")), "{result:?}: {done:?}");
        gone(&mut state, &reservation("a", "p-uid", Some("GPU-1")));
        let done = acts(&mut state);
        assert!(done.iter().any(|act| act.starts_with("reserve ")), "{result:?}: {done:?}");
    }
}

/// Found by fuzzing: nobody seemed to share the cards of a node that was not there.
#[test]
fn a_shared_card_of_a_node_that_is_gone_when_the_process_begins_is_not_given_back() {
    let mut state = handing(&[("b", 1)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    see(&mut state, &runs("p", "GPU-1"));
    assert!(acts(&mut state).is_empty());
    state.node_changed(Change::Seen(node("a", 1)));
    assert!(acts(&mut state).is_empty());
    ended(&mut state, &runs("p", "GPU-1"));
    assert_eq!(acts(&mut state), [format!("unreserve {} g-reservation", key("g"))]);
}

/// Found by fuzzing: the pod held nothing as long as its node was not there, and so left nothing.
#[test]
fn a_pod_that_vanishes_while_its_node_is_not_there_leaves_a_ghost_for_when_it_is_back() {
    let mut state = handing(&[("b", 1)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    let runs = with(&runs("p", "GPU-1"), "status.startTime", "2026-01-01T00:00:00Z".into());
    see(&mut state, &runs);
    acts(&mut state);
    gone(&mut state, &runs);
    state.node_changed(Change::Seen(node("a", 1)));
    acts(&mut state);
    assert_eq!(held(&state, "a"), [40], "its containers may run");
    state.tick(Instant::now() + 60 * SECOND);
    acts(&mut state);
    assert_eq!(held(&state, "a"), [0]);
}

#[test]
fn a_pod_of_another_node_that_took_the_name_of_a_reservation_is_not_taken_for_it() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &ready("p"));
    assert_eq!(acts(&mut state), [format!("reserve {} on a for p-uid", key("p-uid"))]);
    let other = with(&reservation("a", "p-uid", Some("GPU-9")), "spec.nodeName", "b".into());
    see(&mut state, &other);
    let (name, now) = (PodKey::new(NAMESPACE, &reservation::name("a", "p-uid")), Instant::now());
    let result = Err(Failure::Conflict("it exists".into()));
    state.outcome(Outcome::Reserved { key: name, result }, now);
    assert!(acts(&mut state).is_empty());
    state.tick(now + 61 * SECOND);
    let why = "no card could be reserved within a minute: it has not been seen yet";
    assert_eq!(
        acts(&mut state),
        [format!("unreserve {} ", key("p-uid")), format!("void ml/p: binding failed: to a: {why}")]
    );
    gone(&mut state, &other);
    made_void(&mut state, "p", &ready("p"), now + 61 * SECOND);
    assert!(state.state.cards.slots().get("a", 0).is_none(), "the card is free");
}
