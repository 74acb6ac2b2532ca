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
use super::timers::{self, Timer};
use super::{Action, State, Target};
use crate::api::Failure;
use crate::objects::{BindRequestItem, PodItem};
use crate::watch::Change;
use divvy_engine::PodKey;
use divvy_ledger::{Bytes, CardShare, Node, Request};
use divvy_words::cards::{CardName, NamedShare};
use divvy_words::{keys, reservation};
use foldhash::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// So long after KAI has gone it may only be restarting, and so long a reservation of its may wait
/// for its first share.
const MAY_COME_BACK: Duration = Duration::from_secs(60);

/// What is known of pods that KAI bound.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    /// Its reservations, and shares whose card is not known.
    strangers: HashMap<PodKey, Box<PodItem>>,
    /// Whether something has changed for them.
    stirred: bool,
    /// Until when KAI may come back.
    waits_until: Option<Instant>,
    /// Pods that are KAI's binder.
    binders: HashSet<PodKey>,
    /// What it decided, by pod.
    decided: HashMap<PodKey, BindRequestItem>,
    requests: Listing<PodKey>,
    /// What was last written about shares, and their uids.
    told: HashMap<PodKey, (Box<str>, Told)>,
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
                let key = key(&item);
                self.adoption.requests.see(key.clone());
                if item.is_done() {
                    self.adoption.stirred |= self.adoption.strangers.contains_key(&key);
                    self.adoption.decided.insert(key, item);
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
    }

    pub(super) fn kai_left(&mut self, now: Instant) {
        let until = now + MAY_COME_BACK;
        self.adoption.waits_until = Some(until);
        self.timers.add(until, Timer::Adopt);
    }

    /// KAI's binder works on without its scheduler: what it makes is not ours meanwhile.
    pub(super) fn notice_binder(&mut self, key: &PodKey, runs: bool, now: Instant) {
        if runs {
            self.adoption.binders.insert(key.clone());
        } else if self.adoption.binders.remove(key) && self.adoption.binders.is_empty() {
            self.kai_left(now);
        }
    }

    /// Whether KAI is gone, and what it left is taken over.
    fn adopts(&self, now: Instant) -> bool {
        let is_over = self.adoption.waits_until.is_none_or(|until| now >= until);
        let is_gone = !self.kai_runs() && self.adoption.binders.is_empty() && is_over;
        is_gone && self.hands_off() && self.is_listed()
    }

    /// Whether a reservation pod is ours: it says so, or is taken over. Where cards are replicas, it
    /// is one of those to us, and nobody can join it.
    pub(super) fn is_to_keep(&self, key: &PodKey, pod: &PodItem, now: Instant) -> bool {
        let known = self.reservations.get(key);
        reservation::is_ours(&pod.metadata)
            || known.is_some_and(|known| known.uid == pod.metadata.uid)
            || self.adopts(now) && self.is_on_cards(pod)
    }

    /// Whether a reservation was KAI's, and a share that it bound may yet turn up.
    pub(super) fn is_wanted_by_kai(&mut self, node: &str, index: u32, now: Instant) -> bool {
        let mut here = self.reservations.of(node);
        let Some((_, made)) = here.find(|(_, made)| made.index == index) else { return false };
        let Some(since) = made.adopted else { return false };
        if now < since + MAY_COME_BACK {
            self.timers.add(since + MAY_COME_BACK, Timer::Idle(node.into()));
            return true;
        }
        let group = self.slots.get(node, index).map_or("", |slot| &*slot.group);
        let names =
            |pod: &PodItem| pod.node() == Some(node) && self.groups_of(pod).contains(&group);
        self.adoption.strangers.values().any(|pod| names(pod))
    }

    /// Looks again at what KAI left, if something has changed.
    pub(super) fn adopt(&mut self, now: Instant) {
        if !std::mem::take(&mut self.adoption.stirred) || self.adoption.strangers.is_empty() {
            return;
        }
        let adopts = self.adopts(now);
        let strangers = self.adoption.strangers.iter();
        // While KAI works, only shares on cards of ours can be known better than before.
        let keys = strangers.filter(|(_, pod)| adopts || !self.cards_by_group(pod, 1).is_empty());
        let keys: Vec<PodKey> = keys.map(|(key, _)| key.clone()).collect();
        let pods = keys.iter().filter_map(|key| self.adoption.strangers.remove(key));
        let (reservations, shares): (Vec<_>, Vec<_>) =
            pods.partition(|pod| reservation::group(&pod.metadata).is_some());
        for pod in reservations.iter().chain(&shares) {
            self.take_in(pod, now);
        }
        self.adoption.stirred = false;
        if adopts && !reservations.is_empty() {
            let (reservations, shares) = (reservations.len(), shares.len());
            tracing::info!(reservations, shares, "took over what KAI has left");
        }
        for pod in shares.iter().filter(|_| adopts) {
            let key = pod.key();
            let request = self.scheduler.request(&key).filter(|request| request.is_share());
            let Some(cards) = request.map(Request::cards) else { continue };
            if self.is_on_cards(pod) && self.cards_by_group(pod, cards).len() < cards as usize {
                self.card_is_unknown(&key);
            }
        }
    }

    /// Whether the node of a pod has cards, and not replicas or none at the moment.
    fn is_on_cards(&self, pod: &PodItem) -> bool {
        let node = self.ledger_node(pod.node().unwrap_or_default());
        node.is_some_and(|node| node.card_count() > 0)
    }

    /// Takes note of a bound pod, if it is one of KAI's.
    pub(super) fn meet(&mut self, key: &PodKey, pod: &PodItem) {
        if !self.hands_off() {
            return;
        }
        if reservation::group(&pod.metadata).is_some() {
            self.adoption.strangers.insert(key.clone(), Box::new(pod.clone()));
            return;
        }
        let Some(request) = self.scheduler.request(key) else { return };
        let (cards, Some(portion)) = (request.cards(), request.portion()) else { return };
        let is_recorded = pod.metadata.annotations.get(keys::CARDS).is_some();
        if is_recorded || self.groups_of(pod).is_empty() {
            return;
        }
        let found = self.cards_by_group(pod, cards);
        let size = self.ledger_node(pod.node().unwrap_or_default()).map(Node::card_size);
        match size.filter(|size| *size > Bytes(0) && found.len() == cards as usize) {
            Some(size) => self.write_down(key, pod, &found, portion.of(size)),
            None => {
                self.adoption.strangers.insert(key.clone(), Box::new(pod.clone()));
            }
        }
    }

    /// The groups of a pod that KAI bound. Labels alone say nothing: anybody may write them.
    fn groups_of<'a>(&'a self, pod: &'a PodItem) -> Vec<&'a str> {
        let decided = self.adoption.decided.get(&pod.key());
        match decided.and_then(|request| request.groups_of(pod)) {
            Some(groups) => groups,
            None if pod.metadata.annotations.get(keys::RECEIVED_TYPE) == Some("Fraction") => {
                reservation::groups(&pod.metadata)
            }
            None => Vec::new(),
        }
    }

    /// The cards of a pod that KAI bound, as far as its groups have reservations that hold them, or
    /// held them when it was first known.
    pub(super) fn cards_by_group(&self, pod: &PodItem, asked: u32) -> Vec<CardShare> {
        let (key, node) = (pod.key(), pod.node().unwrap_or_default());
        let held = self.scheduler.holding(&key);
        let has = |index: u32| {
            held.is_some_and(|held| held.cards.iter().any(|card| card.index == index))
                || self.scheduler.claimants(node, index).any(|(claimant, _)| *claimant == key)
        };
        let card = |group: &str| {
            let index = self.slots.by_group(node, group)?;
            let slot = self.slots.get(node, index)?;
            // Its size is what the pod asks of the card.
            let card = CardShare { index, bytes: Bytes(0) };
            (slot.uuid.is_some() && (slot.hold == Hold::Held || has(index))).then_some(card)
        };
        let mut cards: Vec<CardShare> =
            self.groups_of(pod).into_iter().take(asked as usize).filter_map(card).collect();
        cards.sort_by_key(|card| card.index);
        cards.dedup();
        cards
    }

    /// Writes on a share which cards it has: from then on it does not depend on its groups.
    fn write_down(&mut self, key: &PodKey, pod: &PodItem, cards: &[CardShare], bytes: Bytes) {
        let name = |share: &CardShare| {
            let slot = self.slots.get(pod.node()?, share.index)?;
            Some(NamedShare { card: CardName::Uuid(slot.uuid.clone()?), bytes })
        };
        let Some(cards) = cards.iter().map(name).collect::<Option<Vec<_>>>() else { return };
        if let Some(pod) = self.untold(key, Told::Cards) {
            self.actions.push(Action::Record { pod, cards });
        }
    }

    /// What became of [`Action::Record`].
    pub(super) fn recorded(
        &mut self,
        pod: Target,
        cards: Vec<NamedShare>,
        result: &Result<(), Failure>,
        now: Instant,
    ) {
        match result {
            // Gone, or another one of that name.
            Ok(()) | Err(Failure::NotFound(_) | Failure::Conflict(_)) => {}
            Err(why) => {
                tracing::warn!(pod = %pod.key, %why, "failed to write down the cards of a share that KAI bound, will try again");
                self.timers.add(now + timers::wait(why), Timer::RecordAgain { pod, cards });
            }
        }
    }

    pub(super) fn record_again(&mut self, pod: Target, cards: Vec<NamedShare>) {
        if self.scheduler.uid(&pod.key) == Some(&*pod.uid) {
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
