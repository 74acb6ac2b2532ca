//! Pods that depend on other pods, over long random sequences, beside a model that asks every
//! pod about every other one anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "relations/model.rs"]
mod model;
#[path = "relations/steps.rs"]
mod steps;

use divvy_engine::*;
use model::Model;
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};
use steps::{Step, steps};

/// The scheduler and the model, told the same.
struct Both {
    scheduler: Scheduler,
    model: Model,
}

impl Both {
    fn new() -> Self {
        Self { scheduler: Scheduler::new(Config::default()), model: Model::default() }
    }

    fn tell(&mut self, step: &Step) {
        for event in self.model.enter(step) {
            self.scheduler.apply(event).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// What is placed was allowed when it was placed, and is what a plain scan would choose; what
    /// waits is not allowed anywhere; nothing is forgotten when the news comes in any order.
    #[test]
    fn every_placement_is_allowed_and_nothing_that_is_allowed_waits(steps in steps()) {
        let mut both = Both::new();
        for step in &steps {
            both.tell(step);
            if !matches!(step, Step::Pass) {
                continue;
            }
            loop {
                let before = both.scheduler.clone();
                let plan = both.scheduler.pass(1);
                for effect in plan.effects() {
                    let PlanEffect::Bind { pod, placement, .. } = effect else { continue };
                    let record = both.model.record(pod);
                    let allowed = both.model.feasible(pod);
                    let found: Vec<String> =
                        before.feasible(&record).iter().map(ToString::to_string).collect();
                    prop_assert_eq!(&found, &allowed, "{}", pod);
                    prop_assert!(allowed.contains(&placement.node.to_string()), "{}", pod);
                    let nominated = record.nominated.as_deref().filter(|n| found.iter().any(|f| f == n));
                    match nominated {
                        Some(node) => prop_assert_eq!(node, &*placement.node),
                        None => prop_assert_eq!(before.scan(&record), Some(placement.clone())),
                    }
                    both.model.place(pod, &placement.node);
                }
                if plan.units.is_empty() {
                    break;
                }
            }
            for pod in both.model.waiting() {
                let none: [String; 0] = [];
                prop_assert_eq!(both.model.feasible(&pod), none, "{} waits", pod);
                let record = both.model.record(&pod);
                prop_assert!(both.scheduler.feasible(&record).is_empty(), "{} waits", pod);
                match both.scheduler.standing(&pod) {
                    Some(Standing::Waiting(why)) => prop_assert!(!why.refusals.is_empty()),
                    other => prop_assert!(false, "{} is {:?}", pod, other),
                }
            }
        }
    }

    /// A fresh scheduler that is told only what is there now allows the same.
    #[test]
    fn a_restart_allows_what_the_running_scheduler_allows(steps in steps()) {
        let mut both = Both::new();
        for step in &steps {
            both.tell(step);
            if matches!(step, Step::Pass) {
                for effect in both.scheduler.pass(usize::MAX).into_effects() {
                    if let PlanEffect::Bind { pod, placement, .. } = effect {
                        both.model.place(&pod, &placement.node);
                    }
                }
            }
        }
        let mut fresh = Scheduler::new(Config::default());
        for event in both.model.snapshot() {
            // A pod whose node is gone is told as it is, and that is a problem worth a word.
            let _ = fresh.apply(event);
        }
        for pod in both.model.waiting() {
            let record = both.model.record(&pod);
            prop_assert_eq!(fresh.feasible(&record), both.scheduler.feasible(&record));
            prop_assert_eq!(fresh.scan(&record), both.scheduler.scan(&record));
        }
    }
}
