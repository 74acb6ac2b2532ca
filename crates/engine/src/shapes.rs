//! Pods that ask for the same in the same places share one search.
//!
//! A shape knows which nodes fit and how well. After its first search it keeps a [`Ranking`] of
//! all nodes and follows the ledger's journal, so that the next search looks only at nodes that
//! changed since. A shape that fits nowhere is parked, with all its pods, until something is freed
//! that it fits on.

use crate::config::{Config, Strategy};
use crate::order::NameOrder;
use crate::ranking::Ranking;
use crate::record::PodKey;
use crate::rules::{Liking, NodeFacts, Rules};
use crate::score::{self, ShareSizes, Strategies};
use crate::world::World;
use divvy_ledger::{Needs, NodeId, PodId, Position};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The order in which pods are tried: priority, then age, then name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    pub(crate) priority: Reverse<i32>,
    pub(crate) created: i64,
    pub(crate) key: PodKey,
}

/// Pods that ask for the same in the same places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RuleSetId(u32);

/// Rules in use, with each node's answer to them.
#[derive(Clone, Debug)]
struct RuleSet {
    rules: Arc<Rules>,
    shapes: u32,
    /// By node; 0 where the rules bar the node. Empty if the rules name their nodes.
    likings: Vec<u32>,
    named: bool,
}

/// What pods of one shape have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ShapeKey {
    needs: Arc<Needs>,
    rules: RuleSetId,
    strategy: Option<Strategy>,
}

#[derive(Clone, Debug)]
pub(crate) struct Shape {
    key: ShapeKey,
    sizes: ShareSizes,
    ranking: Option<Ranking>,
    /// Up to where `ranking` follows the journal, and which labels it was built with.
    seen: Position,
    labels: u64,
    searches: u32,
    last_search: u64,
    /// The pods of this shape that wait, in turn.
    pub(crate) waiting: BTreeSet<(Turn, PodId)>,
    /// Whether it is known to fit nowhere.
    pub(crate) parked: bool,
}

/// All shapes in use and some that were in use lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes {
    slots: Vec<Option<Shape>>,
    vacant: Vec<ShapeId>,
    ids: FxHashMap<ShapeKey, ShapeId>,
    rule_sets: Vec<Option<RuleSet>>,
    vacant_rules: Vec<RuleSetId>,
    rule_ids: FxHashMap<Arc<Rules>, RuleSetId>,
    clock: u64,
    ranked_nodes: usize,
    sweep_at: usize,
    /// Marks of the nodes that one refresh has already looked at.
    marks: Vec<u64>,
    mark: u64,
}

impl Shapes {
    /// Rankings are kept for at most so many nodes over all shapes; 8 bytes each.
    const MAX_RANKED_NODES: usize = 1 << 24;
    /// Idle shapes are forgotten after so many searches of others.
    const IDLE_SEARCHES: u64 = 4096;

    /// The shape of a pod, new or known.
    pub(crate) fn intern(
        &mut self,
        needs: Needs,
        rules: Rules,
        strategy: Option<Strategy>,
        world: &World,
    ) -> ShapeId {
        if self.ids.len() >= self.sweep_at.max(2 * Self::IDLE_SEARCHES as usize) {
            self.sweep();
        }
        let rules = self.intern_rules(rules, world);
        let key = ShapeKey { needs: Arc::new(needs), rules, strategy };
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        if let Some(set) = self.rule_sets.get_mut(rules.0 as usize).and_then(Option::as_mut) {
            set.shapes += 1;
        }
        let shape = Shape {
            key: key.clone(),
            sizes: ShareSizes::default(),
            ranking: None,
            seen: Position::default(),
            labels: 0,
            searches: 0,
            last_search: self.clock,
            waiting: BTreeSet::new(),
            parked: false,
        };
        let id = match self.vacant.pop() {
            Some(id) => {
                self.slots[id.0 as usize] = Some(shape);
                id
            }
            None => {
                self.slots.push(Some(shape));
                ShapeId(self.slots.len() as u32 - 1)
            }
        };
        self.ids.insert(key, id);
        id
    }

