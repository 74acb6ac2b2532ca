//! What one line of YAML says as a value, where that is certain.

use super::Unsure;
use super::flow::Flow;
use serde::de::{Error, Visitor};

/// A value that stands on one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LineValue<'de> {
    /// In quotes: a string.
    Quoted(&'de str),
    /// Without quotes: whatever it looks like.
    Plain(&'de str),
    /// `[a, "b"]`, checked, from behind the bracket on.
    List(&'de str),
    /// `{}`
    EmptyMap,
}

impl<'de> LineValue<'de> {
    /// Reads the rest of a line after `key: ` or `- `, up to its comment.
    pub(super) fn read(text: &'de str) -> Result<Self, Unsure> {
        let first = text.bytes().next().ok_or(Unsure)?;
        match first {
            b'"' | b'\'' => {
                let (inside, after) = text
                    .get(1..)
                    .and_then(|rest| rest.split_once(char::from(first)))
                    .ok_or(Unsure)?;
                // Escapes: a backslash, or a quote that is written twice.
                let escaped = first == b'"' && inside.contains('\\') || after.starts_with('\'');
                if escaped || !is_end(after) { Err(Unsure) } else { Ok(Self::Quoted(inside)) }
            }
            b'[' => Flow::check(text.get(1..).ok_or(Unsure)?).map(Self::List),
            b'{' => match text.strip_prefix("{}") {
                Some(after) if is_end(after) => Ok(Self::EmptyMap),
                _ => Err(Unsure),
            },
            b'~' | b'/' | b'.' | b'-' => Self::plain(text),
            _ if first.is_ascii_alphanumeric() => Self::plain(text),
            _ => Err(Unsure),
        }
    }

    fn plain(text: &'de str) -> Result<Self, Unsure> {
        let text = text.split_once(" #").map_or(text, |(value, _)| value).trim_end_matches(' ');
        let is_item = text == "-" || text.starts_with("- ");
        let is_mark = text.starts_with("---") || text.starts_with("...");
        if is_item || is_mark || text.ends_with(':') || text.contains(": ") {
            return Err(Unsure);
        }
        Ok(Self::Plain(text))
    }

    pub(super) fn is_null(self) -> bool {
        matches!(self, Self::Plain(text) if text == "~" || text.eq_ignore_ascii_case("null"))
    }

    /// Hands the value over by its type.
    pub(super) fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        let text = match self {
            Self::Quoted(text) => return visitor.visit_borrowed_str(text),
            Self::Plain(_) if self.is_null() => return visitor.visit_unit(),
            Self::Plain(text) => text,
            Self::List(_) | Self::EmptyMap => return Err(Unsure),
        };
        match text {
            "true" => return visitor.visit_bool(true),
            "false" => return visitor.visit_bool(false),
            _ => {}
        }
        let first = text.bytes().next().ok_or(Unsure)?;
        if first == b'/' {
            return visitor.visit_borrowed_str(text);
        }
        if first.is_ascii_alphabetic() {
            return if is_special(text) { Err(Unsure) } else { visitor.visit_borrowed_str(text) };
        }
        if first.is_ascii_digit() {
            return Self::visit_number(text, visitor);
        }
        Err(Unsure)
    }

    fn visit_number<V: Visitor<'de>>(text: &'de str, visitor: V) -> Result<V::Value, Unsure> {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        // 19 digits may be too large, and a leading 0 may mean octal.
        let certain =
            |text: &str| digits(text) && text.len() < 19 && (text == "0" || !text.starts_with('0'));
        if certain(text) {
            return visitor.visit_u64(text.parse().map_err(Unsure::custom)?);
        }
        if let Some((whole, part)) = text.split_once('.')
            && certain(whole)
            && digits(part)
            && text.len() < 19
        {
            return visitor.visit_f64(text.parse().map_err(Unsure::custom)?);
        }
        // No notation of a number has one of these letters: 500m, 2Gi, 4k, times.
        let letters =
            |b: u8| matches!(b.to_ascii_lowercase(), b'g'..=b'n' | b'p'..=b'w' | b'y'..=b'z');
        if text.bytes().any(letters) || is_huge(text) {
            visitor.visit_borrowed_str(text)
        } else {
            Err(Unsure)
        }
    }
}

/// Whether this is a number that is too large to be one, such as the commit `7e8843921`.
fn is_huge(text: &str) -> bool {
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_number = text.split_once('e').is_some_and(|(a, b)| plain(a) && plain(b));
    is_number && text.parse().is_ok_and(f64::is_infinite)
}

/// Words that may mean something else than themselves.
fn is_special(text: &str) -> bool {
    const WORDS: [&str; 12] =
        ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity"];
    text.len() <= 8 && WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Whether nothing but a comment follows.
pub(super) fn is_end(text: &str) -> bool {
    let rest = text.trim_start_matches(' ');
    rest.is_empty() || (rest.starts_with('#') && rest.len() < text.len())
}
