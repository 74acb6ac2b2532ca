//! What this process knows of the cluster, and what follows from each thing that it hears.
//!
//! Everything here is synchronous and owns no connection: news and outcomes of writes go in,
//! [`Action`]s come out, and time is an argument. Each part owns what it knows, and this file says
//! which part hears of what, in which order.
//!
//! ```text
//!   News (watches) ─► incoming ─┬────────────► engine ─► plan
//!                               ├─► bindings ◄───────────┤ bind ─► Bind, Provide, Look, Void
//!                               ├─► cards ◄── shares ────┘      ─► Reserve, Unreserve, Write, Warn
//!                               └─► told ◄── who waits, and why ─► Tell
//!   Outcome (writes), time ─► the part that asked for it
//! ```

mod action;
mod bindings;
mod cards;
mod context;
mod held_back;
mod incoming;
mod kai;
mod records;
mod timers;
mod told;

pub(crate) use action::{Action, Binding, Grant, HandOff, Outcome, Target};
pub(crate) use context::{Clock, StateSettings};

use bindings::{Answer, Bindings};
use cards::Cards;
use context::Context;
use divvy_engine::{Event, ObjectKey, Placement, PlanEffect, Scheduler, VolumeStep};
use divvy_words::isolation::Isolation;
use foldhash::HashMap;
use incoming::Incoming;
use std::time::Instant;
use timers::Timer;
use told::Told;

/// How many nodes are looked at in one go, each as often as it takes to judge it: some 20 ms.
const SLICE: u64 = 1 << 19;

/// The state of the cluster, and of what we are doing in it.
#[derive(Debug)]
pub(crate) struct State {
    cx: Context,
    incoming: Incoming,
    bindings: Bindings,
    cards: Cards,
    told: Told,
    is_cut_off: bool,
}

impl State {
    pub(crate) fn new(
        scheduler: Scheduler,
        settings: StateSettings,
        watches: impl Iterator<Item = &'static str>,
    ) -> Self {
        let classes = settings.isolation.as_ref().map(Isolation::class_names);
        let mut cx = Context::new(scheduler, settings);
        if let Some(classes) = classes {
            cx.apply(Event::Classes(classes));
        }
        Self {
            cx,
            incoming: Incoming::new(watches),
            bindings: Bindings::default(),
            cards: Cards::default(),
            told: Told::default(),
            is_cut_off: false,
        }
    }

    pub(crate) const fn scheduler(&self) -> &Scheduler {
        &self.cx.scheduler
    }

    /// Whether a watch has told all at least once.
    pub(crate) fn is_known(&self, watch: &str) -> bool {
        self.incoming.is_known(watch)
    }

    /// Whether all is known that pods may refer to.
    pub(crate) fn takes_pods(&self) -> bool {
        self.incoming.takes_pods()
    }

    /// Whether every watch has told all at least once.
    pub(crate) fn is_listed(&self) -> bool {
        self.incoming.is_listed()
    }

    /// How many bindings are on their way.
    pub(crate) const fn writing(&self) -> usize {
        self.bindings.writing()
    }

    /// When pods that have been bound since somebody looked were created, in seconds since 1970.
    pub(crate) fn take_bound(&mut self) -> Vec<i64> {
        self.bindings.take_bound()
    }

