//! Bindings that failed: remembered for a while, so that the next choice differs and nothing is
//! tried in a hot loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// What went wrong with the bindings of one pod.
#[derive(Clone, Debug)]
pub(crate) struct Failures {
    pub(crate) uid: Box<str>,
    count: u32,
    why: Arc<str>,
    last: Option<Instant>,
    paused_until: Option<Instant>,
    avoid: Vec<Avoided>,
    /// When the timer that was last set is due.
    armed: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Avoided {
    node: Box<str>,
    why: Arc<str>,
    times: u32,
    until: Instant,
}

/// Whose fault a failure may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame<'a> {
    /// This node's, which is to be avoided.
    Node(&'a str),
    /// The pod had changed meanwhile.
    Version,
    /// Unknown.
    Nobody,
}

/// A pod that is refused everywhere does not need a longer list.
const MAX_AVOIDED: usize = 16;
/// After so long without a failure, the next one is the first again.
const FORGOTTEN: Duration = Duration::from_secs(600);

impl Failures {
    pub(crate) fn new(uid: &str) -> Self {
        Self {
            uid: uid.into(),
            count: 0,
            why: "".into(),
            last: None,
            paused_until: None,
            avoid: Vec::new(),
            armed: None,
        }
    }

    /// Remembers a failure, and pauses the pod; but where the next try will differ, the first
    /// failure leads straight to it.
    pub(crate) fn add(&mut self, blame: Blame<'_>, why: &str, now: Instant) {
        if self.last.is_some_and(|last| now >= last + FORGOTTEN) {
            self.count = 0;
        }
        self.last = Some(now);
        self.count = self.count.saturating_add(1);
        self.why = why.into();
        if let Blame::Node(node) = blame {
            self.avoid_node(node, why, now);
        }
        let pauses = if blame == Blame::Nobody { self.count } else { self.count - 1 };
        self.paused_until = (pauses > 0).then(|| now + doubled(Duration::from_secs(1), pauses, 60));
    }

    fn avoid_node(&mut self, node: &str, why: &str, now: Instant) {
        let known = self.avoid.iter().position(|a| *a.node == *node);
        let mut entry = match known {
            Some(at) => self.avoid.remove(at),
            None => Avoided { node: node.into(), why: why.into(), times: 0, until: now },
        };
        entry.times += 1;
        entry.why = why.into();
        entry.until = now + doubled(Duration::from_secs(10), entry.times, 300);
        if self.avoid.len() == MAX_AVOIDED {
            self.avoid.remove(0);
        }
        self.avoid.push(entry);
    }

    /// Nodes to avoid now, and why.
    pub(crate) fn avoid(&self, now: Instant) -> Vec<(Box<str>, Arc<str>)> {
        let still = self.avoid.iter().filter(|a| a.until > now);
        still.map(|a| (a.node.clone(), a.why.clone())).collect()
    }

    /// What the pod waits for now, if it is not to be tried.
    pub(crate) fn paused(&self, now: Instant) -> Option<Arc<str>> {
        self.paused_until.filter(|until| *until > now)?;
        Some(if self.count == 1 {
            self.why.clone()
        } else {
            format!("{} (failed {} times)", self.why, self.count).into()
        })
    }

    /// When to look at the pod again, if no timer does that yet.
    pub(crate) fn arm(&mut self, now: Instant) -> Option<Instant> {
        let end = self.next_end(now)?;
        if self.armed.is_some_and(|armed| armed > now && armed <= end) {
            return None;
        }
        self.armed = Some(end);
        Some(end)
    }

    /// When something of this is over.
    fn next_end(&self, now: Instant) -> Option<Instant> {
        let ends = self.avoid.iter().map(|a| a.until).chain(self.paused_until);
        ends.filter(|end| *end > now).min()
    }
}

/// `first` doubled `times - 1` times, at most `last` seconds.
fn doubled(first: Duration, times: u32, last: u64) -> Duration {
    let factor = 1u32.checked_shl(times.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(factor.max(1)).min(Duration::from_secs(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_first_refusal_leads_straight_to_another_node() {
        let now = Instant::now();
        let mut failures = Failures::new("u");
        failures.add(Blame::Node("a"), "no", now);
        assert_eq!(failures.paused(now), None);
        assert_eq!(failures.avoid(now), [("a".into(), "no".into())]);
        assert_eq!(failures.avoid(now + after(10)), []);
    }

    #[test]
    fn further_failures_pause_the_pod_longer_and_longer_up_to_a_minute() {
        let now = Instant::now();
        let mut failures = Failures::new("u");
        let pauses: Vec<u64> = (0..9)
            .map(|i| {
                failures.add(Blame::Node(&format!("n{i}")), "no", now);
                failures.paused_until.map_or(0, |until| (until - now).as_secs())
            })
            .collect();
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(failures.paused(now).as_deref(), Some("no (failed 9 times)"));
        assert_eq!(failures.paused(now + after(60)), None);
    }

    #[test]
    fn failures_of_long_ago_do_not_make_the_next_pause_longer() {
        let now = Instant::now();
        let mut failures = Failures::new("u");
        (0..9).for_each(|_| failures.add(Blame::Nobody, "no answer", now));
        let later = now + after(600);
        failures.add(Blame::Nobody, "no answer", later);
        assert_eq!(failures.next_end(later), Some(later + after(1)));
    }

    #[test]
    fn a_failure_that_is_no_nodes_fault_pauses_at_once_and_blames_nobody() {
        let now = Instant::now();
        let mut failures = Failures::new("u");
        failures.add(Blame::Nobody, "no answer", now);
        assert_eq!(failures.paused(now).as_deref(), Some("no answer"));
        assert!(failures.avoid(now).is_empty());
        assert_eq!(failures.next_end(now), Some(now + after(1)));
    }

    #[test]
    fn a_pod_that_is_refused_everywhere_keeps_a_short_list() {
        let now = Instant::now();
        let mut failures = Failures::new("u");
        for i in 0..1000 {
            failures.add(Blame::Node(&format!("n{i}")), "no", now);
        }
        assert_eq!(failures.avoid(now).len(), MAX_AVOIDED);
        assert!(failures.arm(now).is_some());
        assert_eq!(failures.arm(now), None, "one timer is enough");
    }
}
