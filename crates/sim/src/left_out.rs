//! What a rehearsal makes no pods of.

use crate::input::InputError;
use divvy_words::{Content, Entry, Object, shortened};
use std::collections::BTreeMap;

/// Why a controller makes none.
pub(crate) fn makes_no_pods(object: &Object) -> String {
    let Object { kind, metadata, content, .. } = object;
    let is_suspended = matches!(content, Content::Workload(workload) if workload.suspend);
    let why = match &**kind {
        "DaemonSet" => "no node matches",
        "Job" if is_suspended => "it is suspended",
        _ => "it asks for 0",
    };
    format!("{kind} {} makes no pods: {why}", metadata.name)
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
        meant.extend(match (kind, divvy_lint::meant(kind, api_version)) {
            (_, Some(meant)) => Some(meant),
            ("Node", None) => Some("nodes are read from --cluster".to_owned()),
            (_, None) => None,
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
