//! Shares, whole cards, time slices and MIG slices on one cluster: whatever comes, goes and is killed,
//! none is given twice, and no card in two ways.

use crate::arena::{Arena, pod};
use crate::kubelets::Kubelets;
use crate::scheduler::Divvy;
use divvy_testbed::dice::Dice;
use divvy_testbed::manifests::{
    GpuNode, with_devices, with_fraction, with_gpus, with_hand_off, with_memory,
};
use divvy_testbed::proxy::Proxy;
use serde_json::{Value, json};
use std::time::Duration;

const TURN: &str = "nvidia.com/gpu.shared";
const SMALL: &str = "nvidia.com/mig-1g.10gb";
const MIDDLE: &str = "nvidia.com/mig-2g.20gb";
const LARGE: &str = "nvidia.com/mig-3g.40gb";
const KINDS: [&str; 4] = ["share", "whole", "turn", "slice"];

const OPTIONS: [&str; 5] = [
    "--leader-elect=false",
    "--takeover-wait=0",
    "--gpu-sharing",
    "--reservation-image=example.com/divvy:1",
    "--reservation-runtime-class=",
];

const FOUR: GpuNode = GpuNode { cards: 4, ..GpuNode::A100 };

/// A node with four cards that hands out these, of which so many are whole cards.
fn divided(name: &str, whole: u32, slices: &[(&str, u32)]) -> Value {
    let mut node = FOUR.node(name);
    node["metadata"]["labels"]["nvidia.com/mig.strategy"] = json!("mixed");
    node["metadata"]["labels"]["nvidia.com/gpu.replicas"] = json!(u32::from(whole > 0).to_string());
    for list in ["capacity", "allocatable"] {
        node["status"][list]["nvidia.com/gpu"] = json!(whole.to_string());
        for (resource, count) in slices {
            node["status"][list][resource] = json!(count.to_string());
            node["metadata"]["labels"][format!("{resource}.count")] = json!(count.to_string());
        }
    }
    node
}

/// A node whose four cards are handed out in turns, so many of each, under a name of their own.
fn in_turns(name: &str, replicas: u32) -> Value {
    let mut node = GpuNode { replicas, ..FOUR }.node(name);
    let labels = &mut node["metadata"]["labels"];
    labels["nvidia.com/gpu.product"] = json!(FOUR.model);
    labels["nvidia.com/gpu.sharing-strategy"] = json!("time-slicing");
    for list in ["capacity", "allocatable"] {
        node["status"][list]["nvidia.com/gpu"] = json!("0");
        node["status"][list][TURN] = json!((FOUR.cards * replicas).to_string());
    }
    node
}

fn nodes() -> Vec<Value> {
    let all = [(SMALL, 8), (MIDDLE, 4), (LARGE, 4)];
    let some = [(SMALL, 7), (LARGE, 2)];
    let mut nodes: Vec<Value> = (0..4).map(|i| FOUR.node(&format!("plain-{i}"))).collect();
    nodes.extend((0..3).map(|i| in_turns(&format!("turns-{i}"), 4)));
    nodes.extend((0..2).map(|i| divided(&format!("slices-{i}"), 0, &all)));
    nodes.extend((0..3).map(|i| divided(&format!("both-{i}"), 2, &some)));
    // Turns by the name of whole cards.
    let called = GpuNode { replicas: 2, ..FOUR };
    nodes.extend((0..2).map(|i| called.node(&format!("called-{i}"))));
    nodes
}

