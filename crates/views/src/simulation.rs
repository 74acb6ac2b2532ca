//! What became of a workload: each pod's outcome, each card's use, and the sums.

use crate::API_VERSION;
use crate::cards::{CardGrant, NodeCards, grants};
use crate::more::MorePods;
use crate::repartition::Repartition;
use crate::slices::SliceHolders;
use crate::stranded::ShareSizes;
use crate::totals::Totals;
use divvy_engine::{Diagnosis, ObjectKey, Scheduler, ShapeId, Standing};
use divvy_ledger::Request;
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::sync::Arc;

/// The outcome of a workload on a cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Simulation<'a> {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `Simulation`.
    pub kind: &'static str,
    /// What configs that are rehearsed make of the nodes.
    #[serde(flatten)]
    pub repartition: Repartition,
    /// The pods of the workload, in the order they were given.
    pub pods: Vec<PodOutcome<'a>>,
    /// How many more of the workload would fit, if that was asked.
    pub more: Option<Vec<MorePods>>,
    /// All nodes, by name.
    pub nodes: Vec<NodeCards<'a>>,
    /// The sums.
    pub summary: Summary,
}

/// What became of one pod.
#[derive(Clone, Debug, Serialize)]
pub struct PodOutcome<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Where it was placed, if it was.
    pub node: Option<&'a str>,
    /// Its cards; none for slices of which nobody says on which card they are.
    pub cards: Vec<CardGrant>,
    /// The whole GPUs that it asks, 0 for a share.
    pub gpus: u32,
    /// Why it was not placed, in one line.
    #[serde(serialize_with = "shared_text")]
    pub reason: Option<Arc<str>>,
    /// Why, by node; shared by all pods that ask for the same.
    #[serde(serialize_with = "shared_list")]
    pub reasons: Arc<[ReasonCount]>,
    /// Which pod it is.
    #[serde(skip)]
    pub key: &'a ObjectKey,
    /// What it asks of GPUs; `None` if that could not be read, or its node is not in the cluster.
    #[serde(skip)]
    pub request: Option<&'a Request>,
}

/// How many nodes refuse a pod for the same reason.
#[derive(Clone, Debug, Serialize)]
pub struct ReasonCount {
    /// A stable name.
    pub reason: &'static str,
    /// How many nodes; 0 if the reason is the pod's own.
    pub nodes: usize,
    /// The sentence.
    pub message: String,
}

impl ReasonCount {
    pub(crate) fn of(diagnosis: &Diagnosis) -> impl Iterator<Item = Self> {
        diagnosis.refusals.iter().map(|refusals| Self {
            reason: refusals.reason.name(),
            nodes: refusals.nodes.len(),
            message: refusals.reason.to_string(),
        })
    }
}

/// The sums. Bytes are those of cards whose memory is known.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Pods that have a place.
    pub placed: usize,
    /// Pods that have none.
    pub pending: usize,
    /// Cards of all nodes.
    pub cards: usize,
    /// Cards that somebody holds.
    pub cards_in_use: usize,
    /// Slices of all nodes.
    pub slices: u64,
    /// Slices that pods hold.
    pub slices_taken: u64,
    /// Memory held, of all there is; null if no card's memory is known.
    pub allocated_ratio: Option<f64>,
    /// Memory that no known share could still take, of that of the cards in use.
    pub fragmentation_ratio: f64,
    /// What the ratios are of.
    #[serde(skip)]
    pub totals: Totals,
}

fn shared_text<S: Serializer>(text: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    text.as_deref().serialize(serializer)
}

fn shared_list<S: Serializer>(list: &[ReasonCount], serializer: S) -> Result<S::Ok, S::Error> {
    list.serialize(serializer)
}

