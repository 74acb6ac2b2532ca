//! Crowds: the pods that a selector means, counted by node, and how the two find each other.

use super::index::common_label;
use super::{Census, Counts, KinId, NamespaceId, Sense, add};
use crate::labels::Labels;
use crate::relations::PodSelector;
use divvy_ledger::NodeId;
use foldhash::HashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CrowdId(pub(super) u32);

/// Pods that match all of these selectors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CrowdKey {
    pub(super) all: Box<[PodSelector]>,
    pub(super) sense: Sense,
}

impl CrowdKey {
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
pub(crate) struct Crowd {
    pub(super) key: Arc<CrowdKey>,
    /// Terms that use it.
    pub(super) users: u32,
    pub(super) counts: Counts,
    /// Of [`Sense::Owned`]: the terms with this selector.
    pub(super) bonds: Vec<super::BondId>,
    /// When a pod last came or went.
    pub(super) came: u64,
    pub(super) went: u64,
}

impl Crowd {
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
    /// The crowds that pods of this namespace with these labels belong to.
    pub(super) fn crowds_of(&self, namespace: NamespaceId, labels: &Labels) -> Vec<CrowdId> {
        let namespace = &self.namespaces[namespace.0 as usize];
        let is_in = |id: &CrowdId| {
            let crowd = self.crowds.get(id.0);
            crowd.is_some_and(|c| c.key.matches(&namespace.name, namespace.labels.as_ref(), labels))
        };
        sorted(self.index.candidates(labels).filter(is_in))
    }

    /// The crowd of these selectors, with one more user.
    pub(super) fn crowd(&mut self, key: CrowdKey) -> CrowdId {
        if let Some(id) = self.crowd_ids.get(&key) {
            if let Some(crowd) = self.crowds.get_mut(id.0) {
                crowd.users += 1;
            }
            return *id;
        }
        let key = Arc::new(key);
        let now = self.clock;
        let mut crowd = Crowd {
            key: key.clone(),
            users: 1,
            counts: Counts::default(),
            bonds: Vec::new(),
            came: now,
            went: now,
        };
        let members = self.kins_in(&key);
        for (_, here) in members.iter().filter_map(|id| Some((id, &self.kins.get(id.0)?.here))) {
            count_kin(&mut crowd, here, true, now);
        }
        let id = CrowdId(self.crowds.insert(crowd));
        for kin_id in members {
            let Some(kin) = self.kins.get_mut(kin_id.0) else { continue };
            kin.crowds.push(id);
            self.namespaces[kin.namespace.0 as usize].matches += 1;
            if key.sense == Sense::Owned && kin.waiting > 0 {
                self.found.push(kin_id);
            }
        }
        self.index.insert(id, &key);
        self.crowd_ids.insert(key, id);
        id
    }

    /// One user of a crowd less.
    pub(super) fn drop_crowd(&mut self, id: CrowdId) {
        let Some(crowd) = self.crowds.get_mut(id.0) else { return };
        crowd.users -= 1;
        if crowd.users > 0 {
            return;
        }
        let Some(crowd) = self.crowds.remove(id.0) else { return };
        let is_owned = crowd.key.sense == Sense::Owned;
        for kin in self.kins_in(&crowd.key) {
            let Some(kin) = self.kins.get_mut(kin.0) else { continue };
            kin.crowds.retain(|other| *other != id);
            self.namespaces[kin.namespace.0 as usize].matches -= 1;
            // Whoever objected is gone, and so is the stamp that would have said so.
            if is_owned {
                kin.changed = self.clock;
            }
        }
        self.index.remove(id, &crowd.key);
        self.crowd_ids.remove(&crowd.key);
    }

    /// The kins that match all selectors of a key.
    fn kins_in(&self, key: &CrowdKey) -> Vec<KinId> {
        let is_in = |id: &KinId| {
            self.kins.get(id.0).is_some_and(|kin| {
                let namespace = &self.namespaces[kin.namespace.0 as usize];
                key.matches(&namespace.name, namespace.labels.as_ref(), &kin.labels)
            })
        };
        if let Some((label, values)) = common_label(key) {
            let values: BTreeSet<&str> = values.iter().map(|value| &**value).collect();
            let found = values.into_iter().flat_map(|value| self.kin_index.get(label, value));
            return sorted(found.copied().filter(is_in));
        }
        let only = key.all.iter().find(|pods| pods.namespace_selector.0.is_none());
        let kins = |id: NamespaceId| &self.namespaces[id.0 as usize].kins;
        match only {
            Some(pods) => {
                let ids = pods.namespaces.iter().filter_map(|n| self.namespace_ids.get(n));
                ids.flat_map(|id| kins(*id)).copied().filter(is_in).collect()
            }
            None => {
                let all = (0..self.namespaces.len() as u32).map(NamespaceId);
                all.flat_map(kins).copied().filter(is_in).collect()
            }
        }
    }

    /// Finds a kin's crowds anew, after its namespace's labels have changed.
    pub(super) fn match_again(&mut self, id: KinId) {
        let Some(kin) = self.kins.get(id.0) else { return };
        let new = self.crowds_of(kin.namespace, &kin.labels);
        let now = self.clock;
        let Some(kin) = self.kins.get_mut(id.0) else { return };
        let old = std::mem::replace(&mut kin.crowds, new.clone());
        let matches = &mut self.namespaces[kin.namespace.0 as usize].matches;
        *matches = *matches + new.len() - old.len();
        for (crowds, others, comes) in [(&old, &new, false), (&new, &old, true)] {
            for changed in crowds.iter().filter(|c| !others.contains(c)) {
                kin.changed = now;
                let Some(crowd) = self.crowds.get_mut(changed.0) else { continue };
                count_kin(crowd, &kin.here, comes, now);
                if comes && crowd.key.sense == Sense::Owned && kin.waiting > 0 {
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

fn count_kin(crowd: &mut Crowd, here: &HashMap<NodeId, [u32; 3]>, comes: bool, now: u64) {
    let column = match crowd.key.sense {
        Sense::Meets => 0,
        Sense::Bars => 1,
        Sense::Spreads => 2,
        Sense::Owned => return,
    };
    for (node, counts) in here {
        if counts[column] > 0 {
            crowd.change(*node, counts[column], comes, now);
        }
    }
}
