//! What goes into the scheduler and what comes out of it.

use crate::config::Config;
use crate::labels::Labels;
use crate::others::{StorageEvent, VolumeStep};
use crate::record::{NodeRecord, ObjectKey, PodRecord};
use divvy_ledger::{CardShares, HoldError, Known, Request};
use smallvec::SmallVec;
use std::sync::Arc;

/// What a class of shares is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassName {
    /// As people read it.
    pub name: Arc<str>,
    /// What a node must have for it.
    pub provider: Option<Arc<str>>,
}

/// Something that happened in the cluster.
#[derive(Clone, Debug)]
pub enum Event {
    /// The settings for all decisions to come.
    Settings(Config),
    /// What the classes of shares are called, by number; none if nobody tells them apart.
    Classes(Arc<[ClassName]>),
    /// A node is new or has changed.
    Node(Box<NodeRecord>),
    /// A node is gone; what pods hold there stays theirs until they are gone too.
    NodeGone(String),
    /// What is known of a node's cards besides who holds them.
    Cards {
        /// The node.
        node: Box<str>,
        /// Whether it is not certain who has which card: then no GPU is given there.
        unsettled: bool,
        /// By index. The others take whoever comes, and nobody says which they are.
        cards: Vec<(u32, Known)>,
    },
    /// The device plugin of this node hands out slices as whole GPUs, which its labels do not say.
    Divided(Box<str>),
    /// Whether the device plugin of this node refuses a container more than one replica of a kind: as
    /// it has done, or as its config says.
    OneEach(Box<str>, bool),
    /// A pod is new or has changed.
    Pod(Box<PodRecord>),
    /// A pod is gone, or has ended.
    PodGone(ObjectKey),
    /// A namespace is new or its labels have changed.
    Namespace {
        /// Its name.
        name: Box<str>,
        /// Its labels.
        labels: Labels,
    },
    /// A storage object is new, has changed or is gone.
    Storage(StorageEvent),
    /// A namespace is gone.
    NamespaceGone(Box<str>),
}

/// Something in an event that could not be entered as it was given. The rest of it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A pod is bound to a node that is not known.
    #[error("pod {pod} is bound to node {node}, which is not in the cluster: it holds nothing")]
    UnknownNode {
        /// The pod.
        pod: ObjectKey,
        /// The node it names.
        node: String,
    },
    /// A bound pod's cards contradict what is known.
    #[error("pod {pod} on {node}: {why}; it is counted without a card")]
    Cards {
        /// The pod.
        pod: ObjectKey,
        /// Its node.
        node: String,
        /// What is wrong.
        why: HoldError,
    },
    /// A bound pod's record names a card that its node does not have: it may have any other.
    #[error(
        "pod {pod} on {node} is recorded on card {card}, which {node} does not have: until it has, or the pod is \
         gone, no GPU is given there"
    )]
    Elsewhere {
        /// The pod.
        pod: ObjectKey,
        /// Its node.
        node: String,
        /// The card, by index.
        card: u32,
    },
    /// A bound pod holds cards, but there is no room for them.
    #[error(
        "pod {pod} on {node} asks {request}, but so much is not free; it is counted with what is"
    )]
    NoRoom {
        /// The pod.
        pod: ObjectKey,
        /// Its node.
        node: String,
        /// What it asks.
        request: Box<Request>,
    },
    /// A bound pod's request is wrong.
    #[error("pod {pod} on {node}: {why}")]
    Invalid {
        /// The pod.
        pod: ObjectKey,
        /// Its node.
        node: String,
        /// What is wrong.
        why: String,
    },
}

/// What one pass decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The units, in the order they were decided.
    pub units: Vec<Unit>,
}

impl Plan {
    /// All effects, in the order they were decided.
    pub fn effects(&self) -> impl Iterator<Item = &PlanEffect> {
        self.units.iter().flat_map(|unit| &unit.effects)
    }

    /// The same, to be done.
    pub fn into_effects(self) -> impl Iterator<Item = PlanEffect> {
        self.units.into_iter().flat_map(|unit| unit.effects)
    }
}

/// What was decided at once: its effects belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The effects, in the order in which they are to be done. Most have one.
    pub effects: SmallVec<[PlanEffect; 1]>,
}

/// One thing to do. The ledger has it already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanEffect {
    /// A card was free and is shared from now on. Where cards are handed to containers, a
    /// reservation is to keep it; the ledger has left room for that. It is for who reads plans: the
    /// live edge asks for reservations with the bindings, and views show cards, not their opening.
    Open {
        /// The card's node.
        node: Arc<str>,
        /// The card, by index.
        card: u32,
    },
    /// Bind a pod.
    Bind {
        /// The pod.
        pod: ObjectKey,
        /// Where it goes.
        placement: Placement,
        /// What to write for its claims, and then to await by [`Scheduler::claims_bound`], before
        /// it is bound. Empty for most pods.
        volumes: Vec<VolumeStep>,
    },
    /// Say that a pod waits; [`Scheduler::standing`] says why.
    Report {
        /// The pod.
        pod: ObjectKey,
    },
}

/// Node and cards of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The node's name.
    pub node: Arc<str>,
    /// The cards; empty for pods without GPUs and on nodes with replicas.
    pub cards: CardShares,
}
