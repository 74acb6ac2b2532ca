//! A pod's relations against the cluster as it is: tables by domain, made once for one pod, then
//! asked for each node in a few array reads.

mod forbidden;
mod question;
mod soft;
mod spread;

pub(crate) use question::{About, Question};

use crate::others::census::{Counts, TakenPorts};
use crate::others::topology::Topology;
use crate::others::volumes::{Refusal, Wants};
use crate::relations::{HostPort, Relations};
use crate::world::World;
use divvy_ledger::NodeId;
use forbidden::Forbidden;
use soft::Soft;
use spread::Evenness;
use std::sync::Arc;

/// Why a node is not for a pod, because of other pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clash {
    /// A port is taken: which of the pod's.
    Port(usize),
    /// The node lacks the label of this affinity term.
    AffinityLabel(usize),
    /// No pod that meets the required affinity is near.
    Affinity,
    /// A pod that this anti-affinity term means is near.
    AntiAffinity(usize),
    /// A pod near has an anti-affinity term that means this one; which of the question's owned terms.
    Repelled(usize),
    /// The node lacks the label of this spread constraint.
    SpreadLabel(usize),
    /// This spread constraint would be broken: by which skew.
    Spread(usize, u32),
    /// The pod's volumes; [`Prepared::volume_refusal`] says why.
    Volumes,
}

/// The tables of one pod.
pub(crate) struct Prepared<'a> {
    pub(crate) question: Question<'a>,
    affinity: Vec<(Arc<Topology>, Vec<bool>)>,
    /// Whether the pod may be the first of those that want to be near each other.
    may_be_first: bool,
    anti_affinity: Forbidden,
    repelled: Forbidden,
    spread: Vec<Evenness>,
    soft: Soft,
    /// What its volumes ask, or why no node will do; `None` without volumes.
    volumes: Option<Result<Wants<'a>, Refusal<'a>>>,
    world: &'a World,
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(question: Question<'a>, world: &'a World) -> Self {
        let topology = |key: &str| world.others.topology(key, &world.facts);
        let mut anti_affinity = Forbidden::default();
        let mut repelled = Forbidden::default();
        let mut affinity = Vec::new();
        let mut may_be_first = question.meets_own_affinity;
        if let Some(relations) = question.relations {
            for (term, counts) in relations.affinity.iter().map(|t| (t, &question.affinity)) {
                let near = Near::new(topology(&term.topology), counts);
                may_be_first &= near.is_empty();
                affinity.push((near.topology, near.domains));
            }
            let anti = relations.anti_affinity.iter().zip(&question.anti_affinity);
            for (index, (term, counts)) in anti.enumerate() {
                anti_affinity.add(topology(&term.topology), counts, index);
            }
        }
        for (index, owned_term) in question.owned_terms.iter().enumerate() {
            if owned_term.weight.is_none() {
                repelled.add(topology(owned_term.topology), &owned_term.owners, index);
            }
        }
        let spread = Evenness::all(&question, world);
        let soft = Soft::new(&question, world);
        let uses = question.relations.map_or(&[][..], |relations| &relations.volumes);
        let volumes = (!uses.is_empty()).then(|| world.others.volumes.prepare(uses));
        Self {
            volumes,
            world,
            affinity,
            may_be_first,
            anti_affinity,
            repelled,
            spread,
            soft,
            question,
        }
    }

    /// Whether a node is for the pod, as far as other pods are concerned.
    pub(crate) fn check(&self, node: NodeId) -> Result<(), Clash> {
        self.check_node(node)?;
        self.check_domains(node)?;
        self.volume_refusal(node).map_or(Ok(()), |_| Err(Clash::Volumes))
    }

    /// How many tables there are to make and to look at.
    pub(crate) fn cost(&self) -> usize {
        let relations = self.question.relations;
        let is_spread = relations.is_some_and(|relations| !relations.spread.is_empty());
        let rules = if is_spread { self.question.rules.cost() } else { 0 };
        relations.map_or(0, Relations::cost) + self.question.owned_terms.len() + rules
    }

    /// Why no node at all is for the pod, because of its volumes.
    pub(crate) fn nowhere(&self) -> Option<Refusal<'a>> {
        self.volumes.as_ref()?.as_ref().err().copied()
    }

    /// Why a node is not for the pod, because of its volumes.
    pub(crate) fn volume_refusal(&self, node: NodeId) -> Option<Refusal<'a>> {
        match self.volumes.as_ref()? {
            Ok(wants) => wants.pick(node, self.world).err(),
            Err(refusal) => Some(*refusal),
        }
    }

    /// What depends on the pods of this node alone.
    fn check_node(&self, node: NodeId) -> Result<(), Clash> {
        let Some(relations) = self.question.relations else { return Ok(()) };
        if relations.ports.is_empty() {
            return Ok(());
        }
        let taken = self.question.ports.get(&node);
        let clash = taken.and_then(|taken| port_clash(&relations.ports, taken));
        clash.map_or(Ok(()), |port| Err(Clash::Port(port)))
    }

    /// What depends on the domains that a node is in.
    pub(crate) fn check_domains(&self, node: NodeId) -> Result<(), Clash> {
        let mut met = true;
        for (index, (topology, near)) in self.affinity.iter().enumerate() {
            let domain = topology.domain(node);
            if domain == 0 {
                return Err(Clash::AffinityLabel(index));
            }
            met &= near[domain];
        }
        if !met && !self.may_be_first {
            return Err(Clash::Affinity);
        }
        if let Some(term) = self.anti_affinity.by(node) {
            return Err(Clash::AntiAffinity(term));
        }
        if let Some(owned_term) = self.repelled.by(node) {
            return Err(Clash::Repelled(owned_term));
        }
        self.spread.iter().try_for_each(|constraint| constraint.check(node))
    }

    /// Whether some pod somewhere meets the required affinity.
    pub(crate) fn affinity_is_met_somewhere(&self) -> bool {
        self.affinity.iter().any(|(_, near)| near.contains(&true))
    }

    /// What the pod wishes of nodes that are for it.
    pub(crate) const fn wishes(&self) -> &Soft {
        &self.soft
    }
}

/// The first port of a pod that somebody has already.
pub(crate) fn port_clash(wanted: &[HostPort], taken: &TakenPorts) -> Option<usize> {
    let holders = |port: &HostPort| taken.get(&port.port).into_iter().flatten();
    wanted.iter().position(|port| holders(port).any(|(other, _)| port.clashes(other)))
}

/// Domains that have pods of a selection.
struct Near {
    topology: Arc<Topology>,
    domains: Vec<bool>,
}

impl Near {
    fn new(topology: Arc<Topology>, counts: &Counts) -> Self {
        let mut domains = vec![false; topology.len()];
        for node in counts.keys() {
            domains[topology.domain(*node)] = true;
        }
        domains[0] = false;
        Self { topology, domains }
    }

    fn is_empty(&self) -> bool {
        !self.domains.contains(&true)
    }
}
