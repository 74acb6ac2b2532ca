//! What a search looks at of a node: two lines of memory, side by side with those of all nodes.
//!
//! Nodes are large and far apart, and most of the time of a search would go into fetching them. A
//! glance says of most pods whether they fit; of the others, [`Node::fits`] looks at cards and
//! devices, and knows no glances.

use crate::node::{Node, Opening, Room};
use crate::{Bytes, Class, Needs, Part, Portion};

/// A node at a glance. On one that is not there no pod fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(128))]
pub struct Glance {
    room: Room,
    /// CPU in all.
    pub cpu: Total,
    /// Memory in all.
    pub memory: Total,
    /// Memory of all cards.
    pub gpu: Total,
    card_size: Bytes,
    /// The classes that shares may have, of the first sixteen, by bit.
    classes: u16,
    shares: Shares,
    /// Whether it gives no cards, since nobody knows who has which.
    closed: bool,
    /// Whether it has devices that are only counted.
    counts_devices: bool,
    has_gpus: bool,
}

const _: () = assert!(size_of::<Glance>() == 128);

/// Which shares a node can have on its cards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shares {
    #[default]
    None,
    /// No card says how large it is.
    Fractions,
    All,
}

/// What there is of something, and what makes dividing by it cheap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    all: u64,
    /// 2^64 divided by `all`, rounded down; 0 where `all` is too large for a product to be taken.
    inverse: u64,
}

impl Total {
    const MOST: u64 = 1 << 47;
    const FULL: u64 = u16::MAX as u64;

    /// The same, unless it is another number.
    fn or(self, all: u64) -> Self {
        if self.all == all {
            return self;
        }
        Self {
            all,
            inverse: if all < Self::MOST { u64::MAX.checked_div(all).unwrap_or(0) } else { 0 },
        }
    }

    /// All of it.
    pub const fn all(&self) -> u64 {
        self.all
    }

    /// `used` of it in 65535ths, rounded down.
    #[inline]
    pub fn part(&self, used: u64) -> u64 {
        if self.inverse == 0 {
            return self.part_by_division(used);
        }
        let product = used.min(self.all) * Self::FULL;
        // At most one too few, for the inverse is less than one too small.
        let about = ((u128::from(product) * u128::from(self.inverse)) >> 64) as u64;
        about + u64::from(product - about * self.all >= self.all)
    }

    #[cold]
    fn part_by_division(&self, used: u64) -> u64 {
        let shift = (64 - self.all.leading_zeros()).saturating_sub(47);
        let all = self.all >> shift;
        ((used >> shift).min(all) * Self::FULL).checked_div(all).unwrap_or(0)
    }
}

impl Glance {
    /// What is left of the node.
    pub const fn room(&self) -> &Room {
        &self.room
    }

    /// The capacity of the largest card that is free now or comes free; 0 if there are none.
    pub const fn card_size(&self) -> Bytes {
        self.card_size
    }

    /// Whether it has GPUs of any kind.
    pub const fn has_gpus(&self) -> bool {
        self.has_gpus
    }

    /// Whether it has devices that are only counted.
    pub const fn counts_devices(&self) -> bool {
        self.counts_devices
    }

    /// Whether such a share, which is `usual` on a card of the usual size, can join a card. `None` if
    /// that takes a closer look.
    #[inline]
    pub fn can_join(&self, part: Part, usual: Bytes) -> Option<bool> {
        let room = &self.room;
        match room.class {
            _ if room.is_mixed || part.compute.0 > 0 => None,
            _ if room.share < usual => Some(false),
            // A card that is kept, and has no share yet, takes any class.
            Some(class) if class != part.class => None,
            _ => Some(true),
        }
    }

    /// Whether a pod fits. `None` if that takes a closer look.
    #[inline]
    pub(crate) fn fits(
        &self,
        needs: &Needs,
        share: Bytes,
        opening: Option<Opening>,
    ) -> Option<bool> {
        let (room, request) = (&self.room, &needs.request);
        let is_short = room.cpu < needs.cpu
            || room.memory < needs.memory
            || room.ephemeral < needs.ephemeral
            || room.pods == 0;
        if is_short || room.whole < request.whole_cards() {
            return Some(false);
        }
        if let Some(part) = request.part()
            && !self.share_fits(needs, part, share, opening)?
        {
            return Some(false);
        }
        if request.asks_cards() && self.closed {
            return Some(false);
        }
        let is_all = needs.extended.is_empty()
            && !request.asks_devices()
            && (!self.counts_devices || request.whole_cards() < 2);
        is_all.then_some(true)
    }

    #[inline]
    fn share_fits(
        &self,
        needs: &Needs,
        part: Part,
        share: Bytes,
        opening: Option<Opening>,
    ) -> Option<bool> {
        let room = &self.room;
        if needs.request.cards() > 1 {
            return None;
        }
        let joins = self.can_join(part, share)?;
        if !joins && room.whole == 0 {
            return Some(false);
        }
        let has = match self.shares {
            Shares::None => false,
            Shares::Fractions => matches!(part.portion, Portion::Fraction(_)),
            Shares::All => true,
        };
        if !has || share > self.card_size {
            return Some(false);
        }
        let offers = (part.class.0 < 16).then(|| self.classes >> part.class.0 & 1 > 0)?;
        if !offers {
            return Some(false);
        }
        Some(
            joins
                || opening.is_none_or(|opening| {
                    room.pods > 1
                        && room.cpu.0 - needs.cpu.0 >= opening.cpu.0
                        && room.memory.0 - needs.memory.0 >= opening.memory.0
                }),
        )
    }
}

impl Node {
    /// What a search looks at of it; what is known of its totals stays.
    pub(crate) fn glance(&self, before: &Glance) -> Glance {
        if !self.is_alive() {
            return Glance::default();
        }
        let (has, room) = (self.capacity(), *self.room());
        let gpus = &has.gpus;
        let usual = std::iter::once(Class::default());
        let classes = usual.chain(gpus.classes.iter().copied());
        Glance {
            room,
            cpu: before.cpu.or(has.cpu.0),
            memory: before.memory.or(has.memory.0),
            gpu: before.gpu.or(room.gpu_total),
            card_size: self.card_size(),
            classes: classes
                .filter(|class| class.0 < 16)
                .fold(0, |bits, class| bits | 1 << class.0),
            shares: match self.card_count().min(gpus.usable) {
                0 => Shares::None,
                _ if self.is_divided => Shares::None,
                _ if self.knows_no_size() => Shares::Fractions,
                _ => Shares::All,
            },
            closed: self.is_unsettled() || self.has_unknown_holder(),
            counts_devices: !gpus.pools.is_empty(),
            has_gpus: self.has_gpus(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_part_of_a_total_is_rounded_down(all: u64, used: u64, shift in 0u32..64) {
            let (all, used) = (all >> shift, used >> shift);
            let total = Total::default().or(all);
            let whole = u128::from(all).max(1);
            let exact = u128::from(used.min(all)) * 65_535 / whole;
            // Beyond 2^47 the lowest bits do not count.
            let lost = u128::from(all >= Total::MOST);
            prop_assert!(u128::from(total.part(used)).abs_diff(exact) <= lost);
            prop_assert_eq!(total.or(7).or(all), total);
        }
    }
}
