//! Bindings under way: pods of ours from when they are seen until the API shows them bound.
//!
//! ```text
//!   waits ─► placed ─► its claims are bound, its cards held ─► Bind ─┬─► bound
//!     ▲                       └─► not in time, or lost ──────────────┴─► failed ─► Look / Void
//!     └───────────────── it is certain that it was not bound ────────────────────────┘
//! ```

mod failures;

use super::action::{Action, Binding, Grant, Target};
use super::cards::Cards;
use super::context::Context;
use super::timers::Timer;
use crate::objects::PodItem;
use divvy_api::Failure;
use divvy_api::watch::Item;
use divvy_engine::{ObjectKey, PodRecord};
use divvy_ledger::{Card, CardShare, Request};
use divvy_words::PodGroups;
use failures::{Blame, Failures};
use foldhash::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A pod of ours that is not bound, as far as we heard.
#[derive(Debug)]
pub(super) struct WaitingPod {
    pub(super) uid: Box<str>,
    pub(super) version: Box<str>,
    created: i64,
    /// The pod groups that it names.
    groups: Vec<Box<str>>,
    /// Whether it asks for GPUs in Koordinator's way.
    pub(super) asks_as_koordinators: bool,
    stage: Stage,
}

/// How far a pod is that is not bound, as far as we heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing is assumed of it.
    #[default]
    Waits,
    /// It has a place, and its binding can be done any moment, or was.
    Placed,
    /// Its binding was not done because the pod had changed: any look at it tells how.
    Changed,
    /// Its binding failed and may yet be done: [`Action::Void`] is to make it void.
    Failed,
}

impl WaitingPod {
    /// Whether a binding of it may be done any moment, or was.
    pub(super) fn has_place(&self) -> bool {
        self.stage != Stage::Waits
    }
}

/// A pod that has a place, and whose claims are not all bound yet, or its cards not all held.
#[derive(Debug)]
struct Providing {
    binding: Binding,
    /// Whether what has to be written for its claims is written.
    written: bool,
    /// Until when its claims have to be bound.
    until: Instant,
}

/// What a look at a pod says.
pub(super) enum Answer {
    /// It is gone, or there is another one of that name.
    Gone,
    /// This is how it is, and what has been said on it, if that was written now; `unbound` if what
    /// was assumed of it is to be undone.
    Pod { pod: Box<PodItem>, said: Option<Arc<str>>, unbound: bool },
    /// Nothing that is of use.
    Nothing,
}

/// How long claims may take to be bound, as kube-scheduler waits.
const PATIENCE: Duration = Duration::from_secs(600);
/// When to look again at a pod that could not be looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// All pods of ours that are not bound, as far as we heard.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    waiting: HashMap<ObjectKey, WaitingPod>,
    failures: HashMap<ObjectKey, Failures>,
    providing: HashMap<ObjectKey, Providing>,
    /// Whether something has changed that these may wait for.
    look_again: bool,
    /// How many bindings are being written.
    writing: usize,
    /// When pods that have been bound since somebody looked were created, in seconds since 1970.
    bound_after: Vec<i64>,
}

impl Bindings {
    /// Takes in a pod that waits; its record says what went wrong with it before.
    pub(super) fn seen(&mut self, pod: &PodItem, record: &mut PodRecord, cx: &Context) {
        let (key, uid) = (record.key.clone(), pod.metadata.uid.clone());
        if let Some(failures) = self.failures.get(&key).filter(|f| f.uid == uid) {
            record.paused = failures.paused(cx.now);
            Arc::make_mut(&mut record.spec.rules).avoid = failures.avoid(cx.now);
        } else {
            self.failures.remove(&key);
        }
        let known = self.waiting.remove(&key).filter(|known| known.uid == uid);
        let waiting = WaitingPod {
            uid,
            version: pod.metadata.resource_version.clone(),
            created: record.created,
            groups: PodGroups::named_by(&pod.metadata, &pod.spec).map(Into::into).collect(),
            asks_as_koordinators: divvy_words::asks_as_koordinators(&pod.spec),
            stage: known.map_or(Stage::Waits, |known| known.stage),
        };
        self.waiting.insert(key, waiting);
    }

    /// A pod is bound, as the API shows.
    pub(super) fn bound(&mut self, key: &ObjectKey) {
        let placed = self.waiting.get(key).filter(|waiting| waiting.has_place());
        self.bound_after.extend(placed.map(|waiting| waiting.created));
    }

