//! Cards of nodes with a device plugin: each shared card is held by a reservation pod, and a share
//! is bound once it is known which card that is.
//!
//! ```text
//!   a share opens a card ─► Reserve ─► the pod runs ─► its card is known ─► Bind, all that wait
//!   the last share is gone ─► Unreserve ─► the pod is gone ─► the card is free
//! ```
//!
//! In the ledger a reservation pod holds nothing of its card, which keeps the card from being given
//! whole; while it is being deleted it holds all of it, which keeps it from being given at all.
//! Nothing here has to be undone after a crash: a reservation pod is found by its labels, and
//! serves whoever needs a card on its node.

use super::slots::{Hold, Slot};
use super::timers::Timer;
use super::{Action, Binding, Grant, State, Target};
use crate::api::Failure;
use crate::objects::PodItem;
use divvy_engine::{Bound, BoundCards, Event, PodKey, PodRecord, PodSpec};
use divvy_ledger::{Bytes, CardShare, Holding, MilliCpu, Node, Portion, Request};
use divvy_words::cards::{CardName, NamedShare};
use divvy_words::reservation;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a share gets with its binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandOff {
    /// Its cards by name.
    pub(crate) cards: Vec<NamedShare>,
    /// Their groups, by which KAI would know them.
    pub(crate) groups: Vec<Box<str>>,
    /// The part of each card that it has.
    pub(crate) portion: String,
}

/// A reservation pod that exists, or is about to.
#[derive(Clone, Debug)]
pub(super) struct Reservation {
    pub(super) node: Arc<str>,
    pub(super) index: u32,
    /// Empty until it has been seen.
    uid: Box<str>,
    /// Why it does not run yet, as far as it says.
    why: Arc<str>,
    /// Since when it is waited for.
    since: Instant,
}

