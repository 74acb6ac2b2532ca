//! What a pod asks of GPUs. The first errors are KAI's, in its words (`kai_texts`) and its order; the
//! later ones say what KAI lets pass and then ignores.

use crate::kai_texts;
use crate::keys;
use crate::koordinator;
use crate::manifest::{Container, Metadata, PodManifest, PodStatus};
use crate::problem::{Problems, short};
use crate::quantity::Quantity;
use crate::resources::Quantities;
use divvy_ledger::{Bytes, Device, Each, Fraction, FractionError, Part, Portion, Request};
use std::collections::BTreeSet;

/// More cards than any machine has are a mistake.
pub(crate) const MAX_CARDS: u64 = 64;
/// What the API server allows for all annotations of an object, keys and values.
const MAX_ANNOTATIONS: usize = 256 * 1024;
/// What the binding brings for each card: `GPU-<36 characters>:18446744073709551615,` and its CDI name.
const CARD_RECORD: usize = 140;
/// The rest of what it brings: keys, the portion, the type.
const HAND_OFF_RECORD: usize = 160;

/// The two ways to ask for a share, in messages.
const ANNOTATIONS: &str = "annotation gpu-fraction or gpu-memory";
const RESOURCES: &str = "resources koordinator.sh/gpu...";

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
    let is_share = is_annotated(metadata);
    // KAI looks whether there is a limit, not how much it is.
    let has_limit = containers(spec).any(|c| c.resources.limits.amount(keys::GPU).is_some());
    let is_whole = whole > Quantity::ZERO;

    if annotation(keys::MPS) == Some("true") && !is_share {
        problems.note(kai_texts::mps_without_share);
    }
    if let Some(fraction) = fraction.filter(|_| is_whole || has_limit) {
        problems.note(|| kai_texts::fraction_and_whole(fraction));
    }
    if let Some(memory) = memory.filter(|_| fraction.is_some() || is_whole || has_limit) {
        problems.note(|| kai_texts::memory_and_other(memory, fraction));
    }
    if let Some(devices) = devices.filter(|_| !is_share) {
        problems.note(|| kai_texts::cards_without_share(devices));
    }
    let mut own = Problems::default();
    let memory = memory.and_then(|text| memory_portion(text, problems, &mut own));
    let fraction = fraction.and_then(|text| fraction_portion(text, problems, &mut own));
    let cards = devices.map_or(Some(1), |text| card_count(text, problems, &mut own));
    problems.note_some(|| own.into_first());
    let koordinators = koordinator::asked(spec).unwrap_or_else(|why| {
        problems.note(|| why);
        None
    });
    let other = [(is_share, ANNOTATIONS), (is_whole || has_limit, keys::GPU)];
    if koordinators.is_some()
        && let Some((_, other)) = other.into_iter().find(|(is_there, _)| *is_there)
    {
        problems.note(|| format!("cannot have both {RESOURCES} and {other}"));
    }
    if is_share {
        check_neighbours(spec, ANNOTATIONS, problems);
        check_room(metadata, cards.unwrap_or(1), problems);
    } else if let Some(asked) = &koordinators {
        check_neighbours(spec, RESOURCES, problems);
        check_room(metadata, asked.cards(), problems);
    }
    match (fraction.or(memory), cards) {
        (Some(portion), Some(cards)) => Request::share(cards, Part::of(portion)),
        _ if is_whole && has_integers_only(spec) => Request::whole(clip(whole.value_ceil())),
        _ => koordinators.unwrap_or_default(),
    }
}

/// What a bound pod was given, whatever it asks: the kubelet hands out what its containers' limits
/// say, and newer ones tell which devices these are. Whole cards by Koordinator's names come from its
/// scheduler, which writes them down: who gives a pod a node itself must not hold cards by them.
pub(crate) fn given(
    metadata: &Metadata,
    status: &PodStatus,
    whole: Quantity,
    asked: Request,
) -> Request {
    let told: BTreeSet<&str> = status.devices().collect();
    let limits = if whole > Quantity::ZERO { whole.value_ceil() } else { 0 };
    match limits.max(told.len() as u64) {
        0 if asked.whole_cards() == 0 => asked,
        0 if metadata.annotations.get(keys::DEVICE_ALLOCATED).is_some() => asked,
        count => Request::whole(clip(count)),
    }
}

