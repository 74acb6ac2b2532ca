//! The state on its own: changes and outcomes in, actions out.

use super::*;
use crate::api::Failure;
use crate::objects::NodeItem;
use divvy_ledger::Bytes;
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);

/// A state with nodes of so many 80 GiB cards, all listed.
fn state(nodes: &[(&str, u32)]) -> State {
    let names = keys::SCHEDULER_NAMES.map(str::to_owned).to_vec();
    let rules = Rules { names, writes: 32, quarantine: 10 * SECOND };
    let mut state = State::new(Config::default(), rules, ["pods", "nodes"].into_iter());
    state.node_changed(Change::Relisting);
    for (name, cards) in nodes {
        state.node_changed(Change::Seen(node(name, *cards)));
    }
    state.node_changed(Change::Listed);
    state.pod_changed(Change::Relisting, Instant::now());
    state.pod_changed(Change::Listed, Instant::now());
    state
}

fn node(name: &str, cards: u32) -> NodeItem {
    let node = json!({
        "metadata": {"name": name, "labels": {
            "nvidia.com/gpu.count": cards.to_string(), "nvidia.com/gpu.memory": "81920",
        }},
        "status": {"allocatable": {
            "cpu": "32", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": cards.to_string(),
        }},
    });
    serde_json::from_value(node).unwrap()
}

/// A pod of half a card.
fn half(name: &str) -> Value {
    json!({
        "metadata": {
            "namespace": "ml", "name": name, "uid": format!("{name}-uid"),
            "resourceVersion": "10", "annotations": {"gpu-fraction": "0.5"},
        },
        "spec": {"schedulerName": "divvy-scheduler", "containers": [{"name": "c"}]},
        "status": {"phase": "Pending"},
    })
}

fn item(pod: &Value) -> PodItem {
    serde_json::from_value(pod.clone()).unwrap()
}

fn see(state: &mut State, pod: &Value) {
    state.pod_changed(Change::Seen(item(pod)), Instant::now());
}

/// What the state wants done after a pass, in words.
fn acts(state: &mut State) -> Vec<String> {
    state.pass(Instant::now());
    let say = |action: Action| match action {
        Action::Bind(b) => {
            let cards = if b.records_cards { cards::print(&b.placement.cards) } else { "-".into() };
            format!("bind {} v{} to {} {cards}", b.pod.key, b.version, b.placement.node)
        }
        Action::Tell { pod, text, .. } => format!("tell {}: {text}", pod.key),
        Action::Settle { pod, text, .. } => format!("settle {}: {text}", pod.key),
        Action::Look { pod } => format!("look {}", pod.key),
        Action::Announce { pod, node } => format!("announce {} on {node}", pod.key),
        Action::RelistPods => "relist pods".to_owned(),
        Action::Provide { pod, node, steps } => {
            let step = |step: VolumeStep| match step {
                VolumeStep::SelectNode { claim } => format!("{claim}"),
                VolumeStep::BindStatic { claim, volume } => format!("{claim}={volume}"),
            };
            let steps: Vec<String> = steps.into_iter().map(step).collect();
            format!("provide {} on {node}: {}", pod.key, steps.join(","))
        }
    };
    std::mem::take(&mut state.actions).into_iter().map(say).collect()
}

fn target(name: &str) -> Target {
    Target { key: PodKey::new("ml", name), uid: format!("{name}-uid").into() }
}

fn bind_fails(state: &mut State, name: &str, node: &str, failure: Failure, now: Instant) {
    let (pod, node) = (target(name), node.into());
    state.outcome(Outcome::BindFailed { pod, node, failure }, now);
}

fn looked(state: &mut State, name: &str, found: Option<&Value>, now: Instant) {
    let result = Ok(found.map(|pod| Box::new(item(pod))));
    let outcome = Outcome::Looked { pod: target(name), text: None, tries: 0, result };
    state.outcome(outcome, now);
}

fn no(why: &str) -> Failure {
    Failure::Refused { code: 403, message: why.to_owned() }
}

