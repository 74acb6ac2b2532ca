//! Whether this process lives and whether it is ready, told by the loop and read by the pages.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What the loop last said of itself; clones share it.
#[derive(Clone, Debug)]
pub struct Health(Arc<Mutex<Vitals>>);

#[derive(Debug)]
struct Vitals {
    phase: Phase,
    patience: Duration,
    beat: Instant,
    doing: &'static str,
    unlisted: BTreeSet<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Waiting,
    Leading,
}

impl Health {
    /// A process that starts. Ready, once it leads, when all `resources` are listed; alive while
    /// its loop beats more often than every `patience`.
    pub fn new(resources: impl IntoIterator<Item = &'static str>, patience: Duration) -> Self {
        Self(Arc::new(Mutex::new(Vitals {
            phase: Phase::Starting,
            patience,
            beat: Instant::now(),
            doing: "starting",
            unlisted: resources.into_iter().collect(),
        })))
    }

    /// Another process leads; this one is ready to take over.
    pub fn waits(&self) {
        self.state().phase = Phase::Waiting;
    }

    /// This process leads: from now on the loop has to beat.
    pub fn leads(&self) {
        let mut state = self.state();
        (state.phase, state.beat) = (Phase::Leading, Instant::now());
    }

    /// The loop turns, and goes on to do this.
    pub fn beat(&self, doing: &'static str) {
        let mut state = self.state();
        (state.beat, state.doing) = (Instant::now(), doing);
    }

    /// All objects of a resource are known.
    pub fn listed(&self, resource: &'static str) {
        self.state().unlisted.remove(resource);
    }

    /// Whether the process should live on; if not, what hangs.
    pub fn live(&self) -> Result<(), String> {
        let state = self.state();
        let silent = state.beat.elapsed();
        if state.phase != Phase::Leading || silent <= state.patience {
            return Ok(());
        }
        let (silent, allowed, doing) = (silent.as_secs(), state.patience.as_secs(), state.doing);
        Err(format!(
            "the scheduler loop hangs: {doing} for {silent} s; more than {allowed} s is not normal"
        ))
    }

    /// What a ready process does; if it is not ready, what it waits for.
    pub fn ready(&self) -> Result<&'static str, String> {
        let state = self.state();
        match state.phase {
            Phase::Starting => Err("starting".to_owned()),
            Phase::Waiting => Ok("waiting: another process leads"),
            Phase::Leading if state.unlisted.is_empty() => Ok("leading"),
            Phase::Leading => {
                let unlisted: Vec<_> = state.unlisted.iter().copied().collect();
                Err(format!("waiting for the first list of {}", unlisted.join(", ")))
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, Vitals> {
        // Each change is a plain assignment, so a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_leader_is_ready_when_all_is_listed() {
        let health = Health::new(["pods", "nodes"], HOUR);
        assert_eq!(health.ready(), Err("starting".to_owned()));
        health.waits();
        assert_eq!(health.ready(), Ok("waiting: another process leads"));
        health.leads();
        assert_eq!(health.ready(), Err("waiting for the first list of nodes, pods".to_owned()));
        health.listed("nodes");
        assert_eq!(health.ready(), Err("waiting for the first list of pods".to_owned()));
        health.listed("pods");
        assert_eq!(health.ready(), Ok("leading"));
    }

    #[test]
    fn only_a_leader_has_to_beat_and_what_hangs_is_named() {
        let health = Health::new([], Duration::ZERO);
        health.beat("deciding");
        assert_eq!(health.live(), Ok(()));
        health.waits();
        assert_eq!(health.live(), Ok(()));
        health.leads();
        while health.live().is_ok() {
            std::thread::yield_now();
        }
        let text = health.live().unwrap_err();
        assert!(text.starts_with("the scheduler loop hangs: deciding for "), "{text}");

        let health = Health::new([], HOUR);
        health.leads();
        assert_eq!(health.live(), Ok(()));
    }
}
