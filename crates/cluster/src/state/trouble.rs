//! Shared cards that cannot be won back: another pod was given them, or the device plugin does not
//! hand them out any more. They take nobody new, and their pods say so: by an event, and by a
//! condition for as long as it lasts.

use super::slots::{Hold, Slot};
use super::{Action, State, Target};
use crate::objects::PodItem;
use divvy_engine::PodKey;
use divvy_ledger::{Gpus, Request};
use divvy_words::reservation;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

const CONFLICT: &str = "CardConflict";
const MISSING: &str = "CardMissing";

/// What is said on pods, and where it cannot change by itself.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// The pods that have a condition: what it says, and their node.
    marked: FxHashMap<PodKey, (&'static str, Box<str>)>,
    /// Nodes on which cards are missing, as they were when that was found.
    grounds: FxHashMap<Box<str>, Ground>,
}

/// What a node hands out, and to whom.
#[derive(Debug)]
struct Ground {
    usable: u32,
    whole: Vec<(PodKey, u32)>,
}

impl Ground {
    fn taken(&self) -> u32 {
        self.whole.iter().map(|(_, cards)| cards).sum()
    }
}

impl Trouble {
    pub(super) fn forget(&mut self, key: &PodKey) {
        self.marked.remove(key);
    }
}

impl State {
    /// How the card of a slot is held, as far as anybody tells.
    pub(super) fn true_hold(&self, node: &str, index: u32) -> Hold {
        let Some(slot) = self.slots.get(node, index) else { return Hold::Lost };
        if self.taker(node, slot).is_some() {
            return Hold::Taken;
        }
        if slot.hold == Hold::Held || slot.hold == Hold::Taken && self.is_reserved(node, index) {
            return Hold::Held;
        }
        let ground = self.trouble.grounds.get(node);
        match ground.filter(|_| slot.hold == Hold::Missing) {
            Some(ground) if !self.may_be_back(node, ground) => Hold::Missing,
            _ => Hold::Lost,
        }
    }

    /// Changes how a card is held; whoever has it wrongly, it takes nobody new.
    pub(super) fn set_hold(&mut self, node: &str, index: u32, hold: Hold) {
        let Some(slot) = self.slots.get_mut(node, index) else { return };
        if slot.hold != hold && hold == Hold::Taken {
            tracing::error!(node, card = ?slot.uuid, "a shared card was given to another pod");
        }
        slot.hold = hold;
        self.scheduler.close_card(node, index, hold.is_trouble());
    }

    /// The pod that was given a shared card, if one was.
    fn taker(&self, node: &str, slot: &Slot) -> Option<PodKey> {
        let uuid = slot.uuid.as_deref()?;
        let ledger = self.scheduler.ledger();
        let here = |key: &&PodKey| {
            let holding = self.scheduler.holding(key);
            let found = holding.and_then(|h| ledger.node(h.node));
            found.is_some_and(|found| **found.name() == *node)
        };
        self.devices.owners(uuid).iter().find(here).cloned()
    }

    /// Whether a reservation pod is there for a slot.
    fn is_reserved(&self, node: &str, index: u32) -> bool {
        let mut here = self.reservations.of(node);
        here.any(|(_, made)| made.index == index && !made.uid.is_empty())
    }

    /// Whether every card that a node hands out is held by somebody else: then a lost one is not
    /// among them, and looking further is of no use.
    pub(super) fn is_in_vain(&mut self, node: &str) -> bool {
        let is_under_way = |slot: &Slot| matches!(slot.hold, Hold::Asked | Hold::Closing);
        if self.slots.of(node).any(|(_, slot)| is_under_way(slot)) {
            return false;
        }
        // One that does not work is not handed out either.
        let is_handed_out = |slot: &Slot| slot.hold == Hold::Held && !slot.sick;
        let held = self.slots.of(node).filter(|(_, slot)| is_handed_out(slot)).count();
        let ground = self.ground(node);
        let taken = u32::try_from(held).unwrap_or(u32::MAX).saturating_add(ground.taken());
        let in_vain = ground.usable > 0 && taken >= ground.usable;
        if in_vain {
            self.trouble.grounds.insert(node.into(), ground);
        }
        in_vain
    }

