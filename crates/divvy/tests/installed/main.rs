//! What the chart makes, on a real API server with nodes that only exist there: divvy's programs with
//! the arguments, accounts and rights that they have in a cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/pages.rs"]
mod pages;

mod cluster;
mod monitoring;
mod recipe;
