//! A checker that finds nothing proves nothing: each thing it looks for is shown to it here.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::manifests::{
    GpuNode, pod, with_fraction, with_gpus, with_koordinators, with_level, with_memory,
    with_provider,
};
use serde_json::{Value, json};

const US: &str = "divvy-scheduler";

fn happened(version: u64, object: Value) -> Happened {
    Happened { version, gone: false, object, heard: Instant::now() }
}

/// One node with two T4, and bindings of these pods with these records, in this order.
fn violations(pods: &[(Value, &str)]) -> Vec<String> {
    let node = GpuNode { cards: 2, ..GpuNode::T4 }.node("t4");
    let mut checker = Checker::new(&[US]);
    checker.step(&happened(1, node));
    for (i, (pod, record)) in pods.iter().enumerate() {
        let mut object = pod.clone();
        object["metadata"]["name"] = json!(format!("p{i}"));
        object["metadata"]["uid"] = json!(format!("u{i}"));
        let version = 10 + 2 * i as u64;
        checker.step(&happened(version, object.clone()));
        object["spec"]["nodeName"] = json!("t4");
        object["metadata"]["annotations"]["divvy.dev/cards"] = json!(record);
        checker.step(&happened(version + 1, object));
    }
    checker.violations
}

fn half() -> Value {
    with_fraction(pod("a", "p", US), "0.5", 1)
}

const HALF: u64 = 15_360 << 19;

#[test]
fn what_is_right_passes() {
    let two = with_fraction(pod("a", "p", US), "0.5", 2);
    let record = format!("0:{HALF},1:{HALF}");
    let memory = with_memory(pod("a", "p", US), 7680);
    let pods = [(two, record.as_str()), (memory, &format!("1:{HALF}"))];
    assert_eq!(violations(&pods), [""; 0]);
    let whole = with_gpus(pod("a", "p", US), 1);
    assert_eq!(violations(&[(half(), &format!("1:{HALF}")), (whole, "")]), [""; 0]);
}

#[test]
fn each_wrong_is_found() {
    let one = format!("0:{HALF}");
    let whole = |n| with_gpus(pod("a", "p", US), n);
    let table: [(&str, &[(Value, &str)]); 9] = [
        (
            "has 16106127360 bytes and gives 24159191040",
            &[(half(), &one), (half(), &one), (half(), &one)],
        ),
        ("there is no card 2", &[(half(), &format!("2:{HALF}"))]),
        ("holds []", &[(half(), "")]),
        ("asked 8053063680 bytes on 1 cards", &[(half(), "0:8053063679")]),
        (
            "has a card twice",
            &[(with_fraction(pod("a", "p", US), "0.5", 2), &format!("0:{HALF},0:{HALF}"))],
        ),
        ("3 of 2 GPUs are held", &[(half(), &one), (whole(2), "")]),
        ("card 0 is whole and shared", &[(half(), &one), (whole(1), "0:16106127360")]),
        ("card 1 is whole for 2 pods", &[(whole(1), "1:1"), (whole(1), "1:1")]),
        ("cannot be read", &[(half(), "0=5")]),
    ];
    for (expected, pods) in table {
        let found = violations(pods);
        assert!(found.iter().any(|v| v.contains(expected)), "{expected}: {found:?}");
    }
}

#[test]
fn an_announced_deletion_frees_nothing_and_an_ended_pod_does() {
    let one = format!("0:{HALF}");
    let node = GpuNode { cards: 1, ..GpuNode::T4 }.node("t4");
    let bound = |name: &str| {
        let mut pod = half();
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["uid"] = json!(name);
        pod["spec"]["nodeName"] = json!("t4");
        pod["metadata"]["annotations"]["divvy.dev/cards"] = json!(one);
        pod
    };
    let mut leaving = bound("b");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut ended = leaving.clone();
    ended["status"]["phase"] = json!("Succeeded");
    for (last, is_wrong) in [(leaving, true), (ended, false)] {
        let objects = [node.clone(), bound("a"), bound("b"), last, bound("c")];
        let mut checker = Checker::new(&[US]);
        for (version, object) in (1..).zip(objects) {
            checker.step(&happened(version, object));
        }
        assert_eq!(checker.violations.is_empty(), !is_wrong, "{:?}", checker.violations);
    }
}

