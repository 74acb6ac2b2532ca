//! The pods that hold shared cards: each is asked for, seen, and returned or lost. A share is bound once
//! it is known which card its reservation has.
//!
//! In the ledger a reservation pod is the keeper of its card, which keeps the card from being given
//! whole; while it is being deleted the card is closed, which keeps it from being given at all. What
//! it takes of its node the ledger books with the share that opens the card, until it is there.
//! Nothing here has to be undone after a crash: a reservation pod is found by its labels, and
//! serves whoever needs a card on its node.

use super::Cards;
use super::reserved::Reservation;
use super::slots::{Hold, Slot};
use crate::listing::Keyed;
use crate::objects::PodItem;
use crate::place::Place;
use crate::state::action::{Action, Binding};
use crate::state::bindings::Bindings;
use crate::state::context::Context;
use crate::state::records;
use crate::state::timers::Timer;
use divvy_api::Failure;
use divvy_engine::{Bound, BoundCards, Event, ObjectKey, PodRecord, PodSpec};
use divvy_ledger::{Holder, Node, Opening};
use divvy_words::{keys, reservation};
use std::sync::Arc;
use std::time::Duration;

/// How long a reservation pod may take to run.
const PATIENCE: Duration = Duration::from_secs(60);
/// Why a reservation that is gone from the API holds its card no more.
pub(super) const DELETED: &str = "it was deleted";
/// When a request that failed is made again.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

