//! Where YAML documents and the items of Lists begin, and how one of them is read.

use super::{Entry, Fault, Piece, Shape, block, flatten, malformed};
use crate::manifest::{Kind, Object};
use crate::problem::short;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::Error;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use std::borrow::Cow;

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
    let line = line.trim_ascii();
    // A carriage return ends a comment too.
    line.is_empty() || (line.starts_with('#') && !line.contains('\r'))
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
/// the list. Anchors do not reach from one item to another: the caller then reads all as one. So
/// it does with whatever is unusual.
fn items_of_list(document: Piece<'_>) -> Option<Vec<Piece<'_>>> {
    let text = document.text;
    if text.len() < LARGE || has_end_mark(text) || has_lone_return(text) {
        return None;
    }
    let key = if text.starts_with("items:") { 0 } else { text.find("\nitems:")? + 1 };
    let first = key + text.get(key..)?.find('\n')? + 1;
    if !is_blank(text.get(key + "items:".len()..first)?) {
        return None;
    }
    let mut items = Vec::new();
    let mut run = first;
    let mut at = first;
    let mut indent = None;
    let end = loop {
        let Some(line) = text.get(at..).and_then(|rest| rest.split_inclusive('\n').next()) else {
            break text.len();
        };
        let left = line.bytes().take_while(|b| *b == b' ').count();
        let content = line.get(left..)?;
        let is_item = content.starts_with('-')
            && matches!(content.as_bytes().get(1), Some(b' ' | b'\n' | b'\r'));
        if !is_blank(content) && left <= *indent.get_or_insert(left) {
            if indent != Some(left) || !is_item {
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
    let (head, tail) = (text.get(..key)?, text.get(end..)?);
    if !begins_with_key(head) || !begins_with_key(tail) {
        return None;
    }
    let around = format!("{head}items: []\n{tail}");
    let list: Value = full(&around).ok()?;
    let field = |name| list.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_list = Kind::of(field("kind"), field("apiVersion")) == Some(Kind::List);
    if !is_list || list.get("items") != Some(&Value::Array(Vec::new())) {
        return None;
    }
    let piece = |(from, to)| {
        let text = text.get(from..to)?;
        Some(Piece { text, start: document.start + from, shape: Shape::YamlItems, ..document })
    };
    items.into_iter().map(piece).collect()
}

/// Whether the first line that says anything, if there is one, has a key at its very beginning.
fn begins_with_key(text: &str) -> bool {
    let body = text.strip_prefix("---").unwrap_or(text);
    let line = body.lines().find(|line| !is_blank(line));
    line.is_none_or(|line| line.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Whether a line ends in a carriage return alone, which YAML allows and nobody writes.
fn has_lone_return(text: &str) -> bool {
    text.match_indices('\r').any(|(at, _)| text.as_bytes().get(at + 1) != Some(&b'\n'))
}

/// Reads a document.
pub(super) fn read_document(text: &str, entries: &mut Vec<Entry>) -> Result<(), Fault> {
    let object: Option<Object> = match block::read(text) {
        Some(object) => Some(object),
        None if has_end_mark(text) => None,
        None => full(text).ok(),
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
    let read = |text: &str| {
        let mut options = options(text.len());
        if let Some(budget) = &mut options.budget {
            budget.max_depth = depth;
        }
        serde_saphyr::from_multiple_with_options(text, options)
    };
    huge_as_text(text, read).map_err(|error| fault(&error))
}

/// Reads a document with the full parser.
pub(super) fn full<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    huge_as_text(text, |text| serde_saphyr::from_str_with_options(text, options(text.len())))
}

/// Reads a text in which numbers that are too large are texts, as in Kubernetes: `7e8843921` is a
/// commit. The parser cannot be told so; such a scalar is put in quotes and the text read again.
fn huge_as_text<T>(text: &str, read: impl Fn(&str) -> Result<T, Error>) -> Result<T, Error> {
    /// How many bytes may be read in all, so that this cannot take forever.
    const MOST: usize = 256 << 20;
    let mut quoted = Cow::Borrowed(text);
    let mut left = MOST.max(text.len().saturating_mul(16));
    loop {
        let error = match read(&quoted) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        left = left.saturating_sub(text.len());
        match in_quotes(&quoted, &error).filter(|_| left > 0) {
            Some(text) => quoted = Cow::Owned(text),
            None => return Err(error),
        }
    }
}

/// The text with quotes around the number that is too large, if that is the error.
fn in_quotes(text: &str, error: &Error) -> Option<String> {
    let (value, place) = match error {
        Error::NonFiniteFloat { value, location } => (value, location),
        Error::AliasError { error, .. } | Error::WithSnippet { error, .. } => {
            return in_quotes(text, error);
        }
        _ => return None,
    };
    let number = |n: u64| usize::try_from(n).ok()?.checked_sub(1);
    let line = text.split('\n').nth(number(place.line())?)?;
    let (column, _) = line.char_indices().nth(number(place.column())?)?;
    let at = (line.as_ptr() as usize).checked_sub(text.as_ptr() as usize)? + column;
    let (before, after) = (text.get(..at)?, text.get(at..)?.strip_prefix(value.as_str())?);
    let is_tagged = before.trim_end_matches(' ').ends_with("!!float");
    (!value.contains('\'') && !is_tagged).then(|| format!("{before}'{value}'{after}"))
}

/// Reads some items of a List.
pub(super) fn read_items(text: &str, entries: &mut Vec<Entry>) -> Result<(), Fault> {
    let objects: Option<Vec<Option<Object>>> = block::read(text).or_else(|| full(text).ok());
    if let Some(objects) = objects {
        objects.into_iter().flatten().for_each(|object| flatten(object, entries));
        return Ok(());
    }
    let values: Vec<Value> = full(text).map_err(|error| fault(&error))?;
    values
        .into_iter()
        .try_for_each(|value| malformed::entries(value, entries))
        .map_err(Fault::at_start)
}

/// Limits that grow with the text, so that a large file is read and a small one cannot become
/// large: what aliases repeat is at most some times what is written.
fn options(length: usize) -> serde_saphyr::Options {
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
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        emit_comments: false,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

fn fault(error: &Error) -> Fault {
    let place = error.location();
    let number = |n: Option<u64>| n.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    Fault {
        message: message(error),
        line: number(place.map(|place| place.line())),
        column: number(place.map(|place| place.column())),
    }
}

fn message(error: &Error) -> String {
    match error {
        Error::AliasError { error, .. } | Error::WithSnippet { error, .. } => {
            return message(error);
        }
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            return "nested too deep".to_owned();
        }
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. } => {
            return "aliases repeat too much".to_owned();
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            return "an alias contains itself".to_owned();
        }
        Error::NonFiniteFloat { value, .. } => {
            return format!("{} is too large for a number; put it in quotes", short(value));
        }
        _ => {}
    }
    let text = error.without_snippet().to_string();
    let message = text.lines().next().unwrap_or("not YAML");
    // The place is shown otherwise, and a hint at the library's options helps nobody.
    let message = message.rsplit_once(" at line ").map_or(message, |(before, _)| before);
    let message = message.split(", set DuplicateKeyPolicy").next().unwrap_or(message);
    message.to_owned()
}
