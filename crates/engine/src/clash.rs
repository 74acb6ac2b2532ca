//! Why a node is not for a pod because of other pods, with names.

use crate::prepared::{Clash, Prepared};
use crate::reason::Reason;
use crate::record::PodKey;
use crate::relations::Relations;
use crate::scheduler::Scheduler;
use crate::topology::Topology;
use divvy_ledger::{NodeId, PodId};
use std::sync::Arc;

impl Scheduler {
    /// A clash as a reason.
    pub(crate) fn clash(&self, prepared: &Prepared<'_>, node: NodeId, clash: Clash) -> Reason {
        let none = Relations::default();
        let relations = prepared.question.relations.unwrap_or(&none);
        let no_domain = |key: Option<&str>, of| Reason::NoDomain {
            topology: key.unwrap_or_default().into(),
            of,
        };
        match clash {
            Clash::Port(index, by) => {
                let port = relations.ports.get(index);
                let port = port.map(|p| format!("{}/{}", p.port, p.protocol.as_str()));
                let by = self.pod_key(by).cloned();
                Reason::Port { port: port.unwrap_or_default().into(), by }
            }
            Clash::AffinityLabel(index) => {
                let term = relations.affinity.get(index);
                no_domain(term.map(|t| &*t.topology), "pod affinity")
            }
            Clash::Affinity => {
                Reason::PodAffinity { elsewhere: prepared.affinity_is_met_somewhere() }
            }
            Clash::AntiAffinity(index) => {
                let key = relations.anti_affinity.get(index).map_or("", |t| &*t.topology);
                let counts = &prepared.question.anti_affinity[index];
                let has = |node: NodeId| counts.contains_key(&node);
                let is = |pod: PodId| prepared.is_meant(index, pod, self.census());
                self.anti_affinity(node, key, false, &has, &is)
            }
            Clash::Repelled(index) => {
                let bond = &prepared.question.bonds[index];
                let has = |node: NodeId| bond.owners.contains_key(&node);
                let is = |pod: PodId| prepared.is_owner(index, pod, self.census());
                self.anti_affinity(node, bond.topology, true, &has, &is)
            }
            Clash::SpreadLabel(index) => {
                let spread = relations.spread.get(index);
                no_domain(spread.map(|s| &*s.topology), "topology spread")
            }
            Clash::Volumes => match prepared.volume_refusal(node) {
                Some(refusal) => Reason::Volume(refusal.told()),
                None => Reason::Affinity,
            },
            Clash::Spread(index, skew) => {
                let spread = relations.spread.get(index);
                Reason::Spread {
                    topology: spread.map_or_else(Arc::default, |s| (*s.topology).into()),
                    skew,
                    max: spread.map_or(0, |s| s.max_skew),
                }
            }
        }
    }

    fn anti_affinity(
        &self,
        node: NodeId,
        key: &str,
        theirs: bool,
        has: &dyn Fn(NodeId) -> bool,
        is: &dyn Fn(PodId) -> bool,
    ) -> Reason {
        let topology: Arc<Topology> = self.world().topologies.get(key, &self.world().facts);
        let near = |other: NodeId| topology.domain(other) == topology.domain(node) && has(other);
        let pods = self.nodes().map(|(_, id)| id).filter(|id| near(*id));
        let mut pods = pods.flat_map(|id| self.census().pods_on(id)).copied();
        let pod: Option<PodKey> = pods.find(|pod| is(*pod)).and_then(|p| self.pod_key(p)).cloned();
        let at = Some((topology.value(node).clone(), pod));
        Reason::PodAntiAffinity { topology: key.into(), theirs, at }
    }
}