    /// A pod does not wait for us any more.
    pub(super) fn stop(&mut self, key: &ObjectKey, cx: &mut Context) {
        self.waiting.remove(key);
        self.failures.remove(key);
        self.providing.remove(key);
        cx.held_back.remove(key);
    }

    /// When pods that have been bound since somebody looked were created, in seconds since 1970.
    pub(super) fn take_bound(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.bound_after)
    }

    /// How many bindings are on their way.
    pub(super) const fn writing(&self) -> usize {
        self.writing
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&WaitingPod> {
        self.waiting.get(key)
    }

    /// What is known of this pod, if it still waits.
    fn current(&mut self, pod: &Target) -> Option<&mut WaitingPod> {
        self.waiting.get_mut(&pod.key).filter(|waiting| waiting.uid == pod.uid)
    }

    /// Something was written on a pod. If it was of this version then, nothing else is new.
    pub(super) fn rewritten(&mut self, pod: &Target, before: &str, version: Box<str>) {
        if let Some(waiting) = self.current(pod).filter(|waiting| *waiting.version == *before) {
            waiting.version = version;
        }
    }

    /// The pods that name a group.
    pub(super) fn members(&self, namespace: &str, group: &str) -> impl Iterator<Item = &ObjectKey> {
        let names = move |(key, waiting): &(&ObjectKey, &WaitingPod)| {
            key.namespace() == namespace && waiting.groups.iter().any(|named| **named == *group)
        };
        self.waiting.iter().filter(names).map(|(key, _)| key)
    }

    /// Whether a binding of this pod may be done any moment, whoever it belongs to now.
    pub(super) fn may_be_bound(&self, key: &ObjectKey, uid: &str) -> bool {
        let waiting = self.waiting.get(key).filter(|waiting| *waiting.uid == *uid);
        waiting.is_some_and(WaitingPod::has_place) && !self.providing.contains_key(key)
    }

    /// Looks at these pods, as far as they wait.
    pub(super) fn look_at(&self, pods: Vec<ObjectKey>, cx: &mut Context) {
        for key in pods {
            if let Some(waiting) = self.waiting.get(&key) {
                let pod = Target { key, uid: waiting.uid.clone() };
                cx.act(Action::Look { pod });
            }
        }
    }

    /// Something has changed that pods may wait for which have a place.
    pub(super) const fn look_again(&mut self) {
        self.look_again = true;
    }

    /// A pod has a place: binds it, or first its claims and its cards.
    pub(super) fn begin(&mut self, mut binding: Binding, cards: &mut Cards, cx: &mut Context) {
        let key = binding.pod.key.clone();
        if let Some(waiting) = self.waiting.get_mut(&key) {
            waiting.stage = Stage::Placed;
        }
        if matches!(binding.grant, Grant::HandOff(_)) {
            cards.reserve(&binding, cx);
        }
        if binding.volumes.is_empty()
            && cx.scheduler.claims_bound(&key) == Ok(true)
            && cards.hand_over(&mut binding, cx)
        {
            return self.write(binding, cx);
        }
        let pod = binding.pod.clone();
        let written = binding.volumes.is_empty();
        if !written {
            let (node, steps) = (binding.placement.node.clone(), binding.volumes.clone());
            cx.act(Action::Provide { pod: pod.clone(), node, steps });
        }
        cx.after(PATIENCE, Timer::NotProvided(pod));
        let until = cx.now + PATIENCE;
        self.providing.insert(key.clone(), Providing { binding, written, until });
        self.go_on(&key, cards, cx);
    }

    fn write(&mut self, binding: Binding, cx: &mut Context) {
        self.writing += 1;
        cx.act(Action::Bind(Box::new(binding)));
    }

    /// What became of [`Action::Provide`].
    pub(super) fn provided(
        &mut self,
        pod: &Target,
        result: Result<(), String>,
        cards: &Cards,
        cx: &mut Context,
    ) {
        let providing = self.providing.get_mut(&pod.key).filter(|p| p.binding.pod == *pod);
        let Some(providing) = providing else { return };
        match result {
            Ok(()) => providing.written = true,
            Err(why) => return self.not_provided(pod, &why, cx),
        }
        self.go_on(&pod.key, cards, cx);
    }

    /// Goes on with the pods that have all they wait for, if something has changed for them.
    pub(super) fn provide(&mut self, cards: &Cards, cx: &mut Context) {
        if !std::mem::take(&mut self.look_again) {
            return;
        }
        // There may be thousands that wait for something else.
        let is_due = |p: &Providing| p.written && is_provided(&p.binding, cards, cx) != Ok(false);
        let due = self.providing.iter().filter(|(_, p)| is_due(p)).map(|(key, _)| key.clone());
        for key in due.collect::<Vec<_>>() {
            self.go_on(&key, cards, cx);
        }
    }

    /// Goes on with a pod if it has all that it waits for, or cannot get it.
    fn go_on(&mut self, key: &ObjectKey, cards: &Cards, cx: &mut Context) {
        let Some(providing) = self.providing.get_mut(key).filter(|p| p.written) else { return };
        match is_provided(&providing.binding, cards, cx) {
            Ok(false) => {}
            Ok(true) => {
                if cards.hand_over(&mut providing.binding, cx)
                    && let Some(Providing { binding, .. }) = self.providing.remove(key)
                {
                    self.write(binding, cx);
                }
            }
            Err(why) => {
                let pod = providing.binding.pod.clone();
                self.not_provided(&pod, &why, cx);
            }
        }
    }

    /// The claims of a pod may not have been bound in time.
    pub(super) fn may_be_late(&mut self, pod: &Target, cx: &mut Context) {
        let late = |p: &Providing| p.binding.pod == *pod && p.until <= cx.now;
        if self.providing.get(&pod.key).is_some_and(late) {
            self.not_provided(pod, "its claims were not bound in time", cx);
        }
    }

    /// The pods that have a place on this card and wait until it is held.
    pub(super) fn waiting_for(&self, node: &str, index: u32) -> Vec<Target> {
        let is_here = |binding: &&Binding| {
            let mut cards = binding.placement.cards.iter();
            *binding.placement.node == *node
                && cards.any(|share| share.index == index)
                && matches!(binding.grant, Grant::HandOff(_))
        };
        let all = self.providing.values().map(|providing| &providing.binding);
        all.filter(is_here).map(|binding| binding.pod.clone()).collect()
    }

    /// A card is not to be had: whoever waits for it gives its place up.
    pub(super) fn card_lost(&mut self, node: &str, index: u32, why: &str, cx: &mut Context) {
        for pod in self.waiting_for(node, index) {
            self.not_provided(&pod, why, cx);
        }
    }

    /// Gives up a place for which the claims could not be bound, or a card not be held.
    fn not_provided(&mut self, pod: &Target, why: &str, cx: &mut Context) {
        let Some(Providing { binding, .. }) = self.providing.remove(&pod.key) else { return };
        let node = binding.placement.node;
        self.failed(pod, Blame::Node(&node), &format!("to {node}: {why}"), cx);
    }

    /// What became of [`Action::Bind`].
    pub(super) fn written(
        &mut self,
        pod: Target,
        node: Arc<str>,
        result: Result<(), Failure>,
        cx: &mut Context,
    ) {
        self.writing -= 1;
        let is_current = self.current(&pod).is_some();
        match result {
            Ok(()) => {
                // It is no longer waiting once the watch says so.
                if is_current {
                    self.failures.remove(&pod.key);
                }
                cx.act(Action::Announce { pod, node });
            }
            Err(failure) if is_current => {
                let why = format!("to {node}: {failure}");
                let blame = match failure {
                    Failure::Refused { .. } => Blame::Node(&node),
                    Failure::NotFound(_) | Failure::Conflict(_) => Blame::Version,
                    // Fenced: too close to the end of the lease, which may have been renewed since.
                    Failure::Expired(_)
                    | Failure::Busy { .. }
                    | Failure::Unreachable { .. }
                    | Failure::Unclear(_)
                    | Failure::Fenced => Blame::Nobody,
                };
                self.failed(&pod, blame, &why, cx);
            }
            Err(_) => {}
        }
    }

    /// Remembers that a pod could not be bound, and looks at it before it is tried again.
    fn failed(&mut self, pod: &Target, blame: Blame<'_>, why: &str, cx: &mut Context) {
        tracing::warn!(pod = %pod.key, why, "failed to bind");
        let has_changed = blame == Blame::Version;
        if let Some(waiting) = self.current(pod) {
            waiting.stage = if has_changed { Stage::Changed } else { Stage::Failed };
        }
        let failures = self.failures.entry(pod.key.clone());
        let failures = failures.or_insert_with(|| Failures::new(&pod.uid));
        if failures.uid != pod.uid {
            *failures = Failures::new(&pod.uid);
        }
        failures.add(blame, why, cx.now);
        if let Some(end) = failures.arm(cx.now) {
            cx.at(end, Timer::TryAgain(pod.clone()));
        }
        let pod = pod.clone();
        cx.act(if has_changed {
            Action::Look { pod }
        } else {
            Action::Void { pod, text: format!("binding failed: {why}").into(), tries: 0 }
        });
    }

    /// What became of [`Action::Look`] or [`Action::Void`].
    pub(super) fn looked(
        &mut self,
        pod: Target,
        text: Option<Arc<str>>,
        tries: u32,
        result: Result<Option<Box<PodItem>>, Failure>,
        cx: &mut Context,
    ) -> Answer {
        let Some(waiting) = self.current(&pod) else { return Answer::Nothing };
        let failed = matches!(waiting.stage, Stage::Changed | Stage::Failed);
        // Only the look that made a binding void can tell that it was not done.
        let certain = waiting.stage == Stage::Changed || failed && text.is_some();
        match result {
            // Of another pod of that name the watch will tell.
            Ok(found) if found.as_ref().is_none_or(|found| found.metadata.uid != pod.uid) => {
                return Answer::Gone;
            }
            Ok(None) => {}
            Ok(Some(found)) => {
                if certain {
                    waiting.stage = Stage::Changed;
                }
                if newer(&waiting.version, found.version()) {
                    cx.act(Action::Look { pod });
                    return Answer::Nothing;
                }
                let unbound = certain && found.node().is_none();
                if unbound {
                    // What was assumed is undone; then the pod is as new, with its failures.
                    waiting.stage = Stage::Waits;
                }
                return Answer::Pod { pod: found, said: text, unbound };
            }
            Err(failure) => {
                tracing::warn!(pod = %pod.key, why = %failure, "failed to look at a pod, will try again");
                if failed {
                    let tries = tries.saturating_add(1);
                    let text = text.unwrap_or_else(|| "binding failed".into());
                    let wait = Duration::from_secs(1 << tries.min(5));
                    cx.after(wait, Timer::VoidAgain { pod, text, tries });
                } else {
                    cx.after(LOOK_AGAIN, Timer::TryAgain(pod));
                }
            }
        }
        Answer::Nothing
    }

    /// A pause or an avoidance of a pod is over, or it could not be looked at.
    pub(super) fn try_again(&mut self, pod: Target, cx: &mut Context) {
        let is_held = cx.scheduler.holding(&pod.key).is_some();
        if self.current(&pod).is_some() && !is_held {
            cx.act(Action::Look { pod: pod.clone() });
        }
        let failures = self.failures.get_mut(&pod.key).filter(|f| f.uid == pod.uid);
        if let Some(end) = failures.and_then(|f| f.arm(cx.now)) {
            cx.at(end, Timer::TryAgain(pod));
        }
    }

    /// A binding could not be made void.
    pub(super) fn void_again(&mut self, pod: Target, text: Arc<str>, tries: u32, cx: &mut Context) {
        if self.current(&pod).is_some() {
            cx.act(Action::Void { pod, text, tries });
        }
    }

    #[cfg(test)]
    pub(super) fn is_providing(&self, key: &ObjectKey) -> bool {
        self.providing.contains_key(key)
    }
}

