//! A card as a bar of letters.

use crate::cards::{CardUse, CardUseState};
use crate::paint::{Painter, Tint};
use crate::wording::Names;
use divvy_engine::ObjectKey;
use divvy_ledger::Bytes;

/// The cells of a bar.
pub(crate) const CELLS: usize = 20;
/// Shares of one card that are named, unless all are asked for.
const MOST_NAMES: usize = 18;

/// What pods hold parts of: the memory of a card, or the slices of a node.
pub(crate) struct BarFill<'c> {
    /// All of it.
    pub(crate) whole: u64,
    /// Who holds how much.
    pub(crate) held: Vec<(&'c ObjectKey, u64)>,
    /// How an amount is written.
    pub(crate) number: &'c dyn Fn(u64) -> String,
}

/// One letter of a bar: a holder, or all those that have too little for a letter of their own.
#[derive(Clone, Debug)]
struct Part<'c> {
    letter: char,
    size: u64,
    held: Vec<(&'c ObjectKey, u64)>,
}

fn sum<'c>(held: impl IntoIterator<Item = &'c (&'c ObjectKey, u64)>) -> u64 {
    held.into_iter().fold(0, |sum, (_, size)| sum.saturating_add(*size))
}

/// Every holder has a letter if there is a cell for each. Otherwise those of less than a cell are
/// together one part, `+`, which is as long as what it stands for.
fn parts<'c>(fill: &BarFill<'c>) -> Vec<Part<'c>> {
    let whole = fill.whole;
    let room = held_cells(sum(&fill.held), whole);
    let is_long = |size: u64| u128::from(size) * CELLS as u128 >= whole.into();
    let all = fill.held.len() <= room;
    let (mut named, mut rest): (Vec<_>, Vec<_>) =
        fill.held.iter().copied().partition(|(_, size)| all || is_long(*size));
    while !rest.is_empty() && named.len() + 1 > room {
        let Some(last) = named.pop() else { break };
        rest.insert(0, last);
    }
    let letters = ('a'..='z').zip(named);
    let mut parts: Vec<_> =
        letters.map(|(letter, held)| Part { letter, size: held.1, held: vec![held] }).collect();
    if !rest.is_empty() {
        let size = rest.iter().fold(0u64, |sum, (_, size)| sum.saturating_add(*size));
        parts.push(Part { letter: '+', size, held: rest });
    }
    parts
}

/// Cells for what is held of a card: at least one, and one is left if anything is free.
fn held_cells(used: u64, whole: u64) -> usize {
    let (used, whole) = (u128::from(used), u128::from(whole.max(1)));
    let nearest = usize::try_from((used * CELLS as u128 + whole / 2) / whole).unwrap_or(CELLS);
    nearest.clamp(1, if used < whole { CELLS - 1 } else { CELLS })
}

/// Cells for the parts of what is held, in proportion, at least one each.
fn cells(parts: &[u64], whole: u64) -> Vec<usize> {
    let held: u64 = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(*part));
    let room = held_cells(held, whole);
    let mut cells = vec![1; parts.len()];
    while cells.iter().sum::<usize>() < room {
        // What is furthest below its due gets the next cell; the first among equals.
        let due =
            |i: usize| i128::from(parts[i]) * room as i128 - cells[i] as i128 * i128::from(held);
        let Some(next) = (0..cells.len()).rev().max_by_key(|i| due(*i)) else { break };
        cells[next] += 1;
    }
    cells
}

/// The bar of a card.
pub(crate) fn bar(card: &CardUse<'_>, painter: Painter) -> String {
    match card.state {
        CardUseState::Free => painter.paint(&"·".repeat(CELLS), Tint::Faint),
        CardUseState::Whole => painter.paint(&"█".repeat(CELLS), Tint::Share(0)),
        _ => with_fill(card, |fill| letters(fill, painter)),
    }
}

/// A bar with a letter for each holder.
pub(crate) fn letters(fill: &BarFill<'_>, painter: Painter) -> String {
    if fill.held.is_empty() {
        return painter.paint(&"·".repeat(CELLS), Tint::Faint);
    }
    let parts = parts(fill);
    let sizes: Vec<u64> = parts.iter().map(|p| p.size).collect();
    let cells = cells(&sizes, fill.whole);
    let mut out = String::new();
    for (i, (part, n)) in parts.iter().zip(&cells).enumerate() {
        let run = part.letter.to_string().repeat(*n);
        out.push_str(&painter.paint(&run, Tint::Share(i)));
    }
    let free = CELLS.saturating_sub(cells.iter().sum());
    out.push_str(&painter.paint(&"·".repeat(free), Tint::Faint));
    out
}

/// The shares of a card, or the slices on it.
fn with_fill<T>(card: &CardUse<'_>, then: impl FnOnce(&BarFill<'_>) -> T) -> T {
    let slices = card.slices.map(|slices| slices.total);
    let bytes = |size: u64| card.capacity.with(Bytes(size)).number();
    let count = |count: u64| count.to_string();
    let fill = BarFill {
        whole: slices.map_or_else(|| card.capacity.raw(), u64::from),
        held: match slices {
            Some(_) => card.shares.iter().map(|s| (s.pod, s.slices.into())).collect(),
            None => card.shares.iter().map(|s| (s.pod, s.bytes.raw())).collect(),
        },
        number: if slices.is_some() { &count } else { &bytes },
    };
    then(&fill)
}

