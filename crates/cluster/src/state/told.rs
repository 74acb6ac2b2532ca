//! What is said on pods that wait: once for each change of the reason.
//!
//! To work out why a pod waits means to look at every node, and anybody can make many different pods:
//! this is done in slices, and namespace by namespace.

mod turns;

use super::SLICE;
use super::action::{Action, Target};
use super::bindings::Bindings;
use super::context::Context;
use crate::objects::PodItem;
use divvy_api::Failure;
use divvy_engine::{ObjectKey, ShapeId, Standing};
use divvy_ledger::Position;
use foldhash::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use turns::Turns;

/// What is said on pods, and when the reasons of all were last worked out.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Of each pod of ours that waits.
    said: HashMap<ObjectKey, Said>,
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

/// Why a pod waits: in one line, and by name.
#[derive(Clone, Debug)]
struct Why {
    text: Arc<str>,
    reason: &'static str,
}

/// What is said on a pod.
#[derive(Debug)]
struct Said {
    uid: Box<str>,
    /// What was last said, by us or by who led before.
    text: Option<Arc<str>>,
    /// Whether its condition already says that it waits.
    refused: bool,
    /// The name of the reason.
    reason: Option<&'static str>,
}

/// How often all reasons are brought up to date that have changed.
const REFRESH: Duration = Duration::from_secs(10);
/// How many are rewritten each second, and with how much work.
const REWRITES: usize = 50;
const REFRESH_WORK: u64 = 4 * SLICE;
/// So many reasons are kept while nothing changes; pods that never fit come and go all the same.
const MOST_SENTENCES: usize = 1024;
/// With so many that are not written yet, no more are worked out: the next ones would only wait
/// behind them, whosever they are.
const MOST_WRITING: usize = 500;

impl Told {
    /// Something has changed that a reason may depend on and that is not in the ledger.
    pub(super) const fn moved(&mut self) {
        self.moves += 1;
    }

    /// A pod of ours waits, as the API shows.
    pub(super) fn seen(&mut self, key: &ObjectKey, pod: &PodItem) {
        let uid = &pod.metadata.uid;
        let known = self.said.remove(key).filter(|said| said.uid == *uid);
        let (text, reason) = known.map_or((None, None), |said| (said.text, said.reason));
        let text = text.or_else(|| pod.told().map(Arc::from));
        let said = Said { uid: uid.clone(), text, refused: pod.told().is_some(), reason };
        self.said.insert(key.clone(), said);
    }