#[test]
fn a_pod_that_waits_although_it_fits_is_named() {
    let node = GpuNode { cards: 2, ..GpuNode::T4 }.node("t4");
    let mut held = half();
    held["spec"]["nodeName"] = json!("t4");
    held["metadata"]["annotations"]["divvy.dev/cards"] = json!(format!("0:{HALF}"));
    let table = [
        (half(), true),
        (with_fraction(pod("a", "p", US), "0.6", 1), true),
        (with_fraction(pod("a", "p", US), "0.6", 2), false),
        (with_fraction(pod("a", "p", US), "0.5", 2), true),
        (with_gpus(pod("a", "p", US), 1), true),
        (with_gpus(pod("a", "p", US), 2), false),
        (with_memory(pod("a", "p", US), 15_361), false),
    ];
    for (mut waiting, fits) in table {
        waiting["metadata"]["name"] = json!("waiting");
        let mut now = Now::default();
        now.nodes.insert("t4".to_owned(), node.clone());
        now.pods.insert("a/p".to_owned(), held.clone());
        now.pods.insert("a/waiting".to_owned(), waiting.clone());
        let found = Checker::new(&[US]).seeing(&now).waiting_that_fit();
        assert_eq!(!found.is_empty(), fits, "{waiting}");
    }
}

#[test]
fn a_card_that_is_given_too_soon_after_its_pod_vanished_is_found() {
    let bound = |name: &str, phase: &str| {
        let mut object = with_gpus(pod("a", name, US), 2);
        object["metadata"]["uid"] = json!(name);
        object["spec"]["nodeName"] = json!("t4");
        object["status"]["phase"] = json!(phase);
        object
    };
    let given_after = |phase: &str, wait: u64| {
        let mut checker = Checker::new(&[US]);
        checker.quarantine = Duration::from_secs(30);
        checker.step(&happened(1, GpuNode { cards: 2, ..GpuNode::T4 }.node("t4")));
        checker.step(&happened(2, bound("first", phase)));
        checker.step(&Happened { gone: true, ..happened(3, bound("first", phase)) });
        let heard = Instant::now() + Duration::from_secs(wait);
        checker.step(&Happened { heard, ..happened(4, bound("second", "Pending")) });
        checker.violations
    };
    assert!(given_after("Running", 20)[0].contains("4 of 2 GPUs are held"));
    assert_eq!(given_after("Running", 40), [""; 0]);
    assert_eq!(given_after("Pending", 20), [""; 0], "it never ran");
    assert_eq!(given_after("Succeeded", 20), [""; 0], "it has ended");
}

#[test]
fn slices_and_replicas_that_are_given_twice_are_found() {
    const SLICE: &str = "nvidia.com/mig-1g.5gb";
    let mut node = GpuNode { cards: 2, ..GpuNode::T4 }.node("t4");
    node["status"]["allocatable"][SLICE] = json!("2");
    let pod = |name: &str, count: u32, given: &[&str]| {
        let mut pod = pod("a", name, US);
        pod["metadata"]["uid"] = json!(name);
        pod["spec"]["nodeName"] = json!("t4");
        pod["spec"]["containers"][0]["resources"]["limits"] = json!({SLICE: count.to_string()});
        let given: Vec<_> = given.iter().map(|id| json!({"resourceID": id})).collect();
        let given = json!([{"name": SLICE, "resources": given}]);
        pod["status"]["containerStatuses"] = json!([{"allocatedResourcesStatus": given}]);
        pod
    };
    let mut leaving = pod("a", 1, &["MIG-1"]);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let table: [(&str, Vec<Value>); 5] = [
        ("", vec![pod("a", 1, &[]), pod("b", 1, &[]), pod("a", 1, &["MIG-1"])]),
        ("3 of 2 nvidia.com/mig-1g.5gb are held", vec![pod("a", 1, &[]), pod("b", 2, &[])]),
        (
            "has MIG-1, and so has a/a",
            vec![
                pod("a", 1, &[]),
                pod("b", 1, &[]),
                pod("a", 1, &["MIG-1"]),
                pod("b", 1, &["MIG-1"]),
            ],
        ),
        ("", vec![pod("b", 1, &[]), pod("a", 1, &["MIG-1"]), leaving, pod("b", 1, &["MIG-1"])]),
        ("", vec![pod("b", 1, &[]), pod("a", 1, &["MIG-1::0"]), pod("b", 1, &["MIG-1::1"])]),
    ];
    for (expected, objects) in table {
        let mut checker = Checker::new(&[US]);
        checker.step(&happened(1, node.clone()));
        for (version, object) in (2..).zip(objects) {
            checker.step(&happened(version, object));
        }
        let found = checker.violations;
        assert_eq!(found.is_empty(), expected.is_empty(), "{expected}: {found:?}");
        assert!(
            found.iter().all(|violation| violation.contains(expected)),
            "{expected}: {found:?}"
        );
    }
}

