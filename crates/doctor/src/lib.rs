//! What is wrong with a cluster that divides GPUs.
//!
//! ```text
//!   API server ─┐
//!               ├─► ClusterSource ─► Observed ─► checks, each a function of it ─► DoctorReport ─► text, JSON, YAML
//!   file ───────┘
//!   a node ─► divvy_node::look ─► diagnose_node ─► the same
//! ```
//!
//! Nothing is written, and nothing is kept of objects but what a check looks at.

mod checks;
mod finding;
mod fix;
mod looked;
mod objects;
mod observed;
mod on_node;
mod source;
mod text;

pub use checks::diagnose;
pub use finding::{DoctorReport, Finding, Severity};
pub use observed::Observed;
pub use on_node::diagnose_node;
pub use source::{ClusterSource, Saved};
pub use text::report_text;
