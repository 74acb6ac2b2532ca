//! Clusters that KAI has left.

use super::isolation::{bindings, isolated, isolating, provided, said, shared};
use super::others::kai;
use super::reservations::{NAMESPACE, ended, gone, handing, ready};
use super::*;

/// A reservation pod as KAI 0.17 makes it.
fn kais(node: &str, group: &str, uuid: &str) -> Value {
    json!({
        "metadata": {
            "namespace": NAMESPACE, "name": format!("gpu-reservation-{group}"),
            "uid": format!("{group}-reservation"), "resourceVersion": "5",
            "labels": {"app": NAMESPACE, "runai-gpu-group": group},
            "annotations": {
                "run.ai/reserve_for_gpu_index": uuid, "karpenter.sh/do-not-disrupt": "true",
            },
        },
        "spec": {
            "nodeName": node, "serviceAccountName": NAMESPACE,
            "containers": [{
                "name": "resource-reservation", "image": "registry.example/resourcereservation:v0.17.0",
                "resources": {"limits": {"nvidia.com/gpu": "1"},
                    "requests": {"nvidia.com/gpu": "1", "cpu": "2", "memory": "1Gi"}},
            }],
        },
        "status": {"phase": "Running"},
    })
}

/// What becomes of it when divvy has labelled it.
fn labelled(reservation: &Value) -> Value {
    with(reservation, "metadata.labels.app~kubernetes~io/managed-by", "divvy".into())
}

