//! Steps that can be taken back to the byte.
//!
//! A trial (the engine's) saves what a step will change, does it, looks, and takes it back. Steps are taken back in the order from the last to the first.

use crate::card::Card;
use crate::ledger::Holding;
use crate::{Ledger, NodeId, PodId};

/// What a pod's coming or going on a node changes, as it was before.
#[derive(Debug)]
pub struct Before {
    pod: PodId,
    node: NodeId,
    holding: Option<Holding>,
    cards: Vec<Card>,
}

impl Ledger {
    /// What there is before a pod comes to a node, or goes.
    pub fn before(&self, pod: PodId, node: NodeId) -> Before {
        let cards = self.node(node).map_or_else(Vec::new, |node| node.cards().to_vec());
        Before { pod, node, holding: self.holding(pod).cloned(), cards }
    }

    /// Gives back all that a pod holds; its node is left as it is until [`Ledger::tidy`].
    pub fn lift(&mut self, pod: PodId) -> Option<Holding> {
        self.take_back(pod)
    }

    /// Takes a step back.
    pub fn undo(&mut self, step: Before) {
        let Before { pod, node, holding, cards } = step;
        self.restore(pod, node, holding, cards);
    }
}
