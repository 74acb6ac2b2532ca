//! What the checker keeps of a pod and a node.

use super::amounts::{Portion, thousandths};
use serde_json::Value;
use std::collections::BTreeMap;

const RESERVATIONS: &str = "kai-resource-reservation";
const GPU: &str = "nvidia.com/gpu";

/// Slices and replicas under names of their own.
fn is_device(resource: &str) -> bool {
    resource.starts_with("nvidia.com/") && resource != GPU
}
/// The class of shares that nothing isolates.
pub(super) const SHARED: &str = "Shared";
const PROVIDER: &str = "koordinator.sh/gpu-isolation-provider";

/// What a pod asks of GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Nothing,
    Whole(u64),
    Share { portion: Portion, cards: u64 },
}

#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub key: String,
    pub uid: String,
    pub scheduler: String,
    pub node: Option<String>,
    pub runs: bool,
    pub has_ended: bool,
    pub is_deleted: bool,
    pub asked: Asked,
    /// Percent of each card's compute.
    pub compute: u128,
    /// What it asks by names of their own.
    pub devices: BTreeMap<String, u64>,
    /// What the kubelet says that its containers have: cards, slices, replicas.
    pub given: Vec<String>,
    /// Index or UUID and bytes, from the record on the pod.
    pub cards: Vec<(String, u128)>,
    /// The level and the provider that its labels say.
    level: Option<String>,
    provider: Option<String>,
    /// What its binding says of its isolation.
    pub class: String,
    pub limit: Option<u128>,
    pub compute_limit: Option<u128>,
    pub visible: String,
    pub is_reservation: bool,
    /// The card that it keeps for others, if it is a reservation that has one.
    pub reserved: Option<String>,
    pub cpu: u128,
    pub memory: u128,
    /// Whether only its cards are left.
    pub is_ghost: bool,
}

