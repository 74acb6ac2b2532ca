#![allow(clippy::unwrap_used, clippy::panic)]

mod claims;
mod configs;
mod pods;
mod properties;

use crate::{LintFinding, NAMES, NamedText, diff, fix, lint};

fn found(text: &str) -> Vec<LintFinding> {
    lint(&[NamedText { name: "f.yaml", text }]).unwrap()
}

fn names(text: &str) -> Vec<&'static str> {
    found(text).iter().map(|finding| finding.name).collect()
}

/// The text with all mended that can be, and the names of what is left.
fn mended(text: &str) -> (String, Vec<&'static str>) {
    let (mut fixed, left) = fix(&[NamedText { name: "f.yaml", text }]).unwrap();
    let after = fixed.swap_remove(0).after;
    let (again, still) = fix(&[NamedText { name: "f.yaml", text: &after }]).unwrap();
    assert!(!again[0].is_changed(), "mended twice:\n{}", diff(&again[0]));
    assert_eq!(still, left);
    (after, left.iter().map(|finding| finding.name).collect())
}

/// `name` is found in `before`, and mended it is `after`, with nothing left.
#[track_caller]
fn becomes(name: &str, before: &str, after: &str) {
    assert!(NAMES.contains(&name), "{name}");
    assert!(names(before).contains(&name), "{name} is not in {:?} of\n{before}", names(before));
    let (text, left) = mended(before);
    assert_eq!(text, after, "{name}");
    assert_eq!(left, [""; 0], "left of\n{before}");
}

/// `name` is found, and is for people.
#[track_caller]
fn stays(name: &str, text: &str) -> LintFinding {
    assert!(NAMES.contains(&name), "{name}");
    let (after, left) = mended(text);
    assert_eq!(after, text, "{name}");
    assert!(left.contains(&name), "{name} is not in {left:?} of\n{text}");
    found(text).into_iter().find(|finding| finding.name == name).unwrap()
}

#[test]
fn a_finding_says_where_what_and_what_instead() {
    let text = "# é\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: ml\n  annotations:\n    \
                gpu-fractions: \"0.5\"\nspec:\n  containers:\n  - name: c\n";
    let all: Vec<String> = found(text).iter().map(ToString::to_string).collect();
    assert_eq!(
        all,
        [
            "f.yaml:8:5: Pod ml/a: metadata.annotations[\"gpu-fractions\"]: nothing reads it, so the pod gets no GPU by \
          it; write gpu-fraction [MisspeltName]"
        ]
    );
}

#[test]
fn what_is_right_has_no_findings() {
    for file in [
        include_str!("../../../examples/gpu-sharing.yaml"),
        include_str!("../../../examples/gpu-memory.yaml"),
        include_str!("../../../examples/mixed-team.yaml"),
        include_str!("../../../examples/mig/workloads.yaml"),
        include_str!("../../../examples/mig/sharing-config.yaml"),
        include_str!("../../../examples/isolation/model-servers.yaml"),
        include_str!("../../../examples/isolation/cluster.yaml"),
        include_str!("../../sim/cluster.yaml"),
    ] {
        assert_eq!(found(file), []);
    }
}

#[test]
fn a_text_that_cannot_be_read_is_an_error() {
    let error = lint(&[NamedText { name: "f.yaml", text: "kind: [" }]).unwrap_err();
    assert!(error.to_string().starts_with("f.yaml: document 1, line "), "{error}");
}

#[test]
fn mended_files_are_shown_as_a_diff() {
    let text = "apiVersion: v1\nkind: Pods\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n";
    let (fixed, _) = fix(&[NamedText { name: "f.yaml", text }]).unwrap();
    assert_eq!(
        diff(&fixed[0]),
        "--- a/f.yaml\n+++ b/f.yaml\n@@ -1,4 +1,4 @@\n apiVersion: v1\n-kind: Pods\n+kind: Pod\n metadata: \
         {name: a}\n spec: {containers: [{name: c}]}\n"
    );
}
