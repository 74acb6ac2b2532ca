//! Whether the configs of a file can be, and what they leave of a card.

use crate::API_VERSION;
use crate::options::TextOptions;
use crate::paint::Tint;
use crate::table::{Cell, Table};
use crate::wording::{clean, count, labels};
use divvy_ledger::mig::{
    CardIndexes, ConfigVerdict, EntryOutcome, Judged, Leftover, Slice, listed,
};
use divvy_ledger::{Bytes, Engines, Profile};
use serde::Serialize;

/// What was found about the configs of a file.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MigCheck {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `MigCheck`.
    pub kind: &'static str,
    /// The configs by name.
    pub items: Vec<MigVerdict>,
}

/// What was found about one config.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MigVerdict {
    /// Its name.
    pub name: String,
    /// Whether it can be.
    pub legal: bool,
    /// Its entries, each on the models that it may be for.
    pub cards: Vec<MigCards>,
}

/// What an entry does to each of its cards.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MigCards {
    /// Which cards of a node, by index; null for all.
    pub devices: Option<Vec<u32>>,
    /// The model; null if that does not matter, or is not known.
    pub model: Option<&'static str>,
    /// Whether it can be.
    pub legal: bool,
    /// Why not; null if it can.
    pub reason: Option<String>,
    /// What it asks for.
    pub profiles: Vec<ProfileCount>,
    /// Where the slices may lie; empty if the card is not divided.
    pub slices: Vec<PlacedSlice>,
    /// What they leave; null if the card is not divided.
    pub unused: Option<Unused>,
}

/// So many of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProfileCount {
    /// As configs write it: `1g.10gb+me`.
    pub profile: String,
    /// How many.
    pub count: u32,
}

/// A slice and its place.
#[derive(Clone, Debug, Serialize)]
pub struct PlacedSlice {
    /// As configs write it.
    pub profile: String,
    /// Its first memory slice.
    pub start: u8,
    /// How many memory slices it has.
    pub size: u8,
}

/// What slices leave of a card.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unused {
    /// Memory slices.
    pub memory_slices: u8,
    /// Compute slices.
    pub compute_slices: u8,
    /// The memory of the former.
    pub memory_bytes: u64,
    /// Profiles of which one more fits.
    pub fits: Vec<String>,
}

pub(crate) fn counted(profiles: &[(Profile, u32)]) -> Vec<ProfileCount> {
    let one =
        |&(profile, count): &(Profile, u32)| ProfileCount { profile: profile.in_config(), count };
    profiles.iter().map(one).collect()
}

pub(crate) fn unused(left: &Leftover) -> Unused {
    Unused {
        memory_slices: left.memory_slices,
        compute_slices: left.compute_slices,
        memory_bytes: left.memory.0,
        fits: left.fits.iter().map(|profile| profile.in_config()).collect(),
    }
}

/// What was found, for programs.
pub fn mig_check(verdicts: &[ConfigVerdict<'_>]) -> MigCheck {
    let item = |verdict: &ConfigVerdict<'_>| MigVerdict {
        name: verdict.partition.name.clone(),
        legal: verdict.legal,
        cards: verdict.judged.iter().map(cards).collect(),
    };
    let items = verdicts.iter().map(item).collect();
    MigCheck { api_version: API_VERSION, kind: "MigCheck", items }
}

fn cards(judged: &Judged<'_>) -> MigCards {
    let (slices, unused) = match &judged.outcome {
        EntryOutcome::Divided(slices, left) => {
            (slices.iter().map(placed).collect(), Some(unused(left)))
        }
        _ => (Vec::new(), None),
    };
    let devices = match &judged.entry.devices {
        CardIndexes::All => None,
        CardIndexes::These(cards) => Some(cards.clone()),
    };
    MigCards {
        devices,
        model: judged.model.map(|model| model.name),
        legal: judged.outcome.is_legal(),
        reason: reason(judged),
        profiles: counted(&judged.entry.profiles),
        slices,
        unused,
    }
}

fn placed(slice: &Slice) -> PlacedSlice {
    PlacedSlice { profile: slice.profile.in_config(), start: slice.start, size: slice.size }
}

fn reason(judged: &Judged<'_>) -> Option<String> {
    match &judged.outcome {
        EntryOutcome::Undivided | EntryOutcome::Divided(..) | EntryOutcome::OtherModel => None,
        EntryOutcome::Misfit(misfit) => Some(misfit.to_string()),
        EntryOutcome::UnknownFilter => {
            let ids = judged.entry.filter.join(", ");
            Some(format!("device-filter {ids}: divvy does not know all of these; give --model"))
        }
        EntryOutcome::NoModel => Some(
            "no model has all of these profiles; give --model to see those of a model".to_owned(),
        ),
    }
}

