//! The reservation pods that there are, also by node.

use divvy_engine::ObjectKey;
use divvy_ledger::Opening;
use foldhash::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// A reservation pod that exists, or is about to.
#[derive(Clone, Debug)]
pub(super) struct Reservation {
    pub(super) node: Arc<str>,
    pub(super) index: u32,
    /// Empty until it has been seen.
    pub(super) uid: Box<str>,
    /// Why it does not run yet, as far as it says.
    pub(super) why: Arc<str>,
    /// Since when it is waited for.
    pub(super) since: Instant,
    /// What it asks besides its card.
    pub(super) asks: Opening,
    /// Since when we know it, if it was KAI's.
    pub(super) adopted: Option<Instant>,
}

/// All reservation pods, also by node.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    all: HashMap<ObjectKey, Reservation>,
    nodes: HashMap<Arc<str>, Vec<ObjectKey>>,
}

impl Reservations {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Reservation> {
        self.all.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut Reservation> {
        self.all.get_mut(key)
    }

    pub(super) fn contains_key(&self, key: &ObjectKey) -> bool {
        self.all.contains_key(key)
    }

    /// Whether it is to be there, and nobody has seen it.
    pub(super) fn is_unseen(&self, key: &ObjectKey) -> bool {
        self.get(key).is_some_and(|made| made.uid.is_empty())
    }

    /// Whether one is there for a slot.
    pub(super) fn is_for(&self, node: &str, index: u32) -> bool {
        let mut here = self.of(node);
        here.any(|(_, made)| made.index == index && !made.uid.is_empty())
    }

    /// The one for a slot.
    pub(super) fn at(&self, node: &str, index: u32) -> Option<(&ObjectKey, &Reservation)> {
        self.of(node).find(|(_, made)| made.index == index)
    }

    /// Those of a node.
    pub(super) fn of(&self, node: &str) -> impl Iterator<Item = (&ObjectKey, &Reservation)> {
        let keys = self.nodes.get(node).map_or(&[][..], Vec::as_slice);
        keys.iter().filter_map(|key| Some((key, self.all.get(key)?)))
    }

    pub(super) fn insert(&mut self, key: ObjectKey, made: Reservation) {
        self.remove(&key);
        self.nodes.entry(made.node.clone()).or_default().push(key.clone());
        self.all.insert(key, made);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Reservation> {
        let made = self.all.remove(key)?;
        if let Some(keys) = self.nodes.get_mut(&made.node) {
            keys.retain(|other| other != key);
            if keys.is_empty() {
                self.nodes.remove(&made.node);
            }
        }
        Some(made)
    }
}
