//! What became of the writes.

use super::failures::{Blame, Failures};
use super::timers::Timer;
use super::{Action, State, Target};
use crate::api::Failure;
use crate::objects::PodItem;
use crate::watch::Item;
use divvy_engine::Event;
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
    /// The reason is on the pod, whose version is now this one; or it could not be written.
    Told { pod: Target, result: Result<Box<str>, Failure> },
    /// The pod as it is, `None` if it is gone; `text` if that had to be settled.
    Looked {
        pod: Target,
        text: Option<Arc<str>>,
        tries: u32,
        result: Result<Option<Box<PodItem>>, Failure>,
    },
}

impl State {
    pub(crate) fn outcome(&mut self, outcome: Outcome, now: Instant) {
        match outcome {
            Outcome::Bound { pod, node } => {
                self.writing -= 1;
                if self.is_current(&pod) {
                    self.bound_after.extend(self.waiting.get(&pod.key).map(|w| w.created));
                    self.stop_waiting(&pod.key);
                }
                self.actions.push(Action::Announce { pod, node });
            }
            Outcome::BindFailed { pod, node, failure } => {
                self.writing -= 1;
                self.bind_failed(&pod, &node, &failure, now);
            }
            Outcome::Provided { pod, result } => self.provided(&pod, result, now),
            Outcome::Told { pod, result } => {
                let current = self.waiting.get_mut(&pod.key).filter(|w| w.uid == pod.uid);
                match (current, result) {
                    (Some(waiting), Ok(version)) if newer(&version, &waiting.version) => {
                        waiting.version = version;
                    }
                    // It is said again when the reasons are next brought up to date.
                    (Some(waiting), Err(_)) => waiting.told = Some("".into()),
                    _ => {}
                }
            }
            Outcome::Looked { pod, text, tries, result } => {
                self.looked(pod, text, tries, result, now);
            }
        }
    }

    /// Whether this is still a pod of ours that waits.
    fn is_current(&self, pod: &Target) -> bool {
        self.waiting.get(&pod.key).is_some_and(|w| w.uid == pod.uid)
    }

    fn bind_failed(&mut self, pod: &Target, node: &str, failure: &Failure, now: Instant) {
        if !self.is_current(pod) || *failure == Failure::Fenced {
            return;
        }
        let blame = match failure {
            Failure::Refused { .. } => Blame::Node(node),
            Failure::NotFound(_) | Failure::Conflict(_) => Blame::Version,
            Failure::Expired(_) | Failure::Busy { .. } | Failure::Unclear(_) | Failure::Fenced => {
                Blame::Nobody
            }
        };
        self.failed(pod, blame, &format!("to {node}: {failure}"), now);
    }

    /// Remembers that a pod could not be bound, and looks at it before it is tried again.
    pub(super) fn failed(&mut self, pod: &Target, blame: Blame<'_>, why: &str, now: Instant) {
        tracing::warn!(pod = %pod.key, why, "failed to bind");
        let pod = pod.clone();
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
        if !self.is_current(&pod) {
            return;
        }
        match result {
            Ok(None) => self.forget(&pod.key),
            Ok(Some(item)) if item.metadata.uid != pod.uid => {
                // Another pod of that name: this one is gone, and the watch will tell of that one.
                self.forget(&pod.key);
            }
            Ok(Some(item)) => {
                let known = self.waiting.get(&pod.key).map(|w| w.version.clone());
                if known.is_some_and(|known| newer(&known, item.version())) {
                    self.actions.push(Action::Look { pod });
                    return;
                }
                if item.node().is_none() {
                    // What was assumed is undone; then the pod is as new, with its failures.
                    self.apply(Event::PodGone(pod.key.clone()));
                }
                if let (Some(text), Some(waiting)) = (text, self.waiting.get_mut(&pod.key)) {
                    waiting.told = Some(text);
                }
                self.pod_seen(&item, now);
            }
            Err(failure) => {
                tracing::warn!(pod = %pod.key, why = %failure, "failed to look at a pod, will try again");
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
                    if self.providing.get(&pod.key).is_some_and(|p| p.is_for(&pod)) {
                        self.not_provided(&pod, "its claims were not bound in time", now);
                    }
                }
                Timer::Quarantine(ghost) => self.apply(Event::PodGone(ghost)),
            }
        }
    }
}

/// Whether version `a` is newer than `b`. Versions are numbers, as long as nobody says otherwise.
fn newer(a: &str, b: &str) -> bool {
    let number = |version: &str| version.parse::<u128>().unwrap_or(0);
    number(a) > number(b)
}
