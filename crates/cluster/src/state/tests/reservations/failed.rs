//! Reservations that fail, or are given up, and cards that fail under them.

use super::*;

/// The reservation for the first card of `p`, whose container does not run for this reason.
fn waits(reason: &str) -> Value {
    with(
        &reservation("a", "p-uid", None),
        "status.containerStatuses",
        json!([{"name": "c", "state": {"waiting": {"reason": reason}}}]),
    )
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
    let pulls = waits("ImagePullBackOff");
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
    let creating = waits("ContainerCreating");
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
    let (key, uid) = (ObjectKey::new(NAMESPACE, &name), "".into());
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
fn a_reservation_that_was_given_up_is_not_joined() {
    let mut state = handing(&[("a", 1), ("b", 1)]);
    see(&mut state, &ready("p"));
    acts(&mut state);
    let pulls = waits("ImagePullBackOff");
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

/// On the real node: without the labels of feature discovery 32 time slices were taken for 32 cards,
/// and shares were opened on them.
#[test]
fn a_reservation_that_was_given_a_time_slice_is_returned_and_its_node_takes_no_shares() {
    let mut state = handing(&[("a", 4)]);
    see(&mut state, &ready("p"));
    acts(&mut state);
    see(&mut state, &reservation("a", "p-uid", Some("GPU-1::3")));
    let why = "binding failed: to a: no card could be reserved: the device plugin handed out a slice of a card";
    let mut done = acts(&mut state);
    done.sort();
    assert_eq!(
        done,
        [format!("unreserve {} p-uid-reservation", key("p-uid")), format!("void ml/p: {why}")]
    );
    gone(&mut state, &reservation("a", "p-uid", Some("GPU-1::3")));
    made_void(&mut state, "p", &ready("p"), Instant::now());
    see(&mut state, &ready("q"));
    assert!(!acts(&mut state).iter().any(|act| act.starts_with("reserve ")));
    let reasons = state.state.cx.scheduler.standing(&ObjectKey::new("ml", "q"));
    assert!(format!("{reasons:?}").contains("Replicas"), "{reasons:?}");
}