/// A pod of half a card that KAI has bound to node `a`, with these group labels.
fn share(namespace: &str, name: &str, labels: &Value) -> Value {
    json!({
        "metadata": {
            "namespace": namespace, "name": name, "uid": format!("{name}-uid"),
            "resourceVersion": "9", "labels": labels,
            "annotations": {
                "gpu-fraction": "0.5", "received-resource-type": "Fraction",
                "runai/shared-gpu-configmap": format!("{name}-x7k2p9q-shared-gpu"),
            },
        },
        "spec": {"schedulerName": "kai-scheduler", "nodeName": "a", "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "startTime": "2026-11-01T00:00:00Z"},
    })
}

fn of_group(name: &str, group: &str) -> Value {
    share("ml", name, &json!({"runai-gpu-group": group}))
}

/// A pod of half of each of two cards.
fn of_groups(name: &str, groups: [&str; 2]) -> Value {
    let label = |group: &str| (format!("runai-gpu-group/{group}"), json!(group));
    let pod = share("ml", name, &Value::Object(groups.map(label).into_iter().collect()));
    with(&pod, "metadata.annotations.gpu-fraction-num-devices", "2".into())
}

/// A bind request as KAI leaves it.
fn decided(state: &mut State, pod: &str, groups: &[&str], phase: &str) {
    let request: BindRequestItem = serde_json::from_value(json!({
        "metadata": {"namespace": "ml", "name": pod, "resourceVersion": "6", "ownerReferences":
            [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": format!("{pod}-uid")}]},
        "spec": {"podName": pod, "selectedNode": "a", "receivedResourceType": "Fraction",
            "receivedGPU": {"count": groups.len(), "portion": "0.50"}, "selectedGPUGroups": groups},
        "status": {"phase": phase},
    }))
    .unwrap();
    state.bind_request_changed(News::Seen(request));
}

/// A new process that is told of these pods, in this order.
fn started<'a>(cards: u32, pods: impl IntoIterator<Item = &'a Value>) -> State {
    let mut state = handing(&[("a", cards)]);
    state.incoming.list_again("pods");
    pods.into_iter().for_each(|pod| see(&mut state, pod));
    state.pod_changed(Change::Listed, Instant::now());
    state
}

fn sorted(mut acts: Vec<String>) -> Vec<String> {
    acts.sort();
    acts
}

const HALF: &str = "42949672960";

#[test]
fn what_kai_has_left_is_taken_over_in_whatever_order_it_is_told() {
    let pods = [
        kais("a", "g", "GPU-1"),
        kais("a", "h", "GPU-2"),
        of_group("p", "g"),
        of_group("q", "h"),
        share("other", "r", &json!({"runai-gpu-group": "g"})),
    ];
    for first in 0..pods.len() {
        let mut state = started(3, pods.iter().cycle().skip(first).take(pods.len()));
        assert_eq!(
            sorted(acts(&mut state)),
            [
                format!("record ml/p GPU-1:{HALF}"),
                format!("record ml/q GPU-2:{HALF}"),
                format!("record other/r GPU-1:{HALF}"),
                format!("relabel {NAMESPACE}/gpu-reservation-g g"),
                format!("relabel {NAMESPACE}/gpu-reservation-h h"),
            ],
            "from {first}"
        );
        assert_eq!(sorted_held(&state), [0, 40, 80], "from {first}");
        // News of the same say nothing new.
        pods.iter().for_each(|pod| see(&mut state, pod));
        assert!(acts(&mut state).is_empty());
        // A share of ours joins a card that KAI opened.
        see(&mut state, &ready("next"));
        assert_eq!(acts(&mut state), [format!("bind ml/next v10 to a GPU-2:{HALF}")]);
    }
}

fn sorted_held(state: &State) -> Vec<u64> {
    let mut held = held(state, "a");
    held.sort_unstable();
    held
}

#[test]
fn what_was_taken_over_is_found_again_after_a_restart_and_its_card_returned_with_the_last_share() {
    let reservation = labelled(&kais("a", "g", "GPU-1"));
    let p = with(
        &of_group("p", "g"),
        "metadata.annotations.divvy~dev/cards",
        format!("GPU-1:{HALF}").into(),
    );
    let mut state = started(1, [&p, &reservation]);
    assert!(acts(&mut state).is_empty());
    assert_eq!(held(&state, "a"), [40]);
    ended(&mut state, &p);
    let returned = format!("unreserve {NAMESPACE}/gpu-reservation-g g-reservation");
    assert_eq!(acts(&mut state), [returned]);
    gone(&mut state, &reservation);
    assert_eq!(held(&state, "a"), [0]);
}

#[test]
fn a_pod_on_several_cards_has_all_of_them_by_its_labels_or_by_its_bind_request() {
    for by_request in [false, true] {
        let mut pod = of_groups("p", ["g", "h"]);
        if by_request {
            pod["metadata"]["labels"] = json!({});
        }
        let mut state = handing(&[("a", 2)]);
        state.incoming.list_again("pods");
        decided(&mut state, "p", &["h", "g"], if by_request { "Succeeded" } else { "Failed" });
        for pod in [&pod, &kais("a", "g", "GPU-1"), &kais("a", "h", "GPU-2")] {
            see(&mut state, pod);
        }
        state.pod_changed(Change::Listed, Instant::now());
        let done = sorted(acts(&mut state));
        let cards = [
            format!("record ml/p GPU-1:{HALF},GPU-2:{HALF}"),
            format!("record ml/p GPU-2:{HALF},GPU-1:{HALF}"),
        ];
        assert!(cards.contains(&done[0]), "{by_request}: {done:?}");
        assert_eq!(held(&state, "a"), [40, 40]);
    }
}

#[test]
fn a_bind_request_of_another_pod_of_that_name_says_nothing() {
    let mut state = handing(&[("a", 2)]);
    decided(&mut state, "p", &["g"], "Succeeded");
    see(&mut state, &kais("a", "g", "GPU-1"));
    see(&mut state, &with(&share("ml", "p", &json!({})), "metadata.uid", "another".into()));
    assert!(!acts(&mut state).iter().any(|act| act.starts_with("record")));
}

#[test]
fn labels_count_only_with_a_reservation_that_holds_the_card() {
    let pods = [
        of_group("p", "made-up"),
        kais("b", "elsewhere", "GPU-3"),
        of_group("q", "elsewhere"),
        kais("a", "g", "GPU-1"),
        of_groups("r", ["g", "made-up"]),
    ];
    let mut state = started(3, &pods);
    let done = acts(&mut state);
    assert!(!done.iter().any(|act| act.starts_with("record")), "{done:?}");
    let warned = done.iter().filter(|act| act.contains("no reservation holds that card"));
    assert_eq!(warned.count(), 3, "{done:?}");
    assert_eq!(held(&state, "a"), [40, 0, 0], "the half of the card that is known");
    // It is said once.
    see(&mut state, &of_group("p", "made-up"));
    state.cards.look_for_strangers();
    assert!(!acts(&mut state).iter().any(|act| act.starts_with("warn")));
    // A reservation that comes late makes it known.
    see(&mut state, &kais("a", "made-up", "GPU-2"));
    let both = format!("record ml/r GPU-1:{HALF},GPU-2:{HALF}");
    assert!(acts(&mut state).contains(&both));
    assert_eq!(held(&state, "a"), [40, 80, 0]);
}

#[test]
fn while_kai_runs_its_reservations_are_whole_cards_and_nothing_is_written_on_its_pods() {
    let pods = [kais("a", "g", "GPU-1"), of_group("p", "g"), kai()];
    let mut state = started(2, &pods);
    assert_eq!(acts(&mut state), ["relist pods"]);
    pods.iter().for_each(|pod| see(&mut state, pod));
    assert!(acts(&mut state).is_empty());
    assert_eq!(sorted_held(&state), [0, 80]);
    // It may only be restarting.
    let now = Instant::now();
    gone(&mut state, &kai());
    assert_eq!(acts(&mut state), ["relist pods"]);
    pods.iter().take(2).for_each(|pod| see(&mut state, pod));
    assert!(acts(&mut state).is_empty());
    state.tick(now + 61 * SECOND);
    state.pass(now + 61 * SECOND);
    let done = sorted(acts(&mut state));
    assert_eq!(done[0], format!("record ml/p GPU-1:{HALF}"));
    assert_eq!(sorted_held(&state), [0, 40]);
}

#[test]
fn what_was_taken_over_stays_ours_when_kai_comes_back() {
    let (reservation, p) = (kais("a", "g", "GPU-1"), of_group("p", "g"));
    let mut state = started(1, [&reservation, &p]);
    acts(&mut state);
    see(&mut state, &kai());
    for pod in [&reservation, &labelled(&reservation), &p] {
        see(&mut state, pod);
        acts(&mut state);
        assert_eq!(held(&state, "a"), [40]);
    }
}

#[test]
fn a_card_that_kai_has_given_too_much_of_takes_nobody_new() {
    let pods =
        [kais("a", "g", "GPU-1"), of_group("p", "g"), of_group("q", "g"), of_group("r", "g")];
    let mut state = started(1, &pods);
    let done = acts(&mut state);
    assert_eq!(done.iter().filter(|act| act.starts_with("record")).count(), 3, "{done:?}");
    assert!(!done.iter().any(|act| act.starts_with("warn")), "its card is known: {done:?}");
    ended(&mut state, &pods[1]);
    assert!(!acts(&mut state).iter().any(|act| act.starts_with("unreserve")));
    assert_eq!(held(&state, "a"), [80], "the third is counted now");
}

#[test]
fn reservations_of_kai_count_with_what_they_ask() {
    let mut state = started(1, [&kais("a", "g", "GPU-1"), &of_group("p", "g")]);
    acts(&mut state);
    let ledger = state.scheduler().ledger();
    let node = ledger.node(ledger.find("a").unwrap()).unwrap();
    assert_eq!((node.room().cpu.0, node.room().memory.0), (30_000, 63 << 30));
}

#[test]
fn without_gpu_sharing_nothing_is_taken_over() {
    let mut state = state(&[("a", 1)]);
    see(&mut state, &kais("a", "g", "GPU-1"));
    see(&mut state, &of_group("p", "g"));
    assert!(acts(&mut state).is_empty());
    assert_eq!(held(&state, "a"), [80]);
}

#[test]
fn labels_say_nothing_on_a_pod_that_kai_has_not_bound() {
    let mut pod = of_group("p", "g");
    pod["metadata"]["annotations"].as_object_mut().unwrap().remove("received-resource-type");
    let mut state = started(1, [&kais("a", "g", "GPU-1"), &pod]);
    let done = acts(&mut state);
    assert!(!done.iter().any(|act| act.starts_with("record")), "{done:?}");
    assert_eq!(held(&state, "a"), [0]);
}

#[test]
fn a_reservation_of_kai_may_wait_a_while_for_its_first_share() {
    let mut state = started(1, [&kais("a", "g", "GPU-1")]);
    let now = Instant::now();
    let relabel = format!("relabel {NAMESPACE}/gpu-reservation-g g");
    assert_eq!(acts(&mut state), [relabel]);
    state.tick(now + 61 * SECOND);
    state.pass(now + 61 * SECOND);
    let returned = format!("unreserve {NAMESPACE}/gpu-reservation-g g-reservation");
    assert_eq!(acts(&mut state), [returned]);
}

#[test]
fn while_kais_binder_works_nothing_is_taken_over() {
    let binder = with(&kai(), "metadata.labels.app", "binder".into());
    let mut state = started(2, [&binder, &kais("a", "g", "GPU-1"), &of_group("p", "g")]);
    assert!(acts(&mut state).is_empty());
    gone(&mut state, &binder);
    assert!(acts(&mut state).is_empty());
    let later = Instant::now() + 61 * SECOND;
    state.tick(later);
    state.pass(later);
    assert_eq!(acts(&mut state).len(), 2);
}

#[test]
fn a_share_whose_record_could_not_be_written_keeps_its_card_when_the_reservation_is_lost() {
    let (reservation, p) = (kais("a", "g", "GPU-1"), of_group("p", "g"));
    let mut state = started(2, [&reservation, &p]);
    let now = Instant::now();
    assert_eq!(acts(&mut state).len(), 2);
    let (place, text) = (Place::Cards(target("p")), Some(format!("GPU-1:{HALF}").into()));
    let result = Err(Failure::Unclear("no answer".to_owned()));
    state.outcome(Outcome::Written { place, text, result }, now);
    gone(&mut state, &labelled(&reservation));
    see(&mut state, &p);
    assert_eq!(held(&state, "a"), [40, 0]);
    let asked = acts(&mut state);
    assert!(asked.iter().any(|act| act.starts_with("reserve ")), "it is won back: {asked:?}");
    state.tick(now + 31 * SECOND);
    assert!(acts(&mut state).contains(&format!("record ml/p GPU-1:{HALF}")));
}

#[test]
fn on_a_node_with_replicas_reservations_of_kai_are_what_they_are() {
    let mut state = handing(&[]);
    state.node_changed(Change::Seen(hands_out(1, 4, 110)));
    see(&mut state, &kais("a", "g", "GPU-1"));
    see(&mut state, &of_group("p", "g"));
    assert!(acts(&mut state).is_empty());
    see(&mut state, &whole("w", 4));
    let told = acts(&mut state);
    assert!(told.len() == 1 && told[0].starts_with("tell ml/w"), "{told:?}");
}

#[test]
fn a_share_that_kai_has_left_has_the_class_of_its_labels() {
    let mut state = isolating(vec![provided("a", 2)]);
    state.incoming.list_again("pods");
    let labels = json!({"runai-gpu-group": "g", keys::ISOLATION_PROVIDER: "HAMi-core"});
    for pod in [kais("a", "g", "GPU-1"), share("ml", "p", &labels)] {
        see(&mut state, &pod);
    }
    state.pod_changed(Change::Listed, Instant::now());
    assert!(acts(&mut state).contains(&format!("record ml/p GPU-1:{HALF}")));
    see(&mut state, &shared("s"));
    assert_eq!(said(&mut state, "reserve ").len(), 1, "not beside it");
    see(&mut state, &isolated("j"));
    assert_eq!(bindings(&mut state)[0].0, "j", "beside it");
}
