use super::*;
use crate::state::HandOff;
use divvy_engine::{ObjectKey, Placement};
use divvy_ledger::{Bytes, CardShare};
use divvy_words::cards::{CardName, NamedShare};

fn target() -> Target {
    Target { key: ObjectKey::new("ml", "p"), uid: "u-1".into() }
}

fn binding(grant: Grant) -> Binding {
    let cards = [CardShare { index: 4, bytes: Bytes(21_474_836_480) }];
    let placement = Placement { node: "n1".into(), cards: cards.as_slice().into() };
    let (limits, volumes) = (Vec::new(), Vec::new());
    let version = "77".into();
    let asks_as_koordinators = false;
    Binding { pod: target(), version, placement, grant, limits, asks_as_koordinators, volumes }
}

#[test]
fn a_binding_names_the_pod_by_uid_and_version_and_brings_its_cards() {
    assert_eq!(
        binding_body(&binding(Grant::Indexes), false),
        json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {
                "name": "p", "namespace": "ml", "uid": "u-1", "resourceVersion": "77",
                "annotations": {"divvy.dev/cards": "4:21474836480"},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        })
    );
    let whole = binding_body(&binding(Grant::Nothing), false);
    assert!(whole["metadata"].get("annotations").is_none());
}

#[test]
fn a_binding_brings_all_that_the_containers_read() {
    let card = |uuid: &str| NamedShare { card: CardName::Uuid(uuid.into()), bytes: Bytes(7) };
    let hand_off = |cards: &[&str], groups: &[&str]| HandOff {
        cards: cards.iter().map(|uuid| card(uuid)).collect(),
        groups: groups.iter().map(|group| (*group).into()).collect(),
        portion: "0.5".to_owned(),
        devices: None,
        device_allocated: None,
    };
    let body = |hand_off, cdi| {
        binding_body(&binding(Grant::HandOff(Some(hand_off))), cdi)["metadata"].clone()
    };
    let one = body(hand_off(&["GPU-a"], &["g"]), false);
    assert_eq!(
        one["annotations"],
        json!({
            "divvy.dev/cards": "GPU-a:7", "divvy.dev/visible-devices": "GPU-a",
            "divvy.dev/portion": "0.5", "received-resource-type": "Fraction",
        })
    );
    assert_eq!(one["labels"], json!({"runai-gpu-group": "g"}));
    let two = body(hand_off(&["GPU-a", "GPU-b"], &["g", "h"]), true);
    assert_eq!(
        two["annotations"]["divvy.dev/visible-devices"],
        "k8s.device-plugin.nvidia.com/gpu=GPU-a,k8s.device-plugin.nvidia.com/gpu=GPU-b"
    );
    assert_eq!(two["labels"], json!({"runai-gpu-group/g": "g", "runai-gpu-group/h": "h"}));
}

#[test]
fn a_binding_of_an_isolated_share_brings_its_limits_and_only_full_names_of_devices() {
    let card = NamedShare { card: CardName::Uuid("GPU-a".into()), bytes: Bytes(7) };
    let devices = Some("nvidia.com/gpu=GPU-a,divvy.dev/provider=HAMi-core".to_owned());
    let grant = Grant::HandOff(Some(HandOff {
        cards: vec![card],
        groups: vec!["g".into()],
        portion: "0.5".to_owned(),
        devices,
        device_allocated: Some("{}".to_owned()),
    }));
    let limits = vec![("divvy.dev/class", "Isolated/HAMi-core".to_owned())];
    // Whatever the runtime wants for others.
    for cdi in [false, true] {
        let body = binding_body(&Binding { limits: limits.clone(), ..binding(grant.clone()) }, cdi);
        assert_eq!(
            body["metadata"]["annotations"],
            json!({
                "divvy.dev/cards": "GPU-a:7",
                "divvy.dev/visible-devices": "nvidia.com/gpu=GPU-a,divvy.dev/provider=HAMi-core",
                "divvy.dev/portion": "0.5", "received-resource-type": "Fraction",
                "divvy.dev/class": "Isolated/HAMi-core",
                "scheduling.koordinator.sh/device-allocated": "{}",
            })
        );
    }
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
