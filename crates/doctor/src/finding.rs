//! What was found.

use crate::fix::Fix;
use divvy_node::look::ObservedCard;
use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work.
    Problem,
    /// It works, and may not for long or for all.
    Warning,
}

impl Severity {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Warning => "warning",
        }
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its stable name.
    pub name: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in a sentence.
    pub what: String,
    /// What was seen.
    pub evidence: Vec<String>,
    /// The command that mends it, or what to look at next.
    pub fix: String,
}

/// A place in the evidence; more of the same are counted.
const MOST_EVIDENCE: usize = 8;

impl Finding {
    /// Something does not work.
    pub fn problem(name: &'static str, what: impl Into<String>) -> Self {
        let (evidence, fix) = (Vec::new(), String::new());
        Self { name, severity: Severity::Problem, what: what.into(), evidence, fix }
    }

    /// Something works, and may not for long or for all.
    pub fn warning(name: &'static str, what: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::problem(name, what) }
    }

    /// With what was seen.
    #[must_use]
    pub fn seen(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// With what was seen in several places; a cluster may have thousands of them.
    #[must_use]
    pub fn seen_at(mut self, places: impl IntoIterator<Item = String>) -> Self {
        let mut places = places.into_iter();
        self.evidence.extend(places.by_ref().take(MOST_EVIDENCE));
        let more = places.count();
        if more > 0 {
            self.evidence.push(format!("and {more} more"));
        }
        self
    }

    /// With what mends it.
    #[must_use]
    pub(crate) fn fix(self, fix: impl Into<Fix>) -> Self {
        let fix: Fix = fix.into();
        Self { fix: fix.into(), ..self }
    }
}

/// How many of a kind were looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The resource, as kubectl calls it.
    pub resource: &'static str,
    /// How many there are.
    pub count: usize,
}

/// Objects that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hidden {
    /// The resource, with its group.
    pub resource: String,
    /// Why not.
    pub why: String,
}

/// All that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DoctorReport {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `Diagnosis`.
    pub kind: &'static str,
    /// How many findings are problems.
    pub problems: usize,
    /// How many are warnings.
    pub warnings: usize,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// What was looked at.
    pub looked_at: Vec<Count>,
    /// What could not be, and why.
    pub not_looked_at: Vec<Hidden>,
    /// What the node says of itself that this ran on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeReport>,
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeReport {
    /// The version of the driver; empty if it cannot be asked.
    pub driver: String,
    /// Its cards.
    pub cards: Vec<ObservedCard>,
    /// Each configuration of NVIDIA's runtime, with its mode.
    pub runtimes: Vec<String>,
    /// The folders in which the runtime looks for specifications.
    pub specifications: Vec<String>,
}

impl DoctorReport {
    /// Of these findings.
    pub fn of(
        mut findings: Vec<Finding>,
        looked_at: Vec<Count>,
        not_looked_at: Vec<Hidden>,
    ) -> Self {
        findings.sort_by_key(|finding| finding.severity);
        let count = |of| findings.iter().filter(|finding| finding.severity == of).count();
        Self {
            api_version: divvy_views::API_VERSION,
            kind: "Diagnosis",
            problems: count(Severity::Problem),
            warnings: count(Severity::Warning),
            findings,
            looked_at,
            not_looked_at,
            node: None,
        }
    }
}
