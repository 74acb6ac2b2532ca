//! Pods and nodes as the edges hand them in: parsed, validated, free of Kubernetes types.

use crate::config::Strategy;
use crate::labels::Labels;
use crate::relations::Relations;
use crate::rules::{NodeFacts, Rules};
use divvy_ledger::{Bytes, CardShare, DeviceOn, Gpus, Holder, MilliCpu, Request};
use std::fmt;
use std::sync::Arc;

/// Which pod, or which claim: namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// The key of `namespace/name`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// The part before the slash.
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The part after the slash.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pod as it is known now; sending it again replaces what was known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRecord {
    /// Which pod.
    pub key: ObjectKey,
    /// Tells it from a later pod of the same name; empty where nobody knows.
    pub uid: Box<str>,
    /// Higher goes first.
    pub priority: i32,
    /// Seconds since 1970; earlier goes first among equal priorities.
    pub created: i64,
    /// What it asks.
    pub spec: PodSpec,
    /// What is wrong with its request: such a pod is never placed, and this says why.
    pub invalid: Option<String>,
    /// What it waits for before it is tried again, if its binding failed several times.
    pub paused: Option<Arc<str>>,
    /// Why nothing is given to it for now, whatever is free.
    pub held_back: Option<Arc<str>>,
    /// The node that somebody makes room on for it: it goes there if it can.
    pub nominated: Option<Box<str>>,
    /// Where it is bound, if it is.
    pub bound: Option<Bound>,
}

/// What a pod asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodSpec {
    /// CPU, overhead included.
    pub cpu: MilliCpu,
    /// Memory, overhead included.
    pub memory: Bytes,
    /// Ephemeral storage.
    pub ephemeral: Bytes,
    /// Extended resources by name, without `nvidia.com/gpu`.
    pub extended: Vec<(String, u64)>,
    /// GPUs.
    pub request: Request,
    /// Where it may run; the same for all pods of a controller.
    pub rules: Arc<Rules>,
    /// Its labels, by which relations of other pods find it.
    pub labels: Arc<Labels>,
    /// What it asks of other pods and of what pods share; nothing for most.
    pub relations: Option<Arc<Relations>>,
    /// Placement that it asks for itself, instead of the configured one.
    pub strategy: Option<Strategy>,
    /// Scheduling gates that are still closed.
    pub gates: Vec<String>,
    /// What it is.
    pub holder: Holder,
}

/// Where a pod is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The node.
    pub node: String,
    /// Its cards.
    pub cards: BoundCards,
    /// Whether it is about to go: it holds what it holds, but no longer counts for spread.
    pub terminating: bool,
    /// Whether it only has a nomination, of another scheduler: it counts against other pods, but
    /// nobody's required affinity is met by it.
    pub nominated: bool,
    /// Which cards its devices are on, as far as somebody tells.
    pub devices: Vec<DeviceOn>,
}

impl Bound {
    /// A pod that runs.
    pub fn new(node: impl Into<String>, cards: BoundCards) -> Self {
        Self { node: node.into(), cards, terminating: false, nominated: false, devices: Vec::new() }
    }
}

/// What is known of the cards of a bound pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundCards {
    /// The pod's own record names them by index. One that its node does not have may be any card of
    /// it: no GPU is given beside the pod until the node has it.
    Recorded(Vec<CardShare>),
    /// They are told apart by what they are, and the index is the edge's: one that the node does not
    /// have is a card that it does not show, and none of the others.
    Named(Vec<CardShare>),
    /// It keeps this one for shares, and has nothing of it.
    Kept(u32),
    /// It holds cards that nobody named: give it some by the same rules as a new pod.
    Choose,
    /// It holds some, and nobody can say which: no GPU is given beside it.
    Unknown,
    /// It holds none.
    Nothing,
}

impl BoundCards {
    /// The shares that somebody has said.
    pub fn shares(&self) -> &[CardShare] {
        match self {
            Self::Recorded(cards) | Self::Named(cards) => cards,
            Self::Kept(_) | Self::Choose | Self::Unknown | Self::Nothing => &[],
        }
    }

    /// The cards that somebody has said, by index.
    pub fn indexes(&self) -> impl Iterator<Item = u32> {
        let kept = if let Self::Kept(card) = self { Some(*card) } else { None };
        self.shares().iter().map(|share| share.index).chain(kept)
    }
}

/// A node as it is known now; sending it again replaces what was known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its name.
    pub name: String,
    /// Labels, taints, whether it is cordoned.
    pub facts: NodeFacts,
    /// CPU for pods.
    pub cpu: MilliCpu,
    /// Memory for pods.
    pub memory: Bytes,
    /// Ephemeral storage for pods.
    pub ephemeral: Bytes,
    /// Pod slots.
    pub pods: u32,
    /// Extended resources by name, without `nvidia.com/gpu`.
    pub extended: Vec<(String, u64)>,
    /// GPUs.
    pub gpus: Gpus,
    /// GPU model as the node names it.
    pub model: Option<String>,
}
