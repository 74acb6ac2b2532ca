//! What was found, for people and for programs.

use crate::finding::{LintFinding, LintResult};
use divvy_words::ReadError;
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
    /// What is no mistake and worth to know.
    notes: Vec<&'static str>,
    /// Files that are no Kubernetes objects, or could not be read.
    not_looked_at: Vec<PassedOver>,
    summary: Summary,
}

#[derive(Clone, Debug, Serialize)]
struct PassedOver {
    file: String,
    line: usize,
    why: String,
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
    /// Of so many files, with the findings that are left of those that were there.
    pub fn new(
        files: usize,
        linted: LintResult,
        left: Option<Vec<LintFinding>>,
        diff: String,
    ) -> Self {
        let LintResult { findings: found, notes, unread, .. } = linted;
        let before = found.len();
        let findings = left.unwrap_or(found);
        let passed_over =
            |why: ReadError| PassedOver { file: why.source_name, line: why.line, why: why.message };
        let not_looked_at: Vec<PassedOver> = unread.into_iter().map(passed_over).collect();
        let summary = Summary {
            files: files.saturating_sub(not_looked_at.len()),
            findings: findings.len(),
            fixable: findings.iter().filter(|finding| finding.fixable).count(),
            fixed: before.saturating_sub(findings.len()),
        };
        let (api_version, kind) = ("divvy.dev/v1alpha1", "Lint");
        Self { api_version, kind, findings, diff, notes, not_looked_at, summary }
    }

    /// Whether nothing is left.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

/// A line for each finding, and what to do next.
pub fn text(report: &LintReport, is_mended: bool) -> String {
    let LintReport { findings, diff, notes, not_looked_at, summary, .. } = report;
    let mut text = String::new();
    if !diff.is_empty() {
        text.push_str(diff);
        text.push('\n');
    }
    for finding in findings {
        text.push_str(&format!("{finding}\n"));
    }
    for PassedOver { file, line, why } in not_looked_at {
        text.push_str(&format!("{file}:{line}: not looked at: {why}\n"));
    }
    if !findings.is_empty() || !not_looked_at.is_empty() {
        text.push('\n');
    }
    for note in notes {
        text.push_str(&format!("Note: {note}.\n"));
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