/// The answer, a table, and why what is not legal is not.
pub fn mig_check_text(verdicts: &[ConfigVerdict<'_>], options: TextOptions) -> String {
    let legal = verdicts.iter().filter(|verdict| verdict.legal).count();
    let mut text = match (legal, verdicts.len()) {
        (1, 1) => "The config is legal.\n\n".to_owned(),
        (0, 1) => "The config is not legal.\n\n".to_owned(),
        (legal, all) if legal == all => format!("All {} are legal.\n\n", count(all, "config")),
        (legal, all) => {
            let (bad, configs) = (all - legal, count(all, "config"));
            format!("{bad} of {configs} {} not legal.\n\n", if bad == 1 { "is" } else { "are" })
        }
    };
    let mut header =
        vec!["CONFIG", "CARDS", "MODEL", "LEGAL", "SLICES", "UNUSED-MEMORY", "UNUSED-COMPUTE"];
    header.push(if options.wide { "STARTS" } else { "FITS-ALSO" });
    let mut table = Table::new(&header).least(&["UNUSED-COMPUTE", "CARDS"]);
    let mut reasons = Vec::new();
    for verdict in verdicts {
        for judged in &verdict.judged {
            table.push(row(verdict, judged, options.wide));
            if let Some(reason) = reason(judged) {
                let name = clean(&verdict.partition.name);
                let on = judged.model.map_or_else(String::new, |m| format!(" on {}", m.name));
                reasons.push(format!("{name}{on}: {reason}\n"));
            }
        }
    }
    text.push_str(&table.render(options));
    if !reasons.is_empty() {
        text.push('\n');
        text.push_str(&reasons.concat());
    }
    text
}

fn row(verdict: &ConfigVerdict<'_>, judged: &Judged<'_>, wide: bool) -> Vec<Cell> {
    let dash = || "-".to_owned();
    let legal = match judged.outcome {
        EntryOutcome::OtherModel => "-".into(),
        _ if judged.outcome.is_legal() => Cell::tinted("yes", Tint::Good),
        _ => Cell::tinted("no", Tint::Bad),
    };
    let slices = match (judged.entry.enabled, judged.entry.profiles.is_empty()) {
        (false, _) => "not divided".to_owned(),
        (true, true) => "none".to_owned(),
        (true, false) => listed(&judged.entry.profiles),
    };
    let mut row = vec![
        verdict.partition.name.as_str().into(),
        devices(&judged.entry.devices).into(),
        judged.model.map_or("-", |model| model.name).into(),
        legal,
        slices.into(),
    ];
    match (&judged.outcome, judged.model) {
        (EntryOutcome::Divided(slices, left), Some(model)) => {
            row.push(unused_memory(left.memory_slices, model.memory_slices(), left.memory).into());
            row.push(format!("{}/{}", left.compute_slices, model.compute_slices()).into());
            row.push(if wide { starts(slices) } else { names(slices, &left.fits) }.into());
        }
        _ => row.extend([dash().into(), dash().into(), dash().into()]),
    }
    row
}

/// `all`, `0-3`.
pub(crate) fn devices(devices: &CardIndexes) -> String {
    match devices {
        CardIndexes::All => "all".to_owned(),
        CardIndexes::These(cards) => {
            let mut cards = cards.clone();
            cards.sort_unstable();
            labels(cards.into_iter().map(|card| (card, Some(card))))
        }
    }
}

/// `2/8 (19.6 GiB)`.
pub(crate) fn unused_memory(slices: u8, of: u8, memory: Bytes) -> String {
    match slices {
        0 => format!("0/{of}"),
        _ => format!("{slices}/{of} ({memory})"),
    }
}

/// `1g.10gb@5 1g.10gb@6`.
fn starts(slices: &[Slice]) -> String {
    let each = slices.iter().map(|slice| format!("{}@{}", slice.profile.in_config(), slice.start));
    let all: Vec<String> = each.collect();
    if all.is_empty() { "-".to_owned() } else { all.join(" ") }
}

/// Without those that differ in engines only.
fn names(slices: &[Slice], fits: &[Profile]) -> String {
    let usual = fits.iter().filter(|profile| profile.engines == Engines::Usual);
    let names: Vec<String> = usual.map(|profile| profile.in_config()).collect();
    match (slices.is_empty(), names.is_empty()) {
        (true, _) => "any".to_owned(),
        (false, true) => "-".to_owned(),
        (false, false) => names.join(" or "),
    }
}
