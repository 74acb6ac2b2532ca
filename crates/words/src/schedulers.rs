//! Schedulers of other projects, whose pods divvy takes over once they do not run.

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
}
