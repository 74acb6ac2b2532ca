//! Shares on cards that reservation pods hold.

use super::*;

mod away;
mod failed;
mod room;
mod won_back;

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

/// Node `a` while its device plugin is not up and its labels are gone.
pub(super) fn bare() -> NodeItem {
    let mut bare = node("a", 0);
    bare.metadata.labels = serde_json::from_value(json!({})).unwrap();
    bare
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
fn a_share_whose_variables_are_not_in_place_is_not_bound() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &half("p"));
    let acts = acts(&mut state);
    assert!(acts[0].contains("NVIDIA_VISIBLE_DEVICES of container c is not as"), "{acts:?}");
}

#[test]
fn the_late_answer_about_a_reservation_does_not_touch_the_next_one_of_its_name() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    see(&mut state, &runs("p", "GPU-1"));
    let name = reservation::name("a", "g");
    let (key, uid) = (ObjectKey::new(NAMESPACE, &name), "an-older-one".into());
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
fn a_reservation_that_a_new_list_does_not_tell_leaves_no_ghost() {
    let mut state = handing(&[("a", 1)]);
    let now = Instant::now();
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    state.pod_changed(Change::Relisting, now);
    state.pod_changed(Change::Listed, now);
    see(&mut state, &whole("w", 1));
    assert_eq!(acts(&mut state), ["bind ml/w v10 to a -"]);
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

#[test]
fn a_pod_of_another_node_that_took_the_name_of_a_reservation_is_not_taken_for_it() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &ready("p"));
    assert_eq!(acts(&mut state), [format!("reserve {} on a for p-uid", key("p-uid"))]);
    let other = with(&reservation("a", "p-uid", Some("GPU-9")), "spec.nodeName", "b".into());
    see(&mut state, &other);
    let (name, now) = (ObjectKey::new(NAMESPACE, &reservation::name("a", "p-uid")), Instant::now());
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
