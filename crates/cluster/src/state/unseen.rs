//! Reservations that were deleted before anybody had seen their pods. What the watch still has to
//! tell of such a pod may be from before its deletion, and would make it one to be joined: so the
//! card stays closed until a list that began later shows that it is gone.

use super::reservations::AGAIN;
use super::timers::Timer;
use super::{Action, State};
use divvy_engine::PodKey;
use foldhash::HashSet;
use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// For the next list.
    next: HashSet<PodKey>,
    /// For the one that is under way.
    sought: HashSet<PodKey>,
}

impl State {
    /// A reservation is deleted that nobody has seen, or is not there.
    pub(super) fn deleted_unseen(&mut self, key: PodKey, now: Instant) {
        if self.unseen.next.is_empty() && self.unseen.sought.is_empty() {
            self.timers.add(now + AGAIN, Timer::Unseen);
        }
        self.unseen.next.insert(key);
    }

    /// Has the pods listed, if the watch has not told of all of them meanwhile.
    pub(super) fn seek_unseen(&mut self) {
        let next = std::mem::take(&mut self.unseen.next);
        self.unseen.sought = next.into_iter().filter(|key| self.is_unseen(key)).collect();
        if !self.unseen.sought.is_empty() {
            self.actions.push(Action::RelistPods);
        }
    }

    /// A list has ended: those that it did not show are gone.
    pub(super) fn forget_unseen(&mut self, now: Instant) {
        let sought = std::mem::take(&mut self.unseen.sought);
        if !sought.is_empty() && !self.unseen.next.is_empty() {
            self.timers.add(now + AGAIN, Timer::Unseen);
        }
        for key in sought.into_iter().filter(|key| self.is_unseen(key)).collect::<Vec<_>>() {
            self.reservation_gone(&key, now);
        }
    }

    fn is_unseen(&self, key: &PodKey) -> bool {
        self.reservations.get(key).is_some_and(|made| made.uid.is_empty())
    }
}
