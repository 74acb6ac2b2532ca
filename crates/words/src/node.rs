//! A node manifest into a record for the engine.

mod offer;

pub use offer::{Offer, Single, mig_strategy_of};

use crate::keys;
use crate::manifest::{Content, NodeManifest, NodeStatus, Object, ResourceList, Texts};
use crate::problem::{Problems, check_metadata, short};
use crate::quantity::Quantity;
use crate::{affinity, resources};
use divvy_engine::{NodeFacts, NodeRecord, Taint};
use divvy_ledger::{Bytes, Device, DividedCard, Division, Gpus, MilliCpu, Pool, Profile};

/// What kubelets allow if they are not told otherwise.
const DEFAULT_PODS: u32 = 110;
/// More cards than any machine has; a number beyond is a mistake, and costs memory.
const MAX_CARDS: u64 = 1024;
/// The label is in MiB, but some tools write bytes: 1 Ti and more can only be that.
const BYTES_FROM: u64 = 1 << 20;
/// No card has a PiB.
const MAX_CARD_MEMORY: u64 = 1 << 50;

/// The record of a node and warnings about what is odd, or what is wrong with it.
pub fn node(object: &Object) -> Result<(NodeRecord, Vec<String>), String> {
    let Content::Node(content) = &object.content else {
        return Err(format!("kind: {:?} is no Node", short(&object.kind)));
    };
    let (spec, status) = &**content;
    let metadata = &object.metadata;
    let mut problems = Problems::default();
    check_metadata(metadata, false, &mut problems);
    let taints = taints(spec, &mut problems);
    let mut warnings = Vec::new();
    let none = ResourceList::default();
    let reported = allocatable(status.as_ref());
    // Nodes written by hand often leave these out, and then do not mean 0. One that has reported
    // nothing yet takes no pod, as everywhere.
    let (default_pods, default_ephemeral) = match reported {
        Some(_) => (DEFAULT_PODS, i64::MAX.unsigned_abs()),
        None => (0, 0),
    };
    let (field, allocatable) = reported.unwrap_or_else(|| {
        warnings.push(format!(
            "node {}: status.allocatable and status.capacity are missing: no pod fits",
            metadata.name
        ));
        ("allocatable", &none)
    });
    check_amounts(field, allocatable, &mut problems);
    if let Some(problem) = problems.into_first() {
        return Err(problem);
    }
    let capacity = status.as_ref().and_then(|status| status.capacity.as_ref());
    let all = capacity.unwrap_or(allocatable);
    let amount = |name| allocatable.get(name);
    let value = |name| amount(name).unwrap_or_default().value_ceil();
    let owned = |(key, value): (&str, &str)| (key.into(), value.into());
    let valid =
        allocatable.iter().filter_map(|(name, amount)| Some((name, *amount.as_ref().ok()?)));
    let record = NodeRecord {
        name: metadata.name.to_string(),
        facts: NodeFacts {
            labels: metadata.labels.iter().map(owned).collect(),
            taints,
            unschedulable: spec.unschedulable,
            drained: false,
        },
        cpu: MilliCpu(amount(keys::CPU).unwrap_or_default().milli_ceil()),
        memory: Bytes(value(keys::MEMORY)),
        ephemeral: Bytes(
            amount(keys::EPHEMERAL_STORAGE).map_or(default_ephemeral, Quantity::value_ceil),
        ),
        pods: amount(keys::PODS)
            .map_or(default_pods, |pods| u32::try_from(pods.value_ceil()).unwrap_or(u32::MAX)),
        extended: resources::counted(valid),
        gpus: gpus(&metadata.name, &metadata.labels, allocatable, all, &mut warnings),
        model: metadata.labels.get(keys::LABEL_GPU_PRODUCT).map(str::to_owned),
    };
    Ok((record, warnings))
}

/// Whether the scheduler has said that it is not certain who has which card of a node.
pub fn is_unsettled(spec: &NodeManifest) -> bool {
    spec.taints.iter().any(|taint| &*taint.key == keys::UNSETTLED)
}

fn allocatable(status: Option<&NodeStatus>) -> Option<(&'static str, &ResourceList)> {
    let status = status?;
    let allocatable = status.allocatable.as_ref().map(|list| ("allocatable", list));
    allocatable.or_else(|| status.capacity.as_ref().map(|list| ("capacity", list)))
}

