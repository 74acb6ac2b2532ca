//! Who is tried next: pods by turn, shape by shape, until nothing more fits.

use super::{Scheduler, share_on};
use crate::cards;
use crate::event::{Placement, Plan, PlanEffect, Unit};
use crate::others::Changes;
use crate::pods::{Pod, PodState};
use crate::shapes::ShapeId;
use crate::turn::Turn;
use divvy_ledger::{CardShare, Mode, NodeId, PodId};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, BTreeSet};

impl Scheduler {
    /// Puts a pod into its shape's queue.
    pub(super) fn join(&mut self, id: ShapeId, turn: Turn, pod: PodId) {
        let Some(shape) = self.shapes.get_mut(id) else { return };
        let first = shape.waiting.first().map(|(first, _)| first.clone());
        shape.waiting.insert((turn.clone(), pod));
        if shape.parked {
            self.unreported.push(pod);
        } else if first.as_ref().is_none_or(|first| turn < *first) {
            if let Some(first) = first {
                self.ripe.remove(&(first, id));
            }
            self.ripe.insert((turn, id));
        }
    }

    /// Takes a pod out of its shape's queue.
    pub(super) fn leave(&mut self, id: ShapeId, pod: &Pod, pod_id: PodId) {
        let Some(shape) = self.shapes.get_mut(id) else { return };
        let was_first = shape.waiting.first().is_some_and(|(_, first)| *first == pod_id);
        shape.waiting.remove(&(pod.turn(), pod_id));
        if shape.parked {
            if shape.waiting.is_empty() {
                shape.parked = false;
                self.parked.remove(&id);
            }
        } else if was_first {
            self.ripe.remove(&(pod.turn(), id));
            if let Some((turn, _)) = shape.waiting.first() {
                self.ripe.insert((turn.clone(), id));
            }
        }
        self.retire(id);
    }

    /// Places what fits, at most `limit` units, and says which pods wait. An empty plan means
    /// that nothing more can be done until the next event.
    pub fn pass(&mut self, limit: usize) -> Plan {
        let mut all = u64::MAX;
        self.slice(limit, &mut all)
    }

    /// The same with an end: `work` is how many nodes may be looked at, and then how many are left.
    /// Once none is, the next call goes on, and an empty plan means nothing.
    pub fn slice(&mut self, limit: usize, work: &mut u64) -> Plan {
        let (asked, end) = (*work, self.shapes.work().saturating_add(*work));
        let mut plan = Plan::default();
        // Only if all are woken that something has been freed for: it is not for who is first found.
        if self.wake(end) {
            self.place_ripe(limit, end, &mut plan);
        }
        for id in std::mem::take(&mut self.unreported) {
            if self.is_stuck(id) {
                self.report(id, &mut plan);
            }
        }
        *work = end.saturating_sub(self.shapes.work());
        if let Some(tape) = &mut self.tape {
            tape.slice(limit, asked, plan.clone());
        }
        plan
    }

    fn place_ripe(&mut self, limit: usize, end: u64, plan: &mut Plan) {
        if std::mem::take(&mut self.is_behind) {
            let left = end.saturating_sub(self.shapes.work());
            self.take_turns(limit, end - left / 2, plan);
        }
        while plan.units.len() < limit {
            let Some((_, id)) = self.ripe.pop_first() else { return };
            self.drain(id, Until { units: limit, work: end, others_turn: true }, plan);
            if self.shapes.work() >= end {
                self.is_behind = !self.ripe.is_empty();
                return;
            }
        }
    }

    /// Tries the first pods of each namespace in turn. When there is more to look at than can be
    /// done at a time, nobody waits for all that somebody else has made before.
    fn take_turns(&mut self, limit: usize, end: u64, plan: &mut Plan) {
        let mut firsts: BTreeMap<Box<str>, (Turn, ShapeId)> = BTreeMap::new();
        for entry in &self.ripe {
            let namespace = entry.0.namespace();
            if !firsts.contains_key(namespace) {
                firsts.insert(namespace.into(), entry.clone());
            }
        }
        if firsts.len() == 1 {
            return;
        }
        let mut later = firsts.split_off(&self.served);
        let last = later.remove_entry(&self.served);
        let until = Until { units: limit, work: end, others_turn: false };
        for (namespace, entry) in later.into_iter().chain(firsts).chain(last) {
            if plan.units.len() >= limit || self.shapes.work() >= end {
                return;
            }
            if self.ripe.remove(&entry) {
                self.served = namespace;
                self.drain(entry.1, until, plan);
            }
        }
    }

    /// Whether a pod cannot be placed as things are. The id may meanwhile be another pod's.
    fn is_stuck(&self, id: PodId) -> bool {
        match self.pods.get(id).map(|p| &p.state) {
            Some(PodState::Waiting(shape)) => self.shapes.get(*shape).is_some_and(|s| s.parked),
            Some(
                PodState::Gated(_)
                | PodState::Invalid(_)
                | PodState::Paused(_)
                | PodState::HeldBack(_),
            ) => true,
            Some(PodState::Held | PodState::Astray) | None => false,
        }
    }

    /// Places pods of one shape until one does not fit or it is time for others.
    fn drain(&mut self, id: ShapeId, until: Until, plan: &mut Plan) {
        let before = plan.units.len();
        loop {
            let Some(shape) = self.shapes.get(id) else { return };
            let Some((turn, pod)) = shape.waiting.first() else { return self.retire(id) };
            let others_turn = match until.others_turn {
                true => self.ripe.first().is_some_and(|(first, _)| first < turn),
                false => plan.units.len() - before >= IN_TURN,
            };
            let is_over = plan.units.len() >= until.units || self.shapes.work() >= until.work;
            if others_turn || is_over {
                self.ripe.insert((turn.clone(), id));
                return;
            }
            let pod = *pod;
            let Some(unit) = self.place(id, pod) else {
                return self.park(id, plan);
            };
            plan.units.push(unit);
            if let Some(shape) = self.shapes.get_mut(id) {
                shape.waiting.pop_first();
            }
            // The device plugin picks the cards of a whole-GPU pod; ours are only counted.
            let loose = self.shapes.needs(id).is_some_and(|n| n.request.whole_cards() > 0);
            if let Some(pod) = self.pods.get_mut(pod) {
                pod.state = PodState::Held;
                pod.loose = loose;
            }
        }
    }

