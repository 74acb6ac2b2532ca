//! Required topology spread: how many matching pods each domain has, and the least of them.

use super::{Clash, Question};
use crate::others::census::Counts;
use crate::others::topology::Topology;
use crate::relations::Spread;
use crate::rules::Rules;
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

/// Which nodes' pods count for a constraint, and their domains among the domains.
pub(super) struct Eligible<'a> {
    pub(super) rules: &'a Rules,
    pub(super) world: &'a World,
}

impl Eligible<'_> {
    pub(super) fn contains(&self, spread: &Spread, node: NodeId) -> bool {
        let asks = spread.honor_affinity && !self.rules.admit_all();
        if !asks && !spread.honor_taints {
            return true;
        }
        let facts = self.world.facts.get(node.index()).zip(self.world.ledger.node(node));
        facts.is_some_and(|(facts, node)| {
            (!asks || self.rules.admits(node.name(), facts))
                && (!spread.honor_taints || self.rules.tolerates_all(facts))
        })
    }
}

impl Evenness {
    pub(super) fn all(question: &Question<'_>, world: &World) -> Vec<Self> {
        let Some(relations) = question.relations else { return Vec::new() };
        let constraints = relations.spread.iter().zip(&question.spread).enumerate();
        let required: Vec<(usize, &Spread, &Counts, Arc<Topology>)> = constraints
            .filter(|(_, (spread, _))| spread.required)
            .map(|(index, (spread, counts))| {
                let topology = world.others.topology(&spread.topology, &world.facts);
                (index, spread, &**counts, topology)
            })
            .collect();
        let eligible = Eligible { rules: question.rules, world };
        let has_all = |node: &NodeId| required.iter().all(|(_, _, _, t)| t.domain(*node) > 0);
        let nodes = (0..world.facts.len() as u32).map(NodeId);
        let labelled: Vec<NodeId> = match required.is_empty() {
            true => Vec::new(),
            false => nodes.filter(has_all).collect(),
        };
        // Long rules are asked once for each node, however many constraints there are.
        let mut counted: Vec<((bool, bool), Vec<bool>)> = Vec::new();
        for (_, spread, ..) in &required {
            let kind = (spread.honor_affinity, spread.honor_taints);
            if counted.iter().all(|(other, _)| *other != kind) {
                let mut is_counted = vec![false; world.facts.len()];
                for node in labelled.iter().filter(|node| eligible.contains(spread, **node)) {
                    is_counted[node.index()] = true;
                }
                counted.push((kind, is_counted));
            }
        }
        let of = |(index, spread, counts, topology): &(usize, &Spread, &Counts, Arc<Topology>)| {
            let mut found: Vec<Option<u32>> = vec![None; topology.len()];
            let kind = (spread.honor_affinity, spread.honor_taints);
            let counted = counted.iter().find(|(other, _)| *other == kind).map(|(_, all)| all);
            let counts_at = |node: NodeId| {
                counted.and_then(|all| all.get(node.index())).is_some_and(|is_counted| *is_counted)
            };
            for node in labelled.iter().filter(|node| counts_at(**node)) {
                found[topology.domain(*node)].get_or_insert(0);
            }
            for (node, count) in counts.iter().filter(|(node, _)| counts_at(**node)) {
                *found[topology.domain(*node)].get_or_insert(0) += count;
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