/// Bytes that are held on the cards of a node.
fn held(state: &State, node: &str) -> Vec<u64> {
    let ledger = state.scheduler.ledger();
    let node = ledger.node(ledger.find(node).unwrap()).unwrap();
    node.cards().iter().map(|card| card.used().0 >> 30).collect()
}

fn with(pod: &Value, path: &str, value: Value) -> Value {
    let mut pod = pod.clone();
    let mut at = &mut pod;
    for part in path.split('.') {
        at = &mut at[part.replace('~', ".").as_str()];
    }
    *at = value;
    pod
}

fn bound(pod: &Value, node: &str, cards: &str) -> Value {
    let pod = with(pod, "spec.nodeName", node.into());
    let pod = with(&pod, "metadata.annotations.divvy~dev/cards", cards.into());
    with(&pod, "metadata.resourceVersion", "20".into())
}

#[test]
fn nothing_is_decided_before_everything_is_listed() {
    let names = vec!["divvy-scheduler".to_owned()];
    let rules = Rules { names, writes: 32, quarantine: SECOND };
    let mut state = State::new(Config::default(), rules, ["pods", "nodes"].into_iter());
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
    state.outcome(Outcome::Bound { pod: target("p"), node: "a".into() }, Instant::now());
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
    assert_eq!(acts(&mut state), ["settle ml/p: binding failed: to a: not here"]);
    assert_eq!(held(&state, "a"), [40], "held until it is certain");
    settled(&mut state, "p", &with(&half("p"), "metadata.resourceVersion", "11".into()), now);
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
    assert_eq!(acts(&mut state), ["settle ml/p: binding failed: to a: no answer"]);
    settled(&mut state, "p", &half("p"), now);
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
    assert_eq!(acts(&mut state), ["settle ml/p: why"]);
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
fn pods_of_kai_are_left_alone_while_kai_runs() {
    let mut state = state(&[("a", 1)]);
    let kai = kai();
    see(&mut state, &kai);
    assert_eq!(acts(&mut state), ["relist pods"]);
    assert!(state.kai_runs());
    let theirs = of_kai("p");
    see(&mut state, &theirs);
    assert!(acts(&mut state).is_empty());
    see(&mut state, &half("ours"));
    assert_eq!(acts(&mut state), ["bind ml/ours v10 to a 0:42949672960"]);
    state.pod_changed(Change::Gone(item(&kai)), Instant::now());
    assert_eq!(acts(&mut state), ["relist pods"]);
    see(&mut state, &theirs);
    assert_eq!(acts(&mut state), ["bind ml/p v10 to a 0:42949672960"]);
}

#[test]
fn the_same_reason_is_told_once_also_after_a_restart() {
    let sentence = "0/1 nodes are available: 1 largest card 80.0 GiB < 100.0 GiB asked.";
    let mut first = state(&[("a", 1)]);
    let large = with(&half("p"), "metadata.annotations", json!({"gpu-memory": "102400"}));
    see(&mut first, &large);
    assert_eq!(acts(&mut first), [format!("tell ml/p: {sentence}")]);
    see(&mut first, &large);
    assert!(acts(&mut first).is_empty());
    let mut second = state(&[("a", 1)]);
    let condition = json!([{"type": "PodScheduled", "status": "False", "message": sentence}]);
    see(&mut second, &with(&large, "status.conditions", condition));
    assert!(acts(&mut second).is_empty());
    second.node_changed(Change::Seen(node("b", 1)));
    second.refresh(Instant::now());
    assert_eq!(
        acts(&mut second),
        ["tell ml/p: 0/2 nodes are available: 2 largest card 80.0 GiB < 100.0 GiB asked."]
    );
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
    assert_eq!(state.scheduler.node_count(), 1);
    assert!(state.scheduler.holding(&PodKey::new("ml", "cpu")).is_none());
    assert_eq!(Bytes(40 << 30), Bytes(held(&state, "a")[0] << 30), "nobody saw how it went");
    state.tick(now + 40 * SECOND);
    assert_eq!(held(&state, "a"), [0]);
}

/// A pod with one claim of a class whose claims wait for their first pod.
fn with_claim(name: &str, claim: &str) -> Value {
    let pod = with(&half(name), "metadata.annotations", json!({}));
    with(
        &pod,
        "spec.volumes",
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]),
    )
}

