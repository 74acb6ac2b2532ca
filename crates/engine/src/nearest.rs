//! The node that comes closest to taking a pod that waits, and who would have to end for it.

use crate::record::PodKey;
use crate::scheduler::{Scheduler, share_on};
use divvy_ledger::{Bytes, Card, CardState, MilliCpu, Needs, Node, PodId, Share, Shortage};
use std::cmp::Reverse;
use std::sync::Arc;

/// The nearest fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// The node.
    pub node: Arc<str>,
    /// The card, if one card decides.
    pub card: Option<u32>,
    /// What is missing there.
    pub missing: Missing,
    /// Who would have to end for the pod to fit. Empty if that alone would not do.
    pub holders: Vec<(PodKey, Bytes)>,
}

/// What is missing on the nearest node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// So much on one card.
    Share(Bytes),
    /// So many cards.
    Cards(u32),
    /// So much CPU.
    Cpu(MilliCpu),
    /// So much memory.
    Memory(Bytes),
    /// So much ephemeral storage.
    Ephemeral(Bytes),
    /// So much of an extended resource.
    Extended(Arc<str>, u64),
    /// A pod slot.
    PodSlot,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Share(bytes) => write!(f, "{bytes}"),
            Self::Cards(1) => f.write_str("1 card"),
            Self::Cards(n) => write!(f, "{n} cards"),
            Self::Cpu(cpu) => write!(f, "{cpu} CPU"),
            Self::Memory(bytes) => write!(f, "{bytes} memory"),
            Self::Ephemeral(bytes) => write!(f, "{bytes} ephemeral storage"),
            Self::Extended(name, n) => write!(f, "{n} {name}"),
            Self::PodSlot => f.write_str("1 pod slot"),
        }
    }
}

impl Scheduler {
    /// How far a node is from taking the pod, in millionths of what is asked, and what it lacks.
    pub(crate) fn nearness(
        &self,
        node: &Node,
        needs: &Needs,
        shortage: Shortage,
    ) -> Option<(u64, Nearest)> {
        let has = node.capacity();
        let mut card = None;
        let mut holders: Vec<Share> = Vec::new();
        let (missing, lacking, asked) = match shortage {
            Shortage::FreeShare { asked, .. } => {
                let (index, free) = freest_held_card(node)?;
                let missing = asked.minus(free);
                card = u32::try_from(index).ok();
                holders = fewest(shares_of(&node.cards()[index]), missing);
                (Missing::Share(missing), missing.0, asked.0)
            }
            Shortage::FreeCards { free, asked } => {
                let lacking = asked - free;
                holders = holders_of(node, lacking);
                (Missing::Cards(lacking), lacking.into(), asked.into())
            }
            Shortage::FreeShares { fitting, asked } => {
                (Missing::Cards(asked - fitting), (asked - fitting).into(), asked.into())
            }
            // What the whole node could never give is not near, whoever ends.
            Shortage::Extended { resource, free, asked } if asked <= node.extended(resource).1 => {
                let name = self.ledger().resource_name(resource).into();
                (Missing::Extended(name, asked - free), asked - free, asked)
            }
            Shortage::Cpu { free, asked } if asked <= has.cpu => {
                (Missing::Cpu(MilliCpu(asked.0 - free.0)), asked.0 - free.0, asked.0)
            }
            Shortage::Memory { free, asked } if asked <= has.memory => {
                (Missing::Memory(asked.minus(free)), asked.minus(free).0, asked.0)
            }
            Shortage::Ephemeral { free, asked } if asked <= has.ephemeral => {
                (Missing::Ephemeral(asked.minus(free)), asked.minus(free).0, asked.0)
            }
            Shortage::PodSlots => (Missing::PodSlot, 1, 1),
            _ => return None,
        };
        if !self.fits_without(node, needs, &holders) {
            holders.clear();
        }
        let gap = u128::from(lacking) * 1_000_000 / u128::from(asked.max(1));
        let gap = u64::try_from(gap).unwrap_or(u64::MAX);
        let holders = self.named(&holders);
        Some((gap, Nearest { node: node.name().clone(), card, missing, holders }))
    }

    /// Whether the pod would fit once these have ended.
    fn fits_without(&self, node: &Node, needs: &Needs, ended: &[Share]) -> bool {
        let mut pods: Vec<PodId> = ended.iter().map(|s| s.pod).collect();
        pods.sort_unstable();
        pods.dedup();
        let id = self.ledger().find(node.name());
        let then = id.and_then(|id| self.ledger().node_without(id, &pods));
        then.is_some_and(|node| node.fit(needs, share_on(&node, needs.request)).is_ok())
    }

    fn named(&self, shares: &[Share]) -> Vec<(PodKey, Bytes)> {
        let mut holders: Vec<(PodKey, Bytes)> = Vec::new();
        for share in shares {
            let Some(key) = self.pod_key(share.pod) else { continue };
            match holders.iter_mut().find(|(k, _)| k == key) {
                Some((_, sum)) => sum.0 += share.bytes.0,
                None => holders.push((key.clone(), share.bytes)),
            }
        }
        holders
    }
}

/// The held card that would take a share with the least ending: a shared one, else a whole one.
fn freest_held_card(node: &Node) -> Option<(usize, Bytes)> {
    let whole = (0..node.cards().len())
        .filter(|i| node.is_open(*i) && matches!(node.cards()[*i].state(), CardState::Whole(_)));
    let held = node.shared_cards().chain(whole.map(|i| (i, Bytes(0))));
    held.max_by_key(|(index, free)| (*free, Reverse(*index)))
}

fn shares_of(card: &Card) -> Vec<Share> {
    match card.state() {
        CardState::Free => Vec::new(),
        CardState::Whole(pod) => vec![Share { pod: *pod, bytes: card.capacity() }],
        CardState::Shared(shares) => shares.clone(),
    }
}

/// The fewest shares that add up to `missing`; the smallest one that suffices alone is best.
fn fewest(mut shares: Vec<Share>, missing: Bytes) -> Vec<Share> {
    shares.sort_by_key(|s| s.bytes);
    if let Some(share) = shares.iter().find(|s| s.bytes >= missing) {
        return vec![*share];
    }
    let mut left = missing;
    let mut chosen = Vec::new();
    while left.0 > 0
        && let Some(share) = shares.pop()
    {
        left = left.minus(share.bytes);
        chosen.push(share);
    }
    chosen
}

/// Who holds the `count` cards of a node that have the fewest holders.
fn holders_of(node: &Node, count: u32) -> Vec<Share> {
    let open = node.cards().iter().enumerate().filter(|(index, _)| node.is_open(*index));
    let mut held: Vec<Vec<Share>> = open.map(|(_, card)| shares_of(card)).collect();
    held.retain(|shares| !shares.is_empty());
    held.sort_by_key(Vec::len);
    held.into_iter().take(count as usize).flatten().collect()
}
