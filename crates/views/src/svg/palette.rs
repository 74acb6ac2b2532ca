//! Colours. The picture brings its own background, so it is the same on a light and a dark page.

use crate::simulation::Simulation;
use divvy_engine::PodKey;
use std::collections::HashMap;

pub(super) const PAGE: &str = "#ffffff";
pub(super) const EDGE: &str = "#d0d7de";
pub(super) const INK: &str = "#1f2328";
pub(super) const MUTED: &str = "#59636e";
pub(super) const EMPTY: &str = "#f6f8fa";
pub(super) const WARN: &str = "#9a3412";

/// Paul Tol's light scheme, made to be told apart without full colour vision and to carry dark text
/// on each colour, reordered so that similar hues are apart.
const PODS: [&str; 8] =
    ["#77aadd", "#ee8866", "#eedd88", "#44bb99", "#ffaabb", "#bbcc33", "#99ddff", "#aaaa00"];

/// A colour for every pod on a card, by the order of the workload: the same input has the same
/// picture, and a pod more at its end does not repaint the others.
#[derive(Debug)]
pub(super) struct Palette<'s> {
    order: HashMap<&'s PodKey, usize>,
}

impl<'s> Palette<'s> {
    pub(super) fn of(sim: &'s Simulation<'s>) -> Self {
        let mut order = HashMap::new();
        let workload = sim.pods.iter().filter(|pod| !pod.cards.is_empty()).map(|pod| pod.key);
        let shares = sim.nodes.iter().flat_map(|node| &node.cards).flat_map(|card| &card.shares);
        for pod in workload.chain(shares.map(|share| share.pod)) {
            let next = order.len();
            order.entry(pod).or_insert(next);
        }
        Self { order }
    }

    pub(super) fn colour(&self, pod: &PodKey) -> &'static str {
        PODS[self.order.get(pod).copied().unwrap_or(0) % PODS.len()]
    }

    /// Two colours that stand for any two pods.
    pub(super) const fn example() -> (&'static str, &'static str) {
        (PODS[0], PODS[1])
    }
}
