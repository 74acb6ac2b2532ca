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
mod shared;
pub(super) mod slots;
mod trouble;
mod unseen;
mod wanted;
mod win_back;

use super::bindings::Bindings;
use super::context::Context;
use crate::objects::{BindRequestItem, PodItem};
use crate::place::Place;
use adopt::{Adoption, LeftByKai};
use devices::Devices;
use divvy_api::Failure;
use divvy_engine::{Event, ObjectKey};
use divvy_ledger::{Card, CardShare, Holding, Node, Request};
use foldhash::HashMap;
use ghosts::Ghosts;
use shared::SharedCards;
use slots::Hold;
use std::sync::Arc;
use trouble::Trouble;
use unseen::Unseen;
use wanted::Wanted;
use win_back::Searches;

/// What is known of cards and their reservations.
///
/// Each part owns what it knows, is given what else it needs, and says what is to be done. Here they
/// hear of what concerns several of them.
#[derive(Debug, Default)]
pub(super) struct Cards {
    shared: SharedCards,
    /// The cards of whole-GPU pods, where the kubelet tells.
    devices: Devices,
    unseen: Unseen,
    searches: Searches,
    trouble: Trouble,
    nodes: HashMap<Box<str>, KnownNode>,
    ghosts: Ghosts,
    adoption: Adoption,
    /// What is to stand on nodes and pods.
    wanted: Wanted,
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

    /// What a node has may have changed; then what KAI left there can be taken over, if it does not
    /// run.
    pub(super) fn node_read(&mut self, name: Box<str>, node: KnownNode, kai_runs: bool) {
        if !kai_runs {
            self.adoption.look_again();
        }
        self.look_at(&name);
        self.nodes.insert(name, node);
    }

    pub(super) fn node_gone(&mut self, name: &str) {
        self.nodes.remove(name);
        self.wanted.forget(&Place::Taint(name.into()));
    }

    /// A pod is there, whatever it is.
    pub(super) fn pod_seen(&mut self, key: &ObjectKey) {
        self.adoption.no_stranger(key);
    }

    /// A pod with GPUs is bound: how long its containers have to end.
    pub(super) fn grace_seen(&mut self, key: &ObjectKey, pod: &PodItem) {
        self.ghosts.seen(key, pod);
    }

