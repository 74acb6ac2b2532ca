//! What KAI tells of a wrong request, word for word, so that whoever looks for its texts finds them;
//! behind each what was given, in which unit, and what to write instead.

use crate::keys;
use crate::problem::{long, short};
use crate::quantity::Quantity;
use divvy_ledger::Bytes;

/// Containers that are named where one of them is meant.
const MOST_CONTAINERS: usize = 10;

pub(crate) fn mps_without_share() -> String {
    format!(
        "MPS is only supported with GPU fraction request; mps: \"true\" given: add {}, or take mps away",
        share()
    )
}

/// `other` is what stands beside the fraction.
pub(crate) fn fraction_and_whole(fraction: &str) -> String {
    format!(
        "cannot have both GPU fraction request and whole GPU resource request/limit; {} and {} given: take \
         one of the two away",
        given(keys::GPU_FRACTION, fraction),
        keys::GPU
    )
}

pub(crate) fn memory_and_other(memory: &str, fraction: Option<&str>) -> String {
    let other = match fraction {
        Some(fraction) => given(keys::GPU_FRACTION, fraction),
        None => keys::GPU.to_owned(),
    };
    format!(
        "cannot request both GPU and GPU memory; {} and {other} given: take one of the two away",
        given(keys::GPU_MEMORY, memory)
    )
}

pub(crate) fn cards_without_share(cards: &str) -> String {
    format!(
        "cannot request multiple fractional devices without specifying fraction portion or gpu-memory; {} \
         given: add {}, the part of each card",
        given(keys::FRACTION_DEVICES, cards),
        share()
    )
}

pub(crate) fn memory(text: &str) -> String {
    let example = in_mib(text).unwrap_or(2000);
    format!(
        "gpu-memory annotation value must be a positive integer greater than 0; {} given, the unit is MiB: \
         write {} for {example} MiB",
        given(keys::GPU_MEMORY, text),
        given(keys::GPU_MEMORY, &example.to_string())
    )
}

pub(crate) fn fraction(text: &str) -> String {
    let example = percent(text).unwrap_or_else(|| "0.5".to_owned());
    format!(
        "gpu-fraction annotation value must be a positive number smaller than 1.0; {} given, the unit is one \
         card: write a decimal such as {}, or ask whole cards by the limit {}",
        given(keys::GPU_FRACTION, text),
        given(keys::GPU_FRACTION, &example),
        keys::GPU
    )
}

pub(crate) fn fraction_as_a_decimal(text: &str) -> String {
    format!(
        "gpu-fraction annotation value must be a float written with a decimal point or a scientific notation \
         .given value: {}; write a decimal such as {}",
        long(text),
        given(keys::GPU_FRACTION, "0.5")
    )
}

pub(crate) fn cards(text: &str) -> String {
    format!(
        "fraction count annotation value must be a positive integer greater than 0; {} given, the unit is \
         cards of one node: write {}, or take it away for one card",
        given(keys::FRACTION_DEVICES, text),
        given(keys::FRACTION_DEVICES, "2")
    )
}

/// `names` are the containers that there are.
pub(crate) fn no_such_container<'a>(
    name: &str,
    names: impl ExactSizeIterator<Item = &'a str>,
) -> String {
    let more = names.len().saturating_sub(MOST_CONTAINERS);
    let mut names: Vec<String> =
        names.take(MOST_CONTAINERS).map(|n| short(n).to_string()).collect();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    format!(
        "failed to get fraction container ref: container with name {} not found for fraction request; \
         allowed for {} are {}",
        long(name),
        keys::FRACTION_CONTAINER,
        if names.is_empty() {
            "none, as there are no containers".to_owned()
        } else {
            names.join(", ")
        }
    )
}

pub(crate) fn sharing_is_off(namespace: &str, name: &str) -> String {
    format!(
        "attempting to create a pod {namespace}/{name} with gpu sharing request, while GPU sharing is \
         disabled; divvy admission and divvy scheduler switch it on with --gpu-sharing"
    )
}

fn given(key: &str, value: &str) -> String {
    format!("{key}: {:?}", short(value))
}

fn share() -> String {
    format!("{} or {}", given(keys::GPU_FRACTION, "0.5"), given(keys::GPU_MEMORY, "2000"))
}

/// `2Gi`, `2 GiB` or `500M` in MiB, rounded up.
fn in_mib(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches('B');
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[number.len()..];
    let bytes = Quantity::parse(&format!("{}{unit}", number.trim())).ok()?.value_ceil();
    (!unit.is_empty() && unit != "m" && bytes > 0).then(|| bytes.div_ceil(Bytes::MIB))
}

/// `50%` as `0.5`.
fn percent(text: &str) -> Option<String> {
    let percent: u32 = text.strip_suffix('%')?.trim().parse().ok()?;
    (1..100).contains(&percent).then(|| format!("0.{percent:02}").trim_end_matches('0').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_with_a_unit_is_told_in_mib() {
        for (given, mib) in
            [("2Gi", 2048), ("2 GiB", 2048), ("500M", 477), ("1Ki", 1), ("8GB", 7630)]
        {
            assert!(
                memory(given).ends_with(&format!("write gpu-memory: \"{mib}\" for {mib} MiB")),
                "{given}"
            );
        }
        for given in ["", "0", "-1", "1.5", "half", "500m", "0Gi", "-2Gi", "ßGi", "9e99Gi"] {
            let said = memory(given);
            assert!(
                said.contains("write gpu-memory: \"") && said.contains("the unit is MiB"),
                "{said}"
            );
        }
    }

    #[test]
    fn a_percentage_is_told_as_a_decimal() {
        for (given, decimal) in
            [("50%", "0.5"), ("5%", "0.05"), ("33 %", "0.33"), ("100%", "0.5"), ("7", "0.5")]
        {
            let said = fraction(given);
            assert!(said.contains(&format!("such as gpu-fraction: \"{decimal}\"")), "{said}");
        }
    }

    #[test]
    fn no_text_grows_with_what_was_given() {
        let long = "x".repeat(100_000);
        let names = vec![&*long; 1000];
        for text in [
            memory(&long),
            fraction(&long),
            cards(&long),
            fraction_as_a_decimal(&long),
            fraction_and_whole(&long),
            memory_and_other(&long, Some(&long)),
            cards_without_share(&long),
            no_such_container(&long, names.into_iter()),
        ] {
            assert!(text.len() < 1400, "{}", text.len());
        }
    }
}
