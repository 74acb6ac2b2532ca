//! One row a pod.

use super::memory;
use super::queues::queue_of;
use crate::API_VERSION;
use crate::cards::{CardGrant, grants};
use crate::options::TextOptions;
use crate::paint::Tint;
use crate::slices::held;
use crate::table::{Cell, Table};
use crate::wording::labels;
use divvy_engine::{ObjectKey, Scheduler};
use divvy_ledger::{Bytes, Division, Holding, MilliCpu, Request};
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
    /// Replicas that it holds under the name of whole GPUs.
    pub replicas: u32,
    /// Slices that it holds, by kind.
    pub slices: Vec<PodSlices<'a>>,
    /// What it asks of GPUs, as it wrote it.
    pub asked: String,
    /// Memory of all its cards and slices together; null if it has none or it is not known. A time
    /// slice has none of its own.
    pub gpu_memory_bytes: Option<u64>,
    /// CPU that it asks.
    pub cpu_milli: u64,
    /// Memory that it asks.
    pub memory_bytes: u64,
    /// The queue that it names.
    pub queue: Option<&'a str>,
    /// Whether its deletion was asked: it holds its place until it has ended.
    pub terminating: bool,
    /// What it asks of GPUs.
    #[serde(skip)]
    pub request: &'a Request,
    /// The cards that its slices are on, if the kubelet tells: index and number.
    #[serde(skip)]
    pub on: Vec<(u32, Option<u32>)>,
}

/// What every pod holds, those without GPUs too.
pub fn top_pods(scheduler: &Scheduler) -> TopPods<'_> {
    let holders = scheduler.holders().into_iter();
    let items = holders.map(|(key, holding)| top_pod(scheduler, key, holding)).collect();
    TopPods { api_version: API_VERSION, kind: "TopPods", items }
}

fn top_pod<'a>(scheduler: &'a Scheduler, key: &'a ObjectKey, holding: &'a Holding) -> TopPod<'a> {
    let (cards, slices) = (grants(scheduler, holding), slices(scheduler, holding));
    let facts = scheduler.pod_facts(key);
    TopPod {
        namespace: key.namespace(),
        name: key.name(),
        node: scheduler.ledger().node(holding.node).map(|node| &**node.name()),
        replicas: holding.replicas,
        asked: holding.needs.request.to_string(),
        gpu_memory_bytes: sum(&cards, &slices),
        cpu_milli: holding.needs.cpu.0,
        memory_bytes: holding.needs.memory.0,
        queue: facts.and_then(|facts| queue_of(facts.labels)),
        terminating: facts.is_some_and(|facts| facts.terminating),
        request: &holding.needs.request,
        on: on(scheduler, holding),
        cards,
        slices,
    }
}

/// Memory of all cards and slices of a pod together, if it has any and it is known.
pub(super) fn memory_of(scheduler: &Scheduler, holding: &Holding) -> Option<u64> {
    sum(&grants(scheduler, holding), &slices(scheduler, holding))
}

fn sum(cards: &[CardGrant], slices: &[PodSlices<'_>]) -> Option<u64> {
    let sizes = cards.iter().map(|card| card.bytes.bytes());
    let sizes: Option<Vec<u64>> = sizes.chain(slices.iter().map(|slices| slices.bytes)).collect();
    let sum = sizes.map(|sizes| sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size)));
    sum.filter(|_| !cards.is_empty() || !slices.is_empty())
}

fn on(scheduler: &Scheduler, holding: &Holding) -> Vec<(u32, Option<u32>)> {
    let Some(node) = scheduler.ledger().node(holding.node) else { return Vec::new() };
    let index = |uuid: &str| {
        node.cards().iter().position(|card| card.name().is_some_and(|name| *name.uuid == *uuid))
    };
    let cards = holding.on.iter().filter_map(|on| u32::try_from(index(&on.uuid)?).ok());
    let mut cards: Vec<_> = cards.map(|index| (index, node.card_number(index))).collect();
    cards.sort_unstable();
    cards.dedup();
    cards
}

