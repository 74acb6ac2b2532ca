//! An independent checker: replays what the API said about pods and nodes and looks, at every
//! instant, whether somebody was given what was not there.
//!
//! It shares no code with divvy on purpose. What a pod holds it reads off the pod: its node, its
//! annotation `divvy.dev/cards`, its whole GPUs, slices and replicas; a card that is named by UUID must
//! be held by a reservation when the pod is bound; what the kubelet says that a pod has nobody else has. Held = bound, there, and not ended; a deletion that
//! is only announced frees nothing. What a pod had that was taken away while it ran is not to be given
//! for a while, if that is asked for. A share that is to be isolated is alone with its like on a card,
//! on a node that has what isolates it, and is told its limit, if levels are told apart.

mod amounts;
mod objects;

use crate::history::{Happened, Now};
use objects::{Asked, Node, Pod, SHARED};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// The state of the replay and what was wrong on the way.
#[derive(Debug)]
pub struct Checker {
    schedulers: Vec<String>,
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<String, Pod>,
    /// Pods that were taken away while they ran, and until when their cards are theirs.
    ghosts: Vec<(Instant, Pod)>,
    /// How long that is; 0 to let it pass.
    pub quarantine: Duration,
    /// Whether levels of isolation are told apart.
    has_levels: bool,
    /// What was wrong, in sentences.
    pub violations: Vec<String>,
    /// How many bindings there were.
    pub bindings: usize,
}

