//! What is due later.

use super::action::Target;
use crate::place::Place;
use divvy_api::Failure;
use divvy_engine::ObjectKey;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// When a write that failed is made again: what was refused would be refused again, until somebody
/// changes what is allowed.
pub(super) const fn wait(failure: &Failure) -> Duration {
    match failure {
        Failure::Refused { .. } => Duration::from_secs(300),
        _ => Duration::from_secs(5),
    }
}

/// Something that is due.
#[derive(Debug)]
pub(crate) enum Timer {
    /// A pause or an avoidance of a pod is over.
    TryAgain(Target),
    /// A pod whose binding could not be made void.
    VoidAgain { pod: Target, text: Arc<str>, tries: u32 },
    /// The claims of a pod have not been bound in time.
    NotProvided(Target),
    /// Pods of a namespace that were held back may be tried again.
    HeldBack(Box<str>),
    /// A reservation pod has not come to run in time.
    NotReserved(ObjectKey),
    /// A reservation pod that could not be made.
    ReserveAgain(ObjectKey),
    /// A reservation pod that could not be deleted.
    UnreserveAgain { key: ObjectKey, uid: Box<str> },
    /// Reservations were deleted that nobody has seen.
    Unseen,
    /// The shared cards of a node are to be looked at.
    LookAtCards(Box<str>),
    /// KAI has been gone for a while.
    Adopt,
    /// The cards of a vanished pod are free.
    GhostGone(ObjectKey),
    /// What could not be written.
    WriteAgain(Place),
}

#[derive(Debug)]
struct Due {
    at: Instant,
    order: u64,
    timer: Timer,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Timers, soonest first.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Due>>,
    count: u64,
}

impl Timers {
    pub(crate) fn add(&mut self, at: Instant, timer: Timer) {
        self.count += 1;
        self.heap.push(Reverse(Due { at, order: self.count, timer }));
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(due)| due.at)
    }

    /// The next one that is due by now.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(due)| due.timer)
    }
}
