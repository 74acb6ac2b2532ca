//! The GPUs of a node as it reports them: cards, and devices that are only counted.

use crate::card::{Divided, Division, Mode};
use crate::device::{Device, Profile};
use crate::{Bytes, Class};
use smallvec::SmallVec;

/// The GPUs of a node as it reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpus {
    /// Cards that can be given whole or in shares: the memory of each, if the node says it.
    pub cards: Vec<Option<Bytes>>,
    /// How many of the cards the node hands out at the moment.
    pub usable: u32,
    /// Devices that are only counted: which card is behind one is not ours to choose, so they take
    /// no shares.
    pub pools: Vec<Pool>,
    /// The cards behind those, as far as they are known.
    pub divided: Vec<DividedCard>,
    /// The classes that its shares may have besides the usual one.
    pub classes: Vec<Class>,
}

/// A card that the device plugin hands out in parts, as a node reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DividedCard {
    /// Its memory, if the node says it.
    pub memory: Option<Bytes>,
    /// How it is divided.
    pub by: Division,
    /// What it is divided into, and how many there are of each.
    pub into: SmallVec<[(Device, u32); 1]>,
}

impl DividedCard {
    pub(crate) fn mode(&self) -> Mode {
        let (by, into) = (self.by, self.into.clone());
        Mode::Divided(Box::new(Divided { by, into, held: SmallVec::new() }))
    }
}

impl Gpus {
    /// No GPU.
    pub fn none() -> Self {
        Self::default()
    }

    /// Cards of one size.
    pub fn cards(count: u32, usable: u32, memory: Option<Bytes>) -> Self {
        Self { cards: vec![memory; count as usize], usable, ..Self::default() }
    }

    /// So many replicas, or slices, under the name of whole GPUs.
    pub fn replicas(count: u32) -> Self {
        Self { pools: vec![Pool::of(Device::Gpu, count)], ..Self::default() }
    }

    /// The devices of one kind; `None` if they are not offered.
    pub fn pool(&self, device: Device) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.device == device)
    }

    /// Whether its shares may have this class.
    pub fn offers(&self, class: Class) -> bool {
        class == Class::default() || self.classes.contains(&class)
    }

    /// Whether the same kinds of replicas are handed out, and as many of each card.
    pub(crate) fn has_replicas_of(&self, other: &Self) -> bool {
        let of = |gpus: &Self| -> SmallVec<[_; 2]> {
            let replicated = gpus.pools.iter().filter(|it| it.is_replicated() && it.count > 0);
            replicated.map(|it| (it.device, it.by, it.profile, it.replicas)).collect()
        };
        of(self) == of(other)
    }

    /// Whether the memory of its cards is known, or only fractions of it.
    pub fn knows_memory(&self) -> bool {
        self.cards.iter().all(Option::is_some)
    }
}

/// Devices of one kind that a node hands out; the device plugin chooses which card is behind one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Of which kind.
    pub device: Device,
    /// How many there are.
    pub count: u32,
    /// How cards are divided into them, if that is known.
    pub by: Option<Division>,
    /// Of which profile they are, if they are MIG slices, or replicas of those.
    pub profile: Option<Profile>,
    /// The memory of each, or its part of that of a card, if that is known.
    pub each: Option<Bytes>,
    /// How many cards are behind them; 0 if that is not known.
    pub cards: u32,
    /// How many are made of each card, or of each MIG slice; 1 if these are handed out as they are,
    /// 0 if it is not known.
    pub replicas: u32,
    /// Whether the device plugin refuses a container that asks more than one.
    pub one_each: bool,
}

impl Pool {
    /// Devices of which nothing is known but what their name says.
    pub fn of(device: Device, count: u32) -> Self {
        let slice = match device {
            Device::Slice(profile) => Some(profile),
            Device::Gpu | Device::Replica | Device::SliceReplica(_) => None,
        };
        Self {
            device,
            count,
            by: slice.map(|_| Division::Mig),
            profile: device.profile(),
            each: slice.map(Profile::memory),
            cards: 0,
            replicas: slice.is_some().into(),
            one_each: false,
        }
    }

    /// Whether several are made of each card, or of each MIG slice.
    pub const fn is_replicated(&self) -> bool {
        self.replicas != 1
    }

    /// What one counts for beside others, if its memory is not known either.
    pub(crate) fn unit(&self) -> u64 {
        self.each.map_or(1 << 30, |each| each.0)
    }
}
