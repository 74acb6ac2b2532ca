//! What a pod asks of GPUs. The first errors are KAI's, word for word and in its order; the later
//! ones say what KAI lets pass and then ignores.

use crate::keys;
use crate::manifest::{Container, Metadata, PodManifest};
use crate::problem::{Problems, short};
use crate::quantity::Quantity;
use divvy_ledger::{Bytes, Fraction, FractionError, Portion, Request};

/// More cards than any machine has are a mistake.
const MAX_CARDS: u64 = 64;

/// The request of a pod whose containers ask for `whole` GPUs in sum.
pub(crate) fn request(
    metadata: &Metadata,
    spec: &PodManifest,
    whole: Quantity,
    problems: &mut Problems,
) -> Request {
    let annotation = |key| metadata.annotations.get(key);
    let fraction = annotation(keys::GPU_FRACTION);
    let memory = annotation(keys::GPU_MEMORY);
    let devices = annotation(keys::FRACTION_DEVICES);
    let is_share = fraction.is_some() || memory.is_some();
    let is_whole = whole > Quantity::ZERO;

    let mut refuse = |condition: bool, text: &str| {
        if condition {
            problems.note(|| text.to_owned());
        }
    };
    let mps = annotation(keys::MPS) == Some("true");
    refuse(mps && !is_share, "MPS is only supported with GPU fraction request");
    refuse(
        fraction.is_some() && is_whole,
        "cannot have both GPU fraction request and whole GPU resource request/limit",
    );
    refuse(
        memory.is_some() && (fraction.is_some() || is_whole),
        "cannot request both GPU and GPU memory",
    );
    refuse(
        devices.is_some() && !is_share,
        "cannot request multiple fractional devices without specifying fraction portion or gpu-memory",
    );
    let memory = memory.and_then(|text| memory_portion(text, problems));
    let fraction = fraction.and_then(|text| fraction_portion(text, problems));
    let cards = devices.map_or(Some(1), |text| card_count(text, problems));
    if is_share {
        check_neighbours(metadata, spec, problems);
    }
    match (fraction.or(memory), cards) {
        (Some(portion), Some(cards)) => Request::Share { portion, cards },
        _ if is_whole => Request::Whole(u32::try_from(whole.value_ceil()).unwrap_or(u32::MAX)),
        _ => Request::None,
    }
}

