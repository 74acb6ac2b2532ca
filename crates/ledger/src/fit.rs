//! The one place that decides whether a pod fits a node.

use crate::gpus::Pool;
use crate::node::{Node, Room};
use crate::{
    Bytes, Class, Device, Division, MilliCpu, Needs, Part, Percent, Portion, Request, ResourceId,
};

/// What a node lacks for a pod, with the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The node has no GPU.
    NoGpu,
    /// It is not certain who has which card of the node.
    Unsettled,
    /// A pod has cards of the node of which nobody can say which.
    UnknownHolder,
    /// A share was asked of a node whose GPUs are handed out in parts.
    Replicas {
        /// By which device.
        device: Device,
        /// What these are, if it is known.
        by: Option<Division>,
    },
    /// `gpu-memory` was asked of a node that does not say how large its cards are.
    CardMemoryUnknown,
    /// The share is larger than a whole card.
    CardSize {
        /// What a card has.
        card: Bytes,
        /// What was asked of one card.
        asked: Bytes,
    },
    /// More cards were asked than the node has.
    CardCount {
        /// What it has.
        cards: u32,
        /// What was asked.
        asked: u32,
    },
    /// The node has the cards but does not hand them out.
    NotAllocatable {
        /// What it has.
        cards: u32,
        /// What it hands out.
        usable: u32,
    },
    /// Too few cards are free.
    FreeCards {
        /// What is free.
        free: u32,
        /// What was asked.
        asked: u32,
    },
    /// No card has so much free.
    FreeShare {
        /// The most that is free on one card.
        largest: Bytes,
        /// What was asked of one card.
        asked: Bytes,
        /// The size of a card.
        card: Bytes,
    },
    /// Too few cards have so much free.
    FreeShares {
        /// On how many the share fits.
        fitting: u32,
        /// On how many it is asked.
        asked: u32,
    },
    /// Too little compute on the cards that have the memory.
    Compute {
        /// The most that is free on one of them.
        free: Percent,
        /// What was asked of one card.
        asked: Percent,
    },
    /// The cards that have the memory hold shares of another class.
    Class {
        /// One of them, by index.
        card: u32,
        /// Of which.
        holds: Class,
    },
    /// The node takes no shares of this class.
    NoClass(Class),
    /// The node does not offer a device.
    NoDevice(Device),
    /// The node has what was asked under another name.
    Renamed {
        /// What was asked.
        asked: Device,
        /// What it is called there.
        called: Device,
        /// What that really is, if it is known.
        by: Option<Division>,
    },
    /// The device plugin gives a pod only one of a device.
    OneEach {
        /// Which.
        device: Device,
        /// What it really is, if it is known.
        by: Option<Division>,
        /// What was asked.
        asked: u32,
    },
    /// Too few of a device.
    Devices {
        /// Which.
        device: Device,
        /// What it really is, if it is known.
        by: Option<Division>,
        /// How many there are.
        total: u32,
        /// Of how many cards; 0 if that is not known.
        cards: u32,
        /// What is free.
        free: u32,
        /// What is held; more than there are if there were more when it was given.
        taken: u32,
        /// What was asked.
        asked: u32,
    },
    /// The node does not have an extended resource.
    NoExtended(ResourceId),
    /// Too little of an extended resource.
    Extended {
        /// Which.
        resource: ResourceId,
        /// What is free.
        free: u64,
        /// What was asked.
        asked: u64,
    },
    /// Too little CPU.
    Cpu {
        /// What is free.
        free: MilliCpu,
        /// What was asked, with what the reservations ask.
        asked: MilliCpu,
        /// What the reservations of the cards ask of it that the share would open.
        reserved: MilliCpu,
    },
    /// Too little memory.
    Memory {
        /// What is free.
        free: Bytes,
        /// What was asked, with what the reservations ask.
        asked: Bytes,
        /// What the reservations of the cards ask of it that the share would open.
        reserved: Bytes,
    },
    /// Too little ephemeral storage.
    Ephemeral {
        /// What is free.
        free: Bytes,
        /// What was asked.
        asked: Bytes,
    },
    /// Too few pod slots.
    PodSlots {
        /// What is free.
        free: u32,
        /// How many are for reservations of cards that the share would open.
        reserved: u32,
    },
}

impl Node {
    /// Whether a pod fits. `share` is the size of its share on this node's cards; the caller
    /// computes it once per card size, not once per node.
    pub fn fits(&self, needs: &Needs, share: Bytes) -> bool {
        let room = self.room();
        room.cpu >= needs.cpu
            && room.memory >= needs.memory
            && room.ephemeral >= needs.ephemeral
            && room.pods > 0
            && (needs.request.is_none() || self.gpus_fit(needs, share))
            && needs.extended.iter().all(|(resource, asked)| self.extended(*resource).0 >= *asked)
    }

    /// The same, and if it does not fit, what is in the way first.
    pub fn fit(&self, needs: &Needs, share: Bytes) -> Result<(), Shortage> {
        if self.fits(needs, share) { Ok(()) } else { Err(self.shortage(needs, share)) }
    }