/// `whole`, `free` or the percentage that is held. What is claimed is not free, whoever holds it.
/// Of slices how many.
pub(crate) fn degree(card: &CardUse<'_>) -> String {
    match card.state {
        CardUseState::Free if !card.overbooked => "free ".to_owned(),
        CardUseState::Whole => "whole".to_owned(),
        CardUseState::Free | CardUseState::Shared => format!("{:>3} %", card.used.percent()),
        CardUseState::TimeSliced | CardUseState::Mps | CardUseState::Sliced => {
            let slices = card.slices.unwrap_or_default();
            format!("{}/{}", slices.taken.map_or("?".to_owned(), |n| n.to_string()), slices.total)
        }
    }
}

/// What the letters stand for, one entry each: the text and the letter's tint.
pub(crate) fn legend(card: &CardUse<'_>, names: Names, all: bool) -> Vec<(String, Option<Tint>)> {
    let mut entries = match card.state {
        CardUseState::Free => Vec::new(),
        CardUseState::Whole => {
            card.shares.iter().map(|share| (names.of(share.pod), None)).collect()
        }
        _ => with_fill(card, |fill| fill.legend(names, all)),
    };
    if let Some(class) = card.class {
        entries.push((class.to_owned(), None));
    }
    let not_handed_out = match (card.state, card.allocatable) {
        (CardUseState::Free, Some(false)) => Some("not handed out by the device plugin"),
        (CardUseState::Free, None) => Some("not all handed out by the device plugin"),
        (_, Some(false)) => Some("sick: takes nobody new"),
        _ => None,
    };
    entries.extend(not_handed_out.map(|text| (text.to_owned(), None)));
    if card.overbooked {
        let by = card.overbooked_by();
        let by = (by.raw() > 0).then(|| format!("overbooked by {}", by.number()));
        let claims = card.claims.iter();
        let claims = claims.map(|c| format!("{} claims {}", names.of(c.pod), c.bytes.number()));
        let all: Vec<String> = by.into_iter().chain(claims).collect();
        entries.push((all.join(", ") + ": takes nobody new", None));
    }
    entries
}

impl BarFill<'_> {
    /// What the letters stand for, one entry each, and what is free.
    pub(crate) fn legend(&self, names: Names, all: bool) -> Vec<(String, Option<Tint>)> {
        let most = if all { usize::MAX } else { MOST_NAMES };
        let parts = parts(self);
        let each = parts.iter().enumerate().flat_map(|(i, part)| {
            part.held.iter().map(move |(pod, size)| (Tint::Share(i), part.letter, *pod, *size))
        });
        let each: Vec<_> = each.collect();
        // One too many can still be named: to say that there is one more is no shorter.
        let shown = if each.len() <= most.saturating_add(1) { each.len() } else { most };
        let entries = each[..shown].iter().map(|(tint, letter, pod, size)| {
            (format!("{letter} {} {}", names.of(pod), (self.number)(*size)), Some(*tint))
        });
        let mut entries: Vec<(String, Option<Tint>)> = entries.collect();
        let more = &each[shown..];
        if !more.is_empty() {
            let sum = more.iter().fold(0u64, |sum, (.., size)| sum.saturating_add(*size));
            entries.push((format!("and {} more {}", more.len(), (self.number)(sum)), None));
        }
        let free = self.whole.saturating_sub(sum(&self.held));
        if free > 0 {
            entries.push((format!("free {}", (self.number)(free)), None));
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_in_proportion() {
        assert_eq!(cells(&[20, 20, 39], 80), [5, 5, 9]);
        assert_eq!(cells(&[40, 40], 80), [10, 10]);
        assert_eq!(cells(&[20], 80), [5]);
        assert_eq!(cells(&[1, 1, 1, 1, 496], 1_000), [1, 1, 1, 1, 6], "half stays half");
    }

    #[test]
    fn every_part_gets_a_cell_and_so_does_what_is_free() {
        assert_eq!(cells(&[1, 1, 1_000], 1_002), [1, 1, 18]);
        assert_eq!(cells(&[999], 1_000), [19]);
        assert_eq!(cells(&[0], 1_000), [1]);
    }

    #[test]
    fn the_bar_is_always_exactly_full() {
        let key = ObjectKey::new("ml", "a");
        for n in 1..=60u64 {
            for whole in [n, n + 1, 100, 81_920 << 20, 1_000_000_000_000_000] {
                for shrink in [1, 2, 7] {
                    let size = |i: u64| whole / n / (1 + i % shrink);
                    let held = (0..n).map(|i| (&key, size(i))).collect();
                    let used = (0..n).map(size).sum();
                    let fill = BarFill { whole, held, number: &|n| n.to_string() };
                    let bar = letters(&fill, Painter::new(false));
                    assert_eq!(bar.chars().count(), CELLS, "{n} of {whole}: {bar}");
                    let held = bar.chars().filter(|c| *c != '·').count();
                    assert_eq!(held, held_cells(used, whole), "{n} of {whole}: {bar}");
                }
            }
        }
    }
}