/// As Go's `ParseUint` in base 10: digits only, no sign.
fn parse_uint(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

fn memory_portion(text: &str, problems: &mut Problems) -> Option<Portion> {
    let Some(mib) = parse_uint(text).filter(|mib| *mib > 0) else {
        problems.note(|| {
            "gpu-memory annotation value must be a positive integer greater than 0".into()
        });
        return None;
    };
    let most = i64::MAX.unsigned_abs() / Bytes::MIB;
    if mib > most {
        problems.note(|| {
            format!(
                "metadata.annotations[\"{}\"]: {mib} MiB is more than any card has; allowed are 1 to {most}",
                keys::GPU_MEMORY
            )
        });
        return None;
    }
    Some(Portion::Memory(Bytes::from_mib(mib)))
}

fn fraction_portion(text: &str, problems: &mut Problems) -> Option<Portion> {
    let not_a_part = || "gpu-fraction annotation value must be a positive number smaller than 1.0";
    if !parse_float(text).is_some_and(|f| f > 0.0 && f < 1.0) {
        problems.note(|| not_a_part().to_owned());
        return None;
    }
    if Quantity::parse(text).is_err() {
        problems.note(|| {
            let text = short(text);
            format!(
                "gpu-fraction annotation value must be a float written with a decimal point or a scientific notation .given value: {text}"
            )
        });
        return None;
    }
    match Fraction::parse(text) {
        Ok(fraction) => Some(Portion::Fraction(fraction)),
        Err(FractionError::TooManyDecimals) => {
            problems.note(|| {
                format!(
                    "metadata.annotations[\"{}\"]: {} has too many decimals; allowed are up to {}",
                    keys::GPU_FRACTION,
                    short(text),
                    Fraction::MAX_DECIMALS
                )
            });
            None
        }
        Err(FractionError::NotADecimal | FractionError::OutOfRange) => {
            problems.note(|| not_a_part().to_owned());
            None
        }
    }
}

fn card_count(text: &str, problems: &mut Problems) -> Option<u32> {
    let Some(count) = parse_uint(text).filter(|count| *count > 0) else {
        problems.note(|| {
            "fraction count annotation value must be a positive integer greater than 0".into()
        });
        return None;
    };
    if count > MAX_CARDS {
        problems.note(|| {
            format!(
                "metadata.annotations[\"{}\"]: {count} is too many cards for one node; allowed are 1 to {MAX_CARDS}",
                keys::FRACTION_DEVICES
            )
        });
        return None;
    }
    u32::try_from(count).ok()
}

/// A share cannot stand beside other ways to ask for GPUs, and must be given to some container.
fn check_neighbours(metadata: &Metadata, spec: &PodManifest, problems: &mut Problems) {
    let containers = || spec.init_containers.iter().chain(&spec.containers);
    if let Some(name) = metadata.annotations.get(keys::FRACTION_CONTAINER)
        && !containers().any(|container| &*container.name == name)
    {
        problems.note(|| {
            format!(
                "failed to get fraction container ref: container with name {} not found for fraction request",
                short(name)
            )
        });
    }
    problems.note_some(|| {
        let (container, resource) = containers().find_map(mig_resource)?;
        Some(format!(
            "cannot have both a GPU share (annotation {} or {}) and the MIG resource {} of container {}",
            keys::GPU_FRACTION, keys::GPU_MEMORY, short(resource), short(container)
        ))
    });
    if spec.resource_claims > 0 {
        problems.note(|| {
            format!(
                "cannot have both a GPU share (annotation {} or {}) and spec.resourceClaims",
                keys::GPU_FRACTION,
                keys::GPU_MEMORY
            )
        });
    }
}

fn mig_resource(container: &Container) -> Option<(&str, &str)> {
    let all = container.resources.limits.iter().chain(container.resources.requests.iter());
    let mut asked = all.filter(|(_, amount)| amount.as_ref().is_ok_and(|q| *q > Quantity::ZERO));
    let (resource, _) = asked.find(|(name, _)| name.starts_with(keys::MIG_PREFIX))?;
    Some((&container.name, resource))
}

/// As Go's `ParseFloat` with 64 bits, which also reads hexadecimal numbers and underscores between
/// digits. Nothing for what it refuses, among it what is too large.
fn parse_float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = unsigned.to_ascii_lowercase();
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if let Some(hex) = lower.strip_prefix("0x") {
        // An underscore may stand behind the prefix, as if that were a digit.
        return hex_float(&underscores_removed(hex, true, u8::is_ascii_hexdigit)?)
            .map(|f| sign * f);
    }
    // Rust reads the same decimals and rounds them alike, but also knows words like "infinity".
    if !lower.bytes().all(|b| b.is_ascii_digit() || b"._e+-".contains(&b)) {
        return None;
    }
    let plain = underscores_removed(&lower, false, u8::is_ascii_digit)?;
    if plain.starts_with(['+', '-']) {
        return None;
    }
    plain.parse::<f64>().ok().filter(|f| f.is_finite()).map(|f| sign * f)
}

/// The text without underscores, if each of them stands between two digits.
fn underscores_removed(
    text: &str,
    digit_before: bool,
    is_digit: fn(&u8) -> bool,
) -> Option<String> {
    let bytes = text.as_bytes();
    let between_digits = |at: usize| {
        let before = match at.checked_sub(1) {
            Some(at) => bytes.get(at).is_some_and(is_digit),
            None => digit_before,
        };
        before && bytes.get(at + 1).is_some_and(is_digit)
    };
    let mut at = text.match_indices('_');
    at.all(|(at, _)| between_digits(at)).then(|| text.replace('_', ""))
}

/// The part behind `0x`, such as `1.8p-1`; the exponent is required.
fn hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once('p')?;
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let all_hex = whole.bytes().chain(part.bytes()).all(|b| b.is_ascii_hexdigit());
    if whole.len() + part.len() == 0
        || !all_hex
        || digits.is_empty()
        || !digits.bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let value = whole
        .chars()
        .chain(part.chars())
        .fold(0.0, |value, digit| value * 16.0 + f64::from(digit.to_digit(16).unwrap_or(0)));
    let exponent =
        exponent.parse::<i32>().unwrap_or(if exponent.starts_with('-') { -9999 } else { 9999 });
    let places = i32::try_from(part.len()).unwrap_or(i32::MAX).saturating_mul(4);
    let value = value * 2f64.powi(exponent.saturating_sub(places).clamp(-9999, 9999));
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests;
