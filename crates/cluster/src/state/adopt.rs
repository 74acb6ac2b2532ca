//! Clusters that KAI has left: its reservation pods are taken over, and each share that it bound is
//! counted on the card of its group, for as long as it runs.
//!
//! ```text
//!   KAI is gone ─► its reservations are ours (label) ─► shares by their groups: bind request, else
//!   labels ─► the reservation of that group says which card ─► written down on the share
//! ```
//!
//! A group counts only where a reservation holds its card: anybody may label a pod. While KAI runs,
//! each of its reservations counts as a whole card, and its shares as none.

use super::listing::Listing;
use super::slots::Hold;
use super::timers::Timer;
use super::{Action, State, Target};
use crate::objects::{BindRequestItem, PodItem};
use crate::watch::Change;
use divvy_engine::PodKey;
use divvy_ledger::{Bytes, CardShare, Request};
use divvy_words::cards::{CardName, NamedShare};
use divvy_words::{keys, reservation};
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// So long after KAI's scheduler has gone it may only be restarting.
const MAY_COME_BACK: Duration = Duration::from_secs(60);

/// What is known of pods that KAI bound.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    /// Its reservations, and shares whose card is not known.
    strangers: FxHashMap<PodKey, Box<PodItem>>,
    /// Whether something has changed for them.
    stirred: bool,
    /// Until when KAI may come back.
    waits_until: Option<Instant>,
    /// What it decided, by pod.
    decided: FxHashMap<PodKey, BindRequestItem>,
    requests: Listing<PodKey>,
    /// What was last written about shares, and their uids.
    told: FxHashMap<PodKey, (Box<str>, Told)>,
}

/// What is written about a share that KAI bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Cards,
    Unknown,
}

impl Adoption {
    pub(super) fn stir(&mut self) {
        self.stirred = true;
    }

    /// A pod is seen anew.
    pub(super) fn seen(&mut self, key: &PodKey) {
        self.strangers.remove(key);
    }

    pub(super) fn forget(&mut self, key: &PodKey) {
        self.strangers.remove(key);
        self.told.remove(key);
    }
}

impl State {
    pub(crate) fn bind_request_changed(
        &mut self,
        watch: &'static str,
        change: Change<BindRequestItem>,
    ) {
        let key =
            |item: &BindRequestItem| PodKey::new(&item.metadata.namespace, &item.metadata.name);
        match change {
            Change::Relisting => self.adoption.requests.begin(),
            Change::Seen(item) => {
                self.adoption.requests.see(key(&item));
                if item.is_done() {
                    self.adoption.decided.insert(key(&item), item);
                }
            }
            Change::Gone(item) => {
                self.adoption.requests.forget(&key(&item));
                self.adoption.decided.remove(&key(&item));
            }
            Change::Listed => {
                for gone in self.adoption.requests.gone() {
                    self.adoption.requests.forget(&gone);
                    self.adoption.decided.remove(&gone);
                }
                self.missing.remove(watch);
            }
        }
        self.adoption.stir();
    }

    pub(super) fn kai_left(&mut self, now: Instant) {
        let until = now + MAY_COME_BACK;
        self.adoption.waits_until = Some(until);
        self.timers.add(until, Timer::Adopt);
    }

    /// Whether KAI is gone, and what it left is taken over.
    fn adopts(&self, now: Instant) -> bool {
        let is_over = self.adoption.waits_until.is_none_or(|until| now >= until);
        self.rules.hand_off.is_some() && self.is_listed() && !self.kai_runs() && is_over
    }

    /// Whether a reservation pod is ours: it says so, or is taken over.
    pub(super) fn is_to_keep(&self, key: &PodKey, pod: &PodItem, now: Instant) -> bool {
        let known = self.reservations.get(key);
        reservation::is_ours(&pod.metadata)
            || known.is_some_and(|known| known.uid == pod.metadata.uid)
            || self.adopts(now)
    }