impl Checker {
    /// A checker of what these schedulers do; what others do only counts as used.
    pub fn new(schedulers: &[&str]) -> Self {
        Self {
            schedulers: schedulers.iter().map(|&s| s.to_owned()).collect(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            ghosts: Vec::new(),
            quarantine: Duration::ZERO,
            has_levels: false,
            violations: Vec::new(),
            bindings: 0,
        }
    }

    /// This one, with levels of isolation told apart or not.
    #[must_use]
    pub const fn telling_levels(mut self, apart: bool) -> Self {
        self.has_levels = apart;
        self
    }

    /// This one, once it has seen all that happened.
    #[must_use]
    pub fn after(mut self, happened: &[Happened]) -> Self {
        happened.iter().for_each(|event| self.step(event));
        self
    }

    /// This one, once it has seen what is there now, with no history: for what is only asked of the end.
    #[must_use]
    pub fn seeing(mut self, now: &Now) -> Self {
        let checker = &mut self;
        for object in now.nodes.values().chain(now.pods.values()) {
            let (object, heard) = (object.clone(), Instant::now());
            checker.step(&Happened { version: 0, gone: false, object, heard });
        }
        self
    }

    /// The next thing that happened.
    pub fn step(&mut self, event: &Happened) {
        if event.object["kind"] == "Node" {
            let node = Node::read(&event.object, event.gone);
            self.nodes.insert(node.name.clone(), node);
        } else {
            self.pod(event);
        }
    }

    fn pod(&mut self, Happened { version, gone, object, heard }: &Happened) {
        let mut wrong = Vec::new();
        let pod = Pod::read(object, &mut wrong);
        let before = self.pods.remove(&pod.key);
        self.ghosts.retain(|(until, _)| until > heard);
        if *gone {
            let ghost = before.filter(|pod| pod.is_held() && pod.runs && pod.reserved.is_none());
            self.ghosts.extend(ghost.map(|pod| (*heard + self.quarantine, pod.ghost())));
            return;
        }
        let before = before.filter(|before| before.uid == pod.uid);
        let is_new = before.as_ref().is_none_or(|before| before.node.is_none());
        if let Some(before) = &before
            && let Some(node) = &before.node
        {
            if pod.node.as_ref() != Some(node) {
                wrong.push(format!("was moved from {node} to {:?}", pod.node));
            }
            if pod.given != before.given {
                wrong.extend(self.given_twice(&pod));
            }
            if pod.cards != before.cards {
                wrong.push(format!("its cards changed from {:?} to {:?}", before.cards, pod.cards));
            }
            if pod.class != before.class {
                wrong.push(format!("its class changed from {:?} to {:?}", before.class, pod.class));
            }
        }
        if is_new
            && pod.is_held()
            && let Some(name) = &pod.node
        {
            self.bindings += 1;
            let known = self.problems(name, None);
            let now = self.problems(name, Some(&pod));
            wrong.extend(now.into_iter().filter(|problem| !known.contains(problem)));
            if self.schedulers.contains(&pod.scheduler) {
                wrong.extend(self.nodes.get(name).and_then(|node| inexact(&pod, node)));
                let misclassed = || misclassed(&pod, self.nodes.get(name)?);
                wrong.extend(self.has_levels.then(misclassed).flatten());
            }
        }
        let say = |text| format!("at {version}: {}: {text}", pod.key);
        self.violations.extend(wrong.into_iter().map(say));
        self.pods.insert(pod.key.clone(), pod);
    }

    /// What another pod of the node has that the kubelet says that this one has. A pod that leaves may
    /// have ended, which is told later.
    fn given_twice(&self, pod: &Pod) -> Vec<String> {
        let stays = |pod: &&Pod| !pod.is_deleted && !pod.is_ghost;
        let node = pod.node.as_deref().unwrap_or_default();
        let others = self.held_on(node, None).filter(stays);
        let same = |other: &Pod| pod.given.iter().find(|id| other.given.contains(id)).cloned();
        let found = others.filter(|_| pod.is_held() && !pod.is_deleted);
        found
            .filter_map(|other| Some(format!("has {}, and so has {}", same(other)?, other.key)))
            .collect()
    }

    fn held_on<'a>(
        &'a self,
        node: &'a str,
        more: Option<&'a Pod>,
    ) -> impl Iterator<Item = &'a Pod> {
        let on = move |pod: &&Pod| pod.is_held() && pod.node.as_deref() == Some(node);
        let ghosts = self.ghosts.iter().map(|(_, pod)| pod);
        self.pods.values().chain(ghosts).chain(more).filter(on)
    }

    /// What a node's pods hold beyond what it has.
    fn problems(&self, name: &str, more: Option<&Pod>) -> Vec<String> {
        let Some(node) = self.nodes.get(name) else {
            return vec![format!("{name} was never there")];
        };
        let use_of = Use::of(self.held_on(name, more));
        let mut problems = Vec::new();
        let mut say = |over: bool, text: String| {
            if over {
                problems.push(format!("on {name} {text}"));
            }
        };
        for (card, bytes) in &use_of.shared {
            let size = node.card_bytes.unwrap_or(0);
            let index = card.parse::<u32>().ok();
            let is_there = match index {
                Some(index) => index < node.cards,
                None => use_of.reserved.contains_key(card),
            };
            say(!is_there, format!("there is no card {card}, or no reservation holds it"));
            say(*bytes > size, format!("card {card} has {size} bytes and gives {bytes}"));
            let compute = use_of.compute.get(card).copied().unwrap_or(0);
            say(compute > 100, format!("card {card} gives {compute} % of its compute"));
            say(use_of.named.contains_key(card), format!("card {card} is whole and shared"));
            let classes = use_of.classes.get(card).into_iter().flatten().collect::<Vec<_>>();
            say(
                self.has_levels && classes.len() > 1,
                format!("card {card} is shared by {classes:?}"),
            );
        }
        say(
            node.has_replicas && !use_of.shared.is_empty(),
            "slices or replicas are shared".to_owned(),
        );
        for (device, held) in &use_of.devices {
            let has = node.devices.get(device).copied().unwrap_or(0);
            say(*held > has, format!("{held} of {has} {device} are held"));
        }
        for (card, holders) in use_of.named.iter().chain(&use_of.reserved) {
            say(*holders > 1, format!("card {card} is whole for {holders} pods"));
        }
        let cards = use_of.whole + use_of.opened();
        // To find a lost card more reservations are asked for than there may be cards, and a node
        // refuses those that it has none for.
        let may_be_refused = more.is_some_and(|pod| pod.is_reservation);
        say(
            cards > node.gpus && !may_be_refused,
            format!("{cards} of {} GPUs are held", node.gpus),
        );
        for (what, used, has) in [
            ("milli-CPU", use_of.cpu, node.cpu),
            ("bytes of memory", use_of.memory, node.memory),
            ("pods", use_of.pods, node.pods),
        ] {
            say(used > has, format!("{used} of {has} {what} are held"));
        }
        problems
    }

    /// Pods that wait although they fit by numbers: pod and node. Selectors, affinity, volumes and
    /// the like are not looked at, so this is for pods that have none.
    pub fn waiting_that_fit(&self) -> Vec<(String, String)> {
        let waits = |pod: &&Pod| {
            pod.node.is_none() && !pod.is_deleted && self.schedulers.contains(&pod.scheduler)
        };
        let free = |node: &&Node| !node.is_gone && !node.is_closed;
        let mut found = Vec::new();
        for node in self.nodes.values().filter(free) {
            let used = Use::of(self.held_on(&node.name, None));
            for pod in self.pods.values().filter(waits) {
                let is_offered = !self.has_levels
                    || pod.wanted().is_some_and(|class| class == SHARED || node.offers(&class));
                if is_offered && fits(pod, node, &used, self.has_levels) {
                    found.push((pod.key.clone(), node.name.clone()));
                }
            }
        }
        found
    }
}

