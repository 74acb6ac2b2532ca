//! Changes of a text by bytes: what is not named stays as it is, comments and order too.

mod insert;
mod remove;

pub(crate) use insert::New;
pub(crate) use remove::{Comments, Gone, Leave};

use crate::tree::{Style, Tree, TreeNode};
use std::collections::BTreeMap;
use std::ops::Range;

/// Some bytes, and what stands there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) at: Range<usize>,
    pub(crate) text: String,
}

/// The text that is changed, and how it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceText<'a> {
    pub(crate) text: &'a str,
    newline: &'static str,
    is_json: bool,
    /// How much deeper each level of it stands.
    step: usize,
    comments: &'a [Range<usize>],
    anchors: &'a [Range<usize>],
}

impl<'a> SourceText<'a> {
    pub(crate) fn new(text: &'a str, tree: &'a Tree) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let body = text.trim_start_matches('\u{feff}').trim_start();
        let Tree { comments, anchors, .. } = tree;
        let depths = text.lines().map(|line| line.len() - line.trim_start_matches(' ').len());
        let step = depths.filter(|depth| *depth > 0).min().unwrap_or(2).clamp(2, 8);
        Self { text, newline, is_json: body.starts_with('{'), step, comments, anchors }
    }

    /// How lines end.
    pub(crate) fn newline(&self) -> &'static str {
        self.newline
    }

    /// Another name for a key.
    pub(crate) fn rename(&self, key: &TreeNode, name: &str) -> Option<Edit> {
        self.replace(key, name)
    }

    /// Another name or number as a value, in quotes if the old one is.
    pub(crate) fn replace(&self, node: &TreeNode, with: &str) -> Option<Edit> {
        let text = match node.as_scalar()?.style {
            Style::Plain if self.is_json => quoted(with),
            Style::Plain => with.to_owned(),
            Style::Double => quoted(with),
            Style::Single => format!("'{with}'"),
            Style::Block => return None,
        };
        (!node.at.is_empty()).then(|| Edit { at: node.at.clone(), text })
    }

    /// A value as a text, in quotes.
    pub(crate) fn quote(&self, node: &TreeNode) -> Option<Edit> {
        let scalar = node.as_scalar().filter(|scalar| scalar.style != Style::Block)?;
        let text = quoted(&scalar.text);
        (!node.at.is_empty()).then(|| Edit { at: node.at.clone(), text })
    }

    /// The spaces of one level.
    fn step(&self) -> String {
        " ".repeat(self.step)
    }

    /// Two more spaces before each line of a range but the first.
    pub(crate) fn shift(&self, at: Range<usize>) -> Option<Vec<Edit>> {
        let inside = self.text.get(at.clone())?;
        let ends = inside.match_indices('\n').map(|(offset, _)| at.start + offset + 1);
        let starts = ends.filter(|start| {
            let line = self.text.get(*start..).and_then(|rest| rest.lines().next());
            line.is_some_and(|line| !line.trim().is_empty())
        });
        Some(starts.map(|start| Edit { at: start..start, text: "  ".to_owned() }).collect())
    }

    /// The spaces before an entry in block style, be it behind a dash.
    pub(crate) fn indent(&self, key: &TreeNode) -> Option<String> {
        let before = self.text.get(self.line_start(key.at.start)..key.at.start)?;
        let before = before.strip_prefix('\u{feff}').unwrap_or(before);
        before.bytes().all(|b| b == b' ' || b == b'-').then(|| " ".repeat(before.len()))
    }

    /// Whether changes keep all comments, and what aliases stand for.
    pub(crate) fn keeps(&self, edits: &[Edit]) -> bool {
        let is_kept = |comment: &Range<usize>| {
            let comment = self.text.get(comment.clone()).unwrap_or_default();
            edits.iter().any(|edit| edit.text.contains(comment))
        };
        edits.iter().all(|edit| {
            self.comments_in(&edit.at).iter().all(is_kept)
                && within(self.anchors, &edit.at).is_empty()
        })
    }

    fn comments_in(&self, at: &Range<usize>) -> &'a [Range<usize>] {
        within(self.comments, at)
    }

    /// The spaces before a node that is the first of its line.
    fn begins_line(&self, node: &TreeNode) -> Option<&'a str> {
        let before = self.text.get(self.line_start(node.at.start)..node.at.start)?;
        before.bytes().all(|b| b == b' ' || b == b'\t').then_some(before)
    }

    fn line_start(&self, at: usize) -> usize {
        self.text.get(..at).and_then(|text| text.rfind('\n')).map_or(0, |newline| newline + 1)
    }

    fn line_end(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        let length = rest.find('\n').unwrap_or(rest.len());
        let line = rest.get(..length).unwrap_or_default();
        at + line.strip_suffix('\r').unwrap_or(line).len()
    }

    /// Where the line behind that of a byte begins, if there is one.
    fn next_line(&self, at: usize) -> Option<usize> {
        self.text.get(at..)?.find('\n').map(|newline| at + newline + 1)
    }

    /// The column in which a line has a comment and nothing before it.
    fn comment_line(&self, line: usize) -> Option<usize> {
        let rest = self.text.get(line..)?;
        let column = rest.len() - rest.trim_start_matches(' ').len();
        let is_comment = |at| self.comments.binary_search_by_key(&at, |at| at.start).is_ok();
        is_comment(line + column).then_some(column)
    }

    /// Where the lines of comments begin that stand directly above an entry, in its column; else where
    /// its own line does. Nothing if something else stands before it in its line.
    fn above(&self, key: &TreeNode) -> Option<usize> {
        let column = self.begins_line(key)?.len();
        let mut start = self.line_start(key.at.start);
        while let Some(line) = start.checked_sub(1).map(|end| self.line_start(end)) {
            if self.comment_line(line) != Some(column) {
                break;
            }
            start = line;
        }
        Some(start)
    }

    fn behind_colon(&self, at: usize) -> Option<usize> {
        let rest = self.text.get(at..)?;
        let colon = rest.find(':')?;
        rest.get(..colon)?.trim().is_empty().then_some(at + colon + 1)
    }

    /// Where an entry ends: one without a value behind its colon.
    fn entry_end(&self, (key, value): &(TreeNode, TreeNode)) -> Option<usize> {
        match value.at.is_empty() {
            true => self.behind_colon(key.at.end),
            false => Some(value.at.end),
        }
    }
}

