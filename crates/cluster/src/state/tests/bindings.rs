//! Decisions, their writes, and what becomes of them.

use super::*;

#[test]
fn nothing_is_decided_before_everything_is_listed() {
    let names = vec!["divvy-scheduler".to_owned()];
    let clock = Clock { moment: Instant::now(), unix: 0 };
    let (quarantine, max_grace_period) = (SECOND, 600);
    let settings =
        StateSettings { names, writes: 32, quarantine, max_grace_period, isolation: None, clock };
    let mut state = State::new(settings);
    state.node_changed(Change::Relisting);
    state.node_changed(Change::Seen(node("a", 1)));
    state.node_changed(Change::Listed);
    state.pod_changed(Change::Relisting, Instant::now());
    see(&mut state, &half("p"));
    assert!(acts(&mut state).is_empty(), "a pod that is listed later may hold the card");
    see(&mut state, &bound(&half("q"), "a", "0:85899345920"));
    state.pod_changed(Change::Listed, Instant::now());
    assert_eq!(acts(&mut state), ["bind ml/p v10 to a 0:42949672960"]);
}

#[test]
fn a_decision_is_assumed_at_once_and_the_echo_of_the_binding_changes_nothing() {
    let mut state = state(&[("a", 1)]);
    for name in ["p", "q", "r"] {
        see(&mut state, &half(name));
    }
    assert_eq!(
        acts(&mut state),
        [
            "bind ml/p v10 to a 0:42949672960",
            "bind ml/q v10 to a 0:42949672960",
            "tell ml/r: 0/1 nodes are available: 1 largest free share 0 < 0.5 asked.",
        ]
    );
    state.outcome(
        Outcome::Bound { pod: target("p"), node: "a".into(), result: Ok(()) },
        Instant::now(),
    );
    assert_eq!(acts(&mut state), ["announce ml/p on a"]);
    see(&mut state, &half("p"));
    assert!(acts(&mut state).is_empty(), "a late echo of the unbound pod");
    see(&mut state, &bound(&half("p"), "a", "0:42949672960"));
    assert!(acts(&mut state).is_empty());
    assert_eq!(held(&state, "a"), [80]);
}

#[test]
fn a_refused_binding_is_remembered_and_the_next_choice_differs() {
    let mut state = state(&[("a", 1), ("b", 1)]);
    let now = Instant::now();
    see(&mut state, &half("p"));
    assert_eq!(acts(&mut state), ["bind ml/p v10 to a 0:42949672960"]);
    bind_fails(&mut state, "p", "a", no("not here"), now);
    assert_eq!(acts(&mut state), ["void ml/p: binding failed: to a: not here"]);
    assert_eq!(held(&state, "a"), [40], "held until it is certain");
    made_void(&mut state, "p", &with(&half("p"), "metadata.resourceVersion", "11".into()), now);
    assert_eq!(acts(&mut state), ["bind ml/p v11 to b 0:42949672960"]);
    assert_eq!(held(&state, "a"), [0]);
}

#[test]
fn bindings_that_keep_failing_are_paused_and_tried_again_in_time() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    see(&mut state, &half("p"));
    acts(&mut state);
    bind_fails(&mut state, "p", "a", Failure::Unclear("no answer".into()), now);
    assert_eq!(acts(&mut state), ["void ml/p: binding failed: to a: no answer"]);
    made_void(&mut state, "p", &half("p"), now);
    assert_eq!(acts(&mut state), ["tell ml/p: binding failed: to a: no answer"]);
    assert_eq!(held(&state, "a"), [0]);
    state.tick(now + SECOND / 2);
    assert!(acts(&mut state).is_empty());
    assert_eq!(state.next_timer(), Some(now + SECOND));
    state.tick(now + SECOND);
    assert_eq!(acts(&mut state), ["look ml/p"]);
    looked(&mut state, "p", Some(&half("p")), now + SECOND);
    assert_eq!(acts(&mut state), ["bind ml/p v10 to a 0:42949672960"]);
}

#[test]
fn an_unclear_binding_that_was_done_is_kept() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    see(&mut state, &half("p"));
    acts(&mut state);
    bind_fails(&mut state, "p", "a", Failure::Unclear("no answer".into()), now);
    acts(&mut state);
    looked(&mut state, "p", Some(&bound(&half("p"), "a", "0:42949672960")), now);
    assert!(acts(&mut state).is_empty());
    assert_eq!(held(&state, "a"), [40]);
    state.tick(now + 600 * SECOND);
    assert!(acts(&mut state).is_empty(), "its failures are forgotten");
}

#[test]
fn a_pod_that_cannot_be_looked_at_keeps_what_it_may_hold() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    see(&mut state, &half("p"));
    acts(&mut state);
    bind_fails(&mut state, "p", "a", Failure::Unclear("no answer".into()), now);
    acts(&mut state);
    let result = Err(Failure::Unclear("still no answer".into()));
    let text = Some("why".into());
    state.outcome(Outcome::Looked { pod: target("p"), text, tries: 0, result }, now);
    assert_eq!(held(&state, "a"), [40]);
    state.tick(now + 3 * SECOND);
    assert_eq!(acts(&mut state), ["void ml/p: why"]);
}

