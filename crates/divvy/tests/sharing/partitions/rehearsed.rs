//! What a rehearsal says that a configuration would make of the node, beside what NVIDIA's device plugin
//! and GPU feature discovery make of it.

use crate::cluster::Cluster;
use crate::program;
use divvy_testbed::node::Card;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How the cards are divided, as a config of the MIG manager.
const LAYOUT: &str = "layout";

impl Cluster {
    /// Rehearses a configuration on a snapshot, applies it, and compares.
    pub async fn reconfigure_as_rehearsed(&mut self, cards: Vec<Card>, plugin_config: Value) {
        let rehearsed = self.rehearse(&configs(&cards, &plugin_config));
        self.reconfigure(cards, plugin_config);
        self.is_as(&rehearsed).await;
    }

    /// Compares what a rehearsal has said with what the node is now.
    pub async fn is_as(&self, rehearsed: &Value) {
        let node = self.api.get("/api/v1/nodes/gpu-node").await.unwrap();
        let allocatable = node["status"]["allocatable"].as_object().unwrap().iter();
        let count = |count: &Value| count.as_str().and_then(|n| n.parse::<u64>().ok()).unwrap();
        let there: BTreeMap<String, u64> = allocatable
            .filter(|(name, _)| name.starts_with("nvidia.com/"))
            .map(|(name, amount)| (name.clone(), count(amount)))
            .filter(|(_, count)| *count > 0)
            .collect();
        let partitions = rehearsed["partitions"].as_array().unwrap();
        assert!(!partitions.is_empty() && !there.is_empty(), "{rehearsed:#}");
        for said in partitions {
            assert_eq!(said["effect"], "applied", "{said:#}");
            assert_eq!(said["resources"], json!(there), "{said:#}");
        }
        assert_eq!(outlook(rehearsed), outlook(&self.rehearse(&[])));
    }

    /// What `divvy simulate` says of a snapshot of the cluster, with these configs.
    pub fn rehearse(&self, configs: &[Value]) -> Value {
        let [snapshot, file] =
            ["snapshot.json", "configs.yaml"].map(|name| self.folder().join(name));
        self.run(&["snapshot", "--output-file", snapshot.to_str().unwrap()]);
        let mut divvy = program::divvy();
        divvy.args(["simulate", "--output=json", "--cluster"]).arg(snapshot);
        if !configs.is_empty() {
            let documents: Vec<String> = configs.iter().map(Value::to_string).collect();
            std::fs::write(&file, documents.join("\n---\n")).unwrap();
            divvy.arg("-f").arg(file);
        }
        if configs.iter().any(|config| !config["data"]["config.yaml"].is_null()) {
            divvy.arg(format!("--partition=gpu-node={LAYOUT}"));
        }
        let output = divvy.output().unwrap();
        // 2 says that a pod waits.
        assert!(matches!(output.status.code(), Some(0 | 2)), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// The ConfigMaps with which the GPU operator would do it.
fn configs(cards: &[Card], plugin_config: &Value) -> Vec<Value> {
    let map = |name: &str, key: &str, config: &Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {key: config.to_string()}})
    };
    let plugin = map("plugin", "any", plugin_config);
    if cards.iter().all(|card| card.slices.is_none()) {
        return vec![plugin];
    }
    let entry = |(index, card): (usize, &Card)| {
        let mut profiles = BTreeMap::<&str, u32>::new();
        for slice in card.slices.iter().flatten() {
            *profiles.entry(&slice.profile).or_default() += 1;
        }
        json!({"devices": [index], "mig-enabled": card.slices.is_some(), "mig-devices": profiles})
    };
    let entries: Vec<Value> = cards.iter().enumerate().map(entry).collect();
    let mig = json!({"version": "v1", "mig-configs": {LAYOUT: entries}});
    vec![plugin, map("mig", "config.yaml", &mig)]
}

/// What of a simulation the labels and amounts of the node decide, and not who holds what.
fn outlook(simulation: &Value) -> Value {
    let node = &simulation["nodes"][0];
    let cards = node["cards"].as_array().unwrap().iter();
    let whole = cards.filter(|card| card["slices"].is_null()).count();
    let kinds = node["slices"].as_array().unwrap().iter().map(|kind| {
        let keys = ["resource", "kind", "profile", "bytesEach", "total"];
        keys.map(|key| kind[key].clone())
    });
    json!({"model": node["model"], "whole": whole, "slices": kinds.collect::<Vec<_>>()})
}
