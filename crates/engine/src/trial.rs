//! Let pods end, look, and take it back: over ledger, other pods and volumes together.
//!
//! What is looked at inside a trial sees its changes. Nothing of it is kept: once it is over everything
//! is as it was, and nobody is woken. What is to stay goes in as an event.

use crate::others::{Trace, Untold};
use crate::scheduler::Scheduler;
use crate::shapes::ShapeId;
use divvy_ledger::{Before, Holder, NodeId, PodId, Position};

/// Steps, each of which sees those before it. Dropping it takes them back.
pub(crate) struct Trial<'a> {
    scheduler: &'a mut Scheduler,
    steps: Vec<Step>,
    /// Where the journal was, and what there was to tell of others.
    began: (Position, Untold),
}

struct Step {
    ledger: Before,
    others: Trace,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(scheduler: &'a mut Scheduler) -> Self {
        let world = scheduler.world();
        let began = (world.ledger.journal().end(), world.others.untold());
        Self { scheduler, steps: Vec::new(), began }
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
        let (ledger, others) = (world.ledger.before(pod, node), world.others.trace(pod, node));
        self.steps.push(Step { ledger, others });
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
        for Step { ledger, others } in self.steps.drain(mark..).rev() {
            world.ledger.undo(ledger);
            world.others.undo(others);
        }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.undo_to(0);
        let world = self.scheduler.world_mut();
        let (journal, untold) = &self.began;
        world.ledger.hush(*journal);
        world.others.hush(untold);
    }
}

#[cfg(test)]
mod tests;
