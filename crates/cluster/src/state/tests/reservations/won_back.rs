//! Cards that have lost their reservation.

use super::*;
use crate::state::cards::slots::Hold;

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
    let asked = state.take_actions();
    assert_eq!(asked.len(), 4, "{asked:?}");
    assert!(asked.iter().all(|act| matches!(act, Action::Reserve { .. })), "{asked:?}");
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
    assert!(state.cx.actions().iter().any(is_deletion), "{:?}", state.cx.actions());
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

/// Whoever gets into it may take its annotation away, and a kubelet that starts again tells less for a while.
#[test]
fn a_reservation_that_says_no_more_which_card_it_has_holds_it_as_long_as_it_runs() {
    let mut state = handing(&[("a", 4)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    see(&mut state, &runs("p", "GPU-1"));
    assert!(acts(&mut state).is_empty());
    let silent = with(&reservation("a", "g", Some("GPU-1")), "status.containerStatuses", json!([]));
    see(&mut state, &silent);
    let index = state.cards.slots().by_card("a", "GPU-1").unwrap();
    let slot = state.cards.slots().get("a", index).unwrap();
    assert_eq!(slot.hold, Hold::Held, "{slot:?}");
    assert!(acts(&mut state).is_empty());
    assert!(!state.cx.node("a").unwrap().is_unsettled());
}

/// Found by fuzzing: after a restart it had the place of the card that it looked for, and the share
/// that runs there was counted without a card.
#[test]
fn a_search_that_is_told_of_first_leaves_its_place_to_the_card_that_it_looks_for() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &searcher(0, None));
    see(&mut state, &runs("p", "GPU-1"));
    see(&mut state, &searcher(0, Some("GPU-1")));
    acts(&mut state);
    assert_eq!(held(&state, "a"), [40]);
    see(&mut state, &ready("q"));
    let bind = "bind ml/q v10 to a GPU-1:42949672960";
    assert!(acts(&mut state).iter().any(|act| act == bind));
}
