//! What a decision looks at: the ledger and what nodes are.

use crate::config::Config;
use crate::order::NameOrder;
use crate::rules::NodeFacts;
use divvy_ledger::Ledger;
use std::sync::Arc;

/// The cluster as it is known, and the settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) ledger: Ledger,
    /// Labels and taints, by node.
    pub(crate) facts: Vec<NodeFacts>,
    /// GPU model, by node.
    pub(crate) models: Vec<Option<Arc<str>>>,
    pub(crate) order: NameOrder,
    pub(crate) config: Config,
}
