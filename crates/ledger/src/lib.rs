//! Who holds what on every card and node, in exact integers.
//!
//! ```text
//!   set_node, remove_node ─┐
//!   hold, release ─────────┼─► nodes ─► cards ─► shares
//!   before ─► undo ────────┘     │
//!                                ├─► room: what is left, per node   ─► fit: yes, or a Shortage
//!                                ├─► glance: the same for a search  ─► fits: yes or no
//!                                └─► journal: which nodes changed   ─► caches follow
//! ```
//!
//! Every mechanism is a holding on a card or a node, and [`Node::fit`] is the one place that
//! decides whether a pod fits. What holds after every call:
//!
//! 1. the shares of a card never exceed its bytes;
//! 2. a card is free, whole, shared or divided by its device plugin, never two of these;
//! 3. undoing steps restores the ledger to the byte.
//!
//! [`Ledger::audit`] works out the first two, and every sum, from the holdings alone.

mod audit;
mod card;
mod device;
mod fit;
mod glance;
mod gpus;
mod journal;
#[allow(clippy::module_inception)]
mod ledger;
pub mod mig;
mod needs;
mod node;
mod request;
mod undo;
mod units;

pub use card::{Card, Divided, Division, Intake, Known, Mode, Name, Share, Shared};
pub use device::{Device, DeviceOn, Engines, Profile};
pub use fit::Shortage;
pub use glance::{Glance, Total};
pub use gpus::{DividedCard, Gpus, Pool};
pub use journal::{Journal, NodeChange, Position};
pub use ledger::{CardShare, CardShares, HoldError, Holding, Ledger};
pub use needs::{Holder, Needs, ResourceId};
pub use node::{Capacity, Node, Opening, Room};
pub use request::{Class, Each, Part, Percent, Portion, Request};
pub use undo::Before;
pub use units::{Bytes, Fraction, FractionError, MilliCpu};

/// A node's place in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// The id as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A pod's place in the ledger, chosen by the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId(pub u32);

impl PodId {
    /// The id as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
