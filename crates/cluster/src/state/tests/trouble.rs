//! Nodes whose shared cards are not certain, and cards that cannot be won back.

use super::reservations::{bare, ended, gone, handing, lost, ready, reservation, runs, searcher};
use super::*;

/// What the state wants done, and conditions are written.
fn acts(state: &mut State) -> Vec<String> {
    state.pass(Instant::now());
    let is_condition = |place: &Place| matches!(place, Place::Condition(..));
    let conditions: Vec<_> = state
        .cx
        .actions()
        .iter()
        .filter_map(|action| match action {
            Action::Write { place, text, .. } if is_condition(place) => {
                Some((place.clone(), text.clone()))
            }
            _ => None,
        })
        .collect();
    let acts = super::acts(state);
    for (place, text) in conditions {
        state.outcome(Outcome::Written { place, text, result: Ok(()) }, Instant::now());
    }
    acts
}

/// A pod that the device plugin gave this card.
fn taker(name: &str, uuid: &str) -> Value {
    let devices = json!([{"name": "c", "allocatedResourcesStatus": [
        {"name": "nvidia.com/gpu", "resources": [{"resourceID": uuid}]},
    ]}]);
    with(&bound(&whole(name, 1), "a", ""), "status.containerStatuses", devices)
}

fn tainted(state: &mut State, on: bool, result: Result<(), Failure>, now: Instant) {
    let (place, text) = (Place::Taint("a".into()), on.then(Box::default));
    state.outcome(Outcome::Written { place, text, result }, now);
}

/// The same node with our taint.
fn with_taint(mut node: NodeItem) -> NodeItem {
    let taints = json!([{"key": "divvy.dev/unsettled", "effect": "NoSchedule"}]);
    node.spec.taints = serde_json::from_value(taints).unwrap();
    node
}

#[test]
fn a_shared_card_that_another_pod_was_given_is_said_on_both_and_takes_nobody_new() {
    let mut state = lost();
    see(&mut state, &taker("w", "GPU-1"));
    let done = acts(&mut state);
    assert_eq!(
        done,
        [
            "warn ml/p: card GPU-1, which this pod has a share of, was also given whole to ml/w by the device plugin",
            "mark ml/p CardConflict true",
            "warn ml/w: card GPU-1, which this pod was given by the device plugin, is also shared by ml/p",
            "mark ml/w CardConflict true",
        ]
    );
    assert_eq!(state.troubled_cards(), (1, 0));
    // The node is open again, but for that card.
    see(&mut state, &ready("q"));
    let done = acts(&mut state);
    assert!(done.len() == 1 && done[0].starts_with("reserve "), "{done:?}");
    // Once nobody shares it any more, it is a card like others.
    ended(&mut state, &runs("p", "GPU-1"));
    assert_eq!(acts(&mut state), ["mark ml/w CardConflict false"]);
    see(&mut state, &whole("rest", 2));
    assert_eq!(acts(&mut state), ["bind ml/rest v10 to a -"]);
}

#[test]
fn a_card_that_was_given_twice_although_a_reservation_holds_it_is_said_too() {
    let mut state = handing(&[("a", 4)]);
    let held = reservation("a", "g", Some("GPU-1"));
    see(&mut state, &held);
    see(&mut state, &runs("p", "GPU-1"));
    see(&mut state, &taker("w", "GPU-1"));
    assert_eq!(acts(&mut state).len(), 4);
    // News of the reservation change nothing about it, and nothing is searched for afterwards.
    see(&mut state, &held);
    assert!(acts(&mut state).is_empty());
    assert_eq!(state.troubled_cards(), (1, 0));
    ended(&mut state, &taker("w", "GPU-1"));
    assert_eq!(acts(&mut state), ["mark ml/p CardConflict false"]);
    see(&mut state, &ready("q"));
    assert_eq!(acts(&mut state), ["bind ml/q v10 to a GPU-1:42949672960"]);
}

