//! The one scheduler: events change what it knows, a pass decides what fits.

mod bound;
mod fill;
mod queue;
mod relate;
mod storage;
mod trial;
mod unentered;

pub use fill::Fill;
pub(crate) use trial::Trial;

use crate::config::Config;
use crate::event::{ClassName, Event, Problem};
use crate::others::Identity;
use crate::pods::{Pod, PodState, Pods, Stuck};
use crate::record::{BoundCards, NodeRecord, ObjectKey, PodRecord, PodSpec};
use crate::rules::NodeFacts;
use crate::shapes::{ShapeId, Shapes};
use crate::tape::Tape;
use crate::turn::Turn;
use crate::world::World;
use divvy_ledger::{
    Bytes, Capacity, Class, Holding, Ledger, Needs, Node, NodeId, PodId, Position, Request,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use unentered::Unentered;

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
    /// Up to where the journal was looked at for the parked shapes.
    woken: Position,
    waking: queue::Waking,
    /// Whether the last slice left something to try.
    is_behind: bool,
    /// The namespace whose turn was last, when all take turns.
    served: Box<str>,
    /// Pods that joined a parked shape and have not been reported.
    unreported: Vec<PodId>,
    unentered: Unentered,
    /// What the classes of shares are called, by number.
    classes: Arc<[ClassName]>,
    /// With so many names of extended resources it is time to look which are in use.
    forget_resources_at: usize,
    tape: Option<Tape>,
}

/// So many names of extended resources are kept without a look.
const FEW_RESOURCES: usize = 256;

impl Scheduler {
    /// An empty cluster.
    pub fn new(config: Config) -> Self {
        let mut scheduler = Self::default();
        scheduler.configure(config);
        scheduler
    }

    /// An empty cluster that keeps all that comes in and goes out: it grows without end.
    pub fn taped(config: Config) -> Self {
        let mut scheduler = Self { tape: Some(Tape::default()), ..Self::default() };
        // Nothing is wrong with settings.
        drop(scheduler.apply(Event::Settings(config)));
        scheduler
    }

    /// What came in and went out, if that is kept.
    pub const fn tape(&self) -> Option<&Tape> {
        self.tape.as_ref()
    }

    fn configure(&mut self, config: Config) {
        self.world.config = config;
        self.world.ledger.set_opening(config.hand_off);
        self.shapes.forget_scores();
    }

    /// Bound pods whose record names a card that could not be entered for them, and how much of it.
    pub fn contenders(&self, node: &str, index: u32) -> impl Iterator<Item = (&ObjectKey, Bytes)> {
        let id = self.world.ledger.find(node);
        let claimed = move |record: &PodRecord| {
            let cards = record.bound.as_ref()?.cards.shares();
            // Where the node is not known, they are claimed as the record says.
            let sized = id.map(|id| self.as_recorded(id, &record.spec.request, cards));
            let sized = sized.as_deref().unwrap_or(cards);
            sized.iter().find(|card| card.index == index).map(|card| card.bytes)
        };
        let claims = self.unentered.on(node);
        claims.filter_map(move |record| Some((&record.key, claimed(record)?)))
    }

    /// The record of a bound pod that could not be entered as it says.
    pub fn unentered(&self, key: &ObjectKey) -> Option<&PodRecord> {
        self.unentered.get(key)
    }

