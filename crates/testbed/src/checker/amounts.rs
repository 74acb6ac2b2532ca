//! Quantities and fractions as exact integers, read in the plainest way.

/// What a share pod asks of each card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Portion {
    /// `numerator / 10^decimals` of a card.
    Fraction { numerator: u128, decimals: u32 },
    /// Bytes.
    Bytes(u128),
}

impl Portion {
    /// Reads a decimal such as `0.125`.
    pub(super) fn fraction(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let numerator = format!("{whole}{part}").parse().ok()?;
        Some(Self::Fraction { numerator, decimals: u32::try_from(part.len()).ok()? })
    }

    /// The bytes of a card of this size.
    pub(super) fn of(&self, card: u128) -> u128 {
        match self {
            Self::Fraction { numerator, decimals } => card * numerator / 10u128.pow(*decimals),
            Self::Bytes(bytes) => *bytes,
        }
    }
}

/// A quantity in thousandths: `10m` is 10, `1Gi` is 1024^3 x 1000.
pub(super) fn thousandths(text: &str) -> Option<u128> {
    let split = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u128 = number.parse().ok()?;
    let factor = match unit {
        "m" => return Some(number),
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(factor)?.checked_mul(1000)
}
