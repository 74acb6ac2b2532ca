//! Pods of other schedulers, of KAI, and of groups.

use super::reservations::{ended, handing, key, reservation as reserved, runs};
use super::*;

#[test]
fn a_bound_share_without_a_record_holds_no_card() {
    let mut state = state(&[("a", 1)]);
    see(&mut state, &with(&half("p"), "spec.nodeName", "a".into()));
    assert_eq!(held(&state, "a"), [0]);
    see(&mut state, &bound(&half("q"), "a", "not ours"));
    assert_eq!(held(&state, "a"), [0]);
}

#[test]
fn pods_of_other_schedulers_count_as_used_once_they_are_bound() {
    let mut state = state(&[("a", 1)]);
    let foreign = json!({
        "metadata": {"namespace": "ml", "name": "f", "uid": "f", "resourceVersion": "1"},
        "spec": {"schedulerName": "default-scheduler", "containers": [
            {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    });
    see(&mut state, &foreign);
    assert!(acts(&mut state).is_empty());
    see(&mut state, &with(&foreign, "spec.nodeName", "a".into()));
    see(&mut state, &half("p"));
    let full = "tell ml/p: 0/1 nodes are available: 1 largest free share 0 < 0.5 asked.";
    assert_eq!(acts(&mut state), [full]);
}

#[test]
fn pods_of_kai_and_koordinator_are_left_alone_while_their_schedulers_run() {
    let mut koordinator = kai();
    koordinator["metadata"]["namespace"] = "koordinator-system".into();
    koordinator["metadata"]["labels"] = json!({"koord-app": "koord-scheduler"});
    for (name, scheduler) in [("kai-scheduler", kai()), ("koord-scheduler", koordinator)] {
        let mut state = state(&[("a", 1)]);
        see(&mut state, &scheduler);
        assert_eq!(acts(&mut state), ["relist pods"], "{name}");
        let theirs = with(&half("p"), "spec.schedulerName", name.into());
        see(&mut state, &theirs);
        assert!(acts(&mut state).is_empty(), "{name}");
        see(&mut state, &half("ours"));
        assert_eq!(acts(&mut state), ["bind ml/ours v10 to a 0:42949672960"], "{name}");
        state.pod_changed(Change::Gone(item(&scheduler)), Instant::now());
        assert_eq!(acts(&mut state), ["relist pods"], "{name}");
        see(&mut state, &theirs);
        assert_eq!(acts(&mut state), ["bind ml/p v10 to a 0:42949672960"], "{name}");
    }
}

#[test]
fn pods_of_a_group_that_starts_together_wait_and_are_looked_at_when_it_changes() {
    let mut state = state(&[("a", 1)]);
    let group = |minimum: u32| {
        let group = json!({"metadata": {"namespace": "ml", "name": "gang"}, "spec": {"minMember": minimum}});
        News::Seen(serde_json::from_value::<PodGroupItem>(group).unwrap())
    };
    let member = with(&half("p"), "metadata.annotations.pod-group-name", "gang".into());
    state.group_changed(keys::KAI_GROUPS, group(4));
    see(&mut state, &member);
    let why = "tell ml/p: PodGroup gang starts 4 pods together, which is not supported yet";
    let told = acts(&mut state);
    assert!(matches!(&told[..], [told] if told.starts_with(why)), "{told:?}");
    state.group_changed(keys::KAI_GROUPS, group(4));
    assert!(acts(&mut state).is_empty());
    state.group_changed(keys::KAI_GROUPS, group(1));
    assert!(acts(&mut state).is_empty(), "not all members at once");
    state.tick(Instant::now() + SECOND);
    assert_eq!(acts(&mut state), ["look ml/p"]);
    looked(&mut state, "p", Some(&member), Instant::now());
    assert_eq!(acts(&mut state), ["bind ml/p v10 to a 0:42949672960"]);
}

#[test]
fn a_pod_whose_binding_is_under_way_when_kai_starts_holds_its_place() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    let (p, q) = (of_kai("p"), of_kai("q"));
    see(&mut state, &p);
    see(&mut state, &q);
    assert_eq!(acts(&mut state).len(), 2);
    see(&mut state, &kai());
    acts(&mut state);
    see(&mut state, &p);
    see(&mut state, &q);
    assert_eq!(held(&state, "a"), [80], "both may be bound any moment");
    state.outcome(Outcome::Bound { pod: target("p"), node: "a".into(), result: Ok(()) }, now);
    see(&mut state, &p);
    assert_eq!(held(&state, "a"), [80], "a late echo of a pod that is bound");
    bind_fails(&mut state, "q", "a", Failure::Conflict("changed".into()), now);
    looked(&mut state, "q", Some(&q), now);
    assert_eq!(held(&state, "a"), [40], "now it is KAI's");
    state.take_actions();
    assert!(acts(&mut state).is_empty());
    see(&mut state, &bound(&p, "a", "0:42949672960"));
    assert_eq!(held(&state, "a"), [40]);
}

fn of_kai(name: &str) -> Value {
    with(&half(name), "spec.schedulerName", "kai-scheduler".into())
}

/// KAI's own scheduler.
pub(super) fn kai() -> Value {
    json!({
        "metadata": {"namespace": "kai-scheduler", "name": "kai-scheduler-default-5f", "uid": "k",
            "resourceVersion": "1", "labels": {"app": "kai-scheduler"}},
        "spec": {"nodeName": "a", "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    })
}

#[test]
fn a_bound_pod_that_cannot_be_read_keeps_the_free_cards_of_its_node() {
    let mut state = state(&[("a", 2), ("b", 1)]);
    state.pod_changed(Change::Seen(odd()), Instant::now());
    see(&mut state, &half("p"));
    see(&mut state, &half("q"));
    see(&mut state, &half("r"));
    let acts = acts(&mut state);
    let bound: Vec<_> = acts.iter().filter(|act| act.starts_with("bind")).collect();
    assert!(bound.len() == 2 && bound.iter().all(|act| act.contains(" to b ")), "{acts:?}");
}

/// A pod on node `a` that cannot be read.
fn odd() -> PodItem {
    let text = r#"{"metadata": {"namespace": "ml", "name": "odd", "uid": "u"},
        "spec": {"nodeName": "a", "containers": "none"}}"#;
    PodItem::unreadable(text, "invalid type").unwrap()
}

#[test]
fn cards_that_a_pod_kept_which_cannot_be_read_are_returned_once_it_is_gone() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &reserved("a", "g", Some("GPU-1")));
    see(&mut state, &runs("p", "GPU-1"));
    state.pod_changed(Change::Seen(odd()), Instant::now());
    ended(&mut state, &runs("p", "GPU-1"));
    assert_eq!(acts(&mut state), [""; 0], "it may be on that card");
    let now = Instant::now();
    state.pod_changed(Change::Gone(odd()), now);
    state.tick(now + 40 * SECOND);
    let returned = format!("unreserve {} g-reservation", key("g"));
    assert_eq!(acts(&mut state), [returned]);
}

#[test]
fn a_pod_that_cannot_be_read_and_vanishes_keeps_its_node_closed_for_a_while() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    state.pod_changed(Change::Seen(odd()), now);
    state.pod_changed(Change::Gone(odd()), now);
    let is_closed = |state: &State| state.cx.node("a").unwrap().has_unknown_holder();
    assert!(is_closed(&state), "nobody can say that it has ended");
    state.tick(now + 40 * SECOND);
    assert!(!is_closed(&state));
}

#[test]
fn a_record_of_a_card_that_is_not_there_closes_its_node_until_the_pod_is_gone() {
    for mut state in [state(&[("a", 2)]), handing(&[("a", 2)])] {
        let odd = bound(&half("odd"), "a", "7:42949672960");
        see(&mut state, &odd);
        see(&mut state, &whole("w", 2));
        let told = acts(&mut state);
        let why = "the record of a pod there does not say which cards it has, so no GPU is given";
        assert_eq!(told, [format!("tell ml/w: 0/1 nodes are available: 1 {why}.")]);
        ended(&mut state, &odd);
        assert_eq!(acts(&mut state), ["bind ml/w v10 to a -"]);
    }
}

#[test]
fn a_node_that_cannot_be_read_any_more_gets_nothing() {
    let mut state = state(&[("a", 2)]);
    let text = r#"{"metadata": {"name": "a"}, "status": {"allocatable": 7}}"#;
    assert!(serde_json::from_str::<NodeItem>(text).is_err());
    state.node_changed(Change::Seen(NodeItem::unreadable(text, "invalid type").unwrap()));
    see(&mut state, &half("p"));
    assert_eq!(acts(&mut state), ["tell ml/p: the cluster has no nodes"]);
}

#[test]
fn a_whole_gpu_of_another_scheduler_counts_whatever_its_annotations_say() {
    for hand_off in [false, true] {
        let mut state = state(&[("a", 1)]);
        let hand_off = hand_off.then_some(reservation::USUAL);
        state.apply(Event::Settings(Config { hand_off, ..Config::default() }));
        let mut pod = whole("theirs", 1);
        pod["metadata"]["annotations"] = json!({"gpu-fraction": "0.5"});
        pod["spec"]["schedulerName"] = "default-scheduler".into();
        pod["spec"]["nodeName"] = "a".into();
        see(&mut state, &pod);
        see(&mut state, &whole("ours", 1));
        let told = acts(&mut state);
        assert!(told.len() == 1 && told[0].contains("free cards 0 < 1 asked"), "{told:?}");
    }
}

#[test]
fn what_the_kubelet_has_given_counts_whatever_a_pod_asks() {
    let mut state = state(&[("a", 2)]);
    let mut pod = whole("theirs", 1);
    pod["spec"]["containers"][0]["resources"] = json!({});
    pod["spec"]["nodeName"] = "a".into();
    let devices = json!([{"name": "nvidia.com/gpu", "resources": [
        {"resourceID": "GPU-0"}, {"resourceID": "GPU-1"}, {"resourceID": "GPU-1"},
    ]}]);
    pod["status"]["containerStatuses"] =
        json!([{"name": "c", "allocatedResourcesStatus": devices}]);
    see(&mut state, &pod);
    see(&mut state, &whole("ours", 1));
    let told = acts(&mut state);
    assert!(told.len() == 1 && told[0].contains("free cards 0 < 1 asked"), "{told:?}");
}

#[test]
fn who_names_a_node_itself_holds_no_cards_by_koordinators_names() {
    let mut state = state(&[("a", 8)]);
    let list = json!({"koordinator.sh/gpu": "800"});
    let mut closes = json!({
        "metadata": {"namespace": "other", "name": "p", "uid": "f", "resourceVersion": "1"},
        "spec": {"schedulerName": "default-scheduler", "nodeName": "a", "containers": [
            {"name": "c", "resources": {"limits": list, "requests": list}}]},
        "status": {"phase": "Pending"},
    });
    see(&mut state, &closes);
    see(&mut state, &whole("p", 8));
    assert_eq!(acts(&mut state), ["bind ml/p v10 to a -"]);
    state.pod_changed(Change::Gone(item(&whole("p", 8))), Instant::now());
    let allocated = "metadata.annotations.scheduling~koordinator~sh/device-allocated";
    closes = with(&closes, allocated, "{}".into());
    see(&mut state, &closes);
    see(&mut state, &whole("q", 1));
    let full = "tell ml/q: 0/1 nodes are available: 1 free cards 0 < 1 asked.";
    assert_eq!(acts(&mut state), [full], "Koordinator's scheduler wrote that it has them");
}
