//! What a watch has told, so that a new list shows what is gone.

use foldhash::HashMap;
use std::borrow::Borrow;
use std::hash::Hash;

/// The objects of one kind that are known to exist, each with the list that told it last.
#[derive(Debug)]
pub(super) struct Listing<K> {
    known: HashMap<K, u32>,
    list: u32,
}

impl<K> Default for Listing<K> {
    fn default() -> Self {
        Self { known: HashMap::default(), list: 0 }
    }
}

impl<K: Clone + Eq + Hash> Listing<K> {
    /// All is told anew from here on.
    pub(super) fn begin(&mut self) {
        self.list += 1;
    }

    pub(super) fn see(&mut self, key: K) {
        self.known.insert(key, self.list);
    }

    pub(super) fn forget<Q>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.known.remove(key);
    }

    /// What the list that ends here did not tell.
    pub(super) fn gone(&self) -> Vec<K> {
        let gone = self.known.iter().filter(|(_, list)| **list != self.list);
        gone.map(|(key, _)| key.clone()).collect()
    }
}
