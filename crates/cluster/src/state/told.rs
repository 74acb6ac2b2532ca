//! What is said on pods that wait: once for each change of the reason.
//!
//! To work out why a pod waits means to look at every node, and anybody can make many different pods:
//! this is done in slices, and namespace by namespace.

mod turns;

use super::{Action, Stage, State, Target};
use divvy_engine::{PodKey, ShapeId, Standing};
use divvy_ledger::Position;
use foldhash::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use turns::Turns;

/// When the reasons of all were last worked out.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Reasons that hold as long as nothing changes.
    sentences: HashMap<ShapeId, Why>,
    at: Moment,
    /// Changes of what is not in the ledger: namespaces and storage.
    moves: u64,
    refreshed: Option<Instant>,
    /// Pods that were just found to wait.
    new: Turns,
    /// Pods whose reasons are being brought up to date.
    old: Turns,
    /// Reasons that are not written yet.
    writing: usize,
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

    /// A pod was found to wait.
    pub(super) fn waits(&mut self, key: PodKey) {
        self.new.push(key);
    }

    /// A reason was written, or is not to be written any more.
    pub(super) const fn is_over(&mut self) {
        self.writing = self.writing.saturating_sub(1);
    }

    /// Whether there is something to work out and to write at once.
    pub(super) fn is_behind(&self) -> bool {
        !self.new.is_empty() && self.writing < MOST_WRITING
    }
}

/// Why a pod waits: in one line, and by name.
#[derive(Clone, Debug)]
struct Why {
    text: Arc<str>,
    reason: &'static str,
}

/// How often all reasons are brought up to date that have changed.
const REFRESH: Duration = Duration::from_secs(10);
/// How many are rewritten each second, and with how much work.
const REWRITES: usize = 50;
const REFRESH_WORK: u64 = 4 * super::SLICE;
/// With so many that are not written yet, no more are worked out: the next ones would only wait
/// behind them, whosever they are.
const MOST_WRITING: usize = 500;

impl State {
    /// Says why pods wait that were just found to, as far as there is time.
    pub(super) fn tell_new(&mut self) {
        let mut work = super::SLICE;
        while work > 0
            && self.told.writing < MOST_WRITING
            && let Some(key) = self.told.new.pop()
        {
            self.report(&key, &mut work);
        }
    }

    /// Says why a pod waits, if that is not what was last said. `work` is what is left to be done.
    fn report(&mut self, key: &PodKey, work: &mut u64) {
        let Some(Why { text, reason }) = self.why(key, work) else { return };
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
            self.told.writing += 1;
            self.actions.push(Action::Tell { pod, version, text, again });
        }
    }

    /// Whether an action that had to wait for its turn is still to be done. A reason is told on
    /// the version of the pod for which it holds, and not if the pod has a place by now.
    pub(crate) fn is_due(&mut self, action: &mut Action) -> bool {
        let Action::Tell { pod, version, text, again } = action else { return true };
        let waiting = self.waiting.get_mut(&pod.key).filter(|w| w.uid == pod.uid);
        let Some(waiting) = waiting.filter(|w| w.told.as_ref() == Some(text)) else {
            self.told.is_over();
            return false;
        };
        if waiting.stage != Stage::Waits {
            waiting.told = Some("".into());
            self.told.is_over();
            return false;
        }
        version.clone_from(&waiting.version);
        *again = waiting.refused;
        true
    }

    fn moment(&self) -> Moment {
        (self.scheduler.ledger().journal().end(), self.told.moves)
    }

    fn why(&mut self, key: &PodKey, work: &mut u64) -> Option<Why> {
        *work = work.saturating_sub(1);
        let now = self.moment();
        if now != self.told.at {
            self.told.at = now;
            self.told.sentences.clear();
        }
        let shape = self.scheduler.shape_of(key);
        if let Some(known) = shape.and_then(|shape| self.told.sentences.get(&shape)) {
            return Some(known.clone());
        }
        *work = work.saturating_sub(self.scheduler.work_of_standing(key));
        let Standing::Waiting(diagnosis) = self.scheduler.standing(key)? else { return None };
        let reason = diagnosis.groups.first().map_or("Unknown", |g| g.reason.name());
        let why = Why { text: diagnosis.sentence(self.scheduler.node_count()).into(), reason };
        if let Some(shape) = shape {
            self.told.sentences.insert(shape, why.clone());
        }
        Some(why)
    }

    /// Brings what is said on waiting pods up to date, a little each second.
    pub(crate) fn refresh(&mut self, now: Instant) {
        if !self.is_listed() {
            return;
        }
        let moment = self.moment();
        let is_due = self.told.refreshed.is_none_or(|last| now >= last + REFRESH);
        if is_due && self.told.old.is_empty() && self.told.refreshed_at != Some(moment) {
            self.told.refreshed = Some(now);
            self.told.refreshed_at = Some(moment);
            let told = self.waiting.iter().filter(|(_, waiting)| waiting.told.is_some());
            told.for_each(|(key, _)| self.told.old.push(key.clone()));
        }
        let (before, mut work) = (self.actions.len(), REFRESH_WORK);
        while work > 0
            && self.actions.len() - before < REWRITES
            && self.told.writing < MOST_WRITING
            && let Some(key) = self.told.old.pop()
        {
            self.report(&key, &mut work);
        }
    }
}
