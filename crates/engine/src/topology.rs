//! Which nodes are near each other: those with the same value of a label.

use crate::rules::NodeFacts;
use divvy_ledger::NodeId;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The domain of each node by one label, as small numbers; 0 where the label is missing.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    key: Box<str>,
    domains: Vec<u32>,
    values: Vec<Arc<str>>,
    ids: FxHashMap<Arc<str>, u32>,
}

impl Topology {
    pub(crate) fn new(key: &str, facts: &[NodeFacts]) -> Self {
        let mut topology = Self {
            key: key.into(),
            domains: vec![0; facts.len()],
            values: vec![Arc::from("")],
            ids: FxHashMap::default(),
        };
        for (index, facts) in facts.iter().enumerate() {
            topology.set(NodeId(index as u32), facts);
        }
        topology
    }

    fn set(&mut self, node: NodeId, facts: &NodeFacts) {
        let domain = facts.label(&self.key).map_or(0, |value| match self.ids.get(value) {
            Some(id) => *id,
            None => {
                let (id, value) = (self.values.len() as u32, Arc::<str>::from(value));
                self.values.push(value.clone());
                self.ids.insert(value, id);
                id
            }
        });
        if self.domains.len() <= node.index() {
            self.domains.resize(node.index() + 1, 0);
        }
        self.domains[node.index()] = domain;
    }

    /// The label.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The domain of a node; 0 is none.
    pub(crate) fn domain(&self, node: NodeId) -> usize {
        self.domains.get(node.index()).copied().unwrap_or(0) as usize
    }

    /// One more than the largest domain.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// The label's value on a node.
    pub(crate) fn value(&self, node: NodeId) -> &Arc<str> {
        &self.values[self.domain(node)]
    }
}

/// The topologies that pods ask about, followed as nodes change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topologies(FxHashMap<Box<str>, Arc<Topology>>);

impl Topologies {
    /// Pods choose the keys, so that what is kept must have an end.
    const MAX: usize = 64;

    /// Keeps a topology for the tries to come.
    pub(crate) fn keep(&mut self, key: &str, facts: &[NodeFacts]) {
        if self.0.contains_key(key) {
            return;
        }
        if self.0.len() >= Self::MAX {
            self.0.clear();
        }
        self.0.insert(key.into(), Arc::new(Topology::new(key, facts)));
    }

    /// The kept topology, or one made for this question.
    pub(crate) fn get(&self, key: &str, facts: &[NodeFacts]) -> Arc<Topology> {
        let kept = self.0.get(key).cloned();
        kept.unwrap_or_else(|| Arc::new(Topology::new(key, facts)))
    }

    /// Follows a node whose labels are new.
    pub(crate) fn node_changed(&mut self, node: NodeId, facts: &[NodeFacts]) {
        let Some(now) = facts.get(node.index()) else { return };
        for topology in self.0.values_mut() {
            // Values of nodes that are gone are dropped now and then.
            if topology.values.len() > 2 * facts.len() + 64 {
                *topology = Arc::new(Topology::new(&topology.key, facts));
            } else {
                Arc::make_mut(topology).set(node, now);
            }
        }
    }
}
