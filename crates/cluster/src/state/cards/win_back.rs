//! Shared cards that have lost their reservation, after a reboot for example: the pods on them run
//! on, but the device plugin may give the card to somebody else. They are won back.
//!
//! ```text
//!   lost ─► take all free cards of the node ─┬─► the lost one is among them: keep it, return the rest
//!                                            └─► another pod has it: say so, close the card
//! ```
//!
//! Meanwhile no GPU is given on the node.

use super::Cards;
use crate::state::context::Context;
use crate::state::timers::Timer;
use divvy_ledger::Device;
use divvy_words::{keys, reservation};
use foldhash::HashMap;
use std::time::{Duration, Instant};

/// When the next search begins at the earliest: the device plugin may not be up yet.
const FIRST: Duration = Duration::from_secs(2);
const LAST: Duration = Duration::from_secs(60);
/// A node that hands out nothing for so long is not kept from other schedulers: its device plugin
/// may be a pod that waits to be placed there.
const TAINTED: Duration = Duration::from_secs(300);
/// No node has so many cards; names are tried up to here.
const MOST: usize = 64;

/// The nodes whose lost cards are looked for.
#[derive(Debug, Default)]
pub(super) struct Searches(HashMap<Box<str>, Search>);

/// How the search for the lost cards of a node goes.
#[derive(Clone, Copy, Debug)]
struct Search {
    next: Instant,
    wait: Duration,
    /// Whether the device plugin had none left for one of them.
    refused: bool,
    /// Since when the node hands out nothing.
    bare_since: Option<Instant>,
}

impl Cards {
    /// Takes the free cards of a node, which the lost ones are among if nobody has them.
    pub(super) fn win_back(&mut self, node: &str, lost: &[u32], cx: &mut Context) {
        let is_there = self.nodes.contains_key(node);
        let gpus = cx.node(node).map(|node| &node.capacity().gpus);
        // Of replicas nobody knows which card is behind which.
        let has_cards = gpus.is_none_or(|gpus| gpus.pool(Device::Gpu).is_none());
        if !cx.hands_off() || !is_there || !has_cards || self.shared.is_asking(node) {
            return;
        }
        if !self.searches.begin(node, lost.len(), cx) {
            return;
        }
        let room = cx.node(node).map(|node| *node.room()).unwrap_or_default();
        // What is lost counts as shared in the ledger, with room for its reservation, and is free to
        // the device plugin.
        let free = room.whole.min(room.pods) as usize + lost.len();
        let groups = (0..MOST).map(|nth| reservation::search_group(node, nth));
        let groups = groups.filter(|group| self.shared.is_new(node, group));
        let groups: Vec<String> = groups.take(free).collect();
        for group in groups {
            let index = self.shared.vacant(node, cx);
            self.ask(&node.into(), index, &group, cx);
        }
    }
}

impl Searches {
    /// Begins to look for lost cards of a node, or begins anew, if it is time for that.
    fn begin(&mut self, node: &str, lost: usize, cx: &mut Context) -> bool {
        let now = cx.now;
        let search = self.0.get(node).copied();
        let search =
            search.unwrap_or(Search { next: now, wait: FIRST, refused: false, bare_since: None });
        if now < search.next {
            return false;
        }
        tracing::warn!(
            node,
            cards = lost,
            "shared cards have lost their reservations: taking the free ones to win them back"
        );
        let (next, wait) = (now + search.wait, (search.wait * 2).min(LAST));
        self.0.insert(node.into(), Search { next, wait, refused: false, ..search });
        cx.at(next, Timer::LookAtCards(node.into()));
        true
    }

    /// Whether an unsettled node is to be kept from other schedulers.
    pub(super) fn keeps_taint(&mut self, node: &str, cx: &Context) -> bool {
        let hands_out = cx.node(node).is_some_and(|node| node.capacity().gpus.usable > 0);
        let Some(search) = self.0.get_mut(node) else {
            return cx.hands_off();
        };
        let since = *search.bare_since.get_or_insert(cx.now);
        if hands_out {
            search.bare_since = None;
        }
        hands_out || cx.now < since + TAINTED
    }

    /// Takes note that the device plugin had no card left for a reservation.
    pub(super) fn refused(&mut self, node: &str, why: &str) {
        // Not OutOfcpu, for example: that says nothing of cards.
        let is_shortage = why.contains("UnexpectedAdmissionError") || why.contains(keys::GPU);
        if let Some(search) = self.0.get_mut(node).filter(|_| is_shortage) {
            search.refused = true;
        }
    }

    /// Whether the last search ended because the device plugin had none left.
    pub(super) fn was_refused(&self, node: &str) -> bool {
        self.0.get(node).is_some_and(|search| search.refused)
    }

    /// The search is over.
    pub(super) fn stop(&mut self, node: &str) {
        if self.0.remove(node).is_some() {
            tracing::info!(node, "no shared card is looked for any more");
        }
    }
}
