//! A text of YAML or JSON as a tree in which every part knows where it stands, so that it can be
//! mended in place. Nothing in it is given a type; aliases are not followed.

use granit_parser::{Event, Options, Parser, ScalarStyle, StructureStyle};
use serde_json::value::RawValue;
use std::ops::Range;

/// A text taken apart.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) documents: Vec<TreeNode>,
    /// Where comments stand, in their order.
    pub(crate) comments: Vec<Range<usize>>,
    /// Where names stand by which aliases call something.
    pub(crate) anchors: Vec<Range<usize>>,
}

/// A value and the bytes of the text that it takes; of maps and lists in block style from the first
/// entry to the end of the last.
#[derive(Debug)]
pub(crate) struct TreeNode {
    pub(crate) at: Range<usize>,
    pub(crate) value: Value,
}

#[derive(Debug)]
pub(crate) enum Value {
    Scalar(Scalar),
    Map(Map),
    List(Vec<TreeNode>),
    /// What stands elsewhere.
    Alias,
}

#[derive(Debug)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    pub(crate) style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Single,
    Double,
    /// Literal or folded.
    Block,
}

#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) entries: Vec<(TreeNode, TreeNode)>,
    /// Whether it stands in braces.
    pub(crate) is_flow: bool,
}

impl TreeNode {
    pub(crate) fn as_map(&self) -> Option<&Map> {
        match &self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    pub(crate) fn as_list(&self) -> Option<&[TreeNode]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn as_scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// The text of a scalar that is not nothing.
    pub(crate) fn text(&self) -> Option<&str> {
        self.as_scalar().filter(|scalar| !scalar.is_null()).map(|scalar| &*scalar.text)
    }

    pub(crate) fn is_null(&self) -> bool {
        self.as_scalar().is_some_and(Scalar::is_null)
    }

    /// The value of a field.
    pub(crate) fn get(&self, key: &str) -> Option<&TreeNode> {
        self.as_map()?.entry(key).map(|(_, value)| value)
    }

    /// The value at the end of a path of fields.
    pub(crate) fn find(&self, path: &[&str]) -> Option<&TreeNode> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The node at the end of a path as messages write it: `spec.containers[0].resources.limits["x"]`.
    pub(crate) fn at_field(&self, path: &str) -> Option<&TreeNode> {
        let (mut node, mut rest) = (self, path);
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix("[\"") {
                let (key, behind) = inner.split_once("\"]")?;
                node = node.get(key)?;
                rest = behind;
            } else if let Some(inner) = rest.strip_prefix('[') {
                let (index, behind) = inner.split_once(']')?;
                node = node.as_list()?.get(index.parse::<usize>().ok()?)?;
                rest = behind;
            } else {
                let name = rest.strip_prefix('.').unwrap_or(rest);
                let end = name.find(['.', '[']).unwrap_or(name.len());
                let (key, behind) = name.split_at_checked(end)?;
                node = node.get(key)?;
                rest = behind;
            }
        }
        Some(node)
    }

    /// Whether it may have fields that are not to be seen here.
    pub(crate) fn is_open(&self) -> bool {
        match &self.value {
            Value::Alias => true,
            Value::Map(map) => map.entry("<<").is_some(),
            Value::Scalar(_) | Value::List(_) => false,
        }
    }
}

impl Map {
    pub(crate) fn entry(&self, key: &str) -> Option<(&TreeNode, &TreeNode)> {
        let found = self.entries.iter().find(|(k, _)| k.text() == Some(key));
        found.map(|(key, value)| (key, value))
    }

    /// The keys that are texts, with the entries.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&str, &TreeNode, &TreeNode)> {
        self.entries.iter().filter_map(|(key, value)| Some((key.text()?, key, value)))
    }
}

impl Scalar {
    fn is_null(&self) -> bool {
        let is_nothing = matches!(&*self.text, "" | "~" | "null" | "Null" | "NULL");
        self.style == Style::Plain && is_nothing
    }
}

/// What stands in a text. An error is told by whoever reads the text for its meaning.
pub(crate) fn tree(text: &str) -> Option<Tree> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let base = text.len() - body.len();
    let mut tree = Tree::default();
    if body.trim_start().starts_with('{')
        && let Some(parts) = json_parts(body)
    {
        for part in parts {
            let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
            tree.read(part, start)?;
        }
    } else {
        tree.read(body, base)?;
    }
    Some(tree)
}

