//! What a pod holds of GPUs, in whole ones: a whole card is 1, a share its part of the card, a time
//! slice or MPS replica its part of the cards behind all of them, a MIG slice its part of the card's
//! memory.

use crate::slices::held;
use divvy_engine::Scheduler;
use divvy_ledger::mig::Model;
use divvy_ledger::{Division, Holding, Node, Pool};
use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::AddAssign;

/// In millionths of a card, so that sums do not depend on their order.
const CARD: u64 = 1_000_000;

/// So many GPUs, each rounded down to a millionth: nothing is counted that is not held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Equivalent {
    millionths: u64,
}

impl Equivalent {
    /// What a pod holds, and how many of its slices cannot be counted so, because nobody says what
    /// they are of a card.
    pub(crate) fn held(scheduler: &Scheduler, holding: &Holding) -> (Self, u32) {
        let Some(node) = scheduler.ledger().node(holding.node) else { return Default::default() };
        let whole = holding.needs.request.whole_cards() > 0;
        let cards = holding.cards.iter().map(|grant| {
            let card = node.cards().get(grant.index as usize);
            let size = card.map_or(0, |card| card.capacity().0);
            if whole { CARD } else { part(grant.bytes.0, size, 1).unwrap_or(0) }
        });
        let (mut millionths, mut unknown) = (cards.fold(0, u64::saturating_add), 0u32);
        for (device, count) in held(holding) {
            let pool = node.capacity().gpus.pool(device);
            match pool.and_then(|pool| of_pool(scheduler, holding, node, pool, count)) {
                Some(slices) => millionths = millionths.saturating_add(slices),
                None => unknown = unknown.saturating_add(count),
            }
        }
        (Self { millionths }, unknown)
    }

    /// As a number.
    pub fn gpus(self) -> f64 {
        // Below 2^53 this is exact but for the division.
        self.millionths as f64 / CARD as f64
    }
}

/// So many slices of a pool.
fn of_pool(
    scheduler: &Scheduler,
    holding: &Holding,
    node: &Node,
    pool: &Pool,
    count: u32,
) -> Option<u64> {
    let replicas = u64::from(pool.replicas);
    if pool.profile.is_none() && pool.by != Some(Division::Mig) {
        return part(1, replicas, count);
    }
    let slice = pool.each?.0.saturating_mul(replicas);
    let model = scheduler.model(holding.node).and_then(|model| model.parse::<&Model>().ok());
    if let Some(model) = model {
        // The names of profiles round their memory: a slice has so many of the card's memory slices.
        let (all, each) = (model.memory_slices(), model.memory_of(1).0);
        let nearest = slice.saturating_add(each / 2).checked_div(each)?;
        return part(nearest.max(1), u64::from(all).saturating_mul(replicas), count);
    }
    let card = node.cards().iter().map(|card| card.capacity().0).max();
    part(slice, card.filter(|card| *card > 0)?.saturating_mul(replicas), count)
}

/// So many parts of a card in millionths, rounded down once; none is more than all of it.
fn part(part: u64, of: u64, count: u32) -> Option<u64> {
    let all = u128::from(part.min(of)) * u128::from(CARD) * u128::from(count);
    Some(u64::try_from(all.checked_div(of.into())?).unwrap_or(u64::MAX))
}

impl AddAssign for Equivalent {
    fn add_assign(&mut self, other: Self) {
        self.millionths = self.millionths.saturating_add(other.millionths);
    }
}

/// `2.5`: up to three decimals, rounded down; what is less than that is `<0.001`.
impl fmt::Display for Equivalent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cards, rest) = (self.millionths / CARD, self.millionths % CARD / 1_000);
        match (cards, rest) {
            (0, 0) if self.millionths > 0 => f.write_str("<0.001"),
            (cards, 0) => write!(f, "{cards}"),
            (cards, rest) => f.write_str(format!("{cards}.{rest:03}").trim_end_matches('0')),
        }
    }
}

impl Serialize for Equivalent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.gpus().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Cluster, fraction, mib, node, whole};
    use divvy_engine::ObjectKey;

    fn held(cluster: &Cluster, name: &str) -> String {
        let holding = cluster.scheduler.holding(&ObjectKey::new("ml", name)).unwrap();
        let (gpus, unknown) = Equivalent::held(&cluster.scheduler, holding);
        assert_eq!(unknown, 0);
        gpus.to_string()
    }

    #[test]
    fn each_way_to_hold_a_part_of_a_card_is_counted_as_that_part() {
        let cluster = Cluster::new()
            .with(node("a", "x", 8, 80))
            .ask("ml/whole", whole(2))
            .ask("ml/share", fraction("0.25", 2))
            .ask("ml/third", fraction("0.333", 1))
            .ask("ml/least", mib(1, 1));
        assert_eq!(held(&cluster, "whole"), "2");
        assert_eq!(held(&cluster, "share"), "0.5");
        assert_eq!(held(&cluster, "third"), "0.332", "rounded down, as the bytes are");
        assert_eq!(held(&cluster, "least"), "<0.001");
        let sliced = Cluster::sliced();
        assert_eq!(held(&sliced, "two"), "0.5", "two of four turns on each of two cards");
        assert_eq!(held(&sliced, "one"), "0.125", "10 of 80 GB");
        assert_eq!(held(&sliced, "big"), "0.5", "40 of 80 GB");
    }
}
