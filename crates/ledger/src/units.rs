//! Quantities in exact integers. Each has its unit in the type.

use std::fmt;

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// One MiB, the unit of `gpu-memory` and of the label `nvidia.com/gpu.memory`.
    pub const MIB: u64 = 1 << 20;

    /// `mib` MiB, or the largest value that can be held.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib.saturating_mul(Self::MIB))
    }

    /// What is left after `other` is taken, 0 if nothing is.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Whole MiB, rounded down.
    pub const fn mib(self) -> u64 {
        self.0 / Self::MIB
    }

    /// Tenths of a GiB, rounded down so that what is printed as free is never more than is free.
    const fn tenths_of_gib(self) -> u64 {
        (self.0 / (1 << 30)) * 10 + (self.0 % (1 << 30)) * 10 / (1 << 30)
    }

    /// The number of GiB with one decimal and no unit.
    pub fn gib(self) -> String {
        let tenths = self.tenths_of_gib();
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 1 << 30 || self.0 == 0 {
            write!(f, "{} GiB", self.gib())
        } else if self.0 >= Self::MIB {
            write!(f, "{} MiB", self.mib())
        } else {
            write!(f, "{} B", self.0)
        }
    }
}

/// CPU in thousandths of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MilliCpu(pub u64);

impl fmt::Display for MilliCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 / 1000)?;
        match self.0 % 1000 {
            0 => Ok(()),
            m => write!(f, ".{}", format!("{m:03}").trim_end_matches('0')),
        }
    }
}

/// A part of a card, strictly between 0 and 1, as the exact decimal that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fraction {
    /// The digits after the point as a number, without trailing zeros.
    digits: u128,
    /// How many digits there are after the point.
    scale: u32,
}

/// Why a text is no [`Fraction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FractionError {
    /// Not a decimal number, with or without an exponent.
    NotADecimal,
    /// A decimal, but not between 0 and 1.
    OutOfRange,
    /// Between 0 and 1, but with more than [`Fraction::MAX_DECIMALS`] decimals.
    TooManyDecimals,
}

impl Fraction {
    /// The most decimals that are kept; more are refused, never rounded.
    pub const MAX_DECIMALS: u32 = 36;

    /// Reads `0.5`, `.5`, `+0.5` or `5e-1`.
    pub fn parse(text: &str) -> Result<Self, FractionError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], parse_exponent(&unsigned[at + 1..])?),
            None => (unsigned, 0),
        };
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + part.len() == 0 || !all_digits(whole) || !all_digits(part) {
            return Err(FractionError::NotADecimal);
        }
        let digits: Vec<u8> = whole.bytes().chain(part.bytes()).map(|b| b - b'0').collect();
        let Some(first) = digits.iter().position(|d| *d != 0) else {
            return Err(FractionError::OutOfRange);
        };
        let last = digits.iter().rposition(|d| *d != 0).unwrap_or(first);
        // The value is 0.d1 d2 d3 ... times ten to the power `point`.
        let point = i64::try_from(whole.len()).unwrap_or(i64::MAX).saturating_add(exponent)
            - i64::try_from(first).unwrap_or(i64::MAX);
        if negative || point > 0 {
            return Err(FractionError::OutOfRange);
        }
        let significant = &digits[first..=last];
        let scale = point.unsigned_abs().saturating_add(significant.len() as u64);
        if scale > u64::from(Self::MAX_DECIMALS) {
            return Err(FractionError::TooManyDecimals);
        }
        let digits = significant.iter().fold(0u128, |n, d| n * 10 + u128::from(*d));
        Ok(Self { digits, scale: scale as u32 })
    }

    /// This part of `whole`, rounded down to the byte.
    pub fn of(self, whole: Bytes) -> Bytes {
        // floor((a + x) / n) = floor((a + floor(x)) / n) for integers a, n: taking nine digits at
        // a time from the right is exact, and no intermediate value outgrows 128 bits.
        const STEP: u128 = 1_000_000_000;
        let mut rest = self.digits;
        let mut left = self.scale;
        let mut acc: u128 = 0;
        while left > 0 {
            let width = if left.is_multiple_of(9) { 9 } else { left % 9 };
            let step = if width == 9 { STEP } else { 10u128.pow(width) };
            acc = (rest % step * u128::from(whole.0) + acc) / step;
            rest /= step;
            left -= width;
        }
        Bytes(u64::try_from(acc).unwrap_or(u64::MAX))
    }
}

