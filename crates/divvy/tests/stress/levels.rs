//! Isolated and Shared pods at once: the two kinds never meet on a card, whatever happens.

use crate::arena::{Arena, pod};
use crate::kubelets::Kubelets;
use crate::scheduler::Divvy;
use divvy_testbed::dice::Dice;
use divvy_testbed::manifests::{
    GpuNode, with_fraction, with_gpus, with_hand_off, with_koordinators, with_level, with_memory,
    with_provider,
};
use divvy_testbed::proxy::Proxy;
use divvy_words::isolation::Provider;
use serde_json::{Value, json};
use std::time::Duration;

const OPTIONS: [&str; 6] = [
    "--leader-elect=false",
    "--takeover-wait=0",
    "--feature-gates=GPUIsolationLevel=true",
    "--gpu-sharing",
    "--reservation-image=example.com/divvy:1",
    "--reservation-runtime-class=",
];

/// Four of five are shares of either kind, or of none, which is Shared; some ask as Koordinator's do.
fn mixed(dice: &mut Dice, name: &str) -> Value {
    let pod = pod(name);
    let share = match dice.below(12) {
        10 | 11 => with_koordinators(pod, dice.of(&[10, 25, 50]), dice.of(&[20, 40, 70])),
        0..4 => with_fraction(pod, dice.of(&["0.1", "0.25", "0.33", "0.5", "0.7"]), 1),
        4..7 => with_memory(pod, 500 + dice.below(14_000)),
        7 => with_fraction(pod, dice.of(&["0.2", "0.5"]), dice.of(&[2, 3])),
        _ => return with_gpus(pod, dice.of(&[1, 1, 2])),
    };
    let share = with_hand_off(share);
    match dice.below(5) {
        0 | 1 => with_safe_values(with_level(share, "Isolated")),
        2 | 3 => with_level(share, "Shared"),
        _ => share,
    }
}

/// The variables that could switch HAMi-core off, as the admission sets them.
fn with_safe_values(mut pod: Value) -> Value {
    let safe = Provider::hami_core().environment;
    let safe = safe.iter().map(|(name, value)| json!({"name": name, "value": value}));
    pod["spec"]["containers"][0]["env"].as_array_mut().unwrap().extend(safe);
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn the_two_kinds_never_meet_in_a_burst_through_kills_and_ends_and_nothing_that_fits_waits() {
    let Some(mut arena) = Arena::enter().await else { return };
    arena.has_levels = true;
    arena.allow_reservations().await;
    let provided = |i| with_provider(GpuNode::A100.node(&format!("provided-{i}")));
    arena.api.create_all((0..10).map(provided).collect(), 16).await.unwrap();
    arena.nodes(GpuNode::A100, "bare", 5).await;
    let _kubelets = Kubelets::play(&arena);
    let proxy = Proxy::start(&arena.api).await.unwrap();
    let kubeconfig = arena.plane.kubeconfig_through("kubeconfig-levels", proxy.url()).unwrap();
    let mut dice = Dice(5);
    let mut made = 0;
    for round in 0..4 {
        let mut divvy = Divvy::spawn(&arena, &kubeconfig, &OPTIONS);
        divvy.leads().await;
        let more: Vec<_> = (0..80).map(|i| mixed(&mut dice, &format!("p-{}", made + i))).collect();
        made += more.len();
        let load = arena.create_all(more);
        // Some moment while they are made, decided on and bound.
        let moment = tokio::time::sleep(Duration::from_millis(dice.below(400)));
        tokio::join!(load, moment);
        divvy.process.kill();
        arena.until_quiet(&proxy).await;
        if round == 1 {
            // A provider goes: no isolated pod is placed there until it is back.
            let gone =
                json!({"metadata": {"labels": {"koordinator.sh/gpu-isolation-provider": null}}});
            arena.patch_node("provided-0", &gone).await;
        }
        for i in (0..made).step_by(7) {
            let name = format!("p-{i}");
            if arena.history.look(|now| now.node_of(&format!("default/{name}")).is_some()) {
                arena.end(&name).await;
            }
        }
        assert!(!divvy.log().contains("panicked at"), "{}", divvy.log());
    }
    let back =
        json!({"metadata": {"labels": {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}}});
    arena.patch_node("provided-0", &back).await;
    let mut divvy = Divvy::spawn(&arena, &kubeconfig, &OPTIONS);
    divvy.leads().await;
    arena.until_placed().await;
    let bound = arena.check().await.bindings;
    assert!(bound > 150, "only {bound} of {made} fit: the nodes are too few for this test");
    let is_bound = |class: &str| {
        let has = |pod: &&Value| pod["metadata"]["annotations"]["divvy.dev/class"] == *class;
        arena.history.look(|now| now.pods.values().filter(has).count())
    };
    assert!(is_bound("Isolated/HAMi-core") > 20 && is_bound("Shared") > 20);
}
