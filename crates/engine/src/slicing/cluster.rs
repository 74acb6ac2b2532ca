//! A cluster's free cards and waiting pods, as the division sees them.

use super::{Ask, CardHost, Slicing, divide};
use crate::diagnosis::Standing;
use crate::pods::PodState;
use crate::record::ObjectKey;
use crate::scheduler::Scheduler;
use crate::turn::Turn;
use divvy_ledger::mig::{CardIndexes, Geometry, MigConfig, MigEntry, Model};
use divvy_ledger::{Device, Mode, Node, NodeId, Profile, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The cards that running pods hold, by node: their numbers, and `None` if nobody says which they
/// are. What is placed in a rehearsal afterwards holds no card that is known.
#[derive(Clone, Debug, Default)]
pub struct CardsInUse(BTreeMap<NodeId, Option<BTreeSet<u32>>>);

impl CardsInUse {
    /// As it is now.
    pub fn of(scheduler: &Scheduler) -> Self {
        let numbers = |node: &Node| {
            let held = node.existing_cards().filter(|(_, card)| *card.mode() != Mode::Free);
            held.map(|(_, card)| card.name()?.number).collect::<Option<BTreeSet<u32>>>()
        };
        let nodes = scheduler.ledger().alive().map(|(id, node)| (id, numbers(node)));
        Self(nodes.filter(|(_, cards)| cards.as_ref().is_none_or(|c| !c.is_empty())).collect())
    }
}

/// What is to be divided for the pods that wait for slices.
#[derive(Clone, Debug)]
pub struct SlicePlan {
    /// The nodes with cards to divide, by name.
    pub nodes: Vec<DividedNode>,
    /// What to call it in a file of mig-parted; nodes that are divided alike have one.
    pub configs: Vec<MigConfig>,
    /// How many pods get their slices by it.
    pub helped: u32,
    /// Pods that ask for slices and have none then, and why.
    pub pending: Vec<(ObjectKey, String)>,
    /// No fewer cards hold as much.
    pub at_least: u32,
    /// Nodes with cards of such a model that are not divided, and why.
    pub left_out: Vec<(Arc<str>, String)>,
    /// How many cards could be divided.
    pub free_cards: u32,
}

/// A node with cards that are to be divided.
#[derive(Clone, Debug)]
pub struct DividedNode {
    /// Its name.
    pub name: Arc<str>,
    /// What its cards are.
    pub model: &'static Model,
    /// Which of [`SlicePlan::configs`].
    pub config: usize,
    /// Cards by index, and what each is divided into.
    pub cards: Vec<(u32, Vec<(Profile, u32)>)>,
}

/// A node whose cards may be divided.
struct Free {
    node: NodeId,
    name: Arc<str>,
    model: &'static Model,
    /// Indexes of its cards that nobody holds.
    cards: Vec<u32>,
}

/// Plans slices for those of `pods` that wait for some. Whatever else of them fits is placed already.
pub fn plan_slices(scheduler: &Scheduler, in_use: &CardsInUse, pods: &[ObjectKey]) -> SlicePlan {
    let mut left_out = Vec::new();
    let free = free_cards(scheduler, in_use, &mut left_out);
    let hosts: Vec<CardHost> = free
        .iter()
        .map(|free| CardHost { model: free.model, cards: free.cards.len() as u32 })
        .collect();
    let mut waiting: Vec<(Turn, &ObjectKey)> =
        pods.iter().filter_map(|key| turn(scheduler, key)).collect();
    waiting.sort();
    waiting.dedup();
    let mut pending = Vec::new();
    let mut asks: Vec<Ask> = Vec::new();
    let mut who: Vec<Vec<&ObjectKey>> = Vec::new();
    let geometries: Vec<Geometry> = free.iter().map(|free| Geometry::of(free.model)).collect();
    for (_, key) in &waiting {
        match ask(scheduler, key, &free, &geometries) {
            Ok(ask) => match asks.last_mut() {
                Some(last) if last.slices == ask.slices && last.hosts == ask.hosts => {
                    last.count += 1;
                    who.last_mut().into_iter().for_each(|who| who.push(key));
                }
                _ => {
                    asks.push(ask);
                    who.push(vec![key]);
                }
            },
            Err(why) => pending.push(((*key).clone(), why)),
        }
    }
    let slicing = divide(&hosts, &asks);
    for (at, (ask, who)) in asks.iter().zip(&who).enumerate() {
        let held = slicing.held.get(at).copied().unwrap_or(0);
        let is_most = slicing.is_most.get(at).is_none_or(|is_most| *is_most);
        let why = || no_room(ask, hosts.iter().map(|host| host.cards).sum(), is_most);
        pending.extend(who.iter().skip(held as usize).map(|key| ((*key).clone(), why())));
    }
    let (nodes, configs) = nodes(&free, &slicing);
    SlicePlan {
        nodes,
        configs,
        helped: slicing.held.iter().sum(),
        pending,
        at_least: slicing.at_least,
        left_out,
        free_cards: hosts.iter().map(|host| host.cards).sum(),
    }
}

fn free_cards(
    scheduler: &Scheduler,
    in_use: &CardsInUse,
    left_out: &mut Vec<(Arc<str>, String)>,
) -> Vec<Free> {
    let mut free = Vec::new();
    for (name, id) in scheduler.nodes() {
        let (Some(node), Some(model)) = (scheduler.ledger().node(id), scheduler.model(id)) else {
            continue;
        };
        let Ok(model) = model.parse::<&'static Model>() else { continue };
        if node.card_count() == 0 {
            let why = "its GPUs are slices or replicas already";
            left_out.extend(node.has_gpus().then(|| (name.clone(), why.to_owned())));
            continue;
        }
        match free_of(node, in_use.0.get(&id)) {
            Ok(cards) if cards.is_empty() => {}
            Ok(cards) => free.push(Free { node: id, name: name.clone(), model, cards }),
            Err(why) => left_out.push((name.clone(), why)),
        }
    }
    free
}

/// The indexes of the cards that may be divided.
fn free_of(node: &Node, in_use: Option<&Option<BTreeSet<u32>>>) -> Result<Vec<u32>, String> {
    let held = node.existing_cards().filter(|(_, card)| *card.mode() != Mode::Free).count();
    let (count, free) = (node.card_count(), node.free_cards().count());
    if node.is_unsettled() || node.has_unknown_holder() {
        return Err("it is not certain who has which of its cards".to_owned());
    }
    let usable = node.capacity().gpus.usable;
    if usable < count {
        return Err(format!("it hands out {usable} of its {count} cards, and which is not known"));
    }
    let is_divided = node.capacity().gpus.pools.iter().any(|pool| pool.profile.is_some());
    if is_divided && free > 0 {
        // Nobody gives a free card its number beside those: they are no cards of the ledger.
        return Err("some of its cards are divided already, and nobody says which".to_owned());
    }
    let taken = match in_use {
        None => BTreeSet::new(),
        Some(Some(numbers)) => numbers.clone(),
        Some(None) => {
            return Err(format!(
                "{held} of its {count} cards are in use, and nobody says which these are"
            ));
        }
    };
    // Pods that are only rehearsed will have the lowest that are left.
    let cards: Vec<u32> = (0..count).filter(|number| !taken.contains(number)).collect();
    Ok(cards[cards.len().saturating_sub(free)..].to_vec())
}

/// The turn of a pod that waits and asks for slices.
fn turn<'k>(scheduler: &Scheduler, key: &'k ObjectKey) -> Option<(Turn, &'k ObjectKey)> {
    let pod = scheduler.pod(key)?;
    let is_slice = |device| matches!(device, Device::Slice(_) | Device::SliceReplica(_));
    let asks = scheduler.request(key)?.devices().any(|(device, _)| is_slice(device));
    let waits = asks && !matches!(pod.state, PodState::Held);
    waits.then(|| (Turn::new(pod.priority, pod.created, key.clone()), key))
}

