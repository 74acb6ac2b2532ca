//! Which cards of the chosen node a pod gets.

use crate::config::Strategy;
use divvy_ledger::{Bytes, CardShare, CardShares, Node, Request};
use smallvec::SmallVec;
use std::cmp::Reverse;

/// The cards for a request that fits, lowest index first; empty if the request takes none. Shares
/// open at most `openable` free ones.
///
/// Whole requests take the first free cards. A share that packs takes the fullest shared card it
/// fits on, then free ones; a share that spreads takes the emptiest.
pub(crate) fn choose(
    node: &Node,
    request: &Request,
    share: Bytes,
    openable: u32,
    by: Strategy,
) -> CardShares {
    let Some(part) = request.part() else {
        let free = node.free_cards().take(node.room().whole as usize);
        let grant =
            |index: usize| CardShare { index: index as u32, bytes: node.cards()[index].capacity() };
        return free.take(request.whole_cards() as usize).map(grant).collect();
    };
    let mut candidates: SmallVec<[Candidate; 16]> = SmallVec::new();
    // Of cards that are as empty, one that is shared already: that opens no other.
    for (index, used, bytes) in node.joinable(part, share) {
        candidates.push(Candidate { used, opens: false, index: index as u32, bytes });
    }
    for (index, bytes) in node.free_for(part.portion, share).take(openable as usize) {
        candidates.push(Candidate { used: Bytes(0), opens: true, index: index as u32, bytes });
    }
    match by {
        Strategy::Binpack => candidates.sort_by_key(|c| (Reverse(c.used), c.opens, c.index)),
        Strategy::Spread => candidates.sort_by_key(|c| (c.used, c.opens, c.index)),
    }
    candidates.truncate(request.cards() as usize);
    candidates.sort_by_key(|c| c.index);
    candidates.iter().map(|c| CardShare { index: c.index, bytes: c.bytes }).collect()
}

/// A card that a share can have.
#[derive(Clone, Copy)]
struct Candidate {
    used: Bytes,
    opens: bool,
    index: u32,
    /// How large the share is there.
    bytes: Bytes,
}
