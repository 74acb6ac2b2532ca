//! Whether a named config of mig-parted can be, card by card.

use super::{Geometry, Leftover, MODELS, Misfit, Model, Slice, model_of_filter};
use crate::Profile;

/// A named config: what it does to which cards of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigConfig {
    /// Its name.
    pub name: String,
    /// What is done, in order.
    pub entries: Vec<MigEntry>,
}

/// What is done to some cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigEntry {
    /// Only cards with one of these PCI ids (`0x20B210DE`); all if there are none.
    pub filter: Vec<String>,
    /// Which cards of the node.
    pub devices: CardIndexes,
    /// Whether they are divided at all.
    pub enabled: bool,
    /// Into how many of each profile, compute instances among them.
    pub profiles: Vec<(Profile, u32)>,
}

/// Cards of a node, by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CardIndexes {
    /// All.
    All,
    /// These.
    These(Vec<u32>),
}

/// What was found about one config.
#[derive(Clone, Debug)]
pub struct ConfigVerdict<'a> {
    /// The config.
    pub partition: &'a MigConfig,
    /// Its entries on each model that they may be for.
    pub judged: Vec<Judged<'a>>,
    /// Whether some model takes it, or the one that was asked about, or each that it names.
    pub legal: bool,
}

/// What an entry does to a card.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// The entry.
    pub entry: &'a MigEntry,
    /// The model; `None` if that does not matter, or is not known.
    pub model: Option<&'static Model>,
    /// What comes of it.
    pub outcome: EntryOutcome,
}

/// What comes of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryOutcome {
    /// The card is not divided.
    Undivided,
    /// Its slices, and what they leave.
    Divided(Vec<Slice>, Leftover),
    /// That cannot be.
    Misfit(Misfit),
    /// The entry is for other models than the one that was asked about.
    OtherModel,
    /// It names PCI ids that are no model's.
    UnknownFilter,
    /// No model has all its profiles.
    NoModel,
}

impl EntryOutcome {
    /// Whether it can be.
    pub const fn is_legal(&self) -> bool {
        matches!(self, Self::Undivided | Self::Divided(..) | Self::OtherModel)
    }
}

/// Judges configs on `model`. If none is given: on the models that an entry's filter names; without
/// a filter on those that have all profiles of all such entries of the file, for a file is mostly
/// for one kind of card; and if none of these takes it, on those that have the entry's profiles.
pub fn check<'a>(
    partitions: &'a [MigConfig],
    model: Option<&'static Model>,
) -> Vec<ConfigVerdict<'a>> {
    let geometries: Vec<Geometry> = MODELS.iter().map(Geometry::of).collect();
    let entries = || partitions.iter().flat_map(|partition| &partition.entries);
    let unfiltered = || entries().filter(|entry| entry.filter.is_empty() && entry.enabled);
    let common = geometries.iter().filter(|g| unfiltered().all(|entry| has_all(g, entry)));
    let judge = Judge { common: common.collect(), geometries: &geometries, asked: model };
    partitions.iter().map(|partition| judge.verdict(partition)).collect()
}

fn has_all(geometry: &Geometry, entry: &MigEntry) -> bool {
    entry.profiles.iter().all(|(profile, _)| geometry.find(profile.undivided()).is_some())
}

struct Judge<'g> {
    geometries: &'g [Geometry],
    /// Those with all profiles of all entries without a filter.
    common: Vec<&'g Geometry>,
    /// The model that was asked about.
    asked: Option<&'static Model>,
}

impl Judge<'_> {
    fn verdict<'a>(&self, partition: &'a MigConfig) -> ConfigVerdict<'a> {
        let each = partition.entries.iter().map(|entry| self.judge(entry));
        let each: Vec<Vec<Judged<'a>>> = each.collect();
        let legal = each.iter().all(|judged| self.is_legal(judged));
        ConfigVerdict { partition, judged: each.into_iter().flatten().collect(), legal }
    }

    /// Which of the models an entry is for may be nobody's word: one that takes it is enough then.
    fn is_legal(&self, judged: &[Judged<'_>]) -> bool {
        let mut outcomes = judged.iter().map(|judged| judged.outcome.is_legal());
        let is_open = self.asked.is_none() && judged.iter().all(|j| j.entry.filter.is_empty());
        if is_open { outcomes.any(|legal| legal) } else { outcomes.all(|legal| legal) }
    }

    fn judge<'a>(&self, entry: &'a MigEntry) -> Vec<Judged<'a>> {
        let judged = |model, outcome| Judged { entry, model, outcome };
        let on = |geometry: &Geometry| judged(Some(geometry.model()), outcome(entry, geometry));
        let models = || entry.filter.iter().map(|id| model_of_filter(id));
        let mut named: Vec<&'static Model> = models().flatten().collect();
        if let Some(asked) = self.asked {
            if !entry.filter.is_empty() && !named.contains(&asked) {
                return vec![judged(Some(asked), EntryOutcome::OtherModel)];
            }
            named = vec![asked];
        } else if models().any(|model| model.is_none()) {
            return vec![judged(None, EntryOutcome::UnknownFilter)];
        }
        let of_these = |is_one: &dyn Fn(&&Geometry) -> bool| {
            self.geometries.iter().filter(|g| is_one(g)).map(on).collect::<Vec<_>>()
        };
        if !named.is_empty() {
            return of_these(&|geometry| named.contains(&geometry.model()));
        }
        if !entry.enabled {
            return vec![judged(None, EntryOutcome::Undivided)];
        }
        let common: Vec<_> = self.common.iter().map(|geometry| on(geometry)).collect();
        if self.is_legal(&common) {
            return common;
        }
        let own = of_these(&|geometry| has_all(geometry, entry));
        if own.is_empty() { vec![judged(None, EntryOutcome::NoModel)] } else { own }
    }
}

fn outcome(entry: &MigEntry, geometry: &Geometry) -> EntryOutcome {
    if !entry.enabled {
        return EntryOutcome::Undivided;
    }
    match geometry.place(&undivided(&entry.profiles)) {
        Ok(slices) => {
            let left = geometry.left(&slices);
            EntryOutcome::Divided(slices, left)
        }
        Err(misfit) => EntryOutcome::Misfit(misfit),
    }
}

/// How many slices it takes: compute instances share one as long as it has room for them.
fn undivided(profiles: &[(Profile, u32)]) -> Vec<(Profile, u32)> {
    let mut slices: Vec<(Profile, u32)> = Vec::new();
    let mut kinds: Vec<Profile> = profiles.iter().map(|(p, _)| p.undivided()).collect();
    kinds.dedup();
    for kind in kinds {
        let of_kind = || profiles.iter().filter(|(p, _)| p.undivided() == kind);
        let whole: u32 = of_kind().filter(|(p, _)| p.instances.is_none()).map(|(_, n)| n).sum();
        let parts = of_kind().filter_map(|(p, n)| Some(u32::from(p.instances?).saturating_mul(*n)));
        let parts = parts.fold(0, u32::saturating_add).div_ceil(kind.slices.into());
        slices.push((kind, whole.saturating_add(parts)));
    }
    slices
}
