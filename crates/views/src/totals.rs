//! The ledger in a dozen numbers: computed here once, for texts, JSON and metrics.

use crate::stranded::ShareSizes;
use divvy_engine::Scheduler;
use divvy_ledger::{Card, Mode, Node};
use std::collections::BTreeMap;

/// Sums over all nodes of the cluster. Bytes are those of cards whose memory is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Nodes.
    pub nodes: usize,
    /// Pods that hold something.
    pub held_pods: usize,
    /// Cards.
    pub cards: usize,
    /// Cards that nobody holds and somebody may.
    pub free: usize,
    /// Cards that one pod holds.
    pub whole: usize,
    /// Cards that take more shares.
    pub shared: usize,
    /// Other cards that take nobody new, because they are disputed, gone, or changed their size.
    pub closed: usize,
    /// Cards that are handed out in slices.
    pub sliced: usize,
    /// Cards that somebody holds; of those in slices at least so many.
    pub in_use: usize,
    /// Slices that nodes hand out.
    pub slices: u64,
    /// Slices that pods hold.
    pub slices_taken: u64,
    /// Cards that bound pods claim more of than there is.
    pub disputed: usize,
    /// Nodes on which no GPU is given, because it is not certain who has which card.
    pub unsettled: usize,
    /// Bytes of all cards.
    pub capacity_bytes: u128,
    /// Bytes that pods hold of them.
    pub held_bytes: u128,
    /// Bytes of the cards that somebody holds, or holds a slice of.
    pub in_use_bytes: u128,
    /// Bytes that are free on shared cards and too few for every share that a pod is known to ask.
    pub stranded_bytes: u128,
    /// Bytes that are free on shared cards, stranded or not: no whole GPU can be made of them.
    pub fragmented_bytes: u128,
    /// Cards with several shares of which at least one is not kept to its part: together they could
    /// outgrow the card.
    pub unguarded: usize,
}

impl Totals {
    /// Looks at each card once: for now and then, not for each pass.
    pub fn of(scheduler: &Scheduler) -> Self {
        Self::with(scheduler, &mut ShareSizes::held(scheduler))
    }

    /// The same, where more sizes are known than those of shares that somebody holds.
    pub(crate) fn with(scheduler: &Scheduler, sizes: &mut ShareSizes) -> Self {
        let mut totals = Self::default();
        for (_, node) in scheduler.ledger().alive() {
            totals.enter(scheduler, node, sizes);
        }
        totals
    }

    /// Adds a node.
    pub(crate) fn enter(&mut self, scheduler: &Scheduler, node: &Node, sizes: &mut ShareSizes) {
        self.nodes += 1;
        self.unsettled += usize::from(node.is_unsettled());
        self.held_pods += node.taken().2 as usize;
        for (index, card) in node.existing_cards() {
            self.add(node, index, card, sizes);
            self.unguarded += usize::from(is_unguarded(scheduler, card));
        }
        self.add_slices(node);
    }

    /// By model of the nodes' cards, as they name it; time slicing may be said in the name, and does not
    /// make another model.
    pub fn by_model(scheduler: &Scheduler) -> BTreeMap<&str, Self> {
        let mut sizes = ShareSizes::held(scheduler);
        let mut models: BTreeMap<&str, Self> = BTreeMap::new();
        for (id, node) in scheduler.ledger().alive().filter(|(_, node)| node.has_gpus()) {
            let model = scheduler.model(id).map_or("", |model| model);
            let model = model.strip_suffix("-SHARED").unwrap_or(model);
            models.entry(model).or_default().enter(scheduler, node, &mut sizes);
        }
        models
    }

    /// By node; those without GPUs are left out.
    pub fn by_node(scheduler: &Scheduler) -> Vec<(&str, Self)> {
        let mut sizes = ShareSizes::held(scheduler);
        let nodes = scheduler.ledger().alive().filter(|(_, node)| node.has_gpus());
        let totals = nodes.map(|(_, node)| {
            let mut own = Self::default();
            own.enter(scheduler, node, &mut sizes);
            (&**node.name(), own)
        });
        totals.collect()
    }

    /// Memory held, of that of the cards that somebody holds: 1 if all of them are full.
    pub fn packing_ratio(&self) -> Option<f64> {
        ratio(self.held_bytes, self.in_use_bytes)
    }

    /// Memory held, of all there is.
    pub fn allocated_ratio(&self) -> Option<f64> {
        ratio(self.held_bytes, self.capacity_bytes)
    }

    /// Stranded memory, of that of the cards that somebody holds.
    pub fn fragmentation_ratio(&self) -> f64 {
        ratio(self.stranded_bytes, self.in_use_bytes).unwrap_or(0.0)
    }

    /// Slices count for the memory that they have, or for their part of a card; a card is in use if one of
    /// its slices is. Of MIG slices nobody tells the card: they are as good as cards of their own.
    fn add_slices(&mut self, node: &Node) {
        let (mut capacity, mut held) = (0u128, 0u128);
        for pool in &node.capacity().gpus.pools {
            let Some((free, total)) = node.devices(pool.device) else { continue };
            self.slices += u64::from(total);
            self.slices_taken += u64::from(total - free);
            if let Some(each) = pool.each {
                let all = |count: u32| u128::from(each.0) * u128::from(count);
                capacity += all(total);
                held += all(total - free);
            }
        }
        let is_divided = |card: &&Card| matches!(card.mode(), Mode::Divided(_));
        let divided = node.cards().iter().filter(is_divided).count() as u128;
        let in_use = sliced_in_use(node);
        // They are at least so many, and of one size.
        let of_cards = (capacity * in_use as u128).checked_div(divided).unwrap_or(0);
        self.capacity_bytes += capacity;
        self.held_bytes += held;
        self.in_use_bytes += of_cards.max(held);
        self.in_use += in_use;
    }

