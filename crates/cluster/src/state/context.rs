//! What every part works with: the engine, the time, what is to be done and what is due later.

use super::action::Action;
use super::held_back::HeldBack;
use super::timers::{Timer, Timers};
use divvy_engine::{Bounds, Event, ObjectKey, Scheduler};
use divvy_ledger::Node;
use divvy_words::isolation::Isolation;
use std::time::{Duration, Instant};

/// How the state is to behave.
#[derive(Clone, Debug)]
pub(crate) struct StateSettings {
    /// The scheduler names that are ours.
    pub(crate) names: Vec<String>,
    /// How many bindings are written at a time.
    pub(crate) writes: usize,
    /// How long the cards of a pod that vanished without ending stay closed, after its grace
    /// period.
    pub(crate) quarantine: Duration,
    /// How long the containers of such a share may take to end, in seconds.
    pub(crate) max_grace_period: u32,
    /// What keeps isolated shares to their part; `None` if nobody tells levels apart.
    pub(crate) isolation: Option<Isolation>,
    /// What time it is for others.
    pub(crate) clock: Clock,
}

/// A moment on our own clock, and what time it was for others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) moment: Instant,
    /// Seconds since 1970.
    pub(crate) unix: i64,
}

impl Clock {
    pub(super) fn unix(self, at: Instant) -> i64 {
        let since = at.saturating_duration_since(self.moment).as_secs();
        self.unix.saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
    }

    /// When it is that time; `now` if that is over.
    pub(super) fn instant(self, unix: i64, now: Instant) -> Instant {
        let left = u64::try_from(unix.saturating_sub(self.unix(now))).unwrap_or(0);
        now.checked_add(Duration::from_secs(left)).unwrap_or(now)
    }
}

/// The engine and all that follows from what the parts are told.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) scheduler: Scheduler,
    pub(super) settings: StateSettings,
    /// When what is looked at happened.
    pub(super) now: Instant,
    pub(super) held_back: HeldBack,
    actions: Vec<Action>,
    timers: Timers,
    bounds: Bounds,
}

impl Context {
    pub(super) fn new(scheduler: Scheduler, settings: StateSettings) -> Self {
        Self {
            scheduler,
            now: settings.clock.moment,
            settings,
            actions: Vec::new(),
            held_back: HeldBack::default(),
            timers: Timers::default(),
            bounds: Bounds::default(),
        }
    }

    pub(super) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// What is to be done, in the order in which it was found.
    pub(super) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    #[cfg(test)]
    pub(super) fn actions(&self) -> &[Action] {
        &self.actions
    }

    pub(super) const fn action_count(&self) -> usize {
        self.actions.len()
    }

    /// Has something done at that time.
    pub(super) fn at(&mut self, when: Instant, timer: Timer) {
        self.timers.add(when, timer);
    }

    /// When something is due.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Something that is due by now.
    pub(super) fn take_due(&mut self) -> Option<Timer> {
        self.timers.pop(self.now)
    }

    /// Has those looked at again soon that were held back and need not be any more.
    pub(super) fn go_on_soon(&mut self) {
        self.held_back.go_on_soon(&mut self.timers, self.now);
    }

    /// Has something done after a while.
    pub(super) fn after(&mut self, wait: Duration, timer: Timer) {
        self.timers.add(self.now + wait, timer);
    }

    /// Tells the engine, within the bounds of each namespace.
    pub(super) fn apply(&mut self, mut event: Event) {
        match &mut event {
            Event::Pod(record) => {
                let matches = self.scheduler.matches_in(record.key.namespace());
                self.bounds.enter(record, matches);
                if record.held_back.is_some() {
                    self.held_back.add(&record.key);
                }
            }
            Event::PodGone(key) => {
                self.bounds.leave(key);
                self.held_back.may_go_on(key.namespace());
            }
            _ => {}
        }
        if let Err(problem) = self.scheduler.apply(event) {
            tracing::warn!("{problem}");
        }
    }

    /// Whether shares are handed to their containers.
    pub(super) const fn hands_off(&self) -> bool {
        self.scheduler.config().hand_off.is_some()
    }

    /// What keeps isolated shares to their part.
    pub(super) const fn isolation(&self) -> Option<&Isolation> {
        self.settings.isolation.as_ref()
    }

    pub(super) fn node(&self, name: &str) -> Option<&Node> {
        let ledger = self.scheduler.ledger();
        ledger.node(ledger.find(name)?)
    }

    /// The node on which a pod holds something.
    pub(super) fn node_of(&self, key: &ObjectKey) -> Option<&Node> {
        self.scheduler.ledger().node(self.scheduler.holding(key)?.node)
    }
}
