//! What a reservation takes of its node.

use super::*;

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