    /// A pod is bound, and the engine knows.
    pub(super) fn pod_bound(&mut self, key: &ObjectKey, pod: &PodItem, cx: &Context) {
        let Self { adoption, trouble, shared, wanted, .. } = self;
        adoption.meet(key, pod, shared.slots(), wanted, cx);
        let node = pod.node().unwrap_or_default();
        if trouble.notice(key, pod, wanted) {
            self.shared.unsettle(node);
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

    /// A pod was taken out of the API, as it was at last if that is known: its containers may still run,
    /// so its cards are kept.
    pub(super) fn pod_vanished(
        &mut self,
        key: &ObjectKey,
        pod: Option<&PodItem>,
        cx: &mut Context,
    ) {
        if let Some(pod) = pod {
            self.ghosts.seen(key, pod);
        }
        self.quarantine(key, cx);
    }

    /// Another pod of that name is there, and nobody saw how the first one went.
    pub(super) fn pod_replaced(&mut self, key: &ObjectKey, cx: &mut Context) {
        self.quarantine(key, cx);
        self.ghosts.forget_grace(key);
    }

    fn quarantine(&mut self, key: &ObjectKey, cx: &mut Context) {
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

    /// A watch has told of all pods.
    pub(super) fn all_seen(&mut self, bindings: &mut Bindings, cx: &mut Context) {
        self.forget_unseen(bindings, cx);
        self.adoption.look_again();
    }

    /// KAI may be gone for good.
    pub(super) const fn look_for_strangers(&mut self) {
        self.adoption.look_again();
    }

    /// KAI has decided something.
    pub(super) fn decided(&mut self, item: BindRequestItem) {
        self.adoption.decided(item);
    }

    pub(super) fn undecided(&mut self, key: &ObjectKey) {
        self.adoption.undecided(key);
    }

    /// Gives what KAI left to be looked at again, if something has changed; all of it if it is taken
    /// over.
    pub(super) fn take_strangers(&mut self, adopts: bool, cx: &Context) -> LeftByKai {
        self.adoption.take_strangers(adopts, self.shared.slots(), cx)
    }

    /// What KAI left was looked at.
    pub(super) fn looked_at(&mut self, left: &LeftByKai, adopts: bool, cx: &mut Context) {
        self.adoption.looked_at(left, adopts, self.shared.slots(), &mut self.wanted, cx);
    }

    /// The groups of a pod that KAI bound.
    pub(super) fn groups_of<'a>(&'a self, pod: &'a PodItem) -> Vec<&'a str> {
        self.adoption.groups_of(pod)
    }

    /// The shares of a pod that KAI bound, as far as it is known on which cards.
    pub(super) fn shares_by_group(
        &self,
        pod: &PodItem,
        request: &Request,
        cx: &Context,
    ) -> Vec<CardShare> {
        self.adoption.shares_by_group(pod, request, self.shared.slots(), cx)
    }

    /// Tells the engine of a pod. If it has cards, they may be nobody's soon.
    pub(super) fn apply(&mut self, event: Event, cx: &mut Context) {
        let key = match &event {
            Event::Pod(record) => Some(&record.key),
            Event::PodGone(key) => Some(key),
            _ => None,
        };
        let has_gpus = |h: &&Holding| !h.needs.request.is_none() || h.keeps.is_some() || h.unknown;
        if let Some(key) =
            key.filter(|_| !self.shared.slots().is_empty() || !self.trouble.is_empty())
            && cx.scheduler.holding(key).filter(has_gpus).is_some()
            && let Some(node) = cx.node_of(key)
        {
            self.look_at(node.name());
        }
        cx.apply(event);
    }

    /// Looks at the shared cards of a node before the next pass, if it has any.
    fn look_at(&mut self, node: &str) {
        if self.shared.slots().of(node).next().is_some() || self.trouble.is_on(node) {
            self.shared.unsettle(node);
        }
    }

    /// Looks at the shared cards of a node before the next pass.
    pub(super) fn unsettle(&mut self, node: &str) {
        self.shared.unsettle(node);
    }

    /// Writes what is not as it should be on nodes and pods.
    pub(super) fn write(&mut self, cx: &mut Context) {
        self.wanted.write(cx);
    }

    /// What became of a write.
    pub(super) fn written(
        &mut self,
        place: Place,
        text: Option<Box<str>>,
        result: Result<(), Failure>,
        cx: &mut Context,
    ) {
        self.wanted.written(place, text, result, cx);
    }

    /// Some time has passed since a write failed.
    pub(super) fn write_again(&mut self, place: &Place) {
        self.wanted.write_again(place);
    }

    /// Cards that are shared and given to another pod, and such that are missing.
    pub(super) fn troubled(&self) -> (usize, usize) {
        let slots = self.shared.slots();
        (slots.count(Hold::Taken), slots.count(Hold::Missing))
    }

    /// Pods that vanished, and whose cards are not free yet.
    pub(super) fn ghost_count(&self) -> usize {
        self.ghosts.count()
    }

    #[cfg(test)]
    pub(super) const fn slots(&self) -> &slots::Slots {
        self.shared.slots()
    }
}

/// Whether a pod has or will have a share of a card.
fn is_used(node: &str, index: u32, cx: &Context) -> bool {
    let mut unentered = cx.scheduler.contenders(node, index);
    // One of those whose cards nobody knows may be on it.
    cx.node(node).is_some_and(Node::has_unknown_holder)
        || unentered.next().is_some()
        || !sharers(node, index, cx).is_empty()
}

/// The pods that have or will have a share of a card.
fn sharers(node: &str, index: u32, cx: &Context) -> Vec<ObjectKey> {
    let card = cx.node(node).and_then(|node| node.cards().get(index as usize));
    let shares = card.map_or(&[][..], Card::shares).iter();
    shares.filter_map(|share| cx.scheduler.pod_key(share.pod)).cloned().collect()
}
