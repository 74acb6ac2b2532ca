//! What the scheduler tells Prometheus.
//!
//! Label values come from enums and from the engine's reason names, and those of queues are so many at
//! most, so the number of series is bounded whatever pods are called, also over time. Each recording method costs an atomic addition or two.

mod labels;
mod queues;

pub use labels::{Attempt, BindingResult};

use divvy_api::{Observer, Restart, Verb};
use divvy_views::{QueueUse, SliceTotals, Totals};
use labels::Label;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::{
    counter::Counter,
    family::Family,
    gauge::Gauge,
    histogram::{Histogram, exponential_buckets},
    info::Info,
};
use prometheus_client::registry::{Registry, Unit};
use queues::Places;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

type Labels = [(&'static str, &'static str); 2];
/// Resources of slices that have series.
const MOST_RESOURCES: usize = 64;
/// Models of cards that have series of their own.
const MOST_MODELS: usize = 64;
/// The name of all other queues or models together; no label can have this value.
const OTHERS: &str = "(others)";

type Code = [(&'static str, u16); 1];

/// All metrics of a process; a clone counts into the same.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    attempts: Family<Label, Counter>,
    bindings: Family<Label, Counter>,
    requests: Family<(Label, Code), Counter>,
    watch_restarts: Family<Labels, Counter>,
    events: Counter,
    reloads: Family<Label, Counter>,
    pass: Histogram,
    binding: Histogram,
    bound: Histogram,
    pending: Family<Label, Gauge>,
    /// The reasons that were ever given: one that no pod has any more is 0, not absent.
    reasons: Mutex<BTreeSet<&'static str>>,
    held: Gauge,
    nodes: Gauge,
    cards: Family<Label, Gauge>,
    slices: Family<Label, Gauge>,
    disputed: Gauge,
    unsettled: Gauge,
    conflicting: Gauge,
    missing: Gauge,
    ghosts: Gauge,
    memory: Family<Label, Gauge>,
    models: Family<[(&'static str, String); 2], Gauge>,
    nodes_memory: Family<[(&'static str, String); 2], Gauge>,
    unguarded: Gauge,
    slices_by_resource: Family<[(&'static str, String); 2], Gauge>,
    oldest_pending: Gauge,
    queue_gpus: Family<[(&'static str, String); 1], Gauge<f64, AtomicU64>>,
    queue_pods: Family<[(&'static str, String); 1], Gauge>,
    queue_places: Mutex<Places>,
    queued_writes: Gauge,
    leader: Gauge,
    synced: Family<Label, Gauge>,
    versions: Family<Label, Gauge>,
}

impl Observer for Metrics {
    fn request(&self, verb: Verb, code: Option<u16>) {
        let labels = ([("verb", verb.name())], [("code", code.unwrap_or(0))]);
        self.0.requests.get_or_create(&labels).inc();
    }

    fn watch_restart(&self, resource: &'static str, why: Restart) {
        let labels = [("resource", resource), ("why", why.name())];
        self.0.watch_restarts.get_or_create(&labels).inc();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let seconds = |least, most| {
            Histogram::new(exponential_buckets(least, 2.0, 32).take_while(move |s| *s <= most))
        };
        let mut inner = Inner {
            registry: Registry::with_prefix("divvy"),
            attempts: Family::default(),
            bindings: Family::default(),
            requests: Family::default(),
            watch_restarts: Family::default(),
            events: Counter::default(),
            reloads: Family::default(),
            pass: seconds(0.000_016, 5.0),
            binding: seconds(0.001, 35.0),
            bound: seconds(0.001, 2100.0),
            pending: Family::default(),
            reasons: Mutex::default(),
            held: Gauge::default(),
            nodes: Gauge::default(),
            cards: Family::default(),
            slices: Family::default(),
            disputed: Gauge::default(),
            unsettled: Gauge::default(),
            conflicting: Gauge::default(),
            missing: Gauge::default(),
            ghosts: Gauge::default(),
            memory: Family::default(),
            models: Family::default(),
            nodes_memory: Family::default(),
            unguarded: Gauge::default(),
            slices_by_resource: Family::default(),
            oldest_pending: Gauge::default(),
            queue_gpus: Family::default(),
            queue_pods: Family::default(),
            queue_places: Mutex::default(),
            queued_writes: Gauge::default(),
            leader: Gauge::default(),
            synced: Family::default(),
            versions: Family::default(),
        };
        inner.register();
        inner.begin();
        Self(Arc::new(inner))
    }

    /// A try to place a pod ended.
    pub fn attempt(&self, result: Attempt) {
        self.0.attempts.get_or_create(&result.label()).inc();
    }

    /// A binding was answered, or given up, after so long.
    pub fn binding(&self, result: BindingResult, took: Duration) {
        self.0.bindings.get_or_create(&result.label()).inc();
        self.0.binding.observe(took.as_secs_f64());
    }

    /// A pod was bound so long after it was created.
    pub fn bound(&self, after: Duration) {
        self.0.bound.observe(after.as_secs_f64());
    }

    /// An event was written.
    pub fn event_written(&self) {
        self.0.events.inc();
    }

    /// The configuration file changed, and could be used or not.
    pub fn config_reload(&self, ok: bool) {
        self.0.reloads.get_or_create(&reload(ok)).inc();
    }

    /// A pass decided in so long.
    pub fn pass(&self, took: Duration) {
        self.0.pass.observe(took.as_secs_f64());
    }

    /// How many pods wait, by the name of their reason.
    pub fn set_pending(&self, by_reason: impl IntoIterator<Item = (&'static str, usize)>) {
        let mut known = self.0.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone = known.clone();
        for (reason, count) in by_reason {
            self.0.pending.get_or_create(&[("reason", reason)]).set(whole(count));
            gone.remove(reason);
            known.insert(reason);
        }
        for reason in gone {
            self.0.pending.get_or_create(&[("reason", reason)]).set(0);
        }
    }

    /// What the ledger holds. It cannot be read while it is scraped, so the loop gives it now and
    /// then.
    pub fn set_ledger(&self, totals: &Totals) {
        let inner = &self.0;
        inner.nodes.set(whole(totals.nodes));
        inner.held.set(whole(totals.held_pods));
        inner.disputed.set(whole(totals.disputed));
        inner.unsettled.set(whole(totals.unsettled));
        inner.unguarded.set(whole(totals.unguarded));
        for (state, count) in [
            ("free", totals.free),
            ("whole", totals.whole),
            ("shared", totals.shared),
            ("closed", totals.closed),
            ("sliced", totals.sliced),
        ] {
            inner.cards.get_or_create(&[("state", state)]).set(whole(count));
        }
        let free = totals.slices.saturating_sub(totals.slices_taken);
        for (state, count) in [("taken", totals.slices_taken), ("free", free)] {
            inner.slices.get_or_create(&[("state", state)]).set(whole(count));
        }
        for (kind, bytes) in memory(totals) {
            inner.memory.get_or_create(&[("kind", kind)]).set(whole(bytes));
        }
    }

    /// The memory of cards by their model. Nodes name models, so only so many have a series of their own:
    /// those with most memory; the others are one together.
    pub fn set_models(&self, models: &BTreeMap<&str, Totals>) {
        let mut models: Vec<_> = models.iter().collect();
        models.sort_by_key(|(model, totals)| (Reverse(totals.capacity_bytes), **model));
        let (own, others) = models.split_at(models.len().min(MOST_MODELS));
        let family = &self.0.models;
        family.clear();
        let add = |model: &str, totals: &Totals| {
            for (kind, bytes) in memory(totals) {
                let labels = [("model", model.to_owned()), ("kind", kind.to_owned())];
                family.get_or_create(&labels).inc_by(whole(bytes));
            }
        };
        own.iter().for_each(|(model, totals)| add(model, totals));
        others.iter().for_each(|(_, totals)| add(OTHERS, totals));
    }

    /// The memory of cards by node. The cluster bounds how many there are, and no tenant names them.
    pub fn set_nodes(&self, nodes: &[(&str, Totals)]) {
        let family = &self.0.nodes_memory;
        family.clear();
        for (node, totals) in nodes {
            for (kind, bytes) in memory(totals) {
                let labels = [("node", (*node).to_owned()), ("kind", kind.to_owned())];
                family.get_or_create(&labels).set(whole(bytes));
            }
        }
    }

    /// What the pods of each queue hold. Users name queues, so only so many have a series of their own:
    /// those that hold most; the others are one together.
    pub fn set_queues(&self, queues: &[QueueUse<'_>], now: Instant) {
        let mut places = self.0.queue_places.lock().unwrap_or_else(PoisonError::into_inner);
        let (own, others) = places.part(queues, now);
        let (gpus, pods) = (&self.0.queue_gpus, &self.0.queue_pods);
        gpus.clear();
        pods.clear();
        let set = |name: String, held: f64, count: usize| {
            gpus.get_or_create(&[("queue", name.clone())]).set(held);
            pods.get_or_create(&[("queue", name)]).set(whole(count));
        };
        for queue in own {
            set(queue.queue.unwrap_or_default().to_owned(), queue.gpus.gpus(), queue.pods);
        }
        if !others.is_empty() {
            let held = others.iter().map(|queue| queue.gpus.gpus()).sum();
            set(OTHERS.to_owned(), held, others.iter().map(|queue| queue.pods).sum());
        }
    }

    /// Slices of all nodes by resource. Nodes name resources, so only so many have series.
    pub fn set_slices(&self, slices: &[SliceTotals]) {
        let family = &self.0.slices_by_resource;
        family.clear();
        for slices in slices.iter().take(MOST_RESOURCES) {
            let free = slices.total.saturating_sub(slices.taken);
            for (state, count) in [("taken", slices.taken), ("free", free)] {
                let labels = [("resource", slices.resource.clone()), ("state", state.to_owned())];
                family.get_or_create(&labels).set(whole(count));
            }
        }
    }

    /// When the pod was created that has waited longest.
    pub fn set_oldest_pending(&self, created: Option<i64>) {
        self.0.oldest_pending.set(created.unwrap_or(0));
    }

    /// How many shared cards were given to another pod too, and how many nobody hands out.
    pub fn set_troubled_cards(&self, conflicting: usize, missing: usize) {
        self.0.conflicting.set(whole(conflicting));
        self.0.missing.set(whole(missing));
    }

    /// How many pods vanished whose cards are not free yet.
    pub fn set_ghosts(&self, count: usize) {
        self.0.ghosts.set(whole(count));
    }

    /// How many writes wait for their turn.
    pub fn set_queued_writes(&self, count: usize) {
        self.0.queued_writes.set(whole(count));
    }

    /// Whether this process leads.
    pub fn set_leader(&self, leads: bool) {
        self.0.leader.set(leads.into());
    }

    /// Whether a watch has seen all there is.
    pub fn set_synced(&self, resource: &'static str, synced: bool) {
        self.0.synced.get_or_create(&[("resource", resource)]).set(synced.into());
    }

    /// All that a watch has to tell up to this version of the cluster is known.
    pub fn set_watch_version(&self, resource: &'static str, version: u64) {
        self.0.versions.get_or_create(&[("resource", resource)]).set(whole(version));
    }

    /// All of it as OpenMetrics text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a String does not fail.
        let _ = encode(&mut text, &self.0.registry);
        text
    }
}

fn whole<N: TryInto<i64>>(count: N) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// What [`Totals`] say of the memory of cards.
fn memory(totals: &Totals) -> [(&'static str, u128); 5] {
    [
        ("capacity", totals.capacity_bytes),
        ("held", totals.held_bytes),
        ("in_use", totals.in_use_bytes),
        ("fragmented", totals.fragmented_bytes),
        ("stranded", totals.stranded_bytes),
    ]
}

fn reload(ok: bool) -> Label {
    [("result", if ok { "ok" } else { "failed" })]
}

impl Inner {
    fn register(&mut self) {
        let r = &mut self.registry;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        r.register("build", "Which divvy this is", Info::new(version));
        r.register("leader", "1 if this process leads, 0 if it waits", self.leader.clone());
        r.register("watch_synced", "1 if all objects are known", self.synced.clone());
        let help = "The resourceVersion up to which all that a watch told is known";
        r.register("watch_resource_version", help, self.versions.clone());
        let help = "Tries to place a pod, by how they ended";
        r.register("schedule_attempts", help, self.attempts.clone());
        r.register("bindings", "Bindings, by how they ended", self.bindings.clone());
        let help = "Requests to the API by verb and status; code 0 is no answer";
        r.register("api_requests", help, self.requests.clone());
        r.register("watch_restarts", "Watches that began anew", self.watch_restarts.clone());
        r.register("events_written", "Events written", self.events.clone());
        let help = "Changes of the configuration file";
        r.register("config_reloads", help, self.reloads.clone());
        let help = "Time to decide one pass over what can be placed";
        r.register_with_unit("pass_duration", help, Unit::Seconds, self.pass.clone());
        let help = "Time from sending a binding to its answer";
        r.register_with_unit("binding_duration", help, Unit::Seconds, self.binding.clone());
        let help = "Time from a pod's creation to its binding";
        r.register_with_unit("pod_create_to_bound", help, Unit::Seconds, self.bound.clone());
        r.register("pending_pods", "Pods that wait, by the main reason", self.pending.clone());
        r.register("held_pods", "Pods that hold something on a node", self.held.clone());
        r.register("nodes", "Nodes of the cluster", self.nodes.clone());
        r.register("cards", "Cards; closed ones take nobody new", self.cards.clone());
        r.register("slices", "Time slices, MPS replicas and MIG slices", self.slices.clone());
        let help = "Cards that bound pods claim more of than there is";
        r.register("disputed_cards", help, self.disputed.clone());
        let help = "Nodes on which shared cards have lost their reservations, and no GPU is given";
        r.register("unsettled_nodes", help, self.unsettled.clone());
        let help = "Shared cards that the device plugin has given to another pod too";
        r.register("conflicting_cards", help, self.conflicting.clone());
        let help = "Shared cards that no reservation holds and the device plugin does not hand out";
        r.register("missing_cards", help, self.missing.clone());
        let help = "Pods that vanished without ending, and whose cards are not free yet";
        r.register("ghosts", help, self.ghosts.clone());
        let help =
            "Cards whose shares may use more than they asked for, and could together outgrow them";
        r.register("unguarded_cards", help, self.unguarded.clone());
        let help = "Time slices, MPS replicas and MIG slices by the resource that asks for them";
        r.register("resource_slices", help, self.slices_by_resource.clone());
        let help = "When the pod was created that has waited longest; 0 if none waits";
        let name = "oldest_pending_created_timestamp";
        r.register_with_unit(name, help, Unit::Seconds, self.oldest_pending.clone());
        let help = "What the pods of a queue hold in whole GPUs; quotas are not enforced";
        r.register("queue_gpus", help, self.queue_gpus.clone());
        let help = "Pods of a queue that hold GPUs";
        r.register("queue_pods", help, self.queue_pods.clone());
        let help = "Memory of cards; in_use is all of cards that somebody holds, fragmented is free on shared cards, stranded is that of it which is too little for any share in use";
        r.register_with_unit("card_memory", help, Unit::Bytes, self.memory.clone());
        let help = "Memory of cards by their model; held of in_use is how well they are packed";
        r.register_with_unit("model_memory", help, Unit::Bytes, self.models.clone());
        let help = "Memory of cards by node; held of in_use is how well they are packed";
        r.register_with_unit("node_memory", help, Unit::Bytes, self.nodes_memory.clone());
        let help = "Writes that wait for their turn";
        r.register("queued_writes", help, self.queued_writes.clone());
    }

    /// Rates need a zero to start from.
    fn begin(&self) {
        for result in Attempt::ALL {
            self.attempts.get_or_create(&result.label()).inc_by(0);
        }
        for result in BindingResult::ALL {
            self.bindings.get_or_create(&result.label()).inc_by(0);
        }
        for ok in [true, false] {
            self.reloads.get_or_create(&reload(ok)).inc_by(0);
        }
    }
}

#[cfg(test)]
mod tests;