/// Slices of one kind that a pod holds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSlices<'a> {
    /// The resource by which they are asked for.
    pub resource: String,
    /// How many.
    pub count: u32,
    /// Their memory together; null if it is not known, and of time slices, which have none.
    pub bytes: Option<u64>,
    /// The cards that they are on, if the kubelet tells.
    pub cards: Vec<&'a str>,
}

fn slices<'a>(scheduler: &'a Scheduler, holding: &'a Holding) -> Vec<PodSlices<'a>> {
    let node = scheduler.ledger().node(holding.node);
    let pool = |device| node.and_then(|node| node.capacity().gpus.pool(device));
    let slices = held(holding).map(|(device, count)| {
        let own = pool(device).filter(|pool| pool.by != Some(Division::TimeSlices));
        let on = holding.on.iter().filter(|on| on.device == device);
        PodSlices {
            resource: device.to_string(),
            count,
            bytes: own.and_then(|pool| pool.each?.0.checked_mul(count.into())),
            cards: on.map(|on| &*on.uuid).collect(),
        }
    });
    slices.collect()
}

/// The pods that hold GPUs as a table, or all if these are asked for; wide shows all pods, and what part
/// of a card each has.
pub fn top_pods_table(pods: &TopPods<'_>, wide: bool, all: bool) -> Table {
    let mut header = vec!["NAMESPACE", "NAME", "NODE", "CARD", "ASKED", "GPU-MEM", "CPU", "MEMORY"];
    let terminating = wide || pods.items.iter().any(|pod| pod.terminating);
    header.extend(terminating.then_some("STATUS"));
    let has_queues = pods.items.iter().any(|pod| pod.queue.is_some());
    header.extend(has_queues.then_some("QUEUE"));
    if wide {
        header.extend(["OF-CARD", "GPU-BYTES"]);
    }
    let nothing = if wide { "No pod holds anything." } else { "No pod holds a GPU." };
    let mut table = Table::new(&header).or_say(nothing).least(&["MEMORY", "CPU"]);
    let shown = pods.items.iter().filter(|pod| wide || all || !pod.request.is_none());
    for pod in shown {
        let mut row = vec![
            pod.namespace.into(),
            pod.name.into(),
            pod.node.unwrap_or("-").into(),
            labels(pod.cards.iter().map(|c| (c.index, c.number)).chain(pod.on.iter().copied()))
                .into(),
            asked(pod.request).into(),
            gpu_memory(pod).into(),
            MilliCpu(pod.cpu_milli).to_string().into(),
            memory(pod.memory_bytes).into(),
        ];
        if terminating {
            row.push(match pod.terminating {
                true => Cell::tinted("terminating", Tint::Waiting),
                false => "bound".into(),
            });
        }
        if has_queues {
            row.push(pod.queue.unwrap_or("-").into());
        }
        if wide {
            let part = pod.cards.first().map(|card| card.bytes.of_card());
            let bytes = pod.gpu_memory_bytes.map(|bytes| bytes.to_string());
            row.extend([part, bytes].map(|text| text.unwrap_or_else(|| "-".to_owned()).into()));
        }
        table.push(row);
    }
    table
}

/// The same as text.
pub fn top_pods_text(pods: &TopPods<'_>, options: TextOptions) -> String {
    top_pods_table(pods, options.wide, false).render(options)
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
    if let Some(bytes) = pod.gpu_memory_bytes.filter(|_| !pod.slices.is_empty()) {
        return memory(bytes);
    }
    let Some(first) = pod.cards.first() else { return "-".to_owned() };
    let sum = pod.cards.iter().fold(0u64, |sum, card| sum.saturating_add(card.bytes.raw()));
    first.bytes.with(Bytes(sum)).cell()
}
