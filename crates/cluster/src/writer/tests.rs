use super::*;
use divvy_engine::{Placement, PodKey};
use divvy_ledger::{Bytes, CardShare};

fn target() -> Target {
    Target { key: PodKey::new("ml", "p"), uid: "u-1".into() }
}

fn binding(records_cards: bool) -> Binding {
    let cards = [CardShare { index: 4, bytes: Bytes(21_474_836_480) }];
    let placement = Placement { node: "n1".into(), cards: cards.as_slice().into() };
    Binding { pod: target(), version: "77".into(), placement, records_cards, volumes: Vec::new() }
}

#[test]
fn a_binding_names_the_pod_by_uid_and_version_and_brings_its_cards() {
    assert_eq!(
        binding_body(&binding(true)),
        json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {
                "name": "p", "namespace": "ml", "uid": "u-1", "resourceVersion": "77",
                "annotations": {"divvy.dev/cards": "4:21474836480"},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        })
    );
    assert!(binding_body(&binding(false))["metadata"].get("annotations").is_none());
}

#[test]
fn a_condition_is_for_this_version_of_the_pod_only() {
    let why = Why { text: "why", reason: "Unschedulable", again: false };
    let body = condition_body(&target(), "77", why);
    assert_eq!(body["metadata"], json!({"uid": "u-1", "resourceVersion": "77"}));
    let condition = &body["status"]["conditions"][0];
    assert_eq!(condition["type"], "PodScheduled");
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("Unschedulable"))
    );
    let time = condition["lastProbeTime"].as_str().unwrap();
    assert!(time.ends_with('Z') && !time.contains('.'), "{time}");
    assert_eq!(condition["lastTransitionTime"], time);
}

#[test]
fn another_reason_does_not_change_since_when_a_pod_waits() {
    let why = Why { text: "why", reason: "Unschedulable", again: true };
    let condition = &condition_body(&target(), "77", why)["status"]["conditions"][0];
    assert!(condition.get("lastProbeTime").is_some());
    assert!(condition.get("lastTransitionTime").is_none());
}

#[test]
fn long_names_and_notes_fit_what_the_api_takes() {
    let name = "p".repeat(253);
    assert_eq!(shortened(&name, 230).len(), 230);
    assert_eq!(shortened("aé", 2), "a");
}
