//! Who owns the name of a scheduler: divvy, or another project as long as its scheduler runs.

use crate::keys::{KAI_SCHEDULER, KOORDINATOR_SCHEDULER};

/// Which of them run in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OtherSchedulers {
    /// KAI's.
    pub kai: bool,
    /// Koordinator's.
    pub koordinator: bool,
}

impl OtherSchedulers {
    /// Whose scheduler has this name, if it runs: the pods that name it are left to it, for two
    /// schedulers for the same pods do harm.
    pub fn whose(self, name: &str) -> Option<&'static str> {
        match name {
            KAI_SCHEDULER if self.kai => Some("KAI"),
            KOORDINATOR_SCHEDULER if self.koordinator => Some("Koordinator"),
            _ => None,
        }
    }

    /// Whether divvy places pods that name this scheduler, if it is asked to place those of `ours`.
    pub fn is_ours(self, name: &str, ours: &[String]) -> bool {
        self.whose(name).is_none() && ours.iter().any(|known| known == name)
    }
}
