//! One pod: where it is or would go, or why it waits, what comes nearest, and what to do.

mod advice;
mod text;
mod workload;

pub use text::explanation_text;
pub use workload::{WorkloadExplanation, explain_workload, workload_text};

use crate::API_VERSION;
use crate::amount::Amount;
use crate::cards::{CardGrant, NodeCards, grants};
use crate::repartition::Repartition;
use crate::simulation::UNKNOWN_NODE;
use crate::slices::{self, SliceHolders};
use crate::stranded::ShareSizes;
use crate::top::queue_of;
use divvy_engine::{Diagnosis, Missing, Nearest, ObjectKey, Scheduler, Standing};
use divvy_ledger::{Bytes, Node, Request};
use serde::Serialize;

/// How one pod stands, and why.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation<'a> {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `Explanation`.
    pub kind: &'static str,
    /// What configs that are rehearsed make of the nodes.
    #[serde(flatten)]
    pub repartition: Repartition,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// How it stands.
    pub state: ExplainedState,
    /// Where it is or would go.
    pub node: Option<&'a str>,
    /// Its cards there.
    pub cards: Vec<CardGrant>,
    /// Why it waits, in one line: the closest reason.
    pub reason: Option<String>,
    /// Why it waits, in one line: all reasons, as in the pod's event and condition.
    pub message: Option<String>,
    /// Why it waits, by node; the reason that came closest first.
    pub reasons: Vec<NodesByReason>,
    /// The node that lacks least.
    pub nearest: Option<NearestFit>,
    /// Pods that waited too, had their turn before it, and were placed in this rehearsal.
    pub placed_first: Vec<String>,
    /// Whether its deletion was asked: it holds its place until it has ended.
    pub terminating: bool,
    /// What it has to know about what it asks.
    pub note: Option<String>,
    /// What to do about it.
    pub next: Option<String>,
    /// Who places it, if that is not divvy.
    pub scheduler: Option<String>,
    /// Whether it runs there already.
    #[serde(skip)]
    pub already_bound: bool,
    /// What it asks of GPUs, if that is known.
    #[serde(skip)]
    pub request: Option<&'a Request>,
    /// The node that it is on, or the nearest one, with all its cards.
    #[serde(skip)]
    pub picture: Option<NodeCards<'a>>,
    /// Which of those cards it holds, or lacks something on.
    #[serde(skip)]
    pub pictured: Vec<u32>,
    /// The slices that it holds, and where they are, in words.
    #[serde(skip)]
    pub slices: Option<String>,
}

/// How a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ExplainedState {
    /// It has a place.
    Placed,
    /// It waits.
    Pending,
    /// It is bound to a node that is not in the cluster.
    UnknownNode,
    /// It waits for a scheduler that is not divvy.
    OtherScheduler,
}

/// Nodes that refuse for the same reason.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodesByReason {
    /// A stable name.
    pub reason: &'static str,
    /// How many; 0 if the reason is the pod's own.
    pub nodes: usize,
    /// Their names, sorted.
    pub node_names: Vec<String>,
    /// The sentence.
    pub message: String,
}

/// The node that lacks least.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NearestFit {
    /// The node.
    pub node: String,
    /// The card, if one card decides.
    pub card: Option<u32>,
    /// What is missing there, with its unit.
    pub missing: String,
    /// The same in bytes, if it is memory of a known size.
    pub missing_bytes: Option<u64>,
    /// Who would have to end; none if that alone would not do.
    pub holders: Vec<MustEnd>,
    /// Whether what is missing is one thing or several.
    #[serde(skip)]
    pub(crate) plural: bool,
}

/// A pod that holds what another waits for.
#[derive(Clone, Debug, Serialize)]
pub struct MustEnd {
    /// `namespace/name`.
    pub pod: String,
    /// How much it holds there of what is missing, if that is memory of a known size.
    pub bytes: Option<u64>,
    /// The same, with its unit.
    #[serde(skip)]
    pub(crate) amount: String,
}

/// How a pod stands on the cluster as it is now; `None` if there is no such pod. `already_bound`
/// says whether a place that it holds was its own before this rehearsal.
pub fn explain<'a>(
    scheduler: &'a Scheduler,
    key: &ObjectKey,
    already_bound: bool,
) -> Option<Explanation<'a>> {
    let standing = scheduler.standing(key)?;
    let request = scheduler.request(key);
    let node = scheduler.holding(key).map(|holding| holding.node);
    let facts = scheduler.pod_facts(key);
    let turns = request.and_then(|request| slices::note(scheduler, request, node));
    let queue = facts.and_then(|facts| queue_of(facts.labels)).map(|queue| {
        format!("it is in queue {queue}, which is shown and counted; quotas of queues are not enforced yet")
    });
    let notes: Vec<String> = turns.into_iter().chain(queue).collect();
    let note = (!notes.is_empty()).then(|| notes.join(". "));
    let terminating = facts.is_some_and(|facts| facts.terminating);
    let mut explanation =
        Explanation { already_bound, request, note, terminating, ..Explanation::of(key) };
    match standing {
        Standing::Placed(_) => {
            let holding = scheduler.holding(key)?;
            explanation.node = scheduler.ledger().node(holding.node).map(|n| &**n.name());
            explanation.cards = grants(scheduler, holding);
            explanation.pictured = explanation.cards.iter().map(|c| c.index).collect();
            explanation.slices = slices::held_in_words(scheduler, holding);
            explanation.picture = explanation.node.and_then(|node| picture(scheduler, node));
        }
        Standing::Waiting(diagnosis) => {
            explanation.state = ExplainedState::Pending;
            explanation.reason = Some(diagnosis.headline());
            explanation.message = Some(diagnosis.sentence(scheduler.node_count()));
            explanation.reasons = reasons(&diagnosis);
            explanation.next = advice::next_step(scheduler, key, request, &diagnosis);
            if let Some(nearest) = diagnosis.nearest {
                // A trial takes back what it does, but whoever only looks has lent nothing to change.
                let (nearest, must_end) = scheduler.clone().who_must_end(key, nearest);
                explanation.pictured = nearest.card.into_iter().collect();
                explanation.picture = picture(scheduler, &nearest.node);
                explanation.nearest = Some(nearest_fit(scheduler, &nearest, &must_end));
            }
        }
        Standing::Astray => {
            explanation.state = ExplainedState::UnknownNode;
            explanation.reason = Some(UNKNOWN_NODE.to_owned());
            explanation.message = Some(UNKNOWN_NODE.to_owned());
            explanation.reasons = vec![NodesByReason {
                reason: "UnknownNode",
                nodes: 0,
                node_names: Vec::new(),
                message: UNKNOWN_NODE.to_owned(),
            }];
            explanation.next = Some(advice::find_node(key));
        }
    }
    Some(explanation)
}

