//! A report for people: the first line answers.

use crate::finding::{DoctorReport, Finding, NodeReport, Severity};
use divvy_views::clean;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What was found, each with its evidence and what mends it.
pub fn report_text(report: &DoctorReport) -> String {
    let mut text = format!("{}\n", headline(report));
    for finding in &report.findings {
        text.push('\n');
        text.push_str(&finding_text(finding));
    }
    if let Some(node) = &report.node {
        text.push('\n');
        text.push_str(&node_text(node));
    }
    if !report.not_looked_at.is_empty() {
        text.push('\n');
    }
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for hidden in &report.not_looked_at {
        by_reason.entry(&hidden.why).or_default().push(&hidden.resource);
    }
    for (why, resources) in by_reason {
        let _ = writeln!(text, "could not look at {}: {}", resources.join(", "), clean(why));
    }
    text
}

fn node_text(node: &NodeReport) -> String {
    let mut text = String::new();
    if !node.driver.is_empty() {
        let _ = writeln!(text, "driver {}", clean(&node.driver));
    }
    for (at, card) in node.cards.iter().enumerate() {
        let (model, mib) = (clean(&card.model), card.bytes >> 20);
        let _ = writeln!(text, "card {at}: {model}, {mib} MiB, {}", clean(&card.uuid));
    }
    for runtime in &node.runtimes {
        let _ = writeln!(text, "runtime {}", clean(runtime));
    }
    text
}

fn headline(report: &DoctorReport) -> String {
    let some = [(report.problems, Severity::Problem), (report.warnings, Severity::Warning)];
    let some = some.into_iter().filter(|(count, _)| *count > 0);
    let some: Vec<String> = some.map(|(count, kind)| counted(count, kind.as_str())).collect();
    let counts = report.looked_at.iter().filter(|looked| looked.count > 0);
    let counts: Vec<String> =
        counts.map(|looked| of_resource(looked.count, looked.resource)).collect();
    match (some.is_empty(), counts.is_empty()) {
        (false, _) => some.join(", "),
        (true, true) => "nothing could be looked at".to_owned(),
        (true, false) => format!("nothing is wrong: looked at {}", counts.join(", ")),
    }
}

/// `1 pod`, `3 clusterpolicies`: a resource is called by its plural.
fn of_resource(count: usize, plural: &str) -> String {
    let singular = match (plural.strip_suffix("ies"), plural.strip_suffix("sses")) {
        (Some(start), _) => format!("{start}y"),
        (None, Some(start)) => format!("{start}ss"),
        (None, None) => plural.trim_end_matches('s').to_owned(),
    };
    if count == 1 { format!("1 {singular}") } else { format!("{count} {plural}") }
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn finding_text(finding: &Finding) -> String {
    let Finding { name, severity, what, evidence, fix } = finding;
    let mut text = format!("{} {name}: {}\n", severity.as_str(), clean(what));
    for seen in evidence {
        let _ = writeln!(text, "  {}", clean(seen));
    }
    for (nth, line) in fix.lines().enumerate() {
        let begin = if nth == 0 { "fix: " } else { "     " };
        let _ = writeln!(text, "  {begin}{}", clean(line));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Count, Hidden};

    #[test]
    fn one_object_is_counted_in_the_singular() {
        for (plural, one) in [
            ("pods", "1 pod"),
            ("leases", "1 lease"),
            ("clusterpolicies", "1 clusterpolicy"),
            ("runtimeclasses", "1 runtimeclass"),
            ("priorityclasses", "1 priorityclass"),
        ] {
            assert_eq!(of_resource(1, plural), one);
            assert_eq!(of_resource(2, plural), format!("2 {plural}"));
        }
    }

    #[test]
    fn the_first_line_answers_and_each_finding_has_its_evidence_and_its_fix() {
        let looked =
            vec![Count { resource: "nodes", count: 3 }, Count { resource: "pods", count: 0 }];
        let mut report = DoctorReport::of(Vec::new(), looked, Vec::new());
        assert_eq!(report_text(&report), "nothing is wrong: looked at 3 nodes\n");
        let places = (0..10).map(|nth| format!("node n{nth}"));
        let findings = vec![
            Finding::warning("w", "odd").fix("look"),
            Finding::problem("p", "bad\u{1b}[2J").seen_at(places).fix("do this\nthen that"),
        ];
        let hidden = ["secrets", "pods"]
            .map(|resource| Hidden { resource: resource.to_owned(), why: "forbidden".to_owned() });
        report = DoctorReport::of(findings, report.looked_at, hidden.to_vec());
        let text = report_text(&report);
        assert!(text.starts_with("1 problem, 1 warning\n\nproblem p: bad"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(
            text.contains("  node n7\n  and 2 more\n  fix: do this\n       then that\n"),
            "{text}"
        );
        assert!(
            text.ends_with("  fix: look\n\ncould not look at secrets, pods: forbidden\n"),
            "{text}"
        );
        report.looked_at.clear();
        report.findings.clear();
        (report.problems, report.warnings) = (0, 0);
        assert!(report_text(&report).starts_with("nothing could be looked at\n"));
    }
}
