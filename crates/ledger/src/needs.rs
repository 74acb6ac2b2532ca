//! What one pod takes from a node.

use crate::request::Request;
use crate::units::{Bytes, MilliCpu};

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
