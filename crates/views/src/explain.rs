//! One pod: where it is or would go, or why it waits, what comes nearest, and what to do.

mod advice;
mod text;

pub use text::explanation_text;

use crate::API_VERSION;
use crate::amount::Amount;
use crate::cards::{CardGrant, NodeCards, grants};
use crate::simulation::UNKNOWN_NODE;
use crate::stranded::ShareSizes;
use divvy_engine::{Diagnosis, Missing, Nearest, PodKey, Scheduler, Standing};
use divvy_ledger::{Bytes, Card, CardState, Node, Request};
use serde::Serialize;

/// How one pod stands, and why.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation<'a> {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `Explanation`.
    pub kind: &'static str,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// How it stands.
    pub state: State,
    /// Where it is or would go.
    pub node: Option<&'a str>,
    /// Its cards there.
    pub cards: Vec<CardGrant>,
    /// Why it waits, in one line.
    pub reason: Option<String>,
    /// Why it waits, by node; the reason that came closest first.
    pub reasons: Vec<NodesByReason>,
    /// The node that lacks least.
    pub nearest: Option<NearestFit>,
    /// What to do about it.
    pub next: Option<String>,
    /// Whether it runs there already.
    #[serde(skip)]
    pub already_bound: bool,
    /// What it asks of GPUs, if that is known.
    #[serde(skip)]
    pub request: Option<Request>,
    /// The cards that it holds, or the nearest one, with all their holders.
    #[serde(skip)]
    pub picture: Option<NodeCards<'a>>,
}

/// How a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It has a place.
    Placed,
    /// It waits.
    Pending,
    /// It is bound to a node that is not in the cluster.
    UnknownNode,
}

/// Nodes that refuse for the same reason.
#[derive(Clone, Debug, Serialize)]
pub struct NodesByReason {
    /// A stable name.
    pub reason: &'static str,
    /// Their names, sorted; none if the reason is the pod's own.
    pub nodes: Vec<String>,
    /// The sentence.
    pub message: String,
}

/// The node that lacks least.
#[derive(Clone, Debug, Serialize)]
pub struct NearestFit {
    /// The node.
    pub node: String,
    /// The card, if one card decides.
    pub card: Option<u32>,
    /// What is missing there, with its unit.
    pub missing: String,
    /// Who would have to end.
    pub holders: Vec<Holder>,
    /// Whether what is missing is one thing or several.
    #[serde(skip)]
    pub(crate) plural: bool,
}

/// A pod that holds what another waits for.
#[derive(Clone, Debug, Serialize)]
pub struct Holder {
    /// `namespace/name`.
    pub pod: String,
    /// How much it holds there.
    pub bytes: Amount,
}

/// How a pod stands on the cluster as it is now; `None` if there is no such pod. `already_bound`
/// says whether a place that it holds was its own before this rehearsal.
pub fn explain<'a>(
    scheduler: &'a Scheduler,
    key: &PodKey,
    already_bound: bool,
) -> Option<Explanation<'a>> {
    let standing = scheduler.standing(key)?;
    let request = scheduler.request(key);
    let mut explanation = Explanation {
        api_version: API_VERSION,
        kind: "Explanation",
        namespace: key.namespace().to_owned(),
        name: key.name().to_owned(),
        state: State::Placed,
        node: None,
        cards: Vec::new(),
        reason: None,
        reasons: Vec::new(),
        nearest: None,
        next: None,
        already_bound,
        request,
        picture: None,
    };
    match standing {
        Standing::Placed(_) => {
            let holding = scheduler.holding(key)?;
            explanation.node = scheduler.ledger().node(holding.node).map(|n| &**n.name());
            explanation.cards = grants(scheduler, holding);
            let cards: Vec<u32> = explanation.cards.iter().map(|c| c.index).collect();
            explanation.picture = picture(scheduler, explanation.node, &cards);
        }
        Standing::Waiting(diagnosis) => {
            explanation.state = State::Pending;
            explanation.reason = Some(diagnosis.headline());
            explanation.reasons = reasons(&diagnosis);
            explanation.next = advice::next_step(scheduler, request, &diagnosis);
            if let Some(nearest) = &diagnosis.nearest {
                let node = scheduler.ledger().find(&nearest.node);
                let node = node.and_then(|id| scheduler.ledger().node(id));
                let cards: Vec<u32> = nearest.card.into_iter().collect();
                explanation.picture = picture(scheduler, node.map(|n| &**n.name()), &cards);
                explanation.nearest = Some(nearest_fit(scheduler, nearest));
            }
        }
        Standing::Astray => {
            explanation.state = State::UnknownNode;
            explanation.reason = Some(UNKNOWN_NODE.to_owned());
            explanation.next = Some(advice::find_node(key));
        }
    }
    Some(explanation)
}

fn reasons(diagnosis: &Diagnosis) -> Vec<NodesByReason> {
    let groups = diagnosis.groups.iter().map(|group| NodesByReason {
        reason: group.reason.name(),
        nodes: group.nodes.iter().map(ToString::to_string).collect(),
        message: group.reason.to_string(),
    });
    groups.collect()
}

/// The given cards of a node.
fn picture<'a>(
    scheduler: &'a Scheduler,
    node: Option<&str>,
    cards: &[u32],
) -> Option<NodeCards<'a>> {
    let id = scheduler.ledger().find(node?)?;
    let mut node = NodeCards::of(scheduler, id, &mut ShareSizes::default())?;
    node.cards.retain(|card| cards.contains(&card.index));
    (!node.cards.is_empty()).then_some(node)
}

fn nearest_fit(scheduler: &Scheduler, nearest: &Nearest) -> NearestFit {
    let ledger = scheduler.ledger();
    let node = ledger.find(&nearest.node).and_then(|id| ledger.node(id));
    let card = node.map_or(Bytes(0), Node::card_size);
    let known = node.is_none_or(Node::knows_card_memory);
    let amount = |size| Amount::new(size, card, known);
    let mut holders = nearest.holders.clone();
    // The engine names the holders of shares; a card that one pod holds whole is freed by it.
    if let (true, Some(index), Some(node)) = (holders.is_empty(), nearest.card, node)
        && let Some(CardState::Whole(pod)) = node.cards().get(index as usize).map(Card::state)
        && let Some(key) = scheduler.pod_key(*pod)
    {
        holders.push((key.clone(), card));
    }
    NearestFit {
        node: nearest.node.to_string(),
        card: nearest.card,
        missing: match &nearest.missing {
            Missing::Share(bytes) => amount(*bytes).rounded_up(),
            other => other.to_string(),
        },
        holders: holders
            .into_iter()
            .map(|(pod, bytes)| Holder { pod: pod.to_string(), bytes: amount(bytes) })
            .collect(),
        plural: matches!(nearest.missing, Missing::Cards(n) if n > 1),
    }
}

#[cfg(test)]
mod tests;
