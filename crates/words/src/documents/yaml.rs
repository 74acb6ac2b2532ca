//! Where YAML documents and the items of Lists begin, and how one of them is read.

use super::{Entry, Fault, Piece, Shape, block, flatten, malformed};
use crate::manifest::{Content, Object};
use serde_json::Value;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};

/// Lists below this size are read as one document.
const LARGE: usize = 64 << 10;

/// Documents of the text without the empty ones; with `cut`, large Lists as runs of items.
pub(super) fn pieces(text: &str, cut: bool) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut number = 0;
    let mut start = 0;
    // `---` at the beginning of a line separates documents wherever it stands, also in a block
    // of text.
    let marks = text.match_indices("\n---").map(|(at, _)| at + 1);
    for end in marks.filter(|at| is_mark(text, *at)).chain([text.len()]) {
        let document = text.get(start..end).unwrap_or_default();
        if end < text.len() && ends_in_directive(document) {
            continue;
        }
        if !is_empty(document) {
            number += 1;
            let piece = Piece { text: document, start, document: number, shape: Shape::Yaml };
            match items_of_list(piece).filter(|_| cut) {
                Some(items) => pieces.extend(items),
                None => pieces.push(piece),
            }
        }
        start = end;
    }
    pieces
}

/// Whether the three characters at `at` stand by themselves.
fn is_mark(text: &str, at: usize) -> bool {
    let behind = text.as_bytes().get(at + 3);
    behind.is_none_or(u8::is_ascii_whitespace)
}

/// `%YAML` and `%TAG` stand before the `---` of the document they are for.
fn ends_in_directive(text: &str) -> bool {
    let mut lines = text.lines().rev();
    lines.find(|line| !is_blank(line)).is_some_and(|line| line.starts_with('%'))
}

fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

fn is_empty(document: &str) -> bool {
    let rest = document.strip_prefix("---").unwrap_or(document);
    rest.lines().all(|line| is_blank(line) || line.trim_end() == "...")
}

fn has_end_mark(text: &str) -> bool {
    text.match_indices("\n...").any(|(at, _)| is_mark(text, at + 1))
}

/// The items of a large List in block style, in runs. Sound because nothing inside an item can
/// stand as far left as the dash of the item, and a line that does starts another item or ends
/// the list. Anchors do not reach from one item to another: the caller then reads all as one.
fn items_of_list(document: Piece<'_>) -> Option<Vec<Piece<'_>>> {
    let text = document.text;
    if text.len() < LARGE || text.starts_with('%') || has_end_mark(text) {
        return None;
    }
    let key = if text.starts_with("items:") { 0 } else { text.find("\nitems:")? + 1 };
    let first = key + text.get(key..)?.find('\n')? + 1;
    if !is_blank(text.get(key + "items:".len()..first)?) {
        return None;
    }
    let indent = text.get(first..)?.bytes().take_while(|b| *b == b' ').count();
    let mut items = Vec::new();
    let mut run = first;
    let mut at = first;
    let end = loop {
        let Some(line) = text.get(at..).and_then(|rest| rest.split_inclusive('\n').next()) else {
            break text.len();
        };
        let left = line.bytes().take_while(|b| *b == b' ').count();
        let content = line.get(left..)?;
        let is_item = content.starts_with('-')
            && matches!(content.as_bytes().get(1), Some(b' ' | b'\n' | b'\r'));
        if left <= indent && !is_blank(content) {
            if left < indent || !is_item {
                break at;
            }
            if at - run >= LARGE {
                items.push((run, at));
                run = at;
            }
        }
        at += line.len();
    };
    items.push((run, end));
    let around = format!("{}{}", text.get(..key)?, text.get(end..)?);
    let list: Object = serde_saphyr::from_str_with_options(&around, options(around.len())).ok()?;
    if !matches!(list.content, Content::List(_)) {
        return None;
    }
    let piece = |(from, to)| {
        let text = text.get(from..to)?;
        Some(Piece { text, start: document.start + from, shape: Shape::YamlItems, ..document })
    };
    items.into_iter().map(piece).collect()
}

/// Reads a document.
pub(super) fn read_document(text: &str, entries: &mut Vec<Entry>) -> Result<(), Fault> {
    let object: Option<Object> = match block::read(text) {
        Some(object) => Some(object),
        None if has_end_mark(text) => None,
        None => serde_saphyr::from_str_with_options(text, options(text.len())).ok(),
    };
    if let Some(object) = object {
        flatten(object, entries);
        return Ok(());
    }
    read_untyped(text, super::MAX_DEPTH)?
        .into_iter()
        .try_for_each(|value| malformed::entries(value, entries))
        .map_err(Fault::at_start)
}

/// Reads documents without any types.
pub(super) fn read_untyped(text: &str, depth: usize) -> Result<Vec<Value>, Fault> {
    let mut options = options(text.len());
    if let Some(budget) = &mut options.budget {
        budget.max_depth = depth;
    }
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| fault(&error))
}

/// Reads some items of a List.
pub(super) fn read_items(text: &str, entries: &mut Vec<Entry>) -> Result<(), Fault> {
    let objects: Option<Vec<Option<Object>>> = block::read(text)
        .or_else(|| serde_saphyr::from_str_with_options(text, options(text.len())).ok());
    if let Some(objects) = objects {
        objects.into_iter().flatten().for_each(|object| flatten(object, entries));
        return Ok(());
    }
    let values: Vec<Value> = serde_saphyr::from_str_with_options(text, options(text.len()))
        .map_err(|error| fault(&error))?;
    values
        .into_iter()
        .try_for_each(|value| malformed::entries(value, entries))
        .map_err(Fault::at_start)
}

/// Limits that grow with the text, so that a large file is read and a small one cannot become
/// large: what aliases repeat is at most some times what is written.
pub(super) fn options(length: usize) -> serde_saphyr::Options {
    let repeated = length.saturating_mul(4).saturating_add(10_000);
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: super::MAX_DEPTH,
            flow_nesting_limit: super::MAX_DEPTH,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_aliases: usize::MAX,
            max_anchors: usize::MAX,
            max_documents: usize::MAX,
            max_merge_keys: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_recorded_anchor_events: repeated,
            max_recorded_anchor_bytes: repeated.saturating_mul(16),
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: repeated,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        emit_comments: false,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

fn fault(error: &serde_saphyr::Error) -> Fault {
    let place = error.location();
    let number = |n: Option<u64>| n.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let text = error.without_snippet().to_string();
    let message = text.lines().next().unwrap_or("not YAML");
    // The place is shown otherwise, and a hint at the library's options helps nobody.
    let message = message.rsplit_once(" at line ").map_or(message, |(before, _)| before);
    let message = message.split(", set DuplicateKeyPolicy").next().unwrap_or(message);
    Fault {
        message: message.to_owned(),
        line: number(place.map(|place| place.line())),
        column: number(place.map(|place| place.column())),
    }
}
