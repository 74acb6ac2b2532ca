//! The node that comes closest to taking a pod that waits, and who would have to end for it.

use crate::record::ObjectKey;
use crate::scheduler::{Scheduler, Trial};
use divvy_ledger::{
    Bytes, Card, Device, Holder, MilliCpu, Mode, Node, NodeId, PodId, ResourceId, Shortage,
};
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
            Shortage::Devices { device, total, taken, asked, .. } if asked <= total => {
                let missing = asked.saturating_add(taken).saturating_sub(total);
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
    /// what is missing there. One less would not do. Empty if nobody's end is enough.
    pub fn who_must_end(
        &mut self,
        key: &ObjectKey,
        nearest: &Nearest,
    ) -> Vec<(ObjectKey, Missing)> {
        let (Some(shape), Some(id)) = (self.shape_of(key), self.ledger().find(&nearest.node))
        else {
            return Vec::new();
        };
        let Some(node) = self.ledger().node(id) else { return Vec::new() };
        // Of cards their bytes are told.
        let what = match &nearest.missing {
            Missing::Cards(_) => Missing::Share(Bytes(0)),
            missing => missing.clone(),
        };
        let held = match (&nearest.missing, nearest.card) {
            (Missing::Share(missing), Some(card)) => {
                let here = node.cards().get(card as usize).map(shares_of).unwrap_or_default();
                fewest(self.by_size(here), missing.0)
            }
            (Missing::Cards(_), _) => self.by_size(held_by(node)),
            (missing, _) => self.by_size(self.takers(id, missing)),
        };
        let mut trial = Trial::new(self);
        let mut is_enough = |takers: &[Taker]| {
            let mark = trial.mark();
            takers.iter().for_each(|taker| trial.end(taker.pod));
            let fits = trial.fits_on(shape, id);
            trial.undo_to(mark);
            fits
        };
        let ends = match nearest.missing {
            Missing::Share(_) if is_enough(&held) => held,
            Missing::Share(_) => Vec::new(),
            _ => smallest(&held, is_enough),
        };
        drop(trial);
        let named = ends.iter();
        let named = named.filter_map(|t| Some((self.pod_key(t.pod)?.clone(), what.as_much(t.has))));
        named.collect()
    }

    /// Who has something on a node of what is missing there.
    fn takers(&self, node: NodeId, missing: &Missing) -> Vec<Taker> {
        let takers = self.held_on(node).map(|(pod, holding)| {
            let needs = &holding.needs;
            let has = match missing {
                Missing::Share(_) | Missing::Cards(_) => 0,
                Missing::Cpu(_) => needs.cpu.0,
                Missing::Memory(_) => needs.memory.0,
                Missing::Ephemeral(_) => needs.ephemeral.0,
                Missing::PodSlots(_) => u64::from(needs.holder != Holder::Ghost),
                Missing::Extended(name, _) => {
                    let named = |id: ResourceId| *self.ledger().resource_name(id) == **name;
                    let extended = needs.extended.iter().filter(|(id, _)| named(*id));
                    let replicas = (Device::Gpu, holding.replicas);
                    let devices = needs.request.devices().chain([replicas]);
                    let devices = devices.filter(|(device, _)| device.to_string() == **name);
                    let counted = devices.map(|(_, count)| u64::from(count));
                    extended.map(|(_, count)| *count).chain(counted).fold(0, u64::saturating_add)
                }
            };
            // A reservation goes with the last share of its card.
            Taker { pod, has: if needs.holder == Holder::Keeper { 0 } else { has } }
        });
        takers.filter(|taker| taker.has > 0).collect()
    }

    /// Those with the least first, and by name where they have as much.
    fn by_size(&self, mut takers: Vec<Taker>) -> Vec<Taker> {
        takers.sort_by_key(|taker| (taker.has, self.pod_key(taker.pod)));
        takers
    }
}

