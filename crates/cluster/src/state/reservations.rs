//! Cards of nodes with a device plugin: each shared card is held by a reservation pod, and a share
//! is bound once it is known which card that is.
//!
//! ```text
//!   a share opens a card ─► Reserve ─► the pod runs ─► its card is known ─► Bind, all that wait
//!   the last share is gone ─► Unreserve ─► the pod is gone ─► the card is free
//! ```
//!
//! In the ledger a reservation pod is the keeper of its card, which keeps the card from being given
//! whole; while it is being deleted the card is closed, which keeps it from being given at all. What
//! it takes of its node the ledger books with the share that opens the card, until it is there.
//! Nothing here has to be undone after a crash: a reservation pod is found by its labels, and
//! serves whoever needs a card on its node.

use super::reserved::Reservation;
use super::slots::{Hold, Slot};
use super::timers::{self, Timer};
use super::wanted::Wanted;
use super::{Action, Binding, Grant, State, Target, records};
use crate::api::Failure;
use crate::objects::PodItem;
use divvy_engine::{Bound, BoundCards, Event, PodKey, PodRecord, PodSpec};
use divvy_ledger::{Bytes, CardShare, Holder, Opening};
use divvy_words::{keys, reservation};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a reservation pod may take to run.
const PATIENCE: Duration = Duration::from_secs(60);
/// When a request that failed is made again.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

