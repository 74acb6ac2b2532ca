//! One physical GPU and who holds it.

use crate::{Bytes, PodId};
use smallvec::SmallVec;

/// A part of a card's memory held by one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Who holds it.
    pub pod: PodId,
    /// How much.
    pub bytes: Bytes,
}

/// What a card is used for: exactly one of these at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CardState {
    /// Nobody holds any of it.
    #[default]
    Free,
    /// One pod holds all of it.
    Whole(PodId),
    /// Pods hold parts of it, or it is kept for them.
    Shared(Box<Shared>),
}

/// A shared card; somebody shares it or keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// The parts of it that are held, in the order they came.
    pub shares: SmallVec<[Share; 2]>,
    /// The reservations that keep it from everybody else: one, once it is seen to be kept.
    pub keepers: SmallVec<[PodId; 1]>,
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
    pub(crate) state: CardState,
    pub(crate) intake: Intake,
}

impl Card {
    /// The capacity of a card of unknown memory: large enough for every fraction of 15 decimals
    /// and small enough to add up over a node's cards.
    pub(crate) const UNKNOWN_MEMORY: Bytes = Bytes(1_000_000_000_000_000);

    pub(crate) const fn free(capacity: Bytes) -> Self {
        Self { capacity, state: CardState::Free, intake: Intake::OPEN }
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
        matches!(&self.state, CardState::Shared(shared) if shared.keepers.is_empty())
    }

    /// Whether it may take a new holder, if the node's cards are so large now.
    pub(crate) fn takes_more(&self, size: Bytes) -> bool {
        self.capacity == size && self.intake == Intake::OPEN
    }

    /// Who holds it.
    pub const fn state(&self) -> &CardState {
        &self.state
    }

    /// The memory that is held.
    pub fn used(&self) -> Bytes {
        match &self.state {
            CardState::Free => Bytes(0),
            CardState::Whole(_) => self.capacity,
            CardState::Shared(shared) => Bytes(shared.shares.iter().map(|s| s.bytes.0).sum()),
        }
    }

    /// The shares on it; none if it is free or whole.
    pub fn shares(&self) -> &[Share] {
        match &self.state {
            CardState::Shared(shared) => &shared.shares,
            CardState::Free | CardState::Whole(_) => &[],
        }
    }

    /// The reservations that keep it for shares.
    pub fn keepers(&self) -> &[PodId] {
        match &self.state {
            CardState::Shared(shared) => &shared.keepers,
            CardState::Free | CardState::Whole(_) => &[],
        }
    }

    /// Gives it to a holder, who was checked to get it.
    pub(crate) fn give(&mut self, pod: PodId, bytes: Bytes, keeps: bool, whole: bool) {
        if whole {
            self.state = CardState::Whole(pod);
            return;
        }
        if !matches!(self.state, CardState::Shared(_)) {
            self.state = CardState::Shared(Box::default());
        }
        if let CardState::Shared(shared) = &mut self.state {
            match keeps {
                true => shared.keepers.push(pod),
                false => shared.shares.push(Share { pod, bytes }),
            }
        }
    }

    /// Gives back whatever `pod` holds here.
    pub(crate) fn release(&mut self, pod: PodId) {
        match &mut self.state {
            CardState::Free => {}
            CardState::Whole(holder) if *holder != pod => {}
            CardState::Whole(_) => self.state = CardState::Free,
            CardState::Shared(shared) => {
                shared.shares.retain(|s| s.pod != pod);
                shared.keepers.retain(|keeper| *keeper != pod);
                if shared.shares.is_empty() && shared.keepers.is_empty() {
                    self.state = CardState::Free;
                }
            }
        }
    }
}
