#![allow(clippy::unwrap_used, clippy::panic)]

mod bad;
mod claims;
mod configs;
mod pods;
mod properties;

use crate::{Fixed, LintFinding, LintResult, NAMES, NamedText, diff};
use divvy_words::PodRules;
use std::sync::LazyLock;

fn rules() -> &'static PodRules {
    static RULES: LazyLock<PodRules> = LazyLock::new(|| PodRules::built_in().unwrap());
    &RULES
}

fn lint(texts: &[NamedText<'_>]) -> LintResult {
    crate::lint(texts, rules())
}

fn fix(texts: &[NamedText<'_>]) -> (Vec<Fixed>, Vec<LintFinding>) {
    crate::fix(texts, rules())
}

fn found(text: &str) -> Vec<LintFinding> {
    lint(&[NamedText { name: "f.yaml", text }]).findings
}

fn names(text: &str) -> Vec<&'static str> {
    found(text).iter().map(|finding| finding.name).collect()
}

/// The comments of a text, in no order: those of a line that is moved go along.
fn comments(text: &str) -> Vec<&str> {
    let tree = crate::tree::tree(text).unwrap_or_default();
    let mut all: Vec<&str> = tree.comments.into_iter().map(|at| &text[at]).collect();
    all.sort_unstable();
    all
}

/// What holds of all that is mended: it is mended once, nothing is left that could be, and each comment is
/// there.
#[track_caller]
fn is_mended(before: &str, after: &str) {
    let left = found(after);
    assert!(!left.iter().any(|finding| finding.fixable), "{left:#?} of\n{after}");
    assert_eq!(comments(after), comments(before), "{after}\nof\n{before}");
}

/// The text with all mended that can be, and the names of what is left.
fn mended(text: &str) -> (String, Vec<&'static str>) {
    let (mut fixed, left) = fix(&[NamedText { name: "f.yaml", text }]);
    let after = fixed.swap_remove(0).after;
    is_mended(text, &after);
    let (again, still) = fix(&[NamedText { name: "f.yaml", text: &after }]);
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
fn a_text_that_cannot_be_read_hides_nothing_of_the_others() {
    let pod = "apiVersion: v1\nkind: Pods\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n";
    let texts = [
        ("broken.yaml", "kind: ["),
        ("pod.yaml", pod),
        ("Chart.yaml", "apiVersion: v2\nname: chart\n"),
        ("deployment.yaml", "kind: Deployment\n{{- if .Values.x }}\nmetadata:\n{{- end }}\n"),
    ];
    let texts = texts.map(|(name, text)| NamedText { name, text });
    let LintResult { findings, unread, objects, .. } = lint(&texts);
    let found: Vec<_> = findings.iter().map(|f| (&*f.file, f.name)).collect();
    assert_eq!(found, [("pod.yaml", "UnknownKind")]);
    assert_eq!(objects, 1);
    let unread: Vec<_> = unread.iter().map(|why| (&*why.source_name, why.no_object)).collect();
    assert_eq!(unread, [("broken.yaml", false), ("Chart.yaml", true), ("deployment.yaml", true)]);
    let (fixed, left) = fix(&texts);
    assert!(left.is_empty() && fixed.iter().filter(|fixed| fixed.is_changed()).count() == 1);
}

#[test]
fn a_text_in_which_nobody_can_say_what_stands_where_is_not_clean() {
    let key = "k".repeat(2000);
    let pod = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"name\": \"a\", \"annotations\": {{\"{key}\": \"v\"}}}}, \
         \"spec\": {{\"containers\": []}}}}"
    );
    let LintResult { findings, unread, .. } = lint(&[NamedText { name: "f.json", text: &pod }]);
    assert_eq!((findings.len(), unread.len()), (0, 1));
    assert!(unread[0].message.starts_with("where its parts stand cannot be told"), "{unread:?}");
}

#[test]
fn many_lines_of_comments_hide_nothing() {
    let comments = "# a line of a licence\n".repeat(500);
    let text = format!(
        "{comments}apiVersion: v1\nkind: Pods\nmetadata:\n{comments}  name: a\nspec:\n{comments}  containers: []\n"
    );
    assert_eq!(names(&text), ["UnknownKind"]);
}

#[test]
fn what_is_no_mistake_and_worth_to_know_is_noted_once() {
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{kai.scheduler/queue: research}}}}\n\
             spec: {{schedulerName: divvy-scheduler, containers: [{{name: c, resources: {{limits: \
             {{koordinator.sh/gpu-memory-ratio: 50}}}}}}]}}\n---\n"
        )
    };
    let both = pod("a") + &pod("b");
    let LintResult { findings, notes, .. } = lint(&[NamedText { name: "f.yaml", text: &both }]);
    assert_eq!(findings, []);
    assert_eq!(notes.len(), 2);
    assert!(notes[0].ends_with("quotas of queues are not enforced yet"), "{notes:?}");
    assert!(notes[1].contains("Koordinator"), "{notes:?}");
}

#[test]
fn mended_files_are_shown_as_a_diff() {
    let text = "apiVersion: v1\nkind: Pods\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n";
    let (fixed, _) = fix(&[NamedText { name: "f.yaml", text }]);
    assert_eq!(
        diff(&fixed[0]),
        "--- a/f.yaml\n+++ b/f.yaml\n@@ -1,4 +1,4 @@\n apiVersion: v1\n-kind: Pods\n+kind: Pod\n metadata: \
         {name: a}\n spec: {containers: [{name: c}]}\n"
    );
}