/// How long a reservation pod may take to run.
const PATIENCE: Duration = Duration::from_secs(60);
/// When a request that failed is made again.
const AGAIN: Duration = Duration::from_secs(5);
/// What a reservation pod asks besides its card.
const CPU: MilliCpu = MilliCpu(1);
const MEMORY: Bytes = Bytes(16 << 20);

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
        let is_new = |group: &String| {
            let name = reservation::name(node, group);
            !self.reservations.contains_key(&PodKey::new(reservation::NAMESPACE, &name))
        };
        let more = (1..u32::MAX).map(|nth| format!("{uid}-{nth}"));
        std::iter::once(uid.to_owned()).chain(more).find(is_new).unwrap_or_default()
    }

    /// Asks for a reservation pod that is to hold this card.
    pub(super) fn ask(&mut self, node: &Arc<str>, index: u32, group: &str, now: Instant) {
        let key = PodKey::new(reservation::NAMESPACE, &reservation::name(node, group));
        let slot = Slot { group: group.into(), uuid: None, hold: Hold::Asked };
        self.slots.insert(node, index, slot);
        let why = "it has not been seen yet".into();
        let made = Reservation { node: node.clone(), index, uid: "".into(), why, since: now };
        self.reservations.insert(key.clone(), made);
        self.enter_reservation(&key, node, index);
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

    /// What a share gets, if all its cards are held by now.
    pub(super) fn hand_off(&self, binding: &Binding) -> Option<HandOff> {
        let node = &binding.placement.node;
        let slot = |share: &CardShare| {
            let slot = self.slots.get(node, share.index).filter(|slot| slot.hold == Hold::Held)?;
            let card = CardName::Uuid(slot.uuid.clone()?);
            Some((NamedShare { card, bytes: share.bytes }, slot.group.clone()))
        };
        let held = binding.placement.cards.iter().map(slot).collect::<Option<Vec<_>>>()?;
        let (cards, groups) = held.into_iter().unzip();
        let portion = self.portion(&binding.pod.key)?;
        Some(HandOff { cards, groups, portion })
    }

    /// The part of each card that a pod holds, as a decimal.
    fn portion(&self, key: &PodKey) -> Option<String> {
        let holding = self.scheduler.holding(key)?;
        let Request::Share { portion, .. } = holding.needs.request else { return None };
        Some(match portion {
            Portion::Fraction(fraction) => fraction.to_string(),
            Portion::Memory(bytes) => {
                let card = self.scheduler.ledger().node(holding.node)?.card_size();
                let millionths = u128::from(bytes.0) * 1_000_000 / u128::from(card.0.max(1));
                let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
        })
    }

    /// Takes in a reservation pod of a node.
    pub(super) fn reservation_seen(&mut self, pod: &PodItem, group: &str, now: Instant) {
        let key = pod.key();
        let node = pod.node().unwrap_or_default();
        let known = self.reservations.get(&key).filter(|known| known.uid == pod.metadata.uid);
        let (is_same, since) = (known.is_some(), known.map_or(now, |known| known.since));
        // Once it is known which card it has, that does not change while it runs.
        let before = known.and_then(|known| self.slots.get(node, known.index)?.uuid.clone());
        let before = before.filter(|_| &*pod.status.phase == "Running");
        let uuid = reservation::card(&pod.metadata, &pod.status).or(before.as_deref());
        if pod.status.has_ended() {
            let why = pod.status.why().unwrap_or_else(|| "it has ended".to_owned());
            self.unreserve(key.clone(), &pod.metadata.uid);
            let known = self.reservations.get(&key).map(|known| known.index);
            return known.map_or((), |index| self.reservation_lost(&key, node, index, &why, now));
        }
        let index = self.slot_for(&key, node, uuid, group);
        let before = self.reservations.get(&key).map(|known| known.index);
        if let Some(before) = before.filter(|before| *before != index) {
            self.leave_slot(node, before);
            // Shares that waited for it need another one.
            if let Some(pod) = self.waiting_for(node, before).first() {
                let group = self.new_group(node, &pod.uid);
                self.ask(&node.into(), before, &group, now);
            }
        }
        let was = self.slots.get(node, index).map(|slot| slot.hold);
        let hold = match uuid {
            _ if pod.is_ending() => Hold::Closing,
            // What is told now was written before it was deleted.
            _ if is_same && was == Some(Hold::Closing) => Hold::Closing,
            Some(_) => Hold::Held,
            None => Hold::Asked,
        };
        let mut slot = self.slots.get(node, index).cloned().unwrap_or_else(|| Slot {
            group: group.into(),
            uuid: None,
            hold,
        });
        slot.hold = hold;
        slot.uuid = uuid.map(Into::into).or(slot.uuid);
        if slot.group.is_empty() {
            slot.group = group.into();
        } else if *slot.group != *group && uuid.is_some() {
            // It was found by its card; from now on others find it by its group.
            let group = slot.group.clone();
            self.actions.push(Action::Relabel { key: key.clone(), group });
        }
        if was == Some(Hold::Taken) {
            self.scheduler.close_card(node, index, false);
        }
        if hold == Hold::Asked && !is_same {
            self.timers.add(since + PATIENCE, Timer::NotReserved(key.clone()));
        }
        self.slots.insert(node, index, slot);
        let why = pod.status.why().map_or_else(|| "it does not run yet".into(), Arc::from);
        let uid = pod.metadata.uid.clone();
        let seen = Reservation { node: node.into(), index, uid, why, since };
        self.reservations.insert(key.clone(), seen);
        self.enter_reservation(&key, node, index);
        self.stirred = true;
        self.unsettled.insert(node.into());
    }

    /// A slot has no reservation any more. Without a card there is nothing to lose.
    fn leave_slot(&mut self, node: &str, index: u32) {
        match self.slots.get_mut(node, index) {
            Some(slot) if slot.uuid.is_some() => slot.hold = Hold::Lost,
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
    fn waiting_for(&self, node: &str, index: u32) -> Vec<Target> {
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
        let Some(late) = self.reservations.get(key).filter(|r| now >= r.since + PATIENCE) else {
            return;
        };
        let Reservation { node, index, uid, why, .. } = late.clone();
        match self.slots.get_mut(&node, index) {
            // From here on nobody gets it, also if it comes to run at last.
            Some(slot) if slot.hold == Hold::Asked => slot.hold = Hold::Closing,
            _ => return,
        }
        self.unreserve(key.clone(), &uid);
        for pod in self.waiting_for(&node, index) {
            let why = format!("no card could be reserved within a minute: {why}");
            self.not_provided(&pod, &why, now);
        }
    }

    /// Deletes a reservation pod that could not be deleted before, if that is still wanted.
    pub(super) fn unreserve_again(&mut self, key: PodKey, uid: Box<str>) {
        let known = self.reservations.get(&key).filter(|known| known.uid == uid);
        let slot = known.and_then(|known| self.slots.get(&known.node, known.index));
        if slot.is_none_or(|slot| slot.hold == Hold::Closing) {
            self.actions.push(Action::Unreserve { key, uid });
        }
    }

    fn unreserve(&mut self, key: PodKey, uid: &str) {
        self.actions.push(Action::Unreserve { key, uid: uid.into() });
    }

    /// Closes or opens nodes, where something has changed.
    pub(super) fn settle_cards(&mut self, now: Instant) {
        for node in std::mem::take(&mut self.unsettled) {
            let mut lost = Vec::new();
            for (index, hold) in self.holds(&node) {
                match (hold, self.is_used(&node, index)) {
                    (Hold::Lost | Hold::Closing, true) => {
                        // Without a card there is nothing to lose.
                        let slot = self.slots.get(&node, index);
                        let has_card = slot.is_some_and(|slot| slot.uuid.is_some());
                        if has_card && !self.is_taken(&node, index) {
                            lost.push(index);
                        }
                    }
                    (Hold::Taken, true) => {
                        if self.is_given_back(&node, index) {
                            lost.push(index);
                        }
                    }
                    (Hold::Lost, false) => self.slots.remove(&node, index),
                    (Hold::Taken, false) => {
                        self.slots.remove(&node, index);
                        self.scheduler.close_card(&node, index, false);
                    }
                    (Hold::Held | Hold::Asked, _) | (Hold::Closing, false) => {}
                }
            }
            if lost.is_empty() {
                self.number(&node);
            }
            self.scheduler.set_unsettled(&node, !lost.is_empty());
            if lost.is_empty() {
                self.stop_search(&node);
                self.idle.insert(node);
            } else {
                self.win_back(&node, &lost, now);
            }
        }
    }

    /// Gives each reservation its card in the ledger, once no card is lost: then there is one for
    /// every reservation, and each counts until it is gone.
    fn number(&mut self, node: &str) {
        let count = self.ledger_node(node).map_or(0, Node::card_count);
        if count == 0 {
            // Not known for the moment: the device plugin starts, or the node's labels are gone.
            return;
        }
        let here = self.reservations.iter().filter(|(_, made)| *made.node == *node);
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
                self.enter_reservation(&key, node, index);
            }
        }
    }

    /// Returns the cards that nobody shares any more. Those that were taken to find a lost one are
    /// returned once it is found: earlier, they would be given again instead of it.
    pub(super) fn return_cards(&mut self) {
        for node in std::mem::take(&mut self.idle) {
            for (index, hold) in self.holds(&node) {
                if matches!(hold, Hold::Held | Hold::Asked) && !self.is_used(&node, index) {
                    self.close(&node, index);
                }
            }
        }
    }

    fn holds(&self, node: &str) -> Vec<(u32, Hold)> {
        self.slots.of(node).map(|(index, slot)| (index, slot.hold)).collect()
    }

    /// Whether a pod has or will have a share of a card.
    fn is_used(&self, node: &str, index: u32) -> bool {
        let mut unentered = self.scheduler.claimants(node, index);
        unentered.any(|key| !self.reservations.contains_key(key))
            || !self.sharers(node, index).is_empty()
    }

    /// Returns a card that nobody shares any more.
    fn close(&mut self, node: &str, index: u32) {
        let is_its = |(_, r): &(&PodKey, &Reservation)| *r.node == *node && r.index == index;
        let Some((key, made)) = self.reservations.iter().find(is_its) else { return };
        // One that nobody has seen yet is deleted once it is.
        if made.uid.is_empty() {
            return;
        }
        let (key, uid) = (key.clone(), made.uid.clone());
        if let Some(slot) = self.slots.get_mut(node, index) {
            slot.hold = Hold::Closing;
        }
        self.enter_reservation(&key, node, index);
        self.unreserve(key, &uid);
    }

    pub(super) fn ledger_node(&self, name: &str) -> Option<&Node> {
        let ledger = self.scheduler.ledger();
        ledger.node(ledger.find(name)?)
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

    /// Enters a reservation pod: with nothing of its card, or all of it if it is being deleted.
    fn enter_reservation(&mut self, key: &PodKey, node: &str, index: u32) {
        let slot = self.slots.get(node, index);
        let closes = slot.is_some_and(|slot| slot.hold == Hold::Closing);
        let bytes = match self.ledger_node(node) {
            Some(found) if closes && !self.is_used(node, index) => found.card_size(),
            _ => Bytes(0),
        };
        let request = Request::Share { portion: Portion::Memory(bytes), cards: 1 };
        // While lost cards are looked for, there are more reservations than indexes for them.
        let cards = if self.ledger_node(node).is_some_and(|node| index < node.card_count()) {
            BoundCards::Recorded(vec![CardShare { index, bytes }])
        } else {
            BoundCards::Nothing
        };
        let record = PodRecord {
            key: key.clone(),
            uid: "".into(),
            priority: 0,
            created: 0,
            spec: PodSpec { cpu: CPU, memory: MEMORY, request, ..PodSpec::default() },
            invalid: None,
            paused: None,
            nominated: None,
            bound: Some(Bound::new(node, cards)),
        };
        self.apply(Event::Pod(Box::new(record)));
    }

    /// The cards that a bound share names, by index; each is a slot from now on.
    pub(super) fn named_cards(
        &mut self,
        node: &str,
        groups: &[&str],
        shares: &[NamedShare],
    ) -> Vec<CardShare> {
        let mut cards = Vec::new();
        for (nth, NamedShare { card, bytes }) in shares.iter().enumerate() {
            let index = match card {
                CardName::Index(index) => *index,
                CardName::Uuid(uuid) => {
                    let group = groups.get(nth).copied().unwrap_or_default();
                    let known = self.slots.find(node, Some(uuid), "");
                    known.unwrap_or_else(|| {
                        let index = self.vacant(node);
                        let uuid = Some(uuid.clone());
                        self.slots.insert(
                            node,
                            index,
                            Slot { group: group.into(), uuid, hold: Hold::Lost },
                        );
                        self.unsettled.insert(node.into());
                        index
                    })
                }
            };
            cards.push(CardShare { index, bytes: *bytes });
        }
        cards
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
            // One that was never seen is gone for good. Of others the watch will tell.
            Ok(()) if uid.is_empty() => self.reservation_gone(&key, now),
            Ok(()) => {}
            // Another one of that name, or none: this one is gone.
            Err(Failure::NotFound(_) | Failure::Conflict(_)) => {
                if self.reservations.get(&key).is_some_and(|known| known.uid == uid) {
                    self.reservation_gone(&key, now);
                }
            }
            Err(_) => self.timers.add(now + AGAIN, Timer::UnreserveAgain { key, uid }),
        }
    }

    /// If a pod has a share of a card, that card may be nobody's soon.
    pub(super) fn share_may_go(&mut self, key: &PodKey) {
        if self.slots.is_empty() {
            return;
        }
        let is_share = |h: &&Holding| matches!(h.needs.request, Request::Share { .. });
        let holding = self.scheduler.holding(key).filter(is_share);
        let node = holding.and_then(|h| self.scheduler.ledger().node(h.node));
        if let Some(name) = node.map(Node::name).filter(|name| self.slots.of(name).next().is_some())
        {
            self.unsettled.insert((&**name).into());
        }
    }
}
