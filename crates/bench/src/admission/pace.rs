//! Requests that are due at a steady rate, whether the server keeps up or not.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub struct Pace {
    rate: u32,
    count: u32,
    next: AtomicU32,
    start: Instant,
}

impl Pace {
    /// So many from now on, so many a second.
    pub fn start(rate: u32, count: u32) -> Self {
        Self { rate, count, next: 0.into(), start: Instant::now() }
    }

    /// Waits for the next one that is due: its number, and since when its answer is waited for.
    /// Nothing if there is none left.
    pub async fn due(&self) -> Option<(u32, Instant)> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        if at >= self.count {
            return None;
        }
        let due = self.start + Duration::from_secs_f64(f64::from(at) / f64::from(self.rate));
        // Who was idle is woken a little late, which is not the server's doing; who was busy is
        // late because the server was.
        let is_idle = Instant::now() < due;
        tokio::time::sleep_until(due.into()).await;
        Some((at, if is_idle { Instant::now() } else { due }))
    }

    /// How many were asked for, a second, until now.
    pub fn done_per_second(&self) -> f64 {
        f64::from(self.count) / self.start.elapsed().as_secs_f64()
    }
}

/// Since then, in milliseconds.
pub fn ms(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1000.0
}
