//! How to choose among nodes and cards that fit.

use divvy_ledger::Opening;

/// Which place wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The fullest that still fits.
    #[default]
    Binpack,
    /// The emptiest.
    Spread,
}

/// One number for each resource that counts in a node's score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerResource {
    /// GPU memory, over all cards of the node.
    pub gpu: u32,
    /// CPU.
    pub cpu: u32,
    /// Memory.
    pub memory: u32,
}

/// The engine's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Among nodes.
    pub node: Strategy,
    /// Among the cards of the chosen node, for shares.
    pub card: Strategy,
    /// How much each resource counts in how full a node is.
    pub weights: PerResource,
    /// Above which use, in millionths, a node counts as full: it is then packed only when no
    /// other node fits.
    pub thresholds: PerResource,
    /// What the reservation takes that keeps a shared card; `None` if cards are not handed to
    /// containers, so that nobody keeps them.
    pub hand_off: Option<Opening>,
}

impl Config {
    /// A threshold that nothing exceeds.
    pub const NEVER_FULL: u32 = 1_000_000;
}

impl Default for Config {
    fn default() -> Self {
        let never = Self::NEVER_FULL;
        Self {
            node: Strategy::Binpack,
            card: Strategy::Binpack,
            weights: PerResource { gpu: 10, cpu: 2, memory: 1 },
            thresholds: PerResource { gpu: never, cpu: never, memory: never },
            hand_off: None,
        }
    }
}
