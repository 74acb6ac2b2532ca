//! What one pod takes from a node.

use crate::units::{Bytes, Fraction, MilliCpu};
use std::fmt;

/// What a pod asks of GPUs: parsed once, at the edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Request {
    /// No GPU.
    #[default]
    None,
    /// That many whole cards (`nvidia.com/gpu: N`); replicas on a node that advertises those.
    Whole(u32),
    /// The same share on each of `cards` distinct cards of one node.
    Share {
        /// How much of each card.
        portion: Portion,
        /// On how many cards; at least 1.
        cards: u32,
    },
}

/// How the size of a share was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Portion {
    /// `gpu-fraction`: a part of whatever card it lands on.
    Fraction(Fraction),
    /// `gpu-memory`: so many bytes.
    Memory(Bytes),
}

impl Portion {
    /// The share's size on a card of this capacity: a fraction is rounded down, but a share is
    /// never nothing.
    pub fn of(self, card: Bytes) -> Bytes {
        match self {
            Self::Fraction(f) => f.of(card).max(Bytes(1)),
            Self::Memory(b) => b,
        }
    }
}

impl Request {
    /// The number of whole GPUs asked, 0 for a share.
    pub const fn whole_gpus(&self) -> u32 {
        match self {
            Self::Whole(n) => *n,
            Self::None | Self::Share { .. } => 0,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no GPU"),
            Self::Whole(1) => f.write_str("1 GPU"),
            Self::Whole(n) => write!(f, "{n} GPUs"),
            Self::Share { portion, cards } => {
                if *cards > 1 {
                    write!(f, "{cards} x ")?;
                }
                match portion {
                    Portion::Fraction(part) => write!(f, "{part}"),
                    Portion::Memory(bytes) => write!(f, "{} MiB", bytes.mib()),
                }
            }
        }
    }
}

/// Who holds something of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A pod.
    #[default]
    Pod,
    /// A reservation, which keeps a card for shares and has none of it.
    Keeper,
    /// What is left of a pod that vanished: it takes no pod slot.
    Ghost,
}

/// An extended resource (`amd.com/gpu`, `nvidia.com/mig-1g.10gb`), interned by the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u32);

/// All that one pod takes from the node it runs on, besides one pod slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Needs {
    /// CPU, overhead included.
    pub cpu: MilliCpu,
    /// Memory, overhead included.
    pub memory: Bytes,
    /// Ephemeral storage.
    pub ephemeral: Bytes,
    /// Extended resources, each once, none of them 0.
    pub extended: Box<[(ResourceId, u64)]>,
    /// GPUs.
    pub request: Request,
    /// What it is.
    pub holder: Holder,
}
