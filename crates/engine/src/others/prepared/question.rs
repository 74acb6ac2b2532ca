//! What must be known of other pods to place one: counts by node, from the census.

use crate::labels::Labels;
use crate::others::census::{Counts, OwnedTermId, Ports};
use crate::relations::Relations;
use crate::rules::Rules;
use std::borrow::Cow;

/// A pod's relations with the counts that they ask for.
pub(crate) struct Question<'a> {
    pub(crate) relations: Option<&'a Relations>,
    pub(crate) labels: &'a Labels,
    pub(crate) rules: &'a Rules,
    pub(crate) ports: Cow<'a, Ports>,
    /// Pods that match all required affinity terms.
    pub(crate) affinity: Cow<'a, Counts>,
    /// Whether the pod itself does.
    pub(crate) meets_own_affinity: bool,
    /// Pods that match each anti-affinity term, preferred term and spread constraint.
    pub(crate) anti_affinity: Vec<Cow<'a, Counts>>,
    pub(crate) preferred: Vec<Cow<'a, Counts>>,
    pub(crate) spread: Vec<Cow<'a, Counts>>,
    /// Terms of held pods that are about the pod.
    pub(crate) owned_terms: Vec<About<'a>>,
}

/// A term of held pods that is about the pod.
pub(crate) struct About<'a> {
    pub(crate) topology: &'a str,
    /// Which it is, where that is kept.
    pub(crate) owned_term: Option<OwnedTermId>,
    /// How much the pod is wanted near; `None` if it is not allowed there.
    pub(crate) weight: Option<i32>,
    pub(crate) owners: Cow<'a, Counts>,
}
