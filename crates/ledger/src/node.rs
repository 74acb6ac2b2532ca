//! A node: what it has, what is held of it, and the room that is left.

use crate::card::{Card, CardState};
use crate::{Bytes, Holder, MilliCpu, Needs, ResourceId};
use std::sync::Arc;

/// The GPUs of a node as it reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gpus {
    /// None.
    #[default]
    None,
    /// Cards that can be given whole or in shares.
    Cards {
        /// How many there are.
        count: u32,
        /// How many of them the node hands out at the moment.
        usable: u32,
        /// The memory of one card, if the node says it.
        memory: Option<Bytes>,
    },
    /// Time slices or MIG slices behind the name of a whole GPU: which card is behind one is not
    /// ours to choose, so they are only counted, and take no shares.
    Replicas {
        /// How many are advertised.
        count: u32,
    },
}

/// What a node has for pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// CPU.
    pub cpu: MilliCpu,
    /// Memory.
    pub memory: Bytes,
    /// Ephemeral storage.
    pub ephemeral: Bytes,
    /// Pod slots.
    pub pods: u32,
    /// Extended resources other than cards.
    pub extended: Vec<(ResourceId, u64)>,
    /// GPUs.
    pub gpus: Gpus,
}

/// What the reservation that keeps a shared card takes of its node besides a pod slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// CPU.
    pub cpu: MilliCpu,
    /// Memory.
    pub memory: Bytes,
}

/// The room left on a node, recomputed at each change of it: all that most fits need to look at.
/// What the reservations of shared cards will take that are still to come is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Free CPU.
    pub cpu: MilliCpu,
    /// Free memory.
    pub memory: Bytes,
    /// Free ephemeral storage.
    pub ephemeral: Bytes,
    /// Free pod slots.
    pub pods: u32,
    /// Free cards, or replicas, that whole requests can take.
    pub whole: u32,
    /// The most free memory on one card that is already shared.
    pub share: Bytes,
    /// Memory held on all cards.
    pub gpu_used: u64,
    /// Memory of all cards.
    pub gpu_total: u64,
}

impl Room {
    /// Whether something is free here that was not before.
    pub(crate) fn exceeds(&self, before: &Self) -> bool {
        self.cpu > before.cpu
            || self.memory > before.memory
            || self.pods > before.pods
            || self.whole > before.whole
            || self.share > before.share
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counter {
    resource: ResourceId,
    total: u64,
    used: u128,
}

/// Sums of what pods take. 128 bits, because a hostile manifest may ask for 2^63 of anything, and
/// a sum that saturates cannot be taken apart again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Used {
    cpu: u128,
    memory: u128,
    ephemeral: u128,
    pods: u32,
    ghosts: u32,
    replicas: u64,
}

impl Used {
    const fn count(&mut self, needs: &Needs) -> &mut u32 {
        match needs.holder {
            Holder::Ghost => &mut self.ghosts,
            Holder::Pod | Holder::Keeper => &mut self.pods,
        }
    }
}

/// A node of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    name: Arc<str>,
    /// False once the node is deleted while pods still hold something of it.
    pub(crate) alive: bool,
    capacity: Capacity,
    used: Used,
    extended: Vec<Counter>,
    pub(crate) cards: Vec<Card>,
    /// Whether it is not certain who has which card.
    pub(crate) unsettled: bool,
    /// What keeping a shared card takes; `None` if nobody keeps them.
    pub(crate) opening: Option<Opening>,
    room: Room,
}

