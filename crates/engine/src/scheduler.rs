//! The one scheduler: events change what it knows, a pass decides what fits.

use crate::cards;
use crate::config::Config;
use crate::pods::{Pod, Pods, State, Stuck};
use crate::record::{Bound, BoundCards, NodeRecord, PodKey, PodRecord, PodSpec};
use crate::rules::NodeFacts;
use crate::score::Strategies;
use crate::shapes::{ShapeId, Shapes, Turn};
use crate::world::World;
use divvy_ledger::{
    Bytes, Capacity, CardShares, HoldError, Holding, Ledger, Needs, Node, NodeId, PodId, Portion,
    Position, Request,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Something that happened in the cluster.
#[derive(Clone, Debug)]
pub enum Event {
    /// A node is new or has changed.
    Node(Box<NodeRecord>),
    /// A node is gone; what pods hold there stays theirs until they are gone too.
    NodeGone(String),
    /// A pod is new or has changed.
    Pod(Box<PodRecord>),
    /// A pod is gone, or has ended.
    PodGone(PodKey),
}

/// Something in an event that could not be entered as it was given. The rest of it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A pod is bound to a node that is not known.
    #[error("pod {pod} is bound to node {node}, which is not in the cluster: it holds nothing")]
    UnknownNode {
        /// The pod.
        pod: PodKey,
        /// The node it names.
        node: String,
    },
    /// A bound pod's cards contradict what is known.
    #[error("pod {pod} on {node}: {why}; it is counted without a card")]
    Cards {
        /// The pod.
        pod: PodKey,
        /// Its node.
        node: String,
        /// What is wrong.
        why: HoldError,
    },
    /// A bound pod holds cards, but there is no room for them.
    #[error(
        "pod {pod} on {node} asks {request}, but no such cards are free; it is counted without"
    )]
    NoRoom {
        /// The pod.
        pod: PodKey,
        /// Its node.
        node: String,
        /// What it asks.
        request: Request,
    },
    /// A bound pod's request is wrong.
    #[error("pod {pod} on {node}: {why}")]
    Invalid {
        /// The pod.
        pod: PodKey,
        /// Its node.
        node: String,
        /// What is wrong.
        why: String,
    },
}

/// What one pass decided, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The effects, in the order they were decided.
    pub effects: Vec<PlanEffect>,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanEffect {
    /// Bind a pod. The ledger holds it already.
    Bind {
        /// The pod.
        pod: PodKey,
        /// Where it goes.
        placement: Placement,
    },
    /// Say that a pod waits; [`Scheduler::standing`] says why.
    Report {
        /// The pod.
        pod: PodKey,
    },
}

/// Node and cards of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The node's name.
    pub node: Arc<str>,
    /// The cards; empty for pods without GPUs and on nodes with replicas.
    pub cards: CardShares,
}

/// Fed with events, returns plans. The live scheduler and every rehearsal are this.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    world: World,
    pods: Pods,
    shapes: Shapes,
    /// Shapes with pods to try, by the turn of their first pod.
    ripe: BTreeSet<(Turn, ShapeId)>,
    /// Shapes known to fit nowhere, each with pods that wait.
    parked: BTreeSet<ShapeId>,
    /// Up to where the journal was read for the parked shapes.
    woken: Position,
    /// Pods that joined a parked shape and have not been reported.
    unreported: Vec<PodId>,
}

impl Scheduler {
    /// An empty cluster.
    pub fn new(config: Config) -> Self {
        Self { world: World { config, ..World::default() }, ..Self::default() }
    }

    /// Changes the settings for all decisions to come.
    pub fn configure(&mut self, config: Config) {
        self.world.config = config;
        self.shapes.forget_scores();
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.world.config
    }

    /// Who holds what.
    pub const fn ledger(&self) -> &Ledger {
        &self.world.ledger
    }

