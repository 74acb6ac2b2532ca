//! Nodes, pods and holdings.

use crate::card::{Card, Intake, Known, Mode, Use};
use crate::device::DeviceOn;
use crate::node::{Capacity, Node, Opening};
use crate::{Bytes, Device, Glance, Journal, Needs, NodeId, Percent, PodId, Position, ResourceId};
use foldhash::HashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// A share of one card, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardShare {
    /// The card's index on its node.
    pub index: u32,
    /// How much of it.
    pub bytes: Bytes,
}

/// Cards of one placement, lowest index first; most pods have one or none.
pub type CardShares = SmallVec<[CardShare; 1]>;

/// What one pod holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Where.
    pub node: NodeId,
    /// CPU, memory and the rest.
    pub needs: Arc<Needs>,
    /// The cards, whole or shared.
    pub cards: CardShares,
    /// The card that it keeps for shares, and has nothing of.
    pub keeps: Option<u32>,
    /// Replicas, which are counted and not named.
    pub replicas: u32,
    /// Whether it has cards of which nobody can say which: no GPU is given beside it.
    pub unknown: bool,
    /// Which cards its devices are on, as far as somebody tells.
    pub on: Box<[DeviceOn]>,
}

/// Why the ledger refused to enter a holding. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HoldError {
    /// The node is not in the ledger.
    #[error("the node is not known")]
    UnknownNode,
    /// The pod holds something already.
    #[error("the pod holds something already")]
    AlreadyHeld,
    /// The card does not exist.
    #[error("card {0} does not exist")]
    NoSuchCard(u32),
    /// The card is named twice.
    #[error("card {0} is named twice")]
    CardTwice(u32),
    /// The card is held whole, or was asked whole and is held.
    #[error("card {0} is held by another pod")]
    CardTaken(u32),
    /// The device plugin hands out parts of the card.
    #[error("card {0} is divided by the device plugin")]
    CardDivided(u32),
    /// The card has too little left.
    #[error("card {index} has {free} free, not {asked}")]
    CardFull {
        /// Which card.
        index: u32,
        /// What is free.
        free: Bytes,
        /// What was asked.
        asked: Bytes,
    },
    /// The card has shares of another class.
    #[error("card {0} has shares of another class")]
    CardDiffers(u32),
    /// The card has too little compute left.
    #[error("card {index} has {free} compute free, not {asked}")]
    CardBusy {
        /// Which card.
        index: u32,
        /// What is free.
        free: Percent,
        /// What was asked.
        asked: Percent,
    },
}

/// Who holds what on every card and node.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    nodes: Vec<Node>,
    /// By node.
    glances: Vec<Glance>,
    names: HashMap<Arc<str>, NodeId>,
    vacant: Vec<NodeId>,
    holdings: Vec<Option<Holding>>,
    /// Names of extended resources by id; `None` where nobody uses one any more.
    resources: Vec<Option<Arc<str>>>,
    resource_ids: HashMap<Arc<str>, ResourceId>,
    journal: Journal,
    opening: Option<Opening>,
}

/// The journal is not part of the state: it only says where to look. Nor are glances.
impl PartialEq for Ledger {
    fn eq(&self, other: &Self) -> bool {
        let held = |l: &Self| l.holdings.iter().flatten().count();
        let same = |(a, b): (&Option<Holding>, &Option<Holding>)| a == b;
        self.nodes == other.nodes
            && held(self) == held(other)
            && self.holdings.iter().zip(&other.holdings).all(same)
    }
}

