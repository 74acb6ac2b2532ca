//! A card as a bar of letters.

use crate::amount::Amount;
use crate::cards::{CardUse, CardUseState};
use crate::paint::{Painter, Tint};
use crate::wording::Names;
use divvy_ledger::Bytes;

/// The cells of a bar.
pub(crate) const CELLS: usize = 20;
/// Shares with a letter of their own; one more cell is for all others and one for what is free.
const LETTERS: usize = CELLS - 2;

/// One letter of a bar: a share, or all those that have no letter of their own.
#[derive(Clone, Debug)]
struct Part {
    letter: char,
    amount: Amount,
    shares: std::ops::Range<usize>,
}

fn parts(card: &CardUse<'_>) -> Vec<Part> {
    let shares = &card.shares;
    // One too many can still have its letter: it takes the cell of all others.
    let named = if shares.len() <= LETTERS + 1 { shares.len() } else { LETTERS };
    let letters = ('a'..='z').zip(shares).take(named).enumerate();
    let mut parts: Vec<Part> = letters
        .map(|(i, (letter, share))| Part { letter, amount: share.bytes, shares: i..i + 1 })
        .collect();
    if named < shares.len() {
        let rest = shares[named..].iter().map(|s| s.bytes.raw()).sum();
        let amount = card.capacity.with(Bytes(rest));
        parts.push(Part { letter: '+', amount, shares: named..shares.len() });
    }
    parts
}

/// Cells for parts of a whole, in proportion. Each part gets at least one, so does what is free
/// (the last of them) if there is any, and all together fill the bar.
fn cells(parts: &[u64], whole: u64) -> Vec<usize> {
    let free = whole.saturating_sub(parts.iter().sum());
    let sizes: Vec<u64> = parts.iter().copied().chain([free]).collect();
    let mut cells = vec![1; parts.len()];
    cells.push(usize::from(free > 0));
    while cells.iter().sum::<usize>() < CELLS {
        // What is furthest below its due gets the next cell; the first among equals.
        let due =
            |i: usize| i128::from(sizes[i]) * CELLS as i128 - cells[i] as i128 * i128::from(whole);
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
        CardUseState::Shared => {
            let parts = parts(card);
            let sizes: Vec<u64> = parts.iter().map(|p| p.amount.raw()).collect();
            let cells = cells(&sizes, card.capacity.raw());
            let mut out = String::new();
            for (i, (part, n)) in parts.iter().zip(&cells).enumerate() {
                let run = part.letter.to_string().repeat(*n);
                out.push_str(&painter.paint(&run, Tint::Share(i)));
            }
            let free = cells.last().copied().unwrap_or(0);
            out.push_str(&painter.paint(&"·".repeat(free), Tint::Faint));
            out
        }
    }
}

/// `whole`, `free` or the percentage that is held.
pub(crate) fn degree(card: &CardUse<'_>) -> String {
    match card.state {
        CardUseState::Free => "free ".to_owned(),
        CardUseState::Whole => "whole".to_owned(),
        CardUseState::Shared => format!("{:>3} %", card.used.percent()),
    }
}

/// What the letters stand for, one entry each: the text and the letter's tint.
pub(crate) fn legend(card: &CardUse<'_>, names: Names, all: bool) -> Vec<(String, Option<Tint>)> {
    match card.state {
        CardUseState::Free => Vec::new(),
        CardUseState::Whole => {
            card.shares.iter().map(|share| (names.of(share.pod), None)).collect()
        }
        CardUseState::Shared => {
            let mut entries = Vec::new();
            for (i, part) in parts(card).into_iter().enumerate() {
                let (letter, amount) = (part.letter, part.amount.number());
                let shares = &card.shares[part.shares];
                if letter == '+' && !all {
                    entries.push((format!("+ {} more {amount}", shares.len()), None));
                    continue;
                }
                entries.extend(shares.iter().map(|share| {
                    let text = format!("{letter} {} {}", names.of(share.pod), share.bytes.number());
                    (text, Some(Tint::Share(i)))
                }));
            }
            let free = card.free();
            if free.raw() > 0 {
                entries.push((format!("free {}", free.number()), None));
            }
            entries
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_in_proportion() {
        assert_eq!(cells(&[20, 20, 39], 80), [5, 5, 9, 1]);
        assert_eq!(cells(&[40, 40], 80), [10, 10, 0]);
        assert_eq!(cells(&[20], 80), [5, 15]);
    }

    #[test]
    fn every_part_gets_a_cell_and_so_does_what_is_free() {
        assert_eq!(cells(&[1, 1, 1_000], 1_002), [1, 1, 18, 0]);
        assert_eq!(cells(&[999], 1_000), [19, 1]);
        assert_eq!(cells(&[0], 1_000), [1, 19]);
    }

    #[test]
    fn the_bar_is_always_exactly_full() {
        for n in 1..=19u64 {
            for whole in [n, 100, 81_920 << 20, 1_000_000_000_000_000] {
                let sizes: Vec<u64> = (0..n).map(|i| whole / n / (i + 1)).collect();
                assert_eq!(cells(&sizes, whole).iter().sum::<usize>(), CELLS, "{n} of {whole}");
            }
        }
    }
}
