//! Lines of shell that mend something. What they are made of was written by others, in the cluster or
//! in a file, so it is always a word of a command and never a command.

use divvy_views::clean;
use std::borrow::Cow;

/// What mends something: commands that can be run as they are, and remarks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fix(String);

impl Fix {
    /// For [`fix!`], which quotes what goes into the text.
    pub(crate) const fn of_quoted(text: String) -> Self {
        Self(text)
    }

    /// With another behind it.
    pub(crate) fn then(self, more: &Self) -> Self {
        Self(self.0 + &more.0)
    }

    /// With something behind it.
    pub(crate) fn and(self, more: &'static str) -> Self {
        Self(self.0 + more)
    }
}

impl From<&'static str> for Fix {
    fn from(text: &'static str) -> Self {
        Self(text.to_owned())
    }
}

impl From<Fix> for String {
    fn from(fix: Fix) -> Self {
        fix.0
    }
}

/// A text as one word of the shell.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    // What begins like an option would be one in quotes, too.
    let text = match text.strip_prefix('-') {
        Some(rest) => Cow::Owned(format!("?{rest}")),
        None => Cow::Borrowed(text),
    };
    Cow::Owned(format!("'{}'", clean(&text).replace('\'', r"'\''")))
}

/// A [`Fix`] of a text and of what is named in it, each as one word of the shell.
macro_rules! fix {
    (@ $name:ident) => { &$name };
    (@ $name:ident $value:expr) => { &$value };
    ($text:literal $(, $name:ident $(= $value:expr)?)* $(,)?) => {
        $crate::fix::Fix::of_quoted(format!(
            $text $(, $name = $crate::fix::quoted(fix!(@ $name $($value)?)))*
        ))
    };
}
pub(crate) use fix;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_text_says_it_is_one_word_of_the_shell() {
        for (text, word) in [
            ("divvy-system", "divvy-system"),
            ("nvidia.com/gpu=a:b", "nvidia.com/gpu=a:b"),
            ("", "''"),
            ("--all", "'?-all'"),
            ("a b", "'a b'"),
            ("$(id)", "'$(id)'"),
            ("x'; rm -rf ~; '", r"'x'\''; rm -rf ~; '\'''"),
            ("a\nid\u{202e}", r"'a\nid\u{202e}'"),
        ] {
            assert_eq!(quoted(text), word, "{text:?}");
        }
        let name = "a;b";
        assert_eq!(String::from(fix!("get {name} {of}", name, of = "c")), "get 'a;b' c");
    }
}