    fn ground(&self, node: &str) -> Ground {
        let usable = match self.ledger_node(node).map(|node| node.capacity().gpus) {
            Some(Gpus::Cards { usable, .. }) => usable,
            _ => 0,
        };
        let id = self.scheduler.ledger().find(node);
        let here = self.scheduler.holders().into_iter().filter(|(_, held)| Some(held.node) == id);
        let whole = here.filter_map(|(key, held)| match held.needs.request {
            Request::Whole(cards) => Some((key.clone(), cards)),
            Request::None | Request::Share { .. } => None,
        });
        Ground { usable, whole: whole.collect() }
    }

    /// Whether a card may be handed out again that was not.
    fn may_be_back(&self, node: &str, then: &Ground) -> bool {
        let now = self.ground(node);
        now.usable > then.usable || then.whole.iter().any(|pod| !now.whole.contains(pod))
    }

    /// Brings what is said on the pods of a node up to date.
    pub(super) fn mark_pods(&mut self, node: &str) {
        let wanted = self.marks(node);
        let here = self.trouble.marked.iter().filter(|(_, (_, at))| **at == *node);
        let over: Vec<(PodKey, &'static str)> = here
            .filter(|(key, (reason, _))| wanted.get(*key).is_none_or(|(now, _)| now != reason))
            .map(|(key, (reason, _))| (key.clone(), *reason))
            .collect();
        for (key, reason) in over {
            self.trouble.marked.remove(&key);
            let pod = self.target(&key);
            self.actions.push(Action::Mark { pod, reason, note: None });
        }
        for (key, (reason, note)) in wanted {
            if self.trouble.marked.contains_key(&key) {
                continue;
            }
            self.trouble.marked.insert(key.clone(), (reason, node.into()));
            let pod = self.target(&key);
            self.actions.push(Action::Warn { pod: pod.clone(), reason, note: note.clone() });
            self.actions.push(Action::Mark { pod, reason, note: Some(note) });
        }
        if !self.slots.of(node).any(|(_, slot)| slot.hold == Hold::Missing) {
            self.trouble.grounds.remove(node);
        }
    }

    /// What is to be said on which pods of a node.
    fn marks(&self, node: &str) -> BTreeMap<PodKey, (&'static str, String)> {
        let mut marks = BTreeMap::new();
        for (index, slot) in self.slots.of(node).filter(|(_, slot)| slot.hold.is_trouble()) {
            let uuid = slot.uuid.as_deref().unwrap_or_default();
            let mut sharers = self.sharers(node, index);
            sharers.sort();
            let Some(taker) = self.taker(node, slot) else {
                let note = format!(
                    "card {uuid}, which this pod has a share of, is held by no reservation, and the device plugin does \
                     not hand it out: it may have failed, or another pod may have it; it takes no new shares"
                );
                marks.extend(sharers.into_iter().map(|pod| (pod, (MISSING, note.clone()))));
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
            marks.extend(sharers.into_iter().map(|pod| (pod, (CONFLICT, of_sharers.clone()))));
            marks.insert(taker, (CONFLICT, note));
        }
        marks
    }

    /// Takes note of what was said on a pod before this process began.
    pub(super) fn notice_marks(&mut self, key: &PodKey, pod: &PodItem) {
        for reason in [CONFLICT, MISSING] {
            let mut conditions = pod.status.conditions.iter().filter(|c| &*c.status == "True");
            let is_marked = conditions.any(|c| *c.kind == *reservation::condition(reason));
            if is_marked && !self.trouble.marked.contains_key(key) {
                let node: Box<str> = pod.node().unwrap_or_default().into();
                self.trouble.marked.insert(key.clone(), (reason, node.clone()));
                self.unsettled.insert(node);
            }
        }
    }

    fn target(&self, key: &PodKey) -> Target {
        Target { key: key.clone(), uid: self.scheduler.uid(key).unwrap_or_default().into() }
    }

    /// Cards that are shared and given to another pod, and such that are missing.
    pub(crate) fn troubled_cards(&self) -> (usize, usize) {
        (self.slots.count(Hold::Taken), self.slots.count(Hold::Missing))
    }
}
