//! Whether KAI, or Koordinator's scheduler, works in the cluster: while it does, its pods and what it
//! makes are left to it.

use super::action::Action;
use super::context::Context;
use super::timers::Timer;
use divvy_engine::ObjectKey;
use divvy_words::keys;
use foldhash::HashSet;
use std::time::{Duration, Instant};

/// So long after KAI has gone it may only be restarting.
const MAY_COME_BACK: Duration = Duration::from_secs(60);

/// KAI's own pods.
#[derive(Debug, Default)]
pub(super) struct Kai {
    schedulers: HashSet<ObjectKey>,
    /// They work on without a scheduler: what they make is not ours meanwhile.
    binders: HashSet<ObjectKey>,
    /// Until when it may come back.
    waits_until: Option<Instant>,
}

impl Kai {
    /// Whether its scheduler runs.
    pub(super) fn runs(&self) -> bool {
        !self.schedulers.is_empty()
    }

    /// Whether it is gone for good.
    pub(super) fn is_gone(&self, now: Instant) -> bool {
        let is_over = self.waits_until.is_none_or(|until| now >= until);
        !self.runs() && self.binders.is_empty() && is_over
    }

    /// Takes note of a pod: whether it is a scheduler of KAI that runs, or a binder.
    pub(super) fn notice(
        &mut self,
        key: &ObjectKey,
        is_scheduler: bool,
        is_binder: bool,
        cx: &mut Context,
    ) {
        let before = self.runs();
        set(&mut self.schedulers, key, is_scheduler);
        if before != self.runs() {
            if before {
                self.left(cx);
            }
            relist("KAI", keys::KAI_SCHEDULER, key, is_scheduler, cx);
        }
        if set(&mut self.binders, key, is_binder) && self.binders.is_empty() {
            self.left(cx);
        }
    }

    fn left(&mut self, cx: &mut Context) {
        self.waits_until = Some(cx.now + MAY_COME_BACK);
        cx.after(MAY_COME_BACK, Timer::Adopt);
    }
}

/// Koordinator's own schedulers that run.
#[derive(Debug, Default)]
pub(super) struct Koordinator(HashSet<ObjectKey>);

impl Koordinator {
    pub(super) fn runs(&self) -> bool {
        !self.0.is_empty()
    }

    /// Takes note of a pod: whether it is a scheduler of Koordinator that runs.
    pub(super) fn notice(&mut self, key: &ObjectKey, is_scheduler: bool, cx: &mut Context) {
        let before = self.runs();
        set(&mut self.0, key, is_scheduler);
        if before != self.runs() {
            relist("Koordinator", keys::KOORDINATOR_SCHEDULER, key, is_scheduler, cx);
        }
    }
}

/// Whether this changes something.
fn set(pods: &mut HashSet<ObjectKey>, key: &ObjectKey, is_one: bool) -> bool {
    if is_one { pods.insert(key.clone()) } else { pods.remove(key) }
}

/// Whether pods that name this scheduler are ours has changed.
fn relist(whose: &str, name: &str, key: &ObjectKey, runs: bool, cx: &mut Context) {
    if !cx.settings.names.iter().any(|ours| ours == name) {
        return;
    }
    if runs {
        tracing::warn!(pod = %key, "a {whose} scheduler runs: pods with schedulerName {name} are left to it");
    } else {
        tracing::info!("no {whose} scheduler runs any more: its pods are scheduled by divvy now");
    }
    cx.act(Action::RelistPods);
}
