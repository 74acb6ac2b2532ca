//! What a decision looks at: the ledger, what nodes are, and others.

use crate::config::Config;
use crate::order::NameOrder;
use crate::others::Others;
use crate::rules::NodeFacts;
use divvy_ledger::{CardShare, HoldError, Holding, Ledger, Needs, NodeId, PodId};
use std::sync::Arc;

/// The cluster as it is known, and the settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) ledger: Ledger,
    /// Labels and taints, by node.
    pub(crate) facts: Vec<NodeFacts>,
    /// GPU model, by node.
    pub(crate) models: Vec<Option<Arc<str>>>,
    pub(crate) order: NameOrder,
    pub(crate) config: Config,
    pub(crate) others: Others,
}

impl World {
    /// Gives a pod a place. The one way in, so that the ledger and others never differ.
    pub(crate) fn hold(
        &mut self,
        pod: PodId,
        node: NodeId,
        needs: &Arc<Needs>,
        cards: &[CardShare],
    ) -> Result<(), HoldError> {
        self.ledger.hold(pod, node, needs, cards)?;
        self.others.enter(pod, node);
        Ok(())
    }

    /// The same for a pod of which nobody can say which cards it has.
    pub(crate) fn hold_unknown(
        &mut self,
        pod: PodId,
        node: NodeId,
        needs: &Arc<Needs>,
    ) -> Result<(), HoldError> {
        self.ledger.hold_unknown(pod, node, needs)?;
        self.others.enter(pod, node);
        Ok(())
    }

    /// The same for a reservation, which keeps a card for shares.
    pub(crate) fn keep(
        &mut self,
        pod: PodId,
        node: NodeId,
        needs: &Arc<Needs>,
        card: u32,
    ) -> Result<(), HoldError> {
        self.ledger.keep(pod, node, needs, card)?;
        self.others.enter(pod, node);
        Ok(())
    }

    /// Takes a pod off its place. The one way out.
    pub(crate) fn release(&mut self, pod: PodId) -> Option<Holding> {
        self.others.leave(pod);
        self.ledger.release(pod)
    }

    /// The same, for a trial that may take it back.
    pub(crate) fn lift(&mut self, pod: PodId) -> Option<Holding> {
        self.others.leave(pod);
        self.ledger.lift(pod)
    }

    /// Changes the labels and taints of a node.
    pub(crate) fn set_facts(&mut self, node: NodeId, facts: NodeFacts) {
        let before = std::mem::replace(&mut self.facts[node.index()], facts);
        self.others.node_changed(node, &before, &self.facts);
    }
}
