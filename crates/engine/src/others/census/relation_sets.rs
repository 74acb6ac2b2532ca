//! Relation sets: the relations of pods, each term resolved to the selection that it means; and owned terms: the
//! terms of held pods that are about other pods.

use super::selections::{SelectionId, SelectionKey};
use super::{Census, Counts, Identity, LabelSet, NamespaceId, Sense};
use crate::labels::Selector;
use crate::relations::{PodSelector, PodTerm, Relations, Spread};
use divvy_ledger::PodId;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RelationSetId(pub(super) u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OwnedTermId(pub(super) u32);

/// The relations of pods of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct RelationSet {
    pub(crate) relations: Arc<Relations>,
    namespace: NamespaceId,
    pub(super) users: u32,
    /// Pods that match all required affinity terms.
    pub(super) affinity: Option<SelectionId>,
    /// Of each term, in order.
    pub(super) anti_affinity: Vec<SelectionId>,
    pub(super) preferred: Vec<SelectionId>,
    /// `None` for a selector that counts nobody.
    pub(super) spread: Vec<Option<SelectionId>>,
    pub(super) owned_terms: Vec<OwnedTermId>,
}

/// A term that pods have about other pods.
#[derive(Clone, Debug)]
pub(crate) struct OwnedTerm {
    pub(super) selection: SelectionId,
    users: u32,
    pub(crate) topology: Box<str>,
    /// How much the pods that it is about are wanted near; `None` if they are not allowed there.
    pub(crate) weight: Option<i32>,
    /// Held pods that have the term.
    pub(crate) owners: Counts,
}

/// Terms about pods that another pod of the domain has: topology and weight, as in [`OwnedTerm`].
pub(crate) fn owned_terms(r: &Relations) -> impl Iterator<Item = (&PodTerm, Option<i32>)> {
    // kube-scheduler's default weight for the required affinity of pods that are there already.
    const REQUIRED: i32 = 1;
    let forbidden = r.anti_affinity.iter().map(|term| (term, None));
    let required = r.affinity.iter().map(|term| (term, Some(REQUIRED)));
    forbidden.chain(required).chain(r.preferred.iter().map(|(weight, term)| (term, Some(*weight))))
}

impl Spread {
    /// The pods that the constraint counts; `None` if it counts nobody.
    pub(crate) fn pods(&self, namespace: &str) -> Option<PodSelector> {
        let counts = self.selector.0.as_ref().is_some_and(|all| !all.is_empty());
        counts.then(|| PodSelector {
            namespaces: Box::new([namespace.into()]),
            namespace_selector: Selector::NOTHING,
            labels: self.selector.clone(),
        })
    }
}

impl Census {
    /// The relation set of these relations, with one more user.
    pub(super) fn relation_set(
        &mut self,
        namespace: NamespaceId,
        relations: &Arc<Relations>,
    ) -> RelationSetId {
        if let Some(id) = self.relation_set_ids.get(&(namespace, relations.clone())) {
            if let Some(relation_set) = self.relation_sets.get_mut(id.0) {
                relation_set.users += 1;
            }
            return *id;
        }
        let one = |pods: &PodSelector, sense| SelectionKey { all: Box::new([pods.clone()]), sense };
        let all: Box<[PodSelector]> = relations.affinity.iter().map(|t| t.pods.clone()).collect();
        let affinity =
            (!all.is_empty()).then(|| self.selection(SelectionKey { all, sense: Sense::Meets }));
        let anti = relations.anti_affinity.iter();
        let anti_affinity = anti.map(|t| self.selection(one(&t.pods, Sense::Bars))).collect();
        let preferred = relations.preferred.iter();
        let preferred =
            preferred.map(|(_, t)| self.selection(one(&t.pods, Sense::Meets))).collect();
        let name = self.namespaces[namespace.0 as usize].name.clone();
        let spread = relations.spread.iter().map(|s| s.pods(&name));
        let spread = spread.map(|pods| Some(self.selection(one(&pods?, Sense::Spreads)))).collect();
        let owned_terms = owned_terms(relations)
            .map(|(term, weight)| {
                let selection = self.selection(one(&term.pods, Sense::Owned));
                self.owned_term(selection, &term.topology, weight)
            })
            .collect();
        let relation_set = RelationSet {
            relations: relations.clone(),
            namespace,
            users: 1,
            affinity,
            anti_affinity,
            preferred,
            spread,
            owned_terms,
        };
        self.namespaces[namespace.0 as usize].relation_sets += 1;
        let id = RelationSetId(self.relation_sets.insert(relation_set));
        self.relation_set_ids.insert((namespace, relations.clone()), id);
        id
    }

