//! Let pods end, give places, look, and take it back: over ledger, other pods and volumes together.
//!
//! What is looked at inside a trial sees its changes. Nothing of it is kept: once it is over everything
//! is as it was, and nobody is woken. What is to stay goes in as an event.

use super::Scheduler;
use crate::diagnosis::Diagnosis;
use crate::others::{Identity, Trace, Untold};
use crate::pods::{Pod, PodState};
use crate::record::{ObjectKey, PodRecord};
use crate::shapes::ShapeId;
use divvy_ledger::{Before, Holder, Node, NodeId, PodId, Position};

/// Steps, each of which sees those before it. Dropping it takes them back.
pub(crate) struct Trial<'a> {
    scheduler: &'a mut Scheduler,
    steps: Vec<Step>,
    /// Whether a ranking may have followed the steps.
    is_ranked: bool,
    /// What there was to tell of others.
    untold: Untold,
}

struct Step {
    /// Where the journal was.
    at: Position,
    ledger: Before,
    others: Trace,
    /// The pod, if it is there only for the trial.
    made: Option<PodId>,
}

/// Such a pod as others are made like in a trial: what it asks, and what it is to others.
pub(super) struct Such<'a> {
    pub(super) record: &'a PodRecord,
    pub(super) shape: ShapeId,
    pub(super) who: Identity,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(scheduler: &'a mut Scheduler) -> Self {
        let untold = scheduler.world.others.untold();
        scheduler.world.ledger.keep_all_changes(true);
        Self { scheduler, steps: Vec::new(), is_ranked: false, untold }
    }

    /// Lets a pod end: it gives back all that it holds, and with the last share of a card goes the
    /// reservation of that card.
    pub(crate) fn end(&mut self, pod: PodId) {
        let Some(holding) = self.scheduler.ledger().holding(pod).cloned() else { return };
        if holding.needs.holder == Holder::Keeper {
            return;
        }
        self.release(pod, holding.node);
        for share in &holding.cards {
            let node = self.scheduler.ledger().node(holding.node);
            let card = node.and_then(|node| node.cards().get(share.index as usize));
            let Some(card) = card.filter(|card| card.shares().is_empty()) else { continue };
            for keeper in card.keepers().to_vec() {
                self.release(keeper, holding.node);
            }
        }
    }

    fn release(&mut self, pod: PodId, node: NodeId) {
        self.step(pod, node, None);
        self.scheduler.world.lift(pod);
    }

    /// Gives one more such pod the place that the next one would get, and says on which node.
    pub(super) fn hold(&mut self, such: &Such<'_>) -> Option<NodeId> {
        let scheduler = &mut *self.scheduler;
        scheduler.keep_topologies(such.shape);
        self.is_ranked = true;
        let node = scheduler.shapes.best_tried(such.shape, &scheduler.world)?;
        let pod = self.make(such);
        self.step(pod, node, Some(pod));
        self.scheduler.place_on(node, such.shape, pod).map(|_| node)
    }

    /// A pod that is there only for the trial.
    fn make(&mut self, such: &Such<'_>) -> PodId {
        let Scheduler { pods, world, .. } = &mut *self.scheduler;
        let mut pod = Pod::of(such.record, PodState::Held);
        let (namespace, name) = (pod.key.namespace(), pod.key.name());
        let named = |nth: usize| ObjectKey::new(namespace, &format!("{name}-more-{nth}"));
        let key = (self.steps.len() + 1..).map(named).find(|key| pods.find(key).is_none());
        pod.key = key.unwrap_or_else(|| pod.key.clone());
        let id = pods.insert(pod);
        world.others.keep(such.who);
        world.others.enroll(id, such.who, such.record);
        id
    }

    /// Remembers what there is before a pod comes to a node, or goes.
    fn step(&mut self, pod: PodId, node: NodeId, made: Option<PodId>) {
        let world = &self.scheduler.world;
        let at = world.ledger.journal().end();
        let (ledger, others) = (world.ledger.before(pod, node), world.others.trace(pod, node));
        self.steps.push(Step { at, ledger, others, made });
    }

    /// A node as it is now.
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.scheduler.ledger().node(id)
    }

    /// Whether a pod of this shape fits on this node now.
    pub(crate) fn fits_on(&mut self, shape: ShapeId, node: NodeId) -> bool {
        self.scheduler.fits_on(shape, node)
    }

    /// Why no pod of this shape fits now.
    pub(super) fn why(&self, shape: ShapeId) -> Option<Diagnosis> {
        self.scheduler.why(&PodState::Waiting(shape))
    }

    /// How much has been looked at, by the count of [`Scheduler::slice`].
    pub(super) const fn work(&self) -> u64 {
        self.scheduler.shapes.work()
    }

    /// Where it stands, to go back to.
    pub(crate) fn mark(&self) -> usize {
        self.steps.len()
    }

    /// Takes back all that has been done since then.
    pub(crate) fn undo_to(&mut self, mark: usize) {
        let Some(Step { at, .. }) = self.steps.get(mark) else { return };
        let (Scheduler { pods, world, shapes, .. }, at) = (&mut *self.scheduler, *at);
        for Step { ledger, others, made, .. } in self.steps.drain(mark..).rev() {
            world.ledger.undo(ledger);
            world.others.undo(others);
            if let Some(pod) = made {
                world.others.expel(pod);
                pods.remove(pod);
            }
        }
        if self.is_ranked {
            shapes.forget_ranked_since(at);
        }
        world.ledger.forget_changes(at);
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.undo_to(0);
        let world = &mut self.scheduler.world;
        world.ledger.keep_all_changes(false);
        world.others.hush(&self.untold);
    }
}

#[cfg(test)]
mod tests;
