//! Plays the kubelets: reservation pods and those with whole GPUs get arbitrary free cards of their
//! node, and a reservation fails where none is left, as with NVIDIA's device plugin.

use crate::arena::Arena;
use divvy_testbed::api::Api;
use divvy_testbed::dice::Dice;
use divvy_testbed::history::{History, Now};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

pub const RESERVATIONS: &str = "kai-resource-reservation";

/// Ends when it is dropped.
pub struct Kubelets(JoinHandle<()>);

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Kubelets {
    pub fn play(arena: &Arena) -> Self {
        let (api, history) = (arena.api.clone(), Arc::clone(&arena.history));
        Self(tokio::spawn(play(api, history)))
    }
}

async fn play(api: Api, history: Arc<History>) {
    let mut dice = Dice(11);
    // By pod, because what was written is not seen at once.
    let mut given: BTreeMap<String, (String, Vec<u64>)> = BTreeMap::new();
    loop {
        let starts = history.look(|now| {
            given.retain(|name, _| now.pods.get(name).is_some_and(|pod| !has_ended(pod)));
            let waits = |(name, pod): &(&String, &Value)| {
                asked(pod) > 0 && !has_ended(pod) && !given.contains_key(*name)
            };
            let bound = now.pods.iter().filter(|(_, pod)| !node_of(pod).is_empty());
            let start = |(name, pod): (&String, &Value)| {
                let node = node_of(pod);
                let cards = cards(now, &node);
                (
                    pod["metadata"]["namespace"] == RESERVATIONS,
                    name.clone(),
                    asked(pod),
                    node,
                    cards,
                )
            };
            let mut starts: Vec<_> = bound.filter(waits).map(start).collect();
            starts.sort();
            starts
        });
        for (is_reservation, name, asked, node, cards) in starts {
            let on_node = given.values().filter(|(other, _)| *other == node);
            let taken: BTreeSet<u64> = on_node.flat_map(|(_, cards)| cards.clone()).collect();
            let mut free: Vec<u64> = (0..cards).filter(|card| !taken.contains(card)).collect();
            let mut got = Vec::new();
            while got.len() < asked && !free.is_empty() {
                got.push(free.swap_remove(dice.index(free.len())));
            }
            let card = got.first().copied();
            if !got.is_empty() {
                given.insert(name.clone(), (node.clone(), got));
            }
            if !is_reservation {
                continue;
            }
            let status = match card {
                None => json!({"phase": "Failed", "reason": "UnexpectedAdmissionError"}),
                Some(card) => {
                    let device =
                        json!({"resourceID": format!("GPU-{node}-{card}"), "health": "Healthy"});
                    let device = json!([{"name": "nvidia.com/gpu", "resources": [device]}]);
                    json!({"phase": "Running", "containerStatuses": [{
                        "name": "reserve", "image": "example.com/divvy:1", "imageID": "",
                        "ready": true, "restartCount": 0, "allocatedResourcesStatus": device,
                    }]})
                }
            };
            let (namespace, pod) = name.split_once('/').unwrap();
            let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/status");
            // It may have been deleted meanwhile.
            let _ = api.patch(&path, &json!({"status": status})).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How many cards a pod has of the device plugin.
fn asked(pod: &Value) -> usize {
    let count = &pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"];
    count.as_str().and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

fn node_of(pod: &Value) -> String {
    pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()
}

fn cards(now: &Now, node: &str) -> u64 {
    let count = now.nodes.get(node).map(|n| &n["status"]["allocatable"]["nvidia.com/gpu"]);
    count.and_then(|count| count.as_str()?.parse().ok()).unwrap_or(0)
}
