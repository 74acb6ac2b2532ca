//! The only code that speaks HTTP to Kubernetes.
//!
//! ```text
//!   kubeconfig or service account ─► config ─┐
//!   fence: until when we may write ──────────┼─► Api ─► get, post, put, patch, delete ─► bytes or Failure
//!   observer: who counts what is asked ──────┘    │
//!   resources: which collections there are ───────┴─► List ─► objects of a page while they come
//!                                                      └─► watch ─► Batch: Seen, Gone, Listed ...
//! ```
//!
//! What the objects mean is for whoever asks.

mod client;
mod failure;
mod fence;
mod fenced;
mod list;
mod observer;
mod request;
pub mod resources;
mod timely;
pub mod watch;

pub use client::{ClientError, config};
pub use failure::{Failure, read};
pub use fence::{Fence, writing_part};
pub use kube::Config;
pub use list::{List, ListProgress, Split};
pub use observer::{Observer, Restart, Verb};
pub use request::{Api, PatchKind};
pub use resources::Resource;
