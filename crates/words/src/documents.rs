//! Text with many documents into objects, on all cores.
//!
//! ```text
//!   text ─► pieces: documents, or runs of items of a large List
//!             └─► chunks of pieces ─► threads ─► entries, in the order of the text
//!                                        └─ what does not fit the types is read once more,
//!                                           untyped, to say which field is wrong
//! ```

mod block;
mod json;
mod malformed;
mod yaml;

use crate::manifest::{Content, Object};
use crate::problem::{is_visible, visible};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// One object of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// It could be read.
    Object(Object),
    /// It is an object, but one of its fields has the wrong type.
    Malformed {
        /// Its kind.
        kind: String,
        /// Its namespace, or empty.
        namespace: String,
        /// Its name, or empty.
        name: String,
        /// Of a pod, the node that it is bound to, or empty.
        node: String,
        /// Of a pod, the scheduler that it names, or empty.
        scheduler: String,
        /// Field, value and what is allowed.
        error: String,
    },
}

/// Why a text could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ReadError {
    /// The name of the text.
    pub source_name: String,
    /// Which document, from 1; empty ones do not count.
    pub document: usize,
    /// Which line of the text, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// That line, and a mark under the place.
    pub excerpt: Option<String>,
    /// Whether it is something else than objects, such as values or a template, and not broken.
    pub no_object: bool,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source_name, document, line, message, excerpt, .. } = self;
        write!(f, "{source_name}: document {document}, line {line}: {message}")?;
        excerpt.as_ref().map_or(Ok(()), |excerpt| write!(f, "\n{excerpt}"))
    }
}

/// A part of the text that can be read by itself.
#[derive(Clone, Copy)]
struct Piece<'a> {
    text: &'a str,
    /// Where it begins in the whole text.
    start: usize,
    /// Which document it is, or is part of.
    document: usize,
    shape: Shape,
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// A YAML document.
    Yaml,
    /// Some items of a YAML List.
    YamlItems,
    /// A JSON document.
    Json,
    /// An item of a JSON List.
    JsonItem,
}

impl Shape {
    /// Whether the piece was cut out of its document.
    fn is_cut(self) -> bool {
        matches!(self, Self::YamlItems | Self::JsonItem)
    }
}

/// What is wrong with a piece and where in it, as line and column from 1.
struct Fault {
    message: String,
    line: usize,
    column: usize,
}

impl Fault {
    /// A fault of the piece as a whole.
    fn at_start(message: String) -> Self {
        Self { message, line: 1, column: 0 }
    }
}

/// How deep a document may be nested. Real ones stay below 50; more could exhaust the stack.
const MAX_DEPTH: usize = 100;

/// How deep a configuration may be nested; it is read on the stack of the caller.
const MAX_SETTING_DEPTH: usize = 32;

/// Large enough that handing it out costs nothing, small enough to keep all cores busy.
const CHUNK: usize = 128 << 10;

/// Reads all objects of a YAML or JSON text in their order; Lists are taken apart. `source` names
/// the text in errors. `progress` is told how many more bytes are done.
pub fn read(
    source: &str,
    text: &str,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Entry>, ReadError> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let done = AtomicUsize::new(0);
    let counted = |bytes: usize| {
        // A second attempt must not count the same bytes again.
        let before = done.fetch_add(bytes, Ordering::Relaxed);
        progress(bytes.min(text.len().saturating_sub(before)));
    };
    let result = std::thread::scope(|scope| {
        match deep_thread().spawn_scoped(scope, || read_body(body, &counted)) {
            Ok(reader) => reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => read_body(body, &counted),
        }
    });
    counted(text.len());
    result.map_err(|(piece, fault)| read_error(source, body, piece, &fault))
}

/// The documents of a YAML or JSON text as they are, without the empty ones.
pub fn untyped(text: &str) -> Result<Vec<serde_json::Value>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    yaml::read_untyped(text, MAX_SETTING_DEPTH)
        .map_err(|fault| format!("line {}: {}", fault.line, visible(&fault.message)))
}

type Refused<'a> = (Piece<'a>, Fault);

fn read_body<'a>(
    text: &'a str,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Entry>, Refused<'a>> {
    if text.trim_start().starts_with('{') {
        // `{` also begins a YAML document in flow style, where keys need no quotes.
        match read_pieces(|cut| json::pieces(text, cut), progress) {
            Err(refused) if refused.0.shape == Shape::Json => {
                let yaml = read_pieces(|cut| Ok(yaml::pieces(text, cut)), progress);
                return yaml.map_err(|_| refused);
            }
            result => return result,
        }
    }
    read_pieces(|cut| Ok(yaml::pieces(text, cut)), progress)
}

