//! What pods hold now that the nodes would not have any more.

use crate::adopt::HeldCard;
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
    /// How many there would be; of cards of which it is known that they would be divided, none.
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
    nodes: BTreeMap<String, ChangedGpus>,
    cards: BTreeMap<String, HeldCards>,
    devices: BTreeMap<(String, Device), (u32, Vec<DisplacedHolder>)>,
}

struct ChangedGpus {
    before: Gpus,
    after: Gpus,
    /// The numbers of the cards that MIG divides.
    divided: BTreeSet<u32>,
}

/// The cards of a node that pods hold, whole or in shares.
#[derive(Default)]
struct HeldCards {
    /// Those that somebody names, with the number of each if that is known.
    named: BTreeMap<String, Option<u32>>,
    /// Whole ones of which nobody says which they are.
    nameless: u32,
    /// On how many the shares are at least of which nobody says where they are.
    least: u32,
    /// Who holds them, and those of each that are named.
    pods: Vec<(DisplacedHolder, Vec<String>)>,
}

impl HeldCards {
    fn add(&mut self, holder: DisplacedHolder, request: &Request, cards: Vec<HeldCard>) {
        if cards.is_empty() {
            match request.is_share() {
                true => self.least = self.least.max(request.cards()),
                false => self.nameless = self.nameless.saturating_add(request.cards()),
            }
        }
        let names = cards.iter().map(|card| card.name.clone()).collect();
        self.named.extend(cards.into_iter().map(|card| (card.name, card.number)));
        self.pods.push((holder, names));
    }

    /// Who would lose cards: how many are held, how many of them would be there, and by whom.
    fn lost(self, gpus: &ChangedGpus) -> Option<(u32, u32, Vec<DisplacedHolder>)> {
        let count = |all: usize| u32::try_from(all).unwrap_or(u32::MAX);
        let is_cut = |number: &Option<u32>| number.is_some_and(|n| gpus.divided.contains(&n));
        let (all, left) = (count(self.named.len()), count(gpus.after.cards.len()));
        let held = all.saturating_add(self.nameless).max(self.least);
        let cut = count(self.named.values().filter(|number| is_cut(number)).count());
        if held - cut > left {
            return Some((held, left, self.pods.into_iter().map(|(holder, _)| holder).collect()));
        }
        let loses =
            |names: &[String]| names.iter().filter_map(|name| self.named.get(name)).any(is_cut);
        let losers = self.pods.iter().filter(|(_, names)| loses(names));
        (cut > 0).then(|| (cut, 0, losers.map(|(holder, _)| holder.clone()).collect()))
    }
}

impl BeforeConfigs {
    /// A node, and the numbers of those of its cards that MIG would divide.
    pub(crate) fn node(
        &mut self,
        name: &str,
        before: Gpus,
        after: Gpus,
        divided: impl Iterator<Item = u32>,
    ) {
        let divided = divided.collect();
        self.nodes.insert(name.to_owned(), ChangedGpus { before, after, divided });
    }

    pub(crate) fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// A pod that is bound to a node, and the cards that it is known to have.
    pub(crate) fn pod(
        &mut self,
        node: &str,
        pod: &ObjectKey,
        request: &Request,
        cards: Vec<HeldCard>,
    ) {
        let Some(gpus) = self.nodes.get(node) else { return };
        let holder = || DisplacedHolder { pod: pod.clone(), request: request.to_string() };
        let are_devices = gpus.before.pool(Device::Gpu).is_some() && request.whole_cards() > 0;
        let called = are_devices.then(|| (Device::Gpu, request.whole_cards()));
        if request.asks_cards() && !are_devices {
            let held = self.cards.entry(node.to_owned()).or_default();
            held.add(holder(), request, cards);
        }
        for (device, count) in called.into_iter().chain(request.devices()) {
            let (held, pods) = self.devices.entry((node.to_owned(), device)).or_default();
            *held = held.saturating_add(count);
            pods.push(holder());
        }
    }

    /// What would not be there, and whose it is.
    pub(crate) fn finish(self) -> (Vec<DisplacedDevices>, BTreeSet<ObjectKey>) {
        let Self { nodes, cards, devices } = self;
        let cards = cards.into_iter().filter_map(|(node, held)| {
            let (held, left, pods) = held.lost(nodes.get(&node)?)?;
            Some(DisplacedDevices { node, device: None, held, left, pods })
        });
        let devices = devices.into_iter().filter_map(|((node, device), (held, pods))| {
            let left = left(nodes.get(&node)?, device);
            let device = Some(device);
            (held > left).then_some(DisplacedDevices { node, device, held, left, pods })
        });
        let mut displaced: Vec<DisplacedDevices> = cards.chain(devices).collect();
        displaced.sort_by(|a, b| (&a.node, a.device).cmp(&(&b.node, b.device)));
        displaced.iter_mut().for_each(|lost| lost.pods.sort_by(|a, b| a.pod.cmp(&b.pod)));
        let whose = displaced.iter().flat_map(|d| &d.pods).map(|holder| holder.pod.clone());
        let whose = whose.collect();
        (displaced, whose)
    }
}

/// How many there are after of what there was before: the same name for something else is something
/// else.
fn left(ChangedGpus { before, after, .. }: &ChangedGpus, device: Device) -> u32 {
    let Some(now) = after.pool(device) else { return 0 };
    let is_same = before
        .pool(device)
        .is_none_or(|was| (was.by.is_none() || was.by == now.by) && was.profile == now.profile);
    if is_same { now.count } else { 0 }
}
