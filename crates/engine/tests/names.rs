//! Names that pods choose are not kept when the pods are gone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "common/relations.rs"]
mod relations;
use common::*;
use divvy_engine::*;
use relations::*;
use std::sync::Arc;

/// A pod whose namespace, labels, selectors, topologies, volumes and resources nobody else names.
fn stranger(i: usize) -> PodRecord {
    let spread = Spread {
        topology: format!("zone-{i}").into(),
        max_skew: 1,
        required: true,
        selector: selector(&format!("spread-{i}=a")),
        min_domains: 1,
        honor_affinity: true,
        honor_taints: false,
    };
    let spec = related(
        &format!("label-{i}=v"),
        Relations {
            spread: vec![spread],
            affinity: vec![term(&format!("near-{i}=b"), "host")],
            anti_affinity: vec![term(&format!("far-{i}=c"), &format!("host-{i}"))],
            ..Relations::default()
        },
    );
    let rules = Rules {
        selector: vec![(format!("node-label-{i}").into(), "v".into())],
        ..Rules::default()
    };
    let spec = PodSpec {
        extended: vec![(format!("example.com/r-{i}"), 1)],
        rules: Arc::new(rules),
        ..spec
    };
    PodRecord { key: PodKey::new(&format!("namespace-{i}"), "p"), ..pod("p", spec) }
}

#[test]
fn names_that_pods_choose_are_forgotten_with_the_pods() {
    let mut scheduler = cluster(Config::default(), [node("n", cards(1, 80))]);
    let mut grown = Vec::new();
    for i in 0..30_000 {
        let record = stranger(i);
        let key = record.key.clone();
        scheduler.apply(Event::Pod(Box::new(record))).unwrap();
        scheduler.pass(usize::MAX);
        scheduler.standing(&key).unwrap();
        scheduler.apply(Event::PodGone(key)).unwrap();
        if i % 10_000 == 9_999 {
            // All that it knows: whatever is kept anywhere is in this text.
            grown.push(format!("{scheduler:?}").len());
        }
    }
    assert!(grown[2] < grown[1] + grown[1] / 10, "{grown:?} bytes after 10, 20 and 30 thousand");
}