    fn shortage(&self, needs: &Needs, share: Bytes) -> Shortage {
        let room = self.room();
        if !self.gpus_fit(needs, share) {
            return self.gpu_shortage(needs, share);
        }
        for (resource, asked) in &needs.extended {
            let (free, total) = self.extended(*resource);
            if free < *asked {
                let (resource, asked) = (*resource, *asked);
                return match total {
                    0 => Shortage::NoExtended(resource),
                    _ => Shortage::Extended { resource, free, asked },
                };
            }
        }
        if room.cpu < needs.cpu {
            let reserved = MilliCpu(0);
            return Shortage::Cpu { free: room.cpu, asked: needs.cpu, reserved };
        }
        if room.memory < needs.memory {
            let reserved = Bytes(0);
            return Shortage::Memory { free: room.memory, asked: needs.memory, reserved };
        }
        if room.ephemeral < needs.ephemeral {
            return Shortage::Ephemeral { free: room.ephemeral, asked: needs.ephemeral };
        }
        Shortage::PodSlots { free: 0, reserved: 0 }
    }

    fn gpus_fit(&self, needs: &Needs, share: Bytes) -> bool {
        let request = &needs.request;
        let has = |(device, asked)| self.devices(device).is_some_and(|(free, _)| free >= asked);
        !(request.asks_cards() && (self.is_unsettled() || self.has_unknown_holder()))
            && self.room().whole >= request.whole_cards()
            && request.part().is_none_or(|part| self.shares_fit(needs, part, share))
            && request.devices().all(has)
            && self.refused_at_once(needs).is_none()
    }

    /// What the cards themselves lack, whoever holds them.
    fn too_few_or_small(&self, request: &Request, share: Bytes) -> Option<Shortage> {
        let (cards, card, asked) = (self.card_count(), self.card_size(), request.cards());
        let is_sure =
            !self.knows_no_size() || !matches!(request.portion(), Some(Portion::Memory(_)));
        match cards {
            0 => None,
            _ if share > card && is_sure => Some(Shortage::CardSize { card, asked: share }),
            _ if asked > cards => Some(Shortage::CardCount { cards, asked }),
            _ => None,
        }
    }

    /// The device of which a container asks more than the device plugin gives it.
    fn refused_at_once(&self, needs: &Needs) -> Option<Shortage> {
        needs.request.several().find_map(|(device, asked)| {
            let pool = self.capacity().gpus.pool(device)?;
            // What the plugin has refused of one kind says nothing of those that it does not replicate.
            let is_refused = pool.one_each || self.one_each && pool.is_replicated();
            is_refused.then_some(Shortage::OneEach { device, by: pool.by, asked })
        })
    }

    fn shares_fit(&self, needs: &Needs, part: Part, share: Bytes) -> bool {
        let asked = needs.request.cards();
        if self.is_divided
            || asked > self.card_count().min(self.capacity().gpus.usable)
            || share > self.card_size()
            || !self.capacity().gpus.offers(part.class)
            || matches!(part.portion, Portion::Memory(_)) && self.knows_no_size()
        {
            return false;
        }
        // Most join a card: the rest is not looked at then.
        if asked == 1 && self.can_join(part, share) {
            return true;
        }
        let openable = self.openable(needs, share);
        openable >= asked
            || asked > 1 && openable.saturating_add(self.count_joinable(part, share)) >= asked
    }

    fn count_joinable(&self, part: Part, share: Bytes) -> u32 {
        u32::try_from(self.joinable(part, share).count()).unwrap_or(u32::MAX)
    }

    fn gpu_shortage(&self, needs: &Needs, share: Bytes) -> Shortage {
        let request = &needs.request;
        if request.asks_cards() && (self.is_unsettled() || self.has_unknown_holder()) {
            // Once it is known who has which card, this would still be in the way.
            return self.too_few_or_small(request, share).unwrap_or(match self.is_unsettled() {
                true => Shortage::Unsettled,
                false => Shortage::UnknownHolder,
            });
        }
        if let Some(shortage) = self.refused_at_once(needs) {
            return shortage;
        }
        let whole = request.whole_cards();
        if self.room().whole < whole {
            return self.too_few_whole(whole);
        }
        if let Some(part) = request.part().filter(|part| !self.shares_fit(needs, *part, share)) {
            return self.share_shortage(needs, part, share);
        }
        for (device, asked) in request.devices() {
            if let Some(shortage) = self.too_few_devices(device, asked) {
                return shortage;
            }
        }
        Shortage::NoGpu
    }

    fn too_few_devices(&self, device: Device, asked: u32) -> Option<Shortage> {
        let pool = self.capacity().gpus.pool(device).filter(|pool| pool.count > 0);
        let Some((pool, (free, total))) = pool.zip(self.devices(device)) else {
            return Some(self.offers_instead(device));
        };
        let (by, cards, taken) = (pool.by, pool.cards, self.taken_of(device));
        (free < asked).then_some(Shortage::Devices { device, by, total, cards, free, taken, asked })
    }

