//! The node that comes closest to taking a pod that waits, and who would have to end for it.

use crate::record::PodKey;
use crate::scheduler::Scheduler;
use crate::trial::Trial;
use divvy_ledger::{Bytes, Card, MilliCpu, Mode, Node, Percent, Share, Shortage};
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
    /// So many pod slots.
    PodSlots(u32),
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
            Self::PodSlots(1) => f.write_str("1 pod slot"),
            Self::PodSlots(n) => write!(f, "{n} pod slots"),
        }
    }
}

impl Scheduler {
    /// How far a node is from taking the pod, in millionths of what is asked, and what it lacks.
    pub(crate) fn nearness(&self, node: &Node, shortage: Shortage) -> Option<(u64, Nearest)> {
        let has = node.capacity();
        let mut card = None;
        let (missing, lacking, asked) = match shortage {
            Shortage::FreeShare { asked, .. } => {
                let (index, free) = freest_held_card(node)?;
                let missing = asked.minus(free);
                card = u32::try_from(index).ok();
                (Missing::Share(missing), missing.0, asked.0)
            }
            Shortage::FreeCards { free, asked } => {
                (Missing::Cards(asked - free), (asked - free).into(), asked.into())
            }
            Shortage::FreeShares { fitting, asked } => {
                (Missing::Cards(asked - fitting), (asked - fitting).into(), asked.into())
            }
            // What the whole node could never give is not near, whoever ends.
            Shortage::Extended { resource, free, asked } if asked <= node.extended(resource).1 => {
                let name = self.ledger().resource_name(resource).into();
                (Missing::Extended(name, asked - free), asked - free, asked)
            }
            Shortage::Devices { device, total, free, asked, .. } if asked <= total => {
                let missing = asked - free;
                let name = device.to_string().into();
                (Missing::Extended(name, missing.into()), missing.into(), asked.into())
            }
            Shortage::Cpu { free, asked, .. } if asked <= has.cpu => {
                (Missing::Cpu(MilliCpu(asked.0 - free.0)), asked.0 - free.0, asked.0)
            }
            Shortage::Memory { free, asked, .. } if asked <= has.memory => {
                (Missing::Memory(asked.minus(free)), asked.minus(free).0, asked.0)
            }
            Shortage::Ephemeral { free, asked } if asked <= has.ephemeral => {
                (Missing::Ephemeral(asked.minus(free)), asked.minus(free).0, asked.0)
            }
            Shortage::PodSlots { free, reserved } => {
                let missing = reserved.saturating_add(1).saturating_sub(free);
                (Missing::PodSlots(missing), missing.into(), missing.into())
            }
            _ => return None,
        };
        let gap = u128::from(lacking) * 1_000_000 / u128::from(asked.max(1));
        let gap = u64::try_from(gap).unwrap_or(u64::MAX);
        Some((gap, Nearest { node: node.name().clone(), card, missing }))
    }

    /// Who would have to end for a pod that waits to fit on its nearest node, and what each has of
    /// the cards that are missing. One less would not do. Empty if nobody's end is enough.
    pub fn who_must_end(&mut self, key: &PodKey, nearest: &Nearest) -> Vec<(PodKey, Bytes)> {
        let (Some(shape), Some(id)) = (self.shape_of(key), self.ledger().find(&nearest.node))
        else {
            return Vec::new();
        };
        let Some(node) = self.ledger().node(id) else { return Vec::new() };
        let held = match (&nearest.missing, nearest.card) {
            (Missing::Share(missing), Some(card)) => {
                let here = node.cards().get(card as usize).map(shares_of).unwrap_or_default();
                fewest(here, *missing)
            }
            (Missing::Cards(_), _) => held_by(node),
            _ => return Vec::new(),
        };
        let mut trial = Trial::new(self);
        let mut is_enough = |pods: &[Share]| {
            let mark = trial.mark();
            pods.iter().for_each(|share| trial.end(share.pod));
            let fits = trial.fits_on(shape, id);
            trial.undo_to(mark);
            fits
        };
        let shares = match nearest.missing {
            Missing::Share(_) if is_enough(&held) => held,
            Missing::Share(_) => Vec::new(),
            _ => smallest(held, is_enough),
        };
        drop(trial);
        let named = shares.iter().filter_map(|s| Some((self.pod_key(s.pod)?.clone(), s.bytes)));
        named.collect()
    }
}

/// The held card that would take a share with the least ending: a shared one, else a whole one.
fn freest_held_card(node: &Node) -> Option<(usize, Bytes)> {
    let whole = (0..node.cards().len())
        .filter(|i| node.is_open(*i) && matches!(node.cards()[*i].mode(), Mode::Whole(_)));
    let held = node.shared_cards().chain(whole.map(|i| (i, Bytes(0))));
    held.max_by_key(|(index, free)| (*free, Reverse(*index)))
}

fn shares_of(card: &Card) -> Vec<Share> {
    match card.mode() {
        Mode::Free | Mode::Divided(_) => Vec::new(),
        Mode::Whole(pod) => {
            vec![Share { pod: *pod, bytes: card.capacity(), compute: Percent::ALL }]
        }
        Mode::Shared(_) => card.shares().to_vec(),
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

/// What pods hold of the cards of a node that take others once they are free: each pod once, those
/// with the least first.
fn held_by(node: &Node) -> Vec<Share> {
    let open = node.cards().iter().enumerate().filter(|(index, _)| node.is_open(*index));
    let mut held: Vec<Share> = Vec::new();
    for share in open.flat_map(|(_, card)| shares_of(card)) {
        match held.iter_mut().find(|other| other.pod == share.pod) {
            Some(other) => other.bytes.0 += share.bytes.0,
            None => held.push(share),
        }
    }
    held.sort_by_key(|share| (share.bytes, share.pod));
    held
}

/// So many pods are tried two by two.
const PAIRED: usize = 24;

/// The fewest of these, least first, whose end is enough: one, else two, else so many that none of
/// them is needless.
fn smallest(all: Vec<Share>, mut is_enough: impl FnMut(&[Share]) -> bool) -> Vec<Share> {
    if let Some(one) = all.iter().find(|share| is_enough(&[**share])) {
        return vec![*one];
    }
    if all.len() <= PAIRED {
        let pairs = (1..all.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
        let mut pairs = pairs.map(|(i, j)| [all[i], all[j]]);
        if let Some(two) = pairs.find(|pair| is_enough(pair)) {
            return two.into();
        }
    }
    if !is_enough(&all) {
        return Vec::new();
    }
    let mut left = all;
    let mut at = 0;
    while at < left.len() {
        let share = left.remove(at);
        if !is_enough(&left) {
            left.insert(at, share);
            at += 1;
        }
    }
    left
}
