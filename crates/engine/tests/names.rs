//! Names that pods choose are not kept when the pods are gone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "common/relations.rs"]
mod relations;
use common::*;
use divvy_engine::*;
use relations::*;
use std::sync::Arc;

/// Many conditions that every pod meets, and nobody else has.
fn conditions(i: usize) -> impl Iterator<Item = Requirement> {
    let one = move |k: usize| Requirement {
        key: format!("key-{i}-{k}").into(),
        test: Test::DoesNotExist,
    };
    (0..50).map(one)
}

/// A pod whose namespace, labels, selectors, topologies and resources nobody else names.
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
            anti_affinity: vec![PodTerm {
                pods: PodSelector::new(
                    [format!("namespace-{i}")],
                    Selector::NOTHING,
                    Selector::all(conditions(i)),
                ),
                topology: format!("host-{i}").into(),
            }],
            ..Relations::default()
        },
    );
    let rules = Rules {
        selector: vec![(format!("node-label-{i}").into(), "v".into())],
        required: Some(vec![Term { labels: conditions(i).collect(), fields: Vec::new() }]),
        ..Rules::default()
    };
    let spec = PodSpec {
        extended: vec![(format!("example.com/r-{i}"), 1)],
        rules: Arc::new(rules),
        ..spec
    };
    PodRecord { key: ObjectKey::new(&format!("namespace-{i}"), "p"), ..pod("p", spec) }
}

/// Has one of them wait.
fn wait(scheduler: &mut Scheduler, i: usize) -> ObjectKey {
    let record = stranger(i);
    let key = record.key.clone();
    scheduler.apply(Event::Pod(Box::new(record))).unwrap();
    scheduler.pass(usize::MAX);
    key
}

#[test]
fn a_shape_that_comes_after_another_is_told_from_it() {
    let mut scheduler = cluster(Config::default(), [node("n", cards(1, 80))]);
    let mut seen = Vec::new();
    for i in 0..3 {
        let key = wait(&mut scheduler, i);
        let shape = scheduler.shape_of(&key).unwrap();
        assert!(!seen.contains(&shape), "what is known of {shape:?} is of another");
        seen.push(shape);
        scheduler.apply(Event::PodGone(key)).unwrap();
    }
}

#[test]
fn names_that_pods_choose_are_forgotten_with_the_pods() {
    let mut scheduler = cluster(Config::default(), [node("n", cards(1, 80))]);
    let mut grown = Vec::new();
    for i in 0..15_000 {
        let key = wait(&mut scheduler, i);
        scheduler.standing(&key).unwrap();
        scheduler.apply(Event::PodGone(key)).unwrap();
        if i % 5_000 == 4_999 {
            // All that it knows: whatever is kept anywhere is in this text.
            grown.push(format!("{scheduler:?}").len());
        }
    }
    assert!(grown[2] < grown[1] + grown[1] / 10, "{grown:?} bytes after 5, 10 and 15 thousand");
    // A plateau alone could be a large one: what 15,000 such pods name is far more.
    assert!(grown[2] < 64 << 20, "{grown:?} bytes");
}
