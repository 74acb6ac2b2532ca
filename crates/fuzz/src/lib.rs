//! What holds for any input of the readers that face a tenant or a file.
//!
//! ```text
//!   bytes ─► Input: choices ─► an object with changes, events, a text ─► the reader ─► what holds
//!     ▲                                                                      │
//!     ├─ cargo test: a small corpus, and changes of it                       └─► panic: a finding
//!     └─ cargo xtask fuzz: libFuzzer, guided by coverage, for as long as you like
//! ```
//!
//! A target takes any bytes and panics if something does not hold. docs/fuzzing.md says what was
//! tried and found.

mod cost;
mod edit;
mod input;
mod objects;
mod patch;
mod targets;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Something to try inputs on.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder in `corpus/`.
    pub name: &'static str,
    check: fn(&[u8]),
}

const fn target(name: &'static str, check: fn(&[u8])) -> Target {
    Target { name, check }
}

/// All targets.
pub const TARGETS: [Target; 17] = [
    target("quantities", targets::quantities),
    target("requests", targets::requests),
    target("devices", targets::devices),
    target("configs", targets::configs),
    target("divisions", targets::divisions),
    target("manifests", targets::manifests),
    target("objects", targets::objects),
    target("lint", targets::lint),
    target("pods", targets::pods),
    target("nodes", targets::nodes),
    target("reviews", targets::reviews),
    target("lists", targets::lists),
    target("snapshots", targets::snapshots),
    target("rehearsals", targets::rehearsals),
    target("events", targets::events),
    target("clusters", targets::clusters),
    target("agreement", targets::agreement),
];

impl Target {
    /// The target of this name.
    pub fn find(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Tries an input. Only one is tried at a time: what it costs is counted for all threads.
    ///
    /// # Panics
    /// If something does not hold.
    pub fn run(&self, bytes: &[u8]) {
        static TURN: Mutex<()> = Mutex::new(());
        // One that panicked was reported, and has left nothing behind.
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        (self.check)(bytes);
    }

    /// The folder of its inputs that are kept.
    pub fn corpus(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name)
    }
}
