//! Selectors and label sets find each other by one label that both must have.

use super::selections::{SelectionId, SelectionKey};
use crate::labels::Labels;
use crate::rules::Test;
use foldhash::HashMap;
use foldhash::fast::RandomState;
use std::collections::BTreeSet;
use std::hash::BuildHasher;

/// Things by label and value. Only a hash of both is kept: pods may have thousands of labels that
/// nobody asks about, and whoever finds something here looks at it in any case.
#[derive(Clone, Debug)]
pub(super) struct ByLabel<T> {
    ids: HashMap<u64, Vec<T>>,
    seed: RandomState,
}

impl<T> Default for ByLabel<T> {
    fn default() -> Self {
        Self { ids: HashMap::default(), seed: RandomState::default() }
    }
}

impl<T: Ord + Copy> ByLabel<T> {
    pub(super) fn insert(&mut self, label: &str, value: &str, id: T) {
        let ids = self.ids.entry(self.seed.hash_one((label, value))).or_default();
        if let Err(at) = ids.binary_search(&id) {
            ids.insert(at, id);
        }
    }

    pub(super) fn remove(&mut self, label: &str, value: &str, id: T) {
        let hash = self.seed.hash_one((label, value));
        let Some(ids) = self.ids.get_mut(&hash) else { return };
        if let Ok(at) = ids.binary_search(&id) {
            ids.remove(at);
        }
        if ids.is_empty() {
            self.ids.remove(&hash);
        }
    }

    /// Those that have the label with this value, and perhaps others.
    pub(super) fn get(&self, label: &str, value: &str) -> &[T] {
        self.ids.get(&self.seed.hash_one((label, value))).map_or(&[], Vec::as_slice)
    }
}

/// The label that all pods of a selection have, and its values, if there is one.
pub(super) fn common_label(key: &SelectionKey) -> Option<(&str, &[Box<str>])> {
    let requirements = key.all.iter().filter_map(|pods| pods.labels.0.as_deref()).flatten();
    let equalities = requirements.filter_map(|r| match &r.test {
        Test::In(values) => Some((&*r.key, &**values)),
        _ => None,
    });
    equalities.min_by_key(|(_, values)| values.len())
}

/// Selections by one label that all their pods have, so that a new label set is compared with few.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    by_label: ByLabel<SelectionId>,
    rest: BTreeSet<SelectionId>,
}

impl Index {
    pub(super) fn insert(&mut self, id: SelectionId, key: &SelectionKey) {
        let Some((label, values)) = common_label(key) else {
            self.rest.insert(id);
            return;
        };
        for value in values {
            self.by_label.insert(label, value, id);
        }
    }

    pub(super) fn remove(&mut self, id: SelectionId, key: &SelectionKey) {
        self.rest.remove(&id);
        let Some((label, values)) = common_label(key) else { return };
        for value in values {
            self.by_label.remove(label, value, id);
        }
    }

    /// Selections that pods with these labels may belong to.
    pub(super) fn candidates(&self, labels: &Labels) -> impl Iterator<Item = SelectionId> {
        let found = labels.iter().flat_map(|(key, value)| self.by_label.get(key, value));
        found.chain(&self.rest).copied()
    }
}
