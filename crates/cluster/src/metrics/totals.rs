//! The ledger in a dozen numbers.

use divvy_engine::Scheduler;
use divvy_ledger::{Bytes, Card, Ledger, Mode, Node, Portion};
use foldhash::{HashMap, HashSet};

/// Sums over all nodes of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerTotals {
    /// Nodes.
    pub nodes: usize,
    /// Pods that hold something.
    pub held_pods: usize,
    /// Cards that nobody holds.
    pub free: usize,
    /// Cards that one pod holds.
    pub whole: usize,
    /// Cards that take more shares.
    pub shared: usize,
    /// Other cards that take nobody new, because they are disputed, gone, or changed their size.
    pub closed: usize,
    /// Cards that bound pods claim more of than there is.
    pub disputed: usize,
    /// Nodes on which no GPU is given, because it is not certain who has which card.
    pub unsettled: usize,
    /// Bytes of all cards whose memory is known.
    pub capacity: u64,
    /// Bytes that pods hold of them.
    pub held: u64,
    /// Bytes that are free on shared cards and too few for every share size in use.
    pub stranded: u64,
}

impl LedgerTotals {
    /// Looks at each card once: for now and then, not for each pass.
    pub fn of(scheduler: &Scheduler) -> Self {
        let ledger = scheduler.ledger();
        let mut sizes = ShareSizes::of(ledger);
        let mut totals = Self::default();
        for (_, node) in ledger.alive() {
            totals.nodes += 1;
            totals.unsettled += usize::from(node.is_unsettled());
            totals.held_pods += node.taken().2 as usize;
            for (index, card) in node.cards().iter().enumerate() {
                totals.add(node, index, card, &mut sizes);
            }
        }
        totals
    }

    fn add(&mut self, node: &Node, index: usize, card: &Card, sizes: &mut ShareSizes) {
        let open = node.is_open(index);
        self.disputed += usize::from(card.is_disputed());
        match card.mode() {
            Mode::Whole(_) => self.whole += 1,
            _ if !open => self.closed += 1,
            Mode::Free => self.free += 1,
            Mode::Shared(_) => self.shared += 1,
        }
        if !card.knows_memory() {
            return;
        }
        self.capacity += card.capacity().0;
        self.held += card.used().0;
        let free = card.capacity().minus(card.used());
        let useful = open && sizes.fit_into(free, card.capacity());
        if !card.shares().is_empty() && !useful {
            self.stranded += free.0;
        }
    }
}

/// The share sizes in use, and the smallest of them for each size of card.
struct ShareSizes {
    portions: HashSet<Portion>,
    smallest: HashMap<Bytes, Option<Bytes>>,
}

impl ShareSizes {
    fn of(ledger: &Ledger) -> Self {
        let cards = ledger.alive().flat_map(|(_, node)| node.cards());
        let holdings = cards.flat_map(Card::shares).filter_map(|share| ledger.holding(share.pod));
        let portions = holdings.filter_map(|holding| holding.needs.request.portion());
        Self { portions: portions.collect(), smallest: HashMap::default() }
    }

    fn fit_into(&mut self, free: Bytes, card: Bytes) -> bool {
        let portions = &self.portions;
        let smallest = self.smallest.entry(card);
        let smallest = smallest.or_insert_with(|| portions.iter().map(|p| p.of(card)).min());
        smallest.is_some_and(|smallest| free >= smallest)
    }
}
