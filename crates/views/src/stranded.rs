//! Memory that is free on a shared card and too little for anything that may come.

use divvy_engine::Scheduler;
use divvy_ledger::{Bytes, Card, Node, Portion, Request};
use std::collections::{HashMap, HashSet};

/// The share sizes that pods are known to ask, and the smallest of them for each size of card.
#[derive(Debug, Default)]
pub(crate) struct ShareSizes {
    portions: HashSet<Portion>,
    smallest: HashMap<(Bytes, bool), Option<Bytes>>,
}

impl ShareSizes {
    /// The sizes of all shares that somebody holds.
    pub(crate) fn held(scheduler: &Scheduler) -> Self {
        let ledger = scheduler.ledger();
        let cards = ledger.alive().flat_map(|(_, node)| node.cards());
        let holdings = cards.flat_map(Card::shares).filter_map(|share| ledger.holding(share.pod));
        let portions = holdings.filter_map(|holding| holding.needs.request.portion());
        Self { portions: portions.collect(), smallest: HashMap::new() }
    }

    /// Enters what one more pod asks. Before the first [`ShareSizes::fit_into`].
    pub(crate) fn add(&mut self, request: &Request) {
        self.portions.extend(request.portion());
    }

    /// What is free on a shared card, if no share of a known size can have it.
    pub(crate) fn stranded(&mut self, node: &Node, index: usize, card: &Card) -> Bytes {
        let (all, free) = (card.capacity(), card.capacity().minus(card.used()));
        let is_useful = node.is_open(index) && self.fit_into(free, all, card.knows_memory());
        if card.shares().is_empty() || is_useful { Bytes(0) } else { free }
    }

    /// Whether a share of some known size fits into what is free on a card of this capacity.
    fn fit_into(&mut self, free: Bytes, card: Bytes, known: bool) -> bool {
        let portions = &self.portions;
        let smallest = *self.smallest.entry((card, known)).or_insert_with(|| {
            // MiB cannot be placed on a card of unknown memory.
            let usable = portions.iter().filter(|p| known || matches!(p, Portion::Fraction(_)));
            usable.map(|p| p.of(card)).min()
        });
        smallest.is_some_and(|smallest| free >= smallest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_ledger::{Fraction, Part};

    fn share(portion: Portion) -> Request {
        Request::share(1, Part::of(portion))
    }

    #[test]
    fn the_smallest_share_on_that_card_decides() {
        let mut sizes = ShareSizes::default();
        sizes.add(&share(Portion::Memory(Bytes(30))));
        sizes.add(&share(Portion::Fraction(Fraction::parse("0.25").unwrap())));
        sizes.add(&Request::whole(1));
        assert!(sizes.fit_into(Bytes(20), Bytes(80), true), "a quarter of 80 is 20");
        assert!(!sizes.fit_into(Bytes(19), Bytes(80), true));
        assert!(!sizes.fit_into(Bytes(29), Bytes(200), true), "a quarter of 200 is more than 30");
        assert!(sizes.fit_into(Bytes(30), Bytes(200), true));
        assert!(!sizes.fit_into(Bytes(49), Bytes(200), false), "bytes mean nothing there");
    }

    #[test]
    fn without_share_pods_nothing_fits() {
        assert!(!ShareSizes::default().fit_into(Bytes(80), Bytes(80), true));
    }
}
