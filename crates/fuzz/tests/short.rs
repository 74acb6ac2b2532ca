//! Each target over its corpus, and over some thousands of inputs that follow from a seed: so that
//! the targets do not rot. What takes long is `cargo xtask fuzz`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use divvy_fuzz::{TARGETS, Target};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// The same inputs in every run: one that fails, fails again.
const SEED: u64 = 11;

/// The inputs that are kept for a target, by name.
fn corpus(target: Target) -> Vec<(String, Vec<u8>)> {
    let folder = std::fs::read_dir(target.corpus()).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path());
    let read =
        |path: std::path::PathBuf| (path.display().to_string(), std::fs::read(&path).unwrap());
    let mut inputs: Vec<_> = paths.map(read).collect();
    inputs.sort();
    inputs
}

/// An input of the corpus with changes, or any bytes.
fn input(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<Index>(), 0usize..6, prop::collection::vec(any::<u8>(), 0..6));
    let changes = prop::collection::vec(change, 1..5);
    let changed = (any::<Index>(), changes).prop_map(move |(which, changes)| {
        let mut bytes = which.get(&corpus).clone();
        for (at, removed, inserted) in changes {
            let at = at.index(bytes.len() + 1);
            let end = (at + removed).min(bytes.len());
            bytes.splice(at..end, inserted);
        }
        bytes
    });
    prop_oneof![3 => changed, 1 => prop::collection::vec(any::<u8>(), 0..300)]
}

fn try_inputs(name: &str, cases: u32) {
    let target = Target::find(name).unwrap();
    let corpus = corpus(target);
    for (path, bytes) in &corpus {
        println!("{path}");
        target.run(bytes);
    }
    let config = Config { cases, rng_seed: RngSeed::Fixed(SEED), ..Config::default() };
    let inputs = input(corpus.into_iter().map(|(_, bytes)| bytes).collect());
    let tried = TestRunner::new(config).run(&inputs, |bytes| {
        target.run(&bytes);
        Ok(())
    });
    tried.unwrap();
}

/// One test for each target.
macro_rules! targets {
    ($($test:ident: $name:literal, $cases:literal;)*) => {
        $(
            #[test]
            fn $test() {
                try_inputs($name, $cases);
            }
        )*

        #[test]
        fn every_target_has_a_test() {
            let tested = [$($name),*];
            assert_eq!(TARGETS.map(|target| target.name), tested);
        }
    };
}

targets! {
    quantities_print_as_they_were_read: "quantities", 5000;
    requests_that_are_accepted_are_shares: "requests", 3000;
    names_of_devices_are_each_one_card: "devices", 5000;
    configurations_that_are_accepted_can_be_placed_by: "configs", 2000;
    divisions_of_cards_are_read_and_judged: "divisions", 2000;
    both_readers_of_yaml_agree: "manifests", 1000;
    objects_are_the_same_in_json_and_yaml: "objects", 1000;
    what_is_mended_is_mended_once: "lint", 500;
    pods_become_records_that_can_be_kept: "pods", 1000;
    nodes_become_records_that_the_ledger_can_keep: "nodes", 1000;
    reviews_change_a_pod_once_and_allow_what_is_bound: "reviews", 1000;
    lists_are_taken_apart_wherever_they_are_cut: "lists", 2000;
    snapshots_say_what_their_objects_say: "snapshots", 1000;
    rehearsals_end_in_tables_and_pictures: "rehearsals", 200;
    the_ledger_agrees_with_itself_after_any_event: "events", 500;
    no_card_is_over_packed_whatever_is_lost: "clusters", 300;
    rehearsals_are_what_the_scheduler_does: "agreement", 300;
}
