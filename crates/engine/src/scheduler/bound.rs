//! Pods that are bound already: they hold what they hold, in whatever order the events come.
//!
//! A pod whose record names its cards holds those. A pod that holds cards that nobody named (a
//! whole-GPU pod, or a share without a record) is loose: it is given cards by the usual rules, and
//! moves aside when a record claims one of them. What cannot be entered yet, because the node is
//! not known or does not show its cards, is kept and entered when the node changes or something
//! there is freed; a record of a card that the node does not have closes the node until then.

use super::{Scheduler, share_on};
use crate::cards;
use crate::config::Strategy;
use crate::event::Problem;
use crate::pods::PodState;
use crate::record::{Bound, BoundCards, ObjectKey, PodRecord, PodSpec};
use crate::score::Strategies;
use divvy_ledger::{
    Bytes, CardShare, CardShares, Device, Holding, Mode, Node, NodeId, PodId, Portion, Request,
};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Scheduler {
    /// Enters a bound pod that is in `pods` but holds nothing.
    pub(super) fn hold_bound(&mut self, id: PodId, record: PodRecord) -> Result<(), Problem> {
        let Some(bound) = record.bound.clone() else { return Ok(()) };
        let invalid = record.invalid.clone();
        let key = record.key.clone();
        self.try_hold(id, record, &bound);
        // Those that wait there already are helped only by what moves aside for this one.
        if self.unentered.get(&key).is_some()
            && let Some(node) = self.world.ledger.find(&bound.node)
            && self.enter_one_again(node, &key)
        {
            self.enter_again(node);
        }
        if let Some(problem) = self.unentered.problem(&key) {
            return Err(problem.clone());
        }
        invalid.map_or(Ok(()), |why| Err(Problem::Invalid { pod: key, node: bound.node, why }))
    }

    /// Enters a bound pod if that is possible now, else keeps its record. Its CPU and the rest
    /// are entered in any case.
    fn try_hold(&mut self, id: PodId, record: PodRecord, bound: &Bound) {
        let (pod, node) = (record.key.clone(), bound.node.clone());
        let Some(target) = self.world.ledger.find(&node) else {
            self.unentered.insert(record, Problem::UnknownNode { pod, node });
            return;
        };
        let needs = Arc::new(self.needs(&record.spec));
        let by = Strategies::new(&self.world.config, record.spec.strategy).card;
        let cards = match &bound.cards {
            BoundCards::Recorded(cards) | BoundCards::Named(cards) => {
                Some(self.as_recorded(target, &record.spec.request, cards))
            }
            BoundCards::Kept(_) | BoundCards::Nothing | BoundCards::Unknown => {
                Some(CardShares::new())
            }
            BoundCards::Choose => self.choose_for_bound(target, &record.spec.request, by),
        };
        let elsewhere = self.elsewhere(target, &bound.cards);
        let held = match (&cards, elsewhere) {
            (_, Some(card)) => {
                Err(Problem::Elsewhere { pod: pod.clone(), node: node.clone(), card })
            }
            (Some(cards), None) => match bound.cards {
                BoundCards::Unknown => self.world.hold_unknown(id, target, &needs),
                BoundCards::Kept(card) => self.world.keep(id, target, &needs, card),
                _ => self.world.hold(id, target, &needs, cards),
            }
            .map_err(|why| Problem::Cards {
                pod: pod.clone(),
                node: node.clone(),
                why,
            }),
            (None, None) => {
                let request = Box::new(record.spec.request.clone());
                Err(Problem::NoRoom { pod: pod.clone(), node: node.clone(), request })
            }
        };
        if let Some(pod) = self.pods.get_mut(id) {
            pod.state = PodState::Held;
            pod.loose = bound.cards == BoundCards::Choose;
        }
        self.world.ledger.set_devices(id, &bound.devices);
        if let Err(problem) = held {
            // Whole cards that are handed out twice are not free, whoever of the two has them.
            let request = &record.spec.request;
            let some = match bound.cards {
                BoundCards::Choose if request.whole_cards() > 0 => {
                    let node = self.world.ledger.node(target);
                    node.map(|n| cards::choose(n, request, Bytes(0), 0, by)).unwrap_or_default()
                }
                _ => CardShares::new(),
            };
            let plain = match elsewhere {
                Some(_) => self.world.hold_unknown(id, target, &needs),
                None => self.world.hold(id, target, &needs, &some),
            };
            debug_assert!(plain.is_ok(), "a node always takes a pod with its free cards");
            if bound.cards.indexes().next().is_some() {
                self.world.ledger.dispute(target, bound.cards.indexes());
            }
            self.unentered.insert(record, problem);
        }
    }

    /// The first card that a record names and this node, which has some, does not have.
    fn elsewhere(&self, node: NodeId, cards: &BoundCards) -> Option<u32> {
        let BoundCards::Recorded(cards) = cards else { return None };
        let node = self.world.ledger.node(node)?;
        let gpus = &node.capacity().gpus;
        let has = |named: &&CardShare| {
            node.existing_cards().any(|(index, _)| index == named.index as usize)
        };
        let missing = cards.iter().find(|named| !has(named)).map(|named| named.index);
        missing.filter(|_| !gpus.cards.is_empty() || !gpus.pools.is_empty())
    }

    /// Enters what waits for this node: recorded cards first, with loose pods moved aside.
    pub(super) fn enter_again(&mut self, node: NodeId) {
        let Some(name) = self.world.ledger.node(node).map(|n| n.name().clone()) else { return };
        self.world.ledger.end_disputes(node);
        let turn = |record: &PodRecord| {
            let is_loose = record.bound.as_ref().is_some_and(|b| b.cards == BoundCards::Choose);
            (is_loose, record.created, record.key.clone())
        };
        let mut waiting: Vec<_> = self.unentered.on(&name).map(turn).collect();
        waiting.sort_unstable();
        for (.., key) in waiting {
            self.enter_one_again(node, &key);
        }
    }

    /// Enters one that waits for this node, with loose pods moved aside. Whether that was possible.
    fn enter_one_again(&mut self, node: NodeId, key: &ObjectKey) -> bool {
        let Some(id) = self.pods.find(key) else { return false };
        let Some(record) = self.unentered.remove(key) else { return false };
        let Some(bound) = record.bound.clone() else { return false };
        self.world.release(id);
        let moved = self.move_aside(node, bound.cards.indexes());
        self.try_hold(id, record, &bound);
        for (pod, held) in moved {
            self.hold_again(pod, &held);
        }
        self.unentered.get(key).is_none()
    }

    /// Closes the cards of a node that are claimed still, and opens the others.
    pub(super) fn dispute_again(&mut self, node: NodeId) {
        let Some(name) = self.world.ledger.node(node).map(|n| n.name().clone()) else { return };
        self.world.ledger.end_disputes(node);
        let claims = self.unentered.on(&name).filter_map(|record| record.bound.as_ref());
        let claimed: BTreeSet<u32> = claims.flat_map(|bound| bound.cards.indexes()).collect();
        if !claimed.is_empty() {
            self.world.ledger.dispute(node, claimed);
        }
    }

    /// Takes loose pods off cards that a record claims.
    fn move_aside(
        &mut self,
        node: NodeId,
        claimed: impl Iterator<Item = u32>,
    ) -> Vec<(PodId, Holding)> {
        let cards = self.world.ledger.node(node).map_or(&[][..], Node::cards);
        let mut holders: Vec<PodId> = Vec::new();
        for card in claimed.filter_map(|index| cards.get(index as usize)) {
            match card.mode() {
                Mode::Free | Mode::Divided(_) => {}
                Mode::Whole(pod) => holders.push(*pod),
                Mode::Shared(_) => holders.extend(card.shares().iter().map(|s| s.pod)),
            }
        }
        holders.retain(|pod| self.pods.get(*pod).is_some_and(|p| p.loose));
        holders.sort_unstable();
        holders.dedup();
        let release = |pod: PodId| Some((pod, self.world.release(pod)?));
        holders.into_iter().filter_map(release).collect()
    }

    /// Enters a loose pod that was moved aside: where it was, or elsewhere on its node.
    fn hold_again(&mut self, id: PodId, held: &Holding) {
        let Holding { node, needs, cards, .. } = held;
        if self.world.hold(id, *node, needs, cards).is_ok() {
            return;
        }
        let (Some(pod), Some(target)) = (self.pods.get(id), self.world.ledger.node(*node)) else {
            return;
        };
        let names = needs.extended.iter();
        let record = PodRecord {
            key: pod.key.clone(),
            uid: pod.uid.clone(),
            priority: pod.priority,
            created: pod.created,
            spec: PodSpec {
                cpu: needs.cpu,
                memory: needs.memory,
                ephemeral: needs.ephemeral,
                extended: names
                    .map(|(r, n)| (self.world.ledger.resource_name(*r).to_owned(), *n))
                    .collect(),
                request: needs.request.clone(),
                holder: needs.holder,
                ..PodSpec::default()
            },
            bound: Some(Bound::new(&**target.name(), BoundCards::Choose)),
            ..PodRecord::default()
        };
        if let Some(bound) = record.bound.clone() {
            self.try_hold(id, record, &bound);
        }
    }

    /// The recorded cards. The share on each is what the pod asks of the card as it is now: the
    /// bytes may have been written when the card's memory was not known, or known differently. Of
    /// a card of unknown memory, so many bytes may be all of it.
    pub(super) fn as_recorded(
        &self,
        node: NodeId,
        request: &Request,
        cards: &[CardShare],
    ) -> CardShares {
        let held = self.world.ledger.node(node).map_or(&[][..], Node::cards);
        let now = |grant: &CardShare| {
            let bytes = match (request.portion(), held.get(grant.index as usize)) {
                (Some(Portion::Memory(_)), Some(card)) if !card.knows_memory() => card.capacity(),
                (Some(portion), Some(card)) => portion.of(card.capacity()),
                _ => grant.bytes,
            };
            CardShare { bytes, ..*grant }
        };
        cards.iter().map(now).collect()
    }

    /// Cards for a pod that is bound already. CPU and the rest are not asked: it runs.
    fn choose_for_bound(
        &self,
        node: NodeId,
        request: &Request,
        by: Strategy,
    ) -> Option<CardShares> {
        let node = self.world.ledger.node(node)?;
        let takes_replicas =
            !request.is_share() && node.capacity().gpus.pool(Device::Gpu).is_some();
        let wanted = if takes_replicas { 0 } else { request.cards() };
        let cards = cards::choose(node, request, share_on(node, request), node.room().whole, by);
        (cards.len() == wanted as usize).then_some(cards)
    }
}
