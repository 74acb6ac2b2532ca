//! Do, look, and keep it or take it back: over ledger, other pods and volumes together.
//!
//! What is looked at inside a trial sees its changes. One that is taken back leaves everything as it
//! was, and wakes nobody.

use crate::census::Trace;
use crate::scheduler::Scheduler;
use crate::shapes::ShapeId;
use crate::volumes::Stirred;
use divvy_ledger::{Before, Holder, NodeId, PodId, Position};

/// Steps that are kept together or taken back together. Dropping it takes them back.
pub(crate) struct Trial<'a> {
    scheduler: &'a mut Scheduler,
    steps: Vec<Step>,
    /// Where the journal was, and the clock of the census.
    began: (Position, u64),
    stirred: Stirred,
}

struct Step {
    pod: PodId,
    node: NodeId,
    ledger: Before,
    census: Trace,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(scheduler: &'a mut Scheduler) -> Self {
        let world = scheduler.world();
        let began = (world.ledger.journal().end(), world.census.now());
        let stirred = world.volumes.stirred().clone();
        Self { scheduler, steps: Vec::new(), began, stirred }
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
        let world = self.scheduler.world_mut();
        let (ledger, census) = (world.ledger.before(pod, node), world.census.trace(pod, node));
        self.steps.push(Step { pod, node, ledger, census });
        world.lift(pod);
    }

    /// Whether a pod of this shape fits on this node now.
    pub(crate) fn fits_on(&mut self, shape: ShapeId, node: NodeId) -> bool {
        self.scheduler.fits_on(shape, node)
    }

    /// Where it stands, to go back to.
    pub(crate) fn mark(&self) -> usize {
        self.steps.len()
    }

    /// Takes back all that has been done since then.
    pub(crate) fn undo_to(&mut self, mark: usize) {
        let world = self.scheduler.world_mut();
        for Step { pod, node, ledger, census } in self.steps.drain(mark..).rev() {
            world.ledger.undo(ledger);
            world.census.retrace(census);
            world.volumes.settle(pod, node);
        }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.undo_to(0);
        self.scheduler.unwake(self.began, std::mem::take(&mut self.stirred));
    }
}

#[cfg(test)]
mod tests;
