//! What is on which node, card, pod and kind of slices, right now.

mod cards;
mod nodes;
mod pending;
mod pods;
mod queues;
mod slices;

pub use cards::{TopCard, TopCards, top_cards, top_cards_table, top_cards_text};
pub use nodes::{Replicas, TopNode, TopNodes, top_nodes, top_nodes_table, top_nodes_text};
pub use pending::{PendingPod, TopPending, top_pending, top_pending_table, top_pending_text};
pub use pods::{PodSlices, TopPod, TopPods, top_pods, top_pods_table, top_pods_text};
pub use queues::{
    QUEUE_LABELS, QueueUse, TopQueues, queue_of, top_queues, top_queues_table, top_queues_text,
};
pub use slices::{TopSlice, TopSlices, top_slices, top_slices_table, top_slices_text};

use crate::amount::Amount;
use divvy_ledger::Bytes;

/// Memory as a cell.
pub(crate) fn memory(bytes: u64) -> String {
    Amount::new(Bytes(bytes), Bytes(bytes), true).cell()
}

#[cfg(test)]
mod tests;
