//! Why a pod waits: every node's reason, gathered, and the node that comes closest.

use crate::event::Placement;
use crate::nearest::Nearest;
use crate::others::{Culprits, Prepared};
use crate::pods::PodState;
use crate::reason::Reason;
use crate::record::ObjectKey;
use crate::rules::{Barred, Rules};
use crate::scheduler::{Scheduler, share_on};
use crate::shapes::ShapeId;
use divvy_ledger::{Needs, Node, NodeId, Shortage};
use foldhash::HashMap;
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
    pub refusals: Vec<Refusals>,
    /// The node that lacks least.
    pub nearest: Option<Nearest>,
}

impl Diagnosis {
    /// Of a pod that no node has to be asked for.
    pub fn of(reason: Reason) -> Self {
        Self { refusals: vec![Refusals { reason, nodes: Vec::new() }], nearest: None }
    }

    /// The answer in one line.
    pub fn headline(&self) -> String {
        self.refusals.first().map_or_else(String::new, |g| g.reason.to_string())
    }
}

/// Nodes that refuse for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusals {
    /// The reason, with the best number of all of them.
    pub reason: Reason,
    /// Their names, sorted; empty if the reason is the pod's own.
    pub nodes: Vec<Arc<str>>,
}

/// To say of one node what is wrong with it takes as long as to look at so many.
const AS_LOOKS: u64 = 16;

impl Scheduler {
    /// How a pod stands, and if it waits, why. Looks at every node.
    pub fn standing(&self, key: &ObjectKey) -> Option<Standing> {
        let pod = self.pod(key)?;
        Some(match &pod.state {
            PodState::Held => {
                let holding = self.holding(key)?;
                let node = self.ledger().node(holding.node)?.name().clone();
                Standing::Placed(Placement { node, cards: holding.cards.clone() })
            }
            PodState::Astray => Standing::Astray,
            state => Standing::Waiting(self.why(state)?),
        })
    }

    /// Why a pod that stands so has no place.
    pub(crate) fn why(&self, state: &PodState) -> Option<Diagnosis> {
        Some(match state {
            PodState::Gated(stuck) => Diagnosis::of(Reason::Gated(stuck.why.clone())),
            PodState::Invalid(stuck) => Diagnosis::of(Reason::Invalid(stuck.why.clone())),
            PodState::Paused(stuck) => Diagnosis::of(Reason::Refused(stuck.why.clone())),
            PodState::HeldBack(stuck) => Diagnosis::of(Reason::HeldBack(stuck.why.clone())),
            PodState::Waiting(shape) => self.diagnose(*shape)?,
            PodState::Held | PodState::Astray => return None,
        })
    }

    /// How much [`Scheduler::standing`] has to look at, counted as by [`Scheduler::slice`].
    pub fn work_of_standing(&self, key: &ObjectKey) -> u64 {
        let Some(shape) = self.shape_of(key) else { return 1 };
        let rules = self.shapes().rules(shape).map_or(0, Rules::cost);
        let (who, world) = (self.shapes().related(shape), self.world());
        let others = who.map_or(0, |who| world.others.cost(who));
        // Spread judges each node once more.
        let related = who.and_then(|who| world.others.relations_of(who));
        let spread = related.is_some_and(|related| !related.spread.is_empty());
        let rules = if spread { 2 * rules } else { rules };
        self.node_count() as u64 * (AS_LOOKS + rules as u64 + others as u64)
    }

    /// What a waiting pod has in common with others: pods with the same answer wait for the same
    /// reasons, so that a report of many pods asks once for each.
    pub fn shape_of(&self, key: &ObjectKey) -> Option<ShapeId> {
        match self.pod(key)?.state {
            PodState::Waiting(shape) => Some(shape),
            _ => None,
        }
    }

    /// Whether a pod that waits would fit somewhere now if it asked for something else.
    pub fn fits_if(&self, key: &ObjectKey, change: impl FnOnce(&mut Needs)) -> bool {
        !self.places_if(key, change).is_empty()
    }

    /// The nodes where a pod that waits would fit now if it asked for something else.
    pub fn places_if(&self, key: &ObjectKey, change: impl FnOnce(&mut Needs)) -> Vec<NodeId> {
        let Some(shape) = self.shape_of(key) else { return Vec::new() };
        let (Some(needs), Some(rules)) = (self.shapes().needs(shape), self.shapes().rules(shape))
        else {
            return Vec::new();
        };
        let mut needs = (**needs).clone();
        change(&mut needs);
        let prepared = self.prepared(shape);
        let nodes = self.ledger().alive().filter(|(id, node)| {
            self.facts(*id).is_some_and(|facts| rules.judge(node.name(), facts).is_ok())
                && node.fit(&needs, share_on(node, &needs.request)).is_ok()
                && prepared.as_ref().is_none_or(|prepared| prepared.check(*id).is_ok())
        });
        nodes.map(|(id, _)| id).collect()
    }