/// Those of some places, in their order, that are in a part of the text.
fn within<'a>(all: &'a [Range<usize>], at: &Range<usize>) -> &'a [Range<usize>] {
    let first = all.partition_point(|place| place.start < at.start);
    let end = all.partition_point(|place| place.start < at.end);
    all.get(first..end).unwrap_or_default()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Whether no two changes touch the same bytes.
pub(crate) fn are_apart(edits: &[Edit]) -> bool {
    let mut all: Vec<&Range<usize>> = edits.iter().map(|edit| &edit.at).collect();
    all.sort_by_key(|at| (at.start, at.end));
    all.windows(2).all(|pair| match pair {
        [a, b] => a.end <= b.start && a != b,
        _ => true,
    })
}

/// Makes as many of the groups of changes as do not touch each other, in their order.
pub(crate) fn apply<'e>(text: &str, groups: impl Iterator<Item = &'e [Edit]>) -> Option<String> {
    let mut made: BTreeMap<(usize, usize), &Edit> = BTreeMap::new();
    for group in groups {
        let is_free = |edit: &Edit| {
            let place = (edit.at.start, edit.at.end);
            let before = made.range(..place).next_back();
            let behind = made.range(place..).next();
            before.is_none_or(|((_, end), _)| *end <= edit.at.start)
                && behind.is_none_or(|(other, _)| other.0 >= edit.at.end && *other != place)
        };
        if group.iter().all(is_free) {
            made.extend(group.iter().map(|edit| ((edit.at.start, edit.at.end), edit)));
        }
    }
    let (mut result, mut done) = (String::with_capacity(text.len() + 64), 0);
    for edit in made.into_values() {
        result.push_str(text.get(done..edit.at.start)?);
        result.push_str(&edit.text);
        done = edit.at.end;
    }
    result.push_str(text.get(done..)?);
    Some(result)
}
