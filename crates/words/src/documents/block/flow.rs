//! Lists in flow style on one line, `[run, "--fast"]`, and empty maps.

use super::Unsure;
use super::scalar::{LineValue, is_end};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// The items of a list, from behind its bracket on.
pub(super) struct Flow<'de> {
    rest: &'de str,
    is_first: bool,
}

impl<'de> Flow<'de> {
    pub(super) const fn new(rest: &'de str) -> Self {
        Self { rest, is_first: true }
    }

    /// Whether this is a list of simple values to the end of the line.
    pub(super) fn check(text: &'de str) -> Result<&'de str, Unsure> {
        let mut items = Self::new(text);
        while items.item()?.is_some() {}
        if is_end(items.rest) { Ok(text) } else { Err(Unsure) }
    }

    /// The next item, or nothing behind the bracket.
    fn item(&mut self) -> Result<Option<LineValue<'de>>, Unsure> {
        let mut rest = self.rest.trim_start_matches(' ');
        if let Some(after) = rest.strip_prefix(']') {
            self.rest = after;
            return Ok(None);
        }
        if !self.is_first {
            rest = rest.strip_prefix(',').ok_or(Unsure)?.trim_start_matches(' ');
        }
        self.is_first = false;
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
        let (item, after) = match quote {
            Some(quote) => {
                let (inside, after) =
                    rest.get(1..).and_then(|rest| rest.split_once(quote)).ok_or(Unsure)?;
                if inside.contains('\\') {
                    return Err(Unsure);
                }
                (LineValue::Quoted(inside), after)
            }
            None => {
                let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_./=-".contains(&b);
                let end = rest.bytes().position(|b| !allowed(b)).ok_or(Unsure)?;
                let (text, after) = rest.split_at_checked(end).ok_or(Unsure)?;
                let certain = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
                if !certain {
                    return Err(Unsure);
                }
                (LineValue::Plain(text), after)
            }
        };
        if !after.trim_start_matches(' ').starts_with([',', ']']) {
            return Err(Unsure);
        }
        self.rest = after;
        Ok(Some(item))
    }
}

impl<'de> SeqAccess<'de> for Flow<'de> {
    type Error = Unsure;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Unsure> {
        self.item()?.map(|item| seed.deserialize(Item(item))).transpose()
    }
}

/// A value in a list.
struct Item<'de>(LineValue<'de>);

impl<'de> Deserializer<'de> for Item<'de> {
    type Error = Unsure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        self.0.visit(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier
    }
}

/// `{}`
pub(super) struct Empty;

impl<'de> MapAccess<'de> for Empty {
    type Error = Unsure;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, _: K) -> Result<Option<K::Value>, Unsure> {
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, _: V) -> Result<V::Value, Unsure> {
        Err(Unsure)
    }
}
