//! What is said on pods that wait: once for each change of the reason.

use super::{Action, Stage, State, Target};
use divvy_engine::{PodKey, ShapeId, Standing};
use divvy_ledger::Position;
use foldhash::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// When the reasons of all were last worked out.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Reasons that hold as long as nothing changes.
    sentences: HashMap<ShapeId, Why>,
    at: Moment,
    /// Changes of what is not in the ledger: namespaces and storage.
    moves: u64,
    refreshed: Option<Instant>,
    /// Pods whose reasons have not had their turn yet.
    turns: Vec<PodKey>,
    /// What the reasons were last brought up to date for, if that was for all of them.
    refreshed_at: Option<Moment>,
}

/// Up to where ledger and all else were looked at.
type Moment = (Position, u64);

impl Told {
    /// Something has changed that a reason may depend on and that is not in the ledger.
    pub(super) const fn moved(&mut self) {
        self.moves += 1;
    }

    /// Some reason has to be told again, though nothing has changed.
    pub(super) const fn tell_again(&mut self) {
        self.refreshed_at = None;
    }
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
            let version = waiting.version.clone();
            let again = waiting.refused;
            self.actions.push(Action::Tell { pod, version, text, again });
        }
    }

    /// Whether an action that had to wait for its turn is still to be done. A reason is told on
    /// the version of the pod for which it holds, and not if the pod has a place by now.
    pub(crate) fn is_due(&mut self, action: &mut Action) -> bool {
        let Action::Tell { pod, version, text, again } = action else { return true };
        let waiting = self.waiting.get_mut(&pod.key).filter(|w| w.uid == pod.uid);
        let Some(waiting) = waiting.filter(|w| w.told.as_ref() == Some(text)) else { return false };
        if waiting.stage != Stage::Waits {
            waiting.told = Some("".into());
            return false;
        }
        version.clone_from(&waiting.version);
        *again = waiting.refused;
        true
    }

    fn moment(&self) -> Moment {
        (self.scheduler.ledger().journal().end(), self.told.moves)
    }

    fn why(&mut self, key: &PodKey) -> Option<Why> {
        let now = self.moment();
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
        let moment = self.moment();
        let due = self.told.refreshed.is_none_or(|last| now >= last + REFRESH);
        if !due || self.told.refreshed_at == Some(moment) || !self.is_listed() {
            return;
        }
        self.told.refreshed = Some(now);
        self.told.refreshed_at = Some(moment);
        if self.told.turns.is_empty() {
            let told = self.waiting.iter().filter(|(_, waiting)| waiting.told.is_some());
            self.told.turns = told.map(|(key, _)| key.clone()).collect();
        }
        let before = self.actions.len();
        while let Some(key) = self.told.turns.pop() {
            self.report(&key);
            if self.actions.len() - before >= REWRITES {
                // The rest at the next time.
                self.told.tell_again();
                return;
            }
        }
    }
}
