//! The pods that the engine knows, by key and by a small id that the ledger uses.

use crate::record::{ObjectKey, PodRecord};
use crate::shapes::ShapeId;
use crate::slab::Slab;
use crate::turn::Turn;
use divvy_ledger::{PodId, Request};
use foldhash::HashMap;
use std::sync::Arc;

/// How a pod stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodState {
    /// It waits for a place.
    Waiting(ShapeId),
    /// It holds a place; the ledger says which.
    Held,
    /// A scheduling gate is closed.
    Gated(Arc<Stuck>),
    /// It can never be placed.
    Invalid(Arc<Stuck>),
    /// Its binding failed, and it is not tried for a while.
    Paused(Arc<Stuck>),
    /// Nothing is given to it for now.
    HeldBack(Arc<Stuck>),
    /// It is bound to a node that is not known: it holds nothing.
    Astray,
}

/// A pod that is not even tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stuck {
    pub(crate) why: Arc<str>,
    pub(crate) request: Request,
}

#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) key: ObjectKey,
    pub(crate) priority: i32,
    pub(crate) created: i64,
    pub(crate) state: PodState,
    /// Whether a plan has said that it waits.
    pub(crate) reported: bool,
    /// Tells a pod from a later one of the same name; empty where nobody knows.
    pub(crate) uid: Box<str>,
    /// Whether it holds cards that nobody named, and may be given others of its node.
    pub(crate) loose: bool,
    /// The node that it goes to if it can.
    pub(crate) nominated: Option<Box<str>>,
}

impl PodState {
    /// The shape of a pod that waits.
    pub(crate) const fn shape(&self) -> Option<ShapeId> {
        match self {
            Self::Waiting(shape) => Some(*shape),
            Self::Held
            | Self::Gated(_)
            | Self::Invalid(_)
            | Self::Paused(_)
            | Self::HeldBack(_)
            | Self::Astray => None,
        }
    }
}

impl Pod {
    pub(crate) fn of(record: &PodRecord, state: PodState) -> Self {
        Self {
            key: record.key.clone(),
            priority: record.priority,
            created: record.created,
            state,
            reported: false,
            uid: record.uid.clone(),
            loose: false,
            nominated: record.nominated.clone(),
        }
    }

    /// Whether a record says nothing new.
    pub(crate) fn is_as(&self, record: &PodRecord, state: &PodState) -> bool {
        self.state == *state
            && (self.priority, self.created, &self.uid)
                == (record.priority, record.created, &record.uid)
    }

    pub(crate) fn turn(&self) -> Turn {
        Turn::new(self.priority, self.created, self.key.clone())
    }
}

/// All pods that the engine knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pods {
    pods: Slab<Pod>,
    ids: HashMap<ObjectKey, PodId>,
}

impl Pods {
    pub(crate) fn find(&self, key: &ObjectKey) -> Option<PodId> {
        self.ids.get(key).copied()
    }

    pub(crate) fn get(&self, id: PodId) -> Option<&Pod> {
        self.pods.get(id.0)
    }

    pub(crate) fn get_mut(&mut self, id: PodId) -> Option<&mut Pod> {
        self.pods.get_mut(id.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PodId, &Pod)> {
        self.pods.iter().map(|(id, pod)| (PodId(id), pod))
    }

    pub(crate) fn insert(&mut self, pod: Pod) -> PodId {
        let key = pod.key.clone();
        let id = PodId(self.pods.insert(pod));
        self.ids.insert(key, id);
        id
    }

    pub(crate) fn remove(&mut self, id: PodId) -> Option<Pod> {
        let pod = self.pods.remove(id.0)?;
        self.ids.remove(&pod.key);
        Some(pod)
    }
}