/// The outcome for `pods`, the workload in the order it was given, on the cluster as it is now.
pub fn simulation<'a>(scheduler: &'a Scheduler, pods: &'a [ObjectKey]) -> Simulation<'a> {
    let mut refusals = KnownRefusals::default();
    let mut sizes = ShareSizes::held(scheduler);
    let outcomes = pods.iter().map(|key| {
        let outcome = outcome(scheduler, key, &mut refusals);
        outcome.request.into_iter().for_each(|request| sizes.add(request));
        outcome
    });
    let outcomes: Vec<_> = outcomes.collect();
    let holders = SliceHolders::of(scheduler);
    let nodes = scheduler.nodes();
    let nodes = nodes.filter_map(|(_, id)| NodeCards::of(scheduler, id, &mut sizes, &holders));
    let nodes: Vec<_> = nodes.collect();
    let summary = summary(&outcomes, Totals::with(scheduler, &mut sizes));
    Simulation {
        api_version: API_VERSION,
        kind: "Simulation",
        repartition: Repartition::default(),
        pods: outcomes,
        more: None,
        nodes,
        summary,
    }
}

pub(crate) fn outcome<'a>(
    scheduler: &'a Scheduler,
    key: &'a ObjectKey,
    refusals: &mut KnownRefusals,
) -> PodOutcome<'a> {
    let request = scheduler.request(key);
    let mut outcome = PodOutcome {
        namespace: key.namespace(),
        name: key.name(),
        node: None,
        cards: Vec::new(),
        gpus: request.map_or(0, Request::whole_cards),
        reason: None,
        reasons: Arc::default(),
        key,
        request,
    };
    let held = scheduler.holding(key);
    if let Some((holding, node)) = held.and_then(|h| Some((h, scheduler.ledger().node(h.node)?))) {
        outcome.node = Some(node.name());
        outcome.cards = grants(scheduler, holding);
    } else {
        let refusal = refusals.of(scheduler, key);
        outcome.reason = Some(refusal.headline);
        outcome.reasons = refusal.reasons;
    }
    outcome
}

#[derive(Clone)]
struct Refusal {
    headline: Arc<str>,
    reasons: Arc<[ReasonCount]>,
}

impl Refusal {
    fn because(diagnosis: &Diagnosis) -> Self {
        let reasons = ReasonCount::of(diagnosis).collect();
        Self { headline: diagnosis.headline().into(), reasons }
    }

    fn own(reason: &'static str, message: &str) -> Self {
        let reasons = vec![ReasonCount { reason, nodes: 0, message: message.to_owned() }];
        Self { headline: message.into(), reasons: reasons.into() }
    }
}

/// A diagnosis looks at every node, so it is made once for all pods that ask for the same.
#[derive(Default)]
pub(crate) struct KnownRefusals {
    by_shape: HashMap<ShapeId, Refusal>,
}

impl KnownRefusals {
    fn of(&mut self, scheduler: &Scheduler, key: &ObjectKey) -> Refusal {
        let shape = scheduler.shape_of(key);
        if let Some(known) = shape.and_then(|shape| self.by_shape.get(&shape)) {
            return known.clone();
        }
        let refusal = match scheduler.standing(key) {
            Some(Standing::Waiting(diagnosis)) => Refusal::because(&diagnosis),
            Some(Standing::Astray) => Refusal::own("UnknownNode", UNKNOWN_NODE),
            Some(Standing::Placed(_)) | None => {
                Refusal::own("UnknownPod", "the pod is not in the cluster, or has ended")
            }
        };
        if let Some(shape) = shape {
            self.by_shape.insert(shape, refusal.clone());
        }
        refusal
    }
}

/// What is wrong with a pod that is bound to a node that nobody knows.
pub(crate) const UNKNOWN_NODE: &str =
    "bound to a node that is not in the cluster, so it holds nothing";

fn summary(pods: &[PodOutcome<'_>], totals: Totals) -> Summary {
    let placed = pods.iter().filter(|p| p.node.is_some()).count();
    Summary {
        placed,
        pending: pods.len() - placed,
        cards: totals.cards,
        cards_in_use: totals.in_use,
        slices: totals.slices,
        slices_taken: totals.slices_taken,
        allocated_ratio: totals.allocated_ratio(),
        fragmentation_ratio: totals.fragmentation_ratio(),
        totals,
    }
}

#[cfg(test)]
mod tests;
