//! Where divvy means to differ: the cases of docs/differences.md that manifests can show. The
//! generator makes none of them, and shrinking does not end at one.

use crate::case::Case;

/// Whether the case shows a difference that is meant.
pub fn is_meant(case: &Case) -> bool {
    case.objects.iter().filter(|o| o["kind"] == "Node").any(|node| {
        let status = &node["status"];
        let list = status["allocatable"].as_object().or(status["capacity"].as_object());
        list.is_some_and(|list| {
            ["pods", "ephemeral-storage"].iter().any(|r| !list.contains_key(*r))
        })
    })
}
