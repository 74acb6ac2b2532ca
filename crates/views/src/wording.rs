//! Small pieces of text that more than one view writes.

use crate::amount::Amount;
use crate::cards::CardGrant;
use divvy_engine::ObjectKey;
use divvy_ledger::{Bytes, Portion, Request};
use std::borrow::Cow;
use std::fmt::Display;

/// Makes a user's text safe for a terminal and keeps it on one line.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unseemly) {
        return Cow::Borrowed(text);
    }
    let escaped = text
        .chars()
        .map(|c| if is_unseemly(c) { c.escape_default().to_string() } else { c.to_string() });
    Cow::Owned(escaped.collect())
}

/// A text of at most so many characters; where it is longer its end is missing.
pub(crate) fn cut_end(text: &str, width: usize) -> Cow<'_, str> {
    if text.chars().count() <= width {
        return Cow::Borrowed(text);
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    let is_in_word = text.chars().nth(kept.chars().count()).is_some_and(|c| c != ' ');
    // A part of a number is another number.
    let kept = match kept.rsplit_once(' ') {
        Some((before, word)) if is_in_word && word.starts_with(|c: char| c.is_ascii_digit()) => {
            before
        }
        _ => &*kept,
    };
    Cow::Owned(format!("{}…", kept.trim_end()))
}

/// The same with its middle missing: names of things that belong together differ at their ends.
pub(crate) fn cut_middle(text: &str, width: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= width {
        return Cow::Borrowed(text);
    }
    let kept = width.saturating_sub(1);
    let (start, end) = (kept / 2, kept - kept / 2);
    let first: String = text.chars().take(start).collect();
    let last: String = text.chars().skip(length - end).collect();
    Cow::Owned(format!("{first}…{last}"))
}

/// Control characters, and those that turn the direction of what follows.
fn is_unseemly(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `1 node`, `1,728 nodes`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    format!("{} {noun}{}", thousands(n as u128), if n == 1 { "" } else { "s" })
}

/// `1,728`.
pub(crate) fn thousands(n: u128) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Cards by index, and by number where that is known: `0-3`, `1,#2`, or `-` for none.
pub(crate) fn labels(cards: impl IntoIterator<Item = (u32, Option<u32>)>) -> String {
    let (mut numbers, mut indices) = (Vec::new(), Vec::new());
    for (index, number) in cards {
        match number {
            Some(number) => numbers.push(number),
            None => indices.push(index),
        }
    }
    numbers.sort_unstable();
    let unknown = ranges(indices.iter().copied());
    match (numbers.is_empty(), indices.is_empty()) {
        (_, true) => ranges(numbers),
        (true, false) => format!("#{unknown}"),
        (false, false) => format!("{},#{unknown}", ranges(numbers)),
    }
}

/// `0-3`, `0,2`, or `-` for none. The indices are sorted.
fn ranges(indices: impl IntoIterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for index in indices {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            _ => runs.push((index, index)),
        }
    }
    let runs = runs.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    let runs: Vec<String> = runs.collect();
    if runs.is_empty() { "-".to_owned() } else { runs.join(",") }
}

/// What a pod asks, as it wrote it, and what that is on the cards it got. `?` if it could not be
/// read.
pub(crate) fn asked(request: Option<&Request>, cards: &[CardGrant]) -> String {
    match request {
        None => "?".to_owned(),
        Some(request) if request.is_none() => "-".to_owned(),
        Some(request) => match in_other_words(request, cards) {
            Some(same) => format!("{request} ({same})"),
            None => request.to_string(),
        },
    }
}

/// A share in the units that the pod did not write: `20.0 GiB`, or `1.9 GiB, 0.13` of the card.
pub(crate) fn in_other_words(request: &Request, cards: &[CardGrant]) -> Option<String> {
    let portion = request.portion()?;
    let bytes = cards.first()?.bytes;
    bytes.bytes()?;
    let mut words = match portion {
        Portion::Fraction(_) => bytes.to_string(),
        Portion::Memory(_) => match bytes.gib() {
            Some(gib) => format!("{gib} GiB, {}", bytes.of_card()),
            None => bytes.of_card(),
        },
    };
    if cards.len() > 1 {
        words.push_str(" each");
    }
    Some(words)
}

/// Whether pods are called by name, or by namespace and name because there is more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    Short,
    Full,
}

impl Names {
    /// Short names if they cannot be confused.
    pub(crate) fn among<'k>(mut keys: impl Iterator<Item = &'k ObjectKey>) -> Self {
        let Some(first) = keys.next() else { return Self::Short };
        if keys.all(|key| key.namespace() == first.namespace()) { Self::Short } else { Self::Full }
    }

    pub(crate) fn of(self, key: &ObjectKey) -> String {
        match self {
            Self::Short => clean(key.name()).into_owned(),
            Self::Full => clean(&key.to_string()).into_owned(),
        }
    }
}

/// Of names with commas between them as many as there is room for, and how many are left out:
/// `ml/a,ml/b,+3`.
pub(crate) fn cut_list(names: &str, width: usize) -> Cow<'_, str> {
    if names.chars().count() <= width {
        return Cow::Borrowed(names);
    }
    let all: Vec<&str> = names.split(',').collect();
    let kept = |n: usize| format!("{},+{}", all[..n].join(","), all.len() - n);
    let mut shorter = (1..all.len()).rev().map(kept);
    let fits = |text: &String| text.chars().count() <= width;
    Cow::Owned(shorter.find(fits).unwrap_or_else(|| {
        let rest = if all.len() > 1 { format!(",+{}", all.len() - 1) } else { String::new() };
        cut_middle(all[0], width.saturating_sub(rest.len())).into_owned() + &rest
    }))
}

/// `5/8`.
pub(crate) fn used_of(used: impl Display, total: impl Display) -> String {
    format!("{used}/{total}")
}

/// `79.1/80.0Gi`.
pub(crate) fn gib_of(used: u64, total: u64) -> String {
    let amount = |bytes| Amount::new(Bytes(bytes), Bytes(total), true);
    amount(used).cell_of(amount(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_whose_number_nobody_knows_is_not_called_by_one() {
        assert_eq!(labels([(0, Some(3)), (1, Some(2))]), "2,3");
        assert_eq!(labels([(0, None), (1, None), (2, None)]), "#0-2");
        assert_eq!(labels([(0, Some(1)), (1, None)]), "1,#1");
        assert_eq!(labels([]), "-");
    }

    #[test]
    fn of_a_list_that_is_too_long_the_rest_is_counted() {
        let names = "ml/a,ml/b,ml/c,ml/d";
        assert_eq!(cut_list(names, 19), names);
        assert_eq!(cut_list(names, 18), "ml/a,ml/b,ml/c,+1");
        assert_eq!(cut_list(names, 12), "ml/a,ml/b,+2");
        assert_eq!(cut_list(names, 7), "ml/a,+3");
        assert_eq!(cut_list(names, 6), "m…a,+3", "not even one has room");
        assert_eq!(cut_list("-", 4), "-");
    }

    #[test]
    fn cards_are_listed_in_ranges() {
        assert_eq!(ranges([]), "-");
        assert_eq!(ranges([4]), "4");
        assert_eq!(ranges([0, 1, 2, 3]), "0-3");
        assert_eq!(ranges([0, 2]), "0,2");
        assert_eq!(ranges([0, 1, 3, 4, 5, 7]), "0,1,3-5,7");
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_728), "1,728");
        assert_eq!(thousands(1_000_000), "1,000,000");
    }
}