impl Explanation<'_> {
    /// A pod of which nothing more is known.
    fn of(key: &ObjectKey) -> Self {
        Self {
            api_version: API_VERSION,
            kind: "Explanation",
            repartition: Repartition::default(),
            namespace: key.namespace().to_owned(),
            name: key.name().to_owned(),
            state: ExplainedState::Placed,
            node: None,
            cards: Vec::new(),
            reason: None,
            message: None,
            reasons: Vec::new(),
            nearest: None,
            placed_first: Vec::new(),
            terminating: false,
            note: None,
            next: None,
            scheduler: None,
            already_bound: false,
            request: None,
            picture: None,
            pictured: Vec::new(),
            slices: None,
        }
    }

    /// Enters which of these pods, placed in this rehearsal, took what there was before it came to
    /// this one: those with a GPU, if it asks for one.
    pub fn enter_placed(&mut self, scheduler: &Scheduler, key: &ObjectKey, placed: &[ObjectKey]) {
        let asks_gpu = self.request.is_some_and(|request| !request.is_none());
        let is_rival = |pod: &&ObjectKey| {
            let request = scheduler.request(pod);
            scheduler.is_before(pod, key) && (!asks_gpu || request.is_some_and(|r| !r.is_none()))
        };
        self.placed_first = placed.iter().filter(is_rival).map(ToString::to_string).collect();
    }

    /// A pod that waits for another scheduler, and what to do if it should not.
    pub fn of_another(key: &ObjectKey, scheduler: &str, next: String) -> Self {
        let message = format!("scheduled by {scheduler}, not by divvy");
        Self {
            state: ExplainedState::OtherScheduler,
            reason: Some(message.clone()),
            message: Some(message),
            next: Some(next),
            scheduler: Some(scheduler.to_owned()),
            ..Self::of(key)
        }
    }
}

fn reasons(diagnosis: &Diagnosis) -> Vec<NodesByReason> {
    let refusals = diagnosis.refusals.iter().map(|refusals| NodesByReason {
        reason: refusals.reason.name(),
        nodes: refusals.nodes.len(),
        node_names: refusals.nodes.iter().map(ToString::to_string).collect(),
        message: refusals.reason.to_string(),
    });
    refusals.collect()
}

/// A node with its cards.
fn picture<'a>(scheduler: &'a Scheduler, node: &str) -> Option<NodeCards<'a>> {
    let id = scheduler.ledger().find(node)?;
    let holders = SliceHolders::of(scheduler);
    NodeCards::of(scheduler, id, &mut ShareSizes::held(scheduler), &holders)
}

fn nearest_fit(
    scheduler: &Scheduler,
    nearest: &Nearest,
    must_end: &[(ObjectKey, Missing)],
) -> NearestFit {
    let ledger = scheduler.ledger();
    let node = ledger.find(&nearest.node).and_then(|id| ledger.node(id));
    let card = node.map_or(Bytes(0), Node::card_size);
    let known = node.is_none_or(Node::knows_card_memory);
    let amount = |size| Amount::new(size, card, known);
    let memory = |size| Amount::new(size, size, true).rounded_up();
    let missing = match &nearest.missing {
        Missing::Share(bytes) => amount(*bytes).rounded_up(),
        Missing::Memory(bytes) => format!("{} memory", memory(*bytes)),
        Missing::Ephemeral(bytes) => format!("{} ephemeral storage", memory(*bytes)),
        other @ (Missing::Compute(_)
        | Missing::Cards(_)
        | Missing::Cpu(_)
        | Missing::Extended(..)
        | Missing::PodSlots(_)) => other.to_string(),
    };
    let bytes = |missing: &Missing| match missing {
        Missing::Share(bytes) => amount(*bytes).bytes(),
        Missing::Memory(bytes) | Missing::Ephemeral(bytes) => Some(bytes.0),
        Missing::Compute(_)
        | Missing::Cards(_)
        | Missing::Cpu(_)
        | Missing::Extended(..)
        | Missing::PodSlots(_) => None,
    };
    let text = |has: &Missing| match has {
        Missing::Share(bytes) => amount(*bytes).to_string(),
        other => other.to_string(),
    };
    let holders = must_end.iter();
    NearestFit {
        node: nearest.node.to_string(),
        card: nearest.card,
        missing,
        missing_bytes: bytes(&nearest.missing),
        holders: holders
            .map(|(pod, has)| MustEnd {
                pod: pod.to_string(),
                bytes: bytes(has),
                amount: text(has),
            })
            .collect(),
        plural: matches!(nearest.missing, Missing::Cards(n) | Missing::PodSlots(n) if n > 1),
    }
}

#[cfg(test)]
mod tests;
