//! Small builders for clusters and pods.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use divvy_engine::*;
use divvy_ledger::*;

pub mod storage;

pub const GIB: u64 = 1 << 30;

pub fn node(name: &str, gpus: Gpus) -> NodeRecord {
    NodeRecord {
        name: name.to_owned(),
        cpu: MilliCpu(64_000),
        memory: Bytes(256 * GIB),
        ephemeral: Bytes(1000 * GIB),
        pods: 110,
        gpus,
        ..NodeRecord::default()
    }
}

pub fn cards(count: u32, gib: u64) -> Gpus {
    Gpus::cards(count, count, Some(Bytes(gib * GIB)))
}

pub fn whole(n: u32) -> PodSpec {
    PodSpec { request: Request::whole(n), ..PodSpec::default() }
}

pub fn fraction(text: &str) -> PodSpec {
    fractions(text, 1)
}

pub fn fractions(text: &str, cards: u32) -> PodSpec {
    let portion = Portion::Fraction(Fraction::parse(text).unwrap());
    PodSpec { request: Request::share(cards, Part::of(portion)), ..PodSpec::default() }
}

pub fn memory(mib: u64) -> PodSpec {
    let portion = Portion::Memory(Bytes::from_mib(mib));
    PodSpec { request: Request::share(1, Part::of(portion)), ..PodSpec::default() }
}

pub fn cpu(milli: u64) -> PodSpec {
    PodSpec { cpu: MilliCpu(milli), ..PodSpec::default() }
}

pub fn pod(name: &str, spec: PodSpec) -> PodRecord {
    PodRecord {
        key: ObjectKey::new("ml", name),
        uid: Box::default(),
        priority: 0,
        created: 0,
        spec,
        ..PodRecord::default()
    }
}

pub fn cluster(config: Config, nodes: impl IntoIterator<Item = NodeRecord>) -> Scheduler {
    let mut scheduler = Scheduler::new(config);
    for node in nodes {
        scheduler.apply(Event::Node(Box::new(node))).unwrap();
    }
    scheduler
}

pub fn add(scheduler: &mut Scheduler, name: &str, spec: PodSpec) {
    scheduler.apply(Event::Pod(Box::new(pod(name, spec)))).unwrap();
}

pub fn gone(scheduler: &mut Scheduler, name: &str) {
    scheduler.apply(Event::PodGone(ObjectKey::new("ml", name))).unwrap();
}

/// Runs a pass and says for each decision `name node cards`, or `name waits`.
pub fn pass(scheduler: &mut Scheduler) -> Vec<String> {
    scheduler.pass(usize::MAX).effects().filter_map(told).collect()
}

/// `name node cards`, or `name waits`.
pub fn told(effect: &PlanEffect) -> Option<String> {
    Some(match effect {
        PlanEffect::Open { .. } => return None,
        PlanEffect::Bind { pod, placement, .. } => {
            let cards: Vec<String> = placement.cards.iter().map(|c| c.index.to_string()).collect();
            format!("{} {} {}", pod.name(), placement.node, cards.join(",")).trim().to_owned()
        }
        PlanEffect::Report { pod } => format!("{} waits", pod.name()),
    })
}

/// Adds pods one after another, each with its own pass, and says where the last one went.
pub fn place(scheduler: &mut Scheduler, name: &str, spec: PodSpec) -> String {
    add(scheduler, name, spec);
    pass(scheduler).pop().unwrap_or_default()
}

pub fn waiting(scheduler: &Scheduler, name: &str) -> Diagnosis {
    match scheduler.standing(&ObjectKey::new("ml", name)) {
        Some(Standing::Waiting(diagnosis)) => diagnosis,
        other => panic!("{name} should wait, but is {other:?}"),
    }
}

/// `2 x reason` for every group, closest first.
pub fn reasons(scheduler: &Scheduler, name: &str) -> Vec<String> {
    let refusals = waiting(scheduler, name).refusals;
    refusals.iter().map(|g| format!("{} x {}", g.nodes.len(), g.reason)).collect()
}
