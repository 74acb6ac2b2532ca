//! The same decision by a plain scan of all nodes: what the engine's search is measured against,
//! in speed and in placements.

use crate::cards;
use crate::event::Placement;
use crate::others::{About, Prepared, Question};
use crate::others::{Counts, Ports, Sense, owned_terms};
use crate::record::PodRecord;
use crate::relations::PodSelector;
use crate::scheduler::{Scheduler, share_on};
use crate::score::{self, Strategies};
use divvy_ledger::NodeId;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

impl Scheduler {
    /// Where a pod would go if it came now: every node is judged, fitted and scored anew, and
    /// every pod is asked anew, with no shape, ranking, journal or census.
    pub fn scan(&self, pod: &PodRecord) -> Option<Placement> {
        let spec = &pod.spec;
        let needs = self.known_needs(spec)?;
        let strategies = Strategies::new(self.config(), spec.strategy);
        let prepared = self.prepare_plainly(pod);
        let fitting = self.ledger().alive().filter_map(|(id, node)| {
            let liking = spec.rules.judge(node.name(), self.facts(id)?).ok()?;
            let share = share_on(node, &needs.request);
            let score = score::score(liking, &needs, share, strategies, self.config(), node)?;
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
        let prepared = self.prepare_plainly(pod);
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

    /// A pod's relations, with every pod that holds a place asked one by one.
    fn prepare_plainly<'a>(&'a self, pod: &'a PodRecord) -> Prepared<'a> {
        let relations = pod.spec.relations.as_deref();
        let (namespace, labels) = (pod.key.namespace(), &*pod.spec.labels);
        let all = |terms: &[&PodSelector], sense| self.count_plainly(terms, sense);
        let one = |pods: &PodSelector, sense| self.count_plainly(&[pods], sense);
        let mut question = Question {
            relations,
            labels,
            rules: &pod.spec.rules,
            ports: Cow::default(),
            affinity: Cow::default(),
            meets_own_affinity: false,
            anti_affinity: Vec::new(),
            preferred: Vec::new(),
            spread: Vec::new(),
            owned_terms: self.owned_terms_plainly(pod),
        };
        if let Some(relations) = relations {
            let affinity: Vec<_> = relations.affinity.iter().map(|t| &t.pods).collect();
            let known = self.census().namespace_labels(namespace);
            let meets = |pods: &&PodSelector| pods.matches(namespace, known, labels, Sense::Meets);
            question.ports = Cow::Owned(self.ports_plainly());
            question.meets_own_affinity = affinity.iter().all(meets);
            question.affinity = all(&affinity, Sense::Meets);
            let anti = relations.anti_affinity.iter();
            question.anti_affinity = anti.map(|t| one(&t.pods, Sense::Bars)).collect();
            let preferred = relations.preferred.iter();
            question.preferred = preferred.map(|(_, t)| one(&t.pods, Sense::Meets)).collect();
            let spread = relations.spread.iter().map(|s| s.pods(namespace));
            let spread = spread.map(|p| p.map_or_else(Cow::default, |p| one(&p, Sense::Spreads)));
            question.spread = spread.collect();
        }
        Prepared::new(question, self.world())
    }

    fn count_plainly(&self, all: &[&PodSelector], sense: Sense) -> Cow<'static, Counts> {
        let mut counts = Counts::default();
        for pod in self.census().everyone() {
            let known = self.census().namespace_labels(pod.namespace);
            let is_meant =
                |s: &&PodSelector| s.matches(pod.namespace, known, &pod.label_set.labels, sense);
            if pod.presence.counts(sense) && !all.is_empty() && all.iter().all(is_meant) {
                *counts.entry(pod.node).or_default() += 1;
            }
        }
        Cow::Owned(counts)
    }

    fn owned_terms_plainly<'a>(&'a self, pod: &PodRecord) -> Vec<About<'a>> {
        if !self.census().has_relations() {
            return Vec::new();
        }
        let (namespace, labels) = (pod.key.namespace(), &*pod.spec.labels);
        let known = self.census().namespace_labels(namespace);
        let owners =
            self.census().everyone().filter_map(|owner| Some((owner.node, owner.relation_set?)));
        let terms = owners.flat_map(|(node, relation_set)| {
            owned_terms(&relation_set.relations).map(move |(term, weight)| (node, term, weight))
        });
        let meant =
            terms.filter(|(_, term, _)| term.pods.matches(namespace, known, labels, Sense::Owned));
        let one = |node: NodeId| Cow::Owned(Counts::from_iter([(node, 1)]));
        let about = meant.map(|(node, term, weight)| About {
            topology: &term.topology,
            owned_term: None,
            weight,
            owners: one(node),
        });
        about.collect()
    }

    fn ports_plainly(&self) -> Ports {
        let mut ports = Ports::default();
        for pod in self.census().everyone() {
            for port in
                pod.relation_set.iter().flat_map(|relation_set| &relation_set.relations.ports)
            {
                let taken = ports.entry(pod.node).or_default();
                taken.entry(port.port).or_default().push((port.clone(), pod.id));
            }
        }
        ports
    }
}
