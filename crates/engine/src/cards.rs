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
    request: Request,
    share: Bytes,
    openable: u32,
    by: Strategy,
) -> CardShares {
    let free = || node.free_cards().take(node.room().whole as usize);
    let grant = |index: usize, bytes| CardShare { index: index as u32, bytes };
    match request {
        Request::None => CardShares::new(),
        Request::Whole(_) if node.card_count() == 0 => CardShares::new(),
        Request::Whole(n) => free().take(n as usize).map(|i| grant(i, node.card_size())).collect(),
        Request::Share { cards, .. } => {
            let size = node.card_size();
            let joinable = node.shared_cards().filter(|(_, free)| *free >= share);
            // Of cards that are as empty, one that is shared already: that opens no other.
            let used = joinable.map(|(i, free)| (size.minus(free), false, i));
            let free = free().take(openable as usize);
            let mut candidates: SmallVec<[(Bytes, bool, usize); 16]> =
                used.chain(free.map(|i| (Bytes(0), true, i))).collect();
            match by {
                Strategy::Binpack => {
                    candidates.sort_by_key(|(used, free, i)| (Reverse(*used), *free, *i));
                }
                Strategy::Spread => candidates.sort(),
            }
            candidates.truncate(cards as usize);
            candidates.sort_by_key(|(_, _, i)| *i);
            candidates.iter().map(|(_, _, i)| grant(*i, share)).collect()
        }
    }
}
