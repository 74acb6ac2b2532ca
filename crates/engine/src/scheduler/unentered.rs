//! Bound pods that could not be entered as their records say, and why.

use crate::event::Problem;
use crate::record::{ObjectKey, PodRecord};
use std::collections::{BTreeMap, BTreeSet};

/// Their records, found by the pod or by the node it is bound to: whoever writes pods can make many,
/// and what happens on one node is nothing to those of others.
#[derive(Clone, Debug, Default)]
pub(super) struct Unentered {
    records: BTreeMap<ObjectKey, (PodRecord, Problem)>,
    on: BTreeMap<Box<str>, BTreeSet<ObjectKey>>,
}

impl Unentered {
    pub(super) fn insert(&mut self, record: PodRecord, problem: Problem) {
        let key = record.key.clone();
        self.remove(&key);
        if let Some(bound) = &record.bound {
            self.on.entry(bound.node.as_str().into()).or_default().insert(key.clone());
        }
        self.records.insert(key, (record, problem));
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<PodRecord> {
        let (record, _) = self.records.remove(key)?;
        if let Some(bound) = &record.bound
            && let Some(here) = self.on.get_mut(&*bound.node)
        {
            here.remove(key);
            if here.is_empty() {
                self.on.remove(&*bound.node);
            }
        }
        Some(record)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&PodRecord> {
        Some(&self.records.get(key)?.0)
    }

    pub(super) fn problem(&self, key: &ObjectKey) -> Option<&Problem> {
        Some(&self.records.get(key)?.1)
    }

    /// Those that are bound to this node, by name.
    pub(super) fn on(&self, node: &str) -> impl Iterator<Item = &PodRecord> {
        let here = self.on.get(node).into_iter().flatten();
        here.filter_map(|key| self.get(key))
    }
}
