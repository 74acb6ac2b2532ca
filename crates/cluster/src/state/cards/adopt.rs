//! Clusters that KAI has left: its reservation pods are taken over, and each share that it bound is
//! counted on the card of its group, for as long as it runs.
//!
//! ```text
//!   KAI is gone ─► its reservations are ours (label) ─► shares by their groups: bind request, else
//!   labels ─► the reservation of that group says which card ─► written down on the share
//! ```
//!
//! A group counts only where a reservation holds its card: anybody may label a pod. While KAI runs,
//! each of its reservations counts as a whole card, and its shares as none.

use super::slots::{Hold, Slots};
use super::wanted::Wanted;
use crate::listing::Keyed;
use crate::objects::{BindRequestItem, PodItem};
use crate::place::Place;
use crate::state::action::{Action, Target};
use crate::state::context::Context;
use divvy_engine::ObjectKey;
use divvy_ledger::{Bytes, CardShare, Node, Request};
use divvy_words::cards::{CardName, NamedShare, print};
use divvy_words::{keys, reservation};
use foldhash::HashMap;

/// What is known of pods that KAI bound.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    /// Its reservations, and shares whose card is not known.
    strangers: HashMap<ObjectKey, Box<PodItem>>,
    /// Whether something has changed for them.
    has_changed: bool,
    /// What it decided, by pod.
    decided: HashMap<ObjectKey, BindRequestItem>,
    /// What was last written about shares, and their uids.
    said: HashMap<ObjectKey, (Box<str>, Said)>,
}

/// What is written about a share that KAI bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Cards,
    Unknown,
}

/// What KAI left, as far as something may have changed for it.
#[derive(Debug, Default)]
pub(in crate::state) struct LeftByKai {
    pub(in crate::state) reservations: Vec<PodItem>,
    pub(in crate::state) shares: Vec<PodItem>,
}

impl Adoption {
    /// What KAI left is to be looked at again.
    pub(super) const fn look_again(&mut self) {
        self.has_changed = true;
    }

    /// A pod is seen anew.
    pub(super) fn no_stranger(&mut self, key: &ObjectKey) {
        self.strangers.remove(key);
    }

    /// A pod is gone.
    pub(super) fn forget(&mut self, key: &ObjectKey, wanted: &mut Wanted) {
        self.strangers.remove(key);
        self.forget_said(key, wanted);
    }

    fn forget_said(&mut self, key: &ObjectKey, wanted: &mut Wanted) {
        if let Some((uid, _)) = self.said.remove(key) {
            wanted.forget(&Place::Cards(Target { key: key.clone(), uid }));
        }
    }

    /// KAI has decided something.
    pub(super) fn decided(&mut self, item: BindRequestItem) {
        if item.is_done() {
            let key = item.key();
            self.has_changed |= self.strangers.contains_key(&key);
            self.decided.insert(key, item);
        }
    }

    pub(super) fn undecided(&mut self, key: &ObjectKey) {
        self.decided.remove(key);
    }

    /// Whether a share that KAI bound may yet turn up for its reservation of this group.
    pub(super) fn may_use(&self, node: &str, group: &str) -> bool {
        let names =
            |pod: &PodItem| pod.node() == Some(node) && self.groups_of(pod).contains(&group);
        self.strangers.values().any(|pod| names(pod))
    }

    /// Gives what KAI left to be looked at again, if something has changed; all of it if it is taken
    /// over.
    pub(super) fn take_strangers(
        &mut self,
        adopts: bool,
        slots: &Slots,
        cx: &Context,
    ) -> LeftByKai {
        if !std::mem::take(&mut self.has_changed) {
            return LeftByKai::default();
        }
        let strangers = self.strangers.iter();
        // While KAI works, only shares on cards of ours can be known better than before.
        let is_due = |pod: &PodItem| adopts || !self.cards_by_group(pod, 1, slots, cx).is_empty();
        let keys: Vec<ObjectKey> =
            strangers.filter(|(_, pod)| is_due(pod)).map(|(key, _)| key.clone()).collect();
        let pods = keys.iter().filter_map(|key| Some(*self.strangers.remove(key)?));
        let (reservations, shares) =
            pods.partition(|pod| reservation::group(&pod.metadata).is_some());
        LeftByKai { reservations, shares }
    }

    /// What KAI left was looked at: what that has changed for it is no news. If it was to be taken
    /// over, those that could not be are told.
    pub(super) fn looked_at(
        &mut self,
        left: &LeftByKai,
        adopts: bool,
        slots: &Slots,
        wanted: &mut Wanted,
        cx: &mut Context,
    ) {
        self.has_changed = false;
        if !adopts {
            return;
        }
        let (reservations, shares) = (left.reservations.len(), left.shares.len());
        if reservations > 0 {
            tracing::info!(reservations, shares, "took over what KAI has left");
        }
        for pod in &left.shares {
            let key = pod.key();
            let request = cx.scheduler.request(&key).filter(|request| request.is_share());
            let Some(cards) = request.map(Request::cards) else { continue };
            let is_unknown = self.cards_by_group(pod, cards, slots, cx).len() < cards as usize;
            if is_on_cards(pod, cx) && is_unknown {
                self.card_is_unknown(&key, wanted, cx);
            }
        }
    }

