//! The search for one pod: the largest key of its shape's ranking.

use super::{RuleSetId, Shape, ShapeId, Shapes, appraise};
use crate::ranking::Ranking;
use crate::world::World;
use divvy_ledger::{NodeId, Position};

/// What a shape looks at.
pub(super) enum Scope {
    /// All nodes, through the ranking that is kept.
    Ranked,
    /// These nodes, one by one.
    Listed(Vec<NodeId>),
}

impl Shapes {
    /// Rankings are kept for at most so many nodes over all shapes, 8 bytes each, and what rules say
    /// of nodes, 4 bytes each.
    const MAX_RANKED_NODES: usize = 1 << 23;
    const MAX_JUDGED_NODES: usize = 1 << 22;

    /// The best node for a pod of this shape.
    pub(crate) fn best(&mut self, id: ShapeId, world: &World) -> Option<NodeId> {
        self.clock += 1;
        if let Some(who) = self.related(id) {
            return self.best_related(id, who, world);
        }
        match self.refresh(id, world)? {
            Scope::Ranked => {
                let best = self.get(id)?.ranking.as_ref()?.best();
                best.map(|(index, _)| NodeId(index as u32))
            }
            Scope::Listed(nodes) => {
                let shape = self.shapes.get_mut(id.0)?;
                let rules = self.rule_sets.get(shape.key.rules.0)?;
                let Shape { key, sizes, .. } = shape;
                let scan = nodes.into_iter().map(|n| (appraise(key, sizes, rules, n, world), n));
                scan.max().filter(|(key, _)| *key > 0).map(|(_, node)| node)
            }
        }
    }

    /// The same inside a trial: when others were asked for the pods that wait, and what they said, is
    /// left as it is.
    pub(crate) fn best_tried(&mut self, id: ShapeId, world: &World) -> Option<NodeId> {
        let shape = self.get_mut(id)?;
        let known = (std::mem::take(&mut shape.allowed), shape.asked);
        let best = self.best(id, world);
        if let Some(shape) = self.get_mut(id) {
            (shape.allowed, shape.asked) = known;
        }
        best
    }

    /// Forgets what was ranked after that, for it has been taken back.
    pub(crate) fn forget_ranked_since(&mut self, then: Position) {
        for shape in self.shapes.values_mut().filter(|shape| shape.seen > then) {
            let len = shape.ranking.take().map_or(0, |ranking| ranking.len());
            self.ranked_nodes = self.ranked_nodes.saturating_sub(len);
        }
    }

    /// Brings the ranking of a shape up to date, if it is worth having one.
    pub(super) fn refresh(&mut self, id: ShapeId, world: &World) -> Option<Scope> {
        let set = self.shapes.get(id.0)?.key.rules;
        let rules = self.rule_sets.get_mut(set.0)?;
        rules.searches = rules.searches.saturating_add(1);
        rules.last_search = self.clock;
        if rules.searches >= 2 && !rules.named && rules.likings.is_none() {
            rules.judge_all(world);
            self.work += world.ledger.nodes().len() as u64 * rules.cost;
            self.judged_nodes += world.ledger.nodes().len();
            if self.judged_nodes > Self::MAX_JUDGED_NODES {
                self.forget_oldest_rules(set);
            }
        }
        let shape = self.shapes.get_mut(id.0)?;
        let rules = self.rule_sets.get_mut(shape.key.rules.0)?;
        shape.last_search = self.clock;
        shape.searches = shape.searches.saturating_add(1);
        if rules.named {
            let names = rules.rules.only_nodes()?.into_iter();
            return Some(Scope::Listed(names.filter_map(|n| world.ledger.find(n)).collect()));
        }
        let nodes = world.ledger.nodes().len();
        let current = shape.order == world.order.generation();
        if let Some(ranking) = shape.ranking.as_mut().filter(|r| current && r.len() == nodes) {
            let changes = world.ledger.journal().since(shape.seen);
            if let Some(changes) = changes.filter(|c| c.len() <= nodes.max(64)) {
                self.marks.resize(nodes, 0);
                self.mark += 1;
                let (sizes, key) = (&mut shape.sizes, &shape.key);
                self.work += changes.len() as u64 * rules.cost_of_look();
                for change in changes {
                    // Where it did not fit and nothing was freed it does not fit now.
                    if !change.freed && ranking.keys()[change.node.index()] == 0 {
                        continue;
                    }
                    let mark = &mut self.marks[change.node.index()];
                    if *mark != self.mark {
                        *mark = self.mark;
                        let value = appraise(key, sizes, rules, change.node, world);
                        ranking.set(change.node.index(), value);
                    }
                }
                shape.seen = world.ledger.journal().end();
                return Some(Scope::Ranked);
            }
        }
        self.work += nodes as u64 * rules.cost_of_look();
        // A shape that is searched once may never come again: look, and keep nothing.
        if shape.searches == 1 {
            return Some(Scope::Listed((0..nodes as u32).map(NodeId).collect()));
        }
        let keys = (0..nodes as u32)
            .map(|i| appraise(&shape.key, &mut shape.sizes, rules, NodeId(i), world))
            .collect();
        self.ranked_nodes += nodes - shape.ranking.as_ref().map_or(0, Ranking::len).min(nodes);
        shape.ranking = Some(Ranking::new(keys));
        shape.seen = world.ledger.journal().end();
        shape.order = world.order.generation();
        if self.ranked_nodes > Self::MAX_RANKED_NODES {
            self.drop_oldest_ranking(id);
        }
        Some(Scope::Ranked)
    }

    /// Forgets what the rules that were searched with longest ago say of nodes.
    fn forget_oldest_rules(&mut self, but: RuleSetId) {
        let judged =
            self.rule_sets.iter().filter(|(id, set)| set.likings.is_some() && *id != but.0);
        let oldest = judged.min_by_key(|(_, set)| set.last_search).map(|(id, _)| id);
        if let Some(set) = oldest.and_then(|id| self.rule_sets.get_mut(id)) {
            self.judged_nodes -= set.likings.take().map_or(0, |likings| likings.len());
        }
    }

    fn drop_oldest_ranking(&mut self, but: ShapeId) {
        let ranked = self.shapes.iter().filter(|(id, s)| s.ranking.is_some() && *id != but.0);
        let oldest = ranked.min_by_key(|(_, s)| s.last_search).map(|(id, _)| id);
        if let Some(shape) = oldest.and_then(|id| self.shapes.get_mut(id))
            && let Some(ranking) = shape.ranking.take()
        {
            self.ranked_nodes = self.ranked_nodes.saturating_sub(ranking.len());
        }
    }
}
