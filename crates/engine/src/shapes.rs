//! Pods that ask for the same in the same places share one search.
//!
//! A shape knows which nodes fit and how well. After its first search it keeps a [`Ranking`] of
//! all nodes and follows the ledger's journal, so that the next search looks only at nodes that
//! changed since. A shape that fits nowhere is parked, with all its pods, until something is freed
//! that it fits on.

mod related;
mod search;

use crate::config::{Config, Strategy};
use crate::order::NameOrder;
use crate::others::{Changes, Identity};
use crate::ranking::Ranking;
use crate::rules::{Liking, NodeFacts, Rules};
use crate::score::{self, Candidate, SharesBySize, Strategies};
use crate::slab::Slab;
use crate::turn::Turn;
use crate::world::World;
use divvy_ledger::{Needs, NodeId, PodId, Position};
use foldhash::HashMap;
use related::NodeSet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pods that ask for the same in the same places: where the shape is, and which it is of all that
/// have been there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(u32, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RuleSetId(u32);

/// Rules in use, with each node's answer to them.
#[derive(Clone, Debug)]
struct RuleSet {
    rules: Arc<Rules>,
    shapes: u32,
    /// By node; 0 where the rules bar the node. Kept from the second search on: rules that are
    /// asked for once may never come again.
    likings: Option<Vec<u32>>,
    searches: u32,
    last_search: u64,
    /// How much more than a plain look it is to judge a node.
    cost: u64,
    /// How many bytes it takes.
    weight: usize,
    /// Whether the rules name their nodes, so that few are looked at.
    named: bool,
}

/// What pods of one shape have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ShapeKey {
    needs: Arc<Needs>,
    rules: RuleSetId,
    strategy: Option<Strategy>,
    /// Who the pods are, if other pods matter to them or they to others.
    related: Option<Identity>,
}

#[derive(Clone, Debug)]
pub(crate) struct Shape {
    key: ShapeKey,
    number: u32,
    sizes: SharesBySize,
    ranking: Option<Ranking>,
    /// Up to where `ranking` follows the journal, and by which order of names it was built.
    seen: Position,
    order: u64,
    searches: u32,
    last_search: u64,
    /// The pods of this shape that wait, in turn.
    pub(crate) waiting: BTreeSet<(Turn, PodId)>,
    /// Whether it is known to fit nowhere.
    pub(crate) parked: bool,
    /// Of a related shape that fitted nowhere: the nodes that other pods would have allowed.
    allowed: NodeSet,
    /// When that was, by the clock of others.
    asked: u64,
}

/// All shapes in use and some that were in use lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes {
    shapes: Slab<Shape>,
    ids: HashMap<ShapeKey, ShapeId>,
    /// How many there have been.
    made: u32,
    rule_sets: Slab<RuleSet>,
    rule_ids: HashMap<Arc<Rules>, RuleSetId>,
    /// Identities of shapes that were forgotten.
    retired: Vec<Identity>,
    last_rules: Option<(Arc<Rules>, RuleSetId)>,
    clock: u64,
    /// How many nodes were looked at, each as often as it takes to judge it.
    work: u64,
    ranked_nodes: usize,
    judged_nodes: usize,
    sweep_at: usize,
    /// What rules and requests of shapes weigh that have come since heavy ones were last forgotten.
    heavy: usize,
    /// Marks of the nodes that one refresh has already looked at.
    marks: Vec<u64>,
    mark: u64,
}

impl Shapes {
    /// Idle shapes are forgotten after so many searches of others.
    const IDLE_SEARCHES: u64 = 4096;
    /// Rules and requests of more bytes than this are not kept for long if nobody waits,
    const HEAVY: usize = 1024;
    /// but until so many bytes have come.
    const MAX_HEAVY: usize = 8 << 20;