fn storage(state: &mut State, kind: StorageKind, object: Value) {
    let item = serde_json::from_value(object).unwrap();
    state.storage_changed(kind, "storage", Change::Seen(item));
}

fn class_and_claim(state: &mut State) {
    storage(
        state,
        StorageKind::Class,
        json!({
            "metadata": {"name": "late"}, "provisioner": "csi.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }),
    );
    storage(state, StorageKind::Claim, claim(None));
}

fn claim(volume: Option<&str>) -> Value {
    json!({
        "metadata": {"namespace": "ml", "name": "data", "uid": "c", "resourceVersion": "3",
            "annotations": if volume.is_some() { json!({"pv.kubernetes.io/bind-completed": "yes"}) }
                else { json!({}) }},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume},
        "status": {"phase": if volume.is_some() { "Bound" } else { "Pending" }},
    })
}

#[test]
fn a_claim_is_bound_before_its_pod() {
    let mut state = state(&[("a", 0)]);
    let now = Instant::now();
    class_and_claim(&mut state);
    see(&mut state, &with_claim("p", "data"));
    assert_eq!(acts(&mut state), ["provide ml/p on a: ml/data"]);
    state.outcome(Outcome::Provided { pod: target("p"), result: Ok(()) }, now);
    assert!(acts(&mut state).is_empty(), "the claim is not bound yet");
    storage(
        &mut state,
        StorageKind::Volume,
        json!({
            "metadata": {"name": "pv-1"},
            "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"}, "claimRef": {"namespace": "ml", "name": "data", "uid": "c"}},
            "status": {"phase": "Bound"},
        }),
    );
    storage(&mut state, StorageKind::Claim, claim(Some("pv-1")));
    assert_eq!(acts(&mut state), ["bind ml/p v10 to a -"]);
}

#[test]
fn a_pod_whose_claim_is_not_bound_in_time_gives_its_place_up() {
    let mut state = state(&[("a", 0)]);
    let now = Instant::now();
    class_and_claim(&mut state);
    see(&mut state, &with_claim("p", "data"));
    acts(&mut state);
    state.outcome(Outcome::Provided { pod: target("p"), result: Ok(()) }, now);
    state.tick(now + 601 * SECOND);
    let why = "settle ml/p: binding failed: to a: its claims were not bound in time";
    assert_eq!(acts(&mut state), [why]);
    let later = now + 602 * SECOND;
    settled(&mut state, "p", &with_claim("p", "data"), later);
    assert!(state.scheduler.holding(&PodKey::new("ml", "p")).is_none());
}

#[test]
fn a_pod_deleted_while_its_claim_is_bound_is_not_bound() {
    let mut state = state(&[("a", 0)]);
    let now = Instant::now();
    class_and_claim(&mut state);
    see(&mut state, &with_claim("p", "data"));
    acts(&mut state);
    state.pod_changed(Change::Gone(item(&with_claim("p", "data"))), now);
    state.outcome(Outcome::Provided { pod: target("p"), result: Ok(()) }, now);
    storage(&mut state, StorageKind::Claim, claim(Some("pv-1")));
    assert!(acts(&mut state).is_empty());
}

#[test]
fn pods_of_a_group_that_starts_together_wait_and_are_looked_at_when_it_changes() {
    let mut state = state(&[("a", 1)]);
    let group = |minimum: u32| {
        let group = json!({"metadata": {"namespace": "ml", "name": "gang"}, "spec": {"minMember": minimum}});
        Change::Seen(serde_json::from_value(group).unwrap())
    };
    let member = with(&half("p"), "metadata.annotations.pod-group-name", "gang".into());
    state.group_changed(keys::KAI_GROUPS, "groups", group(4));
    see(&mut state, &member);
    let why = "tell ml/p: PodGroup gang starts 4 pods together, which is not supported yet";
    assert_eq!(acts(&mut state), [why]);
    state.group_changed(keys::KAI_GROUPS, "groups", group(4));
    assert!(acts(&mut state).is_empty());
    state.group_changed(keys::KAI_GROUPS, "groups", group(1));
    assert_eq!(acts(&mut state), ["look ml/p"]);
    looked(&mut state, "p", Some(&member), Instant::now());
    assert_eq!(acts(&mut state), ["bind ml/p v10 to a 0:42949672960"]);
}

