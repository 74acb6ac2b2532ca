//! Answers from the counts that are kept.

use super::{Census, Identity};
use crate::others::prepared::{About, Question};
use crate::rules::Rules;
use std::borrow::Cow;

impl Census {
    /// The question of a pod, answered from the counts that are kept.
    pub(crate) fn question<'a>(&'a self, who: Identity, rules: &'a Rules) -> Option<Question<'a>> {
        let label_set = self.label_set_of(who.label_set)?;
        let owned_terms = self.owned_terms_about(label_set).map(|(id, owned_term)| About {
            topology: &owned_term.topology,
            owned_term: Some(id),
            weight: owned_term.weight,
            owners: Cow::Borrowed(&owned_term.owners),
        });
        let mut question = Question {
            relations: None,
            labels: &label_set.labels,
            rules,
            ports: Cow::Borrowed(self.ports()),
            affinity: Cow::default(),
            meets_own_affinity: false,
            anti_affinity: Vec::new(),
            preferred: Vec::new(),
            spread: Vec::new(),
            owned_terms: owned_terms.collect(),
        };
        let Some(relation_set) = who.relation_set.and_then(|id| self.relation_set_of(id)) else {
            return Some(question);
        };
        let counts = |id| self.counts(id).map_or_else(Cow::default, Cow::Borrowed);
        question.relations = Some(&relation_set.relations);
        if let Some(selection) = relation_set.affinity {
            question.affinity = counts(selection);
            question.meets_own_affinity = label_set.is_in(selection);
        }
        question.anti_affinity = relation_set.anti_affinity.iter().map(|id| counts(*id)).collect();
        question.preferred = relation_set.preferred.iter().map(|id| counts(*id)).collect();
        let spread = relation_set.spread.iter();
        question.spread = spread.map(|id| id.map_or_else(Cow::default, counts)).collect();
        Some(question)
    }
}
