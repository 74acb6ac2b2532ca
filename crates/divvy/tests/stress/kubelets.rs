//! Plays the kubelets of reservation pods: each starts with an arbitrary free card of its node, or
//! fails where none is left, as with NVIDIA's device plugin.

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
    // By reservation, because what was written is not seen at once.
    let mut given: BTreeMap<String, (String, u64)> = BTreeMap::new();
    loop {
        let starts = history.look(|now| {
            given.retain(|name, _| now.pods.contains_key(name));
            let waits = |(_, pod): &(&String, &Value)| {
                pod["metadata"]["namespace"] == RESERVATIONS && pod["status"]["phase"] == "Pending"
            };
            let waiting = now.pods.iter().filter(waits);
            let new = waiting.filter(|(name, _)| !given.contains_key(*name));
            new.map(|(name, pod)| (name.clone(), node_of(pod), cards(now, &node_of(pod))))
                .collect::<Vec<_>>()
        });
        for (name, node, cards) in starts {
            let on_node = given.values().filter(|(other, _)| *other == node);
            let taken: BTreeSet<u64> = on_node.map(|(_, card)| *card).collect();
            let free: Vec<u64> = (0..cards).filter(|card| !taken.contains(card)).collect();
            let status = if free.is_empty() {
                json!({"phase": "Failed", "reason": "UnexpectedAdmissionError"})
            } else {
                let card = dice.of(&free);
                given.insert(name.clone(), (node.clone(), card));
                let device =
                    json!({"resourceID": format!("GPU-{node}-{card}"), "health": "Healthy"});
                json!({"phase": "Running", "containerStatuses": [{
                    "name": "reserve", "image": "example.com/divvy:1", "imageID": "", "ready": true,
                    "restartCount": 0,
                    "allocatedResourcesStatus": [{"name": "nvidia.com/gpu", "resources": [device]}],
                }]})
            };
            let (namespace, pod) = name.split_once('/').unwrap();
            let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/status");
            // It may have been deleted meanwhile.
            let _ = api.patch(&path, &json!({"status": status})).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn node_of(pod: &Value) -> String {
    pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()
}

fn cards(now: &Now, node: &str) -> u64 {
    let count = now.nodes.get(node).map(|n| &n["status"]["allocatable"]["nvidia.com/gpu"]);
    count.and_then(|count| count.as_str()?.parse().ok()).unwrap_or(0)
}
