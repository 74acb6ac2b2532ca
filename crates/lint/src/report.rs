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

/// What was not looked at.
#[derive(Clone, Debug, Serialize)]
struct PassedOver {
    file: String,
    /// From 1, if it is a line that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
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
    /// Of so many files.
    pub fn new(files: usize, linted: LintResult) -> Self {
        let LintResult { findings, notes, unread, .. } = linted;
        let passed_over = |why: ReadError| PassedOver {
            file: why.source_name,
            line: Some(why.line),
            why: why.message,
        };
        let not_looked_at: Vec<PassedOver> = unread.into_iter().map(passed_over).collect();
        let files = files.saturating_sub(not_looked_at.len());
        let summary = Summary { files, ..Summary::of(&findings) };
        let (api_version, kind) = ("divvy.dev/v1alpha1", "Lint");
        let diff = String::new();
        Self { api_version, kind, findings, diff, notes, not_looked_at, summary }
    }

    /// Names what else could not be looked at, and why.
    pub fn pass_over(&mut self, file: String, why: String) {
        self.not_looked_at.push(PassedOver { file, line: None, why });
    }

    /// What is left now; files that could not be written are as they were.
    pub fn mended(&mut self, left: Vec<LintFinding>, unwritten: &[&str]) {
        let is_written = |finding: &LintFinding| !unwritten.contains(&&*finding.file);
        let before = self.findings.len();
        let mut findings: Vec<LintFinding> = left.into_iter().filter(is_written).collect();
        findings.extend(self.findings.drain(..).filter(|finding| !is_written(finding)));
        let (files, fixed) = (self.summary.files, before.saturating_sub(findings.len()));
        self.summary = Summary { files, fixed, ..Summary::of(&findings) };
        self.findings = findings;
    }

    /// Shows what would be changed, or was.
    pub fn show(&mut self, diff: String) {
        self.diff = diff;
    }

    /// Whether anything was or would be changed.
    pub fn has_diff(&self) -> bool {
        !self.diff.is_empty()
    }

    /// Whether nothing is left.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

impl Summary {
    fn of(findings: &[LintFinding]) -> Self {
        let fixable = findings.iter().filter(|finding| finding.fixable).count();
        Self { files: 0, findings: findings.len(), fixable, fixed: 0 }
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
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        text.push_str(&format!("{file}{line}: not looked at: {why}\n"));
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
        (n, _) => format!(
            "{} in {}. Next: {}.\n",
            count(n, "finding"),
            count(files.len(), "file"),
            next(report)
        ),
    });
    text
}

/// How what can be mended is mended: not where there is no file.
fn next(report: &LintReport) -> String {
    let fixable = report.summary.fixable;
    let names: BTreeSet<&str> =
        report.findings.iter().filter(|f| f.fixable).map(|f| &*f.file).collect();
    let fix = match names {
        names if names.contains("-") => "--fix writes files: give them with -f instead of -",
        names if names.iter().any(|name| name.starts_with("-k ")) => {
            "--fix writes files: give those of the kustomization with -f instead of -k"
        }
        _ => {
            return match report.has_diff() {
                true => format!("--fix mends {fixable} of them"),
                false => format!("--fix mends {fixable} of them, --diff shows how"),
            };
        }
    };
    match report.has_diff() {
        true => format!("mend {fixable} of them as shown; {fix}"),
        false => format!("--diff shows how to mend {fixable} of them; {fix}"),
    }
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