    /// Takes note of a bound pod, if it is one of KAI's.
    pub(super) fn meet(
        &mut self,
        key: &ObjectKey,
        pod: &PodItem,
        slots: &Slots,
        wanted: &mut Wanted,
        cx: &Context,
    ) {
        if !cx.hands_off() {
            return;
        }
        if reservation::group(&pod.metadata).is_some() {
            self.strangers.insert(key.clone(), Box::new(pod.clone()));
            return;
        }
        let Some(request) = cx.scheduler.request(key) else { return };
        let (cards, Some(portion)) = (request.cards(), request.portion()) else { return };
        let is_recorded = pod.metadata.annotations.get(keys::CARDS).is_some();
        if is_recorded || self.groups_of(pod).is_empty() {
            return;
        }
        let found = self.cards_by_group(pod, cards, slots, cx);
        let size = cx.node(pod.node().unwrap_or_default()).map(Node::card_size);
        match size.filter(|size| *size > Bytes(0) && found.len() == cards as usize) {
            Some(size) => {
                let Some(named) = named(pod, &found, portion.of(size), slots) else { return };
                if let Some(pod) = self.unsaid(key, Said::Cards, wanted, cx) {
                    // From now on it does not depend on its groups.
                    wanted.want(Place::Cards(pod), Some(print(&named).into()));
                }
            }
            None => {
                self.strangers.insert(key.clone(), Box::new(pod.clone()));
            }
        }
    }

    /// The groups of a pod that KAI bound.
    pub(super) fn groups_of<'a>(&'a self, pod: &'a PodItem) -> Vec<&'a str> {
        let decided = self.decided.get(&pod.key()).and_then(|request| request.groups_of(pod));
        decided.unwrap_or_else(|| reservation::given_groups(&pod.metadata))
    }

    /// The shares of a pod that KAI bound, as far as it is known on which cards.
    pub(super) fn shares_by_group(
        &self,
        pod: &PodItem,
        request: &Request,
        slots: &Slots,
        cx: &Context,
    ) -> Vec<CardShare> {
        let size = cx.node(pod.node().unwrap_or_default()).map(Node::card_size);
        let bytes = request.portion().zip(size).map(|(portion, size)| portion.of(size));
        let bytes = bytes.unwrap_or_default();
        let cards = self.cards_by_group(pod, request.cards(), slots, cx).into_iter();
        cards.map(|index| CardShare { index, bytes }).collect()
    }

    /// The cards of a pod that KAI bound, as far as its groups have reservations that hold them, or
    /// held them when it was first known.
    fn cards_by_group(&self, pod: &PodItem, asked: u32, slots: &Slots, cx: &Context) -> Vec<u32> {
        let (key, node) = (pod.key(), pod.node().unwrap_or_default());
        let held = cx.scheduler.holding(&key);
        let has = |index: u32| {
            held.is_some_and(|held| held.cards.iter().any(|card| card.index == index))
                || cx.scheduler.contenders(node, index).any(|(contender, _)| *contender == key)
        };
        let card = |group: &str| {
            let index = slots.by_group(node, group)?;
            let slot = slots.get(node, index)?;
            (slot.uuid.is_some() && (slot.hold == Hold::Held || has(index))).then_some(index)
        };
        let mut cards: Vec<u32> =
            self.groups_of(pod).into_iter().take(asked as usize).filter_map(card).collect();
        cards.sort_unstable();
        cards.dedup();
        cards
    }

    /// Says on a share that nobody knows which card it has.
    fn card_is_unknown(&mut self, key: &ObjectKey, wanted: &mut Wanted, cx: &mut Context) {
        let note = "this pod was bound by KAI with a share of a card, and no reservation holds that card: \
            divvy does not know which it is, and others may be given it; create the pod anew"
            .to_owned();
        if let Some(pod) = self.unsaid(key, Said::Unknown, wanted, cx) {
            cx.act(Action::Warn { pod, reason: "CardUnknown", note });
        }
    }

    /// The pod, unless this has been written about it.
    fn unsaid(
        &mut self,
        key: &ObjectKey,
        said: Said,
        wanted: &mut Wanted,
        cx: &Context,
    ) -> Option<Target> {
        let now = (cx.scheduler.uid(key)?.into(), said);
        if self.said.get(key) == Some(&now) {
            return None;
        }
        self.forget_said(key, wanted);
        self.said.insert(key.clone(), now.clone());
        Some(Target { key: key.clone(), uid: now.0 })
    }
}

/// Which cards a share has, by their names.
fn named(pod: &PodItem, cards: &[u32], bytes: Bytes, slots: &Slots) -> Option<Vec<NamedShare>> {
    let name = |index: &u32| {
        let slot = slots.get(pod.node()?, *index)?;
        Some(NamedShare { card: CardName::Uuid(slot.uuid.clone()?), bytes })
    };
    cards.iter().map(name).collect()
}

/// Whether the node of a pod has cards, and not replicas or none at the moment.
pub(super) fn is_on_cards(pod: &PodItem, cx: &Context) -> bool {
    cx.node(pod.node().unwrap_or_default()).is_some_and(|node| node.card_count() > 0)
}
