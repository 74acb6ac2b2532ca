//! Cards of nodes with a device plugin: which of them are shared, who holds them, and what is said
//! about it on nodes and pods.
//!
//! ```text
//!   a share opens a card ─► Reserve ─► the pod runs ─► its card is known ─► Bind, all that wait
//!   the last share is gone ─► Unreserve ─► the pod is gone ─► the card is free
//!   a reservation is lost ─► unsettled ─► win back ─┬─► held again
//!                                                   └─► trouble: conditions, the card is closed
//! ```

mod adopt;
mod devices;
mod ghosts;
mod grant;
mod reservations;
mod reserved;
mod settle;
pub(super) mod slots;
mod trouble;
mod unseen;
mod wanted;
mod win_back;

use super::bindings::Bindings;
use super::context::Context;
use crate::objects::PodItem;
use crate::place::Place;
use divvy_engine::{Event, ObjectKey};
use divvy_ledger::{Card, Holding, Node};
use foldhash::{HashMap, HashSet};
use slots::{Hold, Slots};
use std::collections::BTreeMap;
use wanted::Wanted;

/// What is known of cards and their reservations.
#[derive(Debug, Default)]
pub(super) struct Cards {
    slots: Slots,
    reservations: reserved::Reservations,
    /// The cards of whole-GPU pods, where the kubelet tells.
    devices: devices::Devices,
    unseen: unseen::Unseen,
    ghosts: ghosts::Ghosts,
    adoption: adopt::Adoption,
    /// Nodes whose shared cards are to be looked at.
    unsettled: HashSet<Box<str>>,
    /// Nodes whose reservations may not be needed any more.
    idle: HashSet<Box<str>>,
    searches: HashMap<Box<str>, win_back::Search>,
    /// Nodes on which cards are missing, as they were when that was found.
    grounds: HashMap<Box<str>, trouble::Ground>,
    /// The pods that say what is wrong with their cards, by name of the condition, and their nodes.
    troubled: BTreeMap<(ObjectKey, &'static str), Box<str>>,
    wanted: Wanted,
    nodes: HashMap<Box<str>, KnownNode>,
}

/// What is known of a node besides what the engine knows.
#[derive(Debug)]
pub(super) struct KnownNode {
    pub(super) uid: Box<str>,
    /// The kind of its cards for the container runtime, if a provider was installed there.
    pub(super) kind: Option<Box<str>>,
}

impl Cards {
    /// A node is there, with our taint or without.
    pub(super) fn node_seen(&mut self, name: &str, is_tainted: bool) {
        self.wanted.seen(Place::Taint(name.into()), is_tainted.then(Box::default));
    }

    /// What a node has may have changed.
    pub(super) fn node_read(&mut self, name: Box<str>, node: KnownNode) {
        self.look_at(&name);
        self.nodes.insert(name, node);
    }

    pub(super) fn node_gone(&mut self, name: &str) {
        self.nodes.remove(name);
        self.wanted.forget(&Place::Taint(name.into()));
    }

    /// A pod is bound.
    pub(super) fn pod_bound(&mut self, key: &ObjectKey, pod: &PodItem, cx: &Context) {
        self.meet(key, pod, cx);
        self.notice_conditions(key, pod);
        self.notice_devices(key, pod);
    }

    /// A pod has ended: its cards are free.
    pub(super) fn pod_ended(&mut self, key: &ObjectKey, cx: &Context) {
        self.forget_devices(key, cx);
        self.forget_conditions(key);
        self.ghosts.forget(key);
    }

    /// A pod is gone from the API.
    pub(super) fn pod_gone(&mut self, key: &ObjectKey, bindings: &mut Bindings, cx: &mut Context) {
        self.forget_adopted(key);
        self.forget_conditions(key);
        self.ghosts.forget(key);
        self.reservation_lost(key, reservations::DELETED, bindings, cx);
        self.forget_devices(key, cx);
    }

    /// Tells the engine of a pod. If it has cards, they may be nobody's soon.
    pub(super) fn apply(&mut self, event: Event, cx: &mut Context) {
        let key = match &event {
            Event::Pod(record) => Some(&record.key),
            Event::PodGone(key) => Some(key),
            _ => None,
        };
        let has_gpus = |h: &&Holding| !h.needs.request.is_none() || h.keeps.is_some() || h.unknown;
        if let Some(key) = key.filter(|_| !self.slots.is_empty() || !self.troubled.is_empty())
            && cx.scheduler.holding(key).filter(has_gpus).is_some()
            && let Some(node) = cx.node_of(key)
        {
            self.look_at(node.name());
        }
        cx.apply(event);
    }

    /// Looks at the shared cards of a node before the next pass, if it has any.
    fn look_at(&mut self, node: &str) {
        if self.slots.of(node).next().is_some() || self.is_troubled(node) {
            self.unsettled.insert(node.into());
        }
    }

    /// Looks at the shared cards of a node before the next pass.
    pub(super) fn unsettle(&mut self, node: &str) {
        self.unsettled.insert(node.into());
    }

    /// What is to stand on nodes and pods.
    pub(super) const fn wanted(&mut self) -> &mut Wanted {
        &mut self.wanted
    }

    /// Whether a pod has or will have a share of a card.
    fn is_used(&self, node: &str, index: u32, cx: &Context) -> bool {
        let mut unentered = cx.scheduler.claimants(node, index);
        // One of those whose cards nobody knows may be on it.
        cx.node(node).is_some_and(Node::has_unknown_holder)
            || unentered.next().is_some()
            || !sharers(node, index, cx).is_empty()
    }

    /// The index for a card that nobody has named yet: a free one, if there is.
    fn vacant(&self, node: &str, cx: &Context) -> u32 {
        let free = cx.node(node).into_iter().flat_map(Node::free_cards);
        self.slots.vacant(node, free.filter_map(|index| u32::try_from(index).ok()))
    }

    /// Cards that are shared and given to another pod, and such that are missing.
    pub(super) fn troubled(&self) -> (usize, usize) {
        (self.slots.count(Hold::Taken), self.slots.count(Hold::Missing))
    }

    #[cfg(test)]
    pub(super) const fn slots(&self) -> &Slots {
        &self.slots
    }
}

/// The pods that have or will have a share of a card.
fn sharers(node: &str, index: u32, cx: &Context) -> Vec<ObjectKey> {
    let card = cx.node(node).and_then(|node| node.cards().get(index as usize));
    let shares = card.map_or(&[][..], Card::shares).iter();
    shares.filter_map(|share| cx.scheduler.pod_key(share.pod)).cloned().collect()
}
