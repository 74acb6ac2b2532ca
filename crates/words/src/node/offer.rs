//! What the device plugin of a node hands out before it shares anything, taken from the labels and
//! amounts of its manifest, and written back as plugin and feature discovery would.

use crate::config::{MigStrategy, Sharing};
use crate::keys;
use crate::manifest::{Content, NodeStatus, Object, ResourceList, Texts};
use crate::quantity::Quantity;
use divvy_ledger::{Bytes, Device, Division, Profile};
use std::collections::BTreeMap;

const COUNT: &str = "count";
const REPLICAS: &str = "replicas";
const PRODUCT: &str = "product";
const STRATEGY: &str = "sharing-strategy";
const MEMORY: &str = "memory";
const SHARED: &str = ".shared";
/// What stands for a profile where slices cannot be called as whole GPUs.
const INVALID: &str = "INVALID";

/// What the device plugin of a node hands out before it shares anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The model of the cards.
    pub product: Option<String>,
    /// How many cards there are, if that is known.
    pub cards: Option<u32>,
    /// How many of them are handed out whole.
    pub whole: u32,
    /// Slices under names of their own, and the memory of each if somebody says it.
    pub slices: BTreeMap<Profile, (u32, Option<Bytes>)>,
    /// Slices under the name of whole GPUs.
    pub single: Option<Single>,
    /// Whether MIG divides some card.
    pub is_divided: bool,
}

/// Slices under the name of whole GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Single {
    /// Their profile, as the product label names it.
    pub profile: String,
    /// How many there are.
    pub count: u32,
    /// The memory of each, if it is not what the node says already.
    pub memory: Option<Bytes>,
}

impl Offer {
    /// What a node hands out; `None` if it has no GPU of NVIDIA's.
    pub fn of(node: &Object) -> Option<Self> {
        let Content::Node(content) = &node.content else { return None };
        let labels = &node.metadata.labels;
        let none = ResourceList::default();
        let amounts = super::allocatable(content.1.as_ref()).map_or(&none, |(_, list)| list);
        let gpu = Resource { name: keys::GPU, labels, amounts };
        let label = labels.get(keys::LABEL_GPU_PRODUCT);
        let label = label.map(|text| text.strip_suffix(keys::SHARED_PRODUCT).unwrap_or(text));
        let (product, profile) = match label.and_then(|text| text.split_once(keys::MIG_PRODUCT)) {
            Some((product, profile)) => (Some(product), Some(profile)),
            None => (label, None),
        };
        let slices: BTreeMap<Profile, (u32, Option<Bytes>)> = profiles(labels, amounts)
            .map(|profile| {
                let name = Device::Slice(profile).to_string();
                let slice = Resource { name: &name, labels, amounts };
                let memory = slice.number(MEMORY).map(Bytes::from_mib);
                (profile, (slice.unshared(), memory))
            })
            .collect();
        let count = gpu.number(COUNT).and_then(|count| u32::try_from(count).ok());
        let cards = match (profile, count) {
            // The label counts slices then.
            (Some(_), _) => None,
            (None, Some(count)) => Some(count),
            (None, None) if !slices.is_empty() || gpu.is_renamed() => None,
            (None, None) => Some(gpu.unshared()),
        };
        if profile.is_none() && slices.is_empty() && cards == Some(0) {
            return None;
        }
        let whole = match cards {
            Some(cards) => gpu.unshared().min(cards),
            None => gpu.unshared(),
        };
        Some(Self {
            product: product.map(str::to_owned),
            cards,
            whole: if profile.is_some() { 0 } else { whole },
            is_divided: profile.is_some() || !slices.is_empty(),
            slices,
            single: profile.map(|profile| Single {
                profile: profile.to_owned(),
                count: whole,
                memory: None,
            }),
        })
    }