#[test]
fn a_card_that_its_taker_gives_back_is_looked_for_again() {
    let mut state = lost();
    see(&mut state, &taker("w", "GPU-1"));
    assert_eq!(acts(&mut state).len(), 4);
    ended(&mut state, &taker("w", "GPU-1"));
    let done = acts(&mut state);
    assert!(done.contains(&"mark ml/p CardConflict false".to_owned()), "{done:?}");
    assert_eq!(done.iter().filter(|act| act.starts_with("reserve ")).count(), 4, "{done:?}");
}

#[test]
fn what_a_pod_says_is_taken_back_after_a_restart_if_it_is_over_and_not_said_twice_if_it_is_not() {
    let marked = |pod: &Value, note: &str| {
        let conditions =
            json!([{"type": "divvy.dev/CardConflict", "status": "True", "message": note}]);
        with(pod, "status.conditions", conditions)
    };
    let on_share = "card GPU-1, which this pod has a share of, was also given whole to ml/w by the device plugin";
    let on_taker =
        "card GPU-1, which this pod was given by the device plugin, is also shared by ml/p";
    for conflict in [true, false] {
        let mut state = handing(&[("a", 4)]);
        if !conflict {
            see(&mut state, &reservation("a", "g", Some("GPU-1")));
        }
        see(&mut state, &marked(&runs("p", "GPU-1"), on_share));
        let taker = taker("w", if conflict { "GPU-1" } else { "GPU-2" });
        see(&mut state, &marked(&taker, on_taker));
        let mut done = acts(&mut state);
        done.sort();
        let over = ["mark ml/p CardConflict false", "mark ml/w CardConflict false"];
        assert_eq!(done, if conflict { &[][..] } else { &over[..] });
    }
}

#[test]
fn a_taint_keeps_others_off_a_node_for_as_long_as_its_cards_are_not_certain() {
    let mut state = lost();
    let done = acts(&mut state);
    assert_eq!(done.iter().filter(|act| *act == "taint a true").count(), 1, "{done:?}");
    // It is written once, and again if it could not be, or if somebody removes it.
    assert!(acts(&mut state).is_empty());
    let now = Instant::now();
    tainted(&mut state, true, Err(Failure::Unclear("no answer".to_owned())), now);
    assert!(acts(&mut state).is_empty());
    state.tick(now + 6 * SECOND);
    assert!(acts(&mut state).contains(&"taint a true".to_owned()));
    tainted(&mut state, true, Ok(()), now);
    assert!(acts(&mut state).is_empty());
    state.node_changed(Change::Seen(node("a", 4)));
    assert!(acts(&mut state).contains(&"taint a true".to_owned()));
    state.node_changed(Change::Seen(with_taint(node("a", 4))));
    tainted(&mut state, true, Ok(()), now);
    // To us it is no taint.
    let plain = with(&half("plain"), "metadata.annotations", json!({}));
    see(&mut state, &plain);
    assert_eq!(acts(&mut state), ["bind ml/plain v10 to a -"]);
    see(&mut state, &searcher(0, Some("GPU-1")));
    assert!(acts(&mut state).contains(&"taint a false".to_owned()));
    tainted(&mut state, false, Ok(()), now);
    assert!(!acts(&mut state).iter().any(|act| act.starts_with("taint")));
}

#[test]
fn a_taint_that_was_left_is_removed_once_all_is_known() {
    let mut state = handing(&[]);
    state.node_changed(Change::Seen(with_taint(node("a", 1))));
    state.incoming.list_again("pods");
    assert!(acts(&mut state).is_empty());
    state.pod_changed(Change::Listed, Instant::now());
    assert_eq!(acts(&mut state), ["taint a false"]);
}

#[test]
fn a_node_that_hands_out_nothing_for_long_is_not_kept_from_its_device_plugin() {
    let mut state = lost();
    acts(&mut state);
    let now = Instant::now();
    tainted(&mut state, true, Ok(()), now);
    state.node_changed(Change::Seen(with_taint(bare())));
    assert!(!acts(&mut state).contains(&"taint a false".to_owned()));
    let later = now + 301 * SECOND;
    state.tick(later);
    state.pass(later);
    assert!(acts(&mut state).contains(&"taint a false".to_owned()));
    tainted(&mut state, false, Ok(()), later);
    state.node_changed(Change::Seen(node("a", 4)));
    assert!(acts(&mut state).contains(&"taint a true".to_owned()));
}

