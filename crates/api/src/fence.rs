//! Until when this process may write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The moment after which nothing is sent any more, read right before each write to a socket.
///
/// The clock is the monotonic one: it is not set by anybody, and it goes on while the process is
/// stopped, so a leader that was paused finds its fence closed when it wakes up.
#[derive(Clone, Debug)]
pub struct Fence(Arc<Deadline>);

#[derive(Debug)]
struct Deadline {
    base: Instant,
    /// Nanoseconds after `base`, or one of the two ends of the range.
    until: AtomicU64,
    /// How long a write may take at most, however long the fence stays open.
    longest: Duration,
    reach: Duration,
}

/// Closed for good: not even a late renewal opens it again.
const SHUT: u64 = 0;
/// Closed until the first extension.
const CLOSED: u64 = 1;
const NEVER_CLOSES: u64 = u64::MAX;

/// What is sent and not acknowledged for so long is never sent again.
const REACH: Duration = Duration::from_secs(4);

/// Of the time that a successor waits, the part in which a leader may write since it was last sure
/// to lead, or a write may take.
pub fn writing_part(wait: Duration) -> Duration {
    wait * 2 / 3
}

impl Fence {
    /// A fence that does not close by itself: for commands.
    pub fn open() -> Self {
        Self::new(NEVER_CLOSES, Duration::MAX, REACH)
    }

    /// A fence that is closed until it is extended: for a process that does not lead yet, and whose
    /// successor waits so long.
    pub fn elected(wait: Duration) -> Self {
        Self::new(CLOSED, Duration::MAX, reach(wait))
    }

    /// A fence that does not close by itself, but leaves each write only so long that it is over
    /// when a successor, who waits so long when it starts, goes to work.
    pub fn alone(wait: Duration) -> Self {
        Self::new(NEVER_CLOSES, writing_part(wait), reach(wait))
    }

    fn new(until: u64, longest: Duration, reach: Duration) -> Self {
        let (base, until) = (Instant::now(), AtomicU64::new(until));
        Self(Arc::new(Deadline { base, until, longest, reach }))
    }

    /// How long what was sent may be under way to the server.
    pub(crate) fn reach(&self) -> Duration {
        self.0.reach
    }

    /// Keeps it open until then. It never shortens the time, and does nothing after [`Self::shut`].
    pub fn extend(&self, until: Instant) {
        let after = until.saturating_duration_since(self.0.base).as_nanos();
        let after = u64::try_from(after).unwrap_or(NEVER_CLOSES);
        let longer = |old| (old != SHUT && old < after).then_some(after);
        // An error means that the deadline stays as it was, which is what is asked for then.
        let _ = self.0.until.fetch_update(Ordering::SeqCst, Ordering::SeqCst, longer);
    }

    /// Closes it for good.
    pub fn shut(&self) {
        self.0.until.store(SHUT, Ordering::SeqCst);
    }

    /// How long something may still be sent; nothing if it is closed, [`Duration::MAX`] if it has no
    /// end.
    pub fn left(&self) -> Duration {
        match self.0.until.load(Ordering::SeqCst) {
            NEVER_CLOSES => self.0.longest,
            until => Duration::from_nanos(until).saturating_sub(self.0.base.elapsed()),
        }
    }

    /// Whether something may be sent now.
    pub fn is_open(&self) -> bool {
        !self.left().is_zero()
    }
}

/// Less than what is left when the writing part is over.
fn reach(wait: Duration) -> Duration {
    (wait * 4 / 15).min(REACH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIFTEEN: Duration = Duration::from_secs(15);
    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn an_open_fence_has_no_end() {
        assert_eq!(Fence::open().left(), Duration::MAX);
        assert!(Fence::open().is_open());
    }

    #[test]
    fn a_write_of_one_who_is_alone_is_over_when_its_successor_goes_to_work() {
        for seconds in [1, 3, 15, 600] {
            let wait = Duration::from_secs(seconds);
            let fence = Fence::alone(wait);
            assert!(fence.is_open());
            assert!(fence.left() + fence.reach() < wait, "{wait:?}: {fence:?}");
            assert!(writing_part(wait) + Fence::elected(wait).reach() < wait);
        }
    }

    #[test]
    fn a_closed_fence_opens_with_an_extension_and_all_clones_see_it() {
        let fence = Fence::elected(FIFTEEN);
        let clone = fence.clone();
        assert!(!clone.is_open());
        fence.extend(Instant::now() + HOUR);
        assert!(clone.is_open());
        assert!(clone.left() <= HOUR);
    }

    #[test]
    fn an_extension_into_the_past_opens_nothing_and_shortens_nothing() {
        let before = Instant::now();
        let fence = Fence::elected(FIFTEEN);
        fence.extend(before);
        fence.extend(Instant::now());
        assert!(!fence.is_open());
        fence.extend(Instant::now() + HOUR);
        fence.extend(Instant::now());
        assert!(fence.is_open());
    }

    #[test]
    fn a_shut_fence_stays_shut() {
        for fence in [Fence::open(), Fence::elected(FIFTEEN)] {
            fence.extend(Instant::now() + HOUR);
            fence.shut();
            fence.extend(Instant::now() + HOUR);
            assert!(!fence.is_open());
            assert_eq!(fence.left(), Duration::ZERO);
        }
    }
}
