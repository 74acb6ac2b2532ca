//! What a decision looks at: the ledger and what nodes are.

use crate::census::{Census, Identity};
use crate::config::Config;
use crate::order::NameOrder;
use crate::prepared::Prepared;
use crate::relations::Relations;
use crate::rules::{NodeFacts, Rules};
use crate::topology::Topologies;
use crate::volumes::{VolumeUse, Volumes};
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
    /// Which pods are where, by what relations ask of them.
    pub(crate) census: Census,
    pub(crate) topologies: Topologies,
    /// Storage objects and who uses them.
    pub(crate) volumes: Volumes,
}

impl World {
    /// Gives a pod a place. The one way in, so that ledger, census and volumes never differ.
    pub(crate) fn hold(
        &mut self,
        pod: PodId,
        node: NodeId,
        needs: &Arc<Needs>,
        cards: &[CardShare],
    ) -> Result<(), HoldError> {
        self.ledger.hold(pod, node, needs, cards)?;
        self.settle(pod, node);
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
        self.settle(pod, node);
        Ok(())
    }

    fn settle(&mut self, pod: PodId, node: NodeId) {
        self.census.settle(pod, node);
        self.volumes.settle(pod, node);
    }

    /// Takes a pod off its place. The one way out.
    pub(crate) fn release(&mut self, pod: PodId) -> Option<Holding> {
        self.census.leave(pod);
        self.volumes.leave(pod);
        self.ledger.release(pod)
    }

    /// The same, for a trial that may take it back.
    pub(crate) fn lift(&mut self, pod: PodId) -> Option<Holding> {
        self.census.leave(pod);
        self.volumes.leave(pod);
        self.ledger.lift(pod)
    }

    /// Keeps the topologies that a pod's relations ask about.
    pub(crate) fn keep_topologies(&mut self, who: Identity) {
        for key in self.census.topologies_of(who) {
            self.topologies.keep(&key, &self.facts);
        }
    }

    /// What such a pod says of others and of storage.
    pub(crate) fn relations_of(&self, who: Identity) -> Option<&Relations> {
        let tie = who.tie.and_then(|id| self.census.tie_of(id))?;
        Some(&tie.relations)
    }

    /// The volumes of such a pod.
    pub(crate) fn volumes_of(&self, who: Identity) -> &[VolumeUse] {
        self.relations_of(who).map_or(&[], |relations| &relations.volumes)
    }

    /// Whether the volumes of such a pod can be used from one of these nodes.
    pub(crate) fn has_volumes<'a>(
        &self,
        who: Identity,
        nodes: impl Iterator<Item = &'a NodeId>,
    ) -> bool {
        let uses = self.volumes_of(who);
        let mut nodes = nodes.peekable();
        if uses.is_empty() || nodes.peek().is_none() {
            return nodes.peek().is_some();
        }
        let Ok(wants) = self.volumes.prepare(uses) else { return false };
        nodes.any(|node| wants.pick(*node, self).is_ok())
    }

    /// The tables of a pod's relations.
    pub(crate) fn prepare<'a>(&'a self, who: Identity, rules: &'a Rules) -> Option<Prepared<'a>> {
        Some(Prepared::new(self.census.question(who, rules)?, self))
    }
}
