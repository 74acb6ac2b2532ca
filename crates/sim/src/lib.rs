//! The rehearsal: manifests through the real engine, on a copy of a cluster.
//!
//! ```text
//!   --cluster, or the embedded one ─► nodes, bound pods ─┐
//!   -f files, folders, stdin ─► expand: pods that        ├─► events ─► engine::Scheduler ─► views
//!                               controllers would make ──┘
//! ```

mod adopt;
mod expand;
mod input;
mod left_out;
mod partition;
mod rehearsal;
mod storage;

pub use divvy_lint::Finding;
pub use expand::MAX_REPLICAS;
pub use input::{Input, InputError, read_inputs};
pub use partition::{Displaced, Effect, Holder, Repartition};
pub use rehearsal::{Rehearsal, Setup};

/// The cluster that is rehearsed on when none is given.
pub const EMBEDDED_CLUSTER: &str = include_str!("../cluster.yaml");

/// Hears how far a long job has come.
pub trait Progress: Sync {
    /// A phase begins, with so many steps if that is known.
    fn begin(&self, phase: &'static str, steps: u64);
    /// So many more steps are done.
    fn advance(&self, steps: u64);
}

/// Nobody listens.
impl Progress for () {
    fn begin(&self, _: &'static str, _: u64) {}
    fn advance(&self, _: u64) {}
}