fn taints(spec: &NodeManifest, problems: &mut Problems) -> Vec<Taint> {
    let mut taints = Vec::with_capacity(spec.taints.len());
    // Our own is for others: divvy itself gives no GPU there, and all else.
    let others = spec.taints.iter().enumerate().filter(|(_, t)| &*t.key != keys::UNSETTLED);
    for (index, taint) in others {
        match affinity::effect(&taint.effect) {
            Some(effect) => {
                taints.push(Taint { key: taint.key.clone(), value: taint.value.clone(), effect });
            }
            None => problems.note(|| {
                format!("spec.taints[{index}].effect: {}", affinity::no_effect(&taint.effect))
            }),
        }
    }
    taints
}

fn check_amounts(field: &str, list: &ResourceList, problems: &mut Problems) {
    for (name, amount) in list.iter() {
        let path = || format!("status.{field}[\"{}\"]", short(name));
        match amount {
            Err(error) => problems.note(|| format!("{}: {error}", path())),
            Ok(q) if q.is_negative() => {
                problems.note(|| format!("{}: {q} is negative; allowed is 0 or more", path()));
            }
            Ok(_) => {}
        }
    }
}

/// A label that is a number, with a warning if it is none.
fn number(node: &str, labels: &Texts, label: &str, warnings: &mut Vec<String>) -> Option<u64> {
    let text = labels.get(label)?;
    let number = text.parse().ok();
    if number.is_none() {
        let text = short(text);
        warnings.push(format!("node {node}: label {label}: {text:?} is no whole number: ignored"));
    }
    number
}

/// What the device plugin hands out, and what feature discovery says that it is. `all` counts what is
/// not well, too.
fn gpus(
    node: &str,
    labels: &Texts,
    allocatable: &ResourceList,
    all: &ResourceList,
    warnings: &mut Vec<String>,
) -> Gpus {
    let replicas = number(node, labels, keys::LABEL_GPU_REPLICAS, warnings);
    let mut found = NodeLabels {
        labels,
        count: number(node, labels, keys::LABEL_GPU_COUNT, warnings),
        memory: card_memory(node, labels, warnings),
    };
    let handed_out = allocatable.get(keys::GPU).map(Quantity::value_ceil);
    let offered = allocatable.iter().filter_map(|(name, amount)| {
        let count = amount.as_ref().ok()?.value_ceil();
        (count > 0).then_some((Device::of_resource(name)?, clip(count)))
    });
    let mut devices: Vec<(Device, u32)> = offered.collect();
    devices.sort_unstable();
    let has_slices = devices.iter().any(|(device, _)| device.profile().is_some())
        || labels
            .iter()
            .any(|(key, _)| key.starts_with(keys::MIG_PREFIX) && key.ends_with(".count"));
    let renamed = devices.iter().find(|(device, _)| *device == Device::Replica);
    let (is_renamed, renamed) = (renamed.is_some(), renamed.map(|(_, count)| u64::from(*count)));
    // Where MIG slices have names of their own, the label counts the cards behind them, too.
    if has_slices {
        let device = if is_renamed { Device::Replica } else { Device::Gpu };
        // The kubelet knows for some minutes of what a device plugin handed out before it was
        // configured anew: feature discovery says 0 where no card is whole.
        let is_current = replicas.is_some_and(|count| count > 0);
        let there = all.get(&device.to_string()).map(Quantity::value_ceil).filter(|_| is_current);
        let each = u64::from(found.replicas(device));
        found.count = renamed.or(handed_out).max(there).and_then(|count| count.checked_div(each));
    }
    let more_than_cards =
        matches!((handed_out, found.count), (Some(out), Some(cards)) if out > cards);
    let is_replicated = found.replicas(Device::Gpu) != 1 || is_renamed || more_than_cards;
    if is_replicated || found.single().is_some() {
        if !is_renamed || handed_out.is_some_and(|out| out > 0) {
            devices.insert(0, (Device::Gpu, clip(handed_out.unwrap_or(0))));
        }
        let pools: Vec<Pool> =
            devices.into_iter().map(|(device, n)| found.pool(device, n)).collect();
        let divided = found.divided(&pools);
        return Gpus { pools, divided, ..Gpus::none() };
    }
    let pools = devices.into_iter().map(|(device, n)| found.pool(device, n)).collect();
    let count = found.count.or(handed_out).unwrap_or(0);
    if count == 0 {
        return Gpus { pools, ..Gpus::none() };
    }
    if count > MAX_CARDS {
        warnings.push(format!(
            "node {node}: {count} GPUs are more than a machine has: taken as none; allowed are up to {MAX_CARDS}"
        ));
        return Gpus::none();
    }
    // Labels come before the device plugin has registered, and stay when it is gone.
    let usable = clip(handed_out.unwrap_or(0).min(count));
    Gpus { pools, ..Gpus::cards(clip(count), usable, found.memory) }
}

