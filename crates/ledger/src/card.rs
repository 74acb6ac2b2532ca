//! One physical GPU and who holds it.

use crate::{Bytes, Class, Device, Needs, Part, Percent, PodId};
use smallvec::SmallVec;
use std::sync::Arc;

/// A part of a card held by one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Who holds it.
    pub pod: PodId,
    /// How much of its memory.
    pub bytes: Bytes,
    /// How much of its compute.
    pub compute: Percent,
}

/// What a card is used for: exactly one of these at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Nobody holds any of it.
    #[default]
    Free,
    /// One pod holds all of it.
    Whole(PodId),
    /// Pods hold parts of it, or it is kept for them.
    Shared(Box<Shared>),
    /// The device plugin hands out parts of it: it is given neither whole nor in shares.
    Divided(Box<Divided>),
}

/// How a card is divided before anybody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Division {
    /// Into time slices, which have no memory of their own.
    TimeSlices,
    /// Into clients of a CUDA MPS server, each with its part of memory and threads.
    Mps,
    /// Into MIG slices.
    Mig,
}

/// A card of which the device plugin hands out parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divided {
    /// How.
    pub by: Division,
    /// What it is divided into, and how many there are of each.
    pub into: SmallVec<[(Device, u32); 1]>,
    /// Which parts are known to be on this card, by pod. Others may be, too: how many are taken of
    /// all parts of a node is counted there.
    pub held: SmallVec<[(PodId, Device, u32); 2]>,
}

impl Divided {
    /// How many parts it has of all kinds, and how many of them are known to be taken.
    pub fn taken(&self) -> (u32, u32) {
        let total = self.into.iter().map(|(_, count)| *count).fold(0, u32::saturating_add);
        let taken = self.held.iter().map(|(_, _, count)| *count).fold(0, u32::saturating_add);
        (taken, total)
    }

    /// What so many of its parts are of its memory.
    pub fn part(&self, capacity: Bytes, count: u32) -> Bytes {
        let (_, total) = self.taken();
        let of = u128::from(capacity.0) * u128::from(count) / u128::from(total.max(1));
        Bytes(u64::try_from(of).unwrap_or(u64::MAX)).min(capacity)
    }
}

impl Division {
    /// What its parts are called.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::TimeSlices => "time slices",
            Self::Mps => "MPS replicas",
            Self::Mig => "MIG slices",
        }
    }

    /// What one of its parts is called.
    pub const fn singular(self) -> &'static str {
        match self {
            Self::TimeSlices => "time slice",
            Self::Mps => "MPS replica",
            Self::Mig => "MIG slice",
        }
    }
}

/// A shared card; somebody shares it or keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// What all its shares have in common; the usual one if there are none.
    pub class: Class,
    /// The parts of it that are held, in the order they came.
    pub shares: SmallVec<[Share; 2]>,
    /// The reservations that keep it from everybody else: one, once it is seen to be kept.
    pub keepers: SmallVec<[PodId; 1]>,
}

/// How a holder uses its cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Whole,
    Share { compute: Percent, class: Class },
}

impl Use {
    /// By what a holder is, and asks.
    pub(crate) fn of(needs: &Needs) -> Self {
        match needs.request.part() {
            Some(Part { compute, class, .. }) => Self::Share { compute, class },
            None if needs.request.whole_cards() > 0 => Self::Whole,
            None => Self::Share { compute: Percent::default(), class: Class::default() },
        }
    }
}

/// Why a card takes nobody new: it is open if there is no reason. The end of one lifts no other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Intake(u8);

impl Intake {
    /// No reason.
    pub const OPEN: Self = Self(0);
    /// Some pod claims more of it than there is.
    pub const DISPUTED: Self = Self(1);
    /// It is held, but does not work: the node counts it no more.
    pub const SICK: Self = Self(2);
    /// Whoever keeps it is on the way out.
    pub const RETURNING: Self = Self(4);
    /// Somebody else has it too.
    pub const CONFLICT: Self = Self(8);

    /// The reasons of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The reasons without these.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all these reasons are among them.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A card. Its capacity does not change while anybody holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    pub(crate) capacity: Bytes,
    pub(crate) mode: Mode,
    pub(crate) intake: Intake,
    pub(crate) name: Option<Arc<Name>>,
}

/// Which physical card it is, as far as somebody has said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Its UUID.
    pub uuid: Box<str>,
    /// The number that tools of the node call it by.
    pub number: Option<u32>,
}

/// What is known of a card besides who holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Why it takes nobody new.
    pub intake: Intake,
    /// Which card it is.
    pub name: Option<Arc<Name>>,
}

impl Card {
    /// The capacity of a card of unknown memory: large enough for every fraction of 15 decimals
    /// and small enough to add up over a node's cards.
    pub(crate) const UNKNOWN_MEMORY: Bytes = Bytes(1_000_000_000_000_000);

    pub(crate) const fn free(capacity: Bytes) -> Self {
        Self { capacity, mode: Mode::Free, intake: Intake::OPEN, name: None }
    }

    /// All its memory.
    pub const fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// Whether its capacity is known. If not, only fractions of it mean anything.
    pub const fn knows_memory(&self) -> bool {
        self.capacity.0 != Self::UNKNOWN_MEMORY.0
    }

    /// Why it takes nobody new.
    pub const fn intake(&self) -> Intake {
        self.intake
    }

