//! Ties: the relations of pods, each term resolved to the crowd that it means; and bonds: the
//! terms of held pods that are about other pods.

use super::crowds::{CrowdId, CrowdKey};
use super::{Census, Counts, Identity, Kin, NamespaceId, Sense};
use crate::labels::Selector;
use crate::relations::{PodSelector, PodTerm, Relations, Spread};
use divvy_ledger::PodId;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TieId(pub(super) u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BondId(pub(super) u32);

/// The relations of pods of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct Tie {
    pub(crate) relations: Arc<Relations>,
    namespace: NamespaceId,
    pub(super) users: u32,
    /// Pods that match all required affinity terms.
    pub(super) affinity: Option<CrowdId>,
    /// Of each term, in order.
    pub(super) anti_affinity: Vec<CrowdId>,
    pub(super) preferred: Vec<CrowdId>,
    /// `None` for a selector that counts nobody.
    pub(super) spread: Vec<Option<CrowdId>>,
    pub(super) bonds: Vec<BondId>,
}

/// A term that pods have about other pods.
#[derive(Clone, Debug)]
pub(crate) struct Bond {
    pub(super) crowd: CrowdId,
    users: u32,
    pub(crate) topology: Box<str>,
    /// How much the pods that it is about are wanted near; `None` if they are not allowed there.
    pub(crate) weight: Option<i32>,
    /// Held pods that have the term.
    pub(crate) owners: Counts,
}

/// Terms about pods that another pod of the domain has: topology and weight, as in [`Bond`].
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
    /// The tie of these relations, with one more user.
    pub(super) fn tie(&mut self, namespace: NamespaceId, relations: &Arc<Relations>) -> TieId {
        if let Some(id) = self.tie_ids.get(&(namespace, relations.clone())) {
            if let Some(tie) = self.ties.get_mut(id.0) {
                tie.users += 1;
            }
            return *id;
        }
        let one = |pods: &PodSelector, sense| CrowdKey { all: Box::new([pods.clone()]), sense };
        let all: Box<[PodSelector]> = relations.affinity.iter().map(|t| t.pods.clone()).collect();
        let affinity = (!all.is_empty()).then(|| self.crowd(CrowdKey { all, sense: Sense::Meets }));
        let anti = relations.anti_affinity.iter();
        let anti_affinity = anti.map(|t| self.crowd(one(&t.pods, Sense::Bars))).collect();
        let preferred = relations.preferred.iter();
        let preferred = preferred.map(|(_, t)| self.crowd(one(&t.pods, Sense::Meets))).collect();
        let name = self.namespaces[namespace.0 as usize].name.clone();
        let spread = relations.spread.iter().map(|s| s.pods(&name));
        let spread = spread.map(|pods| Some(self.crowd(one(&pods?, Sense::Spreads)))).collect();
        let bonds = owned_terms(relations)
            .map(|(term, weight)| {
                let crowd = self.crowd(one(&term.pods, Sense::Owned));
                self.bond(crowd, &term.topology, weight)
            })
            .collect();
        let tie = Tie {
            relations: relations.clone(),
            namespace,
            users: 1,
            affinity,
            anti_affinity,
            preferred,
            spread,
            bonds,
        };
        self.namespaces[namespace.0 as usize].ties += 1;
        let id = TieId(self.ties.insert(tie));
        self.tie_ids.insert((namespace, relations.clone()), id);
        id
    }

    pub(super) fn drop_tie(&mut self, id: TieId) {
        let Some(tie) = self.ties.get_mut(id.0) else { return };
        tie.users -= 1;
        if tie.users > 0 {
            return;
        }
        let Some(tie) = self.ties.remove(id.0) else { return };
        for bond in tie.bonds {
            self.drop_bond(bond);
        }
        let spread = tie.spread.into_iter().flatten();
        let crowds = tie.affinity.into_iter().chain(tie.anti_affinity).chain(tie.preferred);
        for crowd in crowds.chain(spread) {
            self.drop_crowd(crowd);
        }
        self.tie_ids.remove(&(tie.namespace, tie.relations));
        self.namespaces[tie.namespace.0 as usize].ties -= 1;
        self.tidy_namespace(tie.namespace);
    }

    /// Takes over the user of the crowd that was counted for it.
    fn bond(&mut self, crowd: CrowdId, topology: &str, weight: Option<i32>) -> BondId {
        let known = self.crowds.get(crowd.0).into_iter().flat_map(|c| &c.bonds).copied();
        let same = |id: &BondId| {
            let bond = self.bonds.get(id.0);
            bond.is_some_and(|b| (&*b.topology, b.weight) == (topology, weight))
        };
        if let Some(id) = known.into_iter().find(same) {
            if let Some(bond) = self.bonds.get_mut(id.0) {
                bond.users += 1;
            }
            return id;
        }
        let owners = Counts::default();
        let bond = Bond { crowd, users: 1, topology: topology.into(), weight, owners };
        let id = BondId(self.bonds.insert(bond));
        if let Some(crowd) = self.crowds.get_mut(crowd.0) {
            crowd.bonds.push(id);
        }
        id
    }

    fn drop_bond(&mut self, id: BondId) {
        let Some(bond) = self.bonds.get_mut(id.0) else { return };
        bond.users -= 1;
        let crowd = bond.crowd;
        if bond.users == 0 {
            self.bonds.remove(id.0);
            if let Some(crowd) = self.crowds.get_mut(crowd.0) {
                crowd.bonds.retain(|other| *other != id);
            }
        }
        self.drop_crowd(crowd);
    }

    /// How many pods of a crowd there are, by node.
    pub(super) fn counts(&self, crowd: CrowdId) -> Option<&Counts> {
        Some(&self.crowds.get(crowd.0)?.counts)
    }

    /// Whether the anti-affinity term of that number, of pods with such a tie, means a pod.
    pub(crate) fn is_meant_by(&self, tie: TieId, term: usize, pod: PodId) -> bool {
        let crowd = self.tie_of(tie).and_then(|tie| tie.anti_affinity.get(term));
        let kin = self.identity(pod).and_then(|who| self.kin_of(who.kin));
        kin.zip(crowd).is_some_and(|(kin, crowd)| kin.is_in(*crowd))
    }

    /// Whether a pod has this term.
    pub(crate) fn owns(&self, pod: PodId, bond: BondId) -> bool {
        let tie = self.identity(pod).and_then(|who| self.tie_of(who.tie?));
        tie.is_some_and(|tie| tie.bonds.contains(&bond))
    }

    /// The terms of held pods that are about pods of this kin.
    pub(super) fn bonds_about<'a>(
        &'a self,
        kin: &'a Kin,
    ) -> impl Iterator<Item = (BondId, &'a Bond)> {
        let crowds = kin.crowds.iter().filter_map(|id| self.crowds.get(id.0));
        let bonds = crowds.flat_map(|crowd| &crowd.bonds);
        let bonds = bonds.filter_map(|id| Some((*id, self.bonds.get(id.0)?)));
        bonds.filter(|(_, bond)| !bond.owners.is_empty())
    }

    /// How many terms of held pods are about such a pod.
    pub(crate) fn bond_count(&self, who: Identity) -> usize {
        self.kin_of(who.kin).map_or(0, |kin| self.bonds_about(kin).count())
    }
}