/// Of any kind, which its name says; sometimes of two.
fn any(dice: &mut Dice, number: usize) -> Value {
    let kind = dice.of(&KINDS);
    let pod = pod(&format!("{kind}-{number}"));
    match kind {
        "share" => with_hand_off(match dice.below(4) {
            0 => with_memory(pod, 500 + dice.below(60_000)),
            1 => with_fraction(pod, dice.of(&["0.2", "0.5"]), 2),
            _ => with_fraction(pod, dice.of(&["0.1", "0.25", "0.33", "0.5", "0.7"]), 1),
        }),
        "whole" if dice.once_in(5) => with_devices(with_gpus(pod, 1), SMALL, 1),
        "whole" => with_gpus(pod, dice.of(&[1, 1, 2])),
        "turn" => with_devices(pod, TURN, dice.of(&[1, 1, 2, 3])),
        _ if dice.once_in(4) => with_devices(with_devices(pod, SMALL, 2), LARGE, 1),
        _ => with_devices(pod, dice.of(&[SMALL, MIDDLE, LARGE]), dice.of(&[1, 1, 2])),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_all_kinds_at_once_none_is_given_twice_through_kills_and_ends_and_nothing_that_fits_waits()
 {
    let Some(arena) = Arena::enter().await else { return };
    arena.allow_reservations().await;
    arena.api.create_all(nodes(), 16).await.unwrap();
    let _kubelets = Kubelets::play(&arena);
    let proxy = Proxy::start(&arena.api).await.unwrap();
    let kubeconfig = arena.plane.kubeconfig_through("kubeconfig-kinds", proxy.url()).unwrap();
    let mut dice = Dice(17);
    let mut made: Vec<String> = Vec::new();
    for round in 0..6 {
        let mut divvy = Divvy::spawn(&arena, &kubeconfig, &OPTIONS);
        divvy.leads().await;
        let more: Vec<Value> = (0..60).map(|i| any(&mut dice, 60 * round + i)).collect();
        made.extend(more.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()));
        let load = arena.create_all(more);
        // Some moment while they are made, decided on and bound.
        let moment = tokio::time::sleep(Duration::from_millis(dice.below(400)));
        tokio::join!(load, moment);
        divvy.process.kill();
        arena.until_quiet(&proxy).await;
        assert!(!divvy.log().contains("panicked at"), "{}", divvy.log());
        // While nobody schedules, some end, and a node is configured anew under those that stay.
        let is_bound = |name: &&String| {
            arena.history.look(|now| now.node_of(&format!("default/{name}")).is_some())
        };
        let ending: Vec<String> = made.iter().filter(is_bound).step_by(3).cloned().collect();
        for name in &ending {
            arena.end(name).await;
        }
        made.retain(|name| !ending.contains(name));
        reconfigure(&arena, round).await;
    }
    let mut divvy = Divvy::spawn(&arena, &kubeconfig, &OPTIONS);
    divvy.leads().await;
    arena.until_placed().await;
    let checker = arena.check().await;
    assert!(checker.bindings > 120, "only {} were bound", checker.bindings);
    for kind in KINDS {
        let is_one = |pod: &&Value| {
            let name = pod["metadata"]["name"].as_str().unwrap();
            name.starts_with(kind) && pod["spec"]["nodeName"].is_string()
        };
        let bound = arena.history.look(|now| now.pods.values().filter(is_one).count());
        assert!(bound > 8, "{bound} of the kind {kind} have a place");
    }
}

/// Half of the turns of a node, or of the slices of another, are gone, and come back.
async fn reconfigure(arena: &Arena, round: usize) {
    let is_less = round < 2;
    let (node, resource, count) = match (round.is_multiple_of(2), is_less) {
        (true, true) => ("turns-0", TURN, "8"),
        (true, false) => ("turns-0", TURN, "16"),
        (false, true) => ("both-0", SMALL, "3"),
        (false, false) => ("both-0", SMALL, "7"),
    };
    if resource == TURN {
        let labels = json!({"nvidia.com/gpu.replicas": if is_less { "2" } else { "4" }});
        arena.patch_node(node, &json!({"metadata": {"labels": labels}})).await;
    }
    let amounts = json!({resource: count});
    let status = json!({"status": {"capacity": amounts, "allocatable": amounts}});
    arena.patch_node(&format!("{node}/status"), &status).await;
}
