//! `kill -9` at any moment.

use crate::arena::{Arena, PATIENCE, pod};
use crate::bursts::mixed;
use crate::kubelets::{Kubelets, RESERVATIONS};
use crate::leases::has_lost_its_lease;
use crate::scheduler::{ALONE, Divvy};
use divvy_testbed::dice::Dice;
use divvy_testbed::history::Now;
use divvy_testbed::manifests::{GpuNode, with_fraction, with_hand_off};
use divvy_testbed::proxy::{Fault, Proxy, Target};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// `DIVVY_KILLS=150` for a long run.
fn kills(usual: usize) -> usize {
    std::env::var("DIVVY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_points_under_load_it_loses_nothing_and_books_nothing_twice() {
    let Some(arena) = Arena::enter().await else { return };
    arena.nodes(GpuNode::A100, "a100", 20).await;
    arena.nodes(GpuNode::T4, "t4", 20).await;
    let mut dice = Dice(7);
    let proxy = Proxy::start(&arena.api).await.unwrap();
    let kubeconfig = arena.plane.kubeconfig_through("kubeconfig-kills", proxy.url()).unwrap();
    let mut made = 0;
    let mut ended = 0;
    for round in 0..kills(25) {
        let mut divvy = Divvy::spawn(&arena, &kubeconfig, &ALONE);
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
        // The next one does not wait for what this one has sent, so that we do.
        arena.until_quiet(&proxy).await;
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
    arena.until_placed().await;
    let checker = arena.check().await;
    assert!(checker.bindings > kills(25), "the load was too small to mean anything");

    // And it works on as if nothing had happened.
    let mut fresh = GpuNode::A100.node("fresh");
    fresh["spec"]["taints"] = json!([{"key": "for", "value": "last", "effect": "NoSchedule"}]);
    arena.create(&fresh).await;
    let mut last = with_fraction(pod("last"), "0.5", 1);
    last["spec"]["tolerations"] = json!([{"key": "for", "operator": "Exists"}]);
    arena.create(&last).await;
    arena.bound("last").await;
    arena.check().await;
}

/// Kills schedulers that hand shares to their containers in the middle of their writes, some of
/// which arrive only when the next one, started at once, already runs.
async fn killed_while_its_writes_are_under_way(options: &[&str]) {
    let Some(arena) = Arena::enter().await else { return };
    arena.allow_reservations().await;
    let kills = kills(8);
    // Room for 40 halves after each kill, and some more.
    arena.nodes(GpuNode::A100, "a100", (kills + 1) * 40 / 16 + 20).await;
    let _kubelets = Kubelets::play(&arena);
    let proxy = Proxy::start(&arena.api).await.unwrap();
    let kubeconfig = arena.plane.kubeconfig_through("kubeconfig-crash", proxy.url()).unwrap();
    let image = ["--gpu-sharing", "--reservation-image=example.com/divvy:1"];
    let options = [&image, &["--reservation-runtime-class="][..], options].concat();
    let half = |i: usize| with_hand_off(with_fraction(pod(&format!("half-{i}")), "0.5", 1));
    let mut dice = Dice(3);
    let mut made = 0;
    for round in 0..=kills {
        // The server may take so long for a write; a successor has waited longer, by far.
        proxy.inject(Target::Bindings, Fault::Late(Duration::from_secs(1)), usize::MAX);
        let start = || Divvy::spawn(&arena, &kubeconfig, &options);
        let mut divvy = start();
        divvy.leads().await;
        let before = arena.history.look(|now| now.bound("default"));
        // Neither all at once nor in their order: what is chosen differs from what the last one chose.
        let more: Vec<Value> = (0..40).map(|i| half(made + (i * 17) % 40)).collect();
        made += more.len();
        arena.create_all(more).await;
        if round < kills {
            let some = before + 1 + dice.index(20);
            bound(&arena, some, &mut divvy, start).await;
            divvy.process.kill();
            assert!(!divvy.log().contains("panicked at"), "{}", divvy.log());
        } else {
            proxy.heal();
            bound(&arena, made, &mut divvy, start).await;
        }
    }
    arena.check().await;
    // What was reserved before a kill serves after it: a card is asked for once, but for those of
    // which nobody knows yet when the next one begins.
    let (asked, cards) = (proxy.counts()["POST pods"], made.div_ceil(2));
    assert!(asked <= cards + cards / 10, "{asked} reservations were asked for {cards} cards");
    arena.until("as many are left as are needed", |now| reservations(now) == cards).await;
}

/// Waits until so many are bound, by a scheduler that is started again if it loses its lease.
async fn bound(arena: &Arena, count: usize, divvy: &mut Divvy, start: impl Fn() -> Divvy) {
    let end = Instant::now() + PATIENCE;
    while arena.history.look(|now| now.bound("default")) < count {
        if has_lost_its_lease(&mut divvy.process) {
            *divvy = start();
        }
        assert!(Instant::now() < end, "{count} pods are not bound: {}", divvy.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn reservations(now: &Now) -> usize {
    let is_one = |pod: &&Value| pod["metadata"]["namespace"] == RESERVATIONS;
    now.pods.values().filter(is_one).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_land_after_a_kill_over_pack_no_card_without_a_lease() {
    killed_while_its_writes_are_under_way(&["--leader-elect=false", "--takeover-wait=3"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_land_after_a_kill_over_pack_no_card_with_a_lease() {
    let lease = ["--lease-namespace=default", "--lease-duration=4"];
    killed_while_its_writes_are_under_way(&lease).await;
}
