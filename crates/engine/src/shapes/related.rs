//! The search for pods whose place depends on other pods: a plain scan with the tables of
//! [`Prepared`](crate::prepared::Prepared). Nothing is kept between tries, because every pod that
//! comes or goes may change every node.

use super::{RuleSet, Shape, appraise};
use crate::census::Identity;
use crate::order::NameOrder;
use crate::rules::Liking;
use crate::score;
use crate::world::World;
use divvy_ledger::NodeId;

/// Nodes by id. Those that it has never heard of are in it.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeSet(Vec<u64>, usize);

impl NodeSet {
    fn of(nodes: impl Iterator<Item = bool>) -> Self {
        let mut set = Self::default();
        for is_in in nodes {
            if set.1.is_multiple_of(64) {
                set.0.push(0);
            }
            if let Some(last) = set.0.last_mut() {
                *last |= u64::from(is_in) << (set.1 % 64);
            }
            set.1 += 1;
        }
        set
    }

    pub(super) fn contains(&self, node: NodeId) -> bool {
        let index = node.index();
        index >= self.1 || self.0[index / 64] >> (index % 64) & 1 == 1
    }
}

impl Shape {
    /// The best node by rules, room and other pods.
    pub(super) fn best_related(
        &mut self,
        who: Identity,
        rules: &RuleSet,
        world: &World,
    ) -> Option<NodeId> {
        let prepared = world.prepare(who, &rules.rules)?;
        if prepared.nowhere().is_some() {
            self.asked = world.census.now();
            return None;
        }
        let nodes: Vec<NodeId> = match rules.rules.only_nodes() {
            Some(names) => names.into_iter().filter_map(|name| world.ledger.find(name)).collect(),
            None => (0..world.ledger.nodes().len() as u32).map(NodeId).collect(),
        };
        let mut fitting = Vec::new();
        for node in nodes {
            let key = appraise(&self.key, &mut self.sizes, rules, node, world);
            if key > 0 && prepared.check(node).is_ok() {
                fitting.push((key, node));
            }
        }
        if fitting.is_empty() {
            let all = (0..world.ledger.nodes().len() as u32).map(NodeId);
            self.allowed = NodeSet::of(all.map(|node| prepared.check_domains(node).is_ok()));
            self.asked = world.census.now();
            return None;
        }
        let wishes = prepared.wishes();
        if wishes.is_empty() {
            return fitting.into_iter().max().map(|(_, node)| node);
        }
        let liking = |key: u64| Liking((key >> (NameOrder::BITS + score::BELOW_LIKING)) as u32);
        let offers = fitting.iter().map(|(key, n)| wishes.wishes(*n, liking(*key).weight().into()));
        let points = wishes.points(&offers.collect::<Vec<_>>());
        let ranked = fitting.into_iter().zip(points).map(|((key, node), points)| {
            let rest = key & ((1 << (NameOrder::BITS + score::BELOW_LIKING)) - 1);
            ((liking(key).untainted(), points, rest), node)
        });
        ranked.max().map(|(_, node)| node)
    }
}
