//! Why a node is not for a pod because of other pods, with names.

use super::census::{Census, Counts, RelationSetId};
use super::prepared::{Clash, Prepared};
use super::topology::Topology;
use crate::reason::Reason;
use crate::record::ObjectKey;
use crate::relations::Relations;
use crate::scheduler::Scheduler;
use crate::shapes::ShapeId;
use divvy_ledger::{NodeId, PodId};
use foldhash::HashMap;
use std::sync::Arc;

/// Who keeps pods of a shape off: found once for each term, and not anew for every node.
pub(crate) struct Culprits<'a> {
    scheduler: &'a Scheduler,
    relation_set: Option<RelationSetId>,
    /// By whether the term is theirs, and its number.
    found: HashMap<(bool, usize), ByDomain<'a>>,
}

/// Who a term is about or whose it is, by domain.
struct ByDomain<'a> {
    topology: Arc<Topology>,
    pods: HashMap<usize, &'a ObjectKey>,
}

impl<'a> Culprits<'a> {
    pub(crate) fn new(scheduler: &'a Scheduler, shape: ShapeId) -> Self {
        let relation_set = scheduler.shapes().related(shape).and_then(|who| who.relation_set);
        Self { scheduler, relation_set, found: HashMap::default() }
    }

    /// A clash as a reason.
    pub(crate) fn clash(&mut self, prepared: &Prepared<'_>, node: NodeId, clash: Clash) -> Reason {
        let none = Relations::default();
        let relations = prepared.question.relations.unwrap_or(&none);
        let no_domain = |key: Option<&str>, of| Reason::NoDomain {
            topology: key.unwrap_or_default().into(),
            of,
        };
        match clash {
            Clash::Port(index) => {
                let Some(port) = relations.ports.get(index) else { return Reason::Affinity };
                let taken = prepared.question.ports.get(&node).and_then(|t| t.get(&port.port));
                let taken = taken.into_iter().flatten().filter(|(other, _)| port.clashes(other));
                let by = first_by_name(self.scheduler, taken.map(|(_, pod)| *pod)).cloned();
                let port = format!("{}/{}", port.port, port.protocol.as_str());
                Reason::Port { port: port.into(), by }
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
                let (relation_set, census) = (self.relation_set, self.census());
                let is = |pod| {
                    relation_set
                        .is_some_and(|relation_set| census.is_meant_by(relation_set, index, pod))
                };
                let counts = &prepared.question.anti_affinity[index];
                self.anti_affinity((false, index), node, key, counts, &is)
            }
            Clash::Repelled(index) => {
                let about = &prepared.question.owned_terms[index];
                let census = self.census();
                let is =
                    |pod| about.owned_term.is_some_and(|owned_term| census.owns(pod, owned_term));
                self.anti_affinity((true, index), node, about.topology, &about.owners, &is)
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

    const fn census(&self) -> &'a Census {
        &self.scheduler.world().others.census
    }

    fn anti_affinity(
        &mut self,
        term: (bool, usize),
        node: NodeId,
        key: &str,
        counts: &Counts,
        is: &dyn Fn(PodId) -> bool,
    ) -> Reason {
        let scheduler = self.scheduler;
        let ByDomain { topology, pods } =
            self.found.entry(term).or_insert_with(|| ByDomain::new(scheduler, key, counts, is));
        let pod = pods.get(&topology.domain(node)).map(|pod| (*pod).clone());
        let at = Some((topology.value(node).clone(), pod));
        Reason::PodAntiAffinity { topology: key.into(), theirs: term.0, at }
    }
}

impl<'a> ByDomain<'a> {
    /// Of each domain the first such pod by name on the first node by name that has one.
    fn new(
        scheduler: &'a Scheduler,
        key: &str,
        counts: &Counts,
        is: &dyn Fn(PodId) -> bool,
    ) -> Self {
        let world = scheduler.world();
        let topology = world.others.topology(key, &world.facts);
        let mut first: HashMap<usize, (u64, NodeId)> = HashMap::default();
        for node in counts.keys() {
            let one = (world.order.precedence(*node), *node);
            let first = first.entry(topology.domain(*node)).or_insert(one);
            *first = one.max(*first);
        }
        let census = &world.others.census;
        let pod = |node: NodeId| {
            let pods = census.pods_on(node).iter().copied();
            first_by_name(scheduler, pods.filter(|pod| is(*pod)))
        };
        let pods = first.into_iter().filter_map(|(domain, (_, node))| Some((domain, pod(node)?)));
        Self { pods: pods.collect(), topology }
    }
}

/// The first of these by name, in whatever order they came.
fn first_by_name(scheduler: &Scheduler, pods: impl Iterator<Item = PodId>) -> Option<&ObjectKey> {
    pods.filter_map(|pod| scheduler.pod_key(pod)).min()
}
