//! What a pod's coming or going changes, to be taken back.

use super::selections::SelectionId;
use super::{Census, TakenPorts};
use divvy_ledger::{NodeId, PodId};

/// All but counts, which come back by themselves, as it was before a pod came to a node or went.
#[derive(Debug)]
pub(crate) struct CensusTrace {
    pod: PodId,
    node: NodeId,
    was_there: bool,
    here: Vec<PodId>,
    ports: Option<TakenPorts>,
    /// When pods last came and went.
    stamps: Vec<(SelectionId, u64, u64)>,
    departed: u64,
}

impl CensusTrace {
    /// Whether the pod was on the node.
    pub(crate) const fn was_there(&self) -> bool {
        self.was_there
    }
}

impl Census {
    /// What there is before a pod comes to a node, or goes.
    pub(crate) fn trace(&self, pod: PodId, node: NodeId) -> CensusTrace {
        let member = self.members.get(pod.index()).and_then(Option::as_ref);
        let label_set = member.and_then(|member| self.label_sets.get(member.who.label_set.0));
        let relation_set =
            member.and_then(|member| self.relation_sets.get(member.who.relation_set?.0));
        let owned_terms =
            relation_set.into_iter().flat_map(|relation_set| &relation_set.owned_terms);
        let owned_terms = owned_terms.filter_map(|id| Some(self.owned_terms.get(id.0)?.selection));
        let selections = label_set
            .into_iter()
            .flat_map(|label_set| &label_set.selections)
            .copied()
            .chain(owned_terms);
        let stamp = |id: SelectionId| {
            self.selections.get(id.0).map(|selection| (id, selection.came, selection.went))
        };
        CensusTrace {
            pod,
            node,
            was_there: member.is_some_and(|member| member.node.is_some()),
            here: self.pods_on(node).to_vec(),
            ports: self.ports.get(&node).cloned(),
            stamps: selections.filter_map(stamp).collect(),
            departed: self.departed,
        }
    }

    /// Takes back what has happened since. The clock goes on: nothing that has been asked meanwhile
    /// is taken for what is so now.
    pub(crate) fn undo(&mut self, trace: CensusTrace) {
        let CensusTrace { pod, node, was_there, here, ports, stamps, departed } = trace;
        match was_there {
            true => self.enter(pod, node),
            false => self.leave(pod),
        }
        if let Some(now) = self.here.get_mut(node.index()) {
            *now = here;
        }
        match ports {
            Some(ports) => drop(self.ports.insert(node, ports)),
            None => drop(self.ports.remove(&node)),
        }
        for (id, came, went) in stamps {
            if let Some(selection) = self.selections.get_mut(id.0) {
                (selection.came, selection.went) = (came, went);
            }
        }
        self.departed = departed;
    }
}

#[cfg(test)]
impl Census {
    /// All that a trial must leave as it was, in words.
    pub(crate) fn in_words(&self) -> String {
        let selections: Vec<_> = self
            .selections
            .iter()
            .map(|(id, c)| (id, sorted(&c.counts), c.users, c.came, c.went))
            .collect();
        let owned_terms: Vec<_> = self
            .owned_terms
            .iter()
            .map(|(id, owned_term)| (id, sorted(&owned_term.owners)))
            .collect();
        let label_sets: Vec<_> = self
            .label_sets
            .iter()
            .map(|(id, label_set)| {
                (id, sorted(&label_set.here), label_set.users, label_set.waiting)
            })
            .collect();
        let ports: Vec<_> =
            sorted(&self.ports).into_iter().map(|(node, taken)| (node, sorted(&taken))).collect();
        let members = self.members.iter().enumerate().filter(|(_, member)| member.is_some());
        let here = self.here.iter().enumerate().filter(|(_, pods)| !pods.is_empty());
        format!(
            "{:?}\n{:?}\n{selections:?}\n{owned_terms:?}\n{label_sets:?}\n{ports:?}\n{}",
            members.collect::<Vec<_>>(),
            here.collect::<Vec<_>>(),
            self.departed
        )
    }
}

#[cfg(test)]
fn sorted<K: Copy + Ord, V: Clone>(map: &foldhash::HashMap<K, V>) -> Vec<(K, V)> {
    let mut all: Vec<_> = map.iter().map(|(key, value)| (*key, value.clone())).collect();
    all.sort_by_key(|(key, _)| *key);
    all
}
