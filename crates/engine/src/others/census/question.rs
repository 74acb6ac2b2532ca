//! Answers from the counts that are kept.

use super::{Census, Identity};
use crate::others::prepared::{About, Question};
use crate::rules::Rules;
use std::borrow::Cow;

impl Census {
    /// The question of a pod, answered from the counts that are kept.
    pub(crate) fn question<'a>(&'a self, who: Identity, rules: &'a Rules) -> Option<Question<'a>> {
        let kin = self.kin_of(who.kin)?;
        let bonds = self.bonds_about(kin).map(|(id, bond)| About {
            topology: &bond.topology,
            bond: Some(id),
            weight: bond.weight,
            owners: Cow::Borrowed(&bond.owners),
        });
        let mut question = Question {
            relations: None,
            labels: &kin.labels,
            rules,
            ports: Cow::Borrowed(self.ports()),
            affinity: Cow::default(),
            meets_own_affinity: false,
            anti_affinity: Vec::new(),
            preferred: Vec::new(),
            spread: Vec::new(),
            bonds: bonds.collect(),
        };
        let Some(tie) = who.tie.and_then(|id| self.tie_of(id)) else { return Some(question) };
        let counts = |id| self.counts(id).map_or_else(Cow::default, Cow::Borrowed);
        question.relations = Some(&tie.relations);
        if let Some(crowd) = tie.affinity {
            question.affinity = counts(crowd);
            question.meets_own_affinity = kin.is_in(crowd);
        }
        question.anti_affinity = tie.anti_affinity.iter().map(|id| counts(*id)).collect();
        question.preferred = tie.preferred.iter().map(|id| counts(*id)).collect();
        let spread = tie.spread.iter();
        question.spread = spread.map(|id| id.map_or_else(Cow::default, counts)).collect();
        Some(question)
    }
}