/// A node whose shared card the device plugin does not hand out any more: all others were taken.
fn missing() -> State {
    let mut state = lost();
    state.node_changed(Change::Seen(hands_out(4, 3, 110)));
    let asked = acts(&mut state);
    assert_eq!(asked.iter().filter(|act| act.starts_with("reserve ")).count(), 3, "{asked:?}");
    for (nth, uuid) in ["GPU-0", "GPU-2", "GPU-3"].into_iter().enumerate() {
        see(&mut state, &searcher(nth, Some(uuid)));
        assert!(acts(&mut state).is_empty());
    }
    // Somebody may have been quicker, so one more is asked for: there is none left.
    let later = Instant::now() + 3 * SECOND;
    state.tick(later);
    state.pass(later);
    let asked = acts(&mut state);
    assert!(asked.len() == 1 && asked[0].starts_with("reserve "), "{asked:?}");
    assert_eq!(state.troubled_cards(), (0, 0));
    let refused = with(&searcher(3, None), "status.phase", "Failed".into());
    see(&mut state, &with(&refused, "status.reason", "UnexpectedAdmissionError".into()));
    gone(&mut state, &refused);
    state
}

#[test]
fn a_card_that_is_not_among_those_that_are_handed_out_is_missing_and_the_rest_goes_on() {
    let mut state = missing();
    let done = acts(&mut state);
    assert_eq!(state.troubled_cards(), (0, 1));
    let said = |act: &String| {
        act.starts_with("warn ml/p: card GPU-1, which this pod has a share of, is held by no")
    };
    assert!(done.iter().any(said), "{done:?}");
    assert!(done.contains(&"mark ml/p CardMissing true".to_owned()), "{done:?}");
    assert_eq!(done.iter().filter(|act| act.starts_with("unreserve ")).count(), 4, "{done:?}");
    for (nth, uuid) in ["GPU-0", "GPU-2", "GPU-3"].into_iter().enumerate() {
        gone(&mut state, &searcher(nth, Some(uuid)));
    }
    acts(&mut state);
    see(&mut state, &whole("w", 3));
    assert_eq!(acts(&mut state), ["bind ml/w v10 to a -"]);
    see(&mut state, &ready("q"));
    let done = acts(&mut state);
    assert!(done[0].starts_with("tell ml/q"), "not beside the other half: {done:?}");
    ended(&mut state, &runs("p", "GPU-1"));
    assert_eq!(state.troubled_cards(), (0, 1));
    acts(&mut state);
    assert_eq!(state.troubled_cards(), (0, 0));
}

#[test]
fn a_missing_card_is_looked_for_again_when_more_are_handed_out_or_a_pod_gives_its_own_back() {
    for more in [true, false] {
        let mut state = missing();
        acts(&mut state);
        for (nth, uuid) in ["GPU-0", "GPU-2", "GPU-3"].into_iter().enumerate() {
            gone(&mut state, &searcher(nth, Some(uuid)));
        }
        acts(&mut state);
        if more {
            state.node_changed(Change::Seen(hands_out(4, 4, 110)));
        } else {
            // One that came later says nothing of the card.
            let later = bound(&whole("later", 1), "a", "");
            see(&mut state, &later);
            acts(&mut state);
            ended(&mut state, &later);
            assert_eq!(acts(&mut state), [""; 0]);
            continue;
        }
        let done = acts(&mut state);
        assert!(done.contains(&"mark ml/p CardMissing false".to_owned()), "{done:?}");
        assert_eq!(state.troubled_cards(), (0, 0));
        state.tick(Instant::now() + 61 * SECOND);
        state.pass(Instant::now() + 61 * SECOND);
        see(&mut state, &searcher(0, Some("GPU-1")));
        let done = acts(&mut state);
        assert!(done.iter().any(|act| act.starts_with("relabel ")), "{done:?}");
    }
}

