//! The policies by which the API server guards cards, beside those that this version of divvy has.

use super::compare::{Expected, differences};
use super::webhooks::is_optional;
use crate::finding::Finding;
use crate::looked::Looked;
use crate::objects::Policy;
use crate::observed::Observed;

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../deploy/", $name)))
    };
}

/// Those that guard cards wherever shares are handed out.
const ALWAYS: [(&str, &str); 5] = [
    file!("policy-hand-off.yaml"),
    file!("policy-reservations.yaml"),
    file!("policy-nodes.yaml"),
    file!("policy-deletions.yaml"),
    file!("policy-visible-devices.yaml"),
];
const OF_PROVIDERS: (&str, &str) = file!("policy-provider.yaml");
const OF_LEVELS: (&str, &str) = file!("optional-isolation.yaml");

pub(super) fn check(cluster: &Observed) -> Vec<Finding> {
    if !cluster.shares_cards() {
        return Vec::new();
    }
    let mut files = ALWAYS.to_vec();
    if cluster.providers().next().is_some() {
        files.push(OF_PROVIDERS);
    }
    let gates = |gates: Option<&str>| gates.is_some_and(|g| g.contains("GPUIsolationLevel=true"));
    if cluster.schedulers().any(|one| gates(one.option("feature-gates"))) {
        files.push(OF_LEVELS);
    }
    files.into_iter().flat_map(|(name, text)| of_file(cluster, name, text)).collect()
}

fn of_file(cluster: &Observed, file: &'static str, text: &str) -> Vec<Finding> {
    let (mut missing, mut changed) = (Vec::new(), Vec::new());
    let here = Expected::seen(cluster);
    for document in divvy_words::untyped(text).unwrap_or_default() {
        let (kind, name) = (&document["kind"], &document["metadata"]["name"]);
        let (Some(kind), Some(name)) = (kind.as_str(), name.as_str()) else { continue };
        let all: &Looked<Policy> = match kind {
            "ValidatingAdmissionPolicy" => &cluster.policies,
            "ValidatingAdmissionPolicyBinding" => &cluster.policy_bindings,
            _ => continue,
        };
        if all.why_hidden().is_some() || is_optional(cluster, name) {
            continue;
        }
        match all.iter().find(|policy| policy.metadata.name == name) {
            None => missing.push(format!("no {kind} {name}")),
            Some(policy) => {
                let found = differences(&document["spec"], &policy.spec, &here);
                changed.extend(found.into_iter().map(|at| format!("{kind} {name}: spec.{at}")));
            }
        }
    }
    let mut found = Vec::new();
    if !missing.is_empty() {
        let what = format!("policies of {file} are missing: nobody guards what they are for");
        found.push(
            Finding::problem("policy-missing", what).seen_at(missing).fix(here.apply(&[file])),
        );
    }
    if !changed.is_empty() {
        let what = format!("policies are not as {file} of this version of divvy has them");
        found.push(
            Finding::warning("policy-changed", what).seen_at(changed).fix(here.apply_over(&[file])),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_a_policy_and_a_binding() {
        for (name, text) in ALWAYS.into_iter().chain([OF_PROVIDERS, OF_LEVELS]) {
            let documents = divvy_words::untyped(text).unwrap();
            let has = |kind: &str| documents.iter().any(|document| document["kind"] == kind);
            assert!(has("ValidatingAdmissionPolicy"), "{name}");
            assert!(has("ValidatingAdmissionPolicyBinding"), "{name}");
            assert!(documents.iter().all(|document| document["spec"].is_object()), "{name}");
        }
    }
}
