//! A node is settled when each of its shared cards is held by its reservation. Where something has
//! changed, this is looked at again: before each pass, so that nothing is given on a node that is
//! not, and after it, so that cards that nobody shares are returned.

use super::State;
use super::reserved::Reservation;
use super::slots::Hold;
use divvy_engine::{Event, PodKey};
use divvy_ledger::{Card, Holding, Node};
use std::time::Instant;

impl State {
    /// Closes or opens nodes, where something has changed.
    pub(super) fn settle_cards(&mut self, now: Instant) {
        for node in std::mem::take(&mut self.unsettled) {
            let mut lost = Vec::new();
            for (index, hold) in self.holds(&node) {
                match (hold, self.is_used(&node, index)) {
                    (Hold::Asked, _) | (Hold::Held | Hold::Closing, false) => {}
                    (Hold::Taken, false) if self.is_reserved(&node, index) => {
                        self.set_hold(&node, index, Hold::Held, now);
                    }
                    (Hold::Lost | Hold::Taken | Hold::Missing, false) => {
                        self.slots.remove(&node, index);
                    }
                    (_, true) if !self.has_card(&node, index) => {}
                    (_, true) => {
                        let found = self.true_hold(&node, index);
                        if found == Hold::Lost {
                            lost.push(index);
                        }
                        if hold != Hold::Closing || found != Hold::Lost {
                            self.set_hold(&node, index, found, now);
                        }
                    }
                }
            }
            if !lost.is_empty() && self.was_refused(&node) && self.is_in_vain(&node) {
                for index in lost.drain(..) {
                    self.set_hold(&node, index, Hold::Missing, now);
                }
            }
            if lost.is_empty() {
                self.number(&node);
            }
            if !self.slots.of(&node).any(|(_, slot)| slot.hold == Hold::Missing) {
                self.grounds.remove(&node);
            }
            self.mark_pods(&node);
            self.close_cards(&node, !lost.is_empty());
            self.remember_ghosts(&node);
            let keeps_taint = !lost.is_empty() && self.keeps_taint(&node, now);
            self.taints.want(&node, keeps_taint);
            if lost.is_empty() {
                self.stop_search(&node);
                self.idle.insert(node);
            } else {
                self.win_back(&node, &lost, now);
            }
        }
    }

    /// Without a card there is nothing to lose.
    fn has_card(&self, node: &str, index: u32) -> bool {
        self.slots.get(node, index).is_some_and(|slot| slot.uuid.is_some())
    }

    /// Shares that run on a card that does not work, or that is not theirs alone, run on; it takes
    /// no new ones, and none that is on its way back does.
    fn close_cards(&mut self, node: &str, unsettled: bool) {
        let cards = self.slots.of(node).map(|(index, slot)| (index, slot.known())).collect();
        self.apply(Event::Cards { node: node.into(), unsettled, cards });
    }

    /// Gives each reservation its card in the ledger, once no card is lost: then there is one for
    /// every reservation, and each counts until it is gone.
    fn number(&mut self, node: &str) {
        let count = self.ledger_node(node).map_or(0, Node::card_count);
        if count == 0 {
            // Not known for the moment: the device plugin starts, or the node's labels are gone.
            return;
        }
        let here = self.reservations.of(node);
        let here: Vec<(PodKey, u32)> = here.map(|(key, made)| (key.clone(), made.index)).collect();
        for (key, before) in here {
            let mut index = before;
            if before >= count && !self.is_used(node, before) {
                index = self.vacant(node);
                if let Some(slot) = self.slots.get(node, before).cloned() {
                    self.slots.remove(node, before);
                    self.slots.insert(node, index, slot);
                }
                if let Some(made) = self.reservations.get_mut(&key) {
                    made.index = index;
                }
            }
            let has_card = self.scheduler.holding(&key).is_some_and(|h| !h.cards.is_empty());
            if !has_card || index != before {
                self.enter_reservation(&key);
            }
        }
    }

    /// Returns the cards that nobody shares any more. Those that were taken to find a lost one are
    /// returned once it is found: earlier, they would be given again instead of it.
    pub(super) fn return_cards(&mut self, now: Instant) {
        for node in std::mem::take(&mut self.idle) {
            for (index, hold) in self.holds(&node) {
                if matches!(hold, Hold::Held | Hold::Asked)
                    && !self.is_used(&node, index)
                    && !self.is_wanted_by_kai(&node, index, now)
                {
                    self.close(&node, index);
                }
            }
        }
    }

    /// Returns a card that nobody shares any more.
    fn close(&mut self, node: &str, index: u32) {
        let is_its = |(_, made): &(&PodKey, &Reservation)| made.index == index;
        let Some((key, made)) = self.reservations.of(node).find(is_its) else { return };
        // One that nobody has seen yet is deleted once it is.
        if made.uid.is_empty() {
            return;
        }
        let (key, uid) = (key.clone(), made.uid.clone());
        if let Some(slot) = self.slots.get_mut(node, index) {
            slot.hold = Hold::Closing;
        }
        self.unsettled.insert(node.into());
        self.unreserve(key, &uid);
    }

    fn holds(&self, node: &str) -> Vec<(u32, Hold)> {
        self.slots.of(node).map(|(index, slot)| (index, slot.hold)).collect()
    }

    /// Whether a pod has or will have a share of a card.
    pub(super) fn is_used(&self, node: &str, index: u32) -> bool {
        let mut unentered = self.scheduler.claimants(node, index);
        // One of those whose cards nobody knows may be on it.
        self.ledger_node(node).is_some_and(Node::has_unknown_holder)
            || unentered.any(|(key, _)| !self.reservations.contains_key(key))
            || !self.sharers(node, index).is_empty()
    }

    /// The pods that have or will have a share of a card.
    pub(super) fn sharers(&self, node: &str, index: u32) -> Vec<PodKey> {
        let card = self.ledger_node(node).and_then(|node| node.cards().get(index as usize));
        let shares = card.map_or(&[][..], Card::shares).iter();
        shares.filter_map(|share| self.scheduler.pod_key(share.pod)).cloned().collect()
    }

    /// If a pod has cards, they may be nobody's soon.
    pub(super) fn cards_may_go(&mut self, key: &PodKey) {
        if self.slots.is_empty() {
            return;
        }
        let has_gpus =
            |h: &&Holding| !h.needs.request.is_none() || !h.cards.is_empty() || h.unknown;
        let holding = self.scheduler.holding(key).filter(has_gpus);
        let node = holding.and_then(|h| self.scheduler.ledger().node(h.node));
        if let Some(name) = node.map(|node| node.name().clone()) {
            self.look_at(&name);
        }
    }

    /// Looks at the shared cards of a node before the next pass, if it has any.
    pub(super) fn look_at(&mut self, node: &str) {
        if self.slots.of(node).next().is_some() {
            self.unsettled.insert(node.into());
        }
    }

    /// The index for a card that nobody has named yet: a free one, if there is.
    pub(super) fn vacant(&self, node: &str) -> u32 {
        let free: Vec<u32> = self
            .ledger_node(node)
            .into_iter()
            .flat_map(Node::free_cards)
            .filter_map(|index| u32::try_from(index).ok())
            .collect();
        self.slots.vacant(node, free.into_iter())
    }

    pub(super) fn ledger_node(&self, name: &str) -> Option<&Node> {
        let ledger = self.scheduler.ledger();
        ledger.node(ledger.find(name)?)
    }
}