#[test]
fn a_share_of_what_is_divided_already_is_found() {
    for (label, value) in
        [("nvidia.com/gpu.replicas", "4"), ("nvidia.com/gpu.product", "NVIDIA-A100-MIG-1g.5gb")]
    {
        let mut node = GpuNode { cards: 2, ..GpuNode::T4 }.node("t4");
        node["metadata"]["labels"][label] = json!(value);
        let mut share = half();
        share["spec"]["nodeName"] = json!("t4");
        share["metadata"]["annotations"]["divvy.dev/cards"] = json!(format!("0:{HALF}"));
        let mut checker = Checker::new(&[US]);
        checker.step(&happened(1, node));
        checker.step(&happened(2, share));
        assert!(checker.violations[0].contains("are shared"), "{:?}", checker.violations);
    }
}

/// One node with two T4 and HAMi-core, and bindings of these halves with these annotations.
fn wrong_classes(pods: &[(Value, Value)]) -> Vec<String> {
    let node = with_provider(GpuNode { cards: 2, ..GpuNode::T4 }.node("t4"));
    let bare = GpuNode { cards: 2, ..GpuNode::T4 }.node("bare");
    let mut checker = Checker::new(&[US]).telling_levels(true);
    checker.step(&happened(1, node));
    checker.step(&happened(2, bare));
    for (i, (pod, annotations)) in pods.iter().enumerate() {
        let mut object = pod.clone();
        object["metadata"]["name"] = json!(format!("p{i}"));
        object["metadata"]["uid"] = json!(format!("u{i}"));
        let on = annotations["on"].as_str().unwrap_or("t4");
        object["spec"]["nodeName"] = json!(on);
        for (key, value) in annotations.as_object().unwrap() {
            object["metadata"]["annotations"][format!("divvy.dev/{key}")] = value.clone();
        }
        checker.step(&happened(10 + i as u64, object));
    }
    checker.violations
}

#[test]
fn each_wrong_class_is_found_and_what_is_right_passes() {
    let (shared, isolated) = (with_level(half(), "Shared"), with_level(half(), "Isolated"));
    let as_shared = |card: u32| json!({"cards": format!("{card}:{HALF}"), "class": "Shared"});
    let as_isolated = |card: u32| json!({"cards": format!("{card}:{HALF}"), "class": "Isolated/HAMi-core", "memory-limit": HALF.to_string()});
    let with = |mut annotations: Value, key: &str, value: &str| {
        annotations[key] = json!(value);
        annotations
    };
    let right = [
        (shared.clone(), as_shared(0)),
        (half(), as_shared(0)),
        (isolated.clone(), as_isolated(1)),
        (isolated.clone(), as_isolated(1)),
    ];
    assert_eq!(wrong_classes(&right), [""; 0]);
    let mut misspelled = shared.clone();
    misspelled["metadata"]["labels"]["koordinator.sh/gpu-share-isolation-level"] = json!("shared");
    for (expected, pods) in [
        ("is shared by", vec![(shared.clone(), as_shared(0)), (isolated.clone(), as_isolated(0))]),
        ("was bound as", vec![(isolated.clone(), as_shared(0))]),
        ("was bound as", vec![(shared.clone(), as_isolated(0))]),
        ("makes no sense", vec![(misspelled, as_shared(0))]),
        ("without it", vec![(isolated.clone(), with(as_isolated(0), "on", "bare"))]),
        ("by Some(0)", vec![(isolated.clone(), with(as_isolated(0), "memory-limit", "0"))]),
        (
            "by Some",
            vec![(
                isolated.clone(),
                with(as_isolated(0), "visible-devices", "nvidia.com/gpu=GPU-1"),
            )],
        ),
        ("is not isolated", vec![(shared, with(as_shared(0), "memory-limit", "7"))]),
    ] {
        let found = wrong_classes(&pods);
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
    }
}

#[test]
fn compute_is_a_second_thing_that_a_card_has_and_koordinators_requests_are_known() {
    let asks = |compute| with_koordinators(pod("a", "p", US), 50, compute);
    let annotations = json!({"cards": format!("0:{HALF}"), "class": "Shared"});
    let of = |compute| (asks(compute), annotations.clone());
    assert_eq!(wrong_classes(&[of(40), of(60)]), [""; 0]);
    let found = wrong_classes(&[of(40), of(61)]);
    assert!(found.len() == 1 && found[0].contains("gives 101 % of its compute"), "{found:?}");
    let isolated = with_level(asks(40), "Isolated");
    let mut limited = json!({"cards": format!("0:{HALF}"), "class": "Isolated/HAMi-core",
        "memory-limit": HALF.to_string(), "compute-limit": "40"});
    assert_eq!(wrong_classes(&[(isolated.clone(), limited.clone())]), [""; 0]);
    limited["compute-limit"] = json!("100");
    let found = wrong_classes(&[(isolated, limited)]);
    assert!(found.len() == 1 && found[0].contains("is Isolated/HAMi-core of"), "{found:?}");
}
