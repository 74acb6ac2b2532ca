//! What the reservations of shared cards cost, in a rehearsal as in the cluster.
#![allow(clippy::unwrap_used, clippy::panic)]

use divvy_engine::Standing;
use divvy_sim::{Input, Rehearsal, Setup};
use serde_json::{Value, json};

fn node(cards: u32, cpu: &str, pods: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "a", "labels": {
            "nvidia.com/gpu.count": cards.to_string(), "nvidia.com/gpu.memory": "40960",
        } },
        "status": { "allocatable": {
            "cpu": cpu, "memory": "128Gi", "pods": pods.to_string(),
            "nvidia.com/gpu": cards.to_string(),
        } },
    })
}

fn pod(name: &str, cpu: &str, fraction: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": "ml", "name": name, "annotations": { "gpu-fraction": fraction } },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] },
    })
}

/// The same pod on node `a` with these cards.
fn bound(mut pod: Value, cards: &str) -> Value {
    pod["spec"]["nodeName"] = json!("a");
    pod["status"] = json!({ "phase": "Running" });
    pod["metadata"]["annotations"]["divvy.dev/cards"] = json!(cards);
    pod
}

/// A reservation that has this card.
fn reservation(cpu: &str, uuid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "kai-resource-reservation", "name": format!("r-{}", uuid.to_lowercase()),
            "labels": {
                "app": "kai-resource-reservation", "runai-gpu-group": format!("g-{uuid}"),
                "app.kubernetes.io/managed-by": "divvy",
            },
        },
        "spec": { "nodeName": "a", "containers": [{ "name": "c", "resources": {
            "requests": { "cpu": cpu, "nvidia.com/gpu": "1" }, "limits": { "nvidia.com/gpu": "1" },
        } }] },
        "status": { "phase": "Running", "containerStatuses": [{ "name": "c",
            "allocatedResourcesStatus": [{ "name": "nvidia.com/gpu", "resources": [
                { "resourceID": uuid },
            ] }],
        }] },
    })
}

/// Where the pods of a cluster go, or why not.
fn placed(items: &[Value], gpu_sharing: Option<bool>) -> Vec<String> {
    let text = json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string();
    let cluster = Some(Input { name: "test".to_owned(), text });
    let setup = Setup { cluster, gpu_sharing, ..Setup::default() };
    let mut rehearsal = Rehearsal::load(&setup, &()).unwrap();
    assert_eq!(rehearsal.warnings, Vec::<String>::new());
    rehearsal.run(&());
    let line = |key| match rehearsal.scheduler.standing(key).unwrap() {
        Standing::Placed(at) => {
            let cards: Vec<String> = at.cards.iter().map(|card| card.index.to_string()).collect();
            format!("{key} on {} {}", at.node, cards.join(","))
        }
        Standing::Waiting(why) => format!("{key}: {}", why.headline()),
        Standing::Astray => format!("{key} astray"),
    };
    rehearsal.pods.iter().map(line).collect()
}

#[test]
fn a_share_that_leaves_no_cpu_for_its_reservation_waits_and_is_told_whose_it_is() {
    let items = [node(1, "4", 50), pod("p", "4", "0.5")];
    let told = "ml/p: free CPU 4 < 4.001 asked (0.001 to reserve cards)";
    assert_eq!(placed(&items, None), [told]);
    assert_eq!(placed(&items, Some(false)), ["ml/p on a 0"], "nobody keeps the card");
}

#[test]
fn two_shares_that_need_three_pod_slots_are_not_both_placed_on_two() {
    let items = [node(2, "32", 2), pod("p", "1", "0.5"), pod("q", "1", "0.5")];
    assert_eq!(placed(&items, None), ["ml/p on a 0", "ml/q: no free pod slot"]);
    let items = [node(2, "32", 3), pod("p", "1", "0.5"), pod("q", "1", "0.6")];
    let told = "ml/q: free pod slots 1 < 2 asked (1 to reserve cards)";
    assert_eq!(placed(&items, None), ["ml/p on a 0", told]);
    assert_eq!(placed(&items, Some(false)), ["ml/p on a 0", "ml/q on a 1"]);
}

#[test]
fn shares_of_two_cards_leave_room_for_two_reservations() {
    let items = [node(2, "4", 50), pod("p", "2", "0.6"), pod("q", "1999m", "0.6")];
    let told = "ml/q: free CPU 1.999 < 2 asked (0.001 to reserve cards)";
    assert_eq!(placed(&items, None), ["ml/p on a 0", told]);
}

