//! The pods that the engine knows, by key and by a small id that the ledger uses.

use crate::record::PodKey;
use crate::shapes::{ShapeId, Turn};
use divvy_ledger::{PodId, Request};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::sync::Arc;

/// How a pod stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for a place.
    Waiting(ShapeId),
    /// It holds a place; the ledger says which.
    Held,
    /// A scheduling gate is closed.
    Gated(Arc<Stuck>),
    /// It can never be placed.
    Invalid(Arc<Stuck>),
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
    pub(crate) key: PodKey,
    pub(crate) priority: i32,
    pub(crate) created: i64,
    pub(crate) state: State,
    /// Whether a plan has said that it waits.
    pub(crate) reported: bool,
}

impl Pod {
    pub(crate) fn turn(&self) -> Turn {
        Turn { priority: Reverse(self.priority), created: self.created, key: self.key.clone() }
    }
}

/// A slab of pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pods {
    slots: Vec<Option<Pod>>,
    vacant: Vec<PodId>,
    ids: FxHashMap<PodKey, PodId>,
}

impl Pods {
    pub(crate) fn find(&self, key: &PodKey) -> Option<PodId> {
        self.ids.get(key).copied()
    }

    pub(crate) fn get(&self, id: PodId) -> Option<&Pod> {
        self.slots.get(id.index())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: PodId) -> Option<&mut Pod> {
        self.slots.get_mut(id.index())?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PodId, &Pod)> {
        let pods = self.slots.iter().enumerate();
        pods.filter_map(|(i, p)| Some((PodId(i as u32), p.as_ref()?)))
    }

    pub(crate) fn insert(&mut self, pod: Pod) -> PodId {
        let key = pod.key.clone();
        let id = match self.vacant.pop() {
            Some(id) => {
                self.slots[id.index()] = Some(pod);
                id
            }
            None => {
                self.slots.push(Some(pod));
                PodId(self.slots.len() as u32 - 1)
            }
        };
        self.ids.insert(key, id);
        id
    }

    pub(crate) fn remove(&mut self, id: PodId) -> Option<Pod> {
        let pod = self.slots.get_mut(id.index())?.take()?;
        self.ids.remove(&pod.key);
        self.vacant.push(id);
        Some(pod)
    }
}
