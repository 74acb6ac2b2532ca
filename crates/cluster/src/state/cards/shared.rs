//! Who holds which card: the slots of nodes, the reservation pods that are for them, and the nodes where
//! that is to be looked at. Whoever decides by it reads it; all that changes it is here, as a step that
//! leaves slot, reservation and what is to be looked at together.

use super::is_used;
use super::reserved::{Reservation, Reservations};
use super::slots::{Hold, Slot, Slots};
use crate::state::context::Context;
use divvy_engine::ObjectKey;
use divvy_ledger::Node;
use divvy_words::reservation;
use foldhash::HashSet;
use std::sync::Arc;

/// The cards of all nodes that are shared, or looked for.
#[derive(Debug, Default)]
pub(super) struct SharedCards {
    slots: Slots,
    reservations: Reservations,
    /// Nodes whose shared cards are to be looked at.
    unsettled: HashSet<Box<str>>,
    /// Nodes whose reservations may not be needed any more.
    idle: HashSet<Box<str>>,
}

/// What is known.
impl SharedCards {
    pub(super) const fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(super) const fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// The slot that a reservation is for.
    pub(super) fn slot_of(&self, key: &ObjectKey) -> Option<&Slot> {
        let made = self.reservations.get(key)?;
        self.slots.get(&made.node, made.index)
    }

    /// The slots of a node, and how each is held.
    pub(super) fn holds(&self, node: &str) -> Vec<(u32, Hold)> {
        self.slots.of(node).map(|(index, slot)| (index, slot.hold)).collect()
    }

    /// Whether it is known which card a slot is: without, there is nothing to lose.
    pub(super) fn has_card(&self, node: &str, index: u32) -> bool {
        self.slots.get(node, index).is_some_and(|slot| slot.uuid.is_some())
    }

    /// Whether a reservation of the node is on its way.
    pub(super) fn is_asking(&self, node: &str) -> bool {
        self.slots.of(node).any(|(_, slot)| slot.hold == Hold::Asked)
    }

    /// Whether a reservation was given up before anybody had seen its pod.
    pub(super) fn was_given_up_unseen(&self, key: &ObjectKey) -> bool {
        let is_closing = |slot: &Slot| slot.hold == Hold::Closing;
        self.reservations.is_unseen(key) && self.slot_of(key).is_some_and(is_closing)
    }

    /// The index for a card that nobody has named yet: a free one, if there is.
    pub(super) fn vacant(&self, node: &str, cx: &Context) -> u32 {
        let free = cx.node(node).into_iter().flat_map(Node::free_cards);
        self.slots.vacant(node, free.filter_map(|index| u32::try_from(index).ok()))
    }

    /// The slot for a reservation pod: that of its card, else its own, else a new one.
    pub(super) fn slot_for(
        &self,
        key: &ObjectKey,
        node: &str,
        uuid: Option<&str>,
        group: &str,
        cx: &Context,
    ) -> u32 {
        let fits = |index: &u32| {
            let slot = self.slots.get(node, *index);
            slot.is_none_or(|s| uuid.is_none() || s.uuid.is_none() || s.uuid.as_deref() == uuid)
        };
        let is_others = |index: &u32| {
            self.reservations.of(node).any(|(other, made)| other != key && made.index == *index)
        };
        let own = self.reservations.get(key).map(|r| r.index);
        let by_card = uuid.and_then(|uuid| self.slots.by_card(node, uuid));
        let by_group = || self.slots.by_group(node, group).filter(|index| !is_others(index));
        by_card.or_else(|| own.filter(fits)).or_else(|| by_group().filter(fits)).unwrap_or_else(
            || match uuid.is_none() && reservation::is_search(node, group) {
                // Behind all cards: those that it looks for may be told of only later.
                true => {
                    let count = cx.node(node).map_or(0, Node::card_count);
                    self.slots.vacant(node, count..)
                }
                false => self.vacant(node, cx),
            },
        )
    }

    /// A group for a card that this pod opens. The same after a restart, unless the reservation
    /// pod of that name is on its way out.
    pub(super) fn new_group(&self, node: &str, uid: &str) -> String {
        let more = (1..u32::MAX).map(|nth| format!("{uid}-{nth}"));
        let mut all = std::iter::once(uid.to_owned()).chain(more);
        all.find(|group| self.is_new(node, group)).unwrap_or_default()
    }

    /// Whether no reservation pod of this group is there, or on its way.
    pub(super) fn is_new(&self, node: &str, group: &str) -> bool {
        !self.reservations.contains_key(&key_of(node, group))
    }
}

