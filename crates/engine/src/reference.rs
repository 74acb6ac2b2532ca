//! The same decision by a plain scan of all nodes: what the engine's search is measured against,
//! in speed and in placements.

use crate::cards;
use crate::event::Placement;
use crate::record::{PodRecord, PodSpec};
use crate::scheduler::{Scheduler, share_on};
use crate::score::{self, Strategies};
use std::cmp::Reverse;
use std::sync::Arc;

impl Scheduler {
    /// Where a pod would go if it came now: every node is judged, fitted and scored anew, with no
    /// shape, ranking or journal.
    pub fn scan(&self, spec: &PodSpec) -> Option<Placement> {
        let needs = self.known_needs(spec)?;
        let strategies = Strategies::new(self.config(), spec.strategy);
        let scores = self.ledger().alive().filter_map(|(id, node)| {
            let liking = spec.rules.judge(node.name(), self.facts(id)?).ok()?;
            let share = share_on(node, needs.request);
            let score = score::score(liking, &needs, share, strategies, self.config(), node)?;
            Some((score, Reverse(node.name()), node))
        });
        let (_, _, node) = scores.max_by_key(|(score, name, _)| (*score, *name))?;
        let share = share_on(node, needs.request);
        let cards = cards::choose(node, needs.request, share, strategies.card);
        Some(Placement { node: node.name().clone(), cards })
    }

    /// The nodes that a pod may go to now, by name. A pod that cannot be tried may go nowhere.
    pub fn feasible(&self, pod: &PodRecord) -> Vec<Arc<str>> {
        let is_tried = pod.invalid.is_none() && pod.paused.is_none() && pod.spec.gates.is_empty();
        let Some(needs) = self.known_needs(&pod.spec).filter(|_| is_tried) else {
            return Vec::new();
        };
        let is_feasible = |id| {
            let (Some(node), Some(facts)) = (self.ledger().node(id), self.facts(id)) else {
                return false;
            };
            pod.spec.rules.judge(node.name(), facts).is_ok()
                && node.fit(&needs, share_on(node, needs.request)).is_ok()
        };
        self.nodes().filter(|(_, id)| is_feasible(*id)).map(|(name, _)| name.clone()).collect()
    }
}
