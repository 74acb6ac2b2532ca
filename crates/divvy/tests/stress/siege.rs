//! One tenant does its worst, within what the API accepts, while another one's pods are placed.
//!
//! What must hold: every pod of the other one is placed, no divvy process takes more memory than its
//! manifest allows or fails its probes, and a restart in the middle of it all works. How long the
//! other one waited is printed beside a quiet run; it is not asserted.
//!
//! `DIVVY_SIEGE=600` goes on for ten minutes instead of 90 s, and until there are ten thousand pods of
//! different shapes. Webhooks are besieged in `ports`.

mod attacks;
mod watcher;

use crate::arena::{Arena, PATIENCE, pod_of};
use crate::kubelets::Kubelets;
use crate::scheduler::{ALONE, Divvy};
use divvy_testbed::manifests::{GpuNode, with_fraction, with_gpus, with_hand_off};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;
use watcher::{Probes, Waits};

const OTHER: &str = "other";
const HOSTILE: &str = "hostile";

fn span() -> Duration {
    let asked = std::env::var("DIVVY_SIEGE").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(asked.unwrap_or(90))
}

/// What deploy/scheduler.yaml allows the scheduler, in bytes.
pub fn limit() -> u64 {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/scheduler.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let (_, rest) = text.split_once("limits: {memory: ").unwrap();
    let (mib, _) = rest.split_once("Mi}").unwrap();
    mib.parse::<u64>().unwrap() << 20
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_one_tenant_does_the_pods_of_another_are_placed() {
    let Some(arena) = Arena::enter().await else { return };
    arena.allow_reservations().await;
    for name in [OTHER, HOSTILE] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        // It is there from an earlier test.
        let _ = arena.api.create(&namespace).await;
    }
    let high = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": attacks::PRIORITY}, "value": 1_000_000,
    });
    let _ = arena.api.create(&high).await;
    arena.nodes(GpuNode::A100, "a100", 100).await;
    let _kubelets = Kubelets::play(&arena);
    let options =
        [&ALONE[..], &["--gpu-sharing", "--reservation-image=i", "--reservation-runtime-class="]];
    let options = options.concat();
    let mut divvy = Divvy::start_with(&arena, &options).await;
    let mut places = Waits::default();
    place_for(&arena, Duration::from_secs(10), &mut places).await;
    places.print("quiet");

    let probes = Probes::start(divvy.address().unwrap());
    let attack = tokio::spawn(attacks::all(arena.api.clone(), divvy.address().unwrap(), span()));
    let mut places = Waits::default();
    place_for(&arena, span(), &mut places).await;
    places.print("besieged");
    attack.await.unwrap();
    probes.end(&divvy).await;
    let before = divvy.process.peak_memory().unwrap();

    // What it left is read back by the next one.
    divvy.process.kill();
    divvy = Divvy::start_with(&arena, &options).await;
    let probes = Probes::start(divvy.address().unwrap());
    let mut places = Waits::default();
    place_for(&arena, Duration::from_secs(5), &mut places).await;
    places.print("after a restart");
    probes.end(&divvy).await;
    let after = divvy.process.peak_memory().unwrap();
    println!("memory at most: {} MiB, after a restart {} MiB", before >> 20, after >> 20);
    assert!(before.max(after) < limit(), "{before} and {after} of {} bytes", limit());
    arena.check().await;
    attacks::take_away(&arena.api).await;
}

/// Creates pods one after the other, and ends each when it is bound.
async fn place_for(arena: &Arena, span: Duration, waits: &mut Waits) {
    let mut bound = watcher::Bound::watch(&arena.api, OTHER).await;
    let end = Instant::now() + span;
    for number in 0_u32.. {
        let mut pod = pod_of(OTHER, &format!("p-{number}"));
        pod = match number % 3 {
            0 => with_hand_off(with_fraction(pod, "0.5", 1)),
            1 => with_gpus(pod, 1),
            _ => pod,
        };
        let start = Instant::now();
        let made = arena.api.create(&pod).await.unwrap();
        let name = made["metadata"]["name"].as_str().unwrap();
        let waited = tokio::time::timeout(PATIENCE, bound.until(name)).await;
        assert!(waited.is_ok(), "{name} is not placed: {}", why(arena, name).await);
        waits.add(start.elapsed());
        let path = format!("/api/v1/namespaces/{OTHER}/pods/{name}");
        let ended = json!({"status": {"phase": "Succeeded"}});
        arena.api.patch(&format!("{path}/status"), &ended).await.unwrap();
        arena.api.delete(&path).await.unwrap();
        if Instant::now() > end {
            return;
        }
    }
}

async fn why(arena: &Arena, name: &str) -> Value {
    let pod = arena.api.get(&format!("/api/v1/namespaces/{OTHER}/pods/{name}")).await;
    pod.map_or(Value::Null, |mut pod| pod["status"].take())
}
