//! A size on a card: bytes, or only a part of the card where its memory is unknown.

use divvy_ledger::Bytes;
use serde::{Serialize, Serializer};
use std::fmt;

/// The least that is not 0 in GiB with one decimal.
const TENTH_OF_GIB: u64 = (1u64 << 30).div_ceil(10);

/// Memory of one card. On a node that does not say how large its cards are, the ledger counts in
/// an abstract number of which only ratios mean anything: JSON then has null, texts a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    size: Bytes,
    card: Bytes,
    known: bool,
}

impl Amount {
    /// `size` on a card of `card`; `known` says whether both are real bytes.
    pub const fn new(size: Bytes, card: Bytes, known: bool) -> Self {
        Self { size, card, known }
    }

    /// The bytes, if they are known.
    pub const fn bytes(self) -> Option<u64> {
        if self.known { Some(self.size.0) } else { None }
    }

    /// The ledger's number, known or abstract: good for ratios on the same card only.
    pub const fn raw(self) -> u64 {
        self.size.0
    }

    /// The same card with another size.
    #[must_use]
    pub const fn with(self, size: Bytes) -> Self {
        Self { size, ..self }
    }

    /// `20.0` (GiB) or `0.25` (of a card), rounded down: nothing is shown as free that is not. A
    /// size that would be shown as 0 keeps its smaller unit.
    pub fn number(self) -> String {
        match self.known {
            false => part(self.size.0, self.card.0),
            true if self.size.0 > 0 && self.size.0 < TENTH_OF_GIB => self.size.to_string(),
            true => self.size.gib(),
        }
    }

    /// `1.9`, if it is known and not too little for it.
    pub fn gib(self) -> Option<String> {
        (self.known && self.size.0 >= TENTH_OF_GIB).then(|| self.size.gib())
    }

    /// Of the whole card, in percent; 100 only if it is all of it, 0 only if it is nothing.
    pub fn percent(self) -> u64 {
        let (size, card) = (u128::from(self.size.0), u128::from(self.card.0.max(1)));
        let nearest = u64::try_from((size * 100 + card / 2) / card).unwrap_or(100);
        match size {
            0 => 0,
            _ if size >= card => 100,
            _ => nearest.clamp(1, 99),
        }
    }

    /// As a cell of a table, without spaces: `20.0Gi`, `50Mi`, `0.25card` or `0`.
    pub fn cell(self) -> String {
        let (number, unit) = self.number_and_unit();
        if self.size.0 == 0 { "0".to_owned() } else { number + unit }
    }

    /// Used and total as a cell: `79.1/80.0Gi`, with two units only where they differ.
    pub fn cell_of(self, total: Self) -> String {
        let (used, unit) = self.number_and_unit();
        let (all, of_all) = total.number_and_unit();
        let unit = if unit == of_all { "" } else { unit };
        format!("{used}{unit}/{all}{of_all}")
    }

    fn number_and_unit(self) -> (String, &'static str) {
        match (self.known, self.size.0) {
            (false, size) => (part(size, self.card.0), "card"),
            (true, size) if size == 0 || size >= TENTH_OF_GIB => (self.size.gib(), "Gi"),
            (true, size) if size >= Bytes::MIB => (self.size.mib().to_string(), "Mi"),
            (true, size) => (size.to_string(), "B"),
        }
    }

    /// The part of the card that it is, with two significant decimals, rounded down: `0.13`,
    /// `0.0012`. Nothing but nothing is 0.
    pub fn of_card(self) -> String {
        let (size, card) = (u128::from(self.size.0), u128::from(self.card.0.max(1)));
        if size == 0 || size >= card {
            return (size / card).to_string();
        }
        let (mut decimals, mut scale) = (2, 100u128);
        // The product stays below a hundred cards, so it cannot outgrow 128 bits.
        while size * scale / card < 10 {
            (decimals, scale) = (decimals + 1, scale * 10);
        }
        let digits = format!("0.{:0decimals$}", size * scale / card);
        digits.trim_end_matches('0').to_owned()
    }

    /// As [`Display`](fmt::Display), rounded up: for what is missing.
    pub fn rounded_up(self) -> String {
        if !self.known {
            // The ledger's abstract card has a multiple of 1000 units, so this stays a ratio.
            let step = (self.card.0 / 1000).max(1);
            return part(self.size.0.div_ceil(step).saturating_mul(step), self.card.0);
        }
        match self.size.0 {
            size if size < Bytes::MIB => self.size.to_string(),
            size if size < 1 << 30 => format!("{} MiB", size.div_ceil(Bytes::MIB)),
            size => {
                let tenths = (u128::from(size) * 10).div_ceil(1 << 30);
                format!("{}.{} GiB", tenths / 10, tenths % 10)
            }
        }
    }
}

