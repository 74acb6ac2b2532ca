//! What a pod asks of other pods and of things that pods share: host ports, inter-pod affinity,
//! topology spread, volumes. Parsed once at the edge, with defaults filled in.

use crate::labels::Selector;
use crate::others::VolumeUse;

/// Relations of a pod to others. Most pods have none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Relations {
    /// Ports of the node that it takes.
    pub ports: Vec<HostPort>,
    /// Required affinity: some pod that matches all terms must be in the domain of each.
    pub affinity: Vec<PodTerm>,
    /// Required anti-affinity: no pod that matches a term may be in its domain.
    pub anti_affinity: Vec<PodTerm>,
    /// Preferred affinity with weights of 1 to 100; negative for anti-affinity.
    pub preferred: Vec<(i32, PodTerm)>,
    /// Topology spread constraints, the pod's `matchLabelKeys` already part of the selectors.
    pub spread: Vec<Spread>,
    /// The volumes that decide where it can run.
    pub volumes: Vec<VolumeUse>,
}

impl Relations {
    /// How many things there are to look at for each node. What becomes of a volume is more to find out.
    pub(crate) fn cost(&self) -> usize {
        let Self { ports, affinity, anti_affinity, preferred, spread, volumes } = self;
        let terms = affinity.len() + anti_affinity.len() + preferred.len() + spread.len();
        ports.len() + terms + 4 * volumes.len()
    }

    /// The node labels that name domains.
    pub(crate) fn topologies(&self) -> impl Iterator<Item = &Box<str>> {
        let terms = self.affinity.iter().chain(&self.anti_affinity);
        let terms = terms.chain(self.preferred.iter().map(|(_, term)| term));
        terms.map(|t| &t.topology).chain(self.spread.iter().map(|s| &s.topology))
    }
}

/// Transport protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// As Kubernetes writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

/// A port of the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// The port.
    pub port: u16,
    /// The protocol.
    pub protocol: Protocol,
    /// The address of the node, or every address.
    pub ip: Option<Box<str>>,
}

impl HostPort {
    /// Whether two pods of one node cannot both have their port.
    pub fn clashes(&self, other: &Self) -> bool {
        (self.port, self.protocol) == (other.port, other.protocol)
            && (self.ip.is_none() || other.ip.is_none() || self.ip == other.ip)
    }
}

/// Pods by namespace and labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodSelector {
    /// In one of these namespaces, sorted; for a term that says nothing, the pod's own.
    pub(crate) namespaces: Box<[Box<str>]>,
    /// Or in a namespace with such labels.
    pub(crate) namespace_selector: Selector,
    /// With such labels.
    pub(crate) labels: Selector,
}

impl PodSelector {
    /// Pods with such labels in these namespaces, or in namespaces with such labels.
    pub fn new(
        namespaces: impl IntoIterator<Item = impl Into<Box<str>>>,
        namespace_selector: Selector,
        labels: Selector,
    ) -> Self {
        let mut namespaces: Vec<Box<str>> = namespaces.into_iter().map(Into::into).collect();
        namespaces.sort();
        namespaces.dedup();
        Self { namespaces: namespaces.into(), namespace_selector, labels }
    }
}

/// An affinity term: pods in the same domain of a topology.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// The pods.
    pub pods: PodSelector,
    /// The node label whose value names the domain.
    pub topology: Box<str>,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    /// The node label whose value names the domain.
    pub topology: Box<str>,
    /// By how many pods a domain may exceed the least.
    pub max_skew: u32,
    /// `DoNotSchedule`; else it is a wish.
    pub required: bool,
    /// The pods of the own namespace that are counted.
    pub selector: Selector,
    /// With fewer domains than this the least counts as 0.
    pub min_domains: u32,
    /// Whether only nodes count that node selector and affinity admit.
    pub honor_affinity: bool,
    /// Whether only nodes count whose taints are tolerated.
    pub honor_taints: bool,
}
