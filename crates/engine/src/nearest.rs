//! The node that comes closest to taking a pod that waits, and who would have to end for it.

use crate::record::ObjectKey;
use crate::scheduler::{Scheduler, Trial, share_on};
use divvy_ledger::{
    Bytes, Card, Device, Holder, MilliCpu, Mode, Node, NodeId, Percent, PodId, Request, ResourceId,
    Shortage,
};
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
    /// So much compute of one card.
    Compute(Percent),
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
            Self::Compute(compute) => write!(f, "{compute} compute"),
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
    /// How far a node is from taking such a pod, in millionths of what is asked, and what it lacks.
    pub(crate) fn nearness(
        &self,
        node: &Node,
        request: &Request,
        shortage: Shortage,
    ) -> Option<(u64, Nearest)> {
        let has = node.capacity();
        let (missing, lacking, asked) = match shortage {
            Shortage::FreeShare { .. } | Shortage::Class { .. } | Shortage::Compute { .. } => {
                let least = lacks(node, request).min_by_key(Lack::order)?;
                return Some((least.gap, least.nearest(node)));
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
        Some((gap(lacking, asked), Nearest { node: node.name().clone(), card: None, missing }))
    }

    /// Who would have to end for a pod that waits to fit on its nearest node, and what each has of
    /// what is missing there: the fewest pods, and of as few those with the least; where there are too
    /// many sets of pods to try them, few of whom none is needless. Empty if nobody's end is enough.
    /// And the nearest fit on the card that they leave.
    pub fn who_must_end(
        &mut self,
        key: &ObjectKey,
        nearest: Nearest,
    ) -> (Nearest, Vec<(ObjectKey, Missing)>) {
        let (Some(shape), Some(id)) = (self.shape_of(key), self.ledger().find(&nearest.node))
        else {
            return (nearest, Vec::new());
        };
        let (Some(node), Some(needs)) = (self.ledger().node(id), self.shapes().needs(shape)) else {
            return (nearest, Vec::new());
        };
        // Of cards their bytes are told.
        let (what, held) = match &nearest.missing {
            Missing::Share(_) | Missing::Compute(_) | Missing::Cards(_) => {
                (Missing::Share(Bytes(0)), held_by(node))
            }
            missing => (missing.clone(), self.takers(id, missing)),
        };
        let held = self.by_size(held);
        let request = needs.request.clone();
        let lacks: Vec<Lack> = match what {
            Missing::Share(_) if request.cards() == 1 => lacks(node, &request).collect(),
            _ => Vec::new(),
        };
        let on_card = |lack: &Lack| {
            let here = shares_of(&node.cards()[lack.card as usize]);
            let is_here = |taker: &&Taker| here.iter().any(|share| share.pod == taker.pod);
            held.iter().filter(is_here).copied().collect::<Vec<_>>()
        };
        let groups: Vec<Vec<Taker>> = lacks.iter().map(on_card).chain([held.clone()]).collect();
        let mut trial = Trial::new(self);
        let ends = smallest(&held, &groups, |takers| {
            let mark = trial.mark();
            takers.iter().for_each(|taker| trial.end(taker.pod));
            let fits = trial.fits_on(shape, id);
            trial.undo_to(mark);
            fits
        });
        ends.iter().for_each(|taker| trial.end(taker.pod));
        let left = trial.node(id).map(|node| cards_for(node, &request)).unwrap_or_default();
        drop(trial);
        let left = lacks.into_iter().filter(|lack| !ends.is_empty() && left.contains(&lack.card));
        let nearest = match (left.min_by_key(Lack::order), self.ledger().node(id)) {
            (Some(lack), Some(node)) => lack.nearest(node),
            _ => nearest,
        };
        let named = ends.iter();
        let named = named.filter_map(|t| Some((self.pod_key(t.pod)?.clone(), what.as_much(t.has))));
        (nearest, named.collect())
    }

    /// Who has something on a node of what is missing there.
    fn takers(&self, node: NodeId, missing: &Missing) -> Vec<Taker> {
        let takers = self.held_on(node).map(|(pod, holding)| {
            let needs = &holding.needs;
            let has = match missing {
                Missing::Share(_) | Missing::Compute(_) | Missing::Cards(_) => 0,
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
            Self::Share(_) | Self::Compute(_) => Self::Share(Bytes(has)),
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

/// What a card that is held lacks for a share.
struct Lack {
    card: u32,
    /// How far it is from taking the share, in millionths of what is asked.
    gap: u64,
    missing: Missing,
}

impl Lack {
    /// The least first. Which number a card has matters only where all else is the same.
    fn order(&self) -> (u64, u8, u64, u32) {
        let (kind, lacking) = match &self.missing {
            Missing::Share(bytes) => (0, bytes.0),
            Missing::Compute(compute) => (1, compute.0.into()),
            _ => (2, 0),
        };
        (self.gap, kind, lacking, self.card)
    }

    fn nearest(self, node: &Node) -> Nearest {
        // Any card of its own would do for a share that goes with none.
        let card = (!matches!(self.missing, Missing::Cards(_))).then_some(self.card);
        Nearest { node: node.name().clone(), card, missing: self.missing }
    }
}

/// What each card that is held lacks for a share of one card.
fn lacks<'a>(node: &'a Node, request: &Request) -> impl Iterator<Item = Lack> + 'a {
    let (part, share) = (request.part(), share_on(node, request));
    let held = part.map(|part| node.held_for(part.portion, share).map(move |on| (part, on)));
    held.into_iter().flatten().filter_map(move |(part, (index, free, asked))| {
        let card = node.cards().get(index)?;
        let (missing, gap) = if card.class().is_some_and(|class| class != part.class) {
            (Missing::Cards(1), gap(1, 1))
        } else if asked > free {
            let missing = asked.minus(free);
            (Missing::Share(missing), gap(missing.0, asked.0))
        } else {
            let missing = part.compute.minus(Percent::ALL.minus(card.compute()));
            (Missing::Compute(missing), gap(missing.0.into(), part.compute.0.into()))
        };
        Some(Lack { card: u32::try_from(index).ok()?, gap, missing })
    })
}

/// In millionths of what is asked.
fn gap(lacking: u64, asked: u64) -> u64 {
    let gap = u128::from(lacking) * 1_000_000 / u128::from(asked.max(1));
    u64::try_from(gap).unwrap_or(u64::MAX)
}

/// The cards that take a share of one card now.
fn cards_for(node: &Node, request: &Request) -> Vec<u32> {
    let Some(part) = request.part() else { return Vec::new() };
    let share = share_on(node, request);
    let joinable = node.joinable(part, share).map(|(index, ..)| index);
    let cards = joinable.chain(node.free_for(part.portion, share).map(|(index, _)| index));
    cards.filter_map(|index| u32::try_from(index).ok()).collect()
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

/// So many sets of pods are tried: all that eleven pods make, three of twenty-four, two of seventy.
const TRIES: usize = 2_500;

/// The fewest of these, and of as few those with the least, whose end is enough. If there are too many
/// to try, the best that [`few`] finds in one of the groups.
fn smallest(
    all: &[Taker],
    groups: &[Vec<Taker>],
    mut is_enough: impl FnMut(&[Taker]) -> bool,
) -> Vec<Taker> {
    let next = |set: &Vec<usize>| set.last().map_or(0, |last| last + 1);
    let named = |set: &Vec<usize>| set.iter().map(|at| all[*at]).collect::<Vec<Taker>>();
    let mut left = TRIES;
    let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
    while !sets.is_empty() {
        let count: usize = sets.iter().map(|set| all.len() - next(set)).sum();
        let Some(rest) = left.checked_sub(count) else {
            let found = groups.iter().map(|group| few(group, &mut is_enough));
            let found = found.filter(|set| !set.is_empty());
            return found.min_by_key(|set| size(set)).unwrap_or_default();
        };
        left = rest;
        let more = |set: &Vec<usize>| {
            let set = set.clone();
            (next(&set)..all.len()).map(move |at| [&set[..], &[at]].concat())
        };
        sets = sets.iter().flat_map(more).collect();
        sets.sort_by_cached_key(|set| (size(&named(set)), set.clone()));
        if let Some(set) = sets.iter().map(named).find(|set| is_enough(set)) {
            return set;
        }
    }
    Vec::new()
}

/// Of two sets, the one that is less. Who has how much comes before who it is.
fn size(set: &[Taker]) -> (usize, u128, Vec<u64>) {
    let sum = set.iter().map(|taker| u128::from(taker.has)).sum();
    (set.len(), sum, set.iter().map(|taker| taker.has).collect())
}

/// Of these, least first, as few of the largest as are enough, none of them needless.
fn few(all: &[Taker], is_enough: &mut impl FnMut(&[Taker]) -> bool) -> Vec<Taker> {
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
