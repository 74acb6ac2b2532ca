//! Try things on the ledger, look, and keep them or take them back exactly.

use crate::card::Card;
use crate::ledger::Holding;
use crate::{CardShare, HoldError, Ledger, Needs, NodeId, PodId};
use std::sync::Arc;

/// What one step changed, kept until the statement ends.
#[derive(Debug)]
struct Step {
    pod: PodId,
    node: NodeId,
    before: Option<Holding>,
    cards: Vec<(usize, Card)>,
}

/// A group of holds and releases that is committed as one, or undone to the byte. Dropping it
/// undoes it.
///
/// Gangs, preemption, reclaim, consolidation and what-if are all this: do, look, commit or undo.
#[derive(Debug)]
pub struct Statement<'a> {
    ledger: &'a mut Ledger,
    steps: Vec<Step>,
}

/// A point inside a statement to go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint(usize);

impl<'a> Statement<'a> {
    pub(crate) const fn new(ledger: &'a mut Ledger) -> Self {
        Self { ledger, steps: Vec::new() }
    }

    /// The ledger as it is with all steps so far.
    pub const fn ledger(&self) -> &Ledger {
        self.ledger
    }

    /// As [`Ledger::hold`].
    pub fn hold(
        &mut self,
        pod: PodId,
        node: NodeId,
        needs: &Arc<Needs>,
        cards: &[CardShare],
    ) -> Result<(), HoldError> {
        let step = self.step(pod, node, cards.iter().map(|c| c.index as usize));
        self.ledger.hold(pod, node, needs, cards)?;
        self.steps.push(step);
        Ok(())
    }

    /// As [`Ledger::release`].
    pub fn release(&mut self, pod: PodId) -> Option<Holding> {
        let holding = self.ledger.holding(pod)?;
        let (node, cards) = (holding.node, holding.cards.clone());
        let step = self.step(pod, node, cards.iter().map(|c| c.index as usize));
        self.steps.push(step);
        self.ledger.take_back(pod)
    }

    fn step(&self, pod: PodId, node: NodeId, cards: impl Iterator<Item = usize>) -> Step {
        let all = self.ledger.node(node).map_or(&[][..], |n| n.cards());
        Step {
            pod,
            node,
            before: self.ledger.holding(pod).cloned(),
            cards: cards.filter_map(|i| Some((i, all.get(i)?.clone()))).collect(),
        }
    }

    /// Where the statement stands now.
    pub const fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.steps.len())
    }

    /// Takes back every step since `to`.
    pub fn undo_to(&mut self, to: Checkpoint) {
        while self.steps.len() > to.0 {
            if let Some(step) = self.steps.pop() {
                self.ledger.restore(step.pod, step.node, step.before, step.cards);
            }
        }
    }

    /// Keeps all steps.
    pub fn commit(mut self) {
        for step in std::mem::take(&mut self.steps) {
            self.ledger.tidy(step.node);
        }
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        self.undo_to(Checkpoint(0));
    }
}
