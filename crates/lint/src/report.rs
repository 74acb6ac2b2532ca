//! What was found, for people and for programs.

use crate::finding::LintFinding;
use serde::Serialize;
use std::collections::BTreeSet;

/// For programs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LintReport {
    api_version: &'static str,
    kind: &'static str,
    /// What is there, or is left.
    findings: Vec<LintFinding>,
    /// What would be changed, or was.
    diff: String,
    summary: Summary,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    /// Files that were looked at.
    files: usize,
    /// Findings.
    findings: usize,
    /// Those that `--fix` mends.
    fixable: usize,
    /// Findings that were mended, with `--fix`.
    fixed: usize,
}

impl LintReport {
    /// Of so many files, with the findings that are left of `before`.
    pub fn new(files: usize, findings: Vec<LintFinding>, before: usize, diff: String) -> Self {
        let summary = Summary {
            files,
            findings: findings.len(),
            fixable: findings.iter().filter(|finding| finding.fixable).count(),
            fixed: before.saturating_sub(findings.len()),
        };
        Self { api_version: "divvy.dev/v1alpha1", kind: "Lint", findings, diff, summary }
    }
}

/// A line for each finding, and what to do next.
pub fn text(report: &LintReport, is_mended: bool) -> String {
    let LintReport { findings, diff, summary, .. } = report;
    let mut text = String::new();
    if !diff.is_empty() {
        text.push_str(diff);
        text.push('\n');
    }
    for finding in findings {
        text.push_str(&format!("{finding}\n"));
    }
    if !findings.is_empty() {
        text.push('\n');
    }
    let files: BTreeSet<&str> = findings.iter().map(|finding| &*finding.file).collect();
    let mended = match (is_mended, summary.fixed) {
        (false, _) | (true, 0) => String::new(),
        (true, n) => format!("{} mended. ", count(n, "finding")),
    };
    text.push_str(&mended);
    text.push_str(&match (summary.findings, summary.fixable) {
        (0, _) if mended.is_empty() => {
            format!("No findings in {}.\n", count(summary.files, "file"))
        }
        (0, _) => "Nothing is left.\n".to_owned(),
        (n, _) if is_mended => format!("{} left to you.\n", count(n, "finding")),
        (n, 0) => format!(
            "{} in {}; none can be mended by --fix.\n",
            count(n, "finding"),
            count(files.len(), "file")
        ),
        (n, fixable) => format!(
            "{} in {}. Next: --fix mends {fixable} of them, --diff shows how.\n",
            count(n, "finding"),
            count(files.len(), "file")
        ),
    });
    text
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