    fn add(&mut self, node: &Node, index: usize, card: &Card, sizes: &mut ShareSizes) {
        self.cards += 1;
        self.disputed += usize::from(card.is_disputed());
        if matches!(card.mode(), Mode::Divided(_)) {
            self.sliced += 1;
            return;
        }
        let in_use = *card.mode() != Mode::Free;
        self.in_use += usize::from(in_use);
        match card.mode() {
            Mode::Divided(_) => {}
            Mode::Whole(_) => self.whole += 1,
            _ if !node.is_open(index) => self.closed += 1,
            Mode::Free => self.free += 1,
            Mode::Shared(_) => self.shared += 1,
        }
        if card.knows_memory() {
            self.capacity_bytes += u128::from(card.capacity().0);
            self.held_bytes += u128::from(card.used().0);
            self.in_use_bytes += if in_use { u128::from(card.capacity().0) } else { 0 };
            self.stranded_bytes += u128::from(sizes.stranded(node, index, card).0);
            if !card.shares().is_empty() && !matches!(card.mode(), Mode::Whole(_)) {
                self.fragmented_bytes += u128::from(card.capacity().minus(card.used()).0);
            }
        }
    }
}

/// Whether the shares of a card could together outgrow it. Where nobody tells classes apart, no share
/// is kept to its part.
pub(crate) fn is_unguarded(scheduler: &Scheduler, card: &Card) -> bool {
    let class = card.class().and_then(|class| scheduler.class_name(class));
    card.shares().len() > 1 && class.is_none_or(|class| class.provider.is_none())
}

/// Rounded to four decimals in integers, so that the last digit does not depend on the machine.
fn ratio(part: u128, whole: u128) -> Option<f64> {
    let ten_thousandths = (part * 10_000 + whole / 2).checked_div(whole)?;
    Some(f64::from(u32::try_from(ten_thousandths).unwrap_or(u32::MAX)) / 10_000.0)
}

/// Cards in slices of which some are held: those that are known, or as few as those that are taken
/// could be on.
pub(crate) fn sliced_in_use(node: &Node) -> usize {
    let divided = node.cards().iter().filter_map(|card| match card.mode() {
        Mode::Divided(divided) => Some(divided),
        _ => None,
    });
    let (mut known, mut fewest) = (0, 0);
    let mut taken: u64 = node
        .capacity()
        .gpus
        .pools
        .iter()
        .filter_map(|pool| {
            let (free, total) = node.devices(pool.device)?;
            Some(u64::from(total - free))
        })
        .sum();
    for divided in divided {
        known += usize::from(!divided.held.is_empty());
        fewest += usize::from(taken > 0);
        taken = taken.saturating_sub(divided.taken().1.into());
    }
    known.max(fewest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Cluster, fraction, node, whole};
    use divvy_engine::{Event, NodeRecord};
    use divvy_ledger::Gpus;

    const GIB: u128 = 1 << 30;

    #[test]
    fn totals_count_each_card_in_one_state_and_each_byte_once() {
        let unknown = NodeRecord { gpus: Gpus::cards(2, 2, None), ..node("b", "x", 2, 80) };
        let cluster = Cluster::new()
            .with(node("a", "x", 4, 80))
            .ask("ml/one", whole(1))
            .ask("ml/two", fraction("0.8", 1))
            .with(unknown);
        let totals = Totals::of(&cluster.scheduler);
        assert_eq!((totals.nodes, totals.held_pods), (2, 2));
        assert_eq!((totals.free, totals.whole, totals.shared, totals.closed), (4, 1, 1, 0));
        assert_eq!((totals.cards, totals.in_use), (6, 2));
        assert_eq!(totals.capacity_bytes, 320 * GIB, "cards of unknown memory have no bytes");
        assert_eq!((totals.held_bytes, totals.in_use_bytes), (144 * GIB, 160 * GIB));
        assert_eq!(totals.stranded_bytes, 16 * GIB, "a fifth is too little for the known share");
        assert_eq!((totals.fragmented_bytes, totals.unguarded), (16 * GIB, 0));
        assert_eq!((totals.packing_ratio(), totals.allocated_ratio()), (Some(0.9), Some(0.45)));

        let models = Totals::by_model(&cluster.scheduler);
        let [(model, of_model)] = models.iter().collect::<Vec<_>>()[..] else {
            panic!("{models:?}")
        };
        assert_eq!((*model, of_model), ("x", &totals), "both nodes are of one");
        let nodes = Totals::by_node(&cluster.scheduler);
        let cards: Vec<_> =
            nodes.iter().map(|(name, own)| (*name, own.cards, own.in_use)).collect();
        assert_eq!(cards, [("a", 4, 2), ("b", 2, 0)]);

        // Other cards from now on: the shared one has the old size and takes nobody new.
        let Cluster { mut scheduler, .. } = cluster;
        scheduler.apply(Event::Node(Box::new(node("a", "x", 3, 40)))).unwrap();
        let totals = Totals::of(&scheduler);
        assert_eq!((totals.cards, totals.closed), (5, 1), "{totals:?}");
    }
}