    /// Whether a bound pod claims what others hold.
    pub const fn is_disputed(&self) -> bool {
        self.intake.has(Intake::DISPUTED)
    }

    /// Whether it is held, but does not work.
    pub(crate) const fn is_sick(&self) -> bool {
        self.intake.has(Intake::SICK)
    }

    /// Whether it is shared, and no reservation keeps it: one is to come.
    pub(crate) fn lacks_keeper(&self) -> bool {
        matches!(&self.mode, Mode::Shared(shared) if shared.keepers.is_empty())
    }

    /// Whether it may take a new holder, if the node's cards are so large now.
    pub(crate) fn takes_more(&self, size: Bytes) -> bool {
        self.capacity == size && self.intake == Intake::OPEN
    }

    /// Which physical card it is, if that is known. Of one that is free nobody says: the device
    /// plugin hands out which it likes.
    pub fn name(&self) -> Option<&Name> {
        self.name.as_deref()
    }

    /// What it is used for, and who holds it.
    pub const fn mode(&self) -> &Mode {
        &self.mode
    }

    /// The memory that is held.
    pub fn used(&self) -> Bytes {
        match &self.mode {
            Mode::Free => Bytes(0),
            Mode::Divided(divided) => divided.part(self.capacity, divided.taken().0),
            Mode::Whole(_) => self.capacity,
            Mode::Shared(shared) => Bytes(shared.shares.iter().map(|s| s.bytes.0).sum()),
        }
    }

    /// The compute that shares ask for themselves.
    pub fn compute(&self) -> Percent {
        let sum = self.shares().iter().map(|share| u32::from(share.compute.0)).sum::<u32>();
        Percent(u8::try_from(sum).unwrap_or(u8::MAX))
    }

    /// What its shares have in common; `None` if there are none.
    pub fn class(&self) -> Option<Class> {
        match &self.mode {
            Mode::Shared(shared) if !shared.shares.is_empty() => Some(shared.class),
            Mode::Shared(_) | Mode::Free | Mode::Whole(_) | Mode::Divided(_) => None,
        }
    }

    /// Whether somebody holds it, or some of it.
    pub(crate) const fn is_held(&self) -> bool {
        matches!(self.mode, Mode::Whole(_) | Mode::Shared(_))
    }

    /// Whether a share of this class, with so much compute, goes with those that are on it.
    pub(crate) fn goes_with(&self, part: &Part) -> bool {
        self.class().is_none_or(|class| class == part.class)
            && part.compute <= Percent::ALL.minus(self.compute())
    }

    /// The shares on it; none if it is free, whole or divided.
    pub fn shares(&self) -> &[Share] {
        match &self.mode {
            Mode::Shared(shared) => &shared.shares,
            Mode::Free | Mode::Whole(_) | Mode::Divided(_) => &[],
        }
    }

    /// The reservations that keep it for shares.
    pub fn keepers(&self) -> &[PodId] {
        match &self.mode {
            Mode::Shared(shared) => &shared.keepers,
            Mode::Free | Mode::Whole(_) | Mode::Divided(_) => &[],
        }
    }

    /// Gives it to a holder, who was checked to get it.
    pub(crate) fn give(&mut self, pod: PodId, bytes: Bytes, by: Use) {
        match by {
            Use::Whole => self.mode = Mode::Whole(pod),
            Use::Share { compute, class } => self.open(|shared| {
                shared.class = class;
                shared.shares.push(Share { pod, bytes, compute });
            }),
        }
    }

    /// Gives it to a reservation, which was checked to get it.
    pub(crate) fn keep(&mut self, pod: PodId) {
        self.open(|shared| shared.keepers.push(pod));
    }

    fn open(&mut self, change: impl FnOnce(&mut Shared)) {
        if !matches!(self.mode, Mode::Shared(_)) {
            self.mode = Mode::Shared(Box::default());
        }
        if let Mode::Shared(shared) = &mut self.mode {
            change(shared);
        }
    }

    /// Forgets that a pod has parts of it, if it is divided.
    pub(crate) fn take_off(&mut self, pod: PodId) {
        if let Mode::Divided(divided) = &mut self.mode {
            divided.held.retain(|(holder, ..)| *holder != pod);
        }
    }

    /// Whether it has this UUID.
    pub(crate) fn is_called(&self, uuid: &str) -> bool {
        self.name().is_some_and(|name| *name.uuid == *uuid)
    }

    /// Whether it is divided, and nobody has said which card it is.
    pub(crate) const fn is_nameless_divided(&self) -> bool {
        matches!(self.mode, Mode::Divided(_)) && self.name.is_none()
    }

    /// Gives back whatever `pod` holds here.
    pub(crate) fn release(&mut self, pod: PodId) {
        match &mut self.mode {
            Mode::Free => {}
            Mode::Whole(holder) if *holder != pod => {}
            Mode::Whole(_) => self.mode = Mode::Free,
            Mode::Divided(_) => {}
            Mode::Shared(shared) => {
                shared.shares.retain(|s| s.pod != pod);
                shared.keepers.retain(|keeper| *keeper != pod);
                if shared.shares.is_empty() {
                    shared.class = Class::default();
                }
                if shared.shares.is_empty() && shared.keepers.is_empty() {
                    self.mode = Mode::Free;
                }
            }
        }
        if self.mode == Mode::Free {
            self.name = None;
        }
    }
}