    /// Looks again at what KAI left, if something has changed.
    pub(super) fn adopt(&mut self, now: Instant) {
        if !std::mem::take(&mut self.adoption.stirred) || self.adoption.strangers.is_empty() {
            return;
        }
        let strangers = std::mem::take(&mut self.adoption.strangers).into_values();
        let (reservations, shares): (Vec<_>, Vec<_>) =
            strangers.partition(|pod| reservation::group(&pod.metadata).is_some());
        for pod in reservations.iter().chain(&shares) {
            self.take_in(pod, now);
        }
        self.adoption.stirred = false;
        if !reservations.is_empty() && self.adopts(now) {
            let (reservations, shares) = (reservations.len(), shares.len());
            tracing::info!(reservations, shares, "took over what KAI has left");
        }
        if self.adopts(now) {
            let unknown: Vec<PodKey> = self.adoption.strangers.keys().cloned().collect();
            unknown.iter().for_each(|key| self.card_is_unknown(key));
        }
    }

    /// Takes note of a bound pod, if it is one of KAI's.
    pub(super) fn meet(&mut self, key: &PodKey, pod: &PodItem) {
        if self.rules.hand_off.is_none() {
            return;
        }
        let is_share = matches!(self.scheduler.request(key), Some(Request::Share { .. }));
        let is_recorded = pod.metadata.annotations.get(keys::CARDS).is_some();
        let is_reservation = reservation::group(&pod.metadata).is_some();
        if is_share && !is_recorded && self.has_all_cards(key) {
            self.write_down(key, pod);
        } else if is_reservation || is_share && !is_recorded && !self.groups_of(pod).is_empty() {
            self.adoption.strangers.insert(key.clone(), Box::new(pod.clone()));
        }
    }

    fn has_all_cards(&self, key: &PodKey) -> bool {
        let holding = self.scheduler.holding(key);
        holding.is_some_and(|held| match held.needs.request {
            Request::Share { cards, .. } => held.cards.len() == cards as usize,
            Request::None | Request::Whole(_) => false,
        })
    }

    /// The groups of a pod that KAI bound.
    fn groups_of<'a>(&'a self, pod: &'a PodItem) -> Vec<&'a str> {
        let decided = self.adoption.decided.get(&pod.key());
        match decided.and_then(|request| request.groups_of(pod)) {
            Some(groups) => groups,
            None => reservation::groups(&pod.metadata),
        }
    }

    /// The cards of a pod that KAI bound, as far as its groups have reservations that hold them.
    pub(super) fn cards_by_group(&self, pod: &PodItem, asked: u32) -> Vec<CardShare> {
        let node = pod.node().unwrap_or_default();
        let index = |group: &str| {
            let index = self.slots.by_group(node, group)?;
            let slot = self.slots.get(node, index)?;
            // Its size is what the pod asks of the card.
            (slot.hold == Hold::Held).then_some(CardShare { index, bytes: Bytes(0) })
        };
        let mut cards: Vec<CardShare> =
            self.groups_of(pod).into_iter().take(asked as usize).filter_map(index).collect();
        cards.sort_by_key(|card| card.index);
        cards.dedup();
        cards
    }

    /// Writes on a share which cards it has: from then on it does not depend on its groups.
    fn write_down(&mut self, key: &PodKey, pod: &PodItem) {
        let (Some(holding), Some(node)) = (self.scheduler.holding(key), pod.node()) else { return };
        let name = |share: &CardShare| {
            let uuid = self.slots.get(node, share.index)?.uuid.clone()?;
            Some(NamedShare { card: CardName::Uuid(uuid), bytes: share.bytes })
        };
        let Some(cards) = holding.cards.iter().map(name).collect::<Option<Vec<_>>>() else {
            return;
        };
        if let Some(pod) = self.untold(key, Told::Cards) {
            self.actions.push(Action::Record { pod, cards });
        }
    }

    /// Says on a share that nobody knows which card it has.
    fn card_is_unknown(&mut self, key: &PodKey) {
        let note = "this pod was bound by KAI with a share of a card, and no reservation holds that card: \
            divvy does not know which it is, and others may be given it; create the pod anew"
            .to_owned();
        if let Some(pod) = self.untold(key, Told::Unknown) {
            self.actions.push(Action::Warn { pod, reason: "CardUnknown", note });
        }
    }

    /// The pod, unless this has been written about it.
    fn untold(&mut self, key: &PodKey, told: Told) -> Option<Target> {
        let now = (self.scheduler.uid(key)?.into(), told);
        let before = self.adoption.told.insert(key.clone(), now.clone());
        (before.as_ref() != Some(&now)).then(|| Target { key: key.clone(), uid: now.0 })
    }
}
