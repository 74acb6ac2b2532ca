//! The YAML that kubectl prints and most people write, read line by line: block maps and lists,
//! values on one line, literal blocks. It is many times faster than a full parser, and it either
//! reads a document exactly as that would or does not read it: whatever is not certain (anchors,
//! tags, escapes, maps in flow style, folded text, tabs, characters beyond ASCII) is [`Unsure`], and the
//! caller then asks the full parser. A test holds the two against each other.

mod flow;
mod lines;
mod scalar;

use flow::{Empty, Flow};
use lines::Lines;
use scalar::{LineValue, is_end};
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The text is not for this reader, or not what was expected. Nobody sees it.
#[derive(Debug)]
pub(super) struct Unsure;

impl fmt::Display for Unsure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not certain")
    }
}

impl std::error::Error for Unsure {}

impl de::Error for Unsure {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
    // The texts of these would be made for nothing.
    fn invalid_type(_: de::Unexpected<'_>, _: &dyn de::Expected) -> Self {
        Self
    }
    fn invalid_value(_: de::Unexpected<'_>, _: &dyn de::Expected) -> Self {
        Self
    }
}

/// Reads a document, or nothing if it is not certain what it says.
pub(super) fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Option<T> {
    let printable = |b: &u8| matches!(b, b' '..=b'~' | b'\n');
    if !text.as_bytes().iter().all(printable) {
        return None;
    }
    let body = match text.strip_prefix("---") {
        Some(rest) => {
            let (mark, body) = rest.split_once('\n')?;
            if !is_end(mark) {
                return None;
            }
            body
        }
        None => text,
    };
    let mut lines = Lines::new(body);
    if lines.done {
        return None;
    }
    let value = T::deserialize(Node { lines: &mut lines, parent: None, at: At::Here }).ok()?;
    lines.done.then_some(value)
}

/// A value that is about to be read.
struct Node<'a, 'de> {
    lines: &'a mut Lines<'de>,
    /// The indentation of the map or list that it stands in; none at the top.
    parent: Option<usize>,
    at: At<'de>,
}

/// Where a value begins.
#[derive(Clone, Copy)]
enum At<'de> {
    /// At the current line.
    Here,
    /// Behind `key: ` or `- ` on the current line.
    Behind(&'de str),
    /// On the line that follows the current one.
    NextLine,
}

/// What a value is, by its first line.
enum Shape<'de> {
    Null,
    Map,
    List,
    Literal(&'de str),
    Scalar(LineValue<'de>),
}

impl<'de> Node<'_, 'de> {
    /// Looks at the value. After this the current line is the one where its inside begins, or the
    /// next one if it has none.
    fn shape(&mut self) -> Result<Shape<'de>, Unsure> {
        match self.at {
            At::Here if self.lines.is_item() => Ok(Shape::List),
            At::Here => self.lines.key().map(|_| Shape::Map),
            At::NextLine => {
                self.lines.advance();
                let below = self.lines.is_below(self.parent);
                // The items of a list may stand right below its key.
                let same = !self.lines.done && Some(self.lines.indent) == self.parent;
                match (below || same, self.lines.is_item()) {
                    (true, true) => Ok(Shape::List),
                    (true, false) if below => self.lines.key().map(|_| Shape::Map),
                    _ => Ok(Shape::Null),
                }
            }
            At::Behind(text) if text.starts_with('|') => Ok(Shape::Literal(text)),
            At::Behind(text) => {
                let scalar = LineValue::read(text)?;
                self.lines.advance();
                // A line that is indented more would continue the value.
                if self.lines.is_below(self.parent) {
                    Err(Unsure)
                } else {
                    Ok(Shape::Scalar(scalar))
                }
            }
        }
    }

    fn visit<V: Visitor<'de>>(
        mut self,
        visitor: V,
        scalar: impl FnOnce(LineValue<'de>, V) -> Result<V::Value, Unsure>,
    ) -> Result<V::Value, Unsure> {
        let shape = self.shape()?;
        self.visit_shape(&shape, visitor, scalar)
    }

    fn visit_shape<V: Visitor<'de>>(
        self,
        shape: &Shape<'de>,
        visitor: V,
        scalar: impl FnOnce(LineValue<'de>, V) -> Result<V::Value, Unsure>,
    ) -> Result<V::Value, Unsure> {
        let lines = self.lines;
        match shape {
            Shape::Null => visitor.visit_unit(),
            Shape::Scalar(LineValue::List(items)) => visitor.visit_seq(Flow::new(items)),
            Shape::Scalar(LineValue::EmptyMap) => visitor.visit_map(Empty),
            Shape::Scalar(found) => scalar(*found, visitor),
            Shape::Literal(header) => {
                let text = lines.literal(header, self.parent.unwrap_or(0))?;
                lines.advance();
                visitor.visit_string(text)
            }
            Shape::Map | Shape::List => {
                lines.depth += 1;
                if lines.depth > super::MAX_DEPTH / 2 {
                    return Err(Unsure);
                }
                let indent = lines.indent;
                let value = match shape {
                    Shape::Map => {
                        let keys = lines.keys.len();
                        visitor.visit_map(Map { lines, indent, keys, value: At::NextLine })?
                    }
                    _ => visitor.visit_seq(List { lines, indent })?,
                };
                Ok(value)
            }
        }
    }
}