/// What pods hold of a node together.
#[derive(Default)]
struct Use {
    /// Bytes by card.
    shared: BTreeMap<String, u128>,
    /// Percent of compute by card.
    compute: BTreeMap<String, u128>,
    /// The classes of its shares by card.
    classes: BTreeMap<String, BTreeSet<String>>,
    /// Whole cards that a record names, and by how many pods.
    named: BTreeMap<String, usize>,
    /// Cards that reservations hold, and how many do.
    reserved: BTreeMap<String, usize>,
    whole: u64,
    /// Slices and replicas, by name.
    devices: BTreeMap<String, u64>,
    cpu: u128,
    memory: u128,
    pods: u128,
}

impl Use {
    fn of<'a>(pods: impl Iterator<Item = &'a Pod>) -> Self {
        let mut sum = Self::default();
        for pod in pods {
            sum.cpu += pod.cpu;
            sum.memory += pod.memory;
            sum.pods += u128::from(!pod.is_ghost);
            for (device, count) in &pod.devices {
                *sum.devices.entry(device.clone()).or_default() += count;
            }
            if let Some(card) = &pod.reserved {
                *sum.reserved.entry(card.clone()).or_default() += 1;
            }
            match &pod.asked {
                Asked::Whole(count) => {
                    sum.whole += count;
                    for (card, _) in &pod.cards {
                        *sum.named.entry(card.clone()).or_default() += 1;
                    }
                }
                Asked::Nothing | Asked::Share { .. } => {
                    for (card, bytes) in &pod.cards {
                        *sum.shared.entry(card.clone()).or_default() += bytes;
                        *sum.compute.entry(card.clone()).or_default() += pod.compute;
                        sum.classes.entry(card.clone()).or_default().insert(pod.class.clone());
                    }
                }
            }
        }
        sum
    }

    /// Shared cards that count by themselves: others count as their reservations.
    fn opened(&self) -> u64 {
        self.shared.keys().filter(|card| card.parse::<u32>().is_ok()).count() as u64
    }
}