fn clip(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The same, and the devices that are only counted.
pub(crate) fn with_devices(
    request: Request,
    totals: &Quantities<'_>,
    spec: &PodManifest,
) -> Request {
    let devices = totals.iter().filter_map(|(name, n)| Some((Device::of_resource(name)?, n)));
    let request = devices.fold(request, |request, (device, n)| {
        request.and(clip(n.value_ceil()), Each::Device(device))
    });
    if asks_one_each(spec, totals) { request.one_each() } else { request }
}

/// Whether the pod asks several whole GPUs, or devices of a kind, and no container more than one.
fn asks_one_each(spec: &PodManifest, totals: &Quantities<'_>) -> bool {
    let is_device = |name: &str| name == keys::GPU || Device::of_resource(name).is_some();
    let one = Quantity::parse("1").unwrap_or_default();
    let several = totals.iter().any(|(name, n)| is_device(name) && n > one);
    let mut lists = containers(spec).flat_map(|c| [&c.resources.limits, &c.resources.requests]);
    several
        && lists.all(|list| {
            let mut asked = list.iter().filter(|(name, _)| is_device(name));
            asked.all(|(_, n)| n.as_ref().is_ok_and(|n| *n <= one))
        })
}

/// Whether the pod asks for a share.
pub(crate) fn is_share(metadata: &Metadata, spec: &PodManifest) -> bool {
    is_annotated(metadata) || koordinator::is_share(spec)
}

/// Whether it does so as KAI's pods do.
fn is_annotated(metadata: &Metadata) -> bool {
    let is_there = |key| metadata.annotations.get(key).is_some();
    is_there(keys::GPU_FRACTION) || is_there(keys::GPU_MEMORY)
}

/// All containers in KAI's order.
pub(crate) fn containers(spec: &PodManifest) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().chain(&spec.containers)
}

/// Whether no container asks for a part of a GPU by the resource, which nothing can give.
fn has_integers_only(spec: &PodManifest) -> bool {
    containers(spec)
        .flat_map(|c| [&c.resources.limits, &c.resources.requests])
        .filter_map(|list| list.get(keys::GPU))
        .all(Quantity::is_integer)
}

/// Which of [`containers`] get the share: the named one, else the first that is no init container.
/// Of Koordinator's pods all that ask see all cards of the pod.
pub(crate) fn share_containers(metadata: &Metadata, spec: &PodManifest) -> Vec<usize> {
    if !is_annotated(metadata) {
        let all = containers(spec).enumerate();
        return all.filter(|(_, c)| koordinator::asks(c)).map(|(at, _)| at).collect();
    }
    let one = match metadata.annotations.get(keys::FRACTION_CONTAINER) {
        Some(name) => containers(spec).position(|c| &*c.name == name),
        None => (!spec.containers.is_empty()).then_some(spec.init_containers.len()),
    };
    one.into_iter().collect()
}

/// The share must be given to some container. KAI says so when it prepares the pod, before
/// anything else is validated; but what is no string at all never comes that far.
pub(crate) fn check_container(metadata: &Metadata, spec: &PodManifest, problems: &mut Problems) {
    let Some(name) = metadata.annotations.get(keys::FRACTION_CONTAINER) else { return };
    let is_read = metadata.annotations.problem("", "").is_none();
    if is_read && is_annotated(metadata) && share_containers(metadata, spec).is_empty() {
        problems.note(|| {
            let names: Vec<&str> = containers(spec).map(|c| &*c.name).collect();
            kai_texts::no_such_container(name, names.into_iter())
        });
    }
}

