//! Why a pod waits: every node's reason, gathered, and the node that comes closest.

use crate::pods::State;
use crate::reason::Reason;
use crate::record::PodKey;
use crate::rules::Barred;
use crate::scheduler::{Placement, Scheduler, share_on};
use crate::shapes::ShapeId;
use divvy_ledger::{Bytes, CardState, MilliCpu, Needs, Node, NodeId, Request, Shortage};
use std::cmp::Reverse;
use std::sync::Arc;

/// How a pod stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It holds a place.
    Placed(Placement),
    /// It waits.
    Waiting(Diagnosis),
    /// It is bound to a node that is not in the cluster.
    Astray,
}

/// Why a pod waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// Nodes by reason: the reason that came closest first, then the one of most nodes.
    pub groups: Vec<Group>,
    /// The node that lacks least.
    pub nearest: Option<Nearest>,
}

impl Diagnosis {
    fn of(reason: Reason) -> Self {
        Self { groups: vec![Group { reason, nodes: Vec::new() }], nearest: None }
    }

    /// The answer in one line.
    pub fn headline(&self) -> String {
        self.groups.first().map_or_else(String::new, |g| g.reason.to_string())
    }
}

/// Nodes that refuse for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The reason, with the best number of all of them.
    pub reason: Reason,
    /// Their names, sorted; empty if the reason is the pod's own.
    pub nodes: Vec<Arc<str>>,
}

