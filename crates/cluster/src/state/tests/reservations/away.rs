//! Nodes that show no cards, or are not there.

use super::*;

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
