//! A node is settled when each of its shared cards is held by its reservation. Where something has
//! changed, this is looked at again: before each pass, so that nothing is given on a node that is
//! not, and after it, so that cards that nobody shares are returned.

use super::reservations::unreserve;
use super::slots::{Hold, Slot};
use super::trouble::taker;
use super::{Cards, is_used};
use crate::place::Place;
use crate::state::bindings::Bindings;
use crate::state::context::Context;
use crate::state::timers::Timer;
use divvy_engine::{Event, ObjectKey};
use divvy_ledger::Node;
use std::time::Duration;

/// So long a reservation of KAI may wait for its first share.
const MAY_BE_USED: Duration = Duration::from_secs(60);

impl Cards {
    /// Closes or opens nodes, where something has changed.
    pub(in crate::state) fn settle(&mut self, bindings: &mut Bindings, cx: &mut Context) {
        for node in self.shared.take_unsettled() {
            let mut lost = Vec::new();
            for (index, hold) in self.shared.holds(&node) {
                match (hold, is_used(&node, index, cx)) {
                    (Hold::Asked, _) | (Hold::Held | Hold::Closing, false) => {}
                    (Hold::Taken, false) if self.shared.reservations().is_for(&node, index) => {
                        self.set_hold(&node, index, Hold::Held, bindings, cx);
                    }
                    (Hold::Lost | Hold::Taken | Hold::Missing, false) => {
                        self.shared.forget(&node, index);
                    }
                    (_, true) if !self.shared.has_card(&node, index) => {}
                    (_, true) => {
                        let found = self.true_hold(&node, index, cx);
                        if found == Hold::Lost {
                            lost.push(index);
                        }
                        if hold != Hold::Closing || found != Hold::Lost {
                            self.set_hold(&node, index, found, bindings, cx);
                        }
                    }
                }
            }
            if !lost.is_empty() && self.searches.was_refused(&node) && self.is_in_vain(&node, cx) {
                for index in lost.drain(..) {
                    self.set_hold(&node, index, Hold::Missing, bindings, cx);
                }
            }
            if lost.is_empty() {
                self.number(&node, cx);
            }
            if !self.shared.slots().of(&node).any(|(_, slot)| slot.hold == Hold::Missing) {
                self.trouble.none_is_missing(&node);
            }
            let Self { trouble, shared, devices, wanted, .. } = self;
            trouble.say(&node, shared.slots(), devices, wanted, cx);
            self.close_cards(&node, !lost.is_empty(), cx);
            self.ghosts.write_down(&node, self.shared.reservations(), &mut self.wanted);
            let keeps_taint = !lost.is_empty() && self.searches.keeps_taint(&node, cx);
            self.wanted.want(Place::Taint(node.clone()), keeps_taint.then(Box::default));
            if lost.is_empty() {
                self.searches.stop(&node);
                self.shared.settled(node);
            } else {
                self.win_back(&node, &lost, cx);
            }
        }
    }

    /// How the card of a slot is held, as far as anybody tells.
    fn true_hold(&self, node: &str, index: u32, cx: &Context) -> Hold {
        let Some(slot) = self.shared.slots().get(node, index) else { return Hold::Lost };
        if taker(node, slot, &self.devices, cx).is_some() {
            return Hold::Taken;
        }
        let is_reserved = || self.shared.reservations().is_for(node, index);
        match slot.hold {
            Hold::Held => Hold::Held,
            Hold::Taken if is_reserved() => Hold::Held,
            Hold::Missing if !self.trouble.may_be_back(node, cx) => Hold::Missing,
            _ => Hold::Lost,
        }
    }