struct Map<'a, 'de> {
    lines: &'a mut Lines<'de>,
    indent: usize,
    /// Where its keys begin in [`Lines::keys`]; one that comes twice is an error.
    keys: usize,
    /// Where the value of the last key is.
    value: At<'de>,
}

/// More keys than this are left to the full parser, for each is compared with all others.
const MAX_KEYS: usize = 100;

impl<'de> MapAccess<'de> for Map<'_, 'de> {
    type Error = Unsure;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Unsure> {
        if self.lines.done || self.lines.indent < self.indent || self.lines.is_item() {
            self.lines.depth = self.lines.depth.saturating_sub(1);
            self.lines.keys.truncate(self.keys);
            return Ok(None);
        }
        let keys = self.lines.keys.get(self.keys..).unwrap_or_default();
        if self.lines.indent > self.indent || keys.len() > MAX_KEYS {
            return Err(Unsure);
        }
        let (key, value) = self.lines.key()?;
        if keys.contains(&key) {
            return Err(Unsure);
        }
        self.lines.keys.push(key);
        let is_empty = value.is_empty() || value.starts_with('#');
        self.value = if is_empty { At::NextLine } else { At::Behind(value) };
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Unsure> {
        let (parent, at) = (Some(self.indent), self.value);
        seed.deserialize(Node { lines: self.lines, parent, at })
    }
}

struct List<'a, 'de> {
    lines: &'a mut Lines<'de>,
    indent: usize,
}

impl<'de> SeqAccess<'de> for List<'_, 'de> {
    type Error = Unsure;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Unsure> {
        let lines = &mut *self.lines;
        if lines.done
            || lines.indent < self.indent
            || (lines.indent == self.indent && !lines.is_item())
        {
            lines.depth = lines.depth.saturating_sub(1);
            return Ok(None);
        }
        if lines.indent > self.indent {
            return Err(Unsure);
        }
        let item = lines.content.get(2..).ok_or(Unsure)?;
        let content = item.trim_start_matches(' ');
        if content.is_empty() || content.starts_with(['#', '-']) {
            return Err(Unsure);
        }
        let before = (lines.indent, lines.content);
        lines.indent += 2 + item.len() - content.len();
        lines.content = content;
        let is_map = lines.key().is_ok();
        let at = if is_map {
            At::Here
        } else {
            (lines.indent, lines.content) = before;
            At::Behind(content)
        };
        seed.deserialize(Node { lines, parent: Some(self.indent), at }).map(Some)
    }
}

impl<'de> Deserializer<'de> for Node<'_, 'de> {
    type Error = Unsure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        self.visit(visitor, LineValue::visit)
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Unsure> {
        match self.shape()? {
            Shape::Null => visitor.visit_none(),
            Shape::Scalar(scalar) if scalar.is_null() => visitor.visit_none(),
            shape => visitor.visit_some(Looked { node: self, shape }),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Unsure> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        // What type a value has that nobody reads does not matter.
        self.visit(visitor, |_, visitor| visitor.visit_unit())
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct enum identifier
    }
}

/// A node whose shape was looked at already.
struct Looked<'a, 'de> {
    node: Node<'a, 'de>,
    shape: Shape<'de>,
}

impl<'de> Deserializer<'de> for Looked<'_, 'de> {
    type Error = Unsure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        self.node.visit_shape(&self.shape, visitor, LineValue::visit)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Unsure> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests;
