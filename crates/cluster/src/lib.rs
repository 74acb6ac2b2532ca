//! The edge to a live Kubernetes API.

pub mod client;
pub mod fence;
mod fenced;
pub mod lease;
pub mod metrics;
pub mod snapshot;
