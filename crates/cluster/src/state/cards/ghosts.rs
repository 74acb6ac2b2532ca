//! Pods that vanished while their containers may still run, deleted by force or with their node:
//! what they had of cards stays theirs for a while. It is written on the reservations of these
//! cards, for whoever leads next.
//!
//! Whoever makes pods vanish does not get more by it: beyond a few, nothing is given to the
//! namespace until some of its ghosts are gone.

use super::reserved::Reservations;
use super::wanted::Wanted;
use crate::objects::PodItem;
use crate::place::Place;
use crate::state::context::Context;
use crate::state::timers::Timer;
use divvy_engine::{Bound, BoundCards, Event, ObjectKey, PodRecord, PodSpec};
use divvy_ledger::{CardShare, Holder, Holding, Request};
use divvy_words::ghosts::{self, Ghost};
use divvy_words::{MAX_GRACE_PERIOD, keys};
use foldhash::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long containers have to end if the pod does not say.
const USUAL_GRACE: u32 = 30;
/// No pod is waited for longer, whatever it asks.
const LONGEST_GRACE: u32 = 24 * 3600;
/// So many cards may ghosts of a namespace have, whole or in part, before nothing is given to it.
const PER_NAMESPACE: usize = 8;

/// What is left of pods.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    all: BTreeMap<ObjectKey, GhostCards>,
    /// How long the containers of bound pods with GPUs have to end, where that is not the usual time.
    graces: HashMap<ObjectKey, u32>,
}

#[derive(Debug)]
struct GhostCards {
    /// Of each card, its bytes are those of the card.
    ghost: Ghost,
    node: Box<str>,
    cards: Vec<CardShare>,
}

impl Ghosts {
    /// A pod with GPUs is bound.
    pub(super) fn seen(&mut self, key: &ObjectKey, pod: &PodItem) {
        let asked =
            [pod.spec.termination_grace_period_seconds, pod.metadata.deletion_grace_period_seconds];
        let grace = asked.into_iter().flatten().max();
        let grace =
            grace.map_or(USUAL_GRACE, |seconds| u32::try_from(seconds.max(0)).unwrap_or(u32::MAX));
        // A deletion that was forced says 0 at last, and cuts nothing short that has begun before.
        let grace = self.graces.get(key).map_or(grace, |known| grace.max(*known));
        if grace != USUAL_GRACE {
            self.graces.insert(key.clone(), grace);
        }
    }

    /// A pod has ended, or another one of that name has its own time to.
    pub(super) fn forget_grace(&mut self, key: &ObjectKey) {
        self.graces.remove(key);
    }

    /// Keeps the cards of a pod that was taken out of the API while its containers may still run. What
    /// the engine is to be told.
    pub(super) fn quarantine(&mut self, key: &ObjectKey, cx: &mut Context) -> Vec<Event> {
        let Some((node, request, cards, bound)) = left_by(key, cx) else { return Vec::new() };
        let grace = self.graces.get(key).map_or(USUAL_GRACE, |grace| *grace);
        // Whoever may force the end of a share has waited for its node. Whole-GPU pods can be made to
        // vanish by anybody, and the kubelet gives their cards on at once, whatever is kept here.
        let longest = if request.whole_cards() > 0 { MAX_GRACE_PERIOD } else { LONGEST_GRACE };
        let wait = Duration::from_secs(grace.min(longest).into()) + cx.settings.quarantine;
        let part = request.part();
        let class = part.and_then(|part| Some(cx.isolation()?.recorded_as(part.class)));
        let ghost = Ghost {
            compute: part.map(|part| part.compute).unwrap_or_default(),
            class: class.unwrap_or_default().into(),
            namespace: key.namespace().into(),
            name: key.name().into(),
            uid: cx.scheduler.uid(key).unwrap_or_default().into(),
            bytes: cards.first().map(|card| card.bytes).unwrap_or_default(),
            // Both of what the clock is made of are whole seconds, and it must not be early.
            until: cx.settings.clock.unix(cx.now + wait) + 2,
        };
        tracing::info!(pod = %key, %node, seconds = wait.as_secs(),
            "vanished without ending: its cards stay closed for a while");
        let ghost =
            self.enter(GhostCards { ghost, node, cards }, request, bound, cx.now + wait, cx);
        vec![Event::PodGone(key.clone()), ghost]
    }

    fn enter(
        &mut self,
        left: GhostCards,
        request: Request,
        cards: BoundCards,
        until: Instant,
        cx: &mut Context,
    ) -> Event {
        let key = left.ghost.key();
        let record = PodRecord {
            key: key.clone(),
            uid: left.ghost.uid.clone(),
            spec: PodSpec { request, holder: Holder::Ghost, ..PodSpec::default() },
            bound: Some(Bound { terminating: true, ..Bound::new(&*left.node, cards) }),
            ..PodRecord::default()
        };
        self.all.insert(key.clone(), left);
        cx.at(until, Timer::GhostGone(key));
        Event::Pod(Box::new(record))
    }

