//! The first thing that is wrong with an object, and checks that several objects share.

use crate::manifest::Metadata;
use std::borrow::Cow;
use std::fmt::{self, Write};

/// Keeps the first problem: an object is refused for one reason at a time, and the later ones are
/// often its consequences.
#[derive(Debug, Default)]
pub(crate) struct Problems(Option<String>);

impl Problems {
    /// Notes a problem; the text is only made if it is the first.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if self.0.is_none() {
            self.0 = Some(text());
        }
    }

    /// Notes a problem if there is one.
    pub(crate) fn note_some(&mut self, text: impl FnOnce() -> Option<String>) {
        if self.0.is_none() {
            self.0 = text();
        }
    }

    /// The first one.
    pub(crate) fn into_first(self) -> Option<String> {
        self.0
    }
}

/// Checks name, namespace, labels and annotations. The pods of a template get their name later.
pub(crate) fn check_metadata(metadata: &Metadata, is_template: bool, problems: &mut Problems) {
    let Metadata { name, generate_name, namespace, .. } = metadata;
    if name.is_empty() && generate_name.is_empty() && !is_template {
        problems.note(|| "metadata.name: missing; name or generateName is required".to_owned());
    }
    if !name.is_empty() && !is_subdomain(name) {
        problems.note(|| {
            format!(
                "metadata.name: {:?} is no DNS-1123 subdomain; allowed are up to 253 lower case \
                 letters, digits, '-' and '.', with a letter or digit at both ends of each part",
                short(name)
            )
        });
    }
    if !namespace.is_empty() && (!is_subdomain(namespace) || namespace.contains('.')) {
        problems.note(|| {
            format!(
                "metadata.namespace: {:?} is no DNS-1123 label; allowed are lower case letters, \
                 digits and '-'",
                short(namespace)
            )
        });
    }
    problems
        .note_some(|| metadata.annotations.problem("metadata.annotations", "annotation values"));
    problems.note_some(|| metadata.labels.problem("metadata.labels", "label values"));
}

/// Whether a name is one that Kubernetes allows for most objects.
pub fn is_subdomain(name: &str) -> bool {
    let letter_or_digit = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().copied().is_some_and(letter_or_digit)
            && bytes.last().copied().is_some_and(letter_or_digit)
            && bytes.iter().all(|b| letter_or_digit(*b) || *b == b'-')
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

/// What was given, cut to a length that can be shown.
pub(crate) fn short(text: &str) -> Shown {
    cut(text, 64)
}

/// What was given as a text of KAI repeats it, in full unless that is absurd.
pub(crate) fn long(text: &str) -> Shown {
    cut(text, 256)
}

fn cut(text: &str, width: usize) -> Shown {
    let mut shown: String = text.chars().take(width).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    Shown(shown)
}

/// The most that is kept of a text in which somebody else's may be repeated.
const MOST_BYTES: usize = 1000;

/// A text of at most 1,000 bytes, and three dots if there was more. The whole of it is never made.
pub fn shortened(text: impl fmt::Display) -> String {
    let mut kept = Kept(String::new());
    if write!(kept, "{text}").is_err() {
        kept.0.push_str("...");
    }
    kept.0
}

struct Kept(String);

impl Write for Kept {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let (fits, rest) = text.split_at(text.floor_char_boundary(MOST_BYTES - self.0.len()));
        self.0.push_str(fits);
        if rest.is_empty() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// A text that is safe to show: terminals act on control characters, and others change the
/// direction of what follows. `Debug` puts it in quotes.
pub(crate) struct Shown(String);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&visible(&self.0))
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The text with all that cannot be seen as `\u{..}`.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_visible(c) { shown.push(c) } else { shown.extend(c.escape_debug()) }
    }
    Cow::Owned(shown)
}

/// Whether a character shows itself and nothing else happens.
pub(crate) fn is_visible(c: char) -> bool {
    matches!(c, '"' | '\'' | '\\') || c.escape_debug().len() == 1
}

#[cfg(test)]
mod tests;
