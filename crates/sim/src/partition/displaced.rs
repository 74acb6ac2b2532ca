//! What pods hold now that the nodes would not have any more.

use divvy_engine::ObjectKey;
use divvy_ledger::{Device, Gpus, Request};
use std::collections::{BTreeMap, BTreeSet};

/// What is held of a node and would not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisplacedDevices {
    /// The node.
    pub node: String,
    /// Of what; `None` for cards that are not divided.
    pub device: Option<Device>,
    /// How many are held.
    pub held: u32,
    /// How many there would be.
    pub left: u32,
    /// Who holds them; which of them would lose theirs is not known.
    pub pods: Vec<DisplacedHolder>,
}

/// Who holds something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisplacedHolder {
    /// Which pod.
    pub pod: ObjectKey,
    /// What it asked for.
    pub request: String,
}

/// What nodes had before, what they have after, and what is held of it.
#[derive(Default)]
pub(crate) struct BeforeConfigs {
    nodes: BTreeMap<String, (Gpus, Gpus)>,
    held: BTreeMap<(String, Option<Device>), Held>,
}

#[derive(Default)]
struct Held {
    /// Whole cards, and devices.
    count: u32,
    /// Shares are on one card at least.
    has_shares: bool,
    pods: Vec<DisplacedHolder>,
}

impl BeforeConfigs {
    pub(crate) fn node(&mut self, name: &str, before: Gpus, after: Gpus) {
        self.nodes.insert(name.to_owned(), (before, after));
    }

    pub(crate) fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// A pod that is bound to a node.
    pub(crate) fn pod(&mut self, node: &str, pod: &ObjectKey, request: &Request) {
        let Some((before, _)) = self.nodes.get(node) else { return };
        let of_gpus = before.pool(Device::Gpu).map(|_| Device::Gpu);
        let whole = Some((of_gpus, request.whole_cards())).filter(|(_, count)| *count > 0);
        let share = request.is_share().then_some((None, 0));
        let devices = request.devices().map(|(device, count)| (Some(device), count));
        for (device, count) in whole.into_iter().chain(share).chain(devices) {
            let held = self.held.entry((node.to_owned(), device)).or_default();
            held.count = held.count.saturating_add(count);
            held.has_shares |= request.is_share() && device.is_none();
            held.pods.push(DisplacedHolder { pod: pod.clone(), request: request.to_string() });
        }
    }

    /// What would not be there, and whose it is.
    pub(crate) fn finish(self) -> (Vec<DisplacedDevices>, BTreeSet<ObjectKey>) {
        let Self { nodes, held } = self;
        let displaced = held.into_iter().filter_map(|((node, device), held)| {
            let (before, after) = nodes.get(&node)?;
            let left = left(before, after, device);
            let Held { count, has_shares, mut pods } = held;
            let held = count.saturating_add(has_shares.into());
            pods.sort_by(|a, b| a.pod.cmp(&b.pod));
            (held > left).then_some(DisplacedDevices { node, device, held, left, pods })
        });
        let displaced: Vec<DisplacedDevices> = displaced.collect();
        let whose = displaced.iter().flat_map(|d| &d.pods).map(|holder| holder.pod.clone());
        let whose = whose.collect();
        (displaced, whose)
    }
}

/// How many there are after of what there was before: the same name for something else is something
/// else.
fn left(before: &Gpus, after: &Gpus, device: Option<Device>) -> u32 {
    let Some(device) = device else {
        return u32::try_from(after.cards.len()).unwrap_or(u32::MAX);
    };
    let Some(now) = after.pool(device) else { return 0 };
    let is_same = before
        .pool(device)
        .is_none_or(|was| (was.by.is_none() || was.by == now.by) && was.profile == now.profile);
    if is_same { now.count } else { 0 }
}
