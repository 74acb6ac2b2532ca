//! A controller's pods: how many have a place, which, and why the first that waits does.

use super::{Explanation, explanation_text};
use crate::API_VERSION;
use crate::options::TextOptions;
use crate::simulate_text::write_pods;
use crate::simulation::{PodOutcome, Simulation};
use crate::wording::{clean, count, thousands};
use serde::Serialize;

/// How the pods of a controller stand.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadExplanation<'a> {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `WorkloadExplanation`.
    pub kind: &'static str,
    /// The kind of the controller: `Deployment`, `Job` ...
    pub workload: &'static str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Pods that have a place.
    pub placed: usize,
    /// Pods that have none.
    pub pending: usize,
    /// All of them.
    pub pods: &'a [PodOutcome<'a>],
    /// Why the first that waits does; null if none does.
    pub explanation: Option<Explanation<'a>>,
    #[serde(skip)]
    simulation: &'a Simulation<'a>,
}

/// How the pods of a controller stand: `simulation` is of them alone, and `explanation` of the first
/// that waits.
pub fn explain_workload<'a>(
    workload: &'static str,
    (namespace, name): (&'a str, &'a str),
    simulation: &'a Simulation<'a>,
    explanation: Option<Explanation<'a>>,
) -> WorkloadExplanation<'a> {
    WorkloadExplanation {
        api_version: API_VERSION,
        kind: "WorkloadExplanation",
        workload,
        namespace,
        name,
        placed: simulation.summary.placed,
        pending: simulation.summary.pending,
        pods: &simulation.pods,
        explanation,
        simulation,
    }
}

/// The same as text.
pub fn workload_text(explained: &WorkloadExplanation<'_>, options: TextOptions) -> String {
    let WorkloadExplanation { workload, namespace, name, placed, pending, .. } = explained;
    let pods = count(explained.pods.len(), "pod");
    let (namespace, name) = (clean(namespace), clean(name));
    let placed = thousands(*placed as u128);
    let have = if explained.pods.len() == 1 { "has" } else { "have" };
    let mut out = format!("{workload} {namespace}/{name}: {placed} of {pods} {have} a place");
    if *pending > 0 {
        out.push_str(&format!(", {} pending", thousands(*pending as u128)));
    }
    out.push_str("\n\n");
    write_pods(&mut out, explained.simulation, options);
    if let Some(explanation) = &explained.explanation {
        out.push('\n');
        out.push_str(&explanation_text(explanation, options));
    }
    out
}