impl State {
    /// Makes sure that each card of a share is held, or will be.
    pub(super) fn reserve(&mut self, binding: &Binding, now: Instant) {
        let node = binding.placement.node.clone();
        for share in &binding.placement.cards {
            if self.slots.get(&node, share.index).is_none() {
                let group = self.new_group(&node, &binding.pod.uid);
                self.ask(&node, share.index, &group, now);
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
    pub(super) fn ask(&mut self, node: &Arc<str>, index: u32, group: &str, now: Instant) {
        let key = key_of(node, group);
        let slot = Slot { group: group.into(), uuid: None, hold: Hold::Asked, sick: false };
        self.slots.insert(node, index, slot);
        let why = "it has not been seen yet".into();
        let asks = self.scheduler.config().hand_off.unwrap_or_default();
        let (node, uid) = (node.clone(), "".into());
        let (relabelled, adopted, ghosts) = (false, None, Wanted::default());
        let made =
            Reservation { node, index, uid, why, since: now, asks, relabelled, adopted, ghosts };
        self.reservations.insert(key.clone(), made);
        self.enter_reservation(&key);
        self.timers.add(now + PATIENCE, Timer::NotReserved(key.clone()));
        self.ask_for(key);
    }

    fn ask_for(&mut self, key: PodKey) {
        let Some(Reservation { node, index, .. }) = self.reservations.get(&key) else { return };
        let Some(slot) = self.slots.get(node, *index) else { return };
        let node_uid = self.node_uids.get(&**node).cloned().unwrap_or_default();
        let (node, group) = (node.clone(), slot.group.clone());
        self.actions.push(Action::Reserve { key, node, node_uid, group });
    }

    /// Takes in a reservation pod of a node.
    pub(super) fn reservation_seen(&mut self, pod: &PodItem, group: &str, now: Instant) {
        let key = pod.key();
        let node = pod.node().unwrap_or_default();
        if !self.reservations.contains_key(&key) {
            // It may have counted as another's until now.
            self.devices.remove(&key);
            self.apply(Event::PodGone(key.clone()));
        }
        let known = self.reservations.get(&key).filter(|known| known.uid == pod.metadata.uid);
        let (is_same, since) = (known.is_some(), known.map_or(now, |known| known.since));
        let relabelled = known.is_some_and(|known| known.relabelled);
        let is_kais = !reservation::is_ours(&pod.metadata);
        let adopted = known.map_or(is_kais.then_some(now), |known| known.adopted);
        let mut ghosts = known.map(|known| known.ghosts.clone()).unwrap_or_default();
        ghosts.seen(pod.metadata.annotations.get(keys::GHOSTS).unwrap_or_default().to_owned());
        // Once it is known which card it has, that does not change while it runs.
        let had = known.and_then(|known| self.slots.get(node, known.index)?.uuid.clone());
        let had = had.filter(|_| &*pod.status.phase == "Running");
        let uuid = reservation::card(&pod.metadata, &pod.status).or(had.as_deref());
        if pod.status.has_ended() {
            let why = pod.status.why().unwrap_or_else(|| "it has ended".to_owned());
            self.search_refused(node, &why);
            self.unreserve(key.clone(), &pod.metadata.uid);
            let known = self.reservations.get(&key).map(|known| known.index);
            return known.map_or((), |index| self.reservation_lost(&key, node, index, &why, now));
        }
        let is_given_up = self.was_given_up_unseen(&key);
        let index = self.slot_for(&key, node, uuid, group);
        let before = self.reservations.get(&key).map(|known| known.index);
        if let Some(before) = before.filter(|before| *before != index) {
            self.leave_slot(node, before);
            let waits = self.waiting_for(node, before);
            if self.slots.get(node, before).is_some() {
                // Others run on the card that it was to hold, and that one is won back first.
                for pod in waits {
                    self.not_provided(&pod, "its reservation was given another card", now);
                }
            } else if let Some(pod) = waits.first() {
                // Shares that waited for it need another one.
                let group = self.new_group(node, &pod.uid);
                self.ask(&node.into(), before, &group, now);
            }
        }
        let was = self.slots.get(node, index).map(|slot| slot.hold);
        let hold = match uuid {
            _ if pod.is_ending() || is_given_up => Hold::Closing,
            // What is told now was written before it was deleted.
            _ if is_same && was == Some(Hold::Closing) => Hold::Closing,
            Some(_) => Hold::Held,
            None => Hold::Asked,
        };
        let mut slot = self.slots.get(node, index).cloned().unwrap_or_else(|| Slot {
            group: group.into(),
            uuid: None,
            hold,
            sick: false,
        });
        slot.hold = hold;
        slot.sick = pod.status.has_sick_card();
        slot.uuid = uuid.map(Into::into).or(slot.uuid);
        if slot.group.is_empty() {
            slot.group = group.into();
        }
        // It was found by its card: from now on others find it by its group. Or it was KAI's.
        let is_misnamed = *slot.group != *group && uuid.is_some();
        let relabel = is_misnamed || is_kais;
        if relabel && !relabelled && !pod.is_ending() {
            let group = slot.group.clone();
            self.actions.push(Action::Relabel { key: key.clone(), group });
        }
        if hold == Hold::Asked && !is_same {
            self.timers.add(since + PATIENCE, Timer::NotReserved(key.clone()));
        }
        self.slots.insert(node, index, slot);
        let why = pod.status.why().map_or_else(|| "it does not run yet".into(), Arc::from);
        let uid = pod.metadata.uid.clone();
        let PodSpec { cpu, memory, .. } = records::waiting(pod).spec;
        let asks = Opening { cpu, memory };
        let node: Arc<str> = node.into();
        self.unsettled.insert((&*node).into());
        let relabelled = relabel;
        let seen = Reservation { node, index, uid, why, since, asks, relabelled, adopted, ghosts };
        self.reservations.insert(key.clone(), seen);
        self.enter_reservation(&key);
        self.restore_ghosts(pod, index, now);
        self.adoption.stir();
        self.stirred = true;
        if is_given_up && !pod.is_ending() {
            // It may have been made only after it was deleted.
            self.unreserve(key.clone(), &pod.metadata.uid);
        }
        if pod.status.is_stuck() {
            self.give_up(&key, "no card could be reserved", now);
        }
    }

    /// Whether a reservation was given up before anybody had seen its pod.
    fn was_given_up_unseen(&self, key: &PodKey) -> bool {
        let known = self.reservations.get(key).filter(|known| known.uid.is_empty());
        let slot = known.and_then(|known| self.slots.get(&known.node, known.index));
        slot.is_some_and(|slot| slot.hold == Hold::Closing)
    }

    /// What became of [`Action::Relabel`].
    pub(super) fn relabelled(&mut self, key: PodKey, result: &Result<(), Failure>, now: Instant) {
        if let Err(why) = result {
            tracing::warn!(pod = %key, %why, "failed to label a reservation, will try again");
            self.timers.add(now + timers::wait(why), Timer::RelabelAgain(key));
        }
    }

    /// Labels a reservation anew that still has the wrong labels, as far as we heard.
    pub(super) fn relabel_again(&mut self, key: PodKey) {
        let Some(made) = self.reservations.get(&key).filter(|made| made.relabelled) else { return };
        if let Some(slot) = self.slots.get(&made.node, made.index) {
            let group = slot.group.clone();
            self.actions.push(Action::Relabel { key, group });
        }
    }

    /// A slot has no reservation any more. Without a card, or a pod that has it, there is nothing
    /// to lose: the next reservation may have been given the same card.
    fn leave_slot(&mut self, node: &str, index: u32) {
        let is_used = self.is_used(node, index);
        match self.slots.get_mut(node, index) {
            Some(slot) if slot.uuid.is_some() && is_used => slot.hold = Hold::Lost,
            _ => self.slots.remove(node, index),
        }
    }

    /// A reservation pod is gone from the API.
    pub(super) fn reservation_gone(&mut self, key: &PodKey, now: Instant) {
        if let Some(Reservation { node, index, .. }) = self.reservations.get(key).cloned() {
            self.reservation_lost(key, &node, index, "it was deleted", now);
        }
    }

    /// A card is not held any more: shares that wait for it fail, and those that have it lose the
    /// certainty that nobody else gets it.
    fn reservation_lost(&mut self, key: &PodKey, node: &str, index: u32, why: &str, now: Instant) {
        self.reservations.remove(key);
        self.apply(Event::PodGone(key.clone()));
        let waits: Vec<Target> = self.waiting_for(node, index);
        for pod in waits {
            self.not_provided(&pod, &format!("no card could be reserved: {why}"), now);
        }
        self.leave_slot(node, index);
        self.stirred = true;
        self.unsettled.insert(node.into());
    }

    /// The pods that have a place on this card and wait until it is held.
    pub(super) fn waiting_for(&self, node: &str, index: u32) -> Vec<Target> {
        let here = |binding: &Binding| {
            let mut cards = binding.placement.cards.iter();
            *binding.placement.node == *node && cards.any(|share| share.index == index)
        };
        let all = self.providing.values().map(super::storage::Providing::binding);
        all.filter(|binding| here(binding) && matches!(binding.grant, Grant::HandOff(_)))
            .map(|binding| binding.pod.clone())
            .collect()
    }

    /// What became of [`Action::Reserve`].
    pub(super) fn reserved(&mut self, key: &PodKey, result: Result<(), Failure>, now: Instant) {
        let Some(Reservation { node, index, .. }) = self.reservations.get(key).cloned() else {
            return;
        };
        match result {
            // One that exists already is the one that we asked for, by its name.
            Ok(()) | Err(Failure::Conflict(_)) => {}
            Err(failure @ (Failure::Refused { .. } | Failure::NotFound(_))) => {
                self.reservation_lost(key, &node, index, &failure.to_string(), now);
            }
            Err(_) => self.timers.add(now + AGAIN, Timer::ReserveAgain(key.clone())),
        }
    }

    /// Asks again for a reservation that nobody has seen yet.
    pub(super) fn reserve_again(&mut self, key: PodKey) {
        if self.reservations.get(&key).is_some_and(|r| r.uid.is_empty()) {
            self.ask_for(key);
        }
    }

    /// Gives up on a reservation pod that does not come to run.
    pub(super) fn reservation_is_late(&mut self, key: &PodKey, now: Instant) {
        if self.reservations.get(key).is_some_and(|r| now >= r.since + PATIENCE) {
            self.give_up(key, "no card could be reserved within a minute", now);
        }
    }

    /// Deletes a reservation pod that does not run yet; the shares that wait for it fail.
    fn give_up(&mut self, key: &PodKey, what: &str, now: Instant) {
        let Some(made) = self.reservations.get(key) else { return };
        let Reservation { node, index, uid, why, .. } = made.clone();
        match self.slots.get_mut(&node, index) {
            // From here on nobody gets it, also if it comes to run at last.
            Some(slot) if slot.hold == Hold::Asked => slot.hold = Hold::Closing,
            _ => return,
        }
        self.unsettled.insert((&*node).into());
        self.unreserve(key.clone(), &uid);
        for pod in self.waiting_for(&node, index) {
            self.not_provided(&pod, &format!("{what}: {why}"), now);
        }
    }

    /// Deletes a reservation pod that could not be deleted before, if that is still wanted.
    pub(super) fn unreserve_again(&mut self, key: PodKey, uid: Box<str>) {
        let known = self.reservations.get(&key);
        if known.is_some_and(|known| known.uid != uid) {
            return;
        }
        let slot = known.and_then(|known| self.slots.get(&known.node, known.index));
        if slot.is_none_or(|slot| slot.hold == Hold::Closing) {
            self.actions.push(Action::Unreserve { key, uid });
        }
    }

    pub(super) fn unreserve(&mut self, key: PodKey, uid: &str) {
        self.actions.push(Action::Unreserve { key, uid: uid.into() });
    }

    /// Enters a reservation pod as the keeper of its card.
    pub(super) fn enter_reservation(&mut self, key: &PodKey) {
        let Some(made) = self.reservations.get(key) else { return };
        let Reservation { node, index, asks, .. } = made.clone();
        // While lost cards are looked for, there are more reservations than indexes for them.
        let cards = if self.ledger_node(&node).is_some_and(|node| index < node.card_count()) {
            BoundCards::Recorded(vec![CardShare { index, bytes: Bytes(0) }])
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
        self.apply(Event::Pod(Box::new(record)));
    }

    /// What became of [`Action::Unreserve`].
    pub(super) fn unreserved(
        &mut self,
        key: PodKey,
        uid: Box<str>,
        result: &Result<(), Failure>,
        now: Instant,
    ) {
        match result {
            Ok(()) | Err(Failure::NotFound(_)) if uid.is_empty() => self.deleted_unseen(key, now),
            // Of others the watch will tell. A conflict does not say that this one is gone: the watch
            // will, if there is another one of that name.
            Ok(()) | Err(Failure::NotFound(_)) => {}
            Err(_) => self.timers.add(now + AGAIN, Timer::UnreserveAgain { key, uid }),
        }
    }
}

fn key_of(node: &str, group: &str) -> PodKey {
    PodKey::new(reservation::NAMESPACE, &reservation::name(node, group))
}
