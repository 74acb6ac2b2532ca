//! Entries that are taken out of maps, and what is said of them.

use super::{Edit, SourceText};
use crate::tree::{Map, TreeNode};
use std::ops::Range;

/// What is said of an entry: in lines above it, and behind it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comments {
    pub(crate) above: Vec<String>,
    pub(crate) behind: Option<String>,
}

/// What takes entries out of a text, and what was said of them if that is gone too.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    pub(crate) edits: Vec<Edit>,
    pub(crate) comments: Comments,
}

/// What becomes of the comments of an entry that is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// They stay, in lines of their own.
    Comments,
    /// They go along.
    Nothing,
}

impl Gone {
    /// Takes out more.
    pub(crate) fn and(&mut self, other: Self) {
        self.edits.extend(other.edits);
        let Comments { above, behind } = other.comments;
        self.comments.above.extend(above);
        match self.comments.behind.is_none() {
            true => self.comments.behind = behind,
            false => self.comments.above.extend(behind),
        }
    }
}

impl SourceText<'_> {
    /// Takes entries out of a map. One in block style must keep some.
    pub(crate) fn remove(
        &self,
        node: &TreeNode,
        gone: &dyn Fn(&str) -> bool,
        leave: Leave,
    ) -> Option<Gone> {
        let map = node.as_map()?;
        let is_gone = |key: &TreeNode| key.text().is_some_and(gone);
        if map.is_flow {
            let edits = self.remove_in_flow(node, map, &is_gone)?;
            return Some(Gone { edits, ..Gone::default() });
        }
        let mut all = Gone::default();
        for (index, (key, value)) in map.entries.iter().enumerate().filter(|(_, e)| is_gone(&e.0)) {
            // A key behind a question mark is left alone.
            self.indent(key)?;
            let end = value.at.end.max(key.at.end);
            let entry = key.at.start..self.line_end(end);
            match self.begins_line(key) {
                Some(_) => all.and(self.remove_lines(key, entry, leave)?),
                // Behind a dash the next one takes its place.
                None => {
                    let (next, _) =
                        map.entries.get(index + 1).filter(|(next, _)| !is_gone(next))?;
                    all.and(self.remove_before(entry, next, leave)?);
                }
            }
        }
        Some(all)
    }

    /// Takes out an entry that has lines of its own.
    fn remove_lines(&self, key: &TreeNode, entry: Range<usize>, leave: Leave) -> Option<Gone> {
        let line = self.line_start(key.at.start);
        let indent = self.text.get(line..key.at.start)?;
        if leave == Leave::Comments {
            let lines = self.comments_in(&entry).iter();
            let lines = lines.map(|at| self.text.get(at.clone()));
            let lines: Vec<&str> = lines.collect::<Option<_>>()?;
            if !lines.is_empty() {
                let text = lines.join(&format!("{}{indent}", self.newline));
                return Some(Gone {
                    edits: vec![Edit { at: key.at.start..entry.end, text }],
                    ..Gone::default()
                });
            }
        }
        let start = if leave == Leave::Nothing { self.above(key)? } else { line };
        let comments = match leave {
            Leave::Nothing => self.said(start..entry.end)?,
            Leave::Comments => Comments::default(),
        };
        let at = match self.next_line(entry.end) {
            Some(next) => start..next,
            // The line before it becomes the last one.
            None => {
                let before = self.text.get(..start)?;
                let before = before.strip_suffix('\n').unwrap_or(before);
                before.strip_suffix('\r').unwrap_or(before).len()..entry.end
            }
        };
        Some(Gone { edits: vec![Edit { at, text: String::new() }], comments })
    }

    /// Takes out an entry behind a dash.
    fn remove_before(&self, entry: Range<usize>, next: &TreeNode, leave: Leave) -> Option<Gone> {
        let comments = match leave {
            Leave::Nothing => self.said(entry.clone())?,
            Leave::Comments => Comments::default(),
        };
        let start = if leave == Leave::Nothing { entry.end } else { entry.start };
        let stay = self.comments_in(&(start..next.at.start)).iter();
        let indent = self.indent(next)?;
        let stay =
            stay.map(|at| Some(format!("{}{}{indent}", self.text.get(at.clone())?, self.newline)));
        let text = stay.collect::<Option<String>>()?;
        let edit = Edit { at: entry.start..next.at.start, text };
        Some(Gone { edits: vec![edit], comments })
    }

    /// The comments of a part of the text; that of its last line stands behind it.
    fn said(&self, at: Range<usize>) -> Option<Comments> {
        let last_line = self.line_start(at.end);
        let (mut above, mut behind) = (Vec::new(), None);
        for comment in self.comments_in(&at) {
            let text = self.text.get(comment.clone())?.to_owned();
            match comment.start >= last_line {
                true => behind = Some(text),
                false => above.push(text),
            }
        }
        Some(Comments { above, behind })
    }

    /// Takes entries out of braces with the commas that parted them from others; comments stay.
    fn remove_in_flow(
        &self,
        node: &TreeNode,
        map: &Map,
        is_gone: &dyn Fn(&TreeNode) -> bool,
    ) -> Option<Vec<Edit>> {
        if map.entries.iter().all(|(key, _)| is_gone(key)) {
            return Some(vec![Edit { at: node.at.clone(), text: "{}".to_owned() }]);
        }
        let mut places = Vec::new();
        let mut kept: Option<&(TreeNode, TreeNode)> = None;
        let mut entries = map.entries.iter().peekable();
        while let Some(entry) = entries.next() {
            if !is_gone(&entry.0) {
                kept = Some(entry);
                continue;
            }
            // As many as stand together.
            let mut all = vec![entry];
            while let Some(next) = entries.next_if(|(key, _)| is_gone(key)) {
                all.push(next);
            }
            let at = match (entries.peek(), kept) {
                (Some((next, _)), _) => entry.0.at.start..next.at.start,
                (None, Some(kept)) => self.entry_end(kept)?..self.entry_end(all.last()?)?,
                (None, None) => return None,
            };
            match self.comments_in(&at).is_empty() {
                true => places.push(at),
                // Each by itself, with the comma behind it; one before it may stay.
                false => {
                    for entry in all {
                        let end = self.entry_end(entry)?;
                        let rest = self.text.get(end..)?;
                        let blank = rest.len() - rest.trim_start_matches(' ').len();
                        let has_comma = rest.get(blank..)?.starts_with(',');
                        places
                            .push(entry.0.at.start..if has_comma { end + blank + 1 } else { end });
                    }
                }
            }
        }
        Some(places.into_iter().map(|at| Edit { at, text: String::new() }).collect())
    }
}