/// The nearest fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// The node.
    pub node: Arc<str>,
    /// The card, if one card decides.
    pub card: Option<u32>,
    /// What is missing there.
    pub missing: Missing,
    /// Who would have to end for the pod to fit, fewest first.
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
    /// How a pod stands, and if it waits, why. Looks at every node.
    pub fn standing(&self, key: &PodKey) -> Option<Standing> {
        let pod = self.pod(key)?;
        Some(match &pod.state {
            State::Held => {
                let holding = self.holding(key)?;
                let node = self.ledger().node(holding.node)?.name().clone();
                Standing::Placed(Placement { node, cards: holding.cards.clone() })
            }
            State::Astray => Standing::Astray,
            State::Gated(stuck) => {
                Standing::Waiting(Diagnosis::of(Reason::Gated(stuck.why.clone())))
            }
            State::Invalid(stuck) => {
                Standing::Waiting(Diagnosis::of(Reason::Invalid(stuck.why.clone())))
            }
            State::Waiting(shape) => Standing::Waiting(self.diagnose(*shape)?),
        })
    }

    /// What a waiting pod has in common with others: pods with the same answer wait for the same
    /// reasons, so that a report of many pods asks once for each.
    pub fn shape_of(&self, key: &PodKey) -> Option<ShapeId> {
        match self.pod(key)?.state {
            State::Waiting(shape) => Some(shape),
            _ => None,
        }
    }

    fn diagnose(&self, shape: ShapeId) -> Option<Diagnosis> {
        if self.node_count() == 0 {
            return Some(Diagnosis::of(Reason::NoNodes));
        }
        let (needs, rules) = (self.shapes().needs(shape)?, self.shapes().rules(shape)?);
        let mut groups: Vec<Group> = Vec::new();
        let mut nearest: Option<(u64, Nearest)> = None;
        for (name, id) in self.nodes() {
            let (Some(node), Some(facts)) = (self.ledger().node(id), self.facts(id)) else {
                continue;
            };
            let reason = match rules.judge(name, facts) {
                Err(barred) => match barred {
                    Barred::OtherNode => {
                        Reason::OtherNode(rules.node_name.as_deref().unwrap_or_default().into())
                    }
                    Barred::Cordoned => Reason::Cordoned,
                    Barred::Taint(taint) => Reason::Taint(taint.clone()),
                    Barred::Affinity => Reason::Affinity,
                },
                Ok(_) => {
                    let Err(shortage) = node.fit(needs, share_on(node, needs.request)) else {
                        continue;
                    };
                    if let Some((gap, near)) = self.gap(id, node, needs, shortage)
                        && nearest.as_ref().is_none_or(|(least, _)| gap < *least)
                    {
                        nearest = Some((gap, near));
                    }
                    self.lacks(needs, shortage)
                }
            };
            match groups.iter_mut().find(|g| g.reason.clone().absorb(&reason)) {
                Some(group) => {
                    group.reason.absorb(&reason);
                    group.nodes.push(name.clone());
                }
                None => groups.push(Group { reason, nodes: vec![name.clone()] }),
            }
        }
        groups.sort_by_key(|g| Reverse((g.reason.closeness(), g.nodes.len())));
        Some(Diagnosis { groups, nearest: nearest.map(|(_, nearest)| nearest) })
    }

    fn lacks(&self, needs: &Needs, shortage: Shortage) -> Reason {
        let resource = match shortage {
            Shortage::Extended { resource, .. } => {
                Some(self.ledger().resource_name(resource).into())
            }
            _ => None,
        };
        let portion = match needs.request {
            Request::Share { portion, .. } => Some(portion),
            Request::None | Request::Whole(_) => None,
        };
        Reason::Lacks { shortage, resource, portion }
    }

    /// How far a node is from taking the pod, in millionths of what is asked, and what it lacks.
    fn gap(
        &self,
        id: NodeId,
        node: &Node,
        needs: &Needs,
        shortage: Shortage,
    ) -> Option<(u64, Nearest)> {
        let mut card = None;
        let mut holders = Vec::new();
        let (missing, lacking, asked) = match shortage {
            Shortage::FreeShare { asked, .. } => {
                let (index, free) = freest_shared_card(node).unwrap_or((0, Bytes(0)));
                let missing = asked.minus(free);
                card = Some(index);
                holders = self.fewest_holders(id, index, missing);
                (Missing::Share(missing), missing.0, asked.0)
            }
            Shortage::FreeCards { free, asked } => {
                holders = self.holders_of_cards(id, asked - free);
                (Missing::Cards(asked - free), u64::from(asked - free), u64::from(asked))
            }
            Shortage::FreeShares { fitting, asked } => {
                (Missing::Cards(asked - fitting), u64::from(asked - fitting), u64::from(asked))
            }
            Shortage::Extended { resource, free, asked } => {
                let name = self.ledger().resource_name(resource).into();
                (Missing::Extended(name, asked - free), asked - free, asked)
            }
            Shortage::Cpu { free, asked } => {
                let missing = asked.0 - free.0;
                (Missing::Cpu(MilliCpu(missing)), missing, asked.0)
            }
            Shortage::Memory { free, asked } => {
                (Missing::Memory(asked.minus(free)), asked.minus(free).0, asked.0)
            }
            Shortage::Ephemeral { free, asked } => {
                (Missing::Ephemeral(asked.minus(free)), asked.minus(free).0, asked.0)
            }
            Shortage::PodSlots => (Missing::PodSlot, 1, 1),
            // No pod that ends changes any of these.
            Shortage::NoGpu
            | Shortage::Replicas
            | Shortage::CardMemoryUnknown
            | Shortage::CardSize { .. }
            | Shortage::CardCount { .. }
            | Shortage::NotAllocatable { .. } => return None,
        };
        // What the whole node could never give is not near, whoever ends.
        let has = node.capacity();
        let never = match missing {
            Missing::Cpu(_) => needs.cpu > has.cpu,
            Missing::Memory(_) => needs.memory > has.memory,
            Missing::Ephemeral(_) => needs.ephemeral > has.ephemeral,
            Missing::Extended(..) => match shortage {
                Shortage::Extended { resource, asked, .. } => asked > node.extended(resource).1,
                _ => false,
            },
            Missing::Share(_) | Missing::Cards(_) | Missing::PodSlot => false,
        };
        if never {
            return None;
        }
        let gap = u128::from(lacking) * 1_000_000 / u128::from(asked.max(1));
        let gap = u64::try_from(gap).unwrap_or(u64::MAX);
        Some((gap, Nearest { node: node.name().clone(), card, missing, holders }))
    }

    /// The fewest shares of a card that add up to `missing`; one that suffices alone is best.
    fn fewest_holders(&self, node: NodeId, card: u32, missing: Bytes) -> Vec<(PodKey, Bytes)> {
        let node = self.ledger().node(node);
        let Some(card) = node.and_then(|n| n.cards().get(card as usize)) else {
            return Vec::new();
        };
        let mut shares: Vec<_> = card.shares().to_vec();
        shares.sort_by_key(|s| s.bytes);
        let enough = shares.iter().find(|s| s.bytes >= missing).copied();
        let mut left = missing;
        let chosen = match enough {
            Some(share) => vec![share],
            None => {
                let mut chosen = Vec::new();
                while left.0 > 0
                    && let Some(share) = shares.pop()
                {
                    left = left.minus(share.bytes);
                    chosen.push(share);
                }
                chosen
            }
        };
        let named = chosen.iter().filter_map(|s| Some((self.pod_key(s.pod)?.clone(), s.bytes)));
        named.collect()
    }

    /// Who holds the `count` cards of a node that have the fewest holders.
    fn holders_of_cards(&self, node: NodeId, count: u32) -> Vec<(PodKey, Bytes)> {
        let Some(node) = self.ledger().node(node) else { return Vec::new() };
        let mut held: Vec<_> =
            node.cards().iter().filter(|c| *c.state() != CardState::Free).collect();
        held.sort_by_key(|c| c.shares().len());
        let mut holders: Vec<(PodKey, Bytes)> = Vec::new();
        for card in held.into_iter().take(count as usize) {
            let whole = match card.state() {
                CardState::Whole(pod) => Some((*pod, card.capacity())),
                CardState::Free | CardState::Shared(_) => None,
            };
            for (pod, bytes) in card.shares().iter().map(|s| (s.pod, s.bytes)).chain(whole) {
                let Some(key) = self.pod_key(pod) else { continue };
                match holders.iter_mut().find(|(k, _)| k == key) {
                    Some((_, sum)) => sum.0 += bytes.0,
                    None => holders.push((key.clone(), bytes)),
                }
            }
        }
        holders
    }
}

fn freest_shared_card(node: &Node) -> Option<(u32, Bytes)> {
    let shared =
        node.cards().iter().enumerate().filter(|(i, c)| node.is_open(*i) && !c.shares().is_empty());
    let freest = shared.max_by_key(|(i, c)| (c.capacity().minus(c.used()), Reverse(*i)));
    freest.map(|(i, c)| (i as u32, c.capacity().minus(c.used())))
}
