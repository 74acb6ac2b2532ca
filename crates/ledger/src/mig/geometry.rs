//! Where the slices of a card may lie, and which places keep most open.

use super::models::FrameCut;
use super::{Model, listed};
use crate::{Bytes, Engines, Profile};
use std::fmt;

/// A profile on a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Its names; drivers differ. The usual one is first.
    pub names: Vec<Profile>,
    /// Compute slices.
    pub compute: u8,
    /// Memory slices.
    pub size: u8,
    /// The memory slices where it may begin.
    pub starts: &'static [u8],
    /// How many a card has at most.
    pub most: u32,
    /// Memory.
    pub memory: Bytes,
    media: u8,
    unique: bool,
}

impl Cut {
    /// The usual name.
    pub fn profile(&self) -> Profile {
        self.names[0]
    }

    const fn interval(&self, start: u8) -> u8 {
        (((1u16 << self.size) - 1) << start) as u8
    }
}

/// A slice on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slice {
    /// Its first memory slice.
    pub start: u8,
    /// How many memory slices it has.
    pub size: u8,
    /// What it is.
    pub profile: Profile,
}

/// What is left of a card beside its slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Memory slices that no slice has.
    pub memory_slices: u8,
    /// Compute slices that no slice has.
    pub compute_slices: u8,
    /// The memory of the former.
    pub memory: Bytes,
    /// Profiles of which one more fits, from small to large.
    pub fits: Vec<Profile>,
}

/// Why slices are not together on one card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The model has no such profile.
    NoProfile {
        /// Which.
        profile: Profile,
        /// The model.
        model: &'static str,
        /// What it has.
        allowed: Vec<Profile>,
    },
    /// No card has so many of one profile.
    TooMany {
        /// Which.
        profile: Profile,
        /// How many are asked.
        asked: u32,
        /// How many a card has at most.
        most: u32,
    },
    /// Engines that a card has only so often are asked more often.
    Engines {
        /// Who ask for them.
        profiles: Vec<(Profile, u32)>,
    },
    /// Some have no room beside the others.
    NoRoom {
        /// Which, and how many of them are asked.
        profile: (Profile, u32),
        /// How many of them fit.
        fit: u32,
        /// What is there already: the larger ones.
        beside: Vec<(Profile, u32)>,
        /// Memory slices that all of these ask.
        asked: u32,
        /// Memory slices of a card.
        slices: u8,
    },
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProfile { profile, model, allowed } => {
                let allowed: Vec<_> = allowed.iter().map(|p| p.in_config()).collect();
                let (profile, allowed) = (profile.in_config(), allowed.join(", "));
                write!(f, "{profile} is no profile of {model}; allowed are {allowed}")
            }
            Self::TooMany { profile, asked, most } => {
                let profile = profile.in_config();
                write!(f, "{asked} x {profile}: a card has at most {most}")
            }
            Self::Engines { profiles } => {
                let all = listed(profiles);
                write!(f, "{all}: together they ask for more media engines than a card has")
            }
            Self::NoRoom { profile, fit, beside, asked, slices } => {
                let name = profile.0.in_config();
                match fit {
                    0 => write!(f, "no room for {name}")?,
                    _ => write!(f, "room for only {fit} of {} x {name}", profile.1)?,
                }
                if !beside.is_empty() {
                    write!(f, " beside {}", listed(beside))?;
                }
                match *asked > u32::from(*slices) {
                    true => write!(f, ": {asked} of {slices} memory slices are asked"),
                    false => write!(f, ": wherever they lie, no place where it may begin is free"),
                }
            }
        }
    }
}

/// Where the slices of a model may lie.
#[derive(Clone, Debug)]
pub struct Geometry {
    model: &'static Model,
    cuts: Vec<Cut>,
    /// For each set of memory slices that are taken: how many sets of slices can be added, of the
    /// profiles that differ in size.
    options: Vec<u32>,
}

/// How many of each cut.
type Counts = Vec<u32>;

impl Geometry {
    /// The geometry of a model.
    pub fn of(model: &'static Model) -> Self {
        let cuts: Vec<Cut> = model.frame.cuts.iter().map(|cut| Self::cut(model, cut)).collect();
        let slices = model.memory_slices();
        let mut options = vec![1u32; 1 << slices];
        for taken in (0..options.len()).rev() {
            let first = (taken as u32).trailing_ones() as u8;
            if first >= slices {
                continue;
            }
            // Nothing begins at the first free one, or one of these does.
            let mut sum = options[taken | 1 << first];
            for cut in cuts.iter().filter(|cut| cut.profile().engines == Engines::Usual) {
                let interval = usize::from(cut.interval(first));
                if cut.starts.contains(&first) && taken & interval == 0 {
                    sum += options[taken | interval];
                }
            }
            options[taken] = sum;
        }
        Self { model, cuts, options }
    }