    /// The shape of a pod, new or known.
    pub(crate) fn intern(
        &mut self,
        needs: Needs,
        rules: &Arc<Rules>,
        strategy: Option<Strategy>,
        related: Option<Identity>,
    ) -> (ShapeId, bool) {
        if self.ids.len() >= self.sweep_at.max(2 * Self::IDLE_SEARCHES as usize) {
            let horizon = self.clock.saturating_sub(Self::IDLE_SEARCHES);
            self.forget_idle(|shape, _| shape.last_search < horizon);
            self.sweep_at = 2 * self.ids.len();
        }
        if self.heavy > Self::MAX_HEAVY {
            self.forget_idle(|shape, rules| {
                rules.weight > Self::HEAVY || shape.key.needs.request.weight() > Self::HEAVY
            });
            self.heavy = 0;
        }
        let rules = self.intern_rules(rules);
        let key = ShapeKey { needs: Arc::new(needs), rules, strategy, related };
        self.intern_key(key)
    }

    fn intern_key(&mut self, key: ShapeKey) -> (ShapeId, bool) {
        if let Some(id) = self.ids.get(&key) {
            return (*id, false);
        }
        if let Some(set) = self.rule_sets.get_mut(key.rules.0) {
            set.shapes += 1;
            self.heavy += set.weight.saturating_sub(Self::HEAVY)
                + key.needs.request.weight().saturating_sub(Self::HEAVY);
        }
        self.made = self.made.wrapping_add(1);
        let shape = Shape {
            key: key.clone(),
            number: self.made,
            sizes: SharesBySize::default(),
            ranking: None,
            seen: Position::default(),
            order: 0,
            searches: 0,
            last_search: self.clock,
            waiting: BTreeSet::new(),
            parked: false,
            allowed: NodeSet::default(),
            asked: 0,
        };
        let id = ShapeId(self.shapes.insert(shape), self.made);
        self.ids.insert(key, id);
        (id, true)
    }

    /// Identities that shapes no longer use.
    pub(crate) fn take_retired(&mut self) -> Vec<Identity> {
        std::mem::take(&mut self.retired)
    }

    /// Who the pods of a shape are, if that matters.
    pub(crate) fn related(&self, id: ShapeId) -> Option<Identity> {
        self.get(id)?.key.related
    }

    /// What pods of this shape ask.
    pub(crate) fn parts(&self, id: ShapeId) -> Option<(Needs, Arc<Rules>, Option<Strategy>)> {
        let key = &self.get(id)?.key;
        let rules = self.rule_sets.get(key.rules.0)?.rules.clone();
        Some(((*key.needs).clone(), rules, key.strategy))
    }

    fn intern_rules(&mut self, rules: &Arc<Rules>) -> RuleSetId {
        // Pods of one controller come one after another, and long rules take long to compare.
        if let Some((last, id)) = &self.last_rules
            && Arc::ptr_eq(last, rules)
        {
            return *id;
        }
        let id = match self.rule_ids.get(rules) {
            Some(id) => *id,
            None => self.add_rules(rules.clone()),
        };
        self.last_rules = Some((rules.clone(), id));
        id
    }

    fn add_rules(&mut self, rules: Arc<Rules>) -> RuleSetId {
        let named = rules.only_nodes().is_some();
        let set = RuleSet {
            rules: rules.clone(),
            shapes: 0,
            likings: None,
            searches: 0,
            last_search: 0,
            cost: 1 + rules.cost() as u64,
            weight: rules.weight(),
            named,
        };
        let id = RuleSetId(self.rule_sets.insert(set));
        self.rule_ids.insert(rules, id);
        id
    }

    /// Asks every rule set again about a node whose labels or taints are new.
    pub(crate) fn node_facts_changed(&mut self, id: NodeId, name: &str, facts: &NodeFacts) {
        for set in self.rule_sets.values_mut().filter(|set| set.likings.is_some()) {
            let liking = set.liking(name, facts);
            let Some(likings) = &mut set.likings else { continue };
            if likings.len() <= id.index() {
                self.judged_nodes += id.index() + 1 - likings.len();
                likings.resize(id.index() + 1, 0);
            }
            likings[id.index()] = liking;
        }
    }

