//! Selections: the pods that a selector means, counted by node, and how the two find each other.

use super::index::common_label;
use super::{Census, Counts, LabelSetId, NamespaceId, Sense, add};
use crate::labels::Labels;
use crate::relations::PodSelector;
use divvy_ledger::NodeId;
use foldhash::HashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SelectionId(pub(super) u32);

/// Pods that match all of these selectors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SelectionKey {
    pub(super) all: Box<[PodSelector]>,
    pub(super) sense: Sense,
}

impl SelectionKey {
    fn matches(&self, namespace: &str, known: Option<&Labels>, labels: &Labels) -> bool {
        self.all.iter().all(|pods| pods.matches(namespace, known, labels, self.sense))
    }
}

impl PodSelector {
    /// Whether a pod is meant. A namespace that nobody told of matches no namespace selector of
    /// a pod that asks; for terms of held pods it is one without labels, as in kube-scheduler.
    pub(crate) fn matches(
        &self,
        namespace: &str,
        known: Option<&Labels>,
        labels: &Labels,
        sense: Sense,
    ) -> bool {
        let selector = &self.namespace_selector;
        let named = self.namespaces.binary_search_by(|n| (**n).cmp(namespace)).is_ok();
        let meant = named
            || selector.is_everything()
            || match known {
                Some(of) => selector.matches(of),
                None => sense == Sense::Owned && selector.matches(&Labels::default()),
            };
        meant && self.labels.matches(labels)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(super) key: Arc<SelectionKey>,
    /// Terms that use it.
    pub(super) users: u32,
    pub(super) counts: Counts,
    /// Of [`Sense::Owned`]: the terms with this selector.
    pub(super) owned_terms: Vec<super::OwnedTermId>,
    /// When a pod last came or went.
    pub(super) came: u64,
    pub(super) went: u64,
}

impl Selection {
    pub(super) fn change(&mut self, node: NodeId, n: u32, comes: bool, now: u64) {
        add(&mut self.counts, node, n, comes);
        self.stamp(comes, now);
    }

    pub(super) const fn stamp(&mut self, comes: bool, now: u64) {
        if comes {
            self.came = now;
        } else {
            self.went = now;
        }
    }
}

impl Census {
    /// The selections that pods of this namespace with these labels belong to.
    pub(super) fn selections_of(
        &self,
        namespace: NamespaceId,
        labels: &Labels,
    ) -> Vec<SelectionId> {
        let namespace = &self.namespaces[namespace.0 as usize];
        let is_in = |id: &SelectionId| {
            let selection = self.selections.get(id.0);
            selection
                .is_some_and(|c| c.key.matches(&namespace.name, namespace.labels.as_ref(), labels))
        };
        sorted(self.index.candidates(labels).filter(is_in))
    }

    /// The selection of these selectors, with one more user.
    pub(super) fn selection(&mut self, key: SelectionKey) -> SelectionId {
        if let Some(id) = self.selection_ids.get(&key) {
            if let Some(selection) = self.selections.get_mut(id.0) {
                selection.users += 1;
            }
            return *id;
        }
        let key = Arc::new(key);
        let now = self.clock;
        let mut selection = Selection {
            key: key.clone(),
            users: 1,
            counts: Counts::default(),
            owned_terms: Vec::new(),
            came: now,
            // Nobody has gone yet that had one of these terms.
            went: if key.sense == Sense::Owned { 0 } else { now },
        };
        let members = self.label_sets_in(&key);
        for (_, here) in
            members.iter().filter_map(|id| Some((id, &self.label_sets.get(id.0)?.here)))
        {
            count_label_set(&mut selection, here, true, now);
        }
        let id = SelectionId(self.selections.insert(selection));
        for label_set_id in members {
            let Some(label_set) = self.label_sets.get_mut(label_set_id.0) else { continue };
            label_set.selections.push(id);
            self.namespaces[label_set.namespace.0 as usize].matches += 1;
            if key.sense == Sense::Owned && label_set.waiting > 0 {
                self.found.push(label_set_id);
            }
        }
        self.index.insert(id, &key);
        self.selection_ids.insert(key, id);
        id
    }