    fn intern_rules(&mut self, rules: Rules, world: &World) -> RuleSetId {
        if let Some(id) = self.rule_ids.get(&rules) {
            return *id;
        }
        let named = rules.only_nodes().is_some();
        let mut set = RuleSet { rules: Arc::new(rules), shapes: 0, likings: Vec::new(), named };
        if !named {
            let nodes = world.ledger.nodes().iter().zip(&world.facts);
            set.likings = nodes.map(|(node, facts)| set.liking(node.name(), facts)).collect();
        }
        let rules = set.rules.clone();
        let id = match self.vacant_rules.pop() {
            Some(id) => {
                self.rule_sets[id.0 as usize] = Some(set);
                id
            }
            None => {
                self.rule_sets.push(Some(set));
                RuleSetId(self.rule_sets.len() as u32 - 1)
            }
        };
        self.rule_ids.insert(rules, id);
        id
    }

    /// Asks every rule set again about a node whose labels or taints are new.
    pub(crate) fn node_facts_changed(&mut self, id: NodeId, name: &str, facts: &NodeFacts) {
        for set in self.rule_sets.iter_mut().flatten().filter(|s| !s.named) {
            if set.likings.len() <= id.index() {
                set.likings.resize(id.index() + 1, 0);
            }
            set.likings[id.index()] = set.liking(name, facts);
        }
    }

    /// Forgets every score, after a change of the configuration.
    pub(crate) fn forget_scores(&mut self) {
        for shape in self.slots.iter_mut().flatten() {
            shape.ranking = None;
        }
        self.ranked_nodes = 0;
    }

    pub(crate) fn get(&self, id: ShapeId) -> Option<&Shape> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: ShapeId) -> Option<&mut Shape> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    pub(crate) fn needs(&self, id: ShapeId) -> Option<&Arc<Needs>> {
        Some(&self.get(id)?.key.needs)
    }

    pub(crate) fn rules(&self, id: ShapeId) -> Option<&Rules> {
        let set = self.get(id)?.key.rules;
        Some(&self.rule_sets.get(set.0 as usize)?.as_ref()?.rules)
    }

    pub(crate) fn strategies(&self, id: ShapeId, config: &Config) -> Strategies {
        Strategies::new(config, self.get(id).and_then(|s| s.key.strategy))
    }

    /// The best node for a pod of this shape.
    pub(crate) fn best(&mut self, id: ShapeId, world: &World) -> Option<NodeId> {
        self.clock += 1;
        let shape = self.slots.get_mut(id.0 as usize)?.as_mut()?;
        let rules = self.rule_sets.get(shape.key.rules.0 as usize)?.as_ref()?;
        shape.last_search = self.clock;
        shape.searches = shape.searches.saturating_add(1);
        if rules.named {
            return shape.best_named(rules, world);
        }
        let nodes = world.ledger.nodes().len();
        let current = shape.labels == world.order.generation();
        if let Some(ranking) = shape.ranking.as_mut().filter(|r| current && r.len() == nodes) {
            let changes = world.ledger.journal().since(shape.seen);
            if let Some(changes) = changes.filter(|c| c.len() <= nodes.max(64)) {
                self.marks.resize(nodes, 0);
                self.mark += 1;
                let (sizes, key) = (&mut shape.sizes, &shape.key);
                for change in changes {
                    let mark = &mut self.marks[change.node.index()];
                    if *mark != self.mark {
                        *mark = self.mark;
                        let value = appraise(key, sizes, rules, change.node, world);
                        ranking.set(change.node.index(), value);
                    }
                }
                shape.seen = world.ledger.journal().end();
                return ranking.best().map(|(i, _)| NodeId(i as u32));
            }
        }
        // A shape that is searched once may never come again: look, and keep nothing.
        if shape.searches == 1 {
            let scan = (0..nodes as u32)
                .map(|i| (appraise(&shape.key, &mut shape.sizes, rules, NodeId(i), world), i));
            return scan.max().filter(|(key, _)| *key > 0).map(|(_, i)| NodeId(i));
        }
        let keys = (0..nodes as u32)
            .map(|i| appraise(&shape.key, &mut shape.sizes, rules, NodeId(i), world))
            .collect();
        let ranking = Ranking::new(keys);
        let best = ranking.best().map(|(i, _)| NodeId(i as u32));
        self.ranked_nodes += nodes - shape.ranking.as_ref().map_or(0, Ranking::len).min(nodes);
        shape.ranking = Some(ranking);
        shape.seen = world.ledger.journal().end();
        shape.labels = world.order.generation();
        if self.ranked_nodes > Self::MAX_RANKED_NODES {
            self.drop_oldest_ranking(id);
        }
        best
    }

    /// Whether a pod of this shape fits on this node now.
    pub(crate) fn fits_on(&mut self, id: ShapeId, node: NodeId, world: &World) -> bool {
        let Some(shape) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return false;
        };
        let rules = self.rule_sets.get(shape.key.rules.0 as usize).and_then(Option::as_ref);
        rules.is_some_and(|r| appraise(&shape.key, &mut shape.sizes, r, node, world) > 0)
    }

    fn drop_oldest_ranking(&mut self, but: ShapeId) {
        let ranked = self.slots.iter().enumerate().filter_map(|(i, s)| {
            let s = s.as_ref().filter(|s| s.ranking.is_some() && i != but.0 as usize)?;
            Some((s.last_search, i))
        });
        if let Some((_, oldest)) = ranked.min()
            && let Some(shape) = self.slots[oldest].as_mut()
            && let Some(ranking) = shape.ranking.take()
        {
            self.ranked_nodes = self.ranked_nodes.saturating_sub(ranking.len());
        }
    }

    /// Forgets shapes that nobody waits for and nobody asked for lately.
    fn sweep(&mut self) {
        let horizon = self.clock.saturating_sub(Self::IDLE_SEARCHES);
        for (i, slot) in self.slots.iter_mut().enumerate() {
            let Some(shape) = slot.take_if(|s| s.waiting.is_empty() && s.last_search < horizon)
            else {
                continue;
            };
            self.ids.remove(&shape.key);
            self.vacant.push(ShapeId(i as u32));
            let len = shape.ranking.as_ref().map_or(0, Ranking::len);
            self.ranked_nodes = self.ranked_nodes.saturating_sub(len);
            if let Some(set) = self.rule_sets.get_mut(shape.key.rules.0 as usize)
                && let Some(used) = set
            {
                used.shapes -= 1;
                if used.shapes == 0 {
                    self.rule_ids.remove(&used.rules);
                    self.vacant_rules.push(shape.key.rules);
                    *set = None;
                }
            }
        }
        self.sweep_at = 2 * self.ids.len();
    }
}

