//! Ties between equally good nodes go to the first by name, whatever order the nodes came in.

use divvy_ledger::NodeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Numbers that sort like the node names and leave gaps for new ones, so that a score and its
/// tie-break compare as one integer.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameOrder {
    by_name: BTreeMap<Arc<str>, NodeId>,
    labels: Vec<u32>,
    generation: u64,
}

impl NameOrder {
    /// Bits of a label.
    pub(crate) const BITS: u32 = 28;
    const END: u32 = (1 << Self::BITS) - 1;
    const STRIDE: u32 = 256;

    /// Grows when labels that were given out have changed: whatever was built from them is void.
    pub(crate) const fn generation(&self) -> u64 {
        self.generation
    }

    /// The part of a score that prefers earlier names.
    pub(crate) fn precedence(&self, node: NodeId) -> u64 {
        u64::from(Self::END - self.labels.get(node.index()).copied().unwrap_or(Self::END))
    }

    /// The nodes by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, NodeId)> {
        self.by_name.iter().map(|(name, id)| (name, *id))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    pub(crate) fn insert(&mut self, name: &Arc<str>, node: NodeId) {
        if self.labels.len() <= node.index() {
            self.labels.resize(node.index() + 1, Self::END);
        }
        let label = |id: &NodeId| self.labels[id.index()];
        let before = self.by_name.range(..name.clone()).next_back();
        let after = self.by_name.range(name.clone()..).next();
        let chosen = match (before.map(|(_, id)| label(id)), after.map(|(_, id)| label(id))) {
            (None, None) => Some(Self::END / 2),
            (Some(low), None) => low.checked_add(Self::STRIDE).filter(|l| *l < Self::END),
            (None, Some(high)) => high.checked_sub(Self::STRIDE).filter(|l| *l > 0),
            (Some(low), Some(high)) => (high - low >= 2).then(|| low + (high - low) / 2),
        };
        self.by_name.insert(name.clone(), node);
        match chosen {
            Some(label) => self.labels[node.index()] = label,
            None => self.relabel(),
        }
    }

    /// Spreads the labels evenly again. Rare: only when a gap has been used up.
    fn relabel(&mut self) {
        let count = u32::try_from(self.by_name.len()).unwrap_or(Self::END - 1);
        let stride = (Self::END / (count + 1)).clamp(1, Self::STRIDE);
        let mut label = (Self::END - stride * count) / 2;
        for id in self.by_name.values() {
            self.labels[id.index()] = label;
            label += stride;
        }
        self.generation += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_sorted(order: &NameOrder) {
        let labels: Vec<u64> = order.iter().map(|(_, id)| order.precedence(id)).collect();
        assert!(labels.windows(2).all(|w| w[0] > w[1]), "earlier names take precedence");
    }

    #[test]
    fn names_take_precedence_in_order_however_they_arrive() {
        let ways: [fn(u32) -> u32; 3] = [|i| i, |i| 20_000 - i, |i| i.wrapping_mul(7919) % 20_011];
        for way in ways {
            let mut order = NameOrder::default();
            for i in 0..20_000 {
                order.insert(&format!("node-{:06}", way(i)).into(), NodeId(i));
            }
            assert_sorted(&order);
        }
    }

    #[test]
    fn a_crowded_gap_is_relabelled_and_says_so() {
        let mut order = NameOrder::default();
        order.insert(&"a".into(), NodeId(0));
        order.insert(&"b".into(), NodeId(1));
        let before = order.generation();
        for i in 2..40 {
            order.insert(&format!("a{}", "a".repeat(40 - i)).into(), NodeId(i as u32));
        }
        assert_sorted(&order);
        assert!(order.generation() > before);
    }
}