impl Pod {
    pub(super) fn read(object: &Value, wrong: &mut Vec<String>) -> Self {
        let (metadata, spec) = (&object["metadata"], &object["spec"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let annotation = |key: &str| metadata["annotations"][key].as_str();
        let sum = |list: &str, resource: &str| -> u128 {
            let containers = spec["containers"].as_array().into_iter().flatten();
            containers.filter_map(|c| thousandths(c["resources"][list][resource].as_str()?)).sum()
        };
        let portion = annotation("gpu-fraction").and_then(Portion::fraction).or_else(|| {
            let mib: u128 = annotation("gpu-memory")?.parse().ok()?;
            Some(Portion::Bytes(mib << 20))
        });
        let whole = sum("limits", GPU) / 1000;
        let containers = spec["containers"].as_array().into_iter().flatten();
        let limits = containers.filter_map(|c| c["resources"]["limits"].as_object()).flatten();
        let mut devices = BTreeMap::new();
        for (resource, amount) in limits.filter(|(resource, _)| is_device(resource)) {
            let amount = amount.as_str().and_then(thousandths).unwrap_or(0) / 1000;
            *devices.entry(resource.clone()).or_default() +=
                u64::try_from(amount).unwrap_or(u64::MAX);
        }
        let (koordinators, compute) =
            koordinators(|name| sum("limits", &format!("koordinator.sh/{name}")));
        let asked = match portion {
            Some(portion) => {
                let cards = annotation("gpu-fraction-num-devices");
                Asked::Share { portion, cards: cards.and_then(|c| c.parse().ok()).unwrap_or(1) }
            }
            None if koordinators != Asked::Nothing => koordinators,
            None if whole > 0 => Asked::Whole(u64::try_from(whole).unwrap_or(u64::MAX)),
            None => Asked::Nothing,
        };
        let node = spec["nodeName"].as_str().map(str::to_owned);
        let record = annotation("divvy.dev/cards").filter(|_| node.is_some()).unwrap_or_default();
        let cards = record.split(',').filter(|part| !part.is_empty()).filter_map(|part| {
            let read = |(card, bytes): (&str, &str)| Some((card.to_owned(), bytes.parse().ok()?));
            let card = part.split_once(':').and_then(read);
            if card.is_none() {
                wrong.push(format!("its record {record:?} cannot be read"));
            }
            card
        });
        let containers = object["status"]["containerStatuses"].as_array().into_iter().flatten();
        let lists = containers.filter_map(|c| c["allocatedResourcesStatus"].as_array()).flatten();
        let of_cards = lists
            .filter(|list| list["name"] == GPU || list["name"].as_str().is_some_and(is_device));
        let resources = of_cards.filter_map(|list| list["resources"].as_array()).flatten();
        let given: Vec<String> =
            resources.filter_map(|r| r["resourceID"].as_str().map(str::to_owned)).collect();
        let is_reservation = metadata["namespace"] == RESERVATIONS;
        Self {
            key: format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"])),
            reserved: given.first().filter(|_| is_reservation).cloned(),
            devices,
            given,
            is_reservation,
            uid: text(&metadata["uid"]),
            scheduler: text(&spec["schedulerName"]),
            cards: cards.collect(),
            level: metadata["labels"]["koordinator.sh/gpu-share-isolation-level"]
                .as_str()
                .map(str::to_owned),
            provider: metadata["labels"][PROVIDER].as_str().map(str::to_owned),
            class: text(&metadata["annotations"]["divvy.dev/class"]),
            limit: annotation("divvy.dev/memory-limit").and_then(|limit| limit.parse().ok()),
            compute_limit: annotation("divvy.dev/compute-limit")
                .and_then(|limit| limit.parse().ok()),
            visible: text(&metadata["annotations"]["divvy.dev/visible-devices"]),
            node,
            runs: object["status"]["phase"] == "Running",
            has_ended: matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed")),
            is_deleted: metadata["deletionTimestamp"].is_string(),
            asked,
            compute,
            cpu: sum("requests", "cpu"),
            memory: sum("requests", "memory") / 1000,
            is_ghost: false,
        }
    }

    /// The class that it is to have by its labels, with HAMi-core as the only provider; `None` if they
    /// make no sense.
    pub(super) fn wanted(&self) -> Option<String> {
        match (self.level.as_deref(), self.provider.as_deref()) {
            (None | Some(SHARED), None) => Some(SHARED.to_owned()),
            (None | Some("Isolated"), Some("HAMi-core")) => Some("Isolated/HAMi-core".to_owned()),
            _ => None,
        }
    }

    /// What is left of it.
    pub(super) fn ghost(self) -> Self {
        Self { cpu: 0, memory: 0, is_ghost: true, ..self }
    }

    pub(super) fn is_held(&self) -> bool {
        self.node.is_some() && !self.has_ended
    }
}

/// What is asked by Koordinator's resources, given in thousandths, and how much compute of each card.
fn koordinators(amount: impl Fn(&str) -> u128) -> (Asked, u128) {
    let (both, core, memory) =
        (amount("gpu") / 1000, amount("gpu-core") / 1000, amount("gpu-memory"));
    let ratio = both.max(amount("gpu-memory-ratio") / 1000);
    if ratio == 0 && memory == 0 {
        return (Asked::Nothing, 0);
    }
    let cards = match amount("gpu.shared") / 1000 {
        0 => (ratio / 100).max(1),
        shared => shared,
    };
    let count = u64::try_from(cards).unwrap_or(u64::MAX);
    let portion = match ratio / cards {
        0 => Portion::Bytes(memory / 1000 / cards),
        100 => return (Asked::Whole(count), 0),
        percent => Portion::Fraction { numerator: percent, decimals: 2 },
    };
    (Asked::Share { portion, cards: count }, both.max(core) / cards)
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub name: String,
    pub is_gone: bool,
    /// Cordoned or tainted.
    pub is_closed: bool,
    /// How many cards there are.
    pub cards: u32,
    pub card_bytes: Option<u128>,
    /// How many GPUs, or replicas of them, can be given.
    pub gpus: u64,
    /// How many slices and replicas can be given by names of their own.
    pub devices: BTreeMap<String, u64>,
    /// Whether what it calls GPUs are time slices or MIG slices.
    pub has_replicas: bool,
    pub cpu: u128,
    pub memory: u128,
    pub pods: u128,
    /// What isolates shares there.
    provider: Option<String>,
}

impl Node {
    /// Whether it has what isolates shares of this class.
    pub(super) fn offers(&self, class: &str) -> bool {
        let name = class.strip_prefix("Isolated/");
        name.is_some() && name == self.provider.as_deref()
    }

    pub(super) fn read(object: &Value, gone: bool) -> Self {
        let (metadata, spec) = (&object["metadata"], &object["spec"]);
        let label = |key: &str| -> Option<u64> { metadata["labels"][key].as_str()?.parse().ok() };
        let amount = |key: &str| {
            object["status"]["allocatable"][key].as_str().and_then(thousandths).unwrap_or(0)
        };
        let count = |amount: u128| u64::try_from(amount / 1000).unwrap_or(0);
        let gpus = count(amount(GPU));
        let allocatable = object["status"]["allocatable"].as_object().into_iter().flatten();
        let devices = allocatable.map(|(name, _)| name).filter(|name| is_device(name));
        let is_divided = metadata["labels"]["nvidia.com/gpu.product"]
            .as_str()
            .is_some_and(|product| product.contains("-MIG-"));
        let cards = label("nvidia.com/gpu.count").unwrap_or(gpus);
        let has_taint = |taint: &Value| taint["effect"] != "PreferNoSchedule";
        Self {
            name: metadata["name"].as_str().unwrap_or_default().to_owned(),
            is_gone: gone,
            is_closed: spec["unschedulable"] == true
                || spec["taints"].as_array().into_iter().flatten().any(has_taint),
            cards: u32::try_from(cards).unwrap_or(0),
            card_bytes: label("nvidia.com/gpu.memory").map(|mib| u128::from(mib) << 20),
            gpus,
            devices: devices.map(|name| (name.clone(), count(amount(name)))).collect(),
            has_replicas: label("nvidia.com/gpu.replicas").is_some_and(|n| n > 1)
                || gpus > cards
                || is_divided,
            cpu: amount("cpu"),
            memory: amount("memory") / 1000,
            pods: amount("pods") / 1000,
            provider: metadata["labels"][PROVIDER]
                .as_str()
                .filter(|_| metadata["annotations"]["divvy.dev/cdi-kind"].is_string())
                .map(str::to_owned),
        }
    }
}
