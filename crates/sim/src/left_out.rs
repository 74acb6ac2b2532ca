//! What a rehearsal makes no pods of.

use crate::input::InputError;
use divvy_words::{Content, Entry, Object, PodRules, shortened};
use std::collections::BTreeMap;

/// Why a controller makes none.
pub(crate) fn makes_no_pods(object: &Object, rules: &PodRules) -> String {
    let Object { kind, api_version, metadata, content } = object;
    let is_suspended = match content {
        Content::Workload(workload) => &**kind == "Job" && workload.suspend,
        Content::Foreign(spec) => rules.is_suspended(kind, api_version, spec),
        _ => false,
    };
    let why = match &**kind {
        "DaemonSet" => "no node matches",
        _ if is_suspended => "it is suspended",
        _ => "it asks for 0",
    };
    format!("{kind} {} makes no pods: {why}", metadata.name)
}

/// What to give instead of an object whose pods are described in another one.
pub(crate) fn made_by_reference(object: &Object) -> Option<String> {
    let is_train_job =
        &*object.kind == "TrainJob" && object.api_version.starts_with("trainer.kubeflow.org/");
    is_train_job.then(|| {
        format!(
            "the pods of TrainJob {} are described by the runtime that it names: give the JobSet that the \
             trainer makes of it",
            object.metadata.name
        )
    })
}

/// More kinds than these in a message help nobody.
const MOST_KINDS: usize = 8;

/// What to say if there is nothing to place at all.
pub(crate) fn nothing_to_place(entries: &[Entry]) -> InputError {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut meant: Vec<String> = Vec::new();
    for entry in entries {
        let (kind, api_version) = match entry {
            Entry::Object(object) => (&*object.kind, &*object.api_version),
            Entry::Malformed { kind, .. } => (&**kind, ""),
        };
        if kinds.insert(kind, kinds.get(kind).copied().unwrap_or(0) + 1).is_some() {
            continue;
        }
        let by_reference = match entry {
            Entry::Object(object) => made_by_reference(object),
            Entry::Malformed { .. } => None,
        };
        meant.extend(match (kind, divvy_lint::meant(kind, api_version)) {
            (_, Some(meant)) => Some(meant),
            ("Node", None) => Some("nodes are read from --cluster".to_owned()),
            (_, None) => by_reference,
        });
    }
    if meant.is_empty() {
        meant.push("give Pods, or Deployments and other controllers that make them".to_owned());
    }
    let each = kinds.iter().map(|(kind, n)| format!("{n} {}", shortened(kind)));
    let mut found: Vec<String> = each.take(MOST_KINDS).collect();
    if kinds.len() > MOST_KINDS {
        found.push("others".to_owned());
    }
    let be = if kinds.values().sum::<usize>() == 1 { "is" } else { "are" };
    meant.truncate(MOST_KINDS);
    let meant = format!("; {}", meant.join("; "));
    InputError::NothingToPlace { found: format!("{} {be}", found.join(", ")), meant }
}