    fn cut(model: &Model, cut: &FrameCut) -> Cut {
        let apart = cut.starts.iter().fold((0, 0), |(count, end), start| match *start >= end {
            true => (count + 1, start + cut.size),
            false => (count, end),
        });
        let by_media = u32::from(model.frame.media).checked_div(cut.media.into());
        let most = if cut.unique { 1 } else { by_media.unwrap_or(u32::MAX).min(apart.0) };
        Cut {
            names: model.names(cut).collect(),
            compute: cut.compute,
            size: cut.size,
            starts: cut.starts,
            most,
            memory: model.memory(cut),
            media: cut.media,
            unique: cut.unique,
        }
    }

    /// Whose it is.
    pub const fn model(&self) -> &'static Model {
        self.model
    }

    /// All profiles, from small to large.
    pub fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    /// What a profile is here.
    pub fn find(&self, profile: Profile) -> Option<&Cut> {
        self.cuts.get(self.index(profile)?)
    }

    fn index(&self, profile: Profile) -> Option<usize> {
        self.cuts.iter().position(|cut| cut.names.contains(&profile))
    }

    /// Whether so many of each profile go together on one card.
    pub fn holds(&self, wanted: &[(Profile, u32)]) -> bool {
        self.counts(wanted).is_ok_and(|counts| {
            self.engines_suffice(&counts) && self.search(&counts, &mut |_| false)
        })
    }

    /// Where so many of each profile lie on one card, with as much kept open as can be.
    pub fn place(&self, wanted: &[(Profile, u32)]) -> Result<Vec<Slice>, Misfit> {
        let counts = self.counts(wanted)?;
        if !self.engines_suffice(&counts) {
            let asks = |(profile, _): &&(Profile, u32)| {
                self.find(*profile).is_some_and(|cut| cut.media > 0 || cut.unique)
            };
            let profiles = wanted.iter().filter(asks).copied().collect();
            return Err(Misfit::Engines { profiles });
        }
        // High starts first: the low half is the only place for the largest.
        let mut best: Option<(u32, Vec<(usize, u8)>)> = None;
        self.search(&counts, &mut |found| {
            let taken = found
                .iter()
                .fold(0, |taken, (at, start)| taken | usize::from(self.cuts[*at].interval(*start)));
            let options = self.options[taken];
            if best.as_ref().is_none_or(|(most, _)| options > *most) {
                best = Some((options, found.to_vec()));
            }
            true
        });
        let Some((_, found)) = best else { return Err(self.lack(wanted, &counts)) };
        let name = |at: usize| {
            let asked = wanted.iter().map(|(profile, _)| *profile);
            let mut names = asked.filter(|profile| self.index(*profile) == Some(at));
            names.next().unwrap_or_else(|| self.cuts[at].profile())
        };
        let slice = |&(at, start): &(usize, u8)| {
            let size = self.cuts[at].size;
            Slice { start, size, profile: name(at) }
        };
        let mut slices: Vec<Slice> = found.iter().map(slice).collect();
        slices.sort_unstable();
        Ok(slices)
    }

    /// What these slices leave of a card.
    pub fn left(&self, slices: &[Slice]) -> Leftover {
        let mut taken = 0usize;
        let (mut compute, mut media, mut unique) = (0, 0, false);
        for (slice, cut) in slices.iter().filter_map(|s| Some((s, self.find(s.profile)?))) {
            taken |= usize::from(cut.interval(slice.start));
            compute += cut.compute;
            media += cut.media;
            unique |= cut.unique;
        }
        let memory_slices = self.model.memory_slices() - taken.count_ones() as u8;
        let fits = |cut: &&Cut| {
            let is_free = |start: &u8| usize::from(cut.interval(*start)) & taken == 0;
            let media = media + cut.media <= self.model.frame.media;
            media && !(unique && cut.unique) && cut.starts.iter().any(is_free)
        };
        Leftover {
            memory_slices,
            compute_slices: self.model.compute_slices().saturating_sub(compute),
            memory: self.model.memory_of(memory_slices),
            fits: self.cuts.iter().filter(fits).map(Cut::profile).collect(),
        }
    }

    /// The largest combinations of these profiles that one card holds, each as counts in their
    /// order: whatever a card holds of them is part of one.
    pub fn fillings(&self, profiles: &[Profile]) -> Vec<Vec<u32>> {
        let mut all: Vec<Vec<u32>> = Vec::new();
        self.extend(profiles, &mut vec![0; profiles.len()], 0, &mut all);
        let within = |a: &[u32], b: &[u32]| a != b && a.iter().zip(b).all(|(a, b)| a <= b);
        let is_largest = |one: &Vec<u32>| !all.iter().any(|other| within(one, other));
        all.iter().filter(|one| is_largest(one)).cloned().collect()
    }

    fn extend(&self, of: &[Profile], counts: &mut Counts, at: usize, all: &mut Vec<Counts>) {
        if at == of.len() {
            all.push(counts.clone());
            return;
        }
        loop {
            self.extend(of, counts, at + 1, all);
            counts[at] += 1;
            let wanted: Vec<_> = of.iter().copied().zip(counts.iter().copied()).collect();
            let wanted: Vec<_> = wanted.into_iter().filter(|(_, n)| *n > 0).collect();
            if !self.holds(&wanted) {
                counts[at] = 0;
                return;
            }
        }
    }

    /// How many of each cut, if the model has them all and no more than a card may have.
    fn counts(&self, wanted: &[(Profile, u32)]) -> Result<Counts, Misfit> {
        let mut counts = vec![0u32; self.cuts.len()];
        for (profile, count) in wanted {
            let Some(at) = self.index(*profile) else {
                let (profile, model) = (*profile, self.model.name);
                let allowed = self.cuts.iter().map(Cut::profile).collect();
                return Err(Misfit::NoProfile { profile, model, allowed });
            };
            counts[at] = counts[at].saturating_add(*count);
            let (asked, most) = (counts[at], self.cuts[at].most);
            if asked > most {
                return Err(Misfit::TooMany { profile: *profile, asked, most });
            }
        }
        Ok(counts)
    }

    fn engines_suffice(&self, counts: &[u32]) -> bool {
        let all = || self.cuts.iter().zip(counts);
        let media: u32 = all().map(|(cut, n)| u32::from(cut.media) * n).sum();
        let unique: u32 = all().filter(|(cut, _)| cut.unique).map(|(_, n)| *n).sum();
        media <= u32::from(self.model.frame.media) && unique <= 1
    }

    /// Shows the ways in which so many lie on a card, until `seen` wants no more. Whether it was
    /// shown any. Larger ones are laid first, from high starts to low ones.
    fn search(&self, counts: &[u32], seen: &mut impl FnMut(&[(usize, u8)]) -> bool) -> bool {
        let mut order: Vec<usize> = (0..counts.len())
            .rev()
            .flat_map(|at| std::iter::repeat_n(at, counts[at] as usize))
            .collect();
        order.sort_by_key(|at| std::cmp::Reverse(self.cuts[*at].size));
        let mut found = Vec::with_capacity(order.len());
        let (mut any, mut go_on) = (false, true);
        self.lay(&order, 0, &mut found, &mut |found| {
            any = true;
            go_on = go_on && seen(found);
            go_on
        });
        any
    }

    fn lay(
        &self,
        order: &[usize],
        taken: u8,
        found: &mut Vec<(usize, u8)>,
        seen: &mut impl FnMut(&[(usize, u8)]) -> bool,
    ) -> bool {
        let Some((&at, rest)) = order.split_first() else { return seen(found) };
        // Equal ones are laid in one order only.
        let below = match found.last() {
            Some(&(last, start)) if last == at => start,
            _ => u8::MAX,
        };
        for &start in self.cuts[at].starts.iter().rev().filter(|start| **start < below) {
            let interval = self.cuts[at].interval(start);
            if taken & interval == 0 {
                found.push((at, start));
                let go_on = self.lay(rest, taken | interval, found, seen);
                found.pop();
                if !go_on {
                    return false;
                }
            }
        }
        true
    }

    /// Which of them has no room, the largest being laid first.
    fn lack(&self, wanted: &[(Profile, u32)], counts: &[u32]) -> Misfit {
        let mut order: Vec<(usize, (Profile, u32))> =
            wanted.iter().filter_map(|asked| Some((self.index(asked.0)?, *asked))).collect();
        order.sort_by_key(|(at, _)| std::cmp::Reverse((self.cuts[*at].size, *at)));
        let mut laid = vec![0; counts.len()];
        let (mut beside, mut asked) = (Vec::new(), 0);
        let mut lacking = (self.cuts[0].profile(), 0, 0);
        for (at, (profile, count)) in order {
            asked += u32::from(self.cuts[at].size) * count;
            let fits = |fit: &u32| {
                laid[at] = fit + 1;
                self.search(&laid, &mut |_| false)
            };
            let fit = (0..count).take_while(fits).count() as u32;
            lacking = (profile, count, fit);
            if fit < count {
                break;
            }
            beside.push((profile, count));
        }
        let (profile, count, fit) = lacking;
        let slices = self.model.memory_slices();
        Misfit::NoRoom { profile: (profile, count), fit, beside, asked, slices }
    }
}
