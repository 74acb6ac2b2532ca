//! Quantities and fractions: what is read is what was written, exactly, and prints as such.

use divvy_ledger::{Bytes, Fraction};
use divvy_words::manifest::ResourceList;
use serde::Deserialize;
use serde_json::{Value, json};

/// A text that may be a quantity, a fraction, or neither.
pub fn quantities(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    quantity(text);
    fraction(text);
    // A number of JSON is a quantity too.
    if let Ok(number @ Value::Number(_)) = serde_json::from_str(text) {
        let _ = ResourceList::deserialize(&json!({ "cpu": number }));
    }
}

/// What a text is as a quantity: printed, in thousandths and in units.
fn read(text: &str) -> Option<(String, u64, u64)> {
    let list = ResourceList::deserialize(&json!({ "cpu": text })).ok()?;
    let quantity = list.get("cpu")?;
    let (milli, units) = (quantity.milli_ceil(), quantity.value_ceil());
    assert_eq!(quantity.is_negative(), quantity.to_string().starts_with('-'), "{text:?}");
    Some((quantity.to_string(), milli, units))
}

fn quantity(text: &str) {
    let found = read(text);
    assert_eq!(found.is_some(), is_quantity(text), "{text:?}");
    let Some((printed, milli, units)) = found else { return };
    let again = read(&printed);
    assert_eq!(again, Some((printed.clone(), milli, units)), "{text:?}");
    assert!(units == i64::MAX as u64 || milli <= units.saturating_mul(1000), "{text:?}");
    if let Some(nano) = exactly(text) {
        let most = i128::from(i64::MAX);
        let expected = |unit: i128| (nano.max(0) + unit - 1).div_euclid(unit).min(most);
        assert_eq!(i128::from(units), expected(1_000_000_000), "{text:?}");
        assert_eq!(i128::from(milli), expected(1_000_000), "{text:?}");
    }
}

/// The grammar of Kubernetes, by itself.
fn is_quantity(text: &str) -> bool {
    parts(text).is_some_and(|(_, whole, part, suffix)| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let exponent = suffix.strip_prefix(['e', 'E']);
        let exponent = exponent.map(|e| (e.strip_prefix(['+', '-']).unwrap_or(e), e));
        (digits(whole) || digits(part))
            && (scale(suffix).is_some()
                || exponent.is_some_and(|(size, e)| digits(size) && e.parse::<i64>().is_ok()))
    })
}

/// Sign, digits before and after the point, and what follows.
fn parts(text: &str) -> Option<(i128, &str, &str, &str)> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let end = unsigned.find(|c: char| !c.is_ascii_digit()).unwrap_or(unsigned.len());
    let (whole, rest) = unsigned.split_at(end);
    let Some(rest) = rest.strip_prefix('.') else { return Some((sign, whole, "", rest)) };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (part, suffix) = rest.split_at(end);
    Some((sign, whole, part, suffix))
}

/// What a suffix multiplies with, in billionths.
fn scale(suffix: &str) -> Option<i128> {
    const NANO: i128 = 1_000_000_000;
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let at = |all: &[&str]| u32::try_from(all.iter().position(|one| *one == suffix)?).ok();
    let decimal = at(&DECIMAL).map(|at| 1_000i128.pow(at));
    decimal.or_else(|| Some(NANO << (10 * (at(&BINARY)? + 1))))
}

/// The quantity in billionths, rounded away from 0, where that is easy to tell.
fn exactly(text: &str) -> Option<i128> {
    let (sign, whole, part, suffix) = parts(text)?;
    let scale = scale(suffix)?;
    if whole.len() + part.len() > 12 {
        return None;
    }
    let digits: i128 = format!("0{whole}{part}").parse().ok()?;
    let unit = 10i128.pow(u32::try_from(part.len()).ok()?);
    let most = i128::from(i64::MAX) * 1_000_000_000;
    Some(sign * (digits.checked_mul(scale)? + unit - 1).div_euclid(unit).min(most))
}

fn fraction(text: &str) {
    let Ok(fraction) = Fraction::parse(text) else { return };
    assert_eq!(Fraction::parse(&fraction.to_string()), Ok(fraction), "{text:?}");
    for card in [1, 3, 15 << 30, 81_559 << 20, u64::MAX] {
        let part = fraction.of(Bytes(card));
        assert!(part < Bytes(card), "{text:?} of {card} is {part:?}");
        let printed = fraction.to_string();
        let digits = printed.strip_prefix("0.").unwrap_or_default();
        if let (1..=18, Ok(number)) = (digits.len(), digits.parse::<u128>()) {
            let exact = number * u128::from(card) / 10u128.pow(digits.len() as u32);
            assert_eq!(u128::from(part.0), exact, "{text:?} of {card}");
        }
    }
}
