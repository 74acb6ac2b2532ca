//! The rehearsal: manifests through the real engine, on a copy of a cluster.
//!
//! ```text
//!   --cluster, or the embedded one ─► nodes, bound pods ─┐
//!   -f files, folders, stdin ─► expand: pods that        ├─► events ─► engine::Scheduler ─► views
//!                               controllers would make ──┘
//! ```

mod adopt;
mod expand;
mod fill;
mod input;
mod left_out;
mod made_by;
mod partition;
mod quota;
mod rehearsal;
mod storage;
mod what_if;

pub use divvy_lint::LintFinding;
pub use expand::MAX_REPLICAS;
pub use fill::{MAX_FILL, More, OneMore};
pub use input::{Input, InputError, read_each, read_inputs};
pub use made_by::MadeBy;
pub use partition::{ConfigEffect, ConfigOutcome, DisplacedDevices, DisplacedHolder};
pub use rehearsal::{Rehearsal, Setup};
pub use what_if::{MAX_NEW_NODES, WhatIf};

/// The cluster that is rehearsed on when none is given.
pub const EMBEDDED_CLUSTER: &str = include_str!("../cluster.yaml");

/// The manifests of the folder `examples`, by file.
const EXAMPLES: [(&str, &str); 3] = [
    ("examples/gpu-memory.yaml", include_str!("../../../examples/gpu-memory.yaml")),
    ("examples/gpu-sharing.yaml", include_str!("../../../examples/gpu-sharing.yaml")),
    ("examples/mixed-team.yaml", include_str!("../../../examples/mixed-team.yaml")),
];

/// Something to place for whoever has nothing but the binary.
pub fn examples() -> impl Iterator<Item = Input> {
    EXAMPLES.into_iter().map(|(name, text)| Input { name: name.to_owned(), text: text.to_owned() })
}

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
