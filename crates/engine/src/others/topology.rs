//! Which nodes are near each other: those with the same value of a label.

use crate::rules::NodeFacts;
use divvy_ledger::NodeId;
use foldhash::HashMap;
use std::sync::Arc;

/// The domain of each node by one label, as small numbers; 0 where the label is missing.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    key: Box<str>,
    domains: Vec<u32>,
    values: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, u32>,
}

impl Topology {
    pub(crate) fn new(key: &str, facts: &[NodeFacts]) -> Self {
        let mut topology = Self {
            key: key.into(),
            domains: vec![0; facts.len()],
            values: vec![Arc::from("")],
            ids: HashMap::default(),
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
pub(crate) struct Topologies {
    kept: HashMap<Box<str>, Arc<Topology>>,
    /// How many nodes have each label. Pods can ask about any: those that no node has cost nothing.
    labels: HashMap<Box<str>, u32>,
}

impl Topologies {
    /// Pods choose the keys, so that what is kept must have an end.
    const MAX: usize = 64;

    /// Keeps a topology for the tries to come.
    pub(crate) fn keep(&mut self, key: &str, facts: &[NodeFacts]) {
        if self.kept.contains_key(key) || !self.labels.contains_key(key) {
            return;
        }
        if self.kept.len() >= Self::MAX {
            self.kept.clear();
        }
        self.kept.insert(key.into(), Arc::new(Topology::new(key, facts)));
    }

    /// The kept topology, or one made for this question.
    pub(crate) fn get(&self, key: &str, facts: &[NodeFacts]) -> Arc<Topology> {
        let facts = if self.labels.contains_key(key) { facts } else { &[] };
        let kept = self.kept.get(key).cloned();
        kept.unwrap_or_else(|| Arc::new(Topology::new(key, facts)))
    }

    /// Follows a node whose labels are new.
    pub(crate) fn node_changed(&mut self, node: NodeId, before: &NodeFacts, facts: &[NodeFacts]) {
        let Some(now) = facts.get(node.index()) else { return };
        for (key, _) in &now.labels {
            *self.labels.entry(key.clone()).or_default() += 1;
        }
        for (key, _) in &before.labels {
            if let Some(nodes) = self.labels.get_mut(key) {
                *nodes -= 1;
                if *nodes == 0 {
                    self.labels.remove(key);
                    self.kept.remove(key);
                }
            }
        }
        for topology in self.kept.values_mut() {
            // Values of nodes that are gone are dropped now and then.
            if topology.values.len() > 2 * facts.len() + 64 {
                *topology = Arc::new(Topology::new(&topology.key, facts));
            } else {
                Arc::make_mut(topology).set(node, now);
            }
        }
    }
}
