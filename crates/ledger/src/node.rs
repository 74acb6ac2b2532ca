//! A node: what it has, what is held of it, and the room that is left.

use crate::card::{Card, Mode, Name};
use crate::device::{Device, DeviceOn};
use crate::gpus::{DividedCard, Gpus, Pool};
use crate::{Bytes, Class, Holder, MilliCpu, Needs, Part, PodId, Portion, Request, ResourceId};
use smallvec::SmallVec;
use std::sync::Arc;

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

/// The room left on a node, recomputed at each change of it.
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
    /// The class of all shares, if they have only one.
    pub class: Option<Class>,
    /// Whether shares of several classes are there, or cards of several sizes: then what is said
    /// here of cards is not all there is to look at.
    pub is_mixed: bool,
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
    /// Devices that are only counted, by kind: each once, none of them 0.
    devices: SmallVec<[(Device, u64); 1]>,
}

impl Used {
    const fn count(&mut self, needs: &Needs) -> &mut u32 {
        match needs.holder {
            Holder::Ghost => &mut self.ghosts,
            Holder::Pod | Holder::Keeper => &mut self.pods,
        }
    }

    fn of(&self, device: Device) -> u64 {
        self.devices.iter().find(|(other, _)| *other == device).map_or(0, |(_, used)| *used)
    }

    fn add(&mut self, device: Device, count: u32) {
        match self.devices.binary_search_by_key(&device, |(other, _)| *other) {
            Ok(at) => self.devices[at].1 += u64::from(count),
            Err(at) if count > 0 => self.devices.insert(at, (device, count.into())),
            Err(_) => {}
        }
    }

    fn take_off(&mut self, device: Device, count: u32) {
        if let Ok(at) = self.devices.binary_search_by_key(&device, |(other, _)| *other) {
            self.devices[at].1 -= u64::from(count);
        }
        self.devices.retain(|(_, used)| *used > 0);
    }
}

