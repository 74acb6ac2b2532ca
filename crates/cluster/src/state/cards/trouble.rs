//! Shared cards that cannot be won back: another pod was given them, or the device plugin does not
//! hand them out any more. They take nobody new, and their pods say so.

use super::slots::{Hold, Slot};
use super::{Cards, sharers};
use crate::objects::PodItem;
use crate::place::Place;
use crate::state::bindings::Bindings;
use crate::state::context::Context;
use divvy_engine::ObjectKey;
use divvy_ledger::{Class, Mode, Node};
use divvy_words::keys;
use divvy_words::reservation::{self, CONFLICT, MISSING, MIXED, TROUBLES, UNPROVIDED};
use std::collections::BTreeMap;

/// What a node hands out, and to whom.
#[derive(Debug)]
pub(super) struct Ground {
    usable: u32,
    /// Of each whole card its pod.
    whole: Vec<ObjectKey>,
}

impl Cards {
    /// How the card of a slot is held, as far as anybody tells.
    pub(super) fn true_hold(&self, node: &str, index: u32, cx: &Context) -> Hold {
        let Some(slot) = self.slots.get(node, index) else { return Hold::Lost };
        if self.taker(node, slot, cx).is_some() {
            return Hold::Taken;
        }
        if slot.hold == Hold::Held || slot.hold == Hold::Taken && self.is_reserved(node, index) {
            return Hold::Held;
        }
        let ground = self.grounds.get(node);
        match ground.filter(|_| slot.hold == Hold::Missing) {
            Some(then) if !may_be_back(then, &Ground::of(node, cx)) => Hold::Missing,
            _ => Hold::Lost,
        }
    }

    /// Changes how a card is held; whoever has it wrongly, it takes nobody new.
    pub(super) fn set_hold(
        &mut self,
        node: &str,
        index: u32,
        hold: Hold,
        bindings: &mut Bindings,
        cx: &mut Context,
    ) {
        let Some(slot) = self.slots.get_mut(node, index) else { return };
        if slot.hold != hold && hold == Hold::Taken {
            tracing::error!(node, card = ?slot.uuid, "a shared card was given to another pod");
        }
        slot.hold = hold;
        let why = match hold {
            Hold::Taken => "its card was given to another pod",
            Hold::Missing => "the device plugin does not hand out its card",
            Hold::Asked | Hold::Held | Hold::Closing | Hold::Lost => return,
        };
        bindings.card_lost(node, index, why, cx);
    }

    /// The pod that was given a shared card, if one was.
    fn taker(&self, node: &str, slot: &Slot, cx: &Context) -> Option<ObjectKey> {
        let uuid = slot.uuid.as_deref()?;
        let here = |key: &&ObjectKey| cx.node_of(key).is_some_and(|found| **found.name() == *node);
        self.devices.owners(uuid).iter().find(here).cloned()
    }

    /// Whether a reservation pod is there for a slot.
    pub(super) fn is_reserved(&self, node: &str, index: u32) -> bool {
        let mut here = self.reservations.of(node);
        here.any(|(_, made)| made.index == index && !made.uid.is_empty())
    }

    /// Whether every card that a node hands out is held by somebody else: then a lost one is not
    /// among them, and looking further is of no use.
    pub(super) fn is_in_vain(&mut self, node: &str, cx: &Context) -> bool {
        let is_under_way = |slot: &Slot| matches!(slot.hold, Hold::Asked | Hold::Closing);
        if self.slots.of(node).any(|(_, slot)| is_under_way(slot)) {
            return false;
        }
        // One that does not work is not handed out either.
        let is_handed_out = |slot: &Slot| slot.hold == Hold::Held && !slot.sick;
        let held = self.slots.of(node).filter(|(_, slot)| is_handed_out(slot)).count();
        let ground = Ground::of(node, cx);
        // Where kubelets tell, a pod that nobody told of may not have its cards yet.
        let is_given = |key: &&ObjectKey| self.devices.is_empty() || self.devices.contains(key);
        let given = ground.whole.iter().filter(is_given).count();
        let in_vain = ground.usable > 0 && held + given >= ground.usable as usize;
        if in_vain {
            self.grounds.insert(node.into(), ground);
        }
        in_vain
    }

    /// What is to be said on which pods of a node.
    fn troubles(&self, node: &str, cx: &Context) -> BTreeMap<(ObjectKey, &'static str), String> {
        let mut troubles = BTreeMap::new();
        for (index, slot) in self.slots.of(node).filter(|(_, slot)| slot.hold.is_trouble()) {
            let uuid = slot.uuid.as_deref().unwrap_or_default();
            let mut sharers = sharers(node, index, cx);
            sharers.sort();
            let Some(taker) = self.taker(node, slot, cx) else {
                let note = format!(
                    "card {uuid}, which this pod has a share of, is held by no reservation, and the device plugin does \
                     not hand it out: it may have failed, or another pod may have it; it takes no new shares"
                );
                troubles.extend(sharers.into_iter().map(|pod| ((pod, MISSING), note.clone())));
                continue;
            };
            let names: Vec<String> = sharers.iter().map(ToString::to_string).collect();
            let note = format!(
                "card {uuid}, which this pod was given by the device plugin, is also shared by {}",
                names.join(", ")
            );
            let of_sharers = format!(
                "card {uuid}, which this pod has a share of, was also given whole to {taker} by the device plugin"
            );
            troubles.extend(sharers.into_iter().map(|pod| ((pod, CONFLICT), of_sharers.clone())));
            troubles.insert((taker, CONFLICT), note);
        }
        troubles.extend(self.troubles_of_classes(node, cx));
        troubles
    }