/// Whether a pod has all that its binding waits for, or why it will not get it.
fn is_provided(binding: &Binding, cards: &Cards, cx: &Context) -> Result<bool, String> {
    let key = &binding.pod.key;
    let Some(node) = cx.node_of(key).filter(|node| node.is_alive()) else {
        return Err("the node is gone".to_owned());
    };
    // What was seen since it was decided counts more: a pod that is bound has its card.
    let is_taken =
        |share: &CardShare| node.cards().get(share.index as usize).is_some_and(Card::is_disputed);
    if binding.placement.cards.iter().any(is_taken) {
        return Err("its card was given to another pod meanwhile".to_owned());
    }
    let part = cx.scheduler.request(key).and_then(Request::part);
    if part.is_some_and(|part| !node.capacity().gpus.offers(part.class)) {
        return Err("its isolation provider is not there any more".to_owned());
    }
    let is_bound = cx.scheduler.claims_bound(key).map_err(|why| why.to_string())?;
    Ok(is_bound && (!matches!(binding.grant, Grant::HandOff(_)) || cards.are_held(binding)))
}

/// Whether version `a` is newer than `b`. Versions are numbers, as long as nobody says otherwise.
fn newer(a: &str, b: &str) -> bool {
    let number = |version: &str| version.parse::<u128>().unwrap_or(0);
    number(a) > number(b)
}