impl Node {
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            alive: false,
            capacity: Capacity::default(),
            used: Used::default(),
            extended: Vec::new(),
            cards: Vec::new(),
            unsettled: false,
            opening: None,
            room: Room::default(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether it exists in the cluster.
    pub const fn is_alive(&self) -> bool {
        self.alive
    }

    /// What it has.
    pub const fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// What is left of it.
    pub const fn room(&self) -> &Room {
        &self.room
    }

    /// Whether no GPU is given here for now, because it is not certain who has which card.
    pub const fn is_unsettled(&self) -> bool {
        self.unsettled
    }

    /// How many free cards such a share can open: where shared cards are kept, each needs a
    /// reservation beside it.
    pub fn openable(&self, needs: &Needs) -> u32 {
        let Room { whole, pods, cpu, memory, .. } = self.room;
        let Some(opening) = self.opening else { return whole };
        let times = |free: u64, asked: u64, each: u64| match free.saturating_sub(asked) {
            left if each > 0 => u32::try_from(left / each).unwrap_or(u32::MAX),
            _ => u32::MAX,
        };
        let by_cpu = times(cpu.0, needs.cpu.0, opening.cpu.0);
        let by_memory = times(memory.0, needs.memory.0, opening.memory.0);
        whole.min(pods.saturating_sub(1)).min(by_cpu).min(by_memory)
    }

    /// What the reservation of each card takes that a share opens; `None` if there are none.
    pub const fn opening(&self) -> Option<Opening> {
        self.opening
    }

    /// How many shared cards no reservation keeps yet: each is to come, and its room is not free.
    pub fn unkept(&self) -> u32 {
        let unkept = self.cards.iter().filter(|card| card.lacks_keeper()).count();
        self.opening.map_or(0, |_| u32::try_from(unkept).unwrap_or(u32::MAX))
    }

    /// All its cards, by index.
    pub fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// CPU and memory that pods take, and how many pods there are.
    pub fn taken(&self) -> (MilliCpu, Bytes, u32) {
        let clip = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
        (MilliCpu(clip(self.used.cpu)), Bytes(clip(self.used.memory)), self.used.pods)
    }

    /// The capacity of a card that is free now or comes free; 0 if there are none.
    pub fn card_size(&self) -> Bytes {
        match self.capacity.gpus {
            Gpus::Cards { memory, .. } => memory.unwrap_or(Card::UNKNOWN_MEMORY),
            Gpus::None | Gpus::Replicas { .. } => Bytes(0),
        }
    }

    /// Whether the memory of its cards is known, or only fractions of it.
    pub const fn knows_card_memory(&self) -> bool {
        !matches!(self.capacity.gpus, Gpus::Cards { memory: None, .. })
    }

    /// What is free of an extended resource, and how much of it there is.
    pub fn extended(&self, resource: ResourceId) -> (u64, u64) {
        self.extended.iter().find(|c| c.resource == resource).map_or((0, 0), |c| {
            (u64::try_from(u128::from(c.total).saturating_sub(c.used)).unwrap_or(0), c.total)
        })
    }

    /// The extended resources that it has, or that somebody holds of it.
    pub(crate) fn resources(&self) -> impl Iterator<Item = ResourceId> {
        let has = self.capacity.extended.iter().map(|(resource, _)| *resource);
        has.chain(self.extended.iter().map(|counter| counter.resource))
    }

    /// The cards that may take a new holder: present now, of the size the node has now, and not
    /// claimed by a pod that does not fit there.
    fn open_cards(&self) -> impl Iterator<Item = (usize, &Card)> {
        let size = self.card_size();
        let present = self.cards.iter().enumerate().take(self.card_count() as usize);
        present.filter(move |(_, card)| card.takes_more(size))
    }

    /// Whether a card may take a new holder.
    pub fn is_open(&self, index: usize) -> bool {
        self.open_cards().any(|(open, _)| open == index)
    }

    /// The indexes of free cards. The node may hand out fewer: see [`Room::whole`].
    pub fn free_cards(&self) -> impl Iterator<Item = usize> {
        let free = self.open_cards().filter(|(_, card)| card.state == CardState::Free);
        free.map(|(index, _)| index)
    }

    /// The cards that are shared and may take more, with what is free on each.
    pub fn shared_cards(&self) -> impl Iterator<Item = (usize, Bytes)> {
        let shared = self.open_cards().filter(|(_, c)| matches!(c.state, CardState::Shared(_)));
        shared.map(|(index, card)| (index, card.capacity.minus(card.used())))
    }

    /// Whether a share would fit on a card that does not work.
    pub(crate) fn has_sick_room(&self, share: Bytes) -> bool {
        let free = |card: &Card| card.capacity.minus(card.used());
        self.cards.iter().any(|card| card.is_sick() && free(card) >= share)
    }

    /// How many cards the node has now.
    pub const fn card_count(&self) -> u32 {
        match self.capacity.gpus {
            Gpus::Cards { count, .. } => count,
            Gpus::None | Gpus::Replicas { .. } => 0,
        }
    }

    pub(crate) fn set_capacity(&mut self, capacity: Capacity) {
        self.capacity = capacity;
        for counter in &mut self.extended {
            counter.total = 0;
        }
        for i in 0..self.capacity.extended.len() {
            let (resource, total) = self.capacity.extended[i];
            self.counter(resource).total = total;
        }
        self.extended.retain(|c| c.total > 0 || c.used > 0);
        self.drop_retired_cards();
        let (count, size) = (self.card_count() as usize, self.card_size());
        for card in self.cards.iter_mut().filter(|c| c.state == CardState::Free) {
            card.capacity = size;
        }
        while self.cards.len() < count {
            self.cards.push(Card::free(size));
        }
        self.recount();
    }

    /// Forgets cards that the node no longer has and nobody holds. Whether there were any.
    pub(crate) fn drop_retired_cards(&mut self) -> bool {
        let (count, before) = (self.card_count() as usize, self.cards.len());
        let is_free = |c: &Card| c.state == CardState::Free;
        while self.cards.len() > count && self.cards.last().is_some_and(is_free) {
            self.cards.pop();
        }
        self.cards.len() < before
    }

    pub(crate) fn take(&mut self, needs: &Needs, replicas: u32) {
        self.used.cpu += u128::from(needs.cpu.0);
        self.used.memory += u128::from(needs.memory.0);
        self.used.ephemeral += u128::from(needs.ephemeral.0);
        *self.used.count(needs) += 1;
        self.used.replicas += u64::from(replicas);
        for (resource, n) in &needs.extended {
            self.counter(*resource).used += u128::from(*n);
        }
    }

    pub(crate) fn give_back(&mut self, needs: &Needs, replicas: u32) {
        self.used.cpu -= u128::from(needs.cpu.0);
        self.used.memory -= u128::from(needs.memory.0);
        self.used.ephemeral -= u128::from(needs.ephemeral.0);
        *self.used.count(needs) -= 1;
        self.used.replicas -= u64::from(replicas);
        for (resource, n) in &needs.extended {
            self.counter(*resource).used -= u128::from(*n);
        }
        if !needs.extended.is_empty() {
            self.extended.retain(|c| c.total > 0 || c.used > 0);
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.used.pods + self.used.ghosts == 0
    }

    fn counter(&mut self, resource: ResourceId) -> &mut Counter {
        let at = match self.extended.binary_search_by_key(&resource, |c| c.resource) {
            Ok(at) => at,
            Err(at) => {
                self.extended.insert(at, Counter { resource, total: 0, used: 0 });
                at
            }
        };
        &mut self.extended[at]
    }

    pub(crate) fn recount(&mut self) {
        let left = |total: u64, used: u128| {
            u64::try_from(u128::from(total).saturating_sub(used)).unwrap_or(0)
        };
        let (unkept, opening) = (self.unkept(), self.opening.unwrap_or_default());
        let to_come = |each: u64| u128::from(each) * u128::from(unkept);
        let Used { cpu, memory, ephemeral, pods, .. } = self.used;
        let mut room = Room {
            cpu: MilliCpu(left(self.capacity.cpu.0, cpu + to_come(opening.cpu.0))),
            memory: Bytes(left(self.capacity.memory.0, memory + to_come(opening.memory.0))),
            ephemeral: Bytes(left(self.capacity.ephemeral.0, ephemeral)),
            pods: self.capacity.pods.saturating_sub(pods.saturating_add(unkept)),
            ..Room::default()
        };
        // The node hands out those that work.
        let is_held = |card: &&Card| card.state != CardState::Free && !card.is_sick();
        // What pods took before the node changed between cards and replicas counts on both sides.
        let held = self.cards.iter().filter(is_held).count() as u64 + self.used.replicas;
        let left = |total: u32| total - u32::try_from(held).unwrap_or(u32::MAX).min(total);
        match self.capacity.gpus {
            Gpus::None => {}
            Gpus::Replicas { count } => {
                room.whole = left(count);
                room.gpu_used = u64::from(count - room.whole);
                room.gpu_total = u64::from(count);
            }
            Gpus::Cards { usable, .. } => {
                for card in &self.cards {
                    room.gpu_used += card.used().0;
                    room.gpu_total += card.capacity.0;
                }
                let free = u32::try_from(self.free_cards().count()).unwrap_or(u32::MAX);
                room.whole = free.min(left(usable));
                room.share = self.shared_cards().map(|(_, free)| free).max().unwrap_or_default();
            }
        }
        self.room = room;
    }
}
