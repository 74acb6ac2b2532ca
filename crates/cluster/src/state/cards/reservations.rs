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
use divvy_ledger::{Holder, Opening};
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
        let known = self.shared.reservations().get(&pod.key());
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
        self.shared.reservations().contains_key(key)
    }

    /// Makes sure that each card of a share is held, or will be.
    pub(in crate::state) fn reserve(&mut self, binding: &Binding, cx: &mut Context) {
        let node = binding.placement.node.clone();
        for share in &binding.placement.cards {
            if self.shared.slots().get(&node, share.index).is_none() {
                let group = self.shared.new_group(&node, &binding.pod.uid);
                self.ask(&node, share.index, &group, cx);
            }
        }
    }

    /// Asks for a reservation pod that is to hold this card.
    pub(super) fn ask(&mut self, node: &Arc<str>, index: u32, group: &str, cx: &mut Context) {
        let key = self.shared.ask(node, index, group, cx);
        self.enter_reservation(&key, cx);
        cx.after(PATIENCE, Timer::NotReserved(key.clone()));
        self.ask_for(key, cx);
    }

    fn ask_for(&self, key: ObjectKey, cx: &mut Context) {
        let Some(Reservation { node, .. }) = self.shared.reservations().get(&key) else { return };
        let Some(slot) = self.shared.slot_of(&key) else { return };
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
        if !self.shared.reservations().contains_key(&key) {
            // It may have counted as another's until now.
            self.devices.remove(&key);
            self.apply(Event::PodGone(key.clone()), cx);
        }
        let known = self.shared.reservations().get(&key);
        let known = known.filter(|known| known.uid == pod.metadata.uid);
        let (is_same, since) = (known.is_some(), known.map_or(cx.now, |known| known.since));
        let is_kais = !reservation::is_ours(&pod.metadata);
        let adopted = known.map_or(is_kais.then_some(cx.now), |known| known.adopted);
        // Once it is known which card it has, that does not change while it runs.
        let had = known.and_then(|known| self.shared.slots().get(node, known.index)?.uuid.clone());
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
        let is_given_up = self.shared.was_given_up_unseen(&key);
        let index = self.shared.slot_for(&key, node, uuid, group, cx);
        self.move_slot(&key, node, index, bindings, cx);
        let was = self.shared.slots().get(node, index).map(|slot| slot.hold);
        let hold = match uuid {
            _ if pod.is_ending() || is_given_up => Hold::Closing,
            // What is told now was written before it was deleted.
            _ if is_same && was == Some(Hold::Closing) => Hold::Closing,
            Some(_) => Hold::Held,
            None => Hold::Asked,
        };
        let slot = self.shared.slots().get(node, index).cloned();
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
            cx.at(since + PATIENCE, Timer::NotReserved(key.clone()));
        }
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
        self.shared.seen(key.clone(), seen, slot);
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
        let before = self.shared.reservations().get(key).map(|known| known.index);
        let Some(before) = before.filter(|before| *before != index) else { return };
        self.shared.leave(node, before, cx);
        if self.shared.slots().get(node, before).is_some() {
            // Others run on the card that it was to hold, and that one is won back first.
            bindings.card_lost(node, before, "its reservation was given another card", cx);
        } else if let Some(pod) = bindings.waiting_for(node, before).first() {
            // Shares that waited for it need another one.
            let group = self.shared.new_group(node, &pod.uid);
            self.ask(&node.into(), before, &group, cx);
        }
    }

    /// Nobody minds any more what stands on a reservation pod.
    fn forget_written(&mut self, key: &ObjectKey) {
        self.wanted.forget(&Place::Ghosts(key.clone()));
        self.wanted.forget(&Place::Group(key.clone()));
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
        let Some(Reservation { node, index, .. }) = self.shared.remove(key) else { return };
        self.forget_written(key);
        self.apply(Event::PodGone(key.clone()), cx);
        bindings.card_lost(&node, index, &format!("no card could be reserved: {why}"), cx);
        self.shared.leave(&node, index, cx);
        bindings.look_again();
        self.shared.unsettle(&node);
    }

    /// What became of [`Action::Reserve`].
    pub(in crate::state) fn reserved(
        &mut self,
        key: ObjectKey,
        result: Result<(), Failure>,
        bindings: &mut Bindings,
        cx: &mut Context,
    ) {
        if !self.shared.reservations().contains_key(&key) {
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
        if self.shared.reservations().is_unseen(&key) {
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
        let known = self.shared.reservations().get(key);
        if known.is_some_and(|known| cx.now >= known.since + PATIENCE) {
            self.give_up(key, "no card could be reserved within a minute", bindings, cx);
        }
    }

    /// Deletes a reservation pod that does not run yet; the shares that wait for it fail.
    fn give_up(&mut self, key: &ObjectKey, what: &str, bindings: &mut Bindings, cx: &mut Context) {
        let Some(Reservation { node, index, uid, why, .. }) = self.shared.give_up(key) else {
            return;
        };
        unreserve(key.clone(), &uid, cx);
        bindings.card_lost(&node, index, &format!("{what}: {why}"), cx);
    }

    /// Enters a reservation pod as the keeper of its card.
    pub(super) fn enter_reservation(&mut self, key: &ObjectKey, cx: &mut Context) {
        let Some(made) = self.shared.reservations().get(key) else { return };
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
        self.unseen.seek(self.shared.reservations(), cx);
    }

    /// A list has ended: those that it did not show are gone.
    pub(super) fn forget_unseen(&mut self, bindings: &mut Bindings, cx: &mut Context) {
        for key in self.unseen.gone(self.shared.reservations(), cx) {
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
        if self.shared.reservations().get(&key).is_some_and(|known| known.uid != uid) {
            return;
        }
        let slot = self.shared.slot_of(&key);
        if slot.is_none_or(|slot| slot.hold == Hold::Closing) {
            cx.act(Action::Unreserve { key, uid });
        }
    }
}

pub(super) fn unreserve(key: ObjectKey, uid: &str, cx: &mut Context) {
    cx.act(Action::Unreserve { key, uid: uid.into() });
}
