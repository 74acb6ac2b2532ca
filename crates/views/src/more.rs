//! How many more pods of a workload would fit, and why no more.

use crate::options::TextOptions;
use crate::simulation::ReasonCount;
use crate::wording::{clean, thousands};
use divvy_engine::{Fill, ObjectKey};
use serde::Serialize;
use std::cmp::Reverse;
use std::fmt::Write;
use std::sync::Arc;

/// Nodes that are named where all would be too many.
const MOST_NODES: usize = 8;
/// Lines that are still read.
const MOST_LINES: usize = 50;

/// How many more pods of some objects would fit, each for itself.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MorePods {
    /// The objects; more than one if they ask the same.
    pub objects: Vec<MoreOf>,
    /// How many more.
    pub more: usize,
    /// Whether more than that may fit: it was not counted to the end.
    pub at_least: bool,
    /// On which nodes, by name.
    pub nodes: Vec<NodeCount>,
    /// Why no more, in one line; null if it was not counted to the end.
    pub reason: Option<String>,
    /// Why, by node.
    pub reasons: Vec<ReasonCount>,
}

/// An object of the workload.
#[derive(Clone, Debug, Serialize)]
pub struct MoreOf {
    /// Its kind.
    pub kind: Box<str>,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How many on one node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeCount {
    /// The node.
    pub node: String,
    /// How many.
    pub count: usize,
}

impl MorePods {
    /// What was found for these objects, by kind and name.
    pub fn new<'a>(
        objects: impl IntoIterator<Item = (&'a str, &'a ObjectKey)>,
        fill: &Fill,
    ) -> Self {
        let object = |(kind, key): (&str, &ObjectKey)| MoreOf {
            kind: kind.into(),
            namespace: key.namespace().to_owned(),
            name: key.name().to_owned(),
        };
        let node =
            |(node, count): &(Arc<str>, usize)| NodeCount { node: node.to_string(), count: *count };
        Self {
            objects: objects.into_iter().map(object).collect(),
            more: fill.nodes.iter().map(|(_, count)| count).sum(),
            at_least: fill.why.is_none(),
            nodes: fill.nodes.iter().map(node).collect(),
            reason: fill.why.as_ref().map(divvy_engine::Diagnosis::headline),
            reasons: fill.why.iter().flat_map(ReasonCount::of).collect(),
        }
    }

    /// `12 more of ml/notebook fit: 8 on a100-1, 4 on a100-2; then: no card is free`.
    fn line(&self, all: bool) -> String {
        let mut line = match (self.more, self.at_least) {
            (0, _) => format!("No more of {} fits", self.whose()),
            (1, false) => format!("1 more of {} fits", self.whose()),
            (n, false) => format!("{} more of {} fit", thousands(n as u128), self.whose()),
            (n, true) => format!("At least {} more of {} fit", thousands(n as u128), self.whose()),
        };
        let mut nodes: Vec<&NodeCount> = self.nodes.iter().collect();
        nodes.sort_by_key(|node| Reverse(node.count));
        let shown = if all { nodes.len() } else { MOST_NODES };
        let named = nodes.iter().take(shown);
        let named = named.map(|node| format!("{} on {}", thousands(node.count as u128), node.node));
        let mut named: Vec<String> = named.collect();
        let hidden = nodes.len().saturating_sub(shown);
        if hidden > 0 {
            let count: usize = nodes[shown..].iter().map(|node| node.count).sum();
            named.push(format!(
                "{} on {} more nodes",
                thousands(count as u128),
                thousands(hidden as u128)
            ));
        }
        if !named.is_empty() {
            let _ = write!(line, ": {}", named.join(", "));
        }
        match &self.reason {
            Some(reason) if self.more == 0 => drop(write!(line, ": {reason}")),
            Some(reason) => drop(write!(line, "; then: {reason}")),
            None => line.push_str("; not counted any further"),
        }
        line
    }

    fn whose(&self) -> String {
        let Some(first) = self.objects.first() else { return String::new() };
        let name = format!("{}/{}", first.namespace, first.name);
        match self.objects.len() - 1 {
            0 => name,
            1 => format!("{name} (or 1 that asks the same)"),
            n => format!("{name} (or {n} that ask the same)"),
        }
    }
}

/// A line for each.
pub(crate) fn more_text(more: &[MorePods], options: TextOptions) -> String {
    let most = if options.wide { usize::MAX } else { MOST_LINES };
    let mut out = String::new();
    for more in more.iter().take(most) {
        let _ = writeln!(out, "{}", clean(&more.line(options.wide)));
    }
    if more.len() > most {
        let hidden = more.len() - most;
        let _ = writeln!(out, "... and {hidden} more like these: -o wide or -o json shows all");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn more(nodes: usize, at_least: bool) -> MorePods {
        let node = |n: usize| NodeCount { node: format!("n{n}"), count: n };
        let nodes: Vec<_> = (1..=nodes).map(node).collect();
        MorePods {
            objects: vec![MoreOf {
                kind: "Pod".into(),
                namespace: "ml".to_owned(),
                name: "a\u{1b}".to_owned(),
            }],
            more: nodes.iter().map(|node| node.count).sum(),
            at_least,
            nodes,
            reason: (!at_least).then(|| "no card is free".to_owned()),
            reasons: Vec::new(),
        }
    }

    fn text(more: MorePods, wide: bool) -> String {
        more_text(&[more], TextOptions { wide, ..TextOptions::default() })
    }

    #[test]
    fn how_many_more_fit_is_said_with_the_fullest_nodes_first_and_why_no_more() {
        let of = r"ml/a\u{1b}";
        assert_eq!(text(more(0, false), false), format!("No more of {of} fits: no card is free\n"));
        assert_eq!(
            text(more(1, false), false),
            format!("1 more of {of} fits: 1 on n1; then: no card is free\n")
        );
        assert_eq!(
            text(more(2, false), false),
            format!("3 more of {of} fit: 2 on n2, 1 on n1; then: no card is free\n")
        );
        assert!(text(more(10, false), false).contains("3 on n3, 3 on 2 more nodes; then"));
        assert!(text(more(10, false), true).contains("2 on n2, 1 on n1; then"));
        assert_eq!(
            text(more(2, true), false),
            format!("At least 3 more of {of} fit: 2 on n2, 1 on n1; not counted any further\n")
        );
    }

    #[test]
    fn objects_that_ask_the_same_are_one_line() {
        let mut both = more(1, false);
        both.objects.extend(more(1, false).objects);
        assert!(
            text(both, false).starts_with(r"1 more of ml/a\u{1b} (or 1 that asks the same) fits")
        );
    }
}