    /// A pod does not wait for us any more.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.said.remove(key);
    }

    /// A pod was bound: until it is seen to be, nothing is said on it.
    pub(super) fn bound(&mut self, pod: &Target) {
        if let Some(said) = self.of(pod) {
            (said.text, said.reason) = (None, None);
        }
    }

    /// This was said on a pod when its binding was made void.
    pub(super) fn voided(&mut self, key: &ObjectKey, text: Arc<str>) {
        if let Some(said) = self.said.get_mut(key) {
            said.text = Some(text);
        }
    }

    fn of(&mut self, pod: &Target) -> Option<&mut Said> {
        self.said.get_mut(&pod.key).filter(|said| said.uid == pod.uid)
    }

    /// How many pods wait for which reason.
    pub(super) fn reasons(&self) -> HashMap<&'static str, usize> {
        let mut reasons = HashMap::default();
        for reason in self.said.values().filter_map(|said| said.reason) {
            *reasons.entry(reason).or_default() += 1;
        }
        reasons
    }

    /// A pod was found to wait.
    pub(super) fn waits(&mut self, key: ObjectKey) {
        self.new.push(key);
    }

    /// Whether there is something to work out and to write at once.
    pub(super) fn is_behind(&self) -> bool {
        !self.new.is_empty() && self.writing < MOST_WRITING
    }

    /// Says why pods wait that were just found to, as far as there is time.
    pub(super) fn tell_new(&mut self, bindings: &Bindings, cx: &mut Context) {
        let mut work = SLICE;
        while work > 0
            && self.writing < MOST_WRITING
            && let Some(key) = self.new.pop()
        {
            self.report(&key, &mut work, bindings, cx);
        }
    }

    /// Says why a pod waits, if that is not what was last said. `work` is what is left to be done.
    fn report(&mut self, key: &ObjectKey, work: &mut u64, bindings: &Bindings, cx: &mut Context) {
        let Some(Why { text, reason }) = self.why(key, work, cx) else { return };
        let (Some(waiting), Some(said)) = (bindings.get(key), self.said.get_mut(key)) else {
            return;
        };
        said.reason = Some(reason);
        if said.text.as_ref() == Some(&text) {
            return;
        }
        said.text = Some(text.clone());
        // The API server itself says that a pod is gated.
        if reason != "SchedulingGated" {
            let pod = Target { key: key.clone(), uid: waiting.uid.clone() };
            let version = waiting.version.clone();
            let again = said.refused;
            self.writing += 1;
            cx.act(Action::Tell { pod, version, text, again });
        }
    }

    /// Whether an action that had to wait for its turn is still to be done. A reason is told on
    /// the version of the pod for which it holds, and not if the pod has a place by now.
    pub(super) fn is_due(&mut self, action: &mut Action, bindings: &Bindings) -> bool {
        let Action::Tell { pod, version, text, again } = action else { return true };
        let said = self.of(pod).filter(|said| said.text.as_ref() == Some(text));
        if let (Some(said), Some(waiting)) = (said, bindings.get(&pod.key)) {
            if !waiting.has_place() {
                version.clone_from(&waiting.version);
                *again = said.refused;
                return true;
            }
            said.text = Some("".into());
        }
        self.writing = self.writing.saturating_sub(1);
        false
    }

    /// What became of [`Action::Tell`].
    pub(super) fn written(
        &mut self,
        pod: &Target,
        told_on: &str,
        result: Result<Box<str>, Failure>,
        bindings: &mut Bindings,
    ) {
        self.writing = self.writing.saturating_sub(1);
        match result {
            // Else more has changed than what was told, and the watch will say what.
            Ok(version) => bindings.rewritten(pod, told_on, version),
            Err(failure) => {
                let Some(said) = self.of(pod) else { return };
                said.text = Some("".into());
                // What is refused would be refused again, until something changes.
                if !matches!(failure, Failure::Refused { .. }) {
                    self.refreshed_at = None;
                }
            }
        }
    }

    fn moment(&self, cx: &Context) -> Moment {
        (cx.scheduler.ledger().journal().end(), self.moves)
    }

    fn why(&mut self, key: &ObjectKey, work: &mut u64, cx: &mut Context) -> Option<Why> {
        *work = work.saturating_sub(1);
        let now = self.moment(cx);
        if now != self.at {
            self.at = now;
            self.sentences.clear();
        }
        let shape = cx.scheduler.shape_of(key);
        if let Some(known) = shape.and_then(|shape| self.sentences.get(&shape)) {
            return Some(known.clone());
        }
        *work = work.saturating_sub(cx.scheduler.work_of_standing(key));
        let Standing::Waiting(diagnosis) = cx.scheduler.standing(key)? else { return None };
        let reason = diagnosis.refusals.first().map_or("Unknown", |g| g.reason.name());
        let why = Why { text: diagnosis.sentence(cx.scheduler.node_count()).into(), reason };
        if let Some(shape) = shape {
            if self.sentences.len() >= MOST_SENTENCES {
                self.sentences.clear();
            }
            self.sentences.insert(shape, why.clone());
        }
        Some(why)
    }

    /// Brings what is said on waiting pods up to date, a little each second.
    pub(super) fn refresh(&mut self, bindings: &Bindings, cx: &mut Context) {
        let moment = self.moment(cx);
        let is_due = self.refreshed.is_none_or(|last| cx.now >= last + REFRESH);
        if is_due && self.old.is_empty() && self.refreshed_at != Some(moment) {
            self.refreshed = Some(cx.now);
            self.refreshed_at = Some(moment);
            let told = self.said.iter().filter(|(_, said)| said.text.is_some());
            told.for_each(|(key, _)| self.old.push(key.clone()));
        }
        let (before, mut work) = (cx.action_count(), REFRESH_WORK);
        while work > 0
            && cx.action_count() - before < REWRITES
            && self.writing < MOST_WRITING
            && let Some(key) = self.old.pop()
        {
            self.report(&key, &mut work, bindings, cx);
        }
    }
}
