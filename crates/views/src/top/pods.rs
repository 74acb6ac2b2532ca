//! One row a pod.

use crate::API_VERSION;
use crate::amount::Amount;
use crate::cards::{CardGrant, grants};
use crate::options::TextOptions;
use crate::paint::Painter;
use crate::table::Table;
use crate::wording::labels;
use divvy_engine::{ObjectKey, Scheduler};
use divvy_ledger::{Bytes, Holding, MilliCpu, Request};
use serde::Serialize;

/// What every pod holds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopPods<'a> {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `TopPods`.
    pub kind: &'static str,
    /// The pods that hold a place, by namespace and name.
    pub items: Vec<TopPod<'a>>,
}

/// What one pod holds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopPod<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its node.
    pub node: Option<&'a str>,
    /// Its cards.
    pub cards: Vec<CardGrant>,
    /// Replicas that it holds.
    pub replicas: u32,
    /// What it asks of GPUs, as it wrote it.
    pub asked: String,
    /// Memory of all its cards together; null if it has none or it is not known.
    pub gpu_memory_bytes: Option<u64>,
    /// CPU that it asks.
    pub cpu_milli: u64,
    /// Memory that it asks.
    pub memory_bytes: u64,
    /// What it asks of GPUs.
    #[serde(skip)]
    pub request: &'a Request,
}

/// What every pod holds, those without GPUs too.
pub fn top_pods(scheduler: &Scheduler) -> TopPods<'_> {
    let holders = scheduler.holders().into_iter();
    let items = holders.map(|(key, holding)| top_pod(scheduler, key, holding)).collect();
    TopPods { api_version: API_VERSION, kind: "TopPods", items }
}

fn top_pod<'a>(scheduler: &'a Scheduler, key: &'a ObjectKey, holding: &'a Holding) -> TopPod<'a> {
    let cards = grants(scheduler, holding);
    let sizes: Option<Vec<u64>> = cards.iter().map(|card| card.bytes.bytes()).collect();
    let sum = sizes.map(|sizes| sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size)));
    TopPod {
        namespace: key.namespace(),
        name: key.name(),
        node: scheduler.ledger().node(holding.node).map(|node| &**node.name()),
        replicas: holding.replicas,
        asked: holding.needs.request.to_string(),
        gpu_memory_bytes: sum.filter(|_| !cards.is_empty()),
        cpu_milli: holding.needs.cpu.0,
        memory_bytes: holding.needs.memory.0,
        request: &holding.needs.request,
        cards,
    }
}

/// The pods that hold GPUs as a table; wide shows all pods, and what part of a card each has.
pub fn top_pods_text(pods: &TopPods<'_>, options: TextOptions) -> String {
    let mut header = vec!["NAMESPACE", "NAME", "NODE", "CARD", "ASKED", "GPU-MEM", "CPU", "MEMORY"];
    if options.wide {
        header.extend(["OF-CARD", "GPU-BYTES"]);
    }
    let mut table = Table::new(&header);
    let shown = pods.items.iter().filter(|pod| options.wide || !pod.request.is_none());
    for pod in shown {
        let mut row = vec![
            pod.namespace.into(),
            pod.name.into(),
            pod.node.unwrap_or("-").into(),
            labels(pod.cards.iter().map(|c| (c.index, c.number))).into(),
            asked(pod.request).into(),
            gpu_memory(pod).into(),
            MilliCpu(pod.cpu_milli).to_string().into(),
            memory(pod.memory_bytes).into(),
        ];
        if options.wide {
            let part = pod.cards.first().map(|card| card.bytes.of_card());
            let bytes = pod.gpu_memory_bytes.map(|bytes| bytes.to_string());
            row.extend([part, bytes].map(|text| text.unwrap_or_else(|| "-".to_owned()).into()));
        }
        table.push(row);
    }
    if table.is_empty() {
        let what = if options.wide { "anything" } else { "a GPU" };
        return format!("No pod holds {what}.\n");
    }
    table.render(Painter::new(options.colour))
}

/// As the pod wrote it, without spaces: `4GPUs`, `0.25`, `2x60000MiB`.
fn asked(request: &Request) -> String {
    match request.is_none() {
        true => "-".to_owned(),
        false => request.to_string().replace(' ', ""),
    }
}

/// On all its cards together; in parts of a card where that is all that is known.
fn gpu_memory(pod: &TopPod<'_>) -> String {
    let Some(first) = pod.cards.first() else { return "-".to_owned() };
    let sum = pod.cards.iter().fold(0u64, |sum, card| sum.saturating_add(card.bytes.raw()));
    first.bytes.with(Bytes(sum)).cell()
}

fn memory(bytes: u64) -> String {
    Amount::new(Bytes(bytes), Bytes(bytes), true).cell()
}