    /// The nodes of the cluster by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&Arc<str>, NodeId)> {
        self.world.order.iter()
    }

    /// How many nodes the cluster has.
    pub fn node_count(&self) -> usize {
        self.world.order.len()
    }

    /// Labels, taints and cordon of a node.
    pub fn facts(&self, node: NodeId) -> Option<&NodeFacts> {
        self.world.facts.get(node.index())
    }

    /// The GPU model of a node.
    pub fn model(&self, node: NodeId) -> Option<&Arc<str>> {
        self.world.models.get(node.index())?.as_ref()
    }

    /// The key of a pod that the ledger knows by id.
    pub fn pod_key(&self, id: PodId) -> Option<&PodKey> {
        Some(&self.pods.get(id)?.key)
    }

    /// What a pod holds, if it holds anything.
    pub fn holding(&self, key: &PodKey) -> Option<&Holding> {
        self.world.ledger.holding(self.pods.find(key)?)
    }

    /// What a pod asks of GPUs, as far as it could be read.
    pub fn request(&self, key: &PodKey) -> Option<Request> {
        match &self.pod(key)?.state {
            State::Held => Some(self.holding(key)?.needs.request),
            State::Waiting(shape) => Some(self.shapes.needs(*shape)?.request),
            State::Gated(stuck) => Some(stuck.request),
            State::Invalid(stuck) => Some(stuck.request).filter(|r| *r != Request::None),
            State::Astray => None,
        }
    }

    /// The pods that hold something, by key.
    pub fn holders(&self) -> Vec<(&PodKey, &Holding)> {
        let held =
            self.pods.iter().filter_map(|(id, p)| Some((&p.key, self.ledger().holding(id)?)));
        let mut held: Vec<_> = held.collect();
        held.sort_by_key(|(key, _)| *key);
        held
    }

    pub(crate) fn pod(&self, key: &PodKey) -> Option<&Pod> {
        self.pods.get(self.pods.find(key)?)
    }

    pub(crate) const fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    /// Enters what happened.
    pub fn apply(&mut self, event: Event) -> Result<(), Problem> {
        match event {
            Event::Node(record) => self.set_node(*record),
            Event::NodeGone(name) => self.remove_node(&name),
            Event::Pod(record) => return self.set_pod(*record),
            Event::PodGone(key) => self.remove_pod(&key),
        }
        Ok(())
    }

    fn set_node(&mut self, record: NodeRecord) {
        let extended = record.extended.iter();
        let capacity = Capacity {
            cpu: record.cpu,
            memory: record.memory,
            ephemeral: record.ephemeral,
            pods: record.pods,
            extended: extended.map(|(name, n)| (self.world.ledger.resource(name), *n)).collect(),
            gpus: record.gpus,
        };
        let (id, _) = self.world.ledger.set_node(&record.name, capacity);
        if self.world.facts.len() <= id.index() {
            self.world.facts.resize(id.index() + 1, NodeFacts::default());
            self.world.models.resize(id.index() + 1, None);
        }
        self.world.models[id.index()] = record.model.map(Into::into);
        let Some(node) = self.world.ledger.node(id) else { return };
        let name = node.name().clone();
        let is_new = !self.world.order.contains(&name);
        if is_new {
            self.world.order.insert(&name, id);
        }
        if is_new || self.world.facts[id.index()] != record.facts {
            self.shapes.node_facts_changed(id, &name, &record.facts);
            self.world.facts[id.index()] = record.facts;
            self.world.ledger.touch(id);
        }
    }

    fn remove_node(&mut self, name: &str) {
        if let Some(id) = self.world.ledger.find(name) {
            self.world.order.remove(name);
            self.world.ledger.remove_node(id);
        }
    }

    fn remove_pod(&mut self, key: &PodKey) {
        let Some(id) = self.pods.find(key) else { return };
        self.world.ledger.release(id);
        let Some(pod) = self.pods.remove(id) else { return };
        if let State::Waiting(shape) = pod.state {
            self.leave(shape, &pod, id);
        }
    }

    /// Takes a pod out of its shape's queue.
    fn leave(&mut self, id: ShapeId, pod: &Pod, pod_id: PodId) {
        let Some(shape) = self.shapes.get_mut(id) else { return };
        let was_first = shape.waiting.first().is_some_and(|(_, first)| *first == pod_id);
        shape.waiting.remove(&(pod.turn(), pod_id));
        if shape.parked {
            if shape.waiting.is_empty() {
                shape.parked = false;
                self.parked.remove(&id);
            }
        } else if was_first {
            self.ripe.remove(&(pod.turn(), id));
            if let Some((turn, _)) = shape.waiting.first() {
                self.ripe.insert((turn.clone(), id));
            }
        }
    }

    fn set_pod(&mut self, record: PodRecord) -> Result<(), Problem> {
        if self.is_known(&record) {
            return Ok(());
        }
        self.remove_pod(&record.key);
        let PodRecord { key, priority, created, spec, invalid, bound } = record;
        let enter = |state| Pod { key: key.clone(), priority, created, state, reported: false };
        if let Some(bound) = bound {
            let id = self.pods.insert(enter(State::Astray));
            return self.hold_bound(id, &key, &spec, bound, invalid);
        }
        let stuck = |why: String| Arc::new(Stuck { why: why.into(), request: spec.request });
        let state = if let Some(why) = invalid {
            State::Invalid(stuck(why))
        } else if spec.gates.is_empty() {
            let needs = self.needs(&spec);
            State::Waiting(self.shapes.intern(needs, spec.rules, spec.strategy, &self.world))
        } else {
            State::Gated(stuck(spec.gates.join(", ")))
        };
        let pod = enter(state.clone());
        let turn = pod.turn();
        let id = self.pods.insert(pod);
        match state {
            State::Waiting(shape) => self.join(shape, turn, id),
            _ => self.unreported.push(id),
        }
        Ok(())
    }

    /// Whether a bound pod is already held as its record says: the usual echo of our own binding.
    fn is_known(&mut self, record: &PodRecord) -> bool {
        let Some(bound) = &record.bound else { return false };
        let needs = self.needs(&record.spec);
        let Some(holding) = self.holding(&record.key) else { return false };
        let node = self.world.ledger.node(holding.node);
        node.is_some_and(|n| n.is_alive() && **n.name() == *bound.node)
            && *holding.needs == needs
            && match &bound.cards {
                BoundCards::Recorded(cards) => holding.cards[..] == cards[..],
                BoundCards::Choose => true,
                BoundCards::Nothing => holding.cards.is_empty(),
            }
    }

    /// Puts a pod into its shape's queue.
    fn join(&mut self, id: ShapeId, turn: Turn, pod: PodId) {
        let Some(shape) = self.shapes.get_mut(id) else { return };
        let first = shape.waiting.first().map(|(first, _)| first.clone());
        shape.waiting.insert((turn.clone(), pod));
        if shape.parked {
            self.unreported.push(pod);
        } else if first.as_ref().is_none_or(|first| turn < *first) {
            if let Some(first) = first {
                self.ripe.remove(&(first, id));
            }
            self.ripe.insert((turn, id));
        }
    }

    fn needs(&mut self, spec: &PodSpec) -> Needs {
        for (name, _) in &spec.extended {
            self.world.ledger.resource(name);
        }
        self.known_needs(spec).unwrap_or_default()
    }

    /// What a pod takes, if every resource it names has been heard of.
    pub(crate) fn known_needs(&self, spec: &PodSpec) -> Option<Needs> {
        let asked = spec.extended.iter().filter(|(_, n)| *n > 0);
        let ids = asked.map(|(name, n)| Some((self.ledger().find_resource(name)?, *n)));
        let mut extended = ids.collect::<Option<Vec<_>>>()?;
        extended.sort_unstable();
        Some(Needs {
            cpu: spec.cpu,
            memory: spec.memory,
            ephemeral: spec.ephemeral,
            extended: extended.into(),
            request: spec.request,
        })
    }

    fn hold_bound(
        &mut self,
        id: PodId,
        key: &PodKey,
        spec: &PodSpec,
        bound: Bound,
        invalid: Option<String>,
    ) -> Result<(), Problem> {
        let (pod, node) = (key.clone(), bound.node);
        let Some(target) = self.world.ledger.find(&node) else {
            return Err(Problem::UnknownNode { pod, node });
        };
        let needs = Arc::new(self.needs(spec));
        let mut problem =
            invalid.map(|why| Problem::Invalid { pod: pod.clone(), node: node.clone(), why });
        let cards = match bound.cards {
            BoundCards::Recorded(cards) => cards.into(),
            BoundCards::Nothing => CardShares::new(),
            BoundCards::Choose => {
                self.choose_for_bound(target, spec, &needs).unwrap_or_else(|| {
                    let request = spec.request;
                    problem =
                        Some(Problem::NoRoom { pod: pod.clone(), node: node.clone(), request });
                    CardShares::new()
                })
            }
        };
        if let Err(why) = self.world.ledger.hold(id, target, &needs, &cards) {
            problem = Some(Problem::Cards { pod, node, why });
            let _ = self.world.ledger.hold(id, target, &needs, &[]);
        }
        if let Some(pod) = self.pods.get_mut(id) {
            pod.state = State::Held;
        }
        problem.map_or(Ok(()), Err)
    }

    /// Cards for a pod that is bound already. CPU and the rest are not asked: it runs.
    fn choose_for_bound(&self, node: NodeId, spec: &PodSpec, needs: &Needs) -> Option<CardShares> {
        let node = self.world.ledger.node(node)?;
        if matches!(needs.request, Request::Share { portion: Portion::Memory(_), .. })
            && !node.knows_card_memory()
        {
            return None;
        }
        let by = Strategies::new(&self.world.config, spec.strategy).card;
        let cards = cards::choose(node, needs.request, share_on(node, needs.request), by);
        let wanted = match needs.request {
            Request::None => 0,
            Request::Whole(_) if node.card_count() == 0 => 0,
            Request::Whole(n) => n,
            Request::Share { cards, .. } => cards,
        };
        (cards.len() == wanted as usize).then_some(cards)
    }

    /// Places what fits, at most `limit` decisions, and says which pods wait. An empty plan means
    /// that nothing more can be done until the next event.
    pub fn pass(&mut self, limit: usize) -> Plan {
        self.wake();
        let mut plan = Plan::default();
        while plan.effects.len() < limit {
            let Some((_, id)) = self.ripe.pop_first() else { break };
            self.drain(id, limit, &mut plan);
        }
        for id in std::mem::take(&mut self.unreported) {
            if self.is_stuck(id) {
                self.report(id, &mut plan);
            }
        }
        plan
    }

    /// Whether a pod cannot be placed as things are. The id may meanwhile be another pod's.
    fn is_stuck(&self, id: PodId) -> bool {
        match self.pods.get(id).map(|p| &p.state) {
            Some(State::Waiting(shape)) => self.shapes.get(*shape).is_some_and(|s| s.parked),
            Some(State::Gated(_) | State::Invalid(_)) => true,
            Some(State::Held | State::Astray) | None => false,
        }
    }

    /// Places pods of one shape until one does not fit or a pod of another shape has its turn.
    fn drain(&mut self, id: ShapeId, limit: usize, plan: &mut Plan) {
        loop {
            let Some(shape) = self.shapes.get(id) else { return };
            let Some((turn, pod)) = shape.waiting.first() else { return };
            let others_turn = self.ripe.first().is_some_and(|(first, _)| first < turn);
            if others_turn || plan.effects.len() >= limit {
                self.ripe.insert((turn.clone(), id));
                return;
            }
            let pod = *pod;
            let Some(placement) = self.place(id, pod) else {
                return self.park(id, plan);
            };
            if let Some(shape) = self.shapes.get_mut(id) {
                shape.waiting.pop_first();
            }
            if let Some(pod) = self.pods.get_mut(pod) {
                pod.state = State::Held;
                plan.effects.push(PlanEffect::Bind { pod: pod.key.clone(), placement });
            }
        }
    }

    /// Enters a pod of this shape on its best node.
    fn place(&mut self, id: ShapeId, pod: PodId) -> Option<Placement> {
        let best = self.shapes.best(id, &self.world)?;
        let node = self.world.ledger.node(best)?;
        let needs = self.shapes.needs(id)?.clone();
        let by = self.shapes.strategies(id, &self.world.config).card;
        let cards = cards::choose(node, needs.request, share_on(node, needs.request), by);
        let placement = Placement { node: node.name().clone(), cards };
        self.world.ledger.hold(pod, best, &needs, &placement.cards).ok()?;
        Some(placement)
    }

    fn park(&mut self, id: ShapeId, plan: &mut Plan) {
        let Some(shape) = self.shapes.get_mut(id) else { return };
        shape.parked = true;
        let waiting: Vec<PodId> = shape.waiting.iter().map(|(_, pod)| *pod).collect();
        self.parked.insert(id);
        for pod in waiting {
            self.report(pod, plan);
        }
    }

    fn report(&mut self, id: PodId, plan: &mut Plan) {
        if let Some(pod) = self.pods.get_mut(id).filter(|p| !p.reported) {
            pod.reported = true;
            plan.effects.push(PlanEffect::Report { pod: pod.key.clone() });
        }
    }

    /// Returns parked shapes to the queue if something was freed that they fit on.
    fn wake(&mut self) {
        let journal = self.world.ledger.journal();
        let since = std::mem::replace(&mut self.woken, journal.end());
        if self.parked.is_empty() || since == self.woken {
            return;
        }
        let freed: Option<BTreeSet<NodeId>> = journal
            .since(since)
            .map(|changes| changes.filter(|c| c.freed).map(|c| c.node).collect());
        if freed.as_ref().is_some_and(BTreeSet::is_empty) {
            return;
        }
        for id in std::mem::take(&mut self.parked) {
            let fits = freed
                .as_ref()
                .is_none_or(|nodes| nodes.iter().any(|n| self.shapes.fits_on(id, *n, &self.world)));
            if !fits {
                self.parked.insert(id);
            } else if let Some(shape) = self.shapes.get_mut(id) {
                shape.parked = false;
                if let Some((turn, _)) = shape.waiting.first() {
                    self.ripe.insert((turn.clone(), id));
                }
            }
        }
    }
}

/// The size of a share on this node's cards.
pub(crate) fn share_on(node: &Node, request: Request) -> Bytes {
    match request {
        Request::Share { portion, .. } => portion.of(node.card_size()),
        Request::None | Request::Whole(_) => Bytes(0),
    }
}