fn clip(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// What feature discovery has found, as its labels say it.
struct NodeLabels<'a> {
    labels: &'a Texts,
    count: Option<u64>,
    memory: Option<Bytes>,
}

impl NodeLabels<'_> {
    /// What stands about a resource.
    fn of(&self, resource: &str, label: &str) -> Option<&str> {
        self.labels.get(&format!("{resource}.{label}"))
    }

    /// The profile of slices under the name of whole GPUs: what stands behind `-MIG-`.
    fn single(&self) -> Option<&str> {
        let (_, profile) =
            self.labels.get(keys::LABEL_GPU_PRODUCT)?.split_once(keys::MIG_PRODUCT)?;
        Some(profile.strip_suffix(keys::SHARED_PRODUCT).unwrap_or(profile))
    }

    /// How many are made of each card or MIG slice; 1 if these are handed out as they are, 0 if all
    /// that is said is that they are not.
    fn replicas(&self, device: Device) -> u32 {
        let resource = unshared(device);
        let said = self.of(&resource, "replicas").and_then(|text| text.parse().ok());
        let is_shared = device.to_string() != resource
            || self.of(&resource, "product").is_some_and(|it| it.ends_with(keys::SHARED_PRODUCT));
        said.filter(|replicas| *replicas > 1).unwrap_or(if is_shared { 0 } else { 1 })
    }

    /// How replicas of a resource are made.
    fn sharing(&self, resource: &str) -> Option<Division> {
        match self.of(resource, "sharing-strategy")? {
            "time-slicing" => Some(Division::TimeSlices),
            "mps" => Some(Division::Mps),
            _ => None,
        }
    }

    fn pool(&self, device: Device, count: u32) -> Pool {
        let resource = unshared(device);
        let single = self.single().map(|name| Profile::parse(&name.replace('+', ".")));
        let is_slice = device.profile().is_some() || single.is_some();
        let profile = device.profile().or(single.flatten());
        let replicas = match self.replicas(device) {
            // As many as are here cannot be cards.
            1 if !is_slice => 0,
            said => said,
        };
        let own = self.of(&resource, "memory").and_then(|text| text.parse().ok());
        let own = own.filter(|mib| (1..BYTES_FROM).contains(mib)).map(Bytes::from_mib);
        let memory = if device.profile().is_some() { own } else { self.memory };
        let all = memory.or_else(|| profile.map(Profile::memory));
        let cards = self.count.filter(|count| !is_slice && *count <= MAX_CARDS);
        let by = self.sharing(&resource).or((is_slice && replicas == 1).then_some(Division::Mig));
        Pool {
            by,
            profile,
            each: all.and_then(|all| all.0.checked_div(replicas.into())).map(Bytes),
            cards: cards.map_or(0, clip),
            replicas,
            one_each: by == Some(Division::Mps),
            ..Pool::of(device, count)
        }
    }

    /// The cards behind replicas of whole cards, which are divided alike.
    fn divided(&self, pools: &[Pool]) -> Vec<DividedCard> {
        let is_known = |pool: &&Pool| pool.cards > 0 && pool.replicas > 1 && pool.profile.is_none();
        let by = pools.iter().filter(is_known).find_map(|pool| Some((pool, pool.by?)));
        let Some((pool, by)) = by else { return Vec::new() };
        let into = [(pool.device, pool.replicas)].into_iter().collect();
        vec![DividedCard { memory: self.memory, by, into }; pool.cards as usize]
    }
}

/// What is replicated under a name, if it is.
pub(crate) fn unshared(device: Device) -> String {
    device.profile().map_or_else(|| keys::GPU.to_owned(), |p| Device::Slice(p).to_string())
}

fn card_memory(node: &str, labels: &Texts, warnings: &mut Vec<String>) -> Option<Bytes> {
    let label = keys::LABEL_GPU_MEMORY;
    let number = number(node, labels, label, warnings)?;
    let bytes = if number >= BYTES_FROM { Bytes(number) } else { Bytes::from_mib(number) };
    if bytes.0 == 0 || bytes.0 > MAX_CARD_MEMORY {
        warnings.push(format!(
            "node {node}: label {label}: {number} is not the memory of a card in MiB: ignored, so \
             gpu-memory cannot be placed there"
        ));
        return None;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
