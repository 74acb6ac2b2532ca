//! What is on which node, card, pod and kind of slices, right now.

mod cards;
mod nodes;
mod pods;
mod slices;

pub use cards::{TopCard, TopCards, top_cards, top_cards_text};
pub use nodes::{Replicas, TopNode, TopNodes, top_nodes, top_nodes_text};
pub use pods::{PodSlices, TopPod, TopPods, top_pods, top_pods_text};
pub use slices::{TopSlice, TopSlices, top_slices, top_slices_text};

#[cfg(test)]
mod tests;
