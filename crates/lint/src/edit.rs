//! Changes of a text by bytes: what is not named stays as it is, comments and order too.

use crate::tree::{Map, Style, TreeNode};
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
}

/// What an entry is to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum New<'a> {
    /// A text, always in quotes.
    Text(&'a str),
    /// A name or number, without quotes where that can be.
    Plain(&'a str),
    /// A map of these.
    Map(&'a [(&'a str, New<'a>)]),
}

impl<'a> SourceText<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let body = text.trim_start_matches('\u{feff}').trim_start();
        Self { text, newline, is_json: body.starts_with('{') }
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

    /// More entries of a map, behind the others.
    pub(crate) fn insert(&self, node: &TreeNode, entries: &[(&str, New<'_>)]) -> Option<Edit> {
        let map = node.as_map()?;
        let Some((first, _)) = map.entries.first() else {
            let entries = entries.iter().map(|(k, v)| self.flow_entry(k, *v, self.is_json));
            let text = entries.collect::<Vec<_>>().join(", ");
            return Some(Edit { at: node.at.start + 1..node.at.start + 1, text });
        };
        let (last_key, last) = map.entries.last()?;
        if map.is_flow {
            let is_quoted = first.as_scalar()?.style == Style::Double;
            let separator = match self.begins_line(last_key) {
                Some(indent) => format!(",{}{indent}", self.newline),
                None => ", ".to_owned(),
            };
            let entries = entries.iter().map(|(k, v)| self.flow_entry(k, *v, is_quoted));
            let text = entries.map(|entry| format!("{separator}{entry}")).collect();
            // Nothing as a value: the colon stands behind its place.
            let end = match last.at.is_empty() {
                true => self.behind_colon(last_key.at.end)?,
                false => last.at.end,
            };
            return Some(Edit { at: end..end, text });
        }
        if ends_in_block(last) {
            return self.insert_first(node, entries);
        }
        let indent = self.indent(first)?;
        let end = self.line_end(last.at.end.max(last_key.at.end));
        let lines = entries.iter().map(|(k, v)| self.block_entry(k, *v, &indent));
        let text = lines.map(|line| format!("{}{line}", self.newline)).collect();
        Some(Edit { at: end..end, text })
    }

    /// More entries of a map, before the others.
    pub(crate) fn insert_first(
        &self,
        node: &TreeNode,
        entries: &[(&str, New<'_>)],
    ) -> Option<Edit> {
        let (first, _) = node.as_map()?.entries.first()?;
        let at = first.at.start..first.at.start;
        if node.as_map()?.is_flow {
            let is_quoted = first.as_scalar()?.style == Style::Double;
            let separator = match self.begins_line(first) {
                Some(indent) => format!(",{}{indent}", self.newline),
                None => ", ".to_owned(),
            };
            let entries = entries.iter().map(|(k, v)| self.flow_entry(k, *v, is_quoted));
            let text = entries.map(|entry| format!("{entry}{separator}")).collect();
            return Some(Edit { at, text });
        }
        let indent = self.indent(first)?;
        let entries = entries.iter().map(|(k, v)| self.block_entry(k, *v, &indent));
        let text: String = entries
            .map(|entry| format!("{}{}{indent}", entry.trim_start(), self.newline))
            .collect();
        Some(Edit { at, text })
    }

    /// A value as a text, in quotes.
    pub(crate) fn quote(&self, node: &TreeNode) -> Option<Edit> {
        let scalar = node.as_scalar().filter(|scalar| scalar.style != Style::Block)?;
        let text = quoted(&scalar.text);
        (!node.at.is_empty()).then(|| Edit { at: node.at.clone(), text })
    }

    /// The same as [`Self::insert`], in a map that may not be there: the field `name` of `node`.
    pub(crate) fn insert_in(
        &self,
        node: &TreeNode,
        name: &str,
        entries: &[(&str, New<'_>)],
    ) -> Option<Edit> {
        let map = node.as_map()?;
        let Some((at, inner)) = map.entry(name) else {
            return self.insert(node, &[(name, New::Map(entries))]);
        };
        if !inner.is_null() {
            return self.insert(inner, entries);
        }
        if map.is_flow || !inner.at.is_empty() {
            return None;
        }
        let end = self.line_end(self.behind_colon(at.at.end)?);
        let indent = format!("{}  ", self.indent(at)?);
        let lines = entries.iter().map(|(k, v)| self.block_entry(k, *v, &indent));
        let text = lines.map(|line| format!("{}{line}", self.newline)).collect();
        Some(Edit { at: end..end, text })
    }

    /// Takes entries out of a map; all of them is not for this.
    pub(crate) fn remove(&self, node: &TreeNode, gone: &dyn Fn(&str) -> bool) -> Option<Vec<Edit>> {
        let map = node.as_map()?;
        let is_gone = |key: &TreeNode| key.text().is_some_and(gone);
        if map.is_flow {
            return self.remove_in_flow(node, map, &is_gone).map(|edit| vec![edit]);
        }
        let mut edits = Vec::new();
        for (index, (key, value)) in map.entries.iter().enumerate() {
            if !is_gone(key) {
                continue;
            }
            let end = value.at.end.max(key.at.end);
            let start = self.line_start(key.at.start);
            let before = self.text.get(start..key.at.start)?;
            if before.bytes().all(|b| b == b' ') {
                let mut at = start..self.line_end(end);
                let behind = self.text.get(at.end..)?;
                if behind.is_empty() {
                    at.start -= usize::from(at.start > 0);
                } else {
                    at.end += if behind.starts_with("\r\n") { 2 } else { 1 };
                }
                edits.push(Edit { at, text: String::new() });
                continue;
            }
            // Behind a dash the next one takes its place.
            let (next, _) = map.entries.get(index + 1).filter(|(next, _)| !is_gone(next))?;
            let between = self.text.get(end..next.at.start)?;
            if between.contains('#') {
                return None;
            }
            edits.push(Edit { at: key.at.start..next.at.start, text: String::new() });
        }
        Some(edits)
    }

    /// Writes a flow map anew from the entries that stay.
    fn remove_in_flow(
        &self,
        node: &TreeNode,
        map: &Map,
        is_gone: &dyn Fn(&TreeNode) -> bool,
    ) -> Option<Edit> {
        let (first, _) = map.entries.first()?;
        let (_, last) = map.entries.last()?;
        let written = self.text.get(node.at.clone())?;
        let kept = map.entries.iter().filter(|(key, _)| !is_gone(key));
        let kept: Vec<&str> = kept
            .map(|(key, value)| {
                let end = match value.at.is_empty() {
                    true => self.behind_colon(key.at.end)?,
                    false => value.at.end,
                };
                self.text.get(key.at.start..end)
            })
            .collect::<Option<_>>()?;
        let separator = match self.begins_line(first) {
            Some(indent) => format!(",{}{indent}", self.newline),
            None => ", ".to_owned(),
        };
        let head = self.text.get(node.at.start..first.at.start)?;
        let tail = self.text.get(last.at.end.max(first.at.end)..node.at.end)?;
        // A comment between entries would be lost.
        let has_comment = written.lines().any(|line| line.contains(" #") || line.starts_with('#'));
        (!has_comment && !last.at.is_empty() && tail.trim_start().starts_with(['}', ','])).then(
            || Edit {
                at: node.at.clone(),
                text: format!("{head}{}{}", kept.join(&separator), tail.trim_start_matches(',')),
            },
        )
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

    /// The spaces before a node that is the first of its line.
    fn begins_line(&self, node: &TreeNode) -> Option<&'a str> {
        let before = self.text.get(self.line_start(node.at.start)..node.at.start)?;
        before.bytes().all(|b| b == b' ' || b == b'\t').then_some(before)
    }

    fn line_start(&self, at: usize) -> usize {
        self.text.get(..at).and_then(|text| text.rfind('\n')).map_or(0, |newline| newline + 1)
    }

    pub(crate) fn line_end(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        let length = rest.find('\n').unwrap_or(rest.len());
        let line = rest.get(..length).unwrap_or_default();
        at + line.strip_suffix('\r').unwrap_or(line).len()
    }

    fn behind_colon(&self, at: usize) -> Option<usize> {
        let rest = self.text.get(at..)?;
        let colon = rest.find(':')?;
        rest.get(..colon)?.trim().is_empty().then_some(at + colon + 1)
    }

    fn flow_entry(&self, key: &str, value: New<'_>, is_quoted: bool) -> String {
        let key = if is_quoted { quoted(key) } else { key.to_owned() };
        let value = match value {
            New::Text(text) => quoted(text),
            New::Plain(text) if is_quoted => quoted(text),
            New::Plain(text) => text.to_owned(),
            New::Map(entries) => {
                let entries = entries.iter().map(|(k, v)| self.flow_entry(k, *v, is_quoted));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
        };
        format!("{key}: {value}")
    }

    fn block_entry(&self, key: &str, value: New<'_>, indent: &str) -> String {
        match value {
            New::Text(text) => format!("{indent}{key}: {}", quoted(text)),
            New::Plain(text) => format!("{indent}{key}: {text}"),
            New::Map(entries) => {
                let inner = format!("{indent}  ");
                let entries = entries.iter().map(|(k, v)| self.block_entry(k, *v, &inner));
                let lines: Vec<String> =
                    [format!("{indent}{key}:")].into_iter().chain(entries).collect();
                lines.join(self.newline)
            }
        }
    }
}

/// Whether the text of a node ends in a block of lines, to which what follows might belong.
fn ends_in_block(node: &TreeNode) -> bool {
    match &node.value {
        crate::tree::Value::Scalar(scalar) => scalar.style == Style::Block,
        crate::tree::Value::Map(map) if !map.is_flow => {
            map.entries.last().is_some_and(|(_, value)| ends_in_block(value))
        }
        crate::tree::Value::List(items) => items.last().is_some_and(ends_in_block),
        _ => false,
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Whether no two changes touch the same bytes.
pub(crate) fn are_apart(edits: &[Edit]) -> bool {
    let mut all: Vec<&Range<usize>> = edits.iter().map(|edit| &edit.at).collect();
    all.sort_by_key(|at| (at.start, at.end));
    all.windows(2).all(|pair| match pair {
        [a, b] => a.end <= b.start && a.start < b.start,
        _ => true,
    })
}

/// Makes as many of the groups of changes as do not touch each other, in their order.
pub(crate) fn apply<'e>(text: &str, groups: impl Iterator<Item = &'e [Edit]>) -> Option<String> {
    let mut made: BTreeMap<usize, &Edit> = BTreeMap::new();
    for group in groups {
        let is_free = |edit: &Edit| {
            let before = made.range(..=edit.at.start).next_back();
            let behind = made.range(edit.at.start..).next();
            before.is_none_or(|(start, e)| *start < edit.at.start && e.at.end <= edit.at.start)
                && behind.is_none_or(|(start, _)| *start >= edit.at.end && *start > edit.at.start)
        };
        if group.iter().all(is_free) {
            made.extend(group.iter().map(|edit| (edit.at.start, edit)));
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
