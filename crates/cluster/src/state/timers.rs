//! What is due later.

use super::Target;
use crate::api::Failure;
use divvy_engine::PodKey;
use divvy_words::cards::NamedShare;
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
    /// A pod that could not be looked at.
    SettleAgain { pod: Target, text: Arc<str>, tries: u32 },
    /// The claims of a pod have not been bound in time.
    NotProvided(Target),
    /// A reservation pod has not come to run in time.
    NotReserved(PodKey),
    /// A reservation pod that could not be made.
    ReserveAgain(PodKey),
    /// A reservation pod that could not be deleted.
    UnreserveAgain { key: PodKey, uid: Box<str> },
    /// Reservations were deleted that nobody has seen.
    Unseen,
    /// Lost cards of a node may be looked for again.
    Search(Box<str>),
    /// The taint of a node could not be written.
    Taint(Box<str>),
    /// KAI has been gone for a while.
    Adopt,
    /// A reservation that was KAI's has been seen for a while.
    Idle(Box<str>),
    /// The cards of a share that KAI bound could not be written on it.
    RecordAgain { pod: Target, cards: Vec<NamedShare> },
    /// A condition of a pod could not be written.
    MarkAgain(PodKey, &'static str),
    /// A reservation could not be labelled.
    RelabelAgain(PodKey),
    /// The cards of a vanished pod are free.
    GhostGone(PodKey),
    /// What is left of pods could not be written on a reservation.
    RememberAgain(PodKey),
    /// Pods of a namespace that were held back may be tried again.
    HeldBack(Box<str>),
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
