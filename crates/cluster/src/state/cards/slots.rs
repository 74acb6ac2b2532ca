//! The shared cards of each node: which physical card stands behind an index of the ledger, and
//! whether its reservation pod holds it.

use divvy_ledger::{Intake, Known, Name};
use foldhash::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One shared card of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::state) struct Slot {
    /// The name that its reservation and its pods have in common.
    pub(super) group: Box<str>,
    /// Which card it is, once somebody knows.
    pub(in crate::state) uuid: Option<Box<str>>,
    /// The number of its device node, where its reservation has told.
    pub(super) number: Option<u32>,
    pub(in crate::state) hold: Hold,
    /// Whether its card does not work, where the kubelet tells.
    pub(super) sick: bool,
}

/// Who keeps the device plugin from giving the card to somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::state) enum Hold {
    /// A reservation pod that is being made, or starts.
    Asked,
    /// A reservation pod that runs and has the card.
    Held,
    /// A reservation pod that is being deleted.
    Closing,
    /// Nobody.
    Lost,
    /// Another pod, which was given it by mistake.
    Taken,
    /// Nobody whom we know, and the device plugin does not hand it out.
    Missing,
}

impl Hold {
    /// Whether nothing can be done about it for now.
    pub(super) const fn is_trouble(self) -> bool {
        matches!(self, Self::Taken | Self::Missing)
    }
}

impl Slot {
    /// A card that nobody knows yet.
    pub(super) fn new(group: &str, hold: Hold) -> Self {
        Self { group: group.into(), uuid: None, number: None, hold, sick: false }
    }

    /// What the ledger is told of the card.
    pub(super) fn known(&self) -> Known {
        let name = |uuid| Arc::new(Name { uuid, number: self.number });
        Known { intake: self.intake(), name: self.uuid.clone().map(name) }
    }

    /// Why the card takes nobody new.
    const fn intake(&self) -> Intake {
        let by_hold = match self.hold {
            Hold::Closing => Intake::RETURNING,
            Hold::Taken => Intake::CONFLICT,
            Hold::Missing => Intake::SICK,
            Hold::Asked | Hold::Held | Hold::Lost => Intake::OPEN,
        };
        by_hold.and(if self.sick { Intake::SICK } else { Intake::OPEN })
    }
}

/// All slots.
#[derive(Debug, Default)]
pub(in crate::state) struct Slots {
    nodes: HashMap<Box<str>, BTreeMap<u32, Slot>>,
}

impl Slots {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(in crate::state) fn get(&self, node: &str, index: u32) -> Option<&Slot> {
        self.nodes.get(node)?.get(&index)
    }

    pub(super) fn get_mut(&mut self, node: &str, index: u32) -> Option<&mut Slot> {
        self.nodes.get_mut(node)?.get_mut(&index)
    }

    pub(super) fn insert(&mut self, node: &str, index: u32, slot: Slot) {
        self.nodes.entry(node.into()).or_default().insert(index, slot);
    }

    pub(super) fn remove(&mut self, node: &str, index: u32) {
        if let Some(slots) = self.nodes.get_mut(node) {
            slots.remove(&index);
            if slots.is_empty() {
                self.nodes.remove(node);
            }
        }
    }

    /// How many are held so.
    pub(super) fn count(&self, hold: Hold) -> usize {
        self.nodes.values().flat_map(BTreeMap::values).filter(|slot| slot.hold == hold).count()
    }

    /// The slots of a node, lowest index first.
    pub(super) fn of(&self, node: &str) -> impl Iterator<Item = (u32, &Slot)> {
        self.nodes.get(node).into_iter().flatten().map(|(index, slot)| (*index, slot))
    }

    /// The slot of this card.
    pub(in crate::state) fn by_card(&self, node: &str, uuid: &str) -> Option<u32> {
        let mut all = self.of(node);
        all.find(|(_, slot)| slot.uuid.as_deref() == Some(uuid)).map(|(index, _)| index)
    }

    /// The slot of this group.
    pub(super) fn by_group(&self, node: &str, group: &str) -> Option<u32> {
        let mut all = self.of(node).filter(|_| !group.is_empty());
        all.find(|(_, slot)| *slot.group == *group).map(|(index, _)| index)
    }

    /// The first of these indexes that is no slot yet, else the first beyond them.
    pub(super) fn vacant(&self, node: &str, mut likely: impl Iterator<Item = u32>) -> u32 {
        let is_vacant = |index: &u32| self.get(node, *index).is_none();
        likely.find(is_vacant).or_else(|| (0..).find(is_vacant)).unwrap_or(u32::MAX)
    }
}
