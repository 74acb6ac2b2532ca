//! What became of the writes.

use super::failures::{Blame, Failures};
use super::storage::Providing;
use super::timers::Timer;
use super::{Action, Stage, State, Target};
use crate::api::Failure;
use crate::objects::PodItem;
use crate::watch::Item;
use divvy_engine::{Event, PodKey};
use divvy_words::cards::NamedShare;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What became of an [`Action`].
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The pod is bound.
    Bound { pod: Target, node: Arc<str> },
    /// It is not, or nobody knows.
    BindFailed { pod: Target, node: Arc<str>, failure: Failure },
    /// What the claims of a pod need is written, or why not.
    Provided { pod: Target, result: Result<(), String> },
    /// A reservation pod was asked for.
    Reserved { key: PodKey, result: Result<(), Failure> },
    /// A reservation pod was to be deleted.
    Unreserved { key: PodKey, uid: Box<str>, result: Result<(), Failure> },
    /// A condition of a pod was to say this, or nothing.
    Marked {
        pod: Target,
        reason: &'static str,
        note: Option<Box<str>>,
        result: Result<(), Failure>,
    },
    /// A reservation pod was to tell of pods that vanished.
    Remembered { key: PodKey, ghosts: String, result: Result<(), Failure> },
    /// A reservation pod was to be labelled anew.
    Relabelled { key: PodKey, result: Result<(), Failure> },
    /// The cards of a share that KAI bound were to be written on it.
    Recorded { pod: Target, cards: Vec<NamedShare>, result: Result<(), Failure> },
    /// A node was to have the taint, or not.
    Tainted { node: Box<str>, on: bool, result: Result<(), Failure> },
    /// The reason is on the pod, whose version was `told_on` and is now this one; or it could not
    /// be written.
    Told { pod: Target, told_on: Box<str>, result: Result<Box<str>, Failure> },
    /// The pod as it is, `None` if it is gone; `text` if that had to be settled.
    Looked {
        pod: Target,
        text: Option<Arc<str>>,
        tries: u32,
        result: Result<Option<Box<PodItem>>, Failure>,
    },
}

/// When to look again at a pod that could not be looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

impl State {
    pub(crate) fn outcome(&mut self, outcome: Outcome, now: Instant) {
        match outcome {
            Outcome::Bound { pod, node } => {
                self.writing -= 1;
                // It is no longer waiting once the watch says so.
                if let Some(waiting) = self.current(&pod) {
                    (waiting.told, waiting.reason) = (None, None);
                    self.failures.remove(&pod.key);
                }
                self.actions.push(Action::Announce { pod, node });
            }
            Outcome::BindFailed { pod, node, failure } => {
                self.writing -= 1;
                self.bind_failed(&pod, &node, &failure, now);
            }
            Outcome::Provided { pod, result } => self.provided(&pod, result, now),
            Outcome::Reserved { key, result } => self.reserved(&key, result, now),
            Outcome::Unreserved { key, uid, result } => self.unreserved(key, uid, &result, now),
            Outcome::Marked { pod, reason, note, result } => {
                self.marked(&pod, reason, note, &result, now);
            }
            Outcome::Remembered { key, ghosts, result } => {
                self.remembered(key, ghosts, &result, now);
            }
            Outcome::Relabelled { key, result } => self.relabelled(key, &result, now),
            Outcome::Recorded { pod, cards, result } => self.recorded(pod, cards, &result, now),
            Outcome::Tainted { node, on, result } => self.tainted(&node, on, &result, now),
            Outcome::Told { pod, told_on, result } => self.told(&pod, &told_on, result),
            Outcome::Looked { pod, text, tries, result } => {
                self.looked(pod, text, tries, result, now);
            }
        }
    }

    fn told(&mut self, pod: &Target, told_on: &str, result: Result<Box<str>, Failure>) {
        self.told.is_over();
        let Some(waiting) = self.current(pod) else { return };
        match result {
            // Else more has changed than what was told, and the watch will say what.
            Ok(version) if *waiting.version == *told_on => waiting.version = version,
            Ok(_) => {}
            Err(failure) => {
                waiting.told = Some("".into());
                // What is refused would be refused again, until something changes.
                if !matches!(failure, Failure::Refused { .. }) {
                    self.told.tell_again();
                }
            }
        }
    }

    fn current(&mut self, pod: &Target) -> Option<&mut super::Waiting> {
        self.waiting.get_mut(&pod.key).filter(|w| w.uid == pod.uid)
    }

    /// Whether this is still a pod of ours that waits.
    fn is_current(&self, pod: &Target) -> bool {
        self.waiting.get(&pod.key).is_some_and(|w| w.uid == pod.uid)
    }

    fn bind_failed(&mut self, pod: &Target, node: &str, failure: &Failure, now: Instant) {
        if !self.is_current(pod) {
            return;
        }
        let blame = match failure {
            Failure::Refused { .. } => Blame::Node(node),
            Failure::NotFound(_) | Failure::Conflict(_) => Blame::Version,
            // Fenced: too close to the end of the lease, which may have been renewed since.
            Failure::Expired(_)
            | Failure::Busy { .. }
            | Failure::Unreachable { .. }
            | Failure::Unclear(_)
            | Failure::Fenced => Blame::Nobody,
        };
        self.failed(pod, blame, &format!("to {node}: {failure}"), now);
    }

