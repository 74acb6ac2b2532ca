//! The objects that a watch has told of: a new list shows which of them are gone.

use divvy_api::watch::Change;
use foldhash::HashMap;
use std::hash::Hash;

/// Objects that are told apart by a key.
pub(crate) trait Keyed {
    type Key: Eq + Hash + Ord;

    fn key(&self) -> Self::Key;
}

/// What has become of an object.
#[derive(Debug)]
pub(crate) enum News<T: Keyed> {
    /// It is new or has changed.
    Seen(T),
    /// It is gone; as it was at last, if the watch saw it go.
    Gone(T::Key, Option<T>),
}

/// The objects of one watch that are known to exist, each with the list that told it last.
#[derive(Debug)]
pub(crate) struct Listing<T: Keyed> {
    known: HashMap<T::Key, u32>,
    list: u32,
}

impl<T: Keyed> Default for Listing<T> {
    fn default() -> Self {
        Self { known: HashMap::default(), list: 0 }
    }
}

impl<T: Keyed> Listing<T> {
    /// Says what a change means for each object that it is about, and gives whether all has been told
    /// by it.
    pub(crate) fn enter(&mut self, change: Change<T>, mut tell: impl FnMut(News<T>)) -> bool {
        match change {
            Change::Relisting => self.list += 1,
            Change::Seen(object) => {
                self.known.insert(object.key(), self.list);
                tell(News::Seen(object));
            }
            Change::Gone(object) => {
                let key = object.key();
                self.known.remove(&key);
                tell(News::Gone(key, Some(object)));
            }
            Change::Listed => {
                let list = self.list;
                let gone = self.known.extract_if(|_, told| *told != list);
                // In the same order in every process: what one leaves may be where another was.
                let mut gone: Vec<T::Key> = gone.map(|(key, _)| key).collect();
                gone.sort_unstable();
                gone.into_iter().for_each(|key| tell(News::Gone(key, None)));
                return true;
            }
        }
        false
    }
}
