//! Required topology spread: how many matching pods each domain has, and the least of them.

use super::{Clash, Question};
use crate::census::Counts;
use crate::relations::Spread;
use crate::rules::{NodeFacts, Rules};
use crate::topology::Topology;
use crate::world::World;
use divvy_ledger::NodeId;
use std::sync::Arc;

/// One required constraint.
pub(super) struct Evenness {
    index: usize,
    topology: Arc<Topology>,
    counts: Vec<u32>,
    least: u32,
    own: u32,
    max_skew: u32,
}

/// Whether the pods of a node count for a constraint, and its domain among the domains.
pub(super) fn is_eligible(spread: &Spread, rules: &Rules, name: &str, node: &NodeFacts) -> bool {
    (!spread.honor_affinity || rules.admits(name, node))
        && (!spread.honor_taints || rules.tolerates_all(node))
}

impl Evenness {
    pub(super) fn all(question: &Question<'_>, world: &World) -> Vec<Self> {
        let Some(relations) = question.relations else { return Vec::new() };
        let constraints = relations.spread.iter().zip(&question.spread).enumerate();
        let required: Vec<(usize, &Spread, &Counts, Arc<Topology>)> = constraints
            .filter(|(_, (spread, _))| spread.required)
            .map(|(index, (spread, counts))| {
                let topology = world.topologies.get(&spread.topology, &world.facts);
                (index, spread, &**counts, topology)
            })
            .collect();
        let has_all = |node: NodeId| required.iter().all(|(_, _, _, t)| t.domain(node) > 0);
        let of = |(index, spread, counts, topology): &(usize, &Spread, &Counts, Arc<Topology>)| {
            let mut found: Vec<Option<u32>> = vec![None; topology.len()];
            for (id, node) in world.ledger.alive() {
                let Some(facts) = world.facts.get(id.index()) else { continue };
                if has_all(id) && is_eligible(spread, question.rules, node.name(), facts) {
                    let sum = found[topology.domain(id)].get_or_insert(0);
                    *sum += counts.get(&id).copied().unwrap_or(0);
                }
            }
            let domains = found.iter().flatten().count();
            let enough = domains >= spread.min_domains as usize;
            let least = found.iter().flatten().min().copied().unwrap_or(0);
            Self {
                index: *index,
                topology: topology.clone(),
                least: if enough { least } else { 0 },
                counts: found.into_iter().map(Option::unwrap_or_default).collect(),
                own: u32::from(spread.selector.matches(question.labels)),
                max_skew: spread.max_skew,
            }
        };
        required.iter().map(of).collect()
    }

    pub(super) fn check(&self, node: NodeId) -> Result<(), Clash> {
        let domain = self.topology.domain(node);
        if domain == 0 {
            return Err(Clash::SpreadLabel(self.index));
        }
        let skew = (self.counts[domain] + self.own).saturating_sub(self.least);
        if skew > self.max_skew {
            return Err(Clash::Spread(self.index, skew));
        }
        Ok(())
    }
}