/// `20.0 GiB`, `500 MiB` or `0.25`.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.known { self.size.fmt(f) } else { f.write_str(&part(self.size.0, self.card.0)) }
    }
}

/// A number, or null.
impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.bytes().serialize(serializer)
    }
}

/// A ratio with up to three decimals, rounded down.
fn part(size: u64, whole: u64) -> String {
    let thousandths = u128::from(size) * 1000 / u128::from(whole.max(1));
    match thousandths {
        0 if size > 0 => "<0.001".to_owned(),
        0 => "0".to_owned(),
        _ if thousandths.is_multiple_of(1000) => (thousandths / 1000).to_string(),
        _ => format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
            .trim_end_matches('0')
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gib(mib: u64) -> Amount {
        Amount::new(Bytes::from_mib(mib), Bytes::from_mib(81_920), true)
    }

    #[test]
    fn known_memory_is_shown_in_gib_and_never_rounded_up() {
        assert_eq!(gib(20_480).number(), "20.0");
        assert_eq!(gib(960).number(), "0.9");
        assert_eq!(gib(50).number(), "50 MiB");
        assert_eq!(gib(0).number(), "0.0");
        assert_eq!(gib(40_000).to_string(), "39.0 GiB");
    }

    #[test]
    fn unknown_memory_is_shown_as_a_part_of_the_card() {
        let part = |n| Amount::new(Bytes(n), Bytes(1_000_000), false);
        assert_eq!(part(250_000).number(), "0.25");
        assert_eq!(part(1_000_000).number(), "1");
        assert_eq!(part(333_333).to_string(), "0.333");
        assert_eq!(part(1).number(), "<0.001");
        assert_eq!(part(333_333).rounded_up(), "0.334");
        assert_eq!(part(250_000).bytes(), None);
    }

    #[test]
    fn a_cell_has_its_unit_and_no_space() {
        let half = Amount::new(Bytes(500_000), Bytes(1_000_000), false);
        assert_eq!(gib(20_480).cell(), "20.0Gi");
        assert_eq!(gib(50).cell(), "50Mi");
        assert_eq!(gib(0).cell(), "0");
        assert_eq!(half.cell(), "0.5card");
        assert_eq!(gib(40_000).cell_of(gib(81_920)), "39.0/80.0Gi");
        assert_eq!(gib(0).cell_of(gib(81_920)), "0.0/80.0Gi");
        assert_eq!(gib(50).cell_of(gib(81_920)), "50Mi/80.0Gi");
        assert_eq!(half.cell_of(half.with(Bytes(1_000_000))), "0.5/1card");
    }

    #[test]
    fn a_part_of_a_card_has_two_significant_decimals_and_is_never_nothing() {
        assert_eq!(gib(40_960).of_card(), "0.5");
        assert_eq!(gib(40_000).of_card(), "0.48");
        assert_eq!(gib(4_200).of_card(), "0.051");
        assert_eq!(gib(100).of_card(), "0.0012");
        assert_eq!(gib(81_919).of_card(), "0.99");
        assert_eq!(gib(81_920).of_card(), "1");
        assert_eq!(gib(0).of_card(), "0");
        let least = Amount::new(Bytes(1), Bytes(u64::MAX), true);
        assert_eq!(least.of_card(), "0.000000000000000000054");
    }

    #[test]
    fn what_is_missing_is_rounded_up() {
        assert_eq!(gib(10_240).rounded_up(), "10.0 GiB");
        assert_eq!(gib(10_241).rounded_up(), "10.1 GiB");
        assert_eq!(gib(500).rounded_up(), "500 MiB");
        let odd = Amount::new(Bytes(500 * Bytes::MIB + 1), Bytes::from_mib(81_920), true);
        assert_eq!(odd.rounded_up(), "501 MiB");
    }

    #[test]
    fn only_a_full_card_is_a_hundred_percent_and_only_an_empty_one_zero() {
        assert_eq!(gib(81_919).percent(), 99);
        assert_eq!(gib(81_920).percent(), 100);
        assert_eq!(gib(1).percent(), 1);
        assert_eq!(gib(0).percent(), 0);
        assert_eq!(gib(61_440).percent(), 75);
    }
}