/// JSON documents one after another, which are no YAML.
fn json_parts(text: &str) -> Option<Vec<&str>> {
    let parts = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    parts.map(|part| part.ok().map(RawValue::get)).collect()
}

/// What is being read.
enum Open {
    Map {
        start: Range<usize>,
        entries: Vec<(TreeNode, TreeNode)>,
        key: Option<TreeNode>,
        is_flow: bool,
    },
    List {
        start: Range<usize>,
        items: Vec<TreeNode>,
        is_flow: bool,
    },
}

impl Tree {
    /// Reads a part of the text, which begins at `base`.
    fn read(&mut self, text: &str, base: usize) -> Option<()> {
        let mut options = Options::default();
        options.emit_anchor_events = true;
        // A file may be one long comment.
        options.max_buffered_comment_events = usize::MAX;
        let mut open: Vec<Open> = Vec::new();
        for next in Parser::new_from_str_with_options(text, options) {
            let (event, span) = next.ok()?;
            let range = span.byte_range()?;
            let at = range.start + base..range.end + base;
            match event {
                Event::Comment(..) => self.comments.push(at),
                Event::Anchor(..) => self.anchors.push(at),
                event => self.enter(event, at, &mut open, (text, base))?,
            }
        }
        self.comments.sort_by_key(|at| at.start);
        open.is_empty().then_some(())
    }

    fn enter(
        &mut self,
        event: Event<'_>,
        at: Range<usize>,
        open: &mut Vec<Open>,
        (text, base): (&str, usize),
    ) -> Option<()> {
        let done = match event {
            Event::Scalar(written, style, ..) => Some(scalar(text, base, &written, style, at)),
            Event::Alias(_) => Some(TreeNode { at, value: Value::Alias }),
            Event::MappingStart(style, ..) => {
                let is_flow = style == StructureStyle::Flow;
                open.push(Open::Map { start: at, entries: Vec::new(), key: None, is_flow });
                None
            }
            Event::SequenceStart(style, ..) => {
                let is_flow = style == StructureStyle::Flow;
                open.push(Open::List { start: at, items: Vec::new(), is_flow });
                None
            }
            Event::MappingEnd | Event::SequenceEnd => Some(close(open.pop()?, &at)),
            _ => None,
        };
        let Some(node) = done else { return Some(()) };
        match open.last_mut() {
            None => self.documents.push(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, key, .. }) => match key.take() {
                None => *key = Some(node),
                Some(key) => entries.push((key, node)),
            },
        }
        Some(())
    }
}

fn scalar(
    text: &str,
    base: usize,
    written: &str,
    style: ScalarStyle,
    mut at: Range<usize>,
) -> TreeNode {
    let style = match style {
        ScalarStyle::SingleQuoted => Style::Single,
        ScalarStyle::DoubleQuoted => Style::Double,
        ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
        _ => Style::Plain,
    };
    if style == Style::Block {
        // Its line feeds are those of the lines that it stands on.
        let inside = text.get(at.start - base..at.end - base).unwrap_or_default();
        at.end = at.start + inside.trim_end().len();
    }
    TreeNode { at, value: Value::Scalar(Scalar { text: written.to_owned(), style }) }
}

fn close(open: Open, end: &Range<usize>) -> TreeNode {
    let whole = |start: &Range<usize>,
                 is_flow,
                 first: Option<&TreeNode>,
                 last: Option<&TreeNode>| match (is_flow, first, last) {
        (false, Some(first), Some(last)) => first.at.start..last.at.end.max(first.at.end),
        _ => start.start..end.end,
    };
    match open {
        Open::Map { start, entries, is_flow, .. } => {
            let (first, last) = (entries.first(), entries.last());
            let at = whole(&start, is_flow, first.map(|(key, _)| key), last.map(|(_, v)| v));
            // The place of nothing is where it would stand, before the colon.
            let end = last.map_or(at.end, |(key, _)| key.at.end.max(at.end));
            TreeNode { at: at.start..end, value: Value::Map(Map { entries, is_flow }) }
        }
        Open::List { start, items, is_flow } => {
            let at = whole(&start, is_flow, items.first(), items.last());
            TreeNode { at, value: Value::List(items) }
        }
    }
}
