//! The parts of a pod that are about other pods: inter-pod affinity and topology spread.

use super::Expression;
use super::Texts;
use super::field::manifest;

manifest! {
    /// `spec.affinity.podAffinity` or `podAntiAffinity`.
    pub struct PodAffinity {
        /// Where it may run.
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        pub required: Vec<PodAffinityTerm>,
        /// Where it would rather run.
        #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
        pub preferred: Vec<WeightedPodAffinityTerm>,
    }

    /// A preferred term.
    pub struct WeightedPodAffinityTerm {
        /// How much it counts, 1 to 100.
        pub weight: Option<i32>,
        /// The term.
        pub pod_affinity_term: PodAffinityTerm,
    }

    /// Pods in the same domain.
    pub struct PodAffinityTerm {
        /// By their labels; none if absent.
        pub label_selector: Option<LabelSelector>,
        /// In these namespaces.
        pub namespaces: Vec<Box<str>>,
        /// Or in namespaces with such labels.
        pub namespace_selector: Option<LabelSelector>,
        /// The node label whose value names the domain.
        pub topology_key: Box<str>,
        /// Labels that must have the value that the pod itself has.
        pub match_label_keys: Vec<Box<str>>,
        /// Labels that must not have the value that the pod itself has.
        pub mismatch_label_keys: Vec<Box<str>>,
    }

    /// A label selector: all of it must hold.
    pub struct LabelSelector {
        /// Labels with their values.
        pub match_labels: Texts,
        /// Conditions on labels.
        pub match_expressions: Vec<Expression>,
    }

    /// One of `spec.topologySpreadConstraints`.
    pub struct SpreadConstraint {
        /// By how many pods a domain may exceed the least.
        pub max_skew: Option<i32>,
        /// The node label whose value names the domain.
        pub topology_key: Box<str>,
        /// `DoNotSchedule` or `ScheduleAnyway`.
        pub when_unsatisfiable: Box<str>,
        /// The pods that are counted; none if absent.
        pub label_selector: Option<LabelSelector>,
        /// With fewer domains than this the least counts as 0.
        pub min_domains: Option<i32>,
        /// `Honor` or `Ignore`.
        pub node_affinity_policy: Box<str>,
        /// `Honor` or `Ignore`.
        pub node_taints_policy: Box<str>,
        /// Labels that must have the value that the pod itself has.
        pub match_label_keys: Vec<Box<str>>,
    }
}
