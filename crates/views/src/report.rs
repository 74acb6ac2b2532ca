//! What a cluster does with its cards, on one page: how well they are filled, what is left of them,
//! who waits.

mod page;
mod text;

pub use page::report_page;
pub use text::report_text;

use crate::API_VERSION;
use crate::model::short_model;
use crate::simulation::{Simulation, simulation};
use crate::slices::SliceHolders;
use crate::stranded::ShareSizes;
use crate::top::{PendingPod, QueueUse, TopPending, top_queues};
use crate::totals::{Totals, is_unguarded};
use crate::when::rfc3339;
use divvy_engine::Scheduler;
use divvy_ledger::{Node, NodeId};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a cluster does with its cards.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report<'a> {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `Report`.
    pub kind: &'static str,
    /// When it was made.
    pub generated_at: String,
    /// The cluster as a whole.
    pub summary: ReportTotals,
    /// The same by pool of nodes.
    pub node_pools: Vec<ReportPart>,
    /// The same by node; those without GPUs are left out.
    pub nodes: Vec<ReportPart>,
    /// Cards that nobody holds, and somebody may.
    pub idle_cards: Vec<ReportCard<'a>>,
    /// Cards whose shares could together outgrow them.
    pub unguarded_cards: Vec<ReportCard<'a>>,
    /// Slices and replicas by resource.
    pub slices: Vec<SliceTotals>,
    /// What the pods of each queue hold.
    pub queues: Vec<QueueUse<'a>>,
    /// The pods that wait, in the order of their turns.
    pub pending: Vec<PendingPod<'a>>,
    /// The cards, to be drawn.
    #[serde(skip)]
    pub(crate) map: Simulation<'a>,
}

/// A part of the cluster.
#[derive(Clone, Debug, Serialize)]
pub struct ReportPart {
    /// The node, or what the nodes of a pool have in common.
    pub name: String,
    /// What is on it.
    #[serde(flatten)]
    pub totals: ReportTotals,
}

/// [`Totals`] as JSON.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportTotals {
    /// Nodes.
    pub nodes: usize,
    /// Cards.
    pub cards: usize,
    /// Cards that somebody holds.
    pub cards_in_use: usize,
    /// Cards that nobody holds and somebody may.
    pub cards_idle: usize,
    /// Cards that one pod holds.
    pub cards_whole: usize,
    /// Cards that are shared and take more.
    pub cards_shared: usize,
    /// Cards that are handed out in slices.
    pub cards_sliced: usize,
    /// Other cards that take nobody new.
    pub cards_closed: usize,
    /// Cards whose shares could together outgrow them.
    pub cards_unguarded: usize,
    /// Slices that nodes hand out.
    pub slices: u64,
    /// Slices that pods hold.
    pub slices_taken: u64,
    /// Bytes of all cards.
    pub capacity_bytes: u64,
    /// Bytes that pods hold.
    pub held_bytes: u64,
    /// Bytes that are free on shared cards.
    pub fragmented_bytes: u64,
    /// Those of them that no share of a known size can have.
    pub stranded_bytes: u64,
    /// Bytes held of those of the cards in use.
    pub packing_ratio: Option<f64>,
    /// Bytes held of all bytes.
    pub allocated_ratio: Option<f64>,
}

/// A card that is worth a word.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportCard<'a> {
    /// Its node.
    pub node: &'a str,
    /// Its index there.
    pub index: u32,
    /// The number that tools of the node call it by, if it is known.
    pub number: Option<u32>,
    /// Its memory; null if it is not known.
    pub capacity_bytes: Option<u64>,
    /// Who holds shares of it.
    pub pods: Vec<String>,
}

/// Slices of one resource on all nodes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceTotals {
    /// The resource by which they are asked for.
    pub resource: String,
    /// What they are: `time-slice`, `mps`, `mig`; null if nobody says it.
    pub kind: Option<&'static str>,
    /// The profile of MIG slices.
    pub profile: Option<String>,
    /// How many there are.
    pub total: u64,
    /// How many pods hold.
    pub taken: u64,
    /// Nodes that hand them out.
    pub nodes: usize,
}

impl From<&Totals> for ReportTotals {
    fn from(totals: &Totals) -> Self {
        let clip = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
        Self {
            nodes: totals.nodes,
            cards: totals.cards,
            cards_in_use: totals.in_use,
            cards_idle: totals.free,
            cards_whole: totals.whole,
            cards_shared: totals.shared,
            cards_sliced: totals.sliced,
            cards_closed: totals.closed,
            cards_unguarded: totals.unguarded,
            slices: totals.slices,
            slices_taken: totals.slices_taken,
            capacity_bytes: clip(totals.capacity_bytes),
            held_bytes: clip(totals.held_bytes),
            fragmented_bytes: clip(totals.fragmented_bytes),
            stranded_bytes: clip(totals.stranded_bytes),
            packing_ratio: totals.packing_ratio(),
            allocated_ratio: totals.allocated_ratio(),
        }
    }
}