    /// Forgets every score, after a change of the configuration.
    pub(crate) fn forget_scores(&mut self) {
        for shape in self.shapes.values_mut() {
            shape.ranking = None;
        }
        self.ranked_nodes = 0;
    }

    /// What pods of all shapes ask.
    pub(crate) fn all_needs(&self) -> impl Iterator<Item = &Needs> {
        self.shapes.iter().map(|(_, shape)| &*shape.key.needs)
    }

    /// How much has been looked at: about the number of nodes, by all that was asked of each.
    pub(crate) const fn work(&self) -> u64 {
        self.work
    }

    /// How often a shape was searched for.
    pub(crate) const fn searches(&self) -> u64 {
        self.clock
    }

    pub(crate) fn get(&self, id: ShapeId) -> Option<&Shape> {
        self.shapes.get(id.0).filter(|shape| shape.number == id.1)
    }

    pub(crate) fn get_mut(&mut self, id: ShapeId) -> Option<&mut Shape> {
        self.shapes.get_mut(id.0).filter(|shape| shape.number == id.1)
    }

    pub(crate) fn needs(&self, id: ShapeId) -> Option<&Arc<Needs>> {
        Some(&self.get(id)?.key.needs)
    }

    pub(crate) fn rules(&self, id: ShapeId) -> Option<&Rules> {
        let set = self.get(id)?.key.rules;
        Some(&self.rule_sets.get(set.0)?.rules)
    }

    pub(crate) fn strategies(&self, id: ShapeId, config: &Config) -> Strategies {
        Strategies::new(config, self.get(id).and_then(|s| s.key.strategy))
    }

    /// Whether a pod of this shape fits on this node now.
    pub(crate) fn fits_on(&mut self, id: ShapeId, node: NodeId, world: &World) -> bool {
        let Some(shape) = self.shapes.get_mut(id.0) else { return false };
        let Some(rules) = self.rule_sets.get(shape.key.rules.0) else { return false };
        let fits = appraise(&shape.key, &mut shape.sizes, rules, node, world) > 0;
        fits && shape.key.related.is_none_or(|who| {
            let prepared = world.prepare(who, &rules.rules);
            prepared.is_some_and(|prepared| prepared.check(node).is_ok())
        })
    }

    /// Whether one of these nodes, where something was freed, can help a shape that fitted
    /// nowhere.
    pub(crate) fn is_helped_by(
        &mut self,
        id: ShapeId,
        freed: &BTreeSet<NodeId>,
        world: &World,
    ) -> bool {
        let Some(shape) = self.shapes.get_mut(id.0) else { return false };
        let Some(rules) = self.rule_sets.get(shape.key.rules.0) else { return false };
        let Shape { key, sizes, allowed, .. } = shape;
        self.work += freed.len() as u64 * rules.cost_of_look();
        let mut fitting = freed.iter().filter(|node| {
            allowed.contains(**node) && appraise(key, sizes, rules, **node, world) > 0
        });
        match key.related {
            Some(who) => world.may_take(who, fitting),
            None => fitting.next().is_some(),
        }
    }

    /// Whether something has happened to others that can help a shape that fitted nowhere.
    pub(crate) fn is_helped_by_others(
        &mut self,
        id: ShapeId,
        changes: &mut Changes,
        world: &World,
    ) -> bool {
        let Some(shape) = self.get(id) else { return false };
        let Some(who) = shape.key.related else { return false };
        let (is_helped, looks) = world.others.helps(who, shape.asked, changes);
        self.work += looks as u64;
        is_helped
    }

    /// Forgets such shapes, of those that nobody waits for.
    fn forget_idle(&mut self, is_such: impl Fn(&Shape, &RuleSet) -> bool) {
        let is_idle = |shape: &Shape| {
            let rules = self.rule_sets.get(shape.key.rules.0);
            shape.waiting.is_empty() && rules.is_none_or(|rules| is_such(shape, rules))
        };
        let idle = self.shapes.iter().filter(|(_, shape)| is_idle(shape));
        let id = |(id, shape): (u32, &Shape)| ShapeId(id, shape.number);
        for id in idle.map(id).collect::<Vec<_>>() {
            self.forget(id);
        }
    }