#[test]
fn a_pod_that_changed_before_its_binding_is_decided_on_anew() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    see(&mut state, &half("p"));
    acts(&mut state);
    bind_fails(&mut state, "p", "a", Failure::Conflict("changed".into()), now);
    assert_eq!(acts(&mut state), ["look ml/p"]);
    let quarter = with(&half("p"), "metadata.annotations.gpu-fraction", "0.25".into());
    let quarter = with(&quarter, "metadata.resourceVersion", "12".into());
    looked(&mut state, "p", Some(&quarter), now);
    assert_eq!(acts(&mut state), ["bind ml/p v12 to a 0:21474836480"]);
    bind_fails(&mut state, "p", "a", Failure::Conflict("changed".into()), now);
    acts(&mut state);
    looked(&mut state, "p", Some(&quarter), now);
    let paused = "tell ml/p: binding failed: to a: changed (failed 2 times)";
    assert_eq!(acts(&mut state), [paused], "no hot loop");
}

#[test]
fn an_answer_older_than_the_watch_is_not_believed() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    see(&mut state, &half("p"));
    acts(&mut state);
    bind_fails(&mut state, "p", "a", Failure::Conflict("changed".into()), now);
    acts(&mut state);
    see(&mut state, &with(&half("p"), "metadata.resourceVersion", "15".into()));
    looked(&mut state, "p", Some(&with(&half("p"), "metadata.resourceVersion", "12".into())), now);
    assert_eq!(acts(&mut state), ["look ml/p"]);
}

#[test]
fn a_pod_deleted_between_decision_and_binding_holds_nothing() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    see(&mut state, &half("p"));
    acts(&mut state);
    state.pod_changed(Change::Gone(item(&half("p"))), now);
    assert_eq!(held(&state, "a"), [0]);
    bind_fails(&mut state, "p", "a", Failure::NotFound("gone".into()), now);
    assert!(acts(&mut state).is_empty());
    assert_eq!(state.writing(), 0);
}

#[test]
fn a_pod_of_the_same_name_is_another_pod() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    see(&mut state, &half("p"));
    acts(&mut state);
    state.pod_changed(Change::Gone(item(&half("p"))), now);
    let second = with(&half("p"), "metadata.uid", "second".into());
    see(&mut state, &second);
    assert_eq!(acts(&mut state), ["bind ml/p v10 to a 0:42949672960"]);
    // The answer to the first binding comes late.
    bind_fails(&mut state, "p", "a", Failure::NotFound("gone".into()), now);
    assert!(acts(&mut state).is_empty());
    assert_eq!(held(&state, "a"), [40]);
}

#[test]
fn what_a_new_list_does_not_tell_is_gone() {
    let mut state = state(&[("a", 1), ("b", 1)]);
    let now = Instant::now();
    see(&mut state, &with(&half("cpu"), "metadata.annotations", json!({})));
    see(&mut state, &half("p"));
    acts(&mut state);
    state.pod_changed(Change::Relisting, now);
    state.pod_changed(Change::Listed, now);
    state.node_changed(Change::Relisting);
    state.node_changed(Change::Seen(node("a", 1)));
    state.node_changed(Change::Listed);
    assert_eq!(state.scheduler().node_count(), 1);
    assert!(state.scheduler().holding(&ObjectKey::new("ml", "cpu")).is_none());
    assert_eq!(Bytes(40 << 30), Bytes(held(&state, "a")[0] << 30), "nobody saw how it went");
    state.tick(now + 40 * SECOND);
    assert_eq!(held(&state, "a"), [0]);
}

#[test]
fn a_look_for_another_reason_does_not_undo_a_binding_under_way() {
    let mut state = state(&[("a", 1), ("b", 1)]);
    let now = Instant::now();
    let member = with(&half("p"), "metadata.annotations.pod-group-name", "gang".into());
    see(&mut state, &member);
    assert_eq!(acts(&mut state), ["bind ml/p v10 to a 0:42949672960"]);
    let group = json!({"metadata": {"namespace": "ml", "name": "gang"}, "spec": {"minMember": 4}});
    let group: PodGroupItem = serde_json::from_value(group).unwrap();
    state.group_changed(keys::KAI_GROUPS, News::Seen(group));
    assert!(acts(&mut state).is_empty());
    state.tick(Instant::now() + SECOND);
    assert_eq!(acts(&mut state), ["look ml/p"]);
    looked(&mut state, "p", Some(&member), now);
    assert!(acts(&mut state).is_empty());
    assert_eq!(held(&state, "a"), [40], "the binding may be done any moment");
    // The same while nobody knows what became of the binding: only what makes it void will do.
    bind_fails(&mut state, "p", "a", Failure::Unclear("no answer".into()), now);
    acts(&mut state);
    looked(&mut state, "p", Some(&member), now);
    assert_eq!(held(&state, "a"), [40]);
    made_void(&mut state, "p", &member, now);
    assert_eq!(held(&state, "a"), [0]);
}

#[test]
fn a_binding_that_came_too_close_to_the_end_of_the_lease_is_tried_again() {
    let mut state = state(&[("a", 1)]);
    see(&mut state, &half("p"));
    acts(&mut state);
    // The lease is renewed right afterwards, so this process goes on.
    bind_fails(&mut state, "p", "a", Failure::Fenced, Instant::now());
    let why = "void ml/p: binding failed: to a: this process does not lead any more";
    assert_eq!(acts(&mut state), [why]);
}