    pub(super) fn drop_relation_set(&mut self, id: RelationSetId) {
        let Some(relation_set) = self.relation_sets.get_mut(id.0) else { return };
        relation_set.users -= 1;
        if relation_set.users > 0 {
            return;
        }
        let Some(relation_set) = self.relation_sets.remove(id.0) else { return };
        for owned_term in relation_set.owned_terms {
            self.drop_owned_term(owned_term);
        }
        let spread = relation_set.spread.into_iter().flatten();
        let selections = relation_set
            .affinity
            .into_iter()
            .chain(relation_set.anti_affinity)
            .chain(relation_set.preferred);
        for selection in selections.chain(spread) {
            self.drop_selection(selection);
        }
        self.relation_set_ids.remove(&(relation_set.namespace, relation_set.relations));
        self.namespaces[relation_set.namespace.0 as usize].relation_sets -= 1;
        self.tidy_namespace(relation_set.namespace);
    }

    /// Takes over the user of the selection that was counted for it.
    fn owned_term(
        &mut self,
        selection: SelectionId,
        topology: &str,
        weight: Option<i32>,
    ) -> OwnedTermId {
        let known =
            self.selections.get(selection.0).into_iter().flat_map(|c| &c.owned_terms).copied();
        let same = |id: &OwnedTermId| {
            let owned_term = self.owned_terms.get(id.0);
            owned_term.is_some_and(|b| (&*b.topology, b.weight) == (topology, weight))
        };
        if let Some(id) = known.into_iter().find(same) {
            if let Some(owned_term) = self.owned_terms.get_mut(id.0) {
                owned_term.users += 1;
            }
            return id;
        }
        let owners = Counts::default();
        let owned_term =
            OwnedTerm { selection, users: 1, topology: topology.into(), weight, owners };
        let id = OwnedTermId(self.owned_terms.insert(owned_term));
        if let Some(selection) = self.selections.get_mut(selection.0) {
            selection.owned_terms.push(id);
        }
        id
    }

    fn drop_owned_term(&mut self, id: OwnedTermId) {
        let Some(owned_term) = self.owned_terms.get_mut(id.0) else { return };
        owned_term.users -= 1;
        let selection = owned_term.selection;
        if owned_term.users == 0 {
            self.owned_terms.remove(id.0);
            if let Some(selection) = self.selections.get_mut(selection.0) {
                selection.owned_terms.retain(|other| *other != id);
            }
        }
        self.drop_selection(selection);
    }

    /// How many pods of a selection there are, by node.
    pub(super) fn counts(&self, selection: SelectionId) -> Option<&Counts> {
        Some(&self.selections.get(selection.0)?.counts)
    }

    /// Whether the anti-affinity term of that number, of pods with such a relation set, means a pod.
    pub(crate) fn is_meant_by(&self, relation_set: RelationSetId, term: usize, pod: PodId) -> bool {
        let selection = self
            .relation_set_of(relation_set)
            .and_then(|relation_set| relation_set.anti_affinity.get(term));
        let label_set = self.identity(pod).and_then(|who| self.label_set_of(who.label_set));
        label_set.zip(selection).is_some_and(|(label_set, selection)| label_set.is_in(*selection))
    }

    /// Whether a pod has this term.
    pub(crate) fn owns(&self, pod: PodId, owned_term: OwnedTermId) -> bool {
        let relation_set =
            self.identity(pod).and_then(|who| self.relation_set_of(who.relation_set?));
        relation_set.is_some_and(|relation_set| relation_set.owned_terms.contains(&owned_term))
    }

    /// The terms of held pods that are about pods of this label set.
    pub(super) fn owned_terms_about<'a>(
        &'a self,
        label_set: &'a LabelSet,
    ) -> impl Iterator<Item = (OwnedTermId, &'a OwnedTerm)> {
        let selections = label_set.selections.iter().filter_map(|id| self.selections.get(id.0));
        let owned_terms = selections.flat_map(|selection| &selection.owned_terms);
        let owned_terms = owned_terms.filter_map(|id| Some((*id, self.owned_terms.get(id.0)?)));
        owned_terms.filter(|(_, owned_term)| !owned_term.owners.is_empty())
    }

    /// How many terms of held pods are about such a pod.
    pub(crate) fn owned_term_count(&self, who: Identity) -> usize {
        self.label_set_of(who.label_set)
            .map_or(0, |label_set| self.owned_terms_about(label_set).count())
    }
}