    /// What a class of shares is called; `None` if nobody tells classes apart.
    pub fn class_name(&self, class: Class) -> Option<&ClassName> {
        self.classes.get(usize::from(class.0))
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
    pub fn pod_key(&self, id: PodId) -> Option<&ObjectKey> {
        Some(&self.pods.get(id)?.key)
    }

    /// What tells a pod from others of the same name, if it is known.
    pub fn uid(&self, key: &ObjectKey) -> Option<&str> {
        Some(&*self.pod(key)?.uid).filter(|uid| !uid.is_empty())
    }

    /// What a pod holds, if it holds anything.
    pub fn holding(&self, key: &ObjectKey) -> Option<&Holding> {
        self.world.ledger.holding(self.pods.find(key)?)
    }

    /// What a pod asks of GPUs, as far as it could be read.
    pub fn request(&self, key: &ObjectKey) -> Option<&Request> {
        match &self.pod(key)?.state {
            PodState::Held => Some(&self.holding(key)?.needs.request),
            PodState::Waiting(shape) => Some(&self.shapes.needs(*shape)?.request),
            PodState::Gated(stuck) | PodState::Paused(stuck) | PodState::HeldBack(stuck) => {
                Some(&stuck.request)
            }
            PodState::Invalid(stuck) => Some(&stuck.request).filter(|request| !request.is_none()),
            PodState::Astray => None,
        }
    }

    /// The pods that hold something, by key.
    pub fn holders(&self) -> Vec<(&ObjectKey, &Holding)> {
        let held =
            self.pods.iter().filter_map(|(id, p)| Some((&p.key, self.ledger().holding(id)?)));
        let mut held: Vec<_> = held.collect();
        held.sort_by_key(|(key, _)| *key);
        held
    }

    /// Who holds something on a node, and what.
    pub(crate) fn held_on(&self, node: NodeId) -> impl Iterator<Item = (PodId, &Holding)> {
        let held = self.pods.iter().filter_map(|(id, _)| Some((id, self.ledger().holding(id)?)));
        held.filter(move |(_, holding)| holding.node == node)
    }

    /// How often label sets of a namespace's pods and terms about them have found each other: each
    /// takes some bytes, and is looked at whenever such a pod comes or goes. And how many different
    /// label sets there are.
    pub fn matches_in(&self, namespace: &str) -> (usize, usize) {
        self.world.others.matches_in(namespace)
    }

    /// How often nodes were searched for a pod: grows with each try, whatever comes of it.
    pub const fn searches(&self) -> u64 {
        self.shapes.searches()
    }

    pub(crate) const fn pods(&self) -> &Pods {
        &self.pods
    }

    pub(crate) fn pod(&self, key: &ObjectKey) -> Option<&Pod> {
        self.pods.get(self.pods.find(key)?)
    }

    #[cfg(test)]
    pub(crate) fn id(&self, key: &ObjectKey) -> Option<PodId> {
        self.pods.find(key)
    }

    pub(crate) const fn world(&self) -> &World {
        &self.world
    }

    /// Whether a pod of this shape fits on this node now.
    pub(crate) fn fits_on(&mut self, shape: ShapeId, node: NodeId) -> bool {
        self.keep_topologies(shape);
        self.shapes.fits_on(shape, node, &self.world)
    }

    /// Keeps the topologies that pods of this shape ask about, for the tries to come.
    fn keep_topologies(&mut self, shape: ShapeId) {
        if let Some(who) = self.shapes.related(shape) {
            self.world.others.keep_topologies(who, &self.world.facts);
        }
    }

    pub(crate) const fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    /// Enters what happened.
    pub fn apply(&mut self, event: Event) -> Result<(), Problem> {
        if let Some(tape) = &mut self.tape {
            tape.event(event.clone());
        }
        match event {
            Event::Settings(config) => self.configure(config),
            Event::Classes(names) => self.classes = names,
            Event::Node(record) => self.set_node(*record),
            Event::NodeGone(name) => self.remove_node(&name),
            Event::Cards { node, unsettled, cards } => {
                if let Some(id) = self.world.ledger.find(&node) {
                    self.world.ledger.set_known(id, unsettled, &cards);
                }
            }
            Event::Divided(node) => {
                if let Some(id) = self.world.ledger.find(&node) {
                    self.world.ledger.divide(id);
                }
            }
            Event::OneEach(node, one_each) => {
                if let Some(id) = self.world.ledger.find(&node) {
                    self.world.ledger.give_one_each(id, one_each);
                }
            }
            Event::Pod(record) => return self.set_pod(*record),
            Event::PodGone(key) => self.remove_pod(&key),
            Event::Namespace { name, labels } => self.set_namespace(&name, Some(labels)),
            Event::NamespaceGone(name) => self.set_namespace(&name, None),
            Event::Storage(event) => self.set_storage(event),
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
        let (id, changed) = self.world.ledger.set_node(&record.name, capacity);
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
            self.world.set_facts(id, record.facts);
            if !changed {
                self.world.ledger.touch(id);
            }
        }
        if changed {
            self.enter_again(id);
        }
    }

    fn remove_node(&mut self, name: &str) {
        if let Some(id) = self.world.ledger.find(name) {
            self.world.order.remove(name);
            self.world.ledger.remove_node(id);
            // Without labels it is in no domain, and the pods that are left there near nobody.
            self.world.set_facts(id, NodeFacts::default());
        }
    }

    fn remove_pod(&mut self, key: &ObjectKey) {
        let Some(id) = self.pods.find(key) else { return };
        let held = self.world.release(id);
        self.world.others.expel(id);
        let was_unentered = self.unentered.remove(key).is_some();
        let Some(pod) = self.pods.remove(id) else { return };
        if let PodState::Waiting(shape) = pod.state {
            self.leave(shape, &pod, id);
        }
        let Some(Holding { node, cards, keeps, replicas, .. }) = held else { return };
        let gives_cards = !cards.is_empty() || keeps.is_some() || replicas > 0;
        if gives_cards && (was_unentered || !self.unentered.is_empty()) {
            self.enter_again(node);
        } else if was_unentered {
            // What it claimed is open again, also if nobody else claims anything.
            self.dispute_again(node);
        }
    }

    fn set_pod(&mut self, record: PodRecord) -> Result<(), Problem> {
        let is_held = self.is_held_as(&record);
        let who = self.world.others.identify(&record);
        self.reshape_found();
        let known = self.pods.find(&record.key);
        if let (true, Some(id)) = (is_held, known) {
            self.world.others.rename(id, who, &record);
            if let Some(bound) = &record.bound {
                self.world.ledger.set_devices(id, &bound.devices);
            }
            if let Some(pod) = self.pods.get_mut(id).filter(|pod| pod.uid != record.uid) {
                pod.uid = record.uid;
            }
            return Ok(());
        }
        if record.bound.is_some() {
            self.remove_pod(&record.key);
            let id = self.pods.insert(Pod::of(&record, PodState::Astray));
            self.world.others.enroll(id, who, &record);
            return self.hold_bound(id, record);
        }
        let state = self.state_of(&record, who);
        if let Some(id) = known
            && let Some(pod) = self.pods.get_mut(id)
            && pod.is_as(&record, &state)
        {
            pod.nominated.clone_from(&record.nominated);
            self.world.others.rename(id, who, &record);
            return Ok(());
        }
        let state = match known {
            Some(_) => {
                // Its shape may go with it, and come anew.
                self.remove_pod(&record.key);
                self.state_of(&record, who)
            }
            None => state,
        };
        let pod = Pod::of(&record, state);
        let (turn, waits) = (pod.turn(), pod.state.shape());
        let id = self.pods.insert(pod);
        self.world.others.enroll(id, who, &record);
        match waits {
            Some(shape) => self.join(shape, turn, id),
            None => self.unreported.push(id),
        }
        Ok(())
    }

    /// How a pod that is not bound stands before it is tried.
    fn state_of(&mut self, record: &PodRecord, who: Identity) -> PodState {
        let spec = &record.spec;
        let stuck = |why: &str| Arc::new(Stuck { why: why.into(), request: spec.request.clone() });
        if let Some(why) = &record.invalid {
            PodState::Invalid(stuck(why))
        } else if let Some(why) = &record.held_back {
            PodState::HeldBack(stuck(why))
        } else if let Some(why) = &record.paused {
            PodState::Paused(stuck(why))
        } else if spec.gates.is_empty() {
            let needs = self.needs(spec);
            let related = self.world.others.is_related(who).then_some(who);
            PodState::Waiting(self.shape(needs, &spec.rules, spec.strategy, related))
        } else {
            PodState::Gated(stuck(&spec.gates.join(", ")))
        }
    }

    /// Whether a pod holds already what its record says: the echo of our own binding, or news of
    /// a pod that we have placed and whose binding is still on its way.
    fn is_held_as(&mut self, record: &PodRecord) -> bool {
        if let Some(known) = self.unentered.get(&record.key) {
            return known == record;
        }
        if self.holding(&record.key).is_none() {
            return false;
        }
        let needs = self.needs(&record.spec);
        let (Some(pod), Some(holding)) = (self.pod(&record.key), self.holding(&record.key)) else {
            return false;
        };
        let Some(bound) = &record.bound else { return pod.uid == record.uid };
        let node = self.world.ledger.node(holding.node);
        let indexes = holding.cards.iter().map(|c| c.index);
        node.is_some_and(|n| n.is_alive() && **n.name() == *bound.node)
            && *holding.needs == needs
            && match &bound.cards {
                BoundCards::Recorded(_) | BoundCards::Named(_) => indexes.eq(bound.cards.indexes()),
                BoundCards::Kept(card) => holding.keeps == Some(*card),
                BoundCards::Choose => true,
                BoundCards::Unknown => holding.unknown,
                BoundCards::Nothing => holding.cards.is_empty() && holding.keeps.is_none(),
            }
    }

    fn needs(&mut self, spec: &PodSpec) -> Needs {
        if self.world.ledger.resource_count() >= self.forget_resources_at {
            self.world.ledger.forget_resources(self.shapes.all_needs());
            self.forget_resources_at = 2 * self.world.ledger.resource_count() + FEW_RESOURCES;
        }
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
            request: spec.request.clone(),
            holder: spec.holder,
        })
    }
}

/// The size of a share on this node's cards.
pub(crate) fn share_on(node: &Node, request: &Request) -> Bytes {
    match request.portion() {
        Some(portion) => portion.of(node.card_size()),
        None => Bytes(0),
    }
}
