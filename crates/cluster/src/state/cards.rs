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
use adopt::{Adoption, LeftByKai};
use devices::Devices;
use divvy_engine::{Event, ObjectKey};
use divvy_ledger::{Card, CardShare, Holding, Node, Request};
use foldhash::{HashMap, HashSet};
use ghosts::Ghosts;
use reserved::Reservations;
use slots::{Hold, Slots};
use std::sync::Arc;
use trouble::Trouble;
use unseen::Unseen;
use wanted::Wanted;
use win_back::Searches;

/// What is known of cards and their reservations.
///
/// The first four are who holds which card, and change together. The others are parts: each owns what
/// it knows, is given what else it needs, and says what is to be done.
#[derive(Debug, Default)]
pub(super) struct Cards {
    slots: Slots,
    reservations: Reservations,
    /// Nodes whose shared cards are to be looked at.
    unsettled: HashSet<Box<str>>,
    /// Nodes whose reservations may not be needed any more.
    idle: HashSet<Box<str>>,
    /// The cards of whole-GPU pods, where the kubelet tells.
    devices: Devices,
    unseen: Unseen,
    searches: Searches,
    trouble: Trouble,
    nodes: HashMap<Box<str>, KnownNode>,
    pub(super) ghosts: Ghosts,
    pub(super) adoption: Adoption,
    /// What is to stand on nodes and pods.
    pub(super) wanted: Wanted,
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
        let Self { adoption, trouble, slots, wanted, .. } = self;
        adoption.meet(key, pod, slots, wanted, cx);
        let node = pod.node().unwrap_or_default();
        if trouble.notice(key, pod, wanted) {
            self.unsettle(node);
        }
        if self.devices.notice(key, pod) {
            self.look_at(node);
        }
    }

    /// A pod has ended: its cards are free.
    pub(super) fn pod_ended(&mut self, key: &ObjectKey, cx: &Context) {
        self.forget_devices(key, cx);
        self.trouble.forget(key, &mut self.wanted);
        self.ghosts.forget_grace(key);
    }

    /// A pod is gone from the API.
    pub(super) fn pod_gone(&mut self, key: &ObjectKey, bindings: &mut Bindings, cx: &mut Context) {
        self.adoption.forget(key, &mut self.wanted);
        self.trouble.forget(key, &mut self.wanted);
        self.ghosts.forget_grace(key);
        self.reservation_lost(key, reservations::DELETED, bindings, cx);
        self.forget_devices(key, cx);
    }

    /// The cards of a pod that goes are nobody's.
    fn forget_devices(&mut self, key: &ObjectKey, cx: &Context) {
        if self.devices.remove(key)
            && let Some(node) = cx.node_of(key)
        {
            self.look_at(node.name());
        }
    }

    /// Keeps the cards of a pod that was taken out of the API while its containers may still run.
    pub(super) fn quarantine(&mut self, key: &ObjectKey, cx: &mut Context) {
        for event in self.ghosts.quarantine(key, cx) {
            self.apply(event, cx);
        }
    }

    /// The time of a ghost is over.
    pub(super) fn ghost_gone(&mut self, key: &ObjectKey, cx: &mut Context) {
        if self.ghosts.remove(key) {
            self.apply(Event::PodGone(key.clone()), cx);
        }
    }

    /// Why nothing is given to a pod, if ghosts of its namespace are the reason.
    pub(super) fn haunted(&self, key: &ObjectKey, request: &Request) -> Option<Arc<str>> {
        self.ghosts.haunted(key, request, |node| self.nodes.contains_key(node))
    }

    /// Gives what KAI left to be looked at again, if something has changed; all of it if it is taken
    /// over.
    pub(super) fn take_strangers(&mut self, adopts: bool, cx: &Context) -> LeftByKai {
        self.adoption.take_strangers(adopts, &self.slots, cx)
    }

    /// What KAI left was looked at.
    pub(super) fn looked_at(&mut self, left: &LeftByKai, adopts: bool, cx: &mut Context) {
        self.adoption.looked_at(left, adopts, &self.slots, &mut self.wanted, cx);
    }

    /// The shares of a pod that KAI bound, as far as it is known on which cards.
    pub(super) fn shares_by_group(
        &self,
        pod: &PodItem,
        request: &Request,
        cx: &Context,
    ) -> Vec<CardShare> {
        self.adoption.shares_by_group(pod, request, &self.slots, cx)
    }

    /// Tells the engine of a pod. If it has cards, they may be nobody's soon.
    pub(super) fn apply(&mut self, event: Event, cx: &mut Context) {
        let key = match &event {
            Event::Pod(record) => Some(&record.key),
            Event::PodGone(key) => Some(key),
            _ => None,
        };
        let has_gpus = |h: &&Holding| !h.needs.request.is_none() || h.keeps.is_some() || h.unknown;
        if let Some(key) = key.filter(|_| !self.slots.is_empty() || !self.trouble.is_empty())
            && cx.scheduler.holding(key).filter(has_gpus).is_some()
            && let Some(node) = cx.node_of(key)
        {
            self.look_at(node.name());
        }
        cx.apply(event);
    }

    /// Looks at the shared cards of a node before the next pass, if it has any.
    fn look_at(&mut self, node: &str) {
        if self.slots.of(node).next().is_some() || self.trouble.is_on(node) {
            self.unsettled.insert(node.into());
        }
    }

    /// Looks at the shared cards of a node before the next pass.
    pub(super) fn unsettle(&mut self, node: &str) {
        self.unsettled.insert(node.into());
    }

    /// Whether a pod has or will have a share of a card.
    fn is_used(&self, node: &str, index: u32, cx: &Context) -> bool {
        let mut unentered = cx.scheduler.contenders(node, index);
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
