//! One physical GPU and who holds it.

use crate::{Bytes, PodId};

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
    /// Pods hold parts of it; never empty, in the order they came.
    Shared(Vec<Share>),
}

/// A card. Its capacity does not change while anybody holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    pub(crate) capacity: Bytes,
    pub(crate) state: CardState,
    /// Whether some pod claims more of it than there is: then it takes nobody new.
    pub(crate) disputed: bool,
    /// Whether it takes nobody new for another reason.
    pub(crate) closed: bool,
    /// Whether it is held, but does not work: it takes nobody new, and the node counts it no more.
    pub(crate) sick: bool,
}

impl Card {
    /// The capacity of a card of unknown memory: large enough for every fraction of 15 decimals
    /// and small enough to add up over a node's cards.
    pub(crate) const UNKNOWN_MEMORY: Bytes = Bytes(1_000_000_000_000_000);

    pub(crate) const fn free(capacity: Bytes) -> Self {
        Self { capacity, state: CardState::Free, disputed: false, closed: false, sick: false }
    }

    /// All its memory.
    pub const fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// Whether its capacity is known. If not, only fractions of it mean anything.
    pub const fn knows_memory(&self) -> bool {
        self.capacity.0 != Self::UNKNOWN_MEMORY.0
    }

    /// Whether a bound pod claims what others hold: it takes nobody new until that is settled.
    pub const fn is_disputed(&self) -> bool {
        self.disputed
    }

    /// Whether it may take a new holder, if the node's cards are so large now.
    pub(crate) fn takes_more(&self, size: Bytes) -> bool {
        self.capacity == size && !self.disputed && !self.closed && !self.sick
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
            CardState::Shared(shares) => Bytes(shares.iter().map(|s| s.bytes.0).sum()),
        }
    }

    /// The shares on it; none if it is free or whole.
    pub fn shares(&self) -> &[Share] {
        match &self.state {
            CardState::Shared(shares) => shares,
            CardState::Free | CardState::Whole(_) => &[],
        }
    }

    /// Gives back whatever `pod` holds here.
    pub(crate) fn release(&mut self, pod: PodId) {
        match &mut self.state {
            CardState::Free => {}
            CardState::Whole(holder) if *holder != pod => {}
            CardState::Whole(_) => self.state = CardState::Free,
            CardState::Shared(shares) => {
                shares.retain(|s| s.pod != pod);
                if shares.is_empty() {
                    self.state = CardState::Free;
                }
            }
        }
    }
}