    /// Forgets a shape at once that nobody waits for any more, if it keeps what other pods are asked
    /// about. Whether it did.
    pub(crate) fn retire(&mut self, id: ShapeId) -> bool {
        let is_over = |shape: &Shape| shape.waiting.is_empty() && shape.key.related.is_some();
        let retires = self.get(id).is_some_and(is_over);
        if retires {
            self.forget(id);
        }
        retires
    }

    fn forget(&mut self, id: ShapeId) {
        let Some(shape) = self.shapes.remove(id.0) else { return };
        self.ids.remove(&shape.key);
        self.retired.extend(shape.key.related);
        let len = shape.ranking.as_ref().map_or(0, Ranking::len);
        self.ranked_nodes = self.ranked_nodes.saturating_sub(len);
        let rules = shape.key.rules;
        let Some(set) = self.rule_sets.get_mut(rules.0) else { return };
        set.shapes -= 1;
        if set.shapes == 0
            && let Some(set) = self.rule_sets.remove(rules.0)
        {
            self.judged_nodes -= set.likings.map_or(0, |likings| likings.len());
            self.rule_ids.remove(&set.rules);
            self.last_rules.take_if(|(_, last)| *last == rules);
        }
    }
}

impl RuleSet {
    /// How much it is to look at one node.
    const fn cost_of_look(&self) -> u64 {
        if self.likings.is_some() { 1 } else { self.cost }
    }

    fn judge_all(&mut self, world: &World) {
        let nodes = world.ledger.nodes().iter().zip(&world.facts);
        let likings = nodes.map(|(node, facts)| self.liking(node.name(), facts)).collect();
        self.likings = Some(likings);
    }

    fn liking(&self, name: &str, facts: &NodeFacts) -> u32 {
        self.rules.judge(name, facts).map_or(0, |liking| liking.0)
    }
}

/// The key by which nodes of one shape are ranked: 0 where it does not fit, else its score and,
/// among equal scores, its place by name.
fn appraise(
    shape: &ShapeKey,
    sizes: &mut SharesBySize,
    rules: &RuleSet,
    id: NodeId,
    world: &World,
) -> u64 {
    let ledger = &world.ledger;
    let (Some(glance), Some(node)) = (ledger.glance(id), ledger.node(id)) else { return 0 };
    let liking = match &rules.likings {
        Some(likings) => likings.get(id.index()).copied().unwrap_or(0),
        None => world.facts.get(id.index()).map_or(0, |facts| rules.liking(node.name(), facts)),
    };
    if liking == 0 {
        return 0;
    }
    let needs = &*shape.needs;
    let share = sizes.on(&needs.request, glance.card_size());
    if !ledger.fits(id, needs, share) {
        return 0;
    }
    let strategies = Strategies::new(&world.config, shape.strategy);
    let at = Candidate { glance, node };
    let score = score::score(Liking(liking), needs, share, strategies, &world.config, at);
    score << NameOrder::BITS | world.order.precedence(id)
}

const _: () = assert!(score::BITS + NameOrder::BITS <= 64);

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_ledger::{Device, Each, Request};

    #[test]
    fn shapes_with_long_requests_that_nobody_waits_for_are_not_kept_for_long() {
        let names = (1..=250).map(|gb| format!("nvidia.com/mig-1g.{gb}gb"));
        let kinds: Vec<Device> = names.map(|name| Device::of_resource(&name).unwrap()).collect();
        let mut shapes = Shapes::default();
        let rules = Arc::new(Rules::default());
        for count in 1..=6000 {
            let ask = |request: Request, kind: &Device| request.and(count, Each::Device(*kind));
            let request = kinds.iter().fold(Request::none(), ask);
            shapes.intern(Needs { request, ..Needs::default() }, &rules, None, None);
        }
        assert!(shapes.ids.len() < 3500, "{}", shapes.ids.len());
    }
}
