//! One tenant does its worst, within what the API accepts, while another one's pods are placed. The
//! pods of both go through the webhooks: without them no share of the other one would have its card.
//!
//! What must hold: every pod of the other one is placed, no divvy process takes more memory than its
//! manifest allows or fails its probes, and a restart in the middle of it all works. How long the
//! other one waited is printed beside a quiet run; it is not asserted.
//!
//! `DIVVY_SIEGE=600` goes on for ten minutes instead of 90 s, and until there are ten thousand pods of
//! different shapes. What can be posted to the webhooks themselves is in `ports`.

mod attacks;
mod watcher;
mod webhooks;

use crate::arena::{Arena, PATIENCE, pod_of};
use crate::kubelets::Kubelets;
use crate::limits::memory_limit;
use crate::scheduler::{ALONE, Divvy};
use divvy_testbed::Process;
use divvy_testbed::api::{Api, ApiError};
use divvy_testbed::manifests::{GpuNode, with_fraction, with_gpus};
use http::StatusCode;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;
use watcher::{Door, Probes, Waits};
use webhooks::{GUARDED, Webhooks};

const OTHER: &str = "other";
const HOSTILE: &str = "hostile";

fn span() -> Duration {
    let asked = std::env::var("DIVVY_SIEGE").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(asked.unwrap_or(90))
}

/// What a process has taken at most, if its manifest of `deploy/` allows it.
fn peak(process: &Process, manifest: &str) -> u64 {
    let (peak, limit) = (process.peak_memory().unwrap(), memory_limit(manifest));
    assert!(peak < limit, "{}: {peak} of {limit} bytes", process.name());
    peak >> 20
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_one_tenant_does_the_pods_of_another_are_placed() {
    let Some(arena) = Arena::enter().await else { return };
    arena.allow_reservations().await;
    for name in [OTHER, HOSTILE] {
        let metadata = json!({"name": name, "labels": {GUARDED: "yes"}});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        arena.api.create(&namespace).await.unwrap();
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
    let webhooks = Webhooks::start(&arena, OTHER).await;
    let mut divvy = Divvy::start_with(&arena, &options).await;
    let mut places = Waits::default();
    place_for(&arena, Duration::from_secs(10), &mut places).await;
    places.print("quiet");

    let pages = |divvy: &Divvy| Door { address: divvy.address().unwrap(), tls: None };
    let probes = Probes::start(pages(&divvy));
    let probes_of_webhooks = Probes::start(webhooks.door.clone());
    let (scheduler, reviews) = (divvy.address().unwrap(), webhooks.door.address);
    let attack = tokio::spawn(attacks::all(arena.api.clone(), scheduler, reviews, span()));
    let mut places = Waits::default();
    place_for(&arena, span(), &mut places).await;
    places.print("besieged");
    attack.await.unwrap();
    probes.end(&divvy.process).await;
    let before = peak(&divvy.process, "scheduler.yaml");

    // What it left is read back by the next one.
    divvy.process.kill();
    divvy = Divvy::start_with(&arena, &options).await;
    let probes = Probes::start(pages(&divvy));
    let mut places = Waits::default();
    place_for(&arena, Duration::from_secs(5), &mut places).await;
    places.print("after a restart");
    probes.end(&divvy.process).await;
    probes_of_webhooks.end(&webhooks.process).await;
    let after = peak(&divvy.process, "scheduler.yaml");
    let reviews = peak(&webhooks.process, "admission.yaml");
    println!("MiB at most: scheduler {before}, after a restart {after}, webhooks {reviews}");
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
            0 => with_fraction(pod, "0.5", 1),
            1 => with_gpus(pod, 1),
            _ => pod,
        };
        let start = Instant::now();
        let (made, refused) = insist(&arena.api, &pod).await;
        waits.refused += refused;
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

/// Creates a pod; gives it, and how often it was refused before. Where the webhooks have not answered
/// the API server in time, whoever makes a pod tries again.
async fn insist(api: &Api, pod: &Value) -> (Value, usize) {
    let end = Instant::now() + PATIENCE;
    for refused in 0.. {
        match api.create(pod).await {
            Err(ApiError::Refused { status: StatusCode::INTERNAL_SERVER_ERROR, .. })
                if Instant::now() < end => {}
            made => return (made.unwrap(), refused),
        }
    }
    unreachable!("it is tried until it is made")
}

async fn why(arena: &Arena, name: &str) -> Value {
    let pod = arena.api.get(&format!("/api/v1/namespaces/{OTHER}/pods/{name}")).await;
    pod.map_or(Value::Null, |mut pod| pod["status"].take())
}
