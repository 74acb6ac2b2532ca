//! The webhooks and policies of `deploy/` on a real API server, as users and tenants meet them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod accounts;
mod affinity;
mod bodies;
mod certificates;
mod cluster;
mod default_runtime;
mod deletions;
mod device_annotations;
mod isolation;
mod priority;
mod template;
mod tenant;
mod warnings;
mod webhooks;