    /// Changes how a card is held; whoever has it wrongly, it takes nobody new.
    fn set_hold(
        &mut self,
        node: &str,
        index: u32,
        hold: Hold,
        bindings: &mut Bindings,
        cx: &mut Context,
    ) {
        let Some(slot) = self.shared.slots().get(node, index) else { return };
        if slot.hold != hold && hold == Hold::Taken {
            tracing::error!(node, card = ?slot.uuid, "a shared card was given to another pod");
        }
        self.shared.set_hold(node, index, hold);
        let why = match hold {
            Hold::Taken => "its card was given to another pod",
            Hold::Missing => "the device plugin does not hand out its card",
            Hold::Asked | Hold::Held | Hold::Closing | Hold::Lost => return,
        };
        bindings.card_lost(node, index, why, cx);
    }

    /// Whether every card that a node hands out is held by somebody else: then a lost one is not
    /// among them, and looking further is of no use.
    fn is_in_vain(&mut self, node: &str, cx: &Context) -> bool {
        let is_under_way = |slot: &Slot| matches!(slot.hold, Hold::Asked | Hold::Closing);
        if self.shared.slots().of(node).any(|(_, slot)| is_under_way(slot)) {
            return false;
        }
        // One that does not work is not handed out either.
        let is_handed_out = |slot: &Slot| slot.hold == Hold::Held && !slot.sick;
        let held = self.shared.slots().of(node).filter(|(_, slot)| is_handed_out(slot)).count();
        self.trouble.is_in_vain(node, held, &self.devices, cx)
    }

    /// Shares that run on a card that does not work, or that is not theirs alone, run on; it takes
    /// no new ones, and none that is on its way back does.
    fn close_cards(&self, node: &str, unsettled: bool, cx: &mut Context) {
        let slots = self.shared.slots().of(node);
        let cards = slots.map(|(index, slot)| (index, slot.known())).collect();
        cx.apply(Event::Cards { node: node.into(), unsettled, cards });
    }

    /// Gives each reservation its card in the ledger, once no card is lost: then there is one for
    /// every reservation, and each counts until it is gone.
    fn number(&mut self, node: &str, cx: &mut Context) {
        let count = cx.node(node).map_or(0, Node::card_count);
        if count == 0 {
            // Not known for the moment: the device plugin starts, or the node's labels are gone.
            return;
        }
        let here = self.shared.reservations().of(node);
        let here: Vec<(ObjectKey, u32)> =
            here.map(|(key, made)| (key.clone(), made.index)).collect();
        for (key, before) in here {
            let mut index = before;
            if before >= count && !is_used(node, before, cx) {
                index = self.shared.vacant(node, cx);
                self.shared.renumber(&key, index);
            }
            let has_card = cx.scheduler.holding(&key).is_some_and(|h| h.keeps.is_some());
            if !has_card || index != before {
                self.enter_reservation(&key, cx);
            }
        }
    }

    /// Returns the cards that nobody shares any more. Those that were taken to find a lost one are
    /// returned once it is found: earlier, they would be given again instead of it.
    pub(in crate::state) fn return_cards(&mut self, cx: &mut Context) {
        for node in self.shared.take_idle() {
            for (index, hold) in self.shared.holds(&node) {
                if matches!(hold, Hold::Held | Hold::Asked)
                    && !is_used(&node, index, cx)
                    && !self.is_wanted_by_kai(&node, index, cx)
                    && let Some((key, uid)) = self.shared.close(&node, index)
                {
                    unreserve(key, &uid, cx);
                }
            }
        }
    }

    /// Whether a reservation was KAI's, and a share that it bound may yet turn up.
    fn is_wanted_by_kai(&self, node: &str, index: u32, cx: &mut Context) -> bool {
        let made = self.shared.reservations().at(node, index);
        let Some(since) = made.and_then(|(_, made)| made.adopted) else { return false };
        if cx.now < since + MAY_BE_USED {
            cx.at(since + MAY_BE_USED, Timer::LookAtCards(node.into()));
            return true;
        }
        let group = self.shared.slots().get(node, index).map_or("", |slot| &*slot.group);
        self.adoption.may_use(node, group)
    }
}
