//! What was found in texts, and where.

use crate::edit::{Edit, SourceText};
use crate::object::{Found, WrittenObject, objects};
use crate::rules::{self, Together};
use crate::tree::{Tree, tree};
use divvy_words::{Entry, PodRules, ReadError};
use serde::Serialize;
use std::fmt;

/// A text and its name.
#[derive(Clone, Copy, Debug)]
pub struct NamedText<'a> {
    /// The path, or `-`.
    pub name: &'a str,
    /// What it says.
    pub text: &'a str,
}

/// A mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LintFinding {
    /// Its stable name.
    pub name: &'static str,
    /// The name of the text.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// Kind, namespace and name.
    pub object: String,
    /// The field.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub next: String,
    /// Whether it can be mended in place.
    pub fixable: bool,
    #[serde(skip)]
    pub(crate) edits: Vec<Edit>,
    /// Which of the texts, and which object there.
    #[serde(skip)]
    pub(crate) origin: (usize, usize),
}

impl LintFinding {
    /// Object, field, what is wrong and what to write: all but where it stands.
    pub fn sentence(&self) -> String {
        let Self { object, field, message, next, .. } = self;
        format!("{object}: {field}: {message}; {next}")
    }
}

impl fmt::Display for LintFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, name, .. } = self;
        write!(f, "{file}:{line}:{column}: {} [{name}]", self.sentence())
    }
}

/// More findings than these in all help nobody; the rest is found when these are mended.
pub(crate) const MOST: usize = 10_000;

/// What was found in texts that are looked at together.
#[derive(Clone, Debug, Default)]
pub struct LintResult {
    /// All mistakes, in the order of the texts.
    pub findings: Vec<LintFinding>,
    /// What is no mistake and worth to know, once each.
    pub notes: Vec<&'static str>,
    /// Why some texts could not be looked at.
    pub unread: Vec<ReadError>,
    /// How many objects were.
    pub objects: usize,
}

/// Looks at texts together; `rules` say where pods stand in objects of other projects.
pub fn lint(texts: &[NamedText<'_>], rules: &PodRules) -> LintResult {
    let mut unread = Vec::new();
    let mut read = |text: &NamedText<'_>| {
        let entries = divvy_words::read(text.name, text.text, &|_| {});
        entries.map_err(|why| unread.push(why)).unwrap_or_default()
    };
    let entries: Vec<Vec<Entry>> = texts.iter().map(&mut read).collect();
    let trees = trees(texts, &entries);
    for (text, _) in texts.iter().zip(&trees).filter(|(_, tree)| tree.is_none()) {
        unread.push(untold(text.name));
    }
    let trees: Vec<Tree> = trees.into_iter().map(Option::unwrap_or_default).collect();
    let (findings, notes) = find(texts, &trees, &entries, rules);
    LintResult { findings, notes, unread, objects: entries.iter().map(Vec::len).sum() }
}

/// Of a text that has a meaning, and nobody can say where its parts stand.
fn untold(name: &str) -> ReadError {
    ReadError {
        source_name: name.to_owned(),
        document: 1,
        line: 1,
        message: "where its parts stand cannot be told; keys of more than 1,024 characters are one reason"
            .to_owned(),
        excerpt: None,
        no_object: false,
    }
}

/// What stands where in each text; nothing where it cannot be told.
fn trees(texts: &[NamedText<'_>], entries: &[Vec<Entry>]) -> Vec<Option<Tree>> {
    // What cannot be taken apart was refused by who read it for its meaning.
    let tree = |(text, entries): (&NamedText<'_>, &Vec<Entry>)| match entries.is_empty() {
        true => Some(Tree::default()),
        false => tree(text.text),
    };
    texts.iter().zip(entries).map(tree).collect()
}

/// Whoever rehearses more than this waits for the pods and not for mistakes in their manifests.
const MOST_REHEARSED: usize = 16 << 20;

/// The mistakes of a workload that is rehearsed, but for those that are told of its pods anyway; none
/// of a large one.
pub fn rehearsed(
    texts: &[NamedText<'_>],
    entries: &[Vec<Entry>],
    rules: &PodRules,
) -> Vec<LintFinding> {
    if texts.iter().map(|text| text.text.len()).sum::<usize>() > MOST_REHEARSED {
        return Vec::new();
    }
    let trees = trees(texts, entries).into_iter().map(Option::unwrap_or_default);
    let (mut found, _) = find(texts, &trees.collect::<Vec<_>>(), entries, rules);
    found.retain(|finding| !rules::REASONS.contains(&finding.name));
    found
}

fn find(
    texts: &[NamedText<'_>],
    trees: &[Tree],
    entries: &[Vec<Entry>],
    pod_rules: &PodRules,
) -> (Vec<LintFinding>, Vec<&'static str>) {
    let all = trees.iter().zip(entries);
    let all: Vec<Vec<WrittenObject<'_>>> =
        all.map(|(tree, entries)| objects(&tree.documents, entries, pod_rules)).collect();
    let mut together = Together::default();
    all.iter().for_each(|objects| together.add(objects));
    let mut findings = Vec::new();
    for (index, ((text, tree), objects)) in texts.iter().zip(trees).zip(&all).enumerate() {
        let source = SourceText::new(text.text, tree);
        let lines = Lines::of(text.text);
        for (at, object) in objects.iter().enumerate() {
            let found = rules::look(source, object, &together, pod_rules);
            let room = MOST.saturating_sub(findings.len());
            let found = found.into_iter().take(room);
            findings.extend(found.map(|found| finding(text, &lines, object, found, (index, at))));
        }
    }
    (findings, together.notes())
}

fn finding(
    text: &NamedText<'_>,
    lines: &Lines<'_>,
    object: &WrittenObject<'_>,
    found: Found,
    origin: (usize, usize),
) -> LintFinding {
    let (line, column) = lines.place(found.at);
    LintFinding {
        name: found.name,
        file: text.name.to_owned(),
        line,
        column,
        object: divvy_words::shortened(object),
        field: found.field,
        message: divvy_words::shortened(found.what),
        next: divvy_words::shortened(found.next),
        fixable: !found.edits.is_empty(),
        edits: found.edits,
        origin,
    }
}

/// Where lines begin.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(ends).collect() }
    }

    /// Line and column of a byte, from 1.
    fn place(&self, at: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= at);
        let start = line.checked_sub(1).and_then(|line| self.starts.get(line)).copied();
        let before = self.text.get(start.unwrap_or(0)..at).unwrap_or_default();
        (line.max(1), before.trim_start_matches('\u{feff}').chars().count() + 1)
    }
}
