//! How long to wait before the next try.

use std::time::Duration;

/// Waits between tries: doubled from the first to the last, back to the first after a success.
#[derive(Debug)]
pub(super) struct BackOff {
    next: Duration,
    seed: u64,
}

impl BackOff {
    const FIRST: Duration = Duration::from_millis(200);
    const LAST: Duration = Duration::from_secs(30);

    pub(super) fn new(seed: u64) -> Self {
        Self { next: Self::FIRST, seed }
    }

    pub(super) fn reset(&mut self) {
        self.next = Self::FIRST;
    }

    /// At least `at_least`, and spread, so that replicas and watches do not come all at once.
    pub(super) async fn wait(&mut self, at_least: Duration) {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let spread = self.next.mul_f64((self.seed >> 40) as f64 / (1u64 << 24) as f64 / 2.0);
        tokio::time::sleep(at_least.max(self.next) + spread).await;
        self.next = (self.next * 2).min(Self::LAST);
    }
}