    /// What is to be said on which pods of a node about the classes of its cards: two are on one card, or
    /// nothing isolates one on this node any more. Neither is repaired: the pods run.
    fn troubles_of_classes(
        &self,
        node: &str,
        cx: &Context,
    ) -> Vec<((ObjectKey, &'static str), String)> {
        let mut troubles = Vec::new();
        let Some(found) = cx.node(node) else { return troubles };
        let called =
            |class: Class| cx.scheduler.class_name(class).map_or("another", |name| &name.name);
        for (index, card) in (0..).zip(found.cards()) {
            let Some(class) = card.class() else { continue };
            let differs = |key: &&ObjectKey| {
                let part =
                    cx.scheduler.unentered(key).and_then(|record| record.spec.request.part());
                part.is_some_and(|part| part.class != class)
            };
            let claimants = cx.scheduler.claimants(node, index).map(|(key, _)| key);
            let others: Vec<&ObjectKey> = claimants.filter(differs).collect();
            let other =
                others.first().and_then(|key| cx.scheduler.unentered(key)?.spec.request.part());
            if let Some(other) = other.map(|part| part.class) {
                let uuid = self.slots.get(node, index).and_then(|slot| slot.uuid.clone());
                let name = uuid.unwrap_or_else(|| index.to_string().into());
                let note = format!(
                    "card {name} has {} and {} shares: it takes no new ones until one of the two kinds is gone",
                    called(class),
                    called(other)
                );
                let all = sharers(node, index, cx).into_iter().chain(others.into_iter().cloned());
                troubles.extend(all.map(|pod| ((pod, MIXED), note.clone())));
            }
            if !found.capacity().gpus.offers(class) {
                let note = format!(
                    "node {node} has nothing any more that keeps {} shares to their part (label {}): this pod runs on with \
                 the limit that it has, and its containers may not start again",
                    called(class),
                    keys::ISOLATION_PROVIDER
                );
                let all = sharers(node, index, cx).into_iter();
                troubles.extend(all.map(|pod| ((pod, UNPROVIDED), note.clone())));
            }
        }
        troubles
    }

    /// Whether something is said on pods of a node.
    pub(super) fn is_troubled(&self, node: &str) -> bool {
        self.troubled.values().any(|on| **on == *node)
    }

    /// Brings what is to be said on the pods of a node up to date.
    pub(super) fn want_conditions(&mut self, node: &str, cx: &Context) {
        let troubles = self.troubles(node, cx);
        let over =
            self.troubled.extract_if(.., |pod, on| **on == *node && !troubles.contains_key(pod));
        for ((key, reason), _) in over {
            self.wanted.want(Place::Condition(key, reason), None);
        }
        for ((key, reason), note) in troubles {
            self.wanted.want(Place::Condition(key.clone(), reason), Some(note.into()));
            self.troubled.insert((key, reason), node.into());
        }
    }

    /// Takes note of what a pod says, by us or by who led before.
    pub(super) fn notice_conditions(&mut self, key: &ObjectKey, pod: &PodItem) {
        for reason in TROUBLES {
            let mut conditions = pod.status.conditions.iter().filter(|c| &*c.status == "True");
            let kind = reservation::condition(reason);
            let Some(found) = conditions.find(|c| *c.kind == *kind) else { continue };
            let place = Place::Condition(key.clone(), reason);
            if self.wanted.is_bare(&place) {
                self.wanted.seen(place, Some(found.message.clone()));
                let node = pod.node().unwrap_or_default();
                self.troubled.insert((key.clone(), reason), node.into());
                self.unsettle(node);
            }
        }
    }

    pub(super) fn forget_conditions(&mut self, key: &ObjectKey) {
        for reason in TROUBLES {
            self.troubled.remove(&(key.clone(), reason));
            self.wanted.forget(&Place::Condition(key.clone(), reason));
        }
    }
}

impl Ground {
    fn of(node: &str, cx: &Context) -> Self {
        let node = cx.node(node);
        let usable = node.map_or(0, |node| node.capacity().gpus.usable);
        let cards = node.into_iter().flat_map(Node::cards);
        let whole = cards.filter_map(|card| match card.mode() {
            Mode::Whole(pod) => cx.scheduler.pod_key(*pod).cloned(),
            Mode::Free | Mode::Shared(_) | Mode::Divided(_) => None,
        });
        Self { usable, whole: whole.collect() }
    }
}

/// Whether a card may be handed out again that was not.
fn may_be_back(then: &Ground, now: &Ground) -> bool {
    now.usable > then.usable || then.whole.iter().any(|pod| !now.whole.contains(pod))
}
