//! The parts of a pod that are about other pods: inter-pod affinity and topology spread.

use super::Expression;
use super::Texts;
use super::lenient::{integer, list, optional, or_default, text, texts};
use serde::Deserialize;

/// `spec.affinity.podAffinity` or `podAntiAffinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct PodAffinity {
    /// Where it may run.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    #[serde(deserialize_with = "list")]
    pub required: Vec<PodAffinityTerm>,
    /// Where it would rather run.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    #[serde(deserialize_with = "list")]
    pub preferred: Vec<WeightedPodAffinityTerm>,
}

/// A preferred term.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct WeightedPodAffinityTerm {
    /// How much it counts, 1 to 100.
    #[serde(deserialize_with = "integer")]
    pub weight: Option<i32>,
    /// The term.
    #[serde(deserialize_with = "or_default")]
    pub pod_affinity_term: PodAffinityTerm,
}

/// Pods in the same domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct PodAffinityTerm {
    /// By their labels; none if absent.
    #[serde(deserialize_with = "optional")]
    pub label_selector: Option<LabelSelector>,
    /// In these namespaces.
    #[serde(deserialize_with = "texts")]
    pub namespaces: Vec<Box<str>>,
    /// Or in namespaces with such labels.
    #[serde(deserialize_with = "optional")]
    pub namespace_selector: Option<LabelSelector>,
    /// The node label whose value names the domain.
    #[serde(deserialize_with = "text")]
    pub topology_key: Box<str>,
    /// Labels that must have the value that the pod itself has.
    #[serde(deserialize_with = "texts")]
    pub match_label_keys: Vec<Box<str>>,
    /// Labels that must not have the value that the pod itself has.
    #[serde(deserialize_with = "texts")]
    pub mismatch_label_keys: Vec<Box<str>>,
}

/// A label selector: all of it must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct LabelSelector {
    /// Labels with their values.
    pub match_labels: Texts,
    /// Conditions on labels.
    #[serde(deserialize_with = "list")]
    pub match_expressions: Vec<Expression>,
}

/// One of `spec.topologySpreadConstraints`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct SpreadConstraint {
    /// By how many pods a domain may exceed the least.
    #[serde(deserialize_with = "integer")]
    pub max_skew: Option<i32>,
    /// The node label whose value names the domain.
    #[serde(deserialize_with = "text")]
    pub topology_key: Box<str>,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    #[serde(deserialize_with = "text")]
    pub when_unsatisfiable: Box<str>,
    /// The pods that are counted; none if absent.
    #[serde(deserialize_with = "optional")]
    pub label_selector: Option<LabelSelector>,
    /// With fewer domains than this the least counts as 0.
    #[serde(deserialize_with = "integer")]
    pub min_domains: Option<i32>,
    /// `Honor` or `Ignore`.
    #[serde(deserialize_with = "text")]
    pub node_affinity_policy: Box<str>,
    /// `Honor` or `Ignore`.
    #[serde(deserialize_with = "text")]
    pub node_taints_policy: Box<str>,
    /// Labels that must have the value that the pod itself has.
    #[serde(deserialize_with = "texts")]
    pub match_label_keys: Vec<Box<str>>,
}