#[test]
fn a_condition_that_could_not_be_written_is_written_again_and_in_order() {
    let mut state = lost();
    see(&mut state, &taker("w", "GPU-1"));
    let now = Instant::now();
    assert!(super::acts(&mut state).contains(&"mark ml/p CardConflict true".to_owned()));
    // While it is being written, nothing else is.
    ended(&mut state, &taker("w", "GPU-1"));
    assert!(!super::acts(&mut state).iter().any(|act| act.starts_with("mark ml/p")));
    let place = || Place::Condition(ObjectKey::new("ml", "p"), "CardConflict");
    let failed = |result| Outcome::Written { place: place(), text: Some("why".into()), result };
    state.outcome(failed(Err(Failure::Unclear("no answer".to_owned()))), now);
    assert!(!super::acts(&mut state).iter().any(|act| act.starts_with("mark ml/p")));
    state.tick(now + 6 * SECOND);
    // If it is there after all, the pod says so.
    assert!(!super::acts(&mut state).iter().any(|act| act.starts_with("mark ml/p")));
    let conditions = json!([{"type": "divvy.dev/CardConflict", "status": "True"}]);
    see(&mut state, &with(&runs("p", "GPU-1"), "status.conditions", conditions));
    assert!(super::acts(&mut state).contains(&"mark ml/p CardConflict false".to_owned()));
    let over = Outcome::Written { place: place(), text: None, result: Ok(()) };
    state.outcome(over, now);
    see(&mut state, &taker("v", "GPU-1"));
    assert!(super::acts(&mut state).contains(&"mark ml/p CardConflict true".to_owned()));
    state.outcome(failed(Ok(())), now);
    ended(&mut state, &taker("v", "GPU-1"));
    assert!(super::acts(&mut state).contains(&"mark ml/p CardConflict false".to_owned()));
}

#[test]
fn shares_that_wait_for_a_card_that_another_pod_was_given_are_placed_anew() {
    let mut state = handing(&[("a", 2)]);
    see(&mut state, &ready("p"));
    acts(&mut state);
    see(&mut state, &reservation("a", "p-uid", Some("GPU-1")));
    see(&mut state, &taker("w", "GPU-1"));
    let done = acts(&mut state);
    let why = "void ml/p: binding failed: to a: its card was given to another pod";
    assert!(done.contains(&why.to_owned()), "{done:?}");
    assert!(!done.iter().any(|act| act.starts_with("bind")), "{done:?}");
}

#[test]
fn a_reservation_whose_card_was_given_twice_is_returned_with_its_last_share() {
    let mut state = handing(&[("a", 2)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    see(&mut state, &runs("p", "GPU-1"));
    see(&mut state, &taker("w", "GPU-1"));
    acts(&mut state);
    ended(&mut state, &runs("p", "GPU-1"));
    let done = acts(&mut state);
    assert!(done.iter().any(|act| act.starts_with("unreserve ")), "{done:?}");
}

#[test]
fn room_for_the_pods_that_are_to_hold_lost_cards_is_not_given_to_others() {
    let mut state = handing(&[]);
    state.node_changed(Change::Seen(hands_out(1, 1, 3)));
    let held = reservation("a", "g", Some("GPU-1"));
    see(&mut state, &held);
    see(&mut state, &runs("p", "GPU-1"));
    acts(&mut state);
    gone(&mut state, &held);
    acts(&mut state);
    let failed = with(&searcher(0, None), "status.phase", "Failed".into());
    see(&mut state, &failed);
    gone(&mut state, &failed);
    acts(&mut state);
    // Two slots are free, and one of them is kept.
    for name in ["x", "y"] {
        see(&mut state, &with(&half(name), "metadata.annotations", json!({})));
    }
    let done = acts(&mut state);
    assert_eq!(done.iter().filter(|act| act.starts_with("bind")).count(), 1, "{done:?}");
}
