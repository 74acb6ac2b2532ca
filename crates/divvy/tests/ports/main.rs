//! What anybody who can reach the ports of divvy can do to it: the binary, on loopback, beside
//! neighbours that open connections by the thousand and post whatever they like.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../common/limits.rs"]
mod limits;
#[path = "../common/program.rs"]
mod program;
#[path = "../common/tls.rs"]
mod tls;

mod connections;
mod flood;
mod memory;
mod reviews;
mod server;
