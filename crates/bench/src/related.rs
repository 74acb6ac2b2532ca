//! What a pod costs whose place depends on other pods: 5,000 nodes with 40,000 pods of 2,000
//! Deployments, a tenth of which have relations of their own.

use crate::workload;
use anyhow::ensure;
use divvy_engine::{
    Bound, BoundCards, Config, Event, Labels, PlanEffect, PodRecord, PodSelector, PodSpec, PodTerm,
    Relations, Requirement, Scheduler, Selector, Spread, Test,
};
use divvy_ledger::{Bytes, MilliCpu};
use divvy_testbed::dice::Dice;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NODES: usize = 5_000;
const HELD: usize = 40_000;
const DEPLOYMENTS: usize = 2_000;
const TRIES: usize = 300;
const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

fn app(deployment: usize) -> String {
    format!("app-{deployment}")
}

fn labels(deployment: usize) -> Arc<Labels> {
    let hash = format!("{deployment:x}");
    Arc::new([("app", app(deployment)), ("pod-template-hash", hash)].into_iter().collect())
}

fn selector(deployment: usize) -> Selector {
    Selector::all([Requirement {
        key: "app".into(),
        test: Test::In(vec![app(deployment).into()].into()),
    }])
}

fn term(deployment: usize, topology: &str) -> PodTerm {
    let pods = PodSelector::new(["bench"], Selector::NOTHING, selector(deployment));
    PodTerm { pods, topology: topology.into() }
}

fn spread(deployment: usize, topology: &str, required: bool) -> Spread {
    Spread {
        topology: topology.into(),
        max_skew: 5,
        required,
        selector: selector(deployment),
        min_domains: 1,
        honor_affinity: true,
        honor_taints: false,
    }
}

/// Relations by name; the deployment has pods in all zones.
fn kinds(own: usize) -> Vec<(&'static str, Relations)> {
    let none = Relations::default;
    vec![
        ("none", none()),
        ("anti-affinity by node", Relations { anti_affinity: vec![term(own, HOST)], ..none() }),
        ("affinity by zone", Relations { affinity: vec![term(own, ZONE)], ..none() }),
        ("preferred by node", Relations { preferred: vec![(-100, term(own, HOST))], ..none() }),
        ("spread by zone", Relations { spread: vec![spread(own, ZONE, true)], ..none() }),
        (
            "spread by zone and node",
            Relations { spread: vec![spread(own, ZONE, true), spread(own, HOST, false)], ..none() },
        ),
    ]
}

fn spec(deployment: usize, relations: Relations) -> PodSpec {
    PodSpec {
        cpu: MilliCpu(250),
        memory: Bytes(1 << 30),
        labels: labels(deployment),
        relations: (relations != Relations::default()).then(|| Arc::new(relations)),
        ..PodSpec::default()
    }
}

pub fn run() -> anyhow::Result<()> {
    let mut scheduler = Scheduler::new(Config::default());
    for i in 0..NODES {
        scheduler.apply(Event::Node(Box::new(workload::node(i))))?;
    }
    let mut dice = Dice(3);
    let start = Instant::now();
    for i in 0..HELD {
        let deployment = dice.index(DEPLOYMENTS);
        let kinds = kinds(deployment);
        let relations = match deployment % 10 {
            0 => kinds[1 + deployment / 10 % (kinds.len() - 1)].1.clone(),
            _ => Relations::default(),
        };
        let node = workload::node(dice.index(NODES)).name;
        let bound = Some(Bound::new(node, BoundCards::Nothing));
        let pod = workload::pod(i, spec(deployment, relations));
        scheduler.apply(Event::Pod(Box::new(PodRecord { bound, ..pod })))?;
    }
    let entering = start.elapsed();
    println!();
    println!("{NODES} nodes, {HELD} pods of {DEPLOYMENTS} Deployments, a tenth with relations.");
    println!("entering a bound pod: {:.1} us", micros(entering, HELD));
    println!("{:<24} {:>12} {:>12} {:>9}", "RELATIONS", "US/DECISION", "US/SCAN", "COMPARED");
    for (at, name) in kinds(0).iter().map(|(name, _)| *name).enumerate() {
        let mut live = scheduler.clone();
        let (mut busy, mut scanning, mut compared) = (Duration::ZERO, Duration::ZERO, 0);
        for i in 0..TRIES {
            // Deployments without pods that object, so that all rows place the same pods.
            let deployment = 1 + 10 * (i % 150);
            let pod = workload::pod(HELD + i, spec(deployment, kinds(deployment)[at].1.clone()));
            let start = Instant::now();
            let expected = (i % 10 == 0).then(|| live.scan(&pod));
            if expected.is_some() {
                scanning += start.elapsed();
                compared += 1;
            }
            let start = Instant::now();
            live.apply(Event::Pod(Box::new(pod)))?;
            let plan = live.pass(usize::MAX);
            busy += start.elapsed();
            let placed = plan.into_effects().find_map(|effect| match effect {
                PlanEffect::Bind { placement, .. } => Some(placement),
                PlanEffect::Open { .. } | PlanEffect::Report { .. } => None,
            });
            ensure!(expected.is_none_or(|e| e == placed), "{name}: scan and search differ");
        }
        let (each, scan) = (micros(busy, TRIES), micros(scanning, compared));
        println!("{name:<24} {each:>12.1} {scan:>12.1} {compared:>9}");
    }
    Ok(())
}

fn micros(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e6 / count.max(1) as f64
}
