//! One row a queue: what the pods hold that name it. Nothing is decided by queues yet.

use super::memory;
use crate::API_VERSION;
use crate::equivalent::Equivalent;
use crate::options::TextOptions;
use crate::table::Table;
use divvy_engine::{Labels, Scheduler};
use serde::Serialize;
use std::collections::BTreeMap;

/// The labels of pods that name a queue: KAI's, and what it was called before.
pub const QUEUE_LABELS: [&str; 2] = ["kai.scheduler/queue", "runai/queue"];

/// The queue that a pod names.
pub fn queue_of(labels: &Labels) -> Option<&str> {
    QUEUE_LABELS.iter().find_map(|key| labels.get(key)).filter(|queue| !queue.is_empty())
}

/// What the pods of every queue hold.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopQueues<'a> {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `TopQueues`.
    pub kind: &'static str,
    /// The queues by name; last what pods hold that name none.
    pub items: Vec<QueueUse<'a>>,
}

/// What the pods of one queue hold, and how many wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueUse<'a> {
    /// Its name; null for pods that name none.
    pub queue: Option<&'a str>,
    /// Pods that hold GPUs.
    pub pods: usize,
    /// What they hold, in whole GPUs.
    pub gpus: Equivalent,
    /// Their memory of cards and slices, as far as it is known; a time slice has none of its own.
    pub gpu_memory_bytes: u64,
    /// Slices that are not among these GPUs, because nobody says what they are of a card.
    pub uncounted_slices: u32,
    /// Pods that wait, with GPUs or without.
    pub pending: usize,
}

/// What the pods of every queue hold: those that hold or wait for something, and name a queue or
/// have to do with GPUs.
pub fn top_queues(scheduler: &Scheduler) -> TopQueues<'_> {
    let mut queues: BTreeMap<Option<&str>, QueueUse<'_>> = BTreeMap::new();
    let name = |key| scheduler.pod_facts(key).and_then(|facts| queue_of(facts.labels));
    for (key, holding) in scheduler.everyone() {
        let Some(holding) = holding else {
            let asks_gpu = scheduler.request(key).is_some_and(|request| !request.is_none());
            let queue = name(key);
            if asks_gpu || queue.is_some() {
                queues.entry(queue).or_default().pending += 1;
            }
            continue;
        };
        if holding.needs.request.is_none() {
            continue;
        }
        let (gpus, unknown) = Equivalent::held(scheduler, holding);
        let queue = queues.entry(name(key)).or_default();
        queue.pods += 1;
        queue.gpus += gpus;
        queue.uncounted_slices = queue.uncounted_slices.saturating_add(unknown);
        let bytes = super::pods::memory_of(scheduler, holding).unwrap_or(0);
        queue.gpu_memory_bytes = queue.gpu_memory_bytes.saturating_add(bytes);
    }
    let none = queues.remove(&None);
    let named = queues.into_iter().chain(none.map(|none| (None, none)));
    let items = named.map(|(queue, uses)| QueueUse { queue, ..uses }).collect();
    TopQueues { api_version: API_VERSION, kind: "TopQueues", items }
}

/// The queues as a table.
pub fn top_queues_table(queues: &TopQueues<'_>, wide: bool) -> Table {
    let mut header = vec!["QUEUE", "PODS", "GPUS", "GPU-MEM", "PENDING"];
    header.extend(wide.then_some("UNCOUNTED-SLICES"));
    let mut table =
        Table::new(&header).or_say("No pod names a queue, holds a GPU or waits for one.");
    for queue in &queues.items {
        let mut row = vec![
            queue.queue.unwrap_or("-").into(),
            queue.pods.to_string().into(),
            queue.gpus.to_string().into(),
            memory(queue.gpu_memory_bytes).into(),
            queue.pending.to_string().into(),
        ];
        row.extend(wide.then(|| queue.uncounted_slices.to_string().into()));
        table.push(row);
    }
    table
}

/// The queues as text.
pub fn top_queues_text(queues: &TopQueues<'_>, options: TextOptions) -> String {
    top_queues_table(queues, options.wide).render(options)
}
