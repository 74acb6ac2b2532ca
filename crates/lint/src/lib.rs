//! Mistakes in manifests that the API server or a driver refuses, or accepts in silence, and their
//! repair.
//!
//! ```text
//!   text ─┬─► words::read: what it means ──┐
//!         └─► tree: where each part stands ─┴─► objects ─► rules ─► LintFinding: what, where, what instead
//!                                                                    └─► edits by bytes ─► text, diff
//! ```
//!
//! Nothing here reads or writes a file.

mod edit;
mod finding;
mod fix;
mod object;
mod report;
mod rules;
mod scheduler;
mod tree;

pub use finding::{LintFinding, LintResult, NamedText, lint, rehearsed};
pub use fix::{Fixed, diff, fix};
pub use report::{LintReport, text};
pub use rules::{DEFAULT_SCHEDULER, NAMES, meant};

#[cfg(test)]
mod tests;