    /// How many pods wait for which reason.
    pub(crate) fn reasons(&self) -> HashMap<&'static str, usize> {
        self.told.reasons()
    }

    /// Cards that are shared and given to another pod, and such that are missing.
    pub(crate) fn troubled_cards(&self) -> (usize, usize) {
        self.cards.troubled()
    }

    /// Pods that vanished, and whose cards are not free yet.
    pub(crate) fn ghost_count(&self) -> usize {
        self.cards.ghost_count()
    }

    /// What is to be done.
    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        self.cx.take_actions()
    }

    /// Whether an action that had to wait for its turn is still to be done.
    pub(crate) fn is_due(&mut self, action: &mut Action) -> bool {
        self.told.is_due(action, &self.bindings)
    }

    /// Decides what fits, as far as there are writers for it, and only for so long that whoever
    /// has something else to tell is heard in between.
    pub(crate) fn pass(&mut self, now: Instant) {
        if !self.is_listed() {
            return;
        }
        self.cx.now = now;
        self.adopt();
        self.cx.go_on_soon();
        self.cards.settle(&mut self.bindings, &mut self.cx);
        self.cards.write(&mut self.cx);
        self.bindings.provide(&self.cards, &mut self.cx);
        self.place();
        self.told.tell_new(&self.bindings, &mut self.cx);
    }

    fn place(&mut self) {
        let (writes, mut work) = (self.cx.settings.writes, SLICE);
        while self.writing() < writes && work > 0 {
            let plan = self.cx.scheduler.slice(writes - self.writing(), &mut work);
            if plan.units.is_empty() && work > 0 {
                // Only now: a reservation that nobody used may have found its share.
                self.cards.return_cards(&mut self.cx);
                break;
            }
            for effect in plan.into_effects() {
                match effect {
                    // Cards that nobody keeps are asked for with the binding, whoever opened them.
                    PlanEffect::Open { .. } => {}
                    PlanEffect::Bind { pod, placement, volumes } => {
                        self.bind(pod, placement, volumes);
                    }
                    PlanEffect::Report { pod } => self.told.waits(pod),
                }
            }
        }
        self.is_cut_off = work == 0;
    }

    fn bind(&mut self, key: ObjectKey, placement: Placement, volumes: Vec<VolumeStep>) {
        let Some(waiting) = self.bindings.get(&key) else {
            // Not ours any more: what was assumed is undone.
            return self.apply(Event::PodGone(key));
        };
        let (version, uid) = (waiting.version.clone(), waiting.uid.clone());
        let asks_as_koordinators = waiting.asks_as_koordinators;
        let pod = Target { key, uid };
        let request = self.cx.scheduler.request(&pod.key).cloned().unwrap_or_default();
        if self.cards.haunted(&pod.key, &request).is_some() {
            // Since it was last looked at; now it is held back.
            self.apply(Event::PodGone(pod.key.clone()));
            return self.cx.act(Action::Look { pod });
        }
        let grant = match request.is_share() {
            true if self.cx.hands_off() => Grant::HandOff(None),
            true => Grant::Indexes,
            false => Grant::Nothing,
        };
        let limits = self.cards.limits(&placement, &request, &self.cx);
        let binding =
            Binding { pod, version, placement, grant, limits, asks_as_koordinators, volumes };
        self.bindings.begin(binding, &mut self.cards, &mut self.cx);
    }

    /// Whether the last pass was cut off so that others have their turn, and has to go on.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_listed() && (self.is_cut_off || self.told.is_behind())
    }

    /// Brings what is said on waiting pods up to date, a little each second.
    pub(crate) fn refresh(&mut self, now: Instant) {
        if self.is_listed() {
            self.cx.now = now;
            self.told.refresh(&self.bindings, &mut self.cx);
        }
    }

    /// Takes in what became of an action.
    pub(crate) fn outcome(&mut self, outcome: Outcome, now: Instant) {
        self.cx.now = now;
        let Self { cx, bindings, cards, told, .. } = self;
        match outcome {
            Outcome::Bound { pod, node, result } => {
                if result.is_ok() {
                    told.bound(&pod);
                }
                bindings.written(pod, node, result, cx);
            }
            Outcome::Provided { pod, result } => bindings.provided(&pod, result, cards, cx),
            Outcome::Told { pod, told_on, result } => {
                told.written(&pod, &told_on, result, bindings);
            }
            Outcome::Looked { pod, text, tries, result } => {
                let key = pod.key.clone();
                match bindings.looked(pod, text, tries, result, cx) {
                    Answer::Nothing => {}
                    Answer::Gone => self.forget(&key),
                    Answer::Pod { pod, said, unbound } => {
                        if let Some(text) = said {
                            told.voided(&key, text);
                        }
                        if unbound {
                            self.apply(Event::PodGone(key));
                        }
                        self.pod_seen(&pod);
                    }
                }
            }
            Outcome::Reserved { key, result } => cards.reserved(key, result, bindings, cx),
            Outcome::Unreserved { key, uid, result } => {
                cards.unreserved(key, uid, &result, cx);
            }
            Outcome::Written { place, text, result } => {
                cards.written(place, text, result, cx);
            }
        }
    }

    /// When something is due.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.cx.next_timer()
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.cx.now = now;
        let Self { cx, bindings, cards, .. } = self;
        while let Some(timer) = cx.take_due() {
            match timer {
                Timer::TryAgain(pod) => bindings.try_again(pod, cx),
                Timer::VoidAgain { pod, text, tries } => bindings.void_again(pod, text, tries, cx),
                Timer::NotProvided(pod) => bindings.may_be_late(&pod, cx),
                Timer::HeldBack(namespace) => {
                    let pods = cx.held_back.take_some(&namespace);
                    bindings.look_at(pods, cx);
                }
                Timer::NotReserved(key) => cards.reservation_is_late(&key, bindings, cx),
                Timer::ReserveAgain(key) => cards.reserve_again(key, cx),
                Timer::UnreserveAgain { key, uid } => cards.unreserve_again(key, uid, cx),
                Timer::Unseen => cards.seek_unseen(cx),
                Timer::LookAtCards(node) => cards.unsettle(&node),
                Timer::Adopt => cards.look_for_strangers(),
                Timer::GhostGone(ghost) => cards.ghost_gone(&ghost, cx),
                Timer::WriteAgain(place) => cards.write_again(&place),
            }
        }
    }
}

#[cfg(test)]
mod tests;