#[test]
fn whether_cards_are_reserved_and_what_that_takes_is_seen_in_the_cluster() {
    let two = |more: &[Value]| {
        let all = [&[node(2, "4", 50), pod("q", "2", "0.6")], more].concat();
        placed(&all, None)
    };
    let first = pod("p", "2", "0.6");
    // Recorded by index: nobody keeps cards there.
    assert_eq!(two(&[bound(first.clone(), "0:25769803776")]), ["ml/q on a 1"]);
    // By name, and without its reservation: there is to be one, as usual.
    let by_name = bound(first, "GPU-7:25769803776");
    assert_eq!(two(std::slice::from_ref(&by_name)), ["ml/q: free CPU 1.999 < 2 asked"]);
    // What it really asks, which the next one will ask too.
    let kept = [by_name, reservation("100m", "GPU-7")];
    assert_eq!(two(&kept), ["ml/q: free CPU 1.9 < 2 asked"]);
    let all = [&[node(2, "4", 50), pod("q", "1850m", "0.6")], &kept[..]].concat();
    assert_eq!(placed(&all, None), ["ml/q: free CPU 1.9 < 1.95 asked (0.1 to reserve cards)"]);
}

#[test]
fn a_reservation_keeps_the_card_of_its_shares_and_takes_no_other() {
    let kept = [
        node(2, "32", 50),
        reservation("1m", "GPU-7"),
        bound(pod("p", "1", "0.5"), "GPU-7:21474836480"),
        pod("q", "1", "0.5"),
        pod("r", "1", "0.75"),
    ];
    assert_eq!(placed(&kept, None), ["ml/q on a 0", "ml/r on a 1"]);
    let mut leaving = kept.clone();
    leaving[1]["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
    assert_eq!(
        placed(&leaving, None),
        ["ml/q on a 1", "ml/r: largest free share 0.5 < 0.75 asked"],
        "the card of one that is on its way out takes nobody new"
    );
}

#[test]
fn a_card_that_is_missing_or_given_to_another_too_takes_nobody_new() {
    for reason in ["divvy.dev/CardMissing", "divvy.dev/CardConflict"] {
        let place = |status: &str| {
            let mut share = bound(pod("p", "1", "0.5"), "GPU-7:21474836480");
            share["status"]["conditions"] = json!([{ "type": reason, "status": status }]);
            placed(&[node(2, "32", 50), share, pod("q", "1", "0.5")], None)
        };
        assert_eq!(place("True"), ["ml/q on a 1"], "{reason}");
        assert_eq!(place("False"), ["ml/q on a 0"], "{reason}: it is over");
    }
}

/// `top cards` said card 0 for shares whose containers had /dev/nvidia1.
#[test]
fn a_card_is_called_by_its_number_once_it_is_known_and_no_other_card_by_its_place() {
    let mut told = reservation("1m", "GPU-7");
    told["metadata"]["annotations"] = json!({ "divvy.dev/card-number": "3" });
    let mut whole = reservation("1", "GPU-9");
    whole["metadata"] = json!({ "namespace": "ml", "name": "whole" });
    let items = [
        node(4, "32", 50),
        told,
        bound(pod("p", "1", "0.5"), "GPU-7:21474836480"),
        reservation("1m", "GPU-8"),
        bound(pod("q", "1", "0.5"), "GPU-8:21474836480"),
        whole,
    ];
    let cards = |items: &[Value]| {
        let text = json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string();
        let cluster = Some(Input { name: "test".to_owned(), text });
        let rehearsal = Rehearsal::load(&Setup { cluster, ..Setup::default() }, &()).unwrap();
        let top = divvy_views::top_cards(&rehearsal.scheduler);
        let said = |card: &divvy_views::TopCard<'_>| {
            format!("{} {}", card.card.label(), card.card.uuid.unwrap_or("-"))
        };
        top.items.iter().map(said).collect::<Vec<_>>()
    };
    assert_eq!(cards(&items), ["3 GPU-7", "#1 GPU-8", "#2 GPU-9", "#3 -"]);
    assert_eq!(cards(&items[..1]), ["0 -", "1 -", "2 -", "3 -"], "nobody says otherwise");
}
