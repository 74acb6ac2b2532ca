//! Levels of isolation in the cluster: pods that ask for one, nodes that have the provider, and what
//! is on a card in truth.

use super::api::Api;
use super::kubelet::{Left, cards_of, has_ended, text};
use divvy_words::isolation::{Isolation, Provider};
use divvy_words::keys;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const PROVIDER: &str = "HAMi-core";

/// Whether levels are told apart: the last byte says it, so that what comes before means the same.
pub fn told_apart(bytes: &[u8]) -> Option<Isolation> {
    bytes.last().is_some_and(|last| last % 2 == 1).then(Isolation::default)
}

/// A node on which the provider was installed.
pub fn provided(mut node: Value) -> Value {
    node["metadata"]["labels"][keys::ISOLATION_PROVIDER] = json!(PROVIDER);
    node["metadata"]["annotations"] = json!({ keys::CDI_KIND: "nvidia.com/gpu" });
    node
}

/// What shares are labelled with: of `unread` the container does not read its limit.
pub const LEVELS: [&str; 6] = ["none", "Shared", "Isolated", "Isolated", "unread", "Isoalted"];

/// Labels a share, as admission leaves it or as it would never let one through.
pub fn label(level: &str, pod: &mut Value) {
    let labels = match level {
        "none" => json!({}),
        "Shared" | "Isoalted" => json!({ keys::ISOLATION_LEVEL: level }),
        _ => {
            json!({ keys::ISOLATION_LEVEL: "Isolated", keys::ISOLATION_PROVIDER: PROVIDER })
        }
    };
    pod["metadata"]["labels"] = labels;
    if level == "Isolated" {
        let limit = |name: &str, annotation: &str| {
            let path = format!("metadata.annotations['{annotation}']");
            json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } })
        };
        let container = &mut pod["spec"]["containers"][0];
        let core = container["resources"]["limits"][keys::KOORDINATOR_CORE].as_str();
        let compute = core.filter(|core| *core != "0");
        let compute = compute.map(|_| limit("CUDA_DEVICE_SM_LIMIT", keys::COMPUTE_LIMIT));
        if let Some(env) = container["env"].as_array_mut() {
            env.push(limit("CUDA_DEVICE_MEMORY_LIMIT", keys::MEMORY_LIMIT));
            env.extend(compute);
            let safe = Provider::hami_core().environment;
            env.extend(safe.iter().map(|(name, value)| json!({ "name": name, "value": value })));
        }
    }
}

/// What a binding recorded.
pub fn class_of(pod: &Value) -> &str {
    pod["metadata"]["annotations"][keys::CLASS].as_str().unwrap_or_default()
}

/// Whether a pod is to be isolated, and its container would not read its limit: then it waits.
pub fn waits_for_ever(pod: &Value) -> bool {
    let label = |key: &str| pod["metadata"]["labels"][key].as_str().unwrap_or_default();
    let env = pod["spec"]["containers"][0]["env"].to_string();
    match label(keys::ISOLATION_LEVEL) {
        "Isolated" => !env.contains(keys::MEMORY_LIMIT),
        level => !["", "Shared"].contains(&level),
    }
}

/// The class that a pod which waits would have.
pub fn wanted(pod: &Value) -> &'static str {
    match pod["metadata"]["labels"][keys::ISOLATION_LEVEL].as_str() {
        Some("Isolated") => "Isolated/HAMi-core",
        _ => "Shared",
    }
}

/// The classes of each card on which shares run.
pub fn on_cards(api: &Api, left: &[Left]) -> BTreeMap<String, BTreeSet<String>> {
    let is_share = |pod: &&Value| !text(pod, "/spec/nodeName").is_empty() && !has_ended(pod);
    let pods = api.pods().filter(is_share).map(|pod| (cards_of(pod), class_of(pod)));
    let left = left.iter().map(|left| (left.cards.as_str(), left.class.as_str()));
    let mut classes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (cards, class) in pods.chain(left) {
        // KAI records none: it knows no levels.
        let class = if class.is_empty() { "Shared" } else { class };
        for (card, _) in cards.split(',').filter_map(|part| part.split_once(':')) {
            classes.entry(card.to_owned()).or_default().insert(class.to_owned());
        }
    }
    classes
}

/// An Isolated share is granted full names and its limit, and a Shared one nothing of it.
pub fn is_granted(pod: &Value) -> bool {
    let annotation =
        |key: &str| pod["metadata"]["annotations"][key].as_str().unwrap_or_default().to_owned();
    let (devices, limit) = (annotation(keys::VISIBLE_DEVICES), annotation(keys::MEMORY_LIMIT));
    match class_of(pod) {
        "Shared" => limit.is_empty() && !devices.contains('='),
        "Isolated/HAMi-core" => {
            let cards = annotation(keys::CARDS);
            let is_full = |name: &str| name.starts_with("nvidia.com/gpu=GPU-");
            let mut names: Vec<&str> = devices.split(',').collect();
            names.pop() == Some("divvy.dev/provider=HAMi-core")
                && !names.is_empty()
                && names.into_iter().all(is_full)
                && cards.split(',').all(|part| part.ends_with(&format!(":{limit}")))
        }
        // None is recorded of pods without a share.
        class => class.is_empty() && cards_of(pod).is_empty(),
    }
}
