//! `divvy scheduler` on a real API server, under stress. Each test is named by what holds.
//!
//! All of them share one control plane and take turns on it: two cores are not many. What the
//! machine lacks is a line `skipped: ...`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/leases.rs"]
mod leases;
#[path = "../common/limits.rs"]
mod limits;
#[path = "../common/pages.rs"]
mod pages;
#[path = "../common/program.rs"]
mod program;
#[path = "../common/tls.rs"]
mod tls;

mod arena;
mod kubelets;
mod scheduler;

mod bursts;
mod claims;
mod crashes;
mod faults;
mod hostile;
mod kinds;
mod leaders;
mod levels;
mod nodes;
mod others;
mod pods;
mod reports;
mod siege;
mod soak;
