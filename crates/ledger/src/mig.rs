//! What a card can be divided into: MIG profiles, where their slices may lie, and what is left.
//!
//! ```text
//!   Model: profiles, sizes, legal starts ─► Geometry ─┬─► place: slices with starts, or a Misfit
//!                                                     ├─► check: a named config, card by card
//!                                                     └─► fillings: what one card can hold
//! ```
//!
//! A slice is an interval of memory slices, and two slices of a card never overlap: that is the one
//! rule. It bounds compute by itself; engines that a card has once are counted besides.

mod check;
mod geometry;
mod models;
mod recognise;

pub use check::{CardIndexes, ConfigVerdict, EntryOutcome, Judged, MigConfig, MigEntry, check};
pub use geometry::{Cut, Geometry, Leftover, Misfit, Slice};
pub use models::{MODELS, Model};
pub use recognise::{UnknownModel, model_of_filter};

use crate::Profile;

impl Profile {
    /// Reads the name as nvidia-smi and mig-parted write it, with a plus where resources have a dot.
    pub fn from_config(name: &str) -> Option<Self> {
        (!name.contains("gb.")).then(|| Self::parse(&name.replacen("gb+", "gb.", 1)))?
    }

    /// The name as nvidia-smi and mig-parted write it.
    pub fn in_config(self) -> String {
        self.to_string().replacen("gb.", "gb+", 1)
    }

    /// The slice that its compute instances are in; itself if it is not divided once more.
    #[must_use]
    pub const fn undivided(self) -> Self {
        Self { instances: None, ..self }
    }
}

/// `2 x 1g.10gb, 1 x 3g.40gb`.
pub fn listed(profiles: &[(Profile, u32)]) -> String {
    let all = profiles.iter().map(|(profile, count)| format!("{count} x {}", profile.in_config()));
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