/// As Go's `ParseUint` in base 10: digits only, no sign.
fn parse_uint(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// `own` is for what only divvy refuses; KAI's errors come first.
fn memory_portion(text: &str, problems: &mut Problems, own: &mut Problems) -> Option<Portion> {
    let Some(mib) = parse_uint(text).filter(|mib| *mib > 0) else {
        problems.note(|| kai_texts::memory(text));
        return None;
    };
    let most = i64::MAX.unsigned_abs() / Bytes::MIB;
    if mib > most {
        own.note(|| {
            format!(
                "metadata.annotations[\"{}\"]: {mib} MiB is more than any card has; allowed are 1 to {most}",
                keys::GPU_MEMORY
            )
        });
        return None;
    }
    Some(Portion::Memory(Bytes::from_mib(mib)))
}

fn fraction_portion(text: &str, problems: &mut Problems, own: &mut Problems) -> Option<Portion> {
    if !is_part_of_one(text) {
        problems.note(|| kai_texts::fraction(text));
        return None;
    }
    if Quantity::parse(text).is_err() {
        problems.note(|| kai_texts::fraction_as_a_decimal(text));
        return None;
    }
    match Fraction::parse(text) {
        Ok(fraction) => Some(Portion::Fraction(fraction)),
        Err(FractionError::TooManyDecimals) => {
            own.note(|| {
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
            problems.note(|| kai_texts::fraction(text));
            None
        }
    }
}

fn card_count(text: &str, problems: &mut Problems, own: &mut Problems) -> Option<u32> {
    let Some(count) = parse_uint(text).filter(|count| *count > 0) else {
        problems.note(|| kai_texts::cards(text));
        return None;
    };
    if count > MAX_CARDS {
        own.note(|| {
            format!(
                "metadata.annotations[\"{}\"]: {count} is too many cards for one node; allowed are 1 to {MAX_CARDS}",
                keys::FRACTION_DEVICES
            )
        });
        return None;
    }
    u32::try_from(count).ok()
}

/// The API server checks annotations when a pod is made, not when it is bound: with the record of
/// its cards beyond the limit, no later change of the pod would be accepted.
fn check_room(metadata: &Metadata, cards: u32, problems: &mut Problems) {
    if metadata.annotations.get(keys::CARDS).is_some() {
        return;
    }
    let record = HAND_OFF_RECORD + cards as usize * CARD_RECORD;
    let (given, most) = (metadata.annotations.bytes(), MAX_ANNOTATIONS.saturating_sub(record));
    if given > most {
        problems.note(|| {
            format!(
                "metadata.annotations: {given} bytes leave no room for {}, which says which cards \
                 the pod holds; allowed are up to {most}",
                keys::CARDS
            )
        });
    }
}

/// A share cannot stand beside other ways to ask for GPUs. `by` is how it is asked.
fn check_neighbours(spec: &PodManifest, by: &str, problems: &mut Problems) {
    problems.note_some(|| {
        let (container, resource) = containers(spec).find_map(mig_resource)?;
        Some(format!(
            "cannot have both a GPU share ({by}) and the MIG resource {} of container {}",
            short(resource),
            short(container)
        ))
    });
    if spec.resource_claims > 0 {
        problems.note(|| format!("cannot have both a GPU share ({by}) and spec.resourceClaims"));
    }
}

fn mig_resource(container: &Container) -> Option<(&str, &str)> {
    let all = container.resources.limits.iter().chain(container.resources.requests.iter());
    let mut asked = all.filter(|(_, amount)| amount.as_ref().is_ok_and(|q| *q > Quantity::ZERO));
    let (resource, _) = asked.find(|(name, _)| name.starts_with(keys::MIG_PREFIX))?;
    Some((&container.name, resource))
}

/// Whether Go's `ParseFloat` with 64 bits makes a number between 0 and 1 of it. It also reads
/// hexadecimal numbers and underscores between digits.
fn is_part_of_one(text: &str) -> bool {
    let lower = text.strip_prefix('+').unwrap_or(text).to_ascii_lowercase();
    if let Some(hex) = lower.strip_prefix("0x") {
        // An underscore may stand behind the prefix, as if that were a digit.
        let digits = underscores_removed(hex, true, u8::is_ascii_hexdigit);
        return digits.is_some_and(|digits| is_hex_part_of_one(&digits).unwrap_or(false));
    }
    // Rust reads the same decimals and rounds them alike, but also knows words like "infinity".
    let is_decimal = lower.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && lower.bytes().all(|b| b.is_ascii_digit() || b"._e+-".contains(&b));
    let plain = underscores_removed(&lower, false, u8::is_ascii_digit).filter(|_| is_decimal);
    plain.and_then(|plain| plain.parse::<f64>().ok()).is_some_and(|f| f > 0.0 && f < 1.0)
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

/// The same for the part behind `0x`, such as `1.8p-1`; the exponent is required. Nothing for what
/// is no number.
fn is_hex_part_of_one(text: &str) -> Option<bool> {
    let (mantissa, exponent) = text.split_once('p')?;
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if whole.len() + part.len() == 0
        || exponent_digits.is_empty()
        || !exponent_digits.bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let digits: Option<Vec<u32>> =
        whole.chars().chain(part.chars()).map(|c| c.to_digit(16)).collect();
    let digits = digits?;
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    let significant = digits.get(zeros..).filter(|digits| !digits.is_empty());
    let Some(significant) = significant else { return Some(false) };
    // Go stops to count there.
    let size = exponent_digits
        .bytes()
        .fold(0, |e: i64, b| if e < 10_000 { e * 10 + i64::from(b - b'0') } else { e });
    let exponent = if exponent.starts_with('-') { -size } else { size };
    // The first 16 digits as a number from 2^63 on, what is cut off, and the power of two of the
    // highest bit.
    let digit = |at: usize| u64::from(significant.get(at).copied().unwrap_or(0));
    let first = (0..16).fold(0u64, |number, at| number << 4 | digit(at));
    let is_cut = significant.iter().skip(16).any(|digit| *digit != 0);
    let shift = first.leading_zeros();
    let number = first << shift;
    let place = |count: usize| i64::try_from(count).unwrap_or(i64::MAX / 8);
    let top = (place(whole.len()) - place(zeros)) * 4 - 1 - i64::from(shift) + exponent;
    // 53 bits are kept: what is nearer to 1 than to the number before becomes 1, and what is not
    // above half of the least number becomes 0.
    let becomes_one = top == -1 && number > u64::MAX - (1 << 10);
    let half_of_least = -1075;
    let is_above_half = number > 1 << 63 || is_cut;
    let becomes_zero = top < half_of_least || (top == half_of_least && !is_above_half);
    Some(top < 0 && !becomes_one && !becomes_zero)
}

#[cfg(test)]
mod tests;