impl Missing {
    /// So much of the same.
    fn as_much(&self, has: u64) -> Self {
        let count = || u32::try_from(has).unwrap_or(u32::MAX);
        match self {
            Self::Share(_) => Self::Share(Bytes(has)),
            Self::Cards(_) => Self::Cards(count()),
            Self::Cpu(_) => Self::Cpu(MilliCpu(has)),
            Self::Memory(_) => Self::Memory(Bytes(has)),
            Self::Ephemeral(_) => Self::Ephemeral(Bytes(has)),
            Self::Extended(name, _) => Self::Extended(name.clone(), has),
            Self::PodSlots(_) => Self::PodSlots(count()),
        }
    }
}

/// A pod that has something of what is missing.
#[derive(Clone, Copy)]
struct Taker {
    pod: PodId,
    /// How much.
    has: u64,
}

/// The held card that would take a share with the least ending: a shared one, else a whole one.
fn freest_held_card(node: &Node) -> Option<(usize, Bytes)> {
    let whole = (0..node.cards().len())
        .filter(|i| node.is_open(*i) && matches!(node.cards()[*i].mode(), Mode::Whole(_)));
    let held = node.shared_cards().chain(whole.map(|i| (i, Bytes(0))));
    held.max_by_key(|(index, free)| (*free, Reverse(*index)))
}

fn shares_of(card: &Card) -> Vec<Taker> {
    match card.mode() {
        Mode::Free | Mode::Divided(_) => Vec::new(),
        Mode::Whole(pod) => vec![Taker { pod: *pod, has: card.capacity().0 }],
        Mode::Shared(_) => {
            card.shares().iter().map(|share| Taker { pod: share.pod, has: share.bytes.0 }).collect()
        }
    }
}

/// The fewest of these, least first, that add up to `missing`; the smallest one that suffices alone is
/// best.
fn fewest(mut takers: Vec<Taker>, missing: u64) -> Vec<Taker> {
    if let Some(one) = takers.iter().find(|taker| taker.has >= missing) {
        return vec![*one];
    }
    let mut left = missing;
    let mut chosen = Vec::new();
    while left > 0
        && let Some(taker) = takers.pop()
    {
        left = left.saturating_sub(taker.has);
        chosen.push(taker);
    }
    chosen
}

/// What pods hold of the cards of a node that take others once they are free: each pod once.
fn held_by(node: &Node) -> Vec<Taker> {
    let open = node.cards().iter().enumerate().filter(|(index, _)| node.is_open(*index));
    let mut held: Vec<Taker> = Vec::new();
    for share in open.flat_map(|(_, card)| shares_of(card)) {
        match held.iter_mut().find(|other| other.pod == share.pod) {
            Some(other) => other.has += share.has,
            None => held.push(share),
        }
    }
    held
}

/// So many pods are tried two by two.
const PAIRED: usize = 24;

/// The fewest of these, least first, whose end is enough: one, else two, else so many that none of
/// them is needless.
fn smallest(all: &[Taker], mut is_enough: impl FnMut(&[Taker]) -> bool) -> Vec<Taker> {
    if let Some(one) = all.iter().find(|taker| is_enough(&[**taker])) {
        return vec![*one];
    }
    if all.len() <= PAIRED {
        let pairs = (1..all.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
        let mut pairs = pairs.map(|(i, j)| [all[i], all[j]]);
        if let Some(two) = pairs.find(|pair| is_enough(pair)) {
            return two.into();
        }
    }
    // Of many, the largest: as few as are enough.
    let starts: Vec<usize> = (0..all.len()).collect();
    let Some(first) = starts.partition_point(|at| is_enough(&all[*at..])).checked_sub(1) else {
        return Vec::new();
    };
    let mut left = all[first..].to_vec();
    let mut at = 0;
    while at < left.len() {
        let taker = left.remove(at);
        if !is_enough(&left) {
            left.insert(at, taker);
            at += 1;
        }
    }
    left
}
