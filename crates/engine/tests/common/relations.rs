//! Builders for pods with relations: `a1` and `a2` in zone a, `b1` in zone b, `c1` in none.

#![allow(dead_code)]

use crate::common::*;
use divvy_engine::*;
use divvy_ledger::Gpus;
use std::sync::Arc;

/// The four nodes.
pub fn zones() -> Scheduler {
    let at = |name: &str, zone: Option<&str>| {
        let mut record = node(name, Gpus::none());
        let zone = zone.map(|zone| ("zone".into(), zone.into()));
        record.facts.labels = [("host".into(), name.into())].into_iter().chain(zone).collect();
        record
    };
    let nodes = [at("a1", Some("a")), at("a2", Some("a")), at("b1", Some("b")), at("c1", None)];
    cluster(Config::default(), nodes)
}

/// `app=web,tier=x` as labels.
pub fn labels(text: &str) -> Arc<Labels> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    Arc::new(pairs.collect())
}

/// `app=web` as a selector; an empty text matches everything.
pub fn selector(text: &str) -> Selector {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let one = |(key, value): (&str, &str)| Requirement {
        key: key.into(),
        test: Test::In(vec![value.into()].into()),
    };
    Selector::all(pairs.map(one))
}

/// Pods of namespace `ml` with such labels in the same domain.
pub fn term(pods: &str, topology: &str) -> PodTerm {
    let pods = PodSelector::new(["ml"], Selector::NOTHING, selector(pods));
    PodTerm { pods, topology: topology.into() }
}

/// A pod with relations.
pub fn related(of: &str, relations: Relations) -> PodSpec {
    PodSpec { labels: labels(of), relations: Some(Arc::new(relations)), ..cpu(1) }
}

/// A pod without relations of its own.
pub fn labelled(of: &str) -> PodSpec {
    PodSpec { labels: labels(of), ..cpu(1) }
}

/// Enters a pod that runs.
pub fn runs(scheduler: &mut Scheduler, name: &str, node: &str, spec: PodSpec) {
    let bound = Some(Bound::new(node, BoundCards::Nothing));
    scheduler.apply(Event::Pod(Box::new(PodRecord { bound, ..pod(name, spec) }))).unwrap();
}

/// Where a pod may go, by the plain path and by trying it on a copy with only that node left.
pub fn allowed(scheduler: &Scheduler, spec: &PodSpec) -> String {
    let nodes = scheduler.feasible(&pod("new", spec.clone()));
    let mut tried = scheduler.clone();
    let placed = place(&mut tried, "new", spec.clone());
    assert_eq!(placed == "new waits", nodes.is_empty(), "search and plain path differ: {placed}");
    let names: Vec<&str> = nodes.iter().map(|name| &**name).collect();
    names.join(" ")
}