#[test]
fn a_look_for_another_reason_does_not_undo_a_binding_under_way() {
    let mut state = state(&[("a", 1), ("b", 1)]);
    let now = Instant::now();
    let member = with(&half("p"), "metadata.annotations.pod-group-name", "gang".into());
    see(&mut state, &member);
    assert_eq!(acts(&mut state), ["bind ml/p v10 to a 0:42949672960"]);
    let group = json!({"metadata": {"namespace": "ml", "name": "gang"}, "spec": {"minMember": 4}});
    let group = Change::Seen(serde_json::from_value(group).unwrap());
    state.group_changed(keys::KAI_GROUPS, "groups", group);
    assert_eq!(acts(&mut state), ["look ml/p"]);
    looked(&mut state, "p", Some(&member), now);
    assert!(acts(&mut state).is_empty());
    assert_eq!(held(&state, "a"), [40], "the binding may be done any moment");
    // The same while nobody knows what became of the binding: only what makes it void will do.
    bind_fails(&mut state, "p", "a", Failure::Unclear("no answer".into()), now);
    acts(&mut state);
    looked(&mut state, "p", Some(&member), now);
    assert_eq!(held(&state, "a"), [40]);
    settled(&mut state, "p", &member, now);
    assert_eq!(held(&state, "a"), [0]);
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
    state.outcome(Outcome::Bound { pod: target("p"), node: "a".into() }, now);
    see(&mut state, &p);
    assert_eq!(held(&state, "a"), [80], "a late echo of a pod that is bound");
    bind_fails(&mut state, "q", "a", Failure::Conflict("changed".into()), now);
    looked(&mut state, "q", Some(&q), now);
    assert_eq!(held(&state, "a"), [40], "now it is KAI's");
    state.actions.clear();
    assert!(acts(&mut state).is_empty());
    see(&mut state, &bound(&p, "a", "0:42949672960"));
    assert_eq!(held(&state, "a"), [40]);
}

fn of_kai(name: &str) -> Value {
    with(&half(name), "spec.schedulerName", "kai-scheduler".into())
}

