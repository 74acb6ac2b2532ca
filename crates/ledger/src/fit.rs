//! The one place that decides whether a pod fits a node.

use crate::node::{Gpus, Node, Room};
use crate::{Bytes, MilliCpu, Needs, Portion, Request, ResourceId};

/// What a node lacks for a pod, with the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The node has no GPU.
    NoGpu,
    /// It is not certain who has which card of the node.
    Unsettled,
    /// A share was asked of a node whose GPUs are replicas.
    Replicas,
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
    pub fn fit(&self, needs: &Needs, share: Bytes) -> Result<(), Shortage> {
        let room = self.room();
        match needs.request {
            Request::None => {}
            _ if self.is_unsettled() => return Err(Shortage::Unsettled),
            Request::Whole(asked) => {
                if room.whole < asked {
                    return Err(self.too_few_whole(asked));
                }
            }
            Request::Share { portion, cards } => self.shares_fit(needs, portion, cards, share)?,
        }
        for (resource, asked) in &needs.extended {
            let (free, total) = self.extended(*resource);
            if free < *asked {
                let (resource, asked) = (*resource, *asked);
                return Err(match total {
                    0 => Shortage::NoExtended(resource),
                    _ => Shortage::Extended { resource, free, asked },
                });
            }
        }
        if room.cpu < needs.cpu {
            let reserved = MilliCpu(0);
            return Err(Shortage::Cpu { free: room.cpu, asked: needs.cpu, reserved });
        }
        if room.memory < needs.memory {
            let reserved = Bytes(0);
            return Err(Shortage::Memory { free: room.memory, asked: needs.memory, reserved });
        }
        if room.ephemeral < needs.ephemeral {
            return Err(Shortage::Ephemeral { free: room.ephemeral, asked: needs.ephemeral });
        }
        if room.pods == 0 {
            return Err(Shortage::PodSlots { free: 0, reserved: 0 });
        }
        Ok(())
    }

    fn too_few_whole(&self, asked: u32) -> Shortage {
        let free = self.room().whole;
        match self.capacity().gpus {
            Gpus::None => Shortage::NoGpu,
            Gpus::Replicas { count } if count < asked => {
                Shortage::CardCount { cards: count, asked }
            }
            Gpus::Cards { count: 0, .. } | Gpus::Replicas { count: 0 } => Shortage::NoGpu,
            Gpus::Cards { count, .. } if count < asked => {
                Shortage::CardCount { cards: count, asked }
            }
            Gpus::Cards { count, usable, .. } if usable < asked => {
                Shortage::NotAllocatable { cards: count, usable }
            }
            Gpus::Replicas { .. } | Gpus::Cards { .. } => Shortage::FreeCards { free, asked },
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

    fn shares_fit(
        &self,
        needs: &Needs,
        portion: Portion,
        asked: u32,
        share: Bytes,
    ) -> Result<(), Shortage> {
        let (count, usable) = match self.capacity().gpus {
            Gpus::None | Gpus::Cards { count: 0, .. } => return Err(Shortage::NoGpu),
            Gpus::Replicas { .. } => return Err(Shortage::Replicas),
            Gpus::Cards { count, usable, .. } => (count, usable),
        };
        if !self.knows_card_memory() && matches!(portion, Portion::Memory(_)) {
            return Err(Shortage::CardMemoryUnknown);
        }
        let card = self.card_size();
        if share > card {
            return Err(Shortage::CardSize { card, asked: share });
        }
        if asked > count {
            return Err(Shortage::CardCount { cards: count, asked });
        }
        if asked > usable {
            return Err(Shortage::NotAllocatable { cards: count, usable });
        }
        let room = self.room();
        if asked == 1 {
            // Most join a card: the rest is not computed then.
            if room.share >= share || self.openable(needs) > 0 {
                return Ok(());
            }
            if room.whole > 0 {
                return Err(self.not_openable(needs, 1));
            }
            // A card that is free and not handed out would be a riddle in the answer.
            let withheld =
                usable < count && (self.free_cards().next().is_some() || self.has_sick_room(share));
            return Err(if withheld {
                Shortage::NotAllocatable { cards: count, usable }
            } else {
                Shortage::FreeShare { largest: room.share, asked: share, card }
            });
        }
        let joinable = self.shared_cards().filter(|(_, free)| *free >= share).count();
        let joinable = u32::try_from(joinable).unwrap_or(u32::MAX);
        if joinable.saturating_add(self.openable(needs)) >= asked {
            return Ok(());
        }
        let fitting = joinable.saturating_add(room.whole);
        Err(if fitting >= asked {
            self.not_openable(needs, asked - joinable)
        } else {
            Shortage::FreeShares { fitting, asked }
        })
    }
}