/// A node of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    room: Room,
    card_size: Bytes,
    /// How many pods have cards of which nobody can say which.
    pub(crate) unknown: u32,
    /// False once the node is deleted while pods still hold something of it.
    pub(crate) alive: bool,
    /// Whether it is not certain who has which card.
    pub(crate) unsettled: bool,
    sizes_differ: bool,
    /// Whether nobody says how large any of its cards is.
    sizes_unknown: bool,
    /// Whether what it hands out as cards are slices, though it does not say so.
    pub(crate) is_divided: bool,
    /// Whether its device plugin refuses a container more than one replica of a kind.
    pub(crate) one_each: bool,
    /// What keeping a shared card takes; `None` if nobody keeps them.
    pub(crate) opening: Option<Opening>,
    capacity: Capacity,
    extended: Vec<Counter>,
    used: Used,
    pub(crate) cards: Vec<Card>,
    name: Arc<str>,
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
            unknown: 0,
            opening: None,
            card_size: Bytes(0),
            sizes_differ: false,
            sizes_unknown: false,
            is_divided: false,
            one_each: false,
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

    /// Whether some pod has cards of it of which nobody can say which.
    pub const fn has_unknown_holder(&self) -> bool {
        self.unknown > 0
    }

    /// How many free cards such a share, which is `usual` on a card of the usual size, can open:
    /// where shared cards are kept, each needs a reservation beside it.
    pub fn openable(&self, needs: &Needs, usual: Bytes) -> u32 {
        let Room { mut whole, pods, cpu, memory, is_mixed, .. } = self.room;
        if let Some(portion) = needs.request.portion().filter(|_| is_mixed) {
            let large = self.free_for(portion, usual).count();
            whole = whole.min(u32::try_from(large).unwrap_or(u32::MAX));
        }
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

    /// Those that exist, by index: a free card beyond the count is in the list only because one
    /// behind it is still held.
    pub fn existing_cards(&self) -> impl Iterator<Item = (usize, &Card)> {
        let count = self.card_count() as usize;
        let all = self.cards.iter().enumerate();
        all.filter(move |(index, card)| *index < count || *card.mode() != Mode::Free)
    }

    /// The number of a card on its node. Where nobody says which card is which, its place in the list
    /// is all there is; where somebody does, that is no number for the others.
    pub fn card_number(&self, index: u32) -> Option<u32> {
        match self.cards.get(index as usize)?.name() {
            Some(name) => name.number,
            None => self.cards.iter().all(|card| card.name().is_none()).then_some(index),
        }
    }

    /// CPU and memory that pods take, and how many pods there are.
    pub fn taken(&self) -> (MilliCpu, Bytes, u32) {
        let clip = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
        (MilliCpu(clip(self.used.cpu)), Bytes(clip(self.used.memory)), self.used.pods)
    }

    /// The capacity of the largest card that is free now or comes free; 0 if there are none.
    pub const fn card_size(&self) -> Bytes {
        self.card_size
    }

    /// Whether nobody says how large any of its cards is.
    pub(crate) const fn knows_no_size(&self) -> bool {
        self.sizes_unknown
    }

    /// The capacity of a card that is free now or comes free; 0 if the node has it no more.
    pub(crate) fn listed_size(&self, index: usize) -> Bytes {
        let Gpus { cards, divided, .. } = &self.capacity.gpus;
        let behind = index.checked_sub(cards.len()).and_then(|index| divided.get(index));
        let listed = cards.get(index).or_else(|| behind.map(|card| &card.memory));
        listed.map_or(Bytes(0), |memory| memory.unwrap_or(Card::UNKNOWN_MEMORY))
    }

    /// What a card is that nobody holds.
    pub(crate) fn listed_mode(&self, index: usize) -> Mode {
        let Gpus { cards, divided, .. } = &self.capacity.gpus;
        let behind = index.checked_sub(cards.len()).and_then(|index| divided.get(index));
        behind.map_or(Mode::Free, DividedCard::mode)
    }

    /// How many cards the node has now, divided ones too.
    pub(crate) fn listed_count(&self) -> usize {
        self.capacity.gpus.cards.len() + self.capacity.gpus.divided.len()
    }

    /// What one device counts for in the use of a node; 0 if it is not offered.
    pub fn unit(&self, device: Device) -> u64 {
        self.capacity.gpus.pool(device).map_or(0, Pool::unit)
    }

    /// Whether the memory of its cards is known, or only fractions of it.
    pub fn knows_card_memory(&self) -> bool {
        self.capacity.gpus.knows_memory()
    }

    /// Whether it has GPUs of any kind.
    pub const fn has_gpus(&self) -> bool {
        !self.capacity.gpus.cards.is_empty() || !self.capacity.gpus.pools.is_empty()
    }

    /// Whether devices are asked, and some of each are in use already.
    pub fn has_in_use(&self, request: &Request) -> bool {
        let is_called_gpu =
            request.whole_cards() > 0 && self.capacity.gpus.pool(Device::Gpu).is_some();
        let whole = is_called_gpu.then_some(Device::Gpu);
        let mut devices = whole.into_iter().chain(request.devices().map(|(d, _)| d)).peekable();
        devices.peek().is_some() && devices.all(|device| self.used.of(device) > 0)
    }

    /// What is free of a device that is only counted, and how many there are; `None` if it is not
    /// offered.
    pub fn devices(&self, device: Device) -> Option<(u32, u32)> {
        let total = self.capacity.gpus.pool(device)?.count;
        Some((total.saturating_sub(self.taken_of(device)), total))
    }

    /// What is held of a device that is only counted.
    pub(crate) fn taken_of(&self, device: Device) -> u32 {
        // What pods took before the node changed between cards and replicas counts on both sides.
        let cards = if device == Device::Gpu { self.held_cards() } else { 0 };
        u32::try_from(cards.saturating_add(self.used.of(device))).unwrap_or(u32::MAX)
    }

    /// Cards that are held, of those that work.
    fn held_cards(&self) -> u64 {
        let is_held = |card: &&Card| card.is_held() && !card.is_sick();
        self.cards.iter().filter(is_held).count() as u64
    }

    /// The size of a share on a card; `usual` is that on a card of the usual size.
    fn share_on(&self, card: &Card, portion: Portion, usual: Bytes) -> Bytes {
        if card.capacity == self.card_size { usual } else { portion.of(card.capacity) }
    }

    /// Whether a card of this size can have such a share, which is `usual` on the usual size.
    fn has_size_for(&self, card: &Card, portion: Portion, usual: Bytes) -> bool {
        let knows = card.knows_memory() || matches!(portion, Portion::Fraction(_));
        knows && self.share_on(card, portion, usual) <= card.capacity
    }

    /// The cards that such a share can join: the index, what is used of each, and the share's size.
    pub fn joinable(
        &self,
        part: Part,
        usual: Bytes,
    ) -> impl Iterator<Item = (usize, Bytes, Bytes)> + '_ {
        let shared = self.open_cards().filter(|(_, card)| matches!(card.mode, Mode::Shared(_)));
        shared.filter_map(move |(index, card)| {
            let (used, share) = (card.used(), self.share_on(card, part.portion, usual));
            let fits = share <= card.capacity.minus(used)
                && self.has_size_for(card, part.portion, usual)
                && card.goes_with(&part);
            fits.then_some((index, used, share))
        })
    }

    /// Whether cards that are shared may differ in more than what is free of their memory.
    pub(crate) fn cards_differ(&self) -> bool {
        self.room.is_mixed || self.cards.iter().any(|card| card.compute().0 > 0)
    }

    /// Whether such a share can join a card.
    pub fn can_join(&self, part: Part, usual: Bytes) -> bool {
        match self.is_plain(part) {
            true => self.room.share >= usual,
            false => self.joinable(part, usual).next().is_some(),
        }
    }

    /// Whether all cards are alike for such a share, so that [`Room`] says all there is to say.
    fn is_plain(&self, part: Part) -> bool {
        !self.room.is_mixed
            && part.compute.0 == 0
            && self.room.class.is_none_or(|class| class == part.class)
    }

    /// The free cards that are large enough for such a share, and its size on each. The node may
    /// hand out fewer.
    pub fn free_for(
        &self,
        portion: Portion,
        usual: Bytes,
    ) -> impl Iterator<Item = (usize, Bytes)> + '_ {
        let free = self.open_cards().filter(|(_, card)| card.mode == Mode::Free);
        let fitting = free.filter(move |(_, card)| self.has_size_for(card, portion, usual));
        fitting.map(move |(index, card)| (index, self.share_on(card, portion, usual)))
    }

    /// The cards that somebody holds, and that are large enough for such a share once others have
    /// ended: the index, what is free of each, and the share's size.
    pub fn held_for(
        &self,
        portion: Portion,
        usual: Bytes,
    ) -> impl Iterator<Item = (usize, Bytes, Bytes)> + '_ {
        let held = self.open_cards().filter(|(_, card)| card.is_held());
        let fitting = held.filter(move |(_, card)| self.has_size_for(card, portion, usual));
        fitting.map(move |(index, card)| {
            (index, card.capacity.minus(card.used()), self.share_on(card, portion, usual))
        })
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
        self.cards.iter().enumerate().filter(|(index, _)| self.is_open(*index))
    }

    /// Whether a card may take a new holder.
    pub fn is_open(&self, index: usize) -> bool {
        let card = self.cards.get(index).filter(|_| index < self.card_count() as usize);
        card.is_some_and(|card| card.takes_more(self.listed_size(index)))
    }

    /// The indexes of free cards. The node may hand out fewer: see [`Room::whole`].
    pub fn free_cards(&self) -> impl Iterator<Item = usize> {
        let free = self.open_cards().filter(|(_, card)| card.mode == Mode::Free);
        free.map(|(index, _)| index)
    }

    /// How many of its free cards the node does not hand out, of which nobody says which they are.
    pub fn withheld(&self) -> usize {
        self.free_cards().count().saturating_sub(self.room.whole as usize)
    }

    /// The cards that are shared and may take more, with what is free on each.
    pub fn shared_cards(&self) -> impl Iterator<Item = (usize, Bytes)> {
        let shared = self.open_cards().filter(|(_, c)| matches!(c.mode, Mode::Shared(_)));
        shared.map(|(index, card)| (index, card.capacity.minus(card.used())))
    }

    /// Whether a share would fit on a card that does not work.
    pub(crate) fn has_sick_room(&self, share: Bytes) -> bool {
        let free = |card: &Card| card.capacity.minus(card.used());
        self.cards.iter().any(|card| card.is_sick() && free(card) >= share)
    }

    /// How many cards the node has now.
    pub fn card_count(&self) -> u32 {
        u32::try_from(self.capacity.gpus.cards.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn set_capacity(&mut self, capacity: Capacity) {
        let (before, after) = (&self.capacity.gpus, &capacity.gpus);
        self.is_divided &= before == after;
        // One that is not well for a while changes how many there are, and not how they are given; a
        // plugin that begins anew hands out none for a moment, and may have another config then.
        self.one_each &= before.has_replicas_of(after);
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
        while self.cards.len() < self.listed_count() {
            self.cards.push(Card::free(Bytes(0)));
        }
        for index in 0..self.cards.len() {
            self.list_if_free(index);
        }
        let count = self.card_count() as usize;
        let sizes = || (0..count).map(|index| self.listed_size(index));
        let (least, most) = (sizes().min(), sizes().max());
        self.sizes_differ = least != most;
        self.sizes_unknown = self.capacity.gpus.cards.iter().all(Option::is_none);
        self.card_size = most.unwrap_or_default();
        self.recount();
    }

    /// A card that nobody holds has the size that the node says, and is divided as it says.
    pub(crate) fn list_if_free(&mut self, index: usize) {
        let (size, mode) = (self.listed_size(index), self.listed_mode(index));
        let Some(card) = self.cards.get_mut(index).filter(|card| !card.is_held()) else { return };
        card.capacity = size;
        match (&mut card.mode, mode) {
            (Mode::Divided(now), Mode::Divided(listed)) => {
                (now.by, now.into) = (listed.by, listed.into);
            }
            (now, listed) if *now != listed => (card.mode, card.name) = (listed, None),
            _ => {}
        }
    }

    /// Takes note of which cards the devices of a pod are on. One that nobody has named yet gets its
    /// name by it.
    pub(crate) fn note_devices(&mut self, pod: PodId, on: &[DeviceOn]) {
        self.cards.iter_mut().for_each(|card| card.take_off(pod));
        for DeviceOn { uuid, device, count } in on {
            let named = self.cards.iter().position(|card| card.is_called(uuid));
            let at = named.or_else(|| self.cards.iter().position(Card::is_nameless_divided));
            let Some(card) = at.map(|at| &mut self.cards[at]) else { continue };
            if let Mode::Divided(divided) = &mut card.mode {
                divided.held.push((pod, *device, *count));
                let name = || Arc::new(Name { uuid: uuid.clone(), number: None });
                card.name.get_or_insert_with(name);
            }
        }
    }

    /// Forgets cards that the node no longer has and nobody holds. Whether there were any.
    pub(crate) fn drop_retired_cards(&mut self) -> bool {
        let (count, before) = (self.listed_count(), self.cards.len());
        let is_free = |c: &Card| !c.is_held();
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
        self.used.add(Device::Gpu, replicas);
        for (device, count) in needs.request.devices() {
            self.used.add(device, count);
        }
        for (resource, n) in &needs.extended {
            self.counter(*resource).used += u128::from(*n);
        }
    }

    pub(crate) fn give_back(&mut self, needs: &Needs, replicas: u32) {
        self.used.cpu -= u128::from(needs.cpu.0);
        self.used.memory -= u128::from(needs.memory.0);
        self.used.ephemeral -= u128::from(needs.ephemeral.0);
        *self.used.count(needs) -= 1;
        self.used.take_off(Device::Gpu, replicas);
        for (device, count) in needs.request.devices() {
            self.used.take_off(device, count);
        }
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
        for pool in &self.capacity.gpus.pools {
            let Some((free, total)) = self.devices(pool.device) else { continue };
            let all = |count: u32| u64::from(count).saturating_mul(pool.unit());
            room.gpu_used = room.gpu_used.saturating_add(all(total - free));
            room.gpu_total = room.gpu_total.saturating_add(all(total));
            if pool.device == Device::Gpu {
                room.whole = free;
            }
        }
        if self.card_count() > 0 && self.capacity.gpus.pool(Device::Gpu).is_none() {
            let (mut held, mut free) = (0, 0);
            for (index, card) in self.cards.iter().enumerate() {
                if matches!(card.mode, Mode::Divided(_)) {
                    continue;
                }
                let used = card.used();
                room.gpu_used = room.gpu_used.saturating_add(used.0);
                room.gpu_total = room.gpu_total.saturating_add(card.capacity.0);
                let class = card.class();
                room.is_mixed |= class.is_some_and(|class| room.class.is_some_and(|c| c != class));
                room.class = room.class.or(class);
                held += u64::from(card.is_held() && !card.is_sick());
                let is_open = self.is_open(index);
                match card.mode {
                    Mode::Free if is_open => free += 1,
                    Mode::Shared(_) if is_open => {
                        room.share = room.share.max(card.capacity.minus(used));
                    }
                    _ => {}
                }
            }
            room.is_mixed |= self.sizes_differ;
            let held = held.saturating_add(self.used.of(Device::Gpu));
            let usable = u64::from(self.capacity.gpus.usable).saturating_sub(held);
            room.whole = u32::try_from(usable).unwrap_or(u32::MAX).min(free);
        }
        self.room = room;
    }
}