/// What a pod asks and where it may be, or why nothing can be planned for it.
fn ask(
    scheduler: &Scheduler,
    key: &ObjectKey,
    free: &[Free],
    geometries: &[Geometry],
) -> Result<Ask, String> {
    if scheduler.shape_of(key).is_none() {
        return Err(match scheduler.standing(key) {
            Some(Standing::Waiting(diagnosis)) => diagnosis.headline(),
            _ => "it is bound to a node that is not in the cluster".to_owned(),
        });
    }
    let request = scheduler.request(key).cloned().unwrap_or_default();
    let mut slices = Vec::new();
    for (device, count) in request.devices() {
        match device {
            Device::Slice(profile) if profile.instances.is_none() => slices.push((profile, count)),
            other => return Err(format!("{other} is no whole slice: plan it by hand")),
        }
    }
    if request.asks_cards() {
        return Err("it asks for cards beside slices: plan it by hand".to_owned());
    }
    let has_all = |at: &usize| slices.iter().all(|(p, _)| geometries[*at].find(*p).is_some());
    let with_profile: Vec<usize> = (0..free.len()).filter(has_all).collect();
    if with_profile.is_empty() {
        return Err(no_profile(&slices, geometries)
            .unwrap_or_else(|| format!("no free card can be divided for {request}")));
    }
    // Where it could run if it asked for no GPU.
    let places = scheduler.places_if(key, |needs| needs.request = Request::none());
    let hosts: Vec<usize> =
        with_profile.into_iter().filter(|at| places.contains(&free[*at].node)).collect();
    if hosts.is_empty() {
        return Err(format!(
            "the nodes whose free cards can be divided for {request} are not for it, or have no \
             CPU, memory or pod slot left"
        ));
    }
    Ok(Ask { slices, hosts, count: 1 })
}

