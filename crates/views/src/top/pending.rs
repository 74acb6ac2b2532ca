//! One row a pod that waits, in the order of their turns: for what, since when, and why.

use super::queues::queue_of;
use crate::API_VERSION;
use crate::options::TextOptions;
use crate::paint::Tint;
use crate::simulation::{KnownRefusals, outcome};
use crate::table::{Cell, Table};
use crate::when::{age, rfc3339};
use divvy_engine::{ObjectKey, Scheduler};
use serde::Serialize;
use std::cmp::Reverse;

/// The pods that wait.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopPending<'a> {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `TopPending`.
    pub kind: &'static str,
    /// The pods in the order of their turns: priority, then age, then name; last those of other
    /// schedulers.
    pub items: Vec<PendingPod<'a>>,
}

/// A pod that waits.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingPod<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// What it asks of GPUs, as it wrote it; null if that could not be read.
    pub asked: Option<String>,
    /// The queue that it names.
    pub queue: Option<&'a str>,
    /// Higher goes first; null for pods of other schedulers.
    pub priority: Option<i32>,
    /// When it was created; null if that is not known.
    pub created_at: Option<String>,
    /// How long that is ago, in seconds.
    pub age_seconds: Option<i64>,
    /// Where it would go now, if it fits.
    pub node: Option<&'a str>,
    /// The stable name of the reason that came closest; null if it fits.
    pub reason: Option<&'static str>,
    /// Why it waits, in one line.
    pub message: String,
    /// Who places it, if that is not divvy.
    pub scheduler: Option<&'a str>,
}

/// The pods that wait after a pass over all of them: `placed` had no place before it, and `others`
/// are left to their schedulers. `now` is in seconds since 1970.
pub fn top_pending<'a>(
    scheduler: &'a Scheduler,
    placed: &'a [ObjectKey],
    others: impl Iterator<Item = (&'a ObjectKey, &'a str)>,
    now: i64,
) -> TopPending<'a> {
    let mut refusals = KnownRefusals::default();
    let waiting = scheduler.without_place().into_iter().chain(placed);
    let mut waiting: Vec<&ObjectKey> = waiting.collect();
    waiting.sort_by_key(|key| {
        let facts = scheduler.pod_facts(key);
        let turn = facts.map(|facts| (Reverse(facts.priority), facts.created.unwrap_or(i64::MAX)));
        (turn, *key)
    });
    let ours = waiting.into_iter().map(|key| pending(scheduler, key, &mut refusals, now));
    let others = others.filter(|(key, _)| scheduler.holding(key).is_none());
    let others = others.filter(|(key, _)| scheduler.pod_facts(key).is_none());
    let theirs = others.map(|(key, scheduler)| PendingPod {
        namespace: key.namespace(),
        name: key.name(),
        asked: None,
        queue: None,
        priority: None,
        created_at: None,
        age_seconds: None,
        node: None,
        reason: Some("OtherScheduler"),
        message: format!("scheduled by {scheduler}, not by divvy"),
        scheduler: Some(scheduler),
    });
    TopPending { api_version: API_VERSION, kind: "TopPending", items: ours.chain(theirs).collect() }
}

fn pending<'a>(
    scheduler: &'a Scheduler,
    key: &'a ObjectKey,
    refusals: &mut KnownRefusals,
    now: i64,
) -> PendingPod<'a> {
    let facts = scheduler.pod_facts(key);
    let created = facts.and_then(|facts| facts.created);
    let outcome = outcome(scheduler, key, refusals);
    let message = match (&outcome.reason, outcome.node) {
        (Some(reason), _) => reason.to_string(),
        (None, node) => format!("fits on {} now", node.unwrap_or("-")),
    };
    PendingPod {
        namespace: key.namespace(),
        name: key.name(),
        asked: outcome.request.map(ToString::to_string),
        queue: facts.and_then(|facts| queue_of(facts.labels)),
        priority: facts.map(|facts| facts.priority),
        created_at: created.map(rfc3339),
        age_seconds: created.map(|created| now.saturating_sub(created).max(0)),
        node: outcome.node,
        reason: outcome.reasons.first().map(|reason| reason.reason),
        message,
        scheduler: None,
    }
}

/// The pods that wait as a table; wide says when they came and by the name of the reason why they wait.
pub fn top_pending_table(pods: &TopPending<'_>, wide: bool) -> Table {
    let has_queues = pods.items.iter().any(|pod| pod.queue.is_some());
    let mut header = vec!["NAMESPACE", "NAME", "ASKED", "PRIORITY", "AGE"];
    if has_queues {
        header.insert(2, "QUEUE");
    }
    if wide {
        header.extend(["CREATED", "REASON"]);
    }
    header.push("MESSAGE");
    let mut table = Table::new(&header).or_say("No pod waits.").least(&["PRIORITY"]);
    let dash = || "-".to_owned();
    for pod in &pods.items {
        let asked = pod.asked.as_deref().map_or_else(|| "?".to_owned(), |a| a.replace(' ', ""));
        let mut row: Vec<Cell> = vec![
            pod.namespace.into(),
            pod.name.into(),
            if asked == "noGPU" { dash() } else { asked }.into(),
            pod.priority.map_or_else(dash, |priority| priority.to_string()).into(),
            pod.age_seconds.map_or_else(dash, age).into(),
        ];
        if has_queues {
            row.insert(2, pod.queue.unwrap_or("-").into());
        }
        if wide {
            row.push(pod.created_at.clone().unwrap_or_else(dash).into());
            row.push(pod.reason.unwrap_or("-").into());
        }
        row.push(match pod.reason {
            None => Cell::tinted(&pod.message, Tint::Good),
            Some(_) => Cell::tinted(&pod.message, Tint::Waiting),
        });
        table.push(row);
    }
    table
}

/// The pods that wait as text.
pub fn top_pending_text(pods: &TopPending<'_>, options: TextOptions) -> String {
    top_pending_table(pods, options.wide).render(options)
}
