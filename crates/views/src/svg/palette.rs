//! Colours. The picture brings its own background, so it is the same on a light and a dark page.

use crate::cards::NodeCards;
use crate::simulation::Simulation;
use divvy_engine::ObjectKey;
use std::collections::HashMap;

pub(super) const PAGE: &str = "#ffffff";
pub(super) const EDGE: &str = "#d0d7de";
pub(super) const LINE: &str = "#57606a";
pub(super) const INK: &str = "#1f2328";
pub(super) const MUTED: &str = "#59636e";
pub(super) const EMPTY: &str = "#f6f8fa";
pub(super) const WARN: &str = "#9a3412";
/// For what is held by nobody in particular.
pub(super) const NEUTRAL: &str = "#d8dee4";
pub(super) const NEUTRAL_DARK: &str = "#afb8c1";

/// Paul Tol's light scheme, and six more that were chosen to be as far from it and from each other
/// as can be, also with red-green blindness. All carry dark text. In an order in which three in a
/// row are far apart.
const PODS: [&str; 14] = [
    "#77aadd", "#44bb99", "#bbcc33", "#99ddff", "#97c587", "#8989f5", "#d1a347", "#a9bbd6",
    "#f9e4b8", "#e1ee2b", "#ee8866", "#ffaabb", "#aaaa00", "#eedd88",
];

/// How much worse it is to repeat a colour there than elsewhere on the node.
const NEXT_CARD: u64 = 1_000;
const SAME_CARD: u64 = 1_000_000;

/// A colour for every pod on a card. A pod's own is given by its place in the workload, so that
/// the same input has the same picture; it takes another where a neighbour has that one.
#[derive(Debug)]
pub(super) struct Palette<'s> {
    colours: HashMap<&'s ObjectKey, usize>,
}

impl<'s> Palette<'s> {
    pub(super) fn of(sim: &'s Simulation<'s>) -> Self {
        let workload = sim.pods.iter().filter(|pod| !pod.cards.is_empty()).map(|pod| pod.key);
        let mut order: HashMap<&ObjectKey, usize> = HashMap::new();
        let holders = sim.nodes.iter().flat_map(NodeCards::holders);
        for pod in workload.chain(holders) {
            let next = order.len();
            order.entry(pod).or_insert(next);
        }
        let mut palette = Self { colours: HashMap::new() };
        for node in &sim.nodes {
            palette.paint(node, &order);
        }
        palette
    }

    /// The pods of one node: different colours for all as long as there are enough, then for
    /// those that share a card or are on cards side by side.
    fn paint(&mut self, node: &'s NodeCards<'s>, order: &HashMap<&ObjectKey, usize>) {
        let mut cards_of: HashMap<&ObjectKey, Vec<usize>> = HashMap::new();
        for (at, card) in node.cards.iter().enumerate() {
            card.shares.iter().for_each(|s| cards_of.entry(s.pod).or_default().push(at));
        }
        node.holders().for_each(|pod| _ = cards_of.entry(pod).or_default());
        let mut pods: Vec<&ObjectKey> = cards_of.keys().copied().collect();
        let own = |pod: &ObjectKey| order.get(pod).copied().unwrap_or(0);
        pods.sort_by_key(|pod| own(pod));
        let mut uses = [0u64; PODS.len()];
        for pod in pods {
            let mut cost = uses;
            for at in &cards_of[pod] {
                let near = at.saturating_sub(1)..=(at + 1).min(node.cards.len() - 1);
                for i in near {
                    let weight = if i == *at { SAME_CARD } else { NEXT_CARD };
                    let shares = node.cards[i].shares.iter();
                    let taken = shares.filter_map(|share| self.colours.get(share.pod));
                    taken.for_each(|colour| cost[*colour] += weight);
                }
            }
            let turn = (0..PODS.len()).map(|i| (own(pod) + i) % PODS.len());
            let chosen = turn.min_by_key(|colour| cost[*colour]).unwrap_or(0);
            uses[chosen] += 1;
            self.colours.insert(pod, chosen);
        }
    }

    pub(super) fn colour(&self, pod: &ObjectKey) -> &'static str {
        PODS[self.colours.get(pod).copied().unwrap_or(0)]
    }
}