/// Says it if a profile is none of any model whose cards are free.
fn no_profile(slices: &[(Profile, u32)], geometries: &[Geometry]) -> Option<String> {
    let is_nowhere = |(p, _): &&(Profile, u32)| geometries.iter().all(|g| g.find(*p).is_none());
    let (profile, _) = slices.iter().find(is_nowhere)?;
    let models: BTreeMap<&str, &Geometry> =
        geometries.iter().map(|geometry| (geometry.model().name, geometry)).collect();
    let misfits = models.values().filter_map(|geometry| geometry.place(&[(*profile, 1)]).err());
    let misfits: Vec<String> = misfits.map(|misfit| misfit.to_string()).collect();
    (!misfits.is_empty()).then(|| misfits.join("; "))
}

fn no_room(ask: &Ask, cards: u32, is_most: bool) -> String {
    let asked = divvy_ledger::mig::listed(&ask.slices);
    let on = match cards {
        1 => "the free card".to_owned(),
        _ => format!("the {cards} free cards"),
    };
    match is_most {
        true => format!("no room for {asked} on {on} beside those before it"),
        false => format!(
            "no room for {asked} was found on {on} beside those before it; not every way was tried"
        ),
    }
}

/// What is divided on each node, and the configs that say so.
fn nodes(free: &[Free], slicing: &Slicing) -> (Vec<DividedNode>, Vec<MigConfig>) {
    let (mut nodes, mut configs): (Vec<DividedNode>, Vec<MigConfig>) = (Vec::new(), Vec::new());
    for (host, free) in free.iter().enumerate() {
        let divided = slicing.cards.iter().filter(|card| card.host == host);
        let indexes = free.cards.iter().copied();
        let cards: Vec<_> =
            indexes.zip(divided).map(|(card, divided)| (card, divided.slices.clone())).collect();
        if cards.is_empty() {
            continue;
        }
        let entries = entries(&cards);
        let config = configs.iter().position(|config| config.entries == entries);
        let config = config.unwrap_or_else(|| {
            let name = format!("divvy-plan-{}", configs.len() + 1);
            configs.push(MigConfig { name, entries });
            configs.len() - 1
        });
        let (name, model) = (free.name.clone(), free.model);
        nodes.push(DividedNode { name, model, config, cards });
    }
    (nodes, configs)
}

/// Cards that are divided alike are one entry. Those that are not named stay as they are.
fn entries(cards: &[(u32, Vec<(Profile, u32)>)]) -> Vec<MigEntry> {
    let mut entries: Vec<MigEntry> = Vec::new();
    for (card, slices) in cards {
        match entries.iter_mut().find(|entry| entry.profiles == *slices) {
            Some(MigEntry { devices: CardIndexes::These(cards), .. }) => cards.push(*card),
            _ => entries.push(MigEntry {
                filter: Vec::new(),
                devices: CardIndexes::These(vec![*card]),
                enabled: true,
                profiles: slices.clone(),
            }),
        }
    }
    entries
}