impl RuleSet {
    fn liking(&self, name: &str, facts: &NodeFacts) -> u32 {
        self.rules.judge(name, facts).map_or(0, |liking| liking.0)
    }
}

impl Shape {
    fn best_named(&mut self, rules: &RuleSet, world: &World) -> Option<NodeId> {
        let names = rules.rules.only_nodes()?;
        let nodes = names.into_iter().filter_map(|name| world.ledger.find(name));
        let scan = nodes.map(|n| (appraise(&self.key, &mut self.sizes, rules, n, world), n));
        scan.max().filter(|(key, _)| *key > 0).map(|(_, node)| node)
    }
}

/// The key by which nodes of one shape are ranked: 0 where it does not fit, else its score and,
/// among equal scores, its place by name.
fn appraise(
    shape: &ShapeKey,
    sizes: &mut ShareSizes,
    rules: &RuleSet,
    id: NodeId,
    world: &World,
) -> u64 {
    let Some(node) = world.ledger.node(id).filter(|n| n.is_alive()) else { return 0 };
    let liking = match world.facts.get(id.index()) {
        Some(facts) if rules.named => rules.liking(node.name(), facts),
        _ => rules.likings.get(id.index()).copied().unwrap_or(0),
    };
    if liking == 0 {
        return 0;
    }
    let share = sizes.on(shape.needs.request, node.card_size());
    let strategies = Strategies::new(&world.config, shape.strategy);
    score::score(Liking(liking), &shape.needs, share, strategies, &world.config, node)
        .map_or(0, |score| score << NameOrder::BITS | world.order.precedence(id))
}

const _: () = assert!(score::BITS + NameOrder::BITS <= 64);
