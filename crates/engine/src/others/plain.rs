//! What a pod asks of others, found by asking every pod anew: what the census is measured against.

use super::census::{Counts, Ports, Sense, owned_terms};
use super::prepared::{About, Prepared, Question};
use crate::record::PodRecord;
use crate::relations::PodSelector;
use crate::world::World;
use divvy_ledger::NodeId;
use std::borrow::Cow;

impl World {
    /// A pod's relations, with every pod that holds a place asked one by one.
    pub(crate) fn prepare_plainly<'a>(&'a self, pod: &'a PodRecord) -> Prepared<'a> {
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
            let known = self.others.census.namespace_labels(namespace);
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
        Prepared::new(question, self)
    }

    fn count_plainly(&self, all: &[&PodSelector], sense: Sense) -> Cow<'static, Counts> {
        let mut counts = Counts::default();
        for pod in self.others.census.everyone() {
            let known = self.others.census.namespace_labels(pod.namespace);
            let is_meant =
                |s: &&PodSelector| s.matches(pod.namespace, known, &pod.label_set.labels, sense);
            if pod.presence.counts(sense) && !all.is_empty() && all.iter().all(is_meant) {
                *counts.entry(pod.node).or_default() += 1;
            }
        }
        Cow::Owned(counts)
    }

    fn owned_terms_plainly<'a>(&'a self, pod: &PodRecord) -> Vec<About<'a>> {
        if !self.others.census.has_relations() {
            return Vec::new();
        }
        let (namespace, labels) = (pod.key.namespace(), &*pod.spec.labels);
        let known = self.others.census.namespace_labels(namespace);
        let owners = self
            .others
            .census
            .everyone()
            .filter_map(|owner| Some((owner.node, owner.relation_set?)));
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
        for pod in self.others.census.everyone() {
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