    /// The ghosts that a reservation pod tells of, from before this process led: what the engine is to
    /// be told.
    pub(super) fn restore(&mut self, pod: &PodItem, index: u32, cx: &mut Context) -> Vec<Event> {
        let mut events = Vec::new();
        let Some(text) = pod.metadata.annotations.get(keys::GHOSTS) else { return events };
        for ghost in ghosts::parse(text) {
            let until = cx.settings.clock.instant(ghost.until, cx.now);
            let known = self.all.get(&ghost.key()).map_or(&[][..], |left| &left.cards);
            if until <= cx.now || known.iter().any(|card| card.index == index) {
                continue;
            }
            // One of several cards is told by each of their reservations.
            let card = CardShare { index, bytes: ghost.bytes };
            let cards: Vec<CardShare> = known.iter().copied().chain([card]).collect();
            let count = u32::try_from(cards.len()).unwrap_or(u32::MAX);
            let request = Request::share(count, ghost.part(cx.isolation()));
            let node = pod.node().unwrap_or_default().into();
            let bound = BoundCards::Named(cards.clone());
            events.push(self.enter(GhostCards { ghost, node, cards }, request, bound, until, cx));
        }
        events
    }

    /// The time of a ghost is over. Whether there was one.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> bool {
        self.all.remove(key).is_some()
    }

    /// Has what is left on cards of a node written on their reservations.
    pub(super) fn write_down(&self, node: &str, reservations: &Reservations, wanted: &mut Wanted) {
        let here: Vec<&GhostCards> = self.all.values().filter(|left| *left.node == *node).collect();
        // One that nobody has seen yet may not be there.
        for (key, made) in reservations.of(node).filter(|(_, made)| !made.uid.is_empty()) {
            let place = Place::Ghosts(key.clone());
            if here.is_empty() && !wanted.contains(&place) {
                continue;
            }
            let ghost = |left: &&GhostCards| {
                let card = left.cards.iter().find(|card| card.index == made.index)?;
                Some(Ghost { bytes: card.bytes, ..left.ghost.clone() })
            };
            let text = ghosts::print(&here.iter().filter_map(ghost).collect::<Vec<_>>());
            wanted.want(place, (!text.is_empty()).then(|| text.into()));
        }
    }

    /// Why nothing is given to a pod, if ghosts of its namespace are the reason. What was on a node that
    /// is gone takes nothing from anybody.
    pub(super) fn haunted(
        &self,
        key: &ObjectKey,
        request: &Request,
        is_there: impl Fn(&str) -> bool,
    ) -> Option<Arc<str>> {
        let namespace = key.namespace();
        let mut count = 0;
        if !request.is_none() && !self.all.is_empty() {
            let of_it = |left: &&GhostCards| *left.ghost.namespace == *namespace;
            let here = self.all.values().filter(of_it).filter(|left| is_there(&left.node));
            // Of replicas only the number of pods is known.
            count = here.map(|left| left.cards.len().max(1)).sum();
        }
        (count >= PER_NAMESPACE).then(|| {
            format!(
                "pods of namespace {namespace} were deleted by force while their containers may run on {count} cards: \
                 until they must have ended, no more GPUs are given to it"
            )
            .into()
        })
    }

    /// Pods that vanished, and whose cards are not free yet.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }
}

/// What a bound pod has of cards, and where: what it holds, or what its record says where that could
/// not be entered, as on a node that is not there.
fn left_by(
    key: &ObjectKey,
    cx: &Context,
) -> Option<(Box<str>, Request, Vec<CardShare>, BoundCards)> {
    if let Some(PodRecord { spec, bound: Some(bound), .. }) = cx.scheduler.unentered(key) {
        if bound.cards == BoundCards::Nothing {
            return None;
        }
        let cards = bound.cards.shares().to_vec();
        let node = bound.node.as_str().into();
        return Some((node, spec.request.clone(), cards, bound.cards.clone())).filter(
            |(_, request, _, cards)| request.asks_cards() || *cards == BoundCards::Unknown,
        );
    }
    // On a node with replicas only their number is known.
    let held = |h: &&Holding| !h.cards.is_empty() || h.needs.request.whole_cards() > 0 || h.unknown;
    let holding = cx.scheduler.holding(key).filter(held)?;
    let (request, cards) = (holding.needs.request.clone(), holding.cards.to_vec());
    let bound = match request.is_share() {
        _ if holding.unknown => BoundCards::Unknown,
        true => BoundCards::Named(cards.clone()),
        false => BoundCards::Choose,
    };
    Some(((&**cx.node_of(key)?.name()).into(), request, cards, bound))
}