impl Ledger {
    /// The node with this id, alive or still held by pods.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())
    }

    /// Every node slot by id, vacant ones as dead nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// What a search looks at of a node.
    #[inline]
    pub fn glance(&self, id: NodeId) -> Option<&Glance> {
        self.glances.get(id.index())
    }

    /// Whether a pod fits on a node that is there. `share` is the size of its share on the node's
    /// cards; the caller computes it once per card size, not once per node.
    #[inline]
    pub fn fits(&self, id: NodeId, needs: &Needs, share: Bytes) -> bool {
        let Some(glance) = self.glance(id) else { return false };
        let fits = glance.fits(needs, share, self.opening);
        fits.unwrap_or_else(|| self.node(id).is_some_and(|node| node.fits(needs, share)))
    }

    /// The nodes of the cluster with their ids.
    pub fn alive(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().filter(|(_, n)| n.alive).map(|(i, n)| (NodeId::at(i), n))
    }

    /// Looks a node up by name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.names.get(name).copied()
    }

    /// Whether the journal keeps old changes too: while there are new ones to be taken back.
    pub const fn keep_all_changes(&mut self, keeps_all: bool) {
        self.journal.keep_all(keeps_all);
    }

    /// Takes all changes since then out of the journal: each of them has been undone. Whoever has
    /// seen one must start over.
    pub fn forget_changes(&mut self, since: Position) {
        self.journal.take_back(since);
    }

    /// Which nodes changed since when.
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// What a pod holds.
    pub fn holding(&self, pod: PodId) -> Option<&Holding> {
        self.holdings.get(pod.index())?.as_ref()
    }

    /// What all pods hold.
    pub(crate) fn all_holdings(&self) -> impl Iterator<Item = (PodId, &Holding)> {
        let held = (0u32..).zip(&self.holdings);
        held.filter_map(|(pod, holding)| Some((PodId(pod), holding.as_ref()?)))
    }

    /// The id of an extended resource; the same name always has the same id.
    pub fn resource(&mut self, name: &str) -> ResourceId {
        if let Some(id) = self.find_resource(name) {
            return id;
        }
        let name: Arc<str> = name.into();
        let vacant = match self.resource_ids.len() < self.resources.len() {
            true => self.resources.iter().position(Option::is_none),
            false => None,
        };
        let at = vacant.unwrap_or(self.resources.len());
        if at == self.resources.len() {
            self.resources.push(None);
        }
        self.resources[at] = Some(name.clone());
        let id = ResourceId(u32::try_from(at).unwrap_or(u32::MAX));
        self.resource_ids.insert(name, id);
        id
    }

    /// How many names of extended resources are kept.
    pub fn resource_count(&self) -> usize {
        self.resource_ids.len()
    }

    /// Forgets the names of extended resources that no node has and nobody asks: neither who holds
    /// something nor `others`. Pods choose these names, so that they must not be kept for ever.
    pub fn forget_resources<'a>(&mut self, others: impl Iterator<Item = &'a Needs>) {
        let mut used = vec![false; self.resources.len()];
        let mut mark = |id: ResourceId| {
            if let Some(used) = used.get_mut(id.0 as usize) {
                *used = true;
            }
        };
        self.nodes.iter().flat_map(Node::resources).for_each(&mut mark);
        let held = self.holdings.iter().flatten().flat_map(|holding| &holding.needs.extended);
        held.for_each(|(id, _)| mark(*id));
        others.flat_map(|needs| &needs.extended).for_each(|(id, _)| mark(*id));
        for (name, used) in self.resources.iter_mut().zip(used) {
            if !used && let Some(name) = name.take() {
                self.resource_ids.remove(&name);
            }
        }
    }

    /// The id of an extended resource that some pod or node has named before.
    pub fn find_resource(&self, name: &str) -> Option<ResourceId> {
        self.resource_ids.get(name).copied()
    }

    /// The name of an extended resource.
    pub fn resource_name(&self, id: ResourceId) -> &str {
        self.resources.get(id.0 as usize).and_then(Option::as_deref).unwrap_or("?")
    }

    /// Adds a node or changes what it has. Holdings stay; a card that is held keeps its capacity
    /// until it is free. Returns the id and whether anything changed.
    pub fn set_node(&mut self, name: &str, capacity: Capacity) -> (NodeId, bool) {
        let id = self.find(name).unwrap_or_else(|| self.add_node(name.into()));
        let node = &mut self.nodes[id.index()];
        let changed = !node.alive || *node.capacity() != capacity;
        if changed {
            node.alive = true;
            node.set_capacity(capacity);
            if !node.capacity().gpus.divided.is_empty() {
                let here = (0u32..).zip(&self.holdings);
                let here = here.filter_map(|(pod, holding)| Some((PodId(pod), holding.as_ref()?)));
                for (pod, holding) in here.filter(|(_, holding)| holding.node == id) {
                    node.note_devices(pod, &holding.on);
                }
            }
            self.record(id, true);
        }
        (id, changed)
    }

    /// A node has changed. If `freed`, a pod may fit there now that did not before.
    fn record(&mut self, id: NodeId, freed: bool) {
        self.look(id);
        self.journal.record(id, freed);
    }

    fn look(&mut self, id: NodeId) {
        if let (Some(node), Some(glance)) =
            (self.nodes.get(id.index()), self.glances.get_mut(id.index()))
        {
            *glance = node.glance(glance);
        }
    }

    fn add_node(&mut self, name: Arc<str>) -> NodeId {
        let mut node = Node::new(name.clone());
        node.opening = self.opening;
        let id = match self.vacant.pop() {
            Some(id) => {
                self.nodes[id.index()] = node;
                id
            }
            None => {
                self.nodes.push(node);
                self.glances.push(Glance::default());
                NodeId::at(self.nodes.len() - 1)
            }
        };
        self.names.insert(name, id);
        id
    }

    /// Takes a node out of the cluster. What pods hold there stays theirs until they are gone,
    /// also if the node comes back.
    pub fn remove_node(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(id.index()).filter(|n| n.alive) {
            node.alive = false;
            self.record(id, false);
            self.vacate(id);
        }
    }

    /// Forgets what a node kept only because somebody held it.
    pub fn tidy(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if node.drop_retired_cards() {
            node.recount();
            self.look(id);
        }
        self.vacate(id);
    }

    /// Frees the place of a deleted node that nobody holds anything of.
    fn vacate(&mut self, id: NodeId) {
        let node = &self.nodes[id.index()];
        if !node.alive && node.is_empty() && self.names.remove(node.name()).is_some() {
            self.vacant.push(id);
        }
    }

    /// Closes cards of a node to new holders, because a bound pod claims what others hold.
    pub fn dispute(&mut self, id: NodeId, cards: impl IntoIterator<Item = u32>) {
        let Some(node) = self.nodes.get_mut(id.index()) else { return };
        for index in cards {
            if let Some(card) = node.cards.get_mut(index as usize) {
                card.intake = card.intake.and(Intake::DISPUTED);
            }
        }
        node.recount();
        self.record(id, false);
    }

    /// Opens the cards of a node that [`Ledger::dispute`] closed.
    pub fn end_disputes(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(id.index()) else { return };
        if node.cards.iter().any(Card::is_disputed) {
            for card in &mut node.cards {
                card.intake = card.intake.without(Intake::DISPUTED);
            }
            node.recount();
            self.record(id, true);
        }
    }

    /// Says what is known of cards of a node besides who holds them; of those that are not listed
    /// nothing is, and they take whoever comes. Disputes are the ledger's own. If it is not certain
    /// who has which card, no GPU is given there at all.
    pub fn set_known(&mut self, id: NodeId, unsettled: bool, cards: &[(u32, Known)]) {
        let Some(node) = self.nodes.get_mut(id.index()) else { return };
        let mut opens = node.unsettled && !unsettled;
        let mut is_new = node.unsettled != unsettled;
        node.unsettled = unsettled;
        let undivided = node.cards.iter_mut().zip(0u32..);
        let undivided = undivided.filter(|(card, _)| !matches!(card.mode, Mode::Divided(_)));
        for (card, index) in undivided {
            let known = cards.iter().find(|(listed, _)| *listed == index).map(|(_, known)| known);
            let name = known.and_then(|known| known.name.clone());
            card.name = name.filter(|_| card.mode != Mode::Free);
            let now = known.map_or(Intake::OPEN, |known| known.intake.without(Intake::DISPUTED));
            let before = card.intake.without(Intake::DISPUTED);
            card.intake = now.and(card.intake.without(before));
            is_new |= now != before;
            // One that is sick counts no more among those that the node hands out.
            opens |= !now.has(before) || now.has(Intake::SICK) && !before.has(Intake::SICK);
        }
        if is_new {
            node.recount();
            self.record(id, opens);
        }
    }

    /// What a node hands out as cards are slices, as long as it has the GPUs that it has now: none of
    /// them is shared.
    pub fn divide(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(id.index()).filter(|node| !node.is_divided) {
            node.is_divided = true;
            self.record(id, false);
        }
    }

    /// Whether the device plugin of a node gives a container one replica of a kind only, as long as the
    /// node offers the kinds of replicas that it offers now.
    pub fn give_one_each(&mut self, id: NodeId, one_each: bool) {
        if let Some(node) = self.nodes.get_mut(id.index()).filter(|n| n.one_each != one_each) {
            node.one_each = one_each;
            self.record(id, !one_each);
        }
    }

    /// Says what the reservation that keeps a shared card takes; `None` if there are none.
    pub fn set_opening(&mut self, opening: Option<Opening>) {
        if self.opening == opening {
            return;
        }
        self.opening = opening;
        for at in 0..self.nodes.len() {
            self.nodes[at].opening = opening;
            self.nodes[at].recount();
            self.record(NodeId::at(at), true);
        }
    }

    /// Records a change of a node that the ledger does not hold itself, such as its labels.
    pub fn touch(&mut self, id: NodeId) {
        self.record(id, true);
    }

    /// Enters what a pod takes. CPU, memory and the rest are entered as they are, for a bound pod
    /// holds what it holds; a card is never given beyond its bytes, nor to two kinds of use.
    pub fn hold(
        &mut self,
        pod: PodId,
        node: NodeId,
        needs: &Arc<Needs>,
        cards: &[CardShare],
    ) -> Result<(), HoldError> {
        self.enter(pod, node, needs, cards, None)
    }

    /// Enters a reservation, which keeps a card for shares.
    pub fn keep(
        &mut self,
        pod: PodId,
        node: NodeId,
        needs: &Arc<Needs>,
        card: u32,
    ) -> Result<(), HoldError> {
        self.enter(pod, node, needs, &[], Some(card))
    }

    fn enter(
        &mut self,
        pod: PodId,
        node: NodeId,
        needs: &Arc<Needs>,
        cards: &[CardShare],
        keeps: Option<u32>,
    ) -> Result<(), HoldError> {
        let target = self.nodes.get_mut(node.index()).filter(|n| n.alive || !n.is_empty());
        let target = target.ok_or(HoldError::UnknownNode)?;
        let before = *target.room();
        if self.holdings.len() <= pod.index() {
            self.holdings.resize(pod.index() + 1, None);
        }
        let slot = &mut self.holdings[pod.index()];
        if slot.is_some() {
            return Err(HoldError::AlreadyHeld);
        }
        let by = Use::of(needs);
        for (i, grant) in cards.iter().enumerate() {
            if cards[..i].iter().any(|c| c.index == grant.index) {
                return Err(HoldError::CardTwice(grant.index));
            }
            check(&target.cards, *grant, by)?;
        }
        if let Some(index) = keeps {
            check_kept(&target.cards, index)?;
        }
        let is_free = |index: u32| target.cards[index as usize].mode == Mode::Free;
        let mut shared = cards.iter().map(|grant| grant.index).chain(keeps);
        let opens = by != Use::Whole && shared.any(is_free);
        for CardShare { index, bytes } in cards {
            target.cards[*index as usize].give(pod, *bytes, by);
        }
        if let Some(index) = keeps {
            target.cards[index as usize].keep(pod);
        }
        let has_replicas = target.capacity().gpus.pool(Device::Gpu).is_some();
        let replicas =
            if has_replicas && cards.is_empty() { needs.request.whole_cards() } else { 0 };
        target.take(needs, replicas);
        target.recount();
        *slot = Some(Holding {
            node,
            needs: needs.clone(),
            cards: cards.into(),
            keeps,
            replicas,
            unknown: false,
            on: Box::default(),
        });
        // A share that opens a card makes room for others where no free card is handed out, and
        // so does a reservation that asks less than was left for it. Where cards differ, the most
        // that is free on one says nothing of what is free for a share.
        let helps = target.room().exceeds(&before) || opens && target.cards_differ();
        self.record(node, helps);
        Ok(())
    }

    /// Enters a pod that has cards of which nobody can say which: until it is gone, its node gives
    /// no cards.
    pub fn hold_unknown(
        &mut self,
        pod: PodId,
        node: NodeId,
        needs: &Arc<Needs>,
    ) -> Result<(), HoldError> {
        self.hold(pod, node, needs, &[])?;
        if let Some(holding) = &mut self.holdings[pod.index()] {
            holding.unknown = true;
            self.nodes[node.index()].unknown += 1;
            self.look(node);
        }
        Ok(())
    }

    /// Says which cards the devices of a pod are on, as far as somebody tells. How many are taken is
    /// counted by node, whatever is said here.
    pub fn set_devices(&mut self, pod: PodId, on: &[DeviceOn]) {
        let holding = self.holdings.get_mut(pod.index()).and_then(Option::as_mut);
        let Some(holding) = holding.filter(|holding| *holding.on != *on) else { return };
        holding.on = on.into();
        self.nodes[holding.node.index()].note_devices(pod, on);
    }

    /// Gives back all that a pod holds, and returns it.
    pub fn release(&mut self, pod: PodId) -> Option<Holding> {
        let holding = self.take_back(pod)?;
        self.tidy(holding.node);
        Some(holding)
    }

    pub(crate) fn take_back(&mut self, pod: PodId) -> Option<Holding> {
        let holding = self.holdings.get_mut(pod.index())?.take()?;
        give_back(&mut self.nodes[holding.node.index()], pod, &holding);
        self.record(holding.node, true);
        Some(holding)
    }

    /// Puts a pod's holding and the cards it touches back to what they were.
    pub(crate) fn restore(
        &mut self,
        pod: PodId,
        node: NodeId,
        before: Option<Holding>,
        cards: Vec<Card>,
    ) {
        let (Some(slot), Some(target)) =
            (self.holdings.get_mut(pod.index()), self.nodes.get_mut(node.index()))
        else {
            return;
        };
        if let Some(now) = slot.take() {
            target.unknown -= u32::from(now.unknown);
            target.give_back(&now.needs, now.replicas);
        }
        if let Some(then) = &before {
            target.unknown += u32::from(then.unknown);
            target.take(&then.needs, then.replicas);
        }
        *slot = before;
        target.cards = cards;
        target.recount();
        self.record(node, true);
    }
}

