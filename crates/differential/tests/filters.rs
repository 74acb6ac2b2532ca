//! divvy says the same of random clusters as kube-scheduler's own filters; a test for each topic
//! of predicates, so that a failure names the topic.
//!
//! `DIVVY_CASES` and `DIVVY_SEED` ask for more cases and for others; `cargo xtask differential`
//! sets them.
#![allow(clippy::unwrap_used, clippy::panic)]

use divvy_differential::{Filters, Topic, compare};
use std::io::Write;

/// With all topics, more than 5,000.
const CASES: u64 = 750;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

fn agree(topic: Topic) {
    let mut filters = match Filters::start() {
        Ok(filters) => filters,
        Err(why) => {
            // Not by println, which the test runner hides.
            let _ = writeln!(std::io::stdout(), "skipped: {why}");
            return;
        }
    };
    let cases = usize::try_from(number("DIVVY_CASES", CASES)).unwrap();
    let tally = compare(&mut filters, topic, number("DIVVY_SEED", 1), cases);
    let tally = tally.unwrap_or_else(|report| panic!("{report}"));
    println!("{topic}: {tally:?}");
    assert!(tally.invalid * 4 < tally.cases, "too many pods that nobody could create: {tally:?}");
    assert!(tally.divided * 8 > tally.cases, "too few cases that tell something: {tally:?}");
}

#[test]
fn resources_are_judged_as_by_kube_scheduler() {
    agree(Topic::Resources);
}

#[test]
fn taints_and_cordon_are_judged_as_by_kube_scheduler() {
    agree(Topic::Taints);
}

#[test]
fn node_affinity_is_judged_as_by_kube_scheduler() {
    agree(Topic::Affinity);
}

#[test]
fn host_ports_are_judged_as_by_kube_scheduler() {
    agree(Topic::Ports);
}

#[test]
fn pod_affinity_is_judged_as_by_kube_scheduler() {
    agree(Topic::PodAffinity);
}

#[test]
fn topology_spread_is_judged_as_by_kube_scheduler() {
    agree(Topic::Spread);
}

#[test]
fn volumes_are_judged_as_by_kube_scheduler() {
    agree(Topic::Volumes);
}

#[test]
fn all_together_are_judged_as_by_kube_scheduler() {
    agree(Topic::Mixed);
}