    /// One user of a selection less.
    pub(super) fn drop_selection(&mut self, id: SelectionId) {
        let Some(selection) = self.selections.get_mut(id.0) else { return };
        selection.users -= 1;
        if selection.users > 0 {
            return;
        }
        let Some(selection) = self.selections.remove(id.0) else { return };
        let is_owned = selection.key.sense == Sense::Owned;
        for label_set in self.label_sets_in(&selection.key) {
            let Some(label_set) = self.label_sets.get_mut(label_set.0) else { continue };
            label_set.selections.retain(|other| *other != id);
            self.namespaces[label_set.namespace.0 as usize].matches -= 1;
            // Whoever objected is gone, and so is the stamp that says when.
            if is_owned {
                label_set.changed = label_set.changed.max(selection.went);
            }
        }
        self.index.remove(id, &selection.key);
        self.selection_ids.remove(&selection.key);
    }

    /// The label sets that match all selectors of a key.
    fn label_sets_in(&self, key: &SelectionKey) -> Vec<LabelSetId> {
        let is_in = |id: &LabelSetId| {
            self.label_sets.get(id.0).is_some_and(|label_set| {
                let namespace = &self.namespaces[label_set.namespace.0 as usize];
                key.matches(&namespace.name, namespace.labels.as_ref(), &label_set.labels)
            })
        };
        if let Some((label, values)) = common_label(key) {
            let values: BTreeSet<&str> = values.iter().map(|value| &**value).collect();
            let found = values.into_iter().flat_map(|value| self.label_set_index.get(label, value));
            return sorted(found.copied().filter(is_in));
        }
        let only = key.all.iter().find(|pods| pods.namespace_selector.0.is_none());
        let label_sets = |id: NamespaceId| &self.namespaces[id.0 as usize].label_sets;
        match only {
            Some(pods) => {
                let ids = pods.namespaces.iter().filter_map(|n| self.namespace_ids.get(n));
                ids.flat_map(|id| label_sets(*id)).copied().filter(is_in).collect()
            }
            None => {
                let all = (0..self.namespaces.len() as u32).map(NamespaceId);
                all.flat_map(label_sets).copied().filter(is_in).collect()
            }
        }
    }

    /// Finds a label set's selections anew, after its namespace's labels have changed.
    pub(super) fn match_again(&mut self, id: LabelSetId) {
        let Some(label_set) = self.label_sets.get(id.0) else { return };
        let new = self.selections_of(label_set.namespace, &label_set.labels);
        let now = self.clock;
        let Some(label_set) = self.label_sets.get_mut(id.0) else { return };
        let old = std::mem::replace(&mut label_set.selections, new.clone());
        let matches = &mut self.namespaces[label_set.namespace.0 as usize].matches;
        *matches = *matches + new.len() - old.len();
        for (selections, others, comes) in [(&old, &new, false), (&new, &old, true)] {
            for changed in selections.iter().filter(|c| !others.contains(c)) {
                label_set.changed = now;
                let Some(selection) = self.selections.get_mut(changed.0) else { continue };
                count_label_set(selection, &label_set.here, comes, now);
                if comes && selection.key.sense == Sense::Owned && label_set.waiting > 0 {
                    self.found.push(id);
                }
            }
        }
    }
}

/// Each once: what is found by a hash may be found twice.
fn sorted<T: Ord>(found: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = found.collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn count_label_set(
    selection: &mut Selection,
    here: &HashMap<NodeId, [u32; 3]>,
    comes: bool,
    now: u64,
) {
    let column = match selection.key.sense {
        Sense::Meets => 0,
        Sense::Bars => 1,
        Sense::Spreads => 2,
        Sense::Owned => return,
    };
    for (node, counts) in here {
        if counts[column] > 0 {
            selection.change(*node, counts[column], comes, now);
        }
    }
}
