//! `kill -9` at any moment.

use crate::arena::{Arena, pod};
use crate::bursts::mixed;
use crate::dice::Dice;
use crate::scheduler::Divvy;
use divvy_testbed::manifests::{GpuNode, with_fraction};
use serde_json::json;
use std::time::Duration;

/// `DIVVY_KILLS=200` for a long run.
fn kills() -> usize {
    std::env::var("DIVVY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(25)
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_points_under_load_it_loses_nothing_and_books_nothing_twice() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(GpuNode::A100, "a100", 20).await;
    arena.nodes(GpuNode::T4, "t4", 20).await;
    let mut dice = Dice(7);
    let kubeconfig = arena.plane.kubeconfig();
    let mut made = 0;
    let mut ended = 0;
    for round in 0..kills() {
        let mut divvy = Divvy::spawn(&arena, &kubeconfig, &["--leader-elect=false"]);
        // Every other time before it has even seen the cluster.
        if round % 2 == 0 {
            divvy.ready().await;
        }
        let more: Vec<_> = (0..20).map(|i| mixed(&mut dice, &format!("p-{}", made + i))).collect();
        made += more.len();
        let load = arena.create_all(more);
        // Some moment while they are made, decided on and bound.
        let moment = tokio::time::sleep(Duration::from_millis(dice.below(250)));
        tokio::join!(load, moment);
        divvy.process.kill();
        // Those that run end in the order in which they came, while nobody schedules.
        for _ in 0..8 {
            let name = format!("p-{ended}");
            ended += 1;
            if arena.history.look(|now| now.node_of(&format!("default/{name}")).is_some()) {
                arena.end(&name).await;
            }
        }
        assert!(!divvy.log().contains("panicked at"), "{}", divvy.log());
    }
    let _divvy = Divvy::start(&arena).await;
    arena.settled().await;
    let checker = arena.check();
    assert!(checker.bindings > kills(), "the load was too small to mean anything");

    // And it works on as if nothing had happened.
    let mut fresh = GpuNode::A100.node("fresh");
    fresh["spec"]["taints"] = json!([{"key": "for", "value": "last", "effect": "NoSchedule"}]);
    arena.create(&fresh).await;
    let mut last = with_fraction(pod("last"), "0.5", 1);
    last["spec"]["tolerations"] = json!([{"key": "for", "operator": "Exists"}]);
    arena.create(&last).await;
    arena.bound("last").await;
    arena.check();
}
