//! Shared cards that cannot be won back: another pod was given them, or the device plugin does not
//! hand them out any more. They take nobody new, and their pods say so.

use super::devices::Devices;
use super::sharers;
use super::slots::{Slot, Slots};
use super::wanted::Wanted;
use crate::objects::PodItem;
use crate::place::Place;
use crate::state::context::Context;
use divvy_engine::ObjectKey;
use divvy_ledger::{Class, Mode, Node};
use divvy_words::keys;
use divvy_words::reservation::{self, CONFLICT, MISSING, MIXED, TROUBLES, UNPROVIDED};
use foldhash::HashMap;
use std::collections::BTreeMap;

/// What is wrong with shared cards, as it was found and said.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// Nodes on which cards are missing, as they were when that was found.
    grounds: HashMap<Box<str>, Ground>,
    /// The pods that say what is wrong with their cards, by name of the condition, and their nodes.
    said: BTreeMap<(ObjectKey, &'static str), Box<str>>,
}

/// What is to be said on which pods, by name of the condition.
type Troubles = BTreeMap<(ObjectKey, &'static str), String>;

/// What a node hands out, and to whom.
#[derive(Debug)]
struct Ground {
    usable: u32,
    /// Of each whole card its pod.
    whole: Vec<ObjectKey>,
}

impl Trouble {
    /// Whether a card of a node that was not handed out may be again.
    pub(super) fn may_be_back(&self, node: &str, cx: &Context) -> bool {
        let Some(then) = self.grounds.get(node) else { return true };
        let now = Ground::of(node, cx);
        now.usable > then.usable || then.whole.iter().any(|pod| !now.whole.contains(pod))
    }

    /// Whether a node hands out nothing besides so many cards that are held and those that whole-GPU
    /// pods have.
    pub(super) fn is_in_vain(
        &mut self,
        node: &str,
        held: usize,
        devices: &Devices,
        cx: &Context,
    ) -> bool {
        let ground = Ground::of(node, cx);
        // Where kubelets tell, a pod that nobody told of may not have its cards yet.
        let is_given = |key: &&ObjectKey| devices.is_empty() || devices.contains(key);
        let given = ground.whole.iter().filter(is_given).count();
        let in_vain = ground.usable > 0 && held + given >= ground.usable as usize;
        if in_vain {
            self.grounds.insert(node.into(), ground);
        }
        in_vain
    }

    /// No card of a node is missing.
    pub(super) fn none_is_missing(&mut self, node: &str) {
        self.grounds.remove(node);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// Whether something is said on pods of a node.
    pub(super) fn is_on(&self, node: &str) -> bool {
        self.said.values().any(|on| **on == *node)
    }

    /// Brings what is to be said on the pods of a node up to date.
    pub(super) fn say(
        &mut self,
        node: &str,
        slots: &Slots,
        devices: &Devices,
        wanted: &mut Wanted,
        cx: &Context,
    ) {
        let troubles = troubles(node, slots, devices, cx);
        let over = self.said.extract_if(.., |pod, on| **on == *node && !troubles.contains_key(pod));
        for ((key, reason), _) in over {
            wanted.want(Place::Condition(key, reason), None);
        }
        for ((key, reason), note) in troubles {
            wanted.want(Place::Condition(key.clone(), reason), Some(note.into()));
            self.said.insert((key, reason), node.into());
        }
    }

    /// Takes note of what a pod says, by us or by who led before. Whether it says something that was
    /// not known.
    pub(super) fn notice(&mut self, key: &ObjectKey, pod: &PodItem, wanted: &mut Wanted) -> bool {
        let mut is_news = false;
        for reason in TROUBLES {
            let mut conditions = pod.status.conditions.iter().filter(|c| &*c.status == "True");
            let kind = reservation::condition(reason);
            let Some(found) = conditions.find(|c| *c.kind == *kind) else { continue };
            let place = Place::Condition(key.clone(), reason);
            if wanted.is_bare(&place) {
                wanted.seen(place, Some(found.message.clone()));
                let node = pod.node().unwrap_or_default();
                self.said.insert((key.clone(), reason), node.into());
                is_news = true;
            }
        }
        is_news
    }

    /// A pod is gone, or has ended.
    pub(super) fn forget(&mut self, key: &ObjectKey, wanted: &mut Wanted) {
        for reason in TROUBLES {
            self.said.remove(&(key.clone(), reason));
            wanted.forget(&Place::Condition(key.clone(), reason));
        }
    }
}

/// The pod that was given a shared card, if one was.
pub(super) fn taker(node: &str, slot: &Slot, devices: &Devices, cx: &Context) -> Option<ObjectKey> {
    let uuid = slot.uuid.as_deref()?;
    let here = |key: &&ObjectKey| cx.node_of(key).is_some_and(|found| **found.name() == *node);
    devices.owners(uuid).iter().find(here).cloned()
}

/// What is to be said on which pods of a node.
fn troubles(node: &str, slots: &Slots, devices: &Devices, cx: &Context) -> Troubles {
    let mut troubles = BTreeMap::new();
    for (index, slot) in slots.of(node).filter(|(_, slot)| slot.hold.is_trouble()) {
        let uuid = slot.uuid.as_deref().unwrap_or_default();
        let mut sharers = sharers(node, index, cx);
        sharers.sort();
        let Some(taker) = taker(node, slot, devices, cx) else {
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
    troubles.extend(troubles_of_classes(node, slots, cx));
    troubles
}

/// What is to be said on which pods of a node about the classes of its cards: two are on one card, or
/// nothing isolates one on this node any more. Neither is repaired: the pods run.
fn troubles_of_classes(
    node: &str,
    slots: &Slots,
    cx: &Context,
) -> Vec<((ObjectKey, &'static str), String)> {
    let mut troubles = Vec::new();
    let Some(found) = cx.node(node) else { return troubles };
    let called = |class: Class| cx.scheduler.class_name(class).map_or("another", |name| &name.name);
    for (index, card) in (0..).zip(found.cards()) {
        let Some(class) = card.class() else { continue };
        let differs = |key: &&ObjectKey| {
            let part = cx.scheduler.unentered(key).and_then(|record| record.spec.request.part());
            part.is_some_and(|part| part.class != class)
        };
        let contenders = cx.scheduler.contenders(node, index).map(|(key, _)| key);
        let others: Vec<&ObjectKey> = contenders.filter(differs).collect();
        let other = others.first().and_then(|key| cx.scheduler.unentered(key)?.spec.request.part());
        if let Some(other) = other.map(|part| part.class) {
            let uuid = slots.get(node, index).and_then(|slot| slot.uuid.clone());
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
