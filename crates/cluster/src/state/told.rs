//! What is said on pods that wait: once for each change of the reason.

use super::{Action, State, Target};
use divvy_engine::{PodKey, ShapeId, Standing};
use divvy_ledger::Position;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// When the reasons of all were last worked out.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Reasons that hold as long as the ledger does not change.
    sentences: FxHashMap<ShapeId, Why>,
    at: Position,
    refreshed: Option<Instant>,
    refreshed_at: Position,
}

/// Why a pod waits: in one line, and by name.
#[derive(Clone, Debug)]
struct Why {
    text: Arc<str>,
    reason: &'static str,
}

/// How long a reason may be out of date, and how many are rewritten at a time.
const REFRESH: Duration = Duration::from_secs(10);
const REWRITES: usize = 500;

impl State {
    /// Says why a pod waits, if that is not what was last said.
    pub(super) fn report(&mut self, key: &PodKey) {
        let Some(Why { text, reason }) = self.why(key) else { return };
        let Some(waiting) = self.waiting.get_mut(key) else { return };
        waiting.reason = Some(reason);
        if waiting.told.as_ref() == Some(&text) {
            return;
        }
        waiting.told = Some(text.clone());
        // The API server itself says that a pod is gated.
        if reason != "SchedulingGated" {
            let pod = Target { key: key.clone(), uid: waiting.uid.clone() };
            self.actions.push(Action::Tell { pod, text });
        }
    }

    fn why(&mut self, key: &PodKey) -> Option<Why> {
        let now = self.scheduler.ledger().journal().end();
        if now != self.told.at {
            self.told.at = now;
            self.told.sentences.clear();
        }
        let shape = self.scheduler.shape_of(key);
        if let Some(known) = shape.and_then(|shape| self.told.sentences.get(&shape)) {
            return Some(known.clone());
        }
        let Standing::Waiting(diagnosis) = self.scheduler.standing(key)? else { return None };
        let reason = diagnosis.groups.first().map_or("Unknown", |g| g.reason.name());
        let why = Why { text: diagnosis.sentence(self.scheduler.node_count()).into(), reason };
        if let Some(shape) = shape {
            self.told.sentences.insert(shape, why.clone());
        }
        Some(why)
    }

    /// Brings what is said on waiting pods up to date, now and then.
    pub(crate) fn refresh(&mut self, now: Instant) {
        let journal = self.scheduler.ledger().journal().end();
        let due = self.told.refreshed.is_none_or(|last| now >= last + REFRESH);
        if !due || journal == self.told.refreshed_at || !self.is_listed() {
            return;
        }
        self.told.refreshed = Some(now);
        self.told.refreshed_at = journal;
        let told = self.waiting.iter().filter(|(_, waiting)| waiting.told.is_some());
        let keys: Vec<PodKey> = told.map(|(key, _)| key.clone()).collect();
        let before = self.actions.len();
        for key in keys {
            self.report(&key);
            if self.actions.len() - before >= REWRITES {
                // The rest at the next time.
                self.told.refreshed_at = Position::default();
                return;
            }
        }
    }
}