/// Why the record of a pod is not exactly what it asked for.
fn inexact(pod: &Pod, node: &Node) -> Option<String> {
    let mut cards: Vec<&String> = pod.cards.iter().map(|(card, _)| card).collect();
    cards.sort_unstable();
    cards.dedup();
    if cards.len() != pod.cards.len() {
        return Some(format!("has a card twice in {:?}", pod.cards));
    }
    match &pod.asked {
        Asked::Nothing if pod.cards.is_empty() => None,
        Asked::Nothing => Some(format!("asked no GPU and holds {:?}", pod.cards)),
        Asked::Whole(count) => {
            let is_named = pod.cards.is_empty() || pod.cards.len() as u64 == *count;
            (!is_named).then(|| format!("asked {count} GPUs and holds {:?}", pod.cards))
        }
        Asked::Share { portion, cards } => {
            let bytes = portion.of(node.card_bytes.unwrap_or(0));
            let is_exact = pod.cards.len() as u64 == *cards
                && pod.cards.iter().all(|(_, held)| *held == bytes);
            (!is_exact)
                .then(|| format!("asked {bytes} bytes on {cards} cards and holds {:?}", pod.cards))
        }
    }
}

/// What is wrong with what a binding says of the isolation of a pod.
fn misclassed(pod: &Pod, node: &Node) -> Option<String> {
    let is_share = matches!(pod.asked, Asked::Share { .. });
    let wanted = if is_share { pod.wanted() } else { Some(String::new()) };
    let Some(wanted) = wanted else {
        return Some("its level makes no sense, and it was bound".to_owned());
    };
    if pod.class != wanted {
        return Some(format!("is to be {wanted:?} and was bound as {:?}", pod.class));
    }
    if !is_share || wanted == SHARED {
        let is_bare = pod.limit.or(pod.compute_limit).is_none() && !pod.visible.contains('=');
        return (!is_bare).then(|| format!("is not isolated, and limited by {:?}", pod.limit));
    }
    if !node.offers(&wanted) {
        return Some(format!("is {wanted} on a node without it"));
    }
    let compute = Some(pod.compute).filter(|percent| *percent > 0);
    let limits = pod.cards.iter().all(|(_, bytes)| pod.limit == Some(*bytes))
        && pod.compute_limit == compute;
    // Where nobody hands out cards, nothing is granted.
    let name = wanted.trim_start_matches("Isolated/");
    let granted = pod.visible.is_empty()
        || pod.visible.split(',').all(|device| device.contains('='))
            && pod.visible.ends_with(&format!("divvy.dev/provider={name}"));
    let is_limited = limits && granted;
    (!is_limited)
        .then(|| format!("is {wanted} of {:?} by {:?} and {:?}", pod.cards, pod.limit, pod.visible))
}

fn fits(pod: &Pod, node: &Node, used: &Use, has_levels: bool) -> bool {
    if used.cpu + pod.cpu > node.cpu
        || used.memory + pod.memory > node.memory
        || used.pods + 1 > node.pods
    {
        return false;
    }
    let is_left = |(device, count): (&String, &u64)| {
        let held = used.devices.get(device).copied().unwrap_or(0);
        held + count <= node.devices.get(device).copied().unwrap_or(0)
    };
    if !pod.devices.iter().all(is_left) {
        return false;
    }
    let free = node.gpus.saturating_sub(used.whole + used.opened());
    match &pod.asked {
        Asked::Nothing => true,
        Asked::Whole(count) => *count <= free,
        Asked::Share { .. } if node.has_replicas => false,
        Asked::Share { portion, cards } => {
            let Some(size) = node.card_bytes else { return false };
            let bytes = portion.of(size);
            let wanted = pod.wanted();
            let may_join = |card: &str| {
                let mut classes = used.classes.get(card).into_iter().flatten();
                let compute = used.compute.get(card).copied().unwrap_or(0) + pod.compute;
                let is_of_class =
                    !has_levels || classes.all(|class| Some(class) == wanted.as_ref());
                compute <= 100 && is_of_class
            };
            let joins = |(card, held): &(&String, &u128)| **held + bytes <= size && may_join(card);
            let roomy = used.shared.iter().filter(joins).count();
            let unused = used.reserved.keys().filter(|card| !used.shared.contains_key(*card));
            let roomy = (roomy + unused.count()) as u64;
            bytes <= size && roomy + free >= *cards
        }
    }
}

#[cfg(test)]
mod tests;