/// KAI's own scheduler.
fn kai() -> Value {
    json!({
        "metadata": {"namespace": "kai-scheduler", "name": "kai-scheduler-default-5f", "uid": "k",
            "resourceVersion": "1", "labels": {"app": "kai-scheduler"}},
        "spec": {"nodeName": "a", "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    })
}

fn settled(state: &mut State, name: &str, found: &Value, now: Instant) {
    let (text, result) = (Some("why".into()), Ok(Some(Box::new(item(found)))));
    state.outcome(Outcome::Looked { pod: target(name), text, tries: 0, result }, now);
}

#[test]
fn a_binding_that_came_too_close_to_the_end_of_the_lease_is_tried_again() {
    let mut state = state(&[("a", 1)]);
    see(&mut state, &half("p"));
    acts(&mut state);
    // The lease is renewed right afterwards, so this process goes on.
    bind_fails(&mut state, "p", "a", Failure::Fenced, Instant::now());
    let why = "settle ml/p: binding failed: to a: this process does not lead any more";
    assert_eq!(acts(&mut state), [why]);
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
fn a_reason_that_could_not_be_written_is_told_again_though_nothing_changes() {
    for nodes in [&[][..], &[("a", 0)]] {
        let mut state = state(nodes);
        let now = Instant::now();
        state.refresh(now);
        see(&mut state, &half("p"));
        let told = acts(&mut state);
        assert!(told.len() == 1 && told[0].starts_with("tell ml/p: "), "{told:?}");
        let result = Err(Failure::Unclear("no answer".into()));
        let told_on = "10".into();
        state.outcome(Outcome::Told { pod: target("p"), told_on, result }, now);
        state.refresh(now + 10 * SECOND);
        assert_eq!(acts(&mut state), told);
    }
}

#[test]
fn a_reason_that_a_storage_object_changes_is_told_anew() {
    let mut state = state(&[("a", 0)]);
    let now = Instant::now();
    see(&mut state, &with_claim("p", "data"));
    let before = acts(&mut state);
    state.refresh(now);
    storage(&mut state, StorageKind::Claim, claim(None));
    assert!(acts(&mut state).is_empty());
    state.refresh(now + 10 * SECOND);
    let after = acts(&mut state);
    assert!(after.len() == 1 && after != before, "{before:?} {after:?}");
}

#[test]
fn each_place_has_its_own_time_for_claims_to_be_bound() {
    let mut state = state(&[("a", 0), ("b", 0)]);
    let now = Instant::now();
    class_and_claim(&mut state);
    see(&mut state, &with_claim("p", "data"));
    assert_eq!(acts(&mut state), ["provide ml/p on a: ml/data"]);
    let later = now + 590 * SECOND;
    let result = Err("no space".to_owned());
    state.outcome(Outcome::Provided { pod: target("p"), result }, later);
    settled(&mut state, "p", &with_claim("p", "data"), later);
    state.actions.clear();
    state.pass(later);
    assert!(state.providing.contains_key(&PodKey::new("ml", "p")));
    state.actions.clear();
    state.tick(now + 605 * SECOND);
    assert!(state.providing.contains_key(&PodKey::new("ml", "p")), "that was the first one's time");
    state.tick(later + 601 * SECOND);
    assert!(state.providing.is_empty());
}

#[test]
fn a_pod_whose_claims_are_being_bound_gives_up_a_node_that_goes() {
    let mut state = state(&[("a", 0)]);
    class_and_claim(&mut state);
    see(&mut state, &with_claim("p", "data"));
    acts(&mut state);
    state.outcome(Outcome::Provided { pod: target("p"), result: Ok(()) }, Instant::now());
    state.node_changed(Change::Gone(node("a", 0)));
    let why = "settle ml/p: binding failed: to a: the node is gone";
    assert_eq!(acts(&mut state), [why]);
}

#[test]
fn a_reason_is_told_on_the_version_that_it_holds_for_and_not_once_the_pod_has_a_place() {
    let mut state = state(&[]);
    let now = Instant::now();
    see(&mut state, &half("p"));
    state.pass(now);
    let mut tell = state.actions.pop().unwrap();
    see(&mut state, &with(&half("p"), "metadata.resourceVersion", "11".into()));
    assert!(state.is_due(&mut tell));
    assert!(matches!(&tell, Action::Tell { version, .. } if **version == *"11"), "{tell:?}");
    // Somebody else has changed the pod meanwhile: what is known of it is still version 11.
    let (told_on, result) = ("12".into(), Ok("13".into()));
    state.outcome(Outcome::Told { pod: target("p"), told_on, result }, now);
    state.node_changed(Change::Seen(node("a", 1)));
    assert_eq!(acts(&mut state), ["bind ml/p v11 to a 0:42949672960"]);
    assert!(!state.is_due(&mut tell), "a pod that may be bound any moment");
    bind_fails(&mut state, "p", "a", Failure::Conflict("changed".into()), now);
    state.node_changed(Change::Gone(node("a", 1)));
    looked(&mut state, "p", Some(&with(&half("p"), "metadata.resourceVersion", "13".into())), now);
    state.actions.clear();
    assert_eq!(acts(&mut state), ["tell ml/p: the cluster has no nodes"], "it was never written");
    let (told_on, result) = ("13".into(), Ok("14".into()));
    state.outcome(Outcome::Told { pod: target("p"), told_on, result }, now);
    state.node_changed(Change::Seen(node("a", 1)));
    assert_eq!(acts(&mut state), ["bind ml/p v14 to a 0:42949672960"]);
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
