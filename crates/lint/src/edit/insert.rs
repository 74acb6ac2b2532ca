//! More entries of maps.

use super::{Comments, Edit, SourceText, quoted};
use crate::tree::{Style, TreeNode, Value};

/// What an entry is to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum New<'a> {
    /// A text, always in quotes.
    Text(&'a str),
    /// The same, with what was said of it where it stood before.
    Moved(&'a str, &'a Comments),
    /// A name or number, without quotes where that can be.
    Plain(&'a str),
    /// A map of these.
    Map(&'a [(&'a str, New<'a>)]),
}

impl SourceText<'_> {
    /// More entries of a map, behind the others.
    pub(crate) fn insert(&self, node: &TreeNode, entries: &[(&str, New<'_>)]) -> Option<Edit> {
        let map = node.as_map()?;
        let Some((first, _)) = map.entries.first() else {
            let entries = entries.iter().map(|(k, v)| self.flow_entry(k, *v, self.is_json));
            let text = entries.collect::<Vec<_>>().join(", ");
            return Some(Edit { at: node.at.start + 1..node.at.start + 1, text });
        };
        let last = map.entries.last()?;
        let (last_key, last_value) = last;
        if map.is_flow {
            let end = self.entry_end(last)?;
            // What is said of the last one stays behind it.
            let said = self.comments_in(&(end..self.line_end(end))).first();
            let before = said.and_then(|said| self.text.get(end..said.start));
            if before.is_some_and(|before| matches!(before.trim(), "" | ",")) {
                return self.insert_first(node, entries);
            }
            let is_quoted = first.as_scalar()?.style == Style::Double;
            let separator = match self.begins_line(last_key) {
                Some(indent) => format!(",{}{indent}", self.newline),
                None => ", ".to_owned(),
            };
            let entries = entries.iter().map(|(k, v)| self.flow_entry(k, *v, is_quoted));
            let text = entries.map(|entry| format!("{separator}{entry}")).collect();
            return Some(Edit { at: end..end, text });
        }
        if ends_in_block(last_value) {
            return self.insert_first(node, entries);
        }
        let indent = self.indent(first)?;
        Some(self.lines_behind(last_value.at.end.max(last_key.at.end), &indent, entries))
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
        // What is said above the first entry stays with it; at the top it is said of the whole.
        if let Some(start) = self.above(first).filter(|_| !indent.is_empty()) {
            let text = entries.map(|entry| format!("{entry}{}", self.newline)).collect();
            return Some(Edit { at: start..start, text });
        }
        let text: String = entries
            .map(|entry| format!("{}{}{indent}", entry.trim_start(), self.newline))
            .collect();
        Some(Edit { at, text })
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
        let indent = format!("{}{}", self.indent(at)?, self.step());
        Some(self.lines_behind(self.behind_colon(at.at.end)?, &indent, entries))
    }

    /// Gives a name to a field that is there without a value.
    pub(crate) fn fill(&self, node: &TreeNode, field: &str, name: &str) -> Option<Edit> {
        let (key, _) = node.as_map()?.entry(field)?;
        let at = self.behind_colon(key.at.end)?;
        Some(Edit { at: at..at, text: format!(" {name}") })
    }

    /// Whether what [`Self::insert_in`] writes has lines of its own, which may have comments.
    pub(crate) fn has_lines(&self, node: &TreeNode, name: &str) -> bool {
        let is_block = |node: &TreeNode| node.as_map().is_none_or(|map| !map.is_flow);
        is_block(node) && node.get(name).is_none_or(is_block)
    }

    /// Entries in lines behind that of a byte, and behind what is said below it of what it ends.
    fn lines_behind(&self, end: usize, indent: &str, entries: &[(&str, New<'_>)]) -> Edit {
        let end = self.line_end(end);
        let mut at = self.next_line(end);
        let mut last = end;
        while let Some(line) = at
            && self.comment_line(line).is_some_and(|column| column >= indent.len())
        {
            last = self.line_end(line);
            at = self.next_line(line);
        }
        let lines = entries.iter().map(|(k, v)| self.block_entry(k, *v, indent));
        match at {
            Some(at) => {
                let text = lines.map(|line| format!("{line}{}", self.newline)).collect();
                Edit { at: at..at, text }
            }
            None => {
                let text = lines.map(|line| format!("{}{line}", self.newline)).collect();
                Edit { at: last..last, text }
            }
        }
    }

    fn flow_entry(&self, key: &str, value: New<'_>, is_quoted: bool) -> String {
        let key = if is_quoted { quoted(key) } else { key.to_owned() };
        let value = match value {
            New::Text(text) | New::Moved(text, _) => quoted(text),
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
            New::Moved(text, Comments { above, behind }) => {
                let above = above.iter().map(|line| format!("{indent}{line}{}", self.newline));
                let behind = behind.as_ref().map(|behind| format!(" {behind}"));
                let (above, behind) = (above.collect::<String>(), behind.unwrap_or_default());
                format!("{above}{indent}{key}: {}{behind}", quoted(text))
            }
            New::Plain(text) => format!("{indent}{key}: {text}"),
            New::Map(entries) => {
                let inner = format!("{indent}{}", self.step());
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
        Value::Scalar(scalar) => scalar.style == Style::Block,
        Value::Map(map) if !map.is_flow => {
            map.entries.last().is_some_and(|(_, value)| ends_in_block(value))
        }
        Value::List(items) => items.last().is_some_and(ends_in_block),
        _ => false,
    }
}