/// What the cluster does now. `pending` are the pods that wait. Nodes are in one pool that have the
/// same value of the label `pool`, or without it the same model. `now` is in seconds since 1970.
pub fn report<'a>(
    scheduler: &'a Scheduler,
    pending: TopPending<'a>,
    pool: Option<&str>,
    now: i64,
) -> Report<'a> {
    let mut sizes = ShareSizes::held(scheduler);
    for request in scheduler.without_place().into_iter().filter_map(|key| scheduler.request(key)) {
        sizes.add(request);
    }
    let (mut all, mut nodes) = (Totals::default(), Vec::new());
    let mut pools: BTreeMap<String, Totals> = BTreeMap::new();
    let (mut idle_cards, mut unguarded_cards) = (Vec::new(), Vec::new());
    for (name, id) in scheduler.nodes() {
        let Some(node) = scheduler.ledger().node(id).filter(|node| node.is_alive()) else {
            continue;
        };
        all.enter(scheduler, node, &mut sizes);
        if !node.has_gpus() {
            continue;
        }
        let mut own = Totals::default();
        own.enter(scheduler, node, &mut sizes);
        nodes.push(ReportPart { name: name.to_string(), totals: (&own).into() });
        let pool = pool_of(scheduler, id, pool);
        pools.entry(pool).or_default().enter(scheduler, node, &mut sizes);
        for (index, card) in node.existing_cards() {
            let is_idle = *card.mode() == divvy_ledger::Mode::Free && node.is_open(index);
            if is_idle {
                idle_cards.push(card_of(scheduler, node, index));
            } else if is_unguarded(scheduler, card) {
                unguarded_cards.push(card_of(scheduler, node, index));
            }
        }
    }
    let by_name = |part: (String, Totals)| ReportPart { name: part.0, totals: (&part.1).into() };
    Report {
        api_version: API_VERSION,
        kind: "Report",
        generated_at: rfc3339(now),
        summary: (&all).into(),
        node_pools: pools.into_iter().map(by_name).collect(),
        nodes,
        idle_cards,
        unguarded_cards,
        slices: slice_totals(scheduler),
        queues: top_queues(scheduler).items,
        pending: pending.items,
        map: simulation(scheduler, &[]),
    }
}

/// The label of a node, or its model.
fn pool_of(scheduler: &Scheduler, id: NodeId, label: Option<&str>) -> String {
    let value = match label {
        Some(label) => scheduler.facts(id).and_then(|facts| facts.label(label)).map(str::to_owned),
        None => scheduler.model(id).map(|model| short_model(model)),
    };
    value.unwrap_or_else(|| "-".to_owned())
}

fn card_of<'a>(scheduler: &'a Scheduler, node: &'a Node, at: usize) -> ReportCard<'a> {
    let index = u32::try_from(at).unwrap_or(u32::MAX);
    let card = node.cards().get(at);
    let capacity = card.filter(|card| card.knows_memory()).map(|card| card.capacity().0);
    let shares = card.map_or(&[][..], |card| card.shares());
    let pods = shares.iter().filter_map(|share| scheduler.pod_key(share.pod));
    ReportCard {
        node: node.name(),
        index,
        number: node.card_number(index),
        capacity_bytes: capacity,
        pods: pods.map(ToString::to_string).collect(),
    }
}

/// Slices and replicas of all nodes by resource: for the report and for metrics.
pub fn slice_totals(scheduler: &Scheduler) -> Vec<SliceTotals> {
    let holders = SliceHolders::of(scheduler);
    let mut slices: BTreeMap<String, SliceTotals> = BTreeMap::new();
    for (id, node) in scheduler.ledger().alive() {
        for uses in holders.on(id, node) {
            let sum = slices.entry(uses.resource.clone()).or_insert_with(|| SliceTotals {
                resource: uses.resource,
                kind: uses.kind,
                profile: uses.profile,
                total: 0,
                taken: 0,
                nodes: 0,
            });
            sum.total += u64::from(uses.total);
            sum.taken += u64::from(uses.taken);
            sum.nodes += 1;
        }
    }
    slices.into_values().collect()
}

#[cfg(test)]
mod tests;
