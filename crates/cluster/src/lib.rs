//! The edge to a live Kubernetes API: what it says becomes events of the engine, and what the
//! engine decides is written back.
//!
//! ```text
//!   watch ─► objects ─► State ─► engine ─► plan ─► State ─► Action ─► writer ─► API
//!                         ▲                                             │
//!                         └──────────────── Outcome ────────────────────┘
//!   lease ─► fence: every socket of the writer closes with the lease
//! ```
//!
//! The way to the API and back is `divvy_api`; here is what its objects mean to a scheduler.

mod config_map;
pub mod health;
pub mod lease;
mod listing;
pub mod metrics;
mod objects;
mod place;
pub mod probe;
pub mod reload;
pub mod replay;
mod run;
pub mod serve;
mod settings;
mod side;
pub mod snapshot;
mod sources;
mod state;
pub mod uninstall;
mod writer;

pub use run::{RunError, run};
pub use settings::{HandOffSettings, Lease, Overrides, Settings};
