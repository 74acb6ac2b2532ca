//! The search for pods whose place depends on other pods: the keys of a plain pod that asks the
//! same, and the tables of [`Prepared`](crate::others::Prepared) for every node. The tables
//! are made anew for each try, because every pod that comes or goes may change every node.

use super::search::Scope;
use super::{Shape, ShapeId, ShapeKey, Shapes, appraise};
use crate::order::NameOrder;
use crate::others::Identity;
use crate::others::Prepared;
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

impl Shapes {
    /// The best node by rules, room and other pods.
    pub(super) fn best_related(
        &mut self,
        id: ShapeId,
        who: Identity,
        world: &World,
    ) -> Option<NodeId> {
        let shape = self.shapes.get_mut(id.0)?;
        shape.last_search = self.clock;
        // Pods of many controllers that ask the same share what rules and room say.
        let plain = ShapeKey { related: None, ..shape.key.clone() };
        let (plain, _) = self.intern_key(plain);
        let scope = self.refresh(plain, world)?;
        let shape = self.shapes.get_mut(plain.0)?;
        let rules = self.rule_sets.get(shape.key.rules.0)?;
        let prepared = world.prepare(who, &rules.rules)?;
        self.work += world.ledger.nodes().len() as u64 * (1 + prepared.cost() as u64);
        if prepared.nowhere().is_some() {
            let shape = self.shapes.get_mut(id.0)?;
            (shape.allowed, shape.asked) = (NodeSet::default(), world.others.now());
            return None;
        }
        let allows = |(key, node): &(u64, NodeId)| *key > 0 && prepared.check(*node).is_ok();
        let fitting: Vec<(u64, NodeId)> = match (scope, &shape.ranking) {
            (Scope::Listed(nodes), _) => {
                let Shape { key, sizes, .. } = shape;
                let keys = nodes.into_iter().map(|n| (appraise(key, sizes, rules, n, world), n));
                keys.filter(allows).collect()
            }
            (Scope::Ranked, ranking) => {
                let keys = ranking.as_ref()?.keys().iter().zip(0..);
                keys.map(|(key, i)| (*key, NodeId(i))).filter(allows).collect()
            }
        };
        let best = best_of(&prepared, fitting);
        if best.is_none() {
            let all = (0..world.ledger.nodes().len() as u32).map(NodeId);
            let allowed = NodeSet::of(all.map(|node| prepared.check_domains(node).is_ok()));
            let shape = self.shapes.get_mut(id.0)?;
            (shape.allowed, shape.asked) = (allowed, world.others.now());
        }
        best
    }
}

fn best_of(prepared: &Prepared<'_>, fitting: Vec<(u64, NodeId)>) -> Option<NodeId> {
    let wishes = prepared.wishes();
    if wishes.is_empty() {
        return fitting.into_iter().max().map(|(_, node)| node);
    }
    const BELOW: u32 = NameOrder::BITS + score::BELOW_LIKING;
    let liking = |key: u64| Liking((key >> BELOW) as u32);
    let offers = fitting.iter().map(|(key, n)| wishes.wishes(*n, liking(*key).weight().into()));
    let points = wishes.points(&offers.collect::<Vec<_>>());
    let ranked = fitting.into_iter().zip(points).map(|((key, node), points)| {
        ((liking(key).untainted(), points, key & ((1 << BELOW) - 1)), node)
    });
    ranked.max().map(|(_, node)| node)
}