/// What changes.
impl SharedCards {
    /// A reservation is to be made that holds this card. Returns which.
    pub(super) fn ask(
        &mut self,
        node: &Arc<str>,
        index: u32,
        group: &str,
        cx: &Context,
    ) -> ObjectKey {
        let key = key_of(node, group);
        self.slots.insert(node, index, Slot::new(group, Hold::Asked));
        let made = Reservation {
            node: node.clone(),
            index,
            uid: "".into(),
            why: "it has not been seen yet".into(),
            since: cx.now,
            asks: cx.scheduler.config().hand_off.unwrap_or_default(),
            adopted: None,
        };
        self.reservations.insert(key.clone(), made);
        key
    }

    /// A reservation pod is there, and this is its slot.
    pub(super) fn seen(&mut self, key: ObjectKey, made: Reservation, slot: Slot) {
        self.slots.insert(&made.node, made.index, slot);
        self.unsettle(&made.node);
        self.reservations.insert(key, made);
    }

    /// A card that a bound share names: its index, which is a slot from now on that nobody holds, if it
    /// was not known.
    pub(super) fn named(&mut self, node: &str, group: &str, uuid: &str, cx: &Context) -> u32 {
        if let Some(index) = self.slots.by_card(node, uuid) {
            return index;
        }
        let index = self.vacant(node, cx);
        let slot = Slot { uuid: Some(uuid.into()), ..Slot::new(group, Hold::Lost) };
        self.slots.insert(node, index, slot);
        self.unsettle(node);
        index
    }

    /// A reservation is gone. Its slot is to be left then.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Reservation> {
        self.reservations.remove(key)
    }

    /// A slot has no reservation any more. Without a card, or a pod that has it, there is nothing
    /// to lose: the next reservation may have been given the same card.
    pub(super) fn leave(&mut self, node: &str, index: u32, cx: &Context) {
        let is_used = is_used(node, index, cx);
        match self.slots.get_mut(node, index) {
            Some(slot) if slot.uuid.is_some() && is_used => slot.hold = Hold::Lost,
            _ => self.slots.remove(node, index),
        }
    }

    /// A reservation is not waited for any more: from here on nobody gets its card, also if it comes to
    /// run at last. Returns what it was, unless it runs.
    pub(super) fn give_up(&mut self, key: &ObjectKey) -> Option<Reservation> {
        let made = self.reservations.get(key)?.clone();
        let slot = self.slots.get_mut(&made.node, made.index);
        slot.filter(|slot| slot.hold == Hold::Asked)?.hold = Hold::Closing;
        self.unsettle(&made.node);
        Some(made)
    }

    /// A card goes back. Returns the reservation that is to be deleted, and its uid; one that nobody has
    /// seen yet is deleted once it is.
    pub(super) fn close(&mut self, node: &str, index: u32) -> Option<(ObjectKey, Box<str>)> {
        let (key, made) = self.reservations.at(node, index)?;
        if made.uid.is_empty() {
            return None;
        }
        let found = (key.clone(), made.uid.clone());
        self.set_hold(node, index, Hold::Closing);
        self.unsettle(node);
        Some(found)
    }

    /// How a card is held, as was found by looking.
    pub(super) fn set_hold(&mut self, node: &str, index: u32, hold: Hold) {
        if let Some(slot) = self.slots.get_mut(node, index) {
            slot.hold = hold;
        }
    }

    /// Nobody needs to know any more which card it is.
    pub(super) fn forget(&mut self, node: &str, index: u32) {
        self.slots.remove(node, index);
    }

    /// A reservation has another index of the ledger from now on, and its slot with it.
    pub(super) fn renumber(&mut self, key: &ObjectKey, index: u32) {
        let Some(made) = self.reservations.get_mut(key) else { return };
        let before = std::mem::replace(&mut made.index, index);
        if let Some(slot) = self.slots.get(&made.node, before).cloned() {
            self.slots.remove(&made.node, before);
            self.slots.insert(&made.node, index, slot);
        }
    }

    /// Has the shared cards of a node looked at before the next pass.
    pub(super) fn unsettle(&mut self, node: &str) {
        self.unsettled.insert(node.into());
    }

    pub(super) fn take_unsettled(&mut self) -> HashSet<Box<str>> {
        std::mem::take(&mut self.unsettled)
    }

    /// No card of a node is lost: those that nobody needs may be returned after the pass.
    pub(super) fn settled(&mut self, node: Box<str>) {
        self.idle.insert(node);
    }

    pub(super) fn take_idle(&mut self) -> HashSet<Box<str>> {
        std::mem::take(&mut self.idle)
    }
}

fn key_of(node: &str, group: &str) -> ObjectKey {
    ObjectKey::new(reservation::NAMESPACE, &reservation::name(node, group))
}
