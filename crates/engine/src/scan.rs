//! The same decision by a plain scan of all nodes: what the engine's search is measured against,
//! in speed and in placements.

use crate::cards;
use crate::event::Placement;
use crate::record::PodRecord;
use crate::scheduler::{Scheduler, share_on};
use crate::score::{self, Candidate, Strategies};
use std::cmp::Reverse;
use std::sync::Arc;

impl Scheduler {
    /// Where a pod would go if it came now: every node is judged, fitted and scored anew, and
    /// every pod is asked anew, with no shape, ranking, journal or census.
    pub fn scan(&self, pod: &PodRecord) -> Option<Placement> {
        let spec = &pod.spec;
        let needs = self.known_needs(spec)?;
        let strategies = Strategies::new(self.config(), spec.strategy);
        let prepared = self.world().prepare_plainly(pod);
        let fitting = self.ledger().alive().filter_map(|(id, node)| {
            let liking = spec.rules.judge(node.name(), self.facts(id)?).ok()?;
            let share = share_on(node, &needs.request);
            let at = node.fits(&needs, share).then_some(id);
            let at = Candidate { glance: self.ledger().glance(at?)?, node };
            let score = score::score(liking, &needs, share, strategies, self.config(), at);
            prepared.check(id).ok()?;
            Some((liking, score, id, node))
        });
        let fitting: Vec<_> = fitting.collect();
        let wishes = prepared.wishes();
        let offers = fitting.iter().map(|(l, _, id, _)| wishes.wishes(*id, l.weight().into()));
        let points = wishes.points(&offers.collect::<Vec<_>>());
        let ranked = fitting.iter().zip(points).map(|((liking, score, _, node), points)| {
            let wished = if wishes.is_empty() { liking.weight().into() } else { points };
            let rest = score & ((1 << score::BELOW_LIKING) - 1);
            ((liking.untainted(), wished, rest, Reverse(node.name())), *node)
        });
        let (_, node) = ranked.max_by_key(|(rank, _)| *rank)?;
        let share = share_on(node, &needs.request);
        let cards = cards::choose(
            node,
            &needs.request,
            share,
            node.openable(&needs, share),
            strategies.card,
        );
        Some(Placement { node: node.name().clone(), cards })
    }

    /// The nodes that a pod may go to now, by name. A pod that cannot be tried may go nowhere.
    pub fn feasible(&self, pod: &PodRecord) -> Vec<Arc<str>> {
        let is_tried = pod.invalid.is_none() && pod.paused.is_none() && pod.spec.gates.is_empty();
        let Some(needs) = self.known_needs(&pod.spec).filter(|_| is_tried) else {
            return Vec::new();
        };
        let prepared = self.world().prepare_plainly(pod);
        let is_feasible = |id| {
            let (Some(node), Some(facts)) = (self.ledger().node(id), self.facts(id)) else {
                return false;
            };
            pod.spec.rules.judge(node.name(), facts).is_ok()
                && node.fit(&needs, share_on(node, &needs.request)).is_ok()
                && prepared.check(id).is_ok()
        };
        self.nodes().filter(|(_, id)| is_feasible(*id)).map(|(name, _)| name.clone()).collect()
    }
}