fn give_back(node: &mut Node, pod: PodId, holding: &Holding) {
    for index in holding.cards.iter().map(|grant| grant.index).chain(holding.keeps) {
        node.cards[index as usize].release(pod);
        node.list_if_free(index as usize);
    }
    if !holding.on.is_empty() {
        node.cards.iter_mut().for_each(|card| card.take_off(pod));
    }
    node.unknown -= u32::from(holding.unknown);
    node.give_back(&holding.needs, holding.replicas);
    node.recount();
}

/// A card that nobody has whole can be kept.
fn check_kept(cards: &[Card], index: u32) -> Result<(), HoldError> {
    let card = cards.get(index as usize).ok_or(HoldError::NoSuchCard(index))?;
    match card.mode {
        Mode::Divided(_) => Err(HoldError::CardDivided(index)),
        Mode::Whole(_) => Err(HoldError::CardTaken(index)),
        Mode::Free | Mode::Shared(_) => Ok(()),
    }
}

fn check(cards: &[Card], grant: CardShare, by: Use) -> Result<(), HoldError> {
    let index = grant.index;
    let card = cards.get(index as usize).ok_or(HoldError::NoSuchCard(index))?;
    match (&card.mode, by) {
        (Mode::Divided(_), _) => Err(HoldError::CardDivided(index)),
        (Mode::Whole(_), _) | (Mode::Shared(_), Use::Whole) => Err(HoldError::CardTaken(index)),
        (Mode::Free, Use::Whole) => Ok(()),
        (Mode::Free | Mode::Shared(_), Use::Share { compute: asked, class }) => {
            let free = card.capacity.minus(card.used());
            if grant.bytes > free {
                return Err(HoldError::CardFull { index, free, asked: grant.bytes });
            }
            if card.class().is_some_and(|other| other != class) {
                return Err(HoldError::CardDiffers(index));
            }
            let free = Percent::ALL.minus(card.compute());
            if asked > free { Err(HoldError::CardBusy { index, free, asked }) } else { Ok(()) }
        }
    }
}