    /// Remembers that a pod could not be bound, and looks at it before it is tried again.
    pub(super) fn failed(&mut self, pod: &Target, blame: Blame<'_>, why: &str, now: Instant) {
        tracing::warn!(pod = %pod.key, why, "failed to bind");
        let pod = pod.clone();
        if let Some(waiting) = self.current(&pod) {
            let changed = blame == Blame::Version;
            waiting.stage = if changed { Stage::Changed } else { Stage::Failed };
        }
        let failures = self.failures.entry(pod.key.clone());
        let failures = failures.or_insert_with(|| Failures::new(&pod.uid));
        if failures.uid != pod.uid {
            *failures = Failures::new(&pod.uid);
        }
        failures.add(blame, why, now);
        if let Some(end) = failures.arm(now) {
            self.timers.add(end, Timer::TryAgain(pod.clone()));
        }
        if blame == Blame::Version {
            self.actions.push(Action::Look { pod });
        } else {
            let text = format!("binding failed: {why}").into();
            self.actions.push(Action::Settle { pod, text, tries: 0 });
        }
    }

    fn looked(
        &mut self,
        pod: Target,
        text: Option<Arc<str>>,
        tries: u32,
        result: Result<Option<Box<PodItem>>, Failure>,
        now: Instant,
    ) {
        let Some(waiting) = self.current(&pod) else { return };
        let failed = matches!(waiting.stage, Stage::Changed | Stage::Failed);
        // Only the look that made a binding void can tell that it was not done.
        let certain = waiting.stage == Stage::Changed || failed && text.is_some();
        match result {
            Ok(None) => self.forget(&pod.key, now),
            Ok(Some(item)) if item.metadata.uid != pod.uid => {
                // Another pod of that name: this one is gone, and the watch will tell of that one.
                self.forget(&pod.key, now);
            }
            Ok(Some(item)) => {
                if certain {
                    waiting.stage = Stage::Changed;
                }
                if newer(&waiting.version, item.version()) {
                    self.actions.push(Action::Look { pod });
                    return;
                }
                if let Some(text) = text {
                    waiting.told = Some(text);
                }
                if certain && item.node().is_none() {
                    // What was assumed is undone; then the pod is as new, with its failures.
                    waiting.stage = Stage::Waits;
                    self.apply(Event::PodGone(pod.key.clone()));
                }
                self.pod_seen(&item, now);
            }
            Err(failure) => {
                tracing::warn!(pod = %pod.key, why = %failure, "failed to look at a pod, will try again");
                if !failed {
                    return self.timers.add(now + LOOK_AGAIN, Timer::TryAgain(pod));
                }
                let tries = tries.saturating_add(1);
                let wait = Duration::from_secs(1 << tries.min(5));
                let text = text.unwrap_or_else(|| "binding failed".into());
                self.timers.add(now + wait, Timer::SettleAgain { pod, text, tries });
            }
        }
    }

    /// When something is due.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::TryAgain(pod) => {
                    let held = self.scheduler.holding(&pod.key).is_some();
                    if self.is_current(&pod) && !held {
                        self.actions.push(Action::Look { pod: pod.clone() });
                    }
                    let failures = self.failures.get_mut(&pod.key).filter(|f| f.uid == pod.uid);
                    if let Some(end) = failures.and_then(|f| f.arm(now)) {
                        self.timers.add(end, Timer::TryAgain(pod));
                    }
                }
                Timer::SettleAgain { pod, text, tries } => {
                    if self.is_current(&pod) {
                        self.actions.push(Action::Settle { pod, text, tries });
                    }
                }
                Timer::NotProvided(pod) => {
                    let late = |p: &Providing| p.is_for(&pod) && p.is_late(now);
                    if self.providing.get(&pod.key).is_some_and(late) {
                        self.not_provided(&pod, "its claims were not bound in time", now);
                    }
                }
                Timer::NotReserved(key) => self.reservation_is_late(&key, now),
                Timer::ReserveAgain(key) => self.reserve_again(key),
                Timer::UnreserveAgain { key, uid } => self.unreserve_again(key, uid),
                Timer::Unseen => self.seek_unseen(),
                Timer::Search(node) => {
                    self.unsettled.insert(node);
                }
                Timer::Taint(node) => self.taints.write_again(&node),
                Timer::Idle(node) => {
                    self.unsettled.insert(node);
                }
                Timer::RecordAgain { pod, cards } => self.record_again(pod, cards),
                Timer::MarkAgain(key, reason) => self.mark_again(&key, reason),
                Timer::RelabelAgain(key) => self.relabel_again(key),
                Timer::Adopt => self.adoption.stir(),
                Timer::GhostGone(ghost) => self.ghost_gone(&ghost),
                Timer::RememberAgain(key) => self.remember_again(&key),
                Timer::HeldBack(namespace) => self.try_held_back(&namespace),
            }
        }
    }
}

/// Whether version `a` is newer than `b`. Versions are numbers, as long as nobody says otherwise.
fn newer(a: &str, b: &str) -> bool {
    let number = |version: &str| version.parse::<u128>().unwrap_or(0);
    number(a) > number(b)
}
