//! Who is tried next: pods by turn, shape by shape, until nothing more fits.

use super::{Scheduler, share_on};
use crate::cards;
use crate::event::{Placement, Plan, PlanEffect};
use crate::pods::{Pod, State};
use crate::shapes::{ShapeId, Turn};
use crate::volumes::VolumeStep;
use divvy_ledger::{NodeId, PodId, Request};
use std::collections::BTreeSet;

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
    }

    /// Places what fits, at most `limit` decisions, and says which pods wait. An empty plan means
    /// that nothing more can be done until the next event.
    pub fn pass(&mut self, limit: usize) -> Plan {
        self.wake();
        let mut plan = Plan::default();
        while plan.effects.len() < limit {
            let Some((_, id)) = self.ripe.pop_first() else { break };
            self.drain(id, limit, &mut plan);
        }
        for id in std::mem::take(&mut self.unreported) {
            if self.is_stuck(id) {
                self.report(id, &mut plan);
            }
        }
        plan
    }

    /// Whether a pod cannot be placed as things are. The id may meanwhile be another pod's.
    fn is_stuck(&self, id: PodId) -> bool {
        match self.pods.get(id).map(|p| &p.state) {
            Some(State::Waiting(shape)) => self.shapes.get(*shape).is_some_and(|s| s.parked),
            Some(State::Gated(_) | State::Invalid(_) | State::Paused(_)) => true,
            Some(State::Held | State::Astray) | None => false,
        }
    }

    /// Places pods of one shape until one does not fit or a pod of another shape has its turn.
    fn drain(&mut self, id: ShapeId, limit: usize, plan: &mut Plan) {
        loop {
            let Some(shape) = self.shapes.get(id) else { return };
            let Some((turn, pod)) = shape.waiting.first() else { return };
            let others_turn = self.ripe.first().is_some_and(|(first, _)| first < turn);
            if others_turn || plan.effects.len() >= limit {
                self.ripe.insert((turn.clone(), id));
                return;
            }
            let pod = *pod;
            let Some((placement, volumes)) = self.place(id, pod) else {
                return self.park(id, plan);
            };
            if let Some(shape) = self.shapes.get_mut(id) {
                shape.waiting.pop_first();
            }
            // The device plugin picks the cards of a whole-GPU pod; ours are only counted.
            let request = self.shapes.needs(id).map(|needs| needs.request);
            let loose = matches!(request, Some(Request::Whole(_)));
            if let Some(pod) = self.pods.get_mut(pod) {
                pod.state = State::Held;
                pod.loose = loose;
                plan.effects.push(PlanEffect::Bind { pod: pod.key.clone(), placement, volumes });
            }
        }
    }

    /// Enters a pod of this shape on its best node.
    fn place(&mut self, id: ShapeId, pod: PodId) -> Option<(Placement, Vec<VolumeStep>)> {
        if let Some(who) = self.shapes.related(id) {
            self.world.keep_topologies(who);
        }
        let best = match self.nominated(id, pod) {
            Some(node) => node,
            None => self.shapes.best(id, &self.world)?,
        };
        let node = self.world.ledger.node(best)?;
        let needs = self.shapes.needs(id)?.clone();
        let by = self.shapes.strategies(id, &self.world.config).card;
        let (share, openable) = (share_on(node, needs.request), node.openable(&needs));
        let cards = cards::choose(node, needs.request, share, openable, by);
        let placement = Placement { node: node.name().clone(), cards };
        let steps = self.volume_steps(id, best);
        let held = self.world.hold(pod, best, &needs, &placement.cards);
        debug_assert!(held.is_ok(), "what fits can be held: {held:?}");
        held.ok()?;
        self.world.volumes.assume(pod, &placement.node, &steps);
        Some((placement, steps))
    }

    /// The node that a pod is nominated for, if it fits there.
    fn nominated(&mut self, id: ShapeId, pod: PodId) -> Option<NodeId> {
        let name = self.pods.get(pod)?.nominated.as_ref()?;
        let node = self.world.ledger.find(name)?;
        self.shapes.fits_on(id, node, &self.world).then_some(node)
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
            plan.effects.push(PlanEffect::Report { pod: pod.key.clone() });
        }
    }

    /// Returns parked shapes to the queue if something was freed that they fit on.
    fn wake(&mut self) {
        let (journal, now) = (self.world.ledger.journal(), self.world.census.now());
        let since = std::mem::replace(&mut self.woken, (journal.end(), now));
        let stirred = self.world.volumes.take_stirred();
        if self.parked.is_empty() || (since == self.woken && stirred.is_empty()) {
            return;
        }
        let freed: Option<BTreeSet<NodeId>> = journal
            .since(since.0)
            .map(|changes| changes.filter(|c| c.freed).map(|c| c.node).collect());
        let others_moved = since.1 != now;
        let storage_moved = !stirred.is_empty();
        if freed.as_ref().is_some_and(BTreeSet::is_empty) && !others_moved && !storage_moved {
            return;
        }
        for id in std::mem::take(&mut self.parked) {
            let (shapes, world) = (&mut self.shapes, &self.world);
            let helped = freed.as_ref().is_none_or(|nodes| shapes.is_helped_by(id, nodes, world))
                || others_moved && shapes.is_helped_by_others(id, world)
                || storage_moved && shapes.is_helped_by_storage(id, &stirred, world);
            if !helped {
                self.parked.insert(id);
            } else if let Some(shape) = self.shapes.get_mut(id) {
                shape.parked = false;
                if let Some((turn, _)) = shape.waiting.first() {
                    self.ripe.insert((turn.clone(), id));
                }
            }
        }
    }
}