impl Cards {
    /// The group of a pod that holds a card for us: it says so, or is taken over from KAI. Where cards
    /// are replicas, KAI's is one of those to us, and nobody can join it.
    pub(in crate::state) fn reserves<'a>(
        &self,
        pod: &'a PodItem,
        adopts: bool,
        cx: &Context,
    ) -> Option<&'a str> {
        let group = reservation::group(&pod.metadata).filter(|_| pod.node().is_some())?;
        let known = self.reservations.get(&pod.key());
        if known.is_some_and(|known| pod.node() != Some(&*known.node)) {
            // Its name is that of one for another node, which cannot be made until it is gone.
            return None;
        }
        let is_ours = reservation::is_ours(&pod.metadata)
            || known.is_some_and(|known| known.uid == pod.metadata.uid)
            || adopts && super::adopt::is_on_cards(pod, cx);
        is_ours.then_some(group)
    }

    pub(in crate::state) fn is_reservation(&self, key: &ObjectKey) -> bool {
        self.reservations.contains_key(key)
    }

    /// Makes sure that each card of a share is held, or will be.
    pub(in crate::state) fn reserve(&mut self, binding: &Binding, cx: &mut Context) {
        let node = binding.placement.node.clone();
        for share in &binding.placement.cards {
            if self.slots.get(&node, share.index).is_none() {
                let group = self.new_group(&node, &binding.pod.uid);
                self.ask(&node, share.index, &group, cx);
            }
        }
    }

    /// A group for a card that this pod opens. The same after a restart, unless the reservation
    /// pod of that name is on its way out.
    fn new_group(&self, node: &str, uid: &str) -> String {
        let more = (1..u32::MAX).map(|nth| format!("{uid}-{nth}"));
        let mut all = std::iter::once(uid.to_owned()).chain(more);
        all.find(|group| self.is_new(node, group)).unwrap_or_default()
    }

    /// Whether no reservation pod of this group is there, or on its way.
    pub(super) fn is_new(&self, node: &str, group: &str) -> bool {
        !self.reservations.contains_key(&key_of(node, group))
    }

    /// Asks for a reservation pod that is to hold this card.
    pub(super) fn ask(&mut self, node: &Arc<str>, index: u32, group: &str, cx: &mut Context) {
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
        self.enter_reservation(&key, cx);
        cx.after(PATIENCE, Timer::NotReserved(key.clone()));
        self.ask_for(key, cx);
    }

    fn ask_for(&self, key: ObjectKey, cx: &mut Context) {
        let Some(Reservation { node, index, .. }) = self.reservations.get(&key) else { return };
        let Some(slot) = self.slots.get(node, *index) else { return };
        let node_uid = self.nodes.get(&**node).map(|node| node.uid.clone()).unwrap_or_default();
        let (node, group) = (node.clone(), slot.group.clone());
        cx.act(Action::Reserve { key, node, node_uid, group });
    }

    /// Takes in a reservation pod of a node.
    pub(in crate::state) fn reservation_seen(
        &mut self,
        pod: &PodItem,
        group: &str,
        bindings: &mut Bindings,
        cx: &mut Context,
    ) {
        let key = pod.key();
        let node = pod.node().unwrap_or_default();
        if !self.reservations.contains_key(&key) {
            // It may have counted as another's until now.
            self.devices.remove(&key);
            self.apply(Event::PodGone(key.clone()), cx);
        }
        let known = self.reservations.get(&key).filter(|known| known.uid == pod.metadata.uid);
        let (is_same, since) = (known.is_some(), known.map_or(cx.now, |known| known.since));
        let is_kais = !reservation::is_ours(&pod.metadata);
        let adopted = known.map_or(is_kais.then_some(cx.now), |known| known.adopted);
        // Once it is known which card it has, that does not change while it runs.
        let had = known.and_then(|known| self.slots.get(node, known.index)?.uuid.clone());
        let had = had.filter(|_| &*pod.status.phase == "Running");
        let uuid = reservation::card(&pod.metadata, &pod.status).or(had.as_deref());
        let is_slice = pod.status.has_slice_as_gpu();
        if pod.status.has_ended() || is_slice {
            let why = match is_slice {
                true => "the device plugin handed out a slice of a card".to_owned(),
                false => pod.status.why().unwrap_or_else(|| "it has ended".to_owned()),
            };
            self.searches.refused(node, &why);
            unreserve(key.clone(), &pod.metadata.uid, cx);
            return self.reservation_lost(&key, &why, bindings, cx);
        }
        let is_given_up = self.was_given_up_unseen(&key);
        let index = self.slot_for(&key, node, uuid, group, cx);
        self.move_slot(&key, node, index, bindings, cx);
        let was = self.slots.get(node, index).map(|slot| slot.hold);
        let hold = match uuid {
            _ if pod.is_ending() || is_given_up => Hold::Closing,
            // What is told now was written before it was deleted.
            _ if is_same && was == Some(Hold::Closing) => Hold::Closing,
            Some(_) => Hold::Held,
            None => Hold::Asked,
        };
        let slot = self.slots.get(node, index).cloned();
        let mut slot = slot.unwrap_or_else(|| Slot::new(group, hold));
        slot.hold = hold;
        slot.sick = pod.status.has_sick_card();
        slot.uuid = uuid.map(Into::into).or(slot.uuid);
        slot.number = reservation::number(&pod.metadata).or(slot.number);
        if slot.group.is_empty() {
            slot.group = group.into();
        }
        if !is_same {
            self.forget_written(&key);
        }
        let ghosts = pod.metadata.annotations.get(keys::GHOSTS).filter(|text| !text.is_empty());
        self.wanted.seen(Place::Ghosts(key.clone()), ghosts.map(Into::into));
        let place = Place::Group(key.clone());
        // It was found by its card: from now on others find it by its group. Or it was KAI's.
        let is_misnamed = *slot.group != *group && uuid.is_some();
        if !is_misnamed && !is_kais {
            self.wanted.forget(&place);
        } else if !pod.is_ending() {
            self.wanted.want(place, Some(slot.group.clone()));
        }
        if hold == Hold::Asked && !is_same {
            cx.timers.add(since + PATIENCE, Timer::NotReserved(key.clone()));
        }
        self.slots.insert(node, index, slot);
        let PodSpec { cpu, memory, .. } = records::waiting(pod).spec;
        let seen = Reservation {
            node: node.into(),
            index,
            uid: pod.metadata.uid.clone(),
            why: pod.status.why().map_or_else(|| "it does not run yet".into(), Arc::from),
            since,
            asks: Opening { cpu, memory },
            adopted,
        };
        self.unsettle(node);
        self.reservations.insert(key.clone(), seen);
        self.enter_reservation(&key, cx);
        for event in self.ghosts.restore(pod, index, cx) {
            self.apply(event, cx);
        }
        self.adoption.look_again();
        bindings.look_again();
        if is_given_up && !pod.is_ending() {
            // It may have been made only after it was deleted.
            unreserve(key.clone(), &pod.metadata.uid, cx);
        }
        if pod.status.is_stuck() {
            self.give_up(&key, "no card could be reserved", bindings, cx);
        }
    }

    /// The slot for a reservation pod: that of its card, else its own, else a new one.
    fn slot_for(
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

    /// A reservation has turned out to hold the card of this slot, and not the one that it was asked
    /// for.
    fn move_slot(
        &mut self,
        key: &ObjectKey,
        node: &str,
        index: u32,
        bindings: &mut Bindings,
        cx: &mut Context,
    ) {
        let before = self.reservations.get(key).map(|known| known.index);
        let Some(before) = before.filter(|before| *before != index) else { return };
        self.leave_slot(node, before, cx);
        if self.slots.get(node, before).is_some() {
            // Others run on the card that it was to hold, and that one is won back first.
            bindings.card_lost(node, before, "its reservation was given another card", cx);
        } else if let Some(pod) = bindings.waiting_for(node, before).first() {
            // Shares that waited for it need another one.
            let group = self.new_group(node, &pod.uid);
            self.ask(&node.into(), before, &group, cx);
        }
    }

    /// Nobody minds any more what stands on a reservation pod.
    fn forget_written(&mut self, key: &ObjectKey) {
        self.wanted.forget(&Place::Ghosts(key.clone()));
        self.wanted.forget(&Place::Group(key.clone()));
    }

    /// Whether a reservation was given up before anybody had seen its pod.
    fn was_given_up_unseen(&self, key: &ObjectKey) -> bool {
        let known = self.reservations.get(key).filter(|known| known.uid.is_empty());
        let slot = known.and_then(|known| self.slots.get(&known.node, known.index));
        slot.is_some_and(|slot| slot.hold == Hold::Closing)
    }

    /// A slot has no reservation any more. Without a card, or a pod that has it, there is nothing
    /// to lose: the next reservation may have been given the same card.
    fn leave_slot(&mut self, node: &str, index: u32, cx: &Context) {
        let is_used = self.is_used(node, index, cx);
        match self.slots.get_mut(node, index) {
            Some(slot) if slot.uuid.is_some() && is_used => slot.hold = Hold::Lost,
            _ => self.slots.remove(node, index),
        }
    }

    /// A card is not held any more: shares that wait for it fail, and those that have it lose the
    /// certainty that nobody else gets it.
    pub(super) fn reservation_lost(
        &mut self,
        key: &ObjectKey,
        why: &str,
        bindings: &mut Bindings,
        cx: &mut Context,
    ) {
        let Some(Reservation { node, index, .. }) = self.reservations.remove(key) else { return };
        self.forget_written(key);
        self.apply(Event::PodGone(key.clone()), cx);
        bindings.card_lost(&node, index, &format!("no card could be reserved: {why}"), cx);
        self.leave_slot(&node, index, cx);
        bindings.look_again();
        self.unsettle(&node);
    }

    /// What became of [`Action::Reserve`].
    pub(in crate::state) fn reserved(
        &mut self,
        key: ObjectKey,
        result: Result<(), Failure>,
        bindings: &mut Bindings,
        cx: &mut Context,
    ) {
        if !self.reservations.contains_key(&key) {
            return;
        }
        match result {
            // One that exists already is the one that we asked for, by its name.
            Ok(()) | Err(Failure::Conflict(_)) => {}
            Err(failure @ (Failure::Refused { .. } | Failure::NotFound(_))) => {
                self.reservation_lost(&key, &failure.to_string(), bindings, cx);
            }
            Err(_) => cx.after(AGAIN, Timer::ReserveAgain(key)),
        }
    }

    /// Asks again for a reservation that nobody has seen yet.
    pub(in crate::state) fn reserve_again(&self, key: ObjectKey, cx: &mut Context) {
        if self.reservations.get(&key).is_some_and(|r| r.uid.is_empty()) {
            self.ask_for(key, cx);
        }
    }

    /// Gives up on a reservation pod that does not come to run.
    pub(in crate::state) fn reservation_is_late(
        &mut self,
        key: &ObjectKey,
        bindings: &mut Bindings,
        cx: &mut Context,
    ) {
        if self.reservations.get(key).is_some_and(|r| cx.now >= r.since + PATIENCE) {
            self.give_up(key, "no card could be reserved within a minute", bindings, cx);
        }
    }

    /// Deletes a reservation pod that does not run yet; the shares that wait for it fail.
    fn give_up(&mut self, key: &ObjectKey, what: &str, bindings: &mut Bindings, cx: &mut Context) {
        let Some(made) = self.reservations.get(key) else { return };
        let Reservation { node, index, uid, why, .. } = made.clone();
        match self.slots.get_mut(&node, index) {
            // From here on nobody gets it, also if it comes to run at last.
            Some(slot) if slot.hold == Hold::Asked => slot.hold = Hold::Closing,
            _ => return,
        }
        self.unsettle(&node);
        unreserve(key.clone(), &uid, cx);
        bindings.card_lost(&node, index, &format!("{what}: {why}"), cx);
    }

    /// Enters a reservation pod as the keeper of its card.
    pub(super) fn enter_reservation(&mut self, key: &ObjectKey, cx: &mut Context) {
        let Some(made) = self.reservations.get(key) else { return };
        let Reservation { node, index, asks, .. } = made.clone();
        // While lost cards are looked for, there are more reservations than indexes for them.
        let cards = if cx.node(&node).is_some_and(|node| index < node.card_count()) {
            BoundCards::Kept(index)
        } else {
            BoundCards::Nothing
        };
        let Opening { cpu, memory } = asks;
        let record = PodRecord {
            key: key.clone(),
            spec: PodSpec { cpu, memory, holder: Holder::Keeper, ..PodSpec::default() },
            bound: Some(Bound::new(&*node, cards)),
            ..PodRecord::default()
        };
        self.apply(Event::Pod(Box::new(record)), cx);
    }

    /// What became of [`Action::Unreserve`].
    pub(in crate::state) fn unreserved(
        &mut self,
        key: ObjectKey,
        uid: Box<str>,
        result: &Result<(), Failure>,
        cx: &mut Context,
    ) {
        match result {
            Ok(()) | Err(Failure::NotFound(_)) if uid.is_empty() => self.unseen.add(key, cx),
            // Of others the watch will tell. A conflict does not say that this one is gone: the watch
            // will, if there is another one of that name.
            Ok(()) | Err(Failure::NotFound(_)) => {}
            Err(_) => cx.after(AGAIN, Timer::UnreserveAgain { key, uid }),
        }
    }

    /// Has the pods listed, if reservations are sought that nobody has seen.
    pub(in crate::state) fn seek_unseen(&mut self, cx: &mut Context) {
        self.unseen.seek(&self.reservations, cx);
    }

    /// A list has ended: those that it did not show are gone.
    pub(in crate::state) fn forget_unseen(&mut self, bindings: &mut Bindings, cx: &mut Context) {
        for key in self.unseen.gone(&self.reservations, cx) {
            self.reservation_lost(&key, DELETED, bindings, cx);
        }
    }

    /// Deletes a reservation pod that could not be deleted before, if that is still wanted.
    pub(in crate::state) fn unreserve_again(
        &self,
        key: ObjectKey,
        uid: Box<str>,
        cx: &mut Context,
    ) {
        let known = self.reservations.get(&key);
        if known.is_some_and(|known| known.uid != uid) {
            return;
        }
        let slot = known.and_then(|known| self.slots.get(&known.node, known.index));
        if slot.is_none_or(|slot| slot.hold == Hold::Closing) {
            cx.act(Action::Unreserve { key, uid });
        }
    }
}

pub(super) fn unreserve(key: ObjectKey, uid: &str, cx: &mut Context) {
    cx.act(Action::Unreserve { key, uid: uid.into() });
}

fn key_of(node: &str, group: &str) -> ObjectKey {
    ObjectKey::new(reservation::NAMESPACE, &reservation::name(node, group))
}
