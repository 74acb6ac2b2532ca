//! Selectors and label sets find each other by one label that both must have.

use super::crowds::{CrowdId, CrowdKey};
use crate::labels::Labels;
use crate::rules::Test;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Things by label and value.
#[derive(Clone, Debug)]
pub(super) struct ByLabel<T>(FxHashMap<Box<str>, FxHashMap<Box<str>, BTreeSet<T>>>);

impl<T> Default for ByLabel<T> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<T: Ord + Copy> ByLabel<T> {
    pub(super) fn insert(&mut self, label: &str, value: &str, id: T) {
        if !self.0.contains_key(label) {
            self.0.insert(label.into(), FxHashMap::default());
        }
        let Some(by_value) = self.0.get_mut(label) else { return };
        match by_value.get_mut(value) {
            Some(ids) => {
                ids.insert(id);
            }
            None => {
                by_value.insert(value.into(), BTreeSet::from([id]));
            }
        }
    }

    pub(super) fn remove(&mut self, label: &str, value: &str, id: T) {
        let Some(by_value) = self.0.get_mut(label) else { return };
        if let Some(ids) = by_value.get_mut(value) {
            ids.remove(&id);
            if ids.is_empty() {
                by_value.remove(value);
            }
        }
        if by_value.is_empty() {
            self.0.remove(label);
        }
    }

    pub(super) fn get(&self, label: &str, value: &str) -> Option<&BTreeSet<T>> {
        self.0.get(label)?.get(value)
    }
}

/// The label that all pods of a crowd have, and its values, if there is one.
pub(super) fn common_label(key: &CrowdKey) -> Option<(&str, &[Box<str>])> {
    let requirements = key.all.iter().filter_map(|pods| pods.labels.0.as_deref()).flatten();
    let equalities = requirements.filter_map(|r| match &r.test {
        Test::In(values) => Some((&*r.key, values.as_slice())),
        _ => None,
    });
    equalities.min_by_key(|(_, values)| values.len())
}

/// Crowds by one label that all their pods have, so that a new kin is compared with few.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    by_label: ByLabel<CrowdId>,
    rest: BTreeSet<CrowdId>,
}

impl Index {
    pub(super) fn insert(&mut self, id: CrowdId, key: &CrowdKey) {
        let Some((label, values)) = common_label(key) else {
            self.rest.insert(id);
            return;
        };
        for value in values {
            self.by_label.insert(label, value, id);
        }
    }

    pub(super) fn remove(&mut self, id: CrowdId, key: &CrowdKey) {
        self.rest.remove(&id);
        let Some((label, values)) = common_label(key) else { return };
        for value in values {
            self.by_label.remove(label, value, id);
        }
    }

    /// Crowds that pods with these labels may belong to.
    pub(super) fn candidates(&self, labels: &Labels) -> impl Iterator<Item = CrowdId> {
        let found = labels.iter().filter_map(|(key, value)| self.by_label.get(key, value));
        found.chain([&self.rest]).flatten().copied()
    }
}
