//! What is on which node, card and pod, right now.

mod cards;
mod nodes;
mod pods;

pub use cards::{TopCard, TopCards, top_cards, top_cards_text};
pub use nodes::{Replicas, TopNode, TopNodes, top_nodes, top_nodes_text};
pub use pods::{TopPod, TopPods, top_pods, top_pods_text};

#[cfg(test)]
mod tests;
