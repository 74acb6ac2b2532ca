//! Kubernetes quantities: `500m`, `1.5Gi`, `1e9`, exact to a billionth.

use serde::de::{self, Deserialize, Deserializer};
use std::fmt;

/// An amount of a resource in billionths, at most 2^63-1 units either way, as in Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nano: i128,
}

/// Why a text is no [`Quantity`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no quantity; allowed are numbers like 2, 0.5, 500m, 1Gi or 1e9")]
pub struct QuantityError {
    given: Box<str>,
}

const NANO: i128 = 1_000_000_000;
const MAX: i128 = i64::MAX as i128 * NANO;

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nano: 0 };

    /// Reads the syntax of Kubernetes. What is finer than a billionth is rounded away from 0 and
    /// what is beyond 2^63-1 becomes that, as Kubernetes does.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse(text).ok_or_else(|| QuantityError {
            given: text.chars().take(64).collect::<String>().into(),
        })
    }

    /// Whole units.
    pub fn from_units(units: i128) -> Self {
        Self { nano: units.saturating_mul(NANO).clamp(-MAX, MAX) }
    }

    /// Thousandths, rounded up; 0 for what is negative.
    pub fn milli_ceil(self) -> u64 {
        ceil(self.nano, NANO / 1000)
    }

    /// Whole units, rounded up; 0 for what is negative.
    pub fn value_ceil(self) -> u64 {
        ceil(self.nano, NANO)
    }

    /// Millionths, if it is a whole number of them.
    pub const fn micro_exact(self) -> Option<i128> {
        const MICRO: i128 = NANO / 1_000_000;
        if self.nano % MICRO == 0 { Some(self.nano / MICRO) } else { None }
    }

    /// Whether it is below 0.
    pub const fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whether it has no decimals.
    pub const fn is_integer(self) -> bool {
        self.nano % NANO == 0
    }

    /// The sum, at most 2^63-1.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { nano: (self.nano + other.nano).clamp(-MAX, MAX) }
    }
}

/// A quantity that is no whole number, as a decimal: `500m` is 0.5.
pub fn decimal(text: &str) -> Option<String> {
    let quantity = Quantity::parse(text).ok().filter(|q| !q.is_integer() && !q.is_negative())?;
    let (whole, part) = (quantity.nano / NANO, quantity.nano % NANO);
    Some(format!("{whole}.{part:09}").trim_end_matches('0').to_owned())
}

/// A quantity that is a whole number and not negative.
pub fn whole(text: &str) -> Option<u64> {
    let quantity = Quantity::parse(text).ok().filter(|q| q.is_integer() && !q.is_negative())?;
    Some(quantity.value_ceil())
}

fn ceil(nano: i128, unit: i128) -> u64 {
    let whole = nano.max(0) / unit + i128::from(nano > 0 && nano % unit != 0);
    i64::try_from(whole).unwrap_or(i64::MAX).unsigned_abs()
}

/// The suffix as a power of two and a power of ten.
fn scale(suffix: &str) -> Option<(u32, i64)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            (0, exponent.parse().ok()?)
        }
    })
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at_checked(end)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + part.len() == 0 || part.contains('.') {
        return None;
    }
    let (twos, tens) = scale(suffix)?;
    let magnitude = magnitude(whole, part, twos, tens);
    Some(Quantity { nano: if negative { -magnitude } else { magnitude } })
}

/// How many decimals are read exactly; `10^18 * 2^60` still fits in 128 bits. Those behind only
/// round the last one up.
const DECIMALS: u32 = 18;

/// Billionths of `whole.part * 2^twos * 10^tens`, rounded up, at most [`MAX`].
fn magnitude(whole: &str, part: &str, twos: u32, tens: i64) -> i128 {
    let digits = whole.bytes().chain(part.bytes()).map(|b| i128::from(b.wrapping_sub(b'0')));
    let point = i64::try_from(whole.len()).unwrap_or(i64::MAX).saturating_add(tens);
    let (mut units, mut decimals, mut more) = (0i128, 0i128, false);
    let mut position = 0i64;
    for digit in digits {
        position += 1;
        if position <= point {
            units = units.saturating_mul(10).saturating_add(digit).min(MAX);
            continue;
        }
        let place = u32::try_from(position.saturating_sub(point)).unwrap_or(u32::MAX);
        if place <= DECIMALS {
            decimals += digit * 10i128.pow(DECIMALS - place);
        } else {
            more |= digit != 0;
        }
    }
    // `5e3` has its point three digits to the right of its last one.
    while position < point && units != 0 && units < MAX {
        units = units.saturating_mul(10).min(MAX);
        position += 1;
    }
    let two = 1i128 << twos;
    let scaled = decimals * two + i128::from(more);
    let per_nano = 10i128.pow(DECIMALS - 9);
    let nano = scaled / per_nano + i128::from(scaled % per_nano != 0);
    units.saturating_mul(two).saturating_mul(NANO).saturating_add(nano).min(MAX)
}

/// The shortest plain decimal.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.nano.unsigned_abs();
        let sign = if self.is_negative() { "-" } else { "" };
        let nano = NANO.unsigned_abs();
        write!(f, "{sign}{}", size / nano)?;
        match size % nano {
            0 => Ok(()),
            part => write!(f, ".{}", format!("{part:09}").trim_end_matches('0')),
        }
    }
}

/// An amount as written in a manifest: a quantity, or a text that is none.
pub type WrittenQuantity = Result<Quantity, QuantityError>;

/// Reads an [`WrittenQuantity`] from a string, an integer or a decimal number. YAML and JSON hand decimals
/// over as `f64`; the shortest decimal text of that is what was written, for up to 15 digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenAmount(pub WrittenQuantity);

impl<'de> Deserialize<'de> for WrittenAmount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = WrittenAmount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: a number, or a string like 500m or 1Gi")
            }
            fn visit_str<E>(self, text: &str) -> Result<WrittenAmount, E> {
                Ok(WrittenAmount(Quantity::parse(text)))
            }
            fn visit_i64<E>(self, n: i64) -> Result<WrittenAmount, E> {
                Ok(WrittenAmount(Ok(Quantity::from_units(n.into()))))
            }
            fn visit_u64<E>(self, n: u64) -> Result<WrittenAmount, E> {
                Ok(WrittenAmount(Ok(Quantity::from_units(n.into()))))
            }
            fn visit_f64<E>(self, n: f64) -> Result<WrittenAmount, E> {
                Ok(WrittenAmount(Quantity::parse(&format!("{n:e}"))))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests;