    /// What there is of each resource before it is shared.
    pub fn resources(&self) -> Vec<(String, u32)> {
        let gpus = self.single.as_ref().map_or(self.whole, |single| single.count);
        let slices = self.slices.iter().map(|(p, (n, _))| (Device::Slice(*p).to_string(), *n));
        let all = std::iter::once((keys::GPU.to_owned(), gpus)).chain(slices);
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// The node as it is once this is shared so, and what it hands out then. `relabels` says that
    /// slices are others than before.
    pub fn write(
        &self,
        node: &Object,
        sharing: Option<&Sharing>,
        relabels: bool,
        mut set: Vec<(String, String)>,
    ) -> (Object, Vec<(String, u64)>) {
        let mut offered = Vec::new();
        for (name, count) in self.resources() {
            let replicas = sharing.map_or(1, |sharing| sharing.replicas(&name));
            let renamed = replicas > 1 && sharing.is_some_and(|sharing| sharing.renames);
            let called = if renamed { format!("{name}{SHARED}") } else { name.clone() };
            offered.push((called, u64::from(count) * u64::from(replicas)));
            let by = sharing.filter(|_| replicas > 1).map(|sharing| sharing.by);
            let mut label = |key: &str, text: String| set.push((format!("{name}.{key}"), text));
            label(REPLICAS, replicas.to_string());
            label(STRATEGY, strategy(by).to_owned());
            let profile = Device::of_resource(&name).and_then(Device::profile);
            let profile = profile.map(|profile| profile.to_string());
            let profile = profile.or_else(|| Some(self.single.as_ref()?.profile.clone()));
            if let Some(product) = &self.product {
                let mig = profile
                    .as_ref()
                    .map_or(String::new(), |profile| format!("{}{profile}", keys::MIG_PRODUCT));
                let shared = if replicas > 1 && !renamed { keys::SHARED_PRODUCT } else { "" };
                label(PRODUCT, format!("{product}{mig}{shared}"));
            }
            match (profile, self.cards) {
                (None, Some(cards)) => label(COUNT, cards.to_string()),
                _ => label(COUNT, count.to_string()),
            }
        }
        // Cards that are all divided are counted and described, too.
        if self.single.is_none() && self.whole == 0 {
            let mut label =
                |key: &str, text: String| set.push((format!("{}.{key}", keys::GPU), text));
            label(REPLICAS, "0".to_owned());
            label(STRATEGY, strategy(None).to_owned());
            self.cards.into_iter().for_each(|cards| label(COUNT, cards.to_string()));
            self.product.iter().for_each(|product| label(PRODUCT, product.clone()));
        }
        for (profile, (_, memory)) in self.slices.iter().filter(|_| relabels) {
            let memory = memory.unwrap_or_else(|| profile.memory());
            set.push((format!("{}.{MEMORY}", Device::Slice(*profile)), memory.mib().to_string()));
        }
        if let Some(memory) = self.single.as_ref().and_then(|single| single.memory) {
            set.push((keys::LABEL_GPU_MEMORY.to_owned(), memory.mib().to_string()));
        }
        let drops = |key: &str| {
            let of_gpu = key.strip_prefix(keys::GPU).and_then(|key| key.strip_prefix('.'));
            let is_of_gpu =
                of_gpu.is_some_and(|k| [COUNT, REPLICAS, PRODUCT, STRATEGY].contains(&k));
            is_of_gpu || relabels && key.starts_with(keys::MIG_PREFIX)
        };
        (rewritten(node, drops, set, &offered), offered)
    }

    /// The node when its device plugin does not start. `is_invalid` says that feature discovery has
    /// found slices that cannot be called as whole GPUs.
    pub fn withhold(&self, node: &Object, is_invalid: bool) -> Object {
        if !is_invalid {
            return rewritten(node, |_| false, Vec::new(), &[]);
        }
        let product = self.product.as_deref().unwrap_or_default();
        let gpu = |key: &str, text: String| (format!("{}.{key}", keys::GPU), text);
        let set = vec![
            gpu(PRODUCT, format!("{product}{}{INVALID}", keys::MIG_PRODUCT)),
            gpu(COUNT, "0".to_owned()),
            gpu(REPLICAS, "0".to_owned()),
            gpu(STRATEGY, String::new()),
        ];
        rewritten(node, |key| key.starts_with(keys::MIG_PREFIX), set, &[])
    }
}

fn rewritten(
    node: &Object,
    drops: impl Fn(&str) -> bool,
    set: Vec<(String, String)>,
    offered: &[(String, u64)],
) -> Object {
    let mut node = node.clone();
    node.metadata.labels = node.metadata.labels.with(drops, set);
    if let Content::Node(content) = &mut node.content
        && let Some(NodeStatus { capacity, allocatable }) = &mut content.1
    {
        for list in [capacity, allocatable].into_iter().flatten() {
            *list =
                list.with(|name| name == keys::GPU || Device::of_resource(name).is_some(), offered);
        }
    }
    node
}

const fn strategy(by: Option<Division>) -> &'static str {
    match by {
        Some(Division::TimeSlices) => "time-slicing",
        Some(Division::Mps) => "mps",
        Some(Division::Mig) | None => "none",
    }
}

/// The profiles of the slices of a node.
fn profiles<'a>(
    labels: &'a Texts,
    amounts: &'a ResourceList,
) -> impl Iterator<Item = Profile> + 'a {
    let labelled = labels.iter().filter_map(|(key, _)| key.strip_suffix(".count"));
    let offered =
        amounts.iter().filter(|(_, amount)| amount.as_ref().is_ok_and(|q| *q > Quantity::ZERO));
    let names = labelled.chain(offered.map(|(name, _)| name));
    names.filter_map(|name| Device::of_resource(name)?.profile())
}

/// A resource of a node as it is now.
struct Resource<'a> {
    name: &'a str,
    labels: &'a Texts,
    amounts: &'a ResourceList,
}

impl Resource<'_> {
    /// A label about it that is a number.
    fn number(&self, key: &str) -> Option<u64> {
        self.labels.get(&format!("{}.{key}", self.name))?.parse().ok()
    }

    fn amount(&self, suffix: &str) -> u64 {
        let amount = self.amounts.get(&format!("{}{suffix}", self.name));
        amount.map_or(0, Quantity::value_ceil)
    }

    /// Whether replicas of it have a name of their own.
    fn is_renamed(&self) -> bool {
        self.amount(SHARED) > 0
    }

    /// How many there are, each counted once.
    fn unshared(&self) -> u32 {
        let replicas = self.number(REPLICAS).unwrap_or(1).max(1);
        let all = self.amount("").saturating_add(self.amount(SHARED));
        u32::try_from(all / replicas).unwrap_or(u32::MAX)
    }
}

/// How MIG slices of a node are called, as its label says.
pub fn mig_strategy_of(node: &Object) -> Option<MigStrategy> {
    MigStrategy::parse(node.metadata.labels.get(keys::LABEL_MIG_STRATEGY)?)
}