    /// The node does not have this device, but may have the same under another name.
    fn offers_instead(&self, asked: Device) -> Shortage {
        let gpus = &self.capacity().gpus;
        let mut offered = gpus.pools.iter().filter(|pool| pool.count > 0);
        // A whole GPU may be any of them, a slice those of its profile.
        let called = offered.find(|pool| asked == Device::Gpu || pool.profile == asked.profile());
        let cards = asked == Device::Replica && self.card_count() > 0;
        match called {
            Some(pool) => Shortage::Renamed { asked, called: pool.device, by: pool.by },
            None if cards => Shortage::Renamed { asked, called: Device::Gpu, by: None },
            None if asked == Device::Gpu => Shortage::NoGpu,
            None => Shortage::NoDevice(asked),
        }
    }

    fn too_few_whole(&self, asked: u32) -> Shortage {
        let (free, gpus) = (self.room().whole, &self.capacity().gpus);
        let (cards, usable) = (self.card_count(), gpus.usable);
        match cards {
            0 => self.too_few_devices(Device::Gpu, asked).unwrap_or(Shortage::NoGpu),
            _ if cards < asked => Shortage::CardCount { cards, asked },
            _ if usable < asked => Shortage::NotAllocatable { cards, usable },
            _ => Shortage::FreeCards { free, asked },
        }
    }

    /// Why cards cannot be opened that are free: something is short for their reservations.
    fn not_openable(&self, needs: &Needs, cards: u32) -> Shortage {
        let opening = self.opening().unwrap_or_default();
        let Room { cpu: free_cpu, memory: free_memory, pods, .. } = *self.room();
        // What the pod alone is too large for, it is told in its own numbers.
        let surcharge = |free: u64, asked: u64, each: u64| match asked > free {
            true => 0,
            false => each.saturating_mul(cards.into()),
        };
        let cpu = surcharge(free_cpu.0, needs.cpu.0, opening.cpu.0);
        let memory = surcharge(free_memory.0, needs.memory.0, opening.memory.0);
        let asked = MilliCpu(needs.cpu.0.saturating_add(cpu));
        if pods <= cards {
            Shortage::PodSlots { free: pods, reserved: if pods == 0 { 0 } else { cards } }
        } else if free_cpu < asked {
            Shortage::Cpu { free: free_cpu, asked, reserved: MilliCpu(cpu) }
        } else {
            let asked = Bytes(needs.memory.0.saturating_add(memory));
            Shortage::Memory { free: free_memory, asked, reserved: Bytes(memory) }
        }
    }

    fn share_shortage(&self, needs: &Needs, part: Part, share: Bytes) -> Shortage {
        let (count, gpus, asked) =
            (self.card_count(), &self.capacity().gpus, needs.request.cards());
        let usable = gpus.usable;
        if count == 0 {
            return match gpus.pools.first() {
                Some(Pool { device, by, .. }) => Shortage::Replicas { device: *device, by: *by },
                None => Shortage::NoGpu,
            };
        }
        if self.is_divided {
            return Shortage::Replicas { device: Device::Gpu, by: None };
        }
        if matches!(part.portion, Portion::Memory(_)) && self.knows_no_size() {
            return Shortage::CardMemoryUnknown;
        }
        if !gpus.offers(part.class) {
            return Shortage::NoClass(part.class);
        }
        if let Some(shortage) = self.too_few_or_small(&needs.request, share) {
            return shortage;
        }
        if asked > usable {
            return Shortage::NotAllocatable { cards: count, usable };
        }
        let joinable = self.count_joinable(part, share);
        let large = self.free_for(part.portion, share).count();
        let free = self.room().whole.min(u32::try_from(large).unwrap_or(u32::MAX));
        let fitting = joinable.saturating_add(free);
        if fitting >= asked {
            self.not_openable(needs, asked - joinable)
        } else if asked == 1 {
            self.no_share(part, share)
        } else {
            Shortage::FreeShares { fitting, asked }
        }
    }

    /// Why no card takes a share of one card.
    fn no_share(&self, part: Part, share: Bytes) -> Shortage {
        let (cards, usable) = (self.card_count(), self.capacity().gpus.usable);
        // A card that is free and not handed out would be a riddle in the answer.
        let withheld =
            usable < cards && (self.free_cards().next().is_some() || self.has_sick_room(share));
        if withheld {
            return Shortage::NotAllocatable { cards, usable };
        }
        let held = || self.held_for(part.portion, share);
        let with_room = || held().filter(|(_, free, asked)| free >= asked).map(|(i, ..)| i);
        let other = |index: usize| self.cards()[index].class().filter(|c| *c != part.class);
        if let Some((index, holds)) = with_room().find_map(|index| Some((index, other(index)?))) {
            return Shortage::Class { card: u32::try_from(index).unwrap_or(u32::MAX), holds };
        }
        let compute = |index: usize| Percent::ALL.minus(self.cards()[index].compute());
        let free = with_room().map(compute).max();
        if let Some(free) = free.filter(|free| *free < part.compute) {
            return Shortage::Compute { free, asked: part.compute };
        }
        Shortage::FreeShare { largest: self.room().share, asked: share, card: self.card_size() }
    }
}
