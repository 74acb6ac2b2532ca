//! Event sets: whoever waits on one hears of each card that is lost or fails, once.

use crate::inventory::Inventory;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The cards of a set, by index, and whether their fate was told.
type Set = BTreeMap<usize, bool>;

static SETS: Mutex<BTreeMap<usize, Set>> = Mutex::new(BTreeMap::new());

fn sets() -> MutexGuard<'static, BTreeMap<usize, Set>> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new set's number, which is never 0: it is handed out as a pointer.
pub fn create() -> usize {
    let mut sets = sets();
    let number = sets.last_key_value().map_or(1, |(last, _)| last + 1);
    sets.insert(number, Set::new());
    number
}

/// Whether there was such a set.
pub fn free(set: usize) -> bool {
    sets().remove(&set).is_some()
}

/// Whether there is such a set.
pub fn register(set: usize, card: usize) -> bool {
    sets().get_mut(&set).map(|cards| cards.insert(card, false)).is_some()
}

/// A registered card that is lost or has failed and was not told yet; a card that came back may be
/// lost again.
pub fn next_bad(set: usize, inventory: &Inventory) -> Option<usize> {
    let mut sets = sets();
    let mut fresh = None;
    for (card, told) in sets.get_mut(&set)? {
        let bad = inventory.cards.get(*card).is_some_and(|card| card.lost || card.failed);
        if bad && !*told && fresh.is_none() {
            fresh = Some(*card);
            *told = true;
        }
        *told &= bad;
    }
    fresh
}