    /// Enters a pod of this shape on its best node.
    fn place(&mut self, id: ShapeId, pod: PodId) -> Option<Unit> {
        self.keep_topologies(id);
        let best = match self.nominated(id, pod) {
            Some(node) => node,
            None => self.shapes.best(id, &self.world)?,
        };
        self.place_on(best, id, pod)
    }

    /// Enters a pod of this shape on a node where it fits.
    pub(super) fn place_on(&mut self, best: NodeId, id: ShapeId, pod: PodId) -> Option<Unit> {
        let who = self.shapes.related(id);
        let node = self.world.ledger.node(best)?;
        let needs = self.shapes.needs(id)?.clone();
        let by = self.shapes.strategies(id, &self.world.config).card;
        let share = share_on(node, &needs.request);
        let cards = cards::choose(node, &needs.request, share, node.openable(&needs, share), by);
        let is_opened = |card: &&CardShare| {
            needs.request.is_share() && *node.cards()[card.index as usize].mode() == Mode::Free
        };
        let open =
            |card: &CardShare| PlanEffect::Open { node: node.name().clone(), card: card.index };
        let mut effects: SmallVec<[_; 1]> = cards.iter().filter(is_opened).map(open).collect();
        let placement = Placement { node: node.name().clone(), cards };
        let volumes = who.map_or_else(Vec::new, |who| self.world.choose(who, best));
        let held = self.world.hold(pod, best, &needs, &placement.cards);
        debug_assert!(held.is_ok(), "what fits can be held: {held:?}");
        held.ok()?;
        self.world.others.assume(pod, &placement.node, &volumes);
        let pod = self.pods.get(pod)?.key.clone();
        effects.push(PlanEffect::Bind { pod, placement, volumes });
        Some(Unit { effects })
    }

    /// The node that a pod is nominated for, if it fits there.
    fn nominated(&mut self, id: ShapeId, pod: PodId) -> Option<NodeId> {
        let name = self.pods.get(pod)?.nominated.as_ref()?;
        let node = self.world.ledger.find(name)?;
        self.fits_on(id, node).then_some(node)
    }

    fn park(&mut self, id: ShapeId, plan: &mut Plan) {
        let Some(shape) = self.shapes.get_mut(id) else { return };
        shape.parked = true;
        let waiting: Vec<PodId> = shape.waiting.iter().map(|(_, pod)| *pod).collect();
        self.parked.insert(id);
        for pod in waiting {
            self.report(pod, plan);
        }
    }

    fn report(&mut self, id: PodId, plan: &mut Plan) {
        if let Some(pod) = self.pods.get_mut(id).filter(|p| !p.reported) {
            pod.reported = true;
            let effects = smallvec![PlanEffect::Report { pod: pod.key.clone() }];
            plan.units.push(Unit { effects });
        }
    }

    /// Returns parked shapes to the queue if something was freed that they fit on. Whether all were
    /// looked at.
    fn wake(&mut self, end: u64) -> bool {
        if self.waking.left.is_empty() {
            self.begin_waking();
        }
        while let Some(id) = self.waking.left.pop() {
            if !self.parked.contains(&id) {
                continue;
            }
            let Waking { freed, changes, .. } = &mut self.waking;
            let (shapes, world) = (&mut self.shapes, &self.world);
            let helped = freed.as_ref().is_none_or(|nodes| shapes.is_helped_by(id, nodes, world))
                || shapes.is_helped_by_others(id, changes, world);
            if helped && let Some(shape) = self.shapes.get_mut(id) {
                self.parked.remove(&id);
                shape.parked = false;
                if let Some((turn, _)) = shape.waiting.first() {
                    self.ripe.insert((turn.clone(), id));
                }
            }
            if self.shapes.work() >= end {
                return self.waking.left.is_empty();
            }
        }
        true
    }

    /// Gathers what has happened since parked shapes were last looked at.
    fn begin_waking(&mut self) {
        let changes = self.world.others.take_changes();
        let journal = self.world.ledger.journal();
        let since = std::mem::replace(&mut self.woken, journal.end());
        if self.parked.is_empty() {
            return;
        }
        let freed: Option<BTreeSet<NodeId>> = journal
            .since(since)
            .map(|changes| changes.filter(|c| c.freed).map(|c| c.node).collect());
        if freed.as_ref().is_some_and(BTreeSet::is_empty) && changes.is_empty() {
            return;
        }
        let left = self.parked.iter().copied().collect();
        self.waking = Waking { freed, changes, left };
    }
}

/// How far pods of one shape are placed.
#[derive(Clone, Copy)]
struct Until {
    units: usize,
    work: u64,
    /// Whether a pod of another shape that comes before ends it; else some pods are enough.
    others_turn: bool,
}

/// So many pods of a shape are placed before it is another namespace's turn.
const IN_TURN: usize = 64;

/// Parked shapes that are being looked at, and what has happened that may help them.
#[derive(Clone, Debug, Default)]
pub(super) struct Waking {
    /// Where something was freed; `None` if it may be anywhere.
    freed: Option<BTreeSet<NodeId>>,
    changes: Changes,
    left: Vec<ShapeId>,
}
