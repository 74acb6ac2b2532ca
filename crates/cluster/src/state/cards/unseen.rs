//! Reservations that were deleted before anybody had seen their pods. What the watch still has to
//! tell of such a pod may be from before its deletion, and would make it one to be joined: so the
//! card stays closed until a list that began later shows that it is gone.

use super::reservations::AGAIN;
use super::reserved::Reservations;
use crate::state::action::Action;
use crate::state::context::Context;
use crate::state::timers::Timer;
use divvy_engine::ObjectKey;
use foldhash::HashSet;

/// Which these are.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// For the next list.
    next: HashSet<ObjectKey>,
    /// For the one that is under way.
    sought: HashSet<ObjectKey>,
}

impl Unseen {
    /// A reservation is deleted that nobody has seen, or is not there.
    pub(super) fn add(&mut self, key: ObjectKey, cx: &mut Context) {
        if self.next.is_empty() && self.sought.is_empty() {
            cx.after(AGAIN, Timer::Unseen);
        }
        self.next.insert(key);
    }

    /// Has the pods listed, if the watch has not told of all of them meanwhile.
    pub(super) fn seek(&mut self, reservations: &Reservations, cx: &mut Context) {
        let next = std::mem::take(&mut self.next);
        self.sought = next.into_iter().filter(|key| reservations.is_unseen(key)).collect();
        if !self.sought.is_empty() {
            cx.act(Action::RelistPods);
        }
    }

    /// A list has ended: those that it did not show are gone.
    pub(super) fn gone(&mut self, reservations: &Reservations, cx: &mut Context) -> Vec<ObjectKey> {
        let sought = std::mem::take(&mut self.sought);
        if !sought.is_empty() && !self.next.is_empty() {
            cx.after(AGAIN, Timer::Unseen);
        }
        sought.into_iter().filter(|key| reservations.is_unseen(key)).collect()
    }
}