/// Reads the pieces with Lists cut into items, and if a cut piece makes no sense by itself, such
/// as an alias to an earlier item, once more with whole documents.
fn read_pieces<'a>(
    pieces: impl Fn(bool) -> Result<Vec<Piece<'a>>, Refused<'a>>,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Entry>, Refused<'a>> {
    match read_chunks(&pieces(true)?, progress) {
        Err((piece, _)) if piece.shape.is_cut() => read_chunks(&pieces(false)?, progress),
        result => result,
    }
}

/// A thread whose stack holds a document of [`MAX_DEPTH`] also when nothing is optimized.
fn deep_thread() -> std::thread::Builder {
    std::thread::Builder::new().stack_size(16 << 20)
}

fn read_chunks<'a>(
    pieces: &[Piece<'a>],
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Entry>, Refused<'a>> {
    let mut size = 0;
    // A chunk ends where its bytes pass the limit; pieces are never divided.
    let chunks: Vec<&[Piece<'a>]> = pieces
        .chunk_by(|piece, _| {
            size += piece.text.len();
            let full = size >= CHUNK;
            if full {
                size = 0;
            }
            !full
        })
        .collect();
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    // Chunks are handed out in order, so those before the first bad one are always read and the
    // first error is the same in every run.
    let work = || {
        let mut mine = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(chunk) = chunks.get(index) else { break };
            let result = read_chunk(chunk);
            stop.fetch_or(result.is_err(), Ordering::Relaxed);
            mine.push((index, result));
            progress(chunk.iter().map(|piece| piece.text.len()).sum());
        }
        mine
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut results = std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..cores.min(chunks.len()))
            .filter_map(|_| deep_thread().spawn_scoped(scope, work).ok())
            .collect();
        // This thread works too: if no other can be started, it does all of it.
        let mut results = work();
        for helper in helpers {
            match helper.join() {
                Ok(theirs) => results.extend(theirs),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_by_key(|(index, _)| *index);
    let mut entries = Vec::with_capacity(pieces.len());
    for (_, result) in results {
        entries.append(&mut result?);
    }
    Ok(entries)
}

fn read_chunk<'a>(pieces: &[Piece<'a>]) -> Result<Vec<Entry>, Refused<'a>> {
    let mut entries = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let read = match piece.shape {
            Shape::Yaml => yaml::read_document(piece.text, &mut entries),
            Shape::YamlItems => yaml::read_items(piece.text, &mut entries),
            Shape::Json | Shape::JsonItem => json::read_value(piece.text, &mut entries),
        };
        read.map_err(|fault| (*piece, fault))?;
    }
    Ok(entries)
}

/// Takes Lists apart.
fn flatten(object: Object, entries: &mut Vec<Entry>) {
    match object.content {
        Content::List(items) => items.into_iter().for_each(|item| flatten(item, entries)),
        // A `null` among the items.
        _ if object.kind.is_empty() => {}
        _ => entries.push(Entry::Object(object)),
    }
}

fn read_error(source: &str, text: &str, piece: Piece<'_>, fault: &Fault) -> ReadError {
    let before = text.get(..piece.start).unwrap_or_default();
    let first = before.bytes().filter(|b| *b == b'\n').count();
    let line = first + fault.line.max(1);
    let shown = text.lines().nth(line - 1).filter(|_| fault.column > 0);
    let template = template_line(piece.text);
    let message = match template {
        Some(at) => format!(
            "a template of Helm is no manifest yet ({{{{ in line {}): render it first, as with \
             `helm template CHART | divvy ... -f -`",
            first + at
        ),
        None => visible(&fault.message).into_owned(),
    };
    ReadError {
        source_name: source.to_owned(),
        document: piece.document,
        line,
        message,
        excerpt: shown.map(|text| excerpt(line, text, fault.column)),
        no_object: template.is_some() || fault.column == 0,
    }
}

/// The first line with an action of a template, from 1.
fn template_line(text: &str) -> Option<usize> {
    let is_action = |line: &str| {
        let begin = line.split('#').next().and_then(|line| line.find("{{"));
        begin.is_some_and(|at| line.get(at..).is_some_and(|rest| rest.contains("}}")))
    };
    text.lines().position(is_action).map(|at| at + 1)
}

/// The line around the column, with a mark below it.
fn excerpt(line: usize, text: &str, column: usize) -> String {
    const WIDTH: usize = 80;
    let skipped = column.saturating_sub(WIDTH / 2 + 1);
    // Terminals act on control characters, and a tab would move the mark.
    let blank = |c| if is_visible(c) { c } else { ' ' };
    let shown: String = text.chars().skip(skipped).take(WIDTH).map(blank).collect();
    let mark = " ".repeat(column.saturating_sub(1 + skipped).min(WIDTH));
    let margin = " ".repeat(line.to_string().len());
    format!("{line} | {}\n{margin} | {mark}^", shown.trim_end())
}

#[cfg(test)]
mod tests;
