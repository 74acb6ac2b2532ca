//! How few cards can do at all: no card weighs more than its heaviest filling, whatever a slice is
//! said to weigh.

use super::{CardHost, Counts};
use divvy_ledger::Profile;
use divvy_ledger::mig::{Geometry, Model};

/// Ways to weigh slices, each with what the heaviest filling weighs.
pub(super) struct LeastCards {
    /// By size, by compute, by halves of a card, and each profile for itself.
    few: Vec<(Counts, u32)>,
    /// All small weights, where there are few profiles.
    many: Vec<(Counts, u32)>,
}

/// More ways to weigh than this are not worth their time.
const MOST_WEIGHTS: usize = 5_000;

/// What cards of each model can hold.
pub(super) type Fillings = Vec<(&'static Model, Vec<Counts>)>;

/// What cards of each model can hold of these profiles, the memory slices of each, and how few cards
/// can do.
pub(super) fn of_models(
    hosts: &[CardHost],
    profiles: &[Profile],
) -> (Fillings, Counts, LeastCards) {
    let mut geometries: Vec<Geometry> = Vec::new();
    for host in hosts {
        if !geometries.iter().any(|known| known.model() == host.model) {
            geometries.push(Geometry::of(host.model));
        }
    }
    let filling = |geometry: &Geometry| (geometry.model(), geometry.fillings(profiles));
    let fillings: Fillings = geometries.iter().map(filling).collect();
    let heaviest = |weights: &[u32]| {
        let all = fillings.iter().flat_map(|(_, fillings)| fillings);
        all.map(|filling| weigh(weights, filling)).max().unwrap_or(0)
    };
    let weighed = |weights: Counts| Some((heaviest(&weights), weights)).filter(|(h, _)| *h > 0);
    let ready = |all: Vec<Counts>| -> Vec<(Counts, u32)> {
        all.into_iter().filter_map(weighed).map(|(heaviest, weights)| (weights, heaviest)).collect()
    };
    let cut = |profile: &Profile| geometries.iter().find_map(|g| g.find(*profile));
    let by = |weight: &dyn Fn(u8, u8) -> u8| -> Counts {
        let weights =
            profiles.iter().map(|p| cut(p).map_or(0, |cut| weight(cut.size, cut.compute)));
        weights.map(u32::from).collect()
    };
    let sizes = by(&|size, _| size);
    let mut few = vec![sizes.clone(), by(&|_, compute| compute), by(&|size, _| size / 4)];
    few.extend((0..profiles.len()).map(|at| {
        let mut one = vec![0; profiles.len()];
        one[at] = 1;
        one
    }));
    let bound = LeastCards { few: ready(few), many: ready(grid(profiles.len())) };
    (fillings, sizes, bound)
}

/// All weights from 0 to a small number, as long as they are not too many.
fn grid(profiles: usize) -> Vec<Counts> {
    let power = |base: usize| base.checked_pow(u32::try_from(profiles).unwrap_or(u32::MAX));
    let fits = |base: &usize| power(*base).is_some_and(|all| all <= MOST_WEIGHTS);
    let Some(base) = (2..=5).rev().find(fits) else { return Vec::new() };
    let all = 0..power(base).unwrap_or(0);
    all.map(|number| {
        let digits = (0..profiles).scan(number, |rest, _| {
            let digit = *rest % base;
            *rest /= base;
            u32::try_from(digit).ok()
        });
        digits.collect()
    })
    .collect()
}

fn weigh(weights: &[u32], counts: &[u32]) -> u32 {
    weights.iter().zip(counts).fold(0, |sum, (w, n)| sum.saturating_add(w.saturating_mul(*n)))
}

fn fewest(weights: &[(Counts, u32)], needs: &[u32]) -> u32 {
    let cards = weights.iter().map(|(weights, heaviest)| weigh(weights, needs).div_ceil(*heaviest));
    cards.max().unwrap_or(0)
}

impl LeastCards {
    /// No fewer cards can do.
    pub(super) fn quickly(&self, needs: &[u32]) -> u32 {
        fewest(&self.few, needs)
    }

    /// The same, closer and slower.
    pub(super) fn exactly(&self, needs: &[u32]) -> u32 {
        self.quickly(needs).max(fewest(&self.many, needs))
    }
}