    fn diagnose(&self, shape: ShapeId) -> Option<Diagnosis> {
        if self.node_count() == 0 {
            return Some(Diagnosis::of(Reason::NoNodes));
        }
        let (needs, rules) = (self.shapes().needs(shape)?, self.shapes().rules(shape)?);
        if let Some(name) = rules.node_name.as_deref()
            && self.ledger().find(name).is_none()
        {
            return Some(Diagnosis::of(Reason::NoSuchNode(name.into())));
        }
        let prepared = self.prepared(shape);
        if let Some(refusal) = prepared.as_ref().and_then(Prepared::nowhere) {
            return Some(Diagnosis::of(Reason::Volume(refusal.told())));
        }
        let mut refusals: Vec<Refusals> = Vec::new();
        let mut by_kind: HashMap<String, usize> = HashMap::default();
        let mut nearest: Option<(u64, Nearest)> = None;
        let mut culprits = Culprits::new(self, shape);
        // What is free on a node does not matter where the storage cannot be used.
        let elsewhere = |id| {
            let refusal = prepared.as_ref().and_then(|p| p.volume_refusal(id));
            refusal.filter(|refusal| refusal.is_of_the_place())
        };
        for (name, id) in self.nodes() {
            let (Some(node), Some(facts)) = (self.ledger().node(id), self.facts(id)) else {
                continue;
            };
            let shortage = node.fit(needs, share_on(node, &needs.request)).err();
            let never = matches!(
                shortage,
                Some(Shortage::NoGpu | Shortage::NoDevice(_) | Shortage::NoExtended(_))
            );
            let reason = match (rules.judge(name, facts), shortage) {
                // Whether such a node is tainted does not matter.
                (Ok(_) | Err(Barred::Cordoned | Barred::Taint(_)), Some(shortage)) if never => {
                    self.lacks(needs, node, shortage)
                }
                (Err(barred), _) => match barred {
                    Barred::OtherNode => {
                        Reason::OtherNode(rules.node_name.as_deref().unwrap_or_default().into())
                    }
                    Barred::Cordoned if facts.drained => Reason::Drained,
                    Barred::Cordoned => Reason::Cordoned,
                    Barred::Taint(taint) => Reason::Taint(taint.clone()),
                    Barred::Selector((key, value)) => {
                        Reason::Selector { key: (**key).into(), value: (**value).into() }
                    }
                    Barred::Affinity => Reason::Affinity,
                    Barred::Refused(why) => Reason::Refused(why.clone()),
                },
                (Ok(_), None) => match prepared.as_ref().map(|p| (p, p.check(id))) {
                    Some((prepared, Err(clash))) => culprits.clash(prepared, id, clash),
                    Some((_, Ok(()))) | None => continue,
                },
                (Ok(_), Some(_)) if let Some(refusal) = elsewhere(id) => {
                    Reason::Volume(refusal.told())
                }
                (Ok(_), Some(shortage)) => {
                    let is_allowed = prepared.as_ref().is_none_or(|p| p.check(id).is_ok());
                    if is_allowed
                        && let Some((gap, near)) = self.nearness(node, &needs.request, shortage)
                        && nearest.as_ref().is_none_or(|(least, _)| gap < *least)
                    {
                        nearest = Some((gap, near));
                    }
                    self.lacks(needs, node, shortage)
                }
            };
            let at = *by_kind.entry(reason.kind()).or_insert(refusals.len());
            match refusals.get_mut(at) {
                Some(same) => {
                    same.reason.absorb(&reason);
                    same.nodes.push(name.clone());
                }
                None => refusals.push(Refusals { reason, nodes: vec![name.clone()] }),
            }
        }
        refusals.sort_by_key(|g| Reverse((g.reason.closeness(), g.nodes.len())));
        Some(Diagnosis { refusals, nearest: nearest.map(|(_, nearest)| nearest) })
    }

    fn prepared(&self, shape: ShapeId) -> Option<Prepared<'_>> {
        let who = self.shapes().related(shape)?;
        self.world().prepare(who, self.shapes().rules(shape)?)
    }

    fn lacks(&self, needs: &Needs, node: &Node, shortage: Shortage) -> Reason {
        if let Shortage::Class { card, holds } = shortage {
            let holds = self.class_name(holds).map(|class| class.name.clone());
            let label =
                node.card_number(card).map_or_else(|| format!("#{card}"), |n| n.to_string());
            return Reason::OtherClass { holds, at: Some((node.name().clone(), label.into())) };
        }
        let resource = match shortage {
            Shortage::NoClass(class) => self.class_name(class).and_then(|c| c.provider.clone()),
            Shortage::Extended { resource, .. } | Shortage::NoExtended(resource) => {
                Some(self.ledger().resource_name(resource).into())
            }
            Shortage::Devices { device, .. }
            | Shortage::NoDevice(device)
            | Shortage::OneEach { device, .. }
            | Shortage::Renamed { called: device, .. } => Some(device.to_string().into()),
            _ => None,
        };
        let portion = needs.request.portion();
        Reason::Lacks { shortage, resource, portion }
    }
}