fn parse_exponent(text: &str) -> Result<i64, FractionError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(FractionError::NotADecimal);
    }
    let size = digits.parse::<i64>().unwrap_or(i64::from(i32::MAX)).min(i64::from(i32::MAX));
    Ok(if text.starts_with('-') { -size } else { size })
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0.{:0width$}", self.digits, width = self.scale as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fractions_are_read_exactly_in_every_notation() {
        for (text, shown) in [
            ("0.5", "0.5"),
            (".5", "0.5"),
            ("+0.50", "0.5"),
            ("5e-1", "0.5"),
            ("50E-2", "0.5"),
            ("0.05e1", "0.5"),
            ("0.125", "0.125"),
            ("1e-9", "0.000000001"),
            ("00.29", "0.29"),
            ("0.0033333333333333335", "0.0033333333333333335"),
        ] {
            assert_eq!(
                Fraction::parse(text).map(|f| f.to_string()),
                Ok(shown.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_fraction_is_refused_by_kind() {
        use FractionError::*;
        for (text, why) in [
            ("", NotADecimal),
            (".", NotADecimal),
            ("half", NotADecimal),
            ("NaN", NotADecimal),
            ("inf", NotADecimal),
            ("0.5 ", NotADecimal),
            ("0,5", NotADecimal),
            ("1e", NotADecimal),
            ("0x.8p0", NotADecimal),
            ("500m", NotADecimal),
            ("٠.٥", NotADecimal),
            ("--0.5", NotADecimal),
            ("0", OutOfRange),
            ("0.000", OutOfRange),
            ("-0.5", OutOfRange),
            ("1", OutOfRange),
            ("1.0", OutOfRange),
            ("1e0", OutOfRange),
            ("10e-1", OutOfRange),
            ("1e999999999999999999999", OutOfRange),
            ("1e-400", TooManyDecimals),
            ("1e-999999999999999999999", TooManyDecimals),
        ] {
            assert_eq!(Fraction::parse(text), Err(why), "{text}");
        }
    }

    #[test]
    fn a_fraction_of_a_card_is_rounded_down_to_the_byte() {
        let f = |s| Fraction::parse(s).unwrap();
        assert_eq!(f("0.29").of(Bytes(100)), Bytes(29), "KAI gets 28 from floats");
        assert_eq!(f("0.5").of(Bytes(81_559 * Bytes::MIB)), Bytes(81_559 * Bytes::MIB / 2));
        assert_eq!(f("0.333333333333333333333333333333333333").of(Bytes(3_000)), Bytes(999));
        assert_eq!(f("0.999999999999999999999999999999999999").of(Bytes(u64::MAX)).0, u64::MAX - 1);
    }

    #[test]
    fn bytes_are_shown_with_one_decimal_and_never_rounded_up() {
        assert_eq!(Bytes::from_mib(81_920).to_string(), "80.0 GiB");
        assert_eq!(Bytes(6 * (1 << 30) - 1).to_string(), "5.9 GiB");
        assert_eq!(Bytes::from_mib(2_000).to_string(), "1.9 GiB");
        assert_eq!(Bytes::from_mib(500).to_string(), "500 MiB");
    }

    proptest! {
        /// Shares of a card that add up to at most 1 never add up to more than the card.
        #[test]
        fn parts_never_exceed_the_whole(a in 1u32..1000, whole in 1u64..u64::MAX) {
            let part = Fraction::parse(&format!("0.{a:03}")).unwrap();
            let rest = Fraction::parse(&format!("0.{:03}", 1000 - a));
            let rest = rest.map_or(Bytes(0), |r| r.of(Bytes(whole)));
            prop_assert!(u128::from(part.of(Bytes(whole)).0) + u128::from(rest.0) <= u128::from(whole));
            let exact = u128::from(a) * u128::from(whole) / 1000;
            prop_assert_eq!(u128::from(part.of(Bytes(whole)).0), exact);
        }

        #[test]
        fn parsing_any_text_never_panics(text in ".*") {
            let _ = Fraction::parse(&text);
        }
    }
}
