//! How many more of a pod fit besides those that are there: a trial that gives places to one after
//! another, and is taken back.

use super::Scheduler;
use super::trial::{Such, Trial};
use crate::diagnosis::Diagnosis;
use crate::others::Identity;
use crate::pods::PodState;
use crate::record::PodRecord;
use divvy_ledger::NodeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many more of a pod fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// How many on which node, by name.
    pub nodes: Vec<(Arc<str>, usize)>,
    /// Why no more fit; `None` if it was not counted to the end.
    pub why: Option<Diagnosis>,
}

impl Scheduler {
    /// How many more pods like this fit, each where it would be placed if it came: at most so many,
    /// and `work` is how many nodes may be looked at, as for [`Scheduler::slice`]. Nothing of it stays.
    pub fn fill(&mut self, record: &PodRecord, most: usize, work: u64) -> Fill {
        let (state, who) = self.meet(record);
        let fill = match &state {
            PodState::Waiting(shape) => {
                let end = self.shapes.work().saturating_add(work);
                self.fill_with(&Such { record, shape: *shape, who }, most, end)
            }
            state => Fill { nodes: Vec::new(), why: self.why(state) },
        };
        self.part(&state, who);
        fill
    }

    fn fill_with(&mut self, such: &Such<'_>, most: usize, end: u64) -> Fill {
        let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut why = None;
        let mut trial = Trial::new(self);
        for _ in 0..most {
            let Some(node) = trial.hold(such) else {
                why = trial.why(such.shape);
                break;
            };
            *counts.entry(node).or_default() += 1;
            if trial.work() >= end {
                break;
            }
        }
        drop(trial);
        let named = |(id, count)| Some((self.ledger().node(id)?.name().clone(), count));
        let mut nodes: Vec<_> = counts.into_iter().filter_map(named).collect();
        nodes.sort();
        Fill { nodes, why }
    }

    /// How a pod would stand if it came, and who it would be, until [`Scheduler::part`].
    fn meet(&mut self, record: &PodRecord) -> (PodState, Identity) {
        let who = self.world.others.identify(record);
        (self.state_of(record, who), who)
    }

    /// It did not come.
    fn part(&mut self, state: &PodState, who: Identity) {
        state.shape().into_iter().for_each(|shape| self.retire(shape));
        self.world.others.dismiss(who);
        // What it would say of pods that wait is nothing to them.
        drop(self.world.others.take_found());
    }
}
