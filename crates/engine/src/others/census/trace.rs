//! What a pod's coming or going changes, to be taken back.

use super::crowds::CrowdId;
use super::{Census, TakenPorts};
use divvy_ledger::{NodeId, PodId};

/// All but counts, which come back by themselves, as it was before a pod came to a node or went.
#[derive(Debug)]
pub(crate) struct Trace {
    pod: PodId,
    node: NodeId,
    was_there: bool,
    here: Vec<PodId>,
    ports: Option<TakenPorts>,
    /// When pods last came and went.
    stamps: Vec<(CrowdId, u64, u64)>,
    departed: u64,
}

impl Trace {
    /// Whether the pod was on the node.
    pub(crate) const fn was_there(&self) -> bool {
        self.was_there
    }
}

impl Census {
    /// What there is before a pod comes to a node, or goes.
    pub(crate) fn trace(&self, pod: PodId, node: NodeId) -> Trace {
        let member = self.members.get(pod.index()).and_then(Option::as_ref);
        let kin = member.and_then(|member| self.kins.get(member.who.kin.0));
        let tie = member.and_then(|member| self.ties.get(member.who.tie?.0));
        let bonds = tie.into_iter().flat_map(|tie| &tie.bonds);
        let bonds = bonds.filter_map(|id| Some(self.bonds.get(id.0)?.crowd));
        let crowds = kin.into_iter().flat_map(|kin| &kin.crowds).copied().chain(bonds);
        let stamp = |id: CrowdId| self.crowds.get(id.0).map(|crowd| (id, crowd.came, crowd.went));
        Trace {
            pod,
            node,
            was_there: member.is_some_and(|member| member.node.is_some()),
            here: self.pods_on(node).to_vec(),
            ports: self.ports.get(&node).cloned(),
            stamps: crowds.filter_map(stamp).collect(),
            departed: self.departed,
        }
    }

    /// Takes back what has happened since. The clock goes on: nothing that has been asked meanwhile
    /// is taken for what is so now.
    pub(crate) fn undo(&mut self, trace: Trace) {
        let Trace { pod, node, was_there, here, ports, stamps, departed } = trace;
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
            if let Some(crowd) = self.crowds.get_mut(id.0) {
                (crowd.came, crowd.went) = (came, went);
            }
        }
        self.departed = departed;
    }
}

#[cfg(test)]
impl Census {
    /// All that a trial must leave as it was, in words.
    pub(crate) fn in_words(&self) -> String {
        let crowds: Vec<_> = self
            .crowds
            .iter()
            .map(|(id, c)| (id, sorted(&c.counts), c.users, c.came, c.went))
            .collect();
        let bonds: Vec<_> =
            self.bonds.iter().map(|(id, bond)| (id, sorted(&bond.owners))).collect();
        let kins: Vec<_> = self
            .kins
            .iter()
            .map(|(id, kin)| (id, sorted(&kin.here), kin.users, kin.waiting))
            .collect();
        let ports: Vec<_> =
            sorted(&self.ports).into_iter().map(|(node, taken)| (node, sorted(&taken))).collect();
        format!(
            "{:?}\n{:?}\n{crowds:?}\n{bonds:?}\n{kins:?}\n{ports:?}\n{}",
            self.members, self.here, self.departed
        )
    }
}

#[cfg(test)]
fn sorted<K: Copy + Ord, V: Clone>(map: &foldhash::HashMap<K, V>) -> Vec<(K, V)> {
    let mut all: Vec<_> = map.iter().map(|(key, value)| (*key, value.clone())).collect();
    all.sort_by_key(|(key, _)| *key);
    all
}
