//! Reservations that were deleted before anybody had seen their pods. What the watch still has to
//! tell of such a pod may be from before its deletion, and would make it one to be joined: so the
//! card stays closed until a list that began later shows that it is gone.

use super::Cards;
use super::reservations::{AGAIN, DELETED};
use crate::state::action::Action;
use crate::state::bindings::Bindings;
use crate::state::context::Context;
use crate::state::timers::Timer;
use divvy_engine::ObjectKey;
use foldhash::HashSet;

#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// For the next list.
    next: HashSet<ObjectKey>,
    /// For the one that is under way.
    sought: HashSet<ObjectKey>,
}

impl Cards {
    /// A reservation is deleted that nobody has seen, or is not there.
    pub(super) fn deleted_unseen(&mut self, key: ObjectKey, cx: &mut Context) {
        if self.unseen.next.is_empty() && self.unseen.sought.is_empty() {
            cx.after(AGAIN, Timer::Unseen);
        }
        self.unseen.next.insert(key);
    }

    /// Has the pods listed, if the watch has not told of all of them meanwhile.
    pub(in crate::state) fn seek_unseen(&mut self, cx: &mut Context) {
        let next = std::mem::take(&mut self.unseen.next);
        self.unseen.sought = next.into_iter().filter(|key| self.is_unseen(key)).collect();
        if !self.unseen.sought.is_empty() {
            cx.act(Action::RelistPods);
        }
    }

    /// A list has ended: those that it did not show are gone.
    pub(in crate::state) fn forget_unseen(&mut self, bindings: &mut Bindings, cx: &mut Context) {
        let sought = std::mem::take(&mut self.unseen.sought);
        if !sought.is_empty() && !self.unseen.next.is_empty() {
            cx.after(AGAIN, Timer::Unseen);
        }
        for key in sought.into_iter().filter(|key| self.is_unseen(key)).collect::<Vec<_>>() {
            self.reservation_lost(&key, DELETED, bindings, cx);
        }
    }

    fn is_unseen(&self, key: &ObjectKey) -> bool {
        self.reservations.get(key).is_some_and(|made| made.uid.is_empty())
    }
}
