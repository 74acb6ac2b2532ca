//! What a pod asks of GPUs: parsed once, at the edge.

use crate::device::Device;
use crate::units::{Bytes, Fraction};
use std::fmt;

/// What a pod asks of GPUs: a short list of how many, and what of each. Nobody looks into the list
/// who can ask it a question.
///
/// Cards are asked by one line, whole or in shares; devices that are only counted by as many as
/// there are kinds of them. Questions about cards are asked of every node, so that line is apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Request {
    /// How many cards.
    cards: u32,
    /// What of each; all of it if nothing is said.
    part: Option<Part>,
    /// By kind: each once, none of them 0.
    devices: Vec<(Device, u32)>,
    /// Whether no container asks more than one whole card, or one device of a kind.
    one_each: bool,
}

/// What is asked of one card, or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Each {
    /// All of a card (`nvidia.com/gpu`); on a node that offers replicas under that name, one.
    Whole,
    /// A part of a card. Several are on distinct cards of one node.
    Share(Part),
    /// A device that is only counted.
    Device(Device),
}

/// What a share asks of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Of its memory.
    pub portion: Portion,
    /// Of its compute.
    pub compute: Percent,
    /// What it has in common with all others on the card.
    pub class: Class,
}

impl Part {
    /// Of memory only, in the usual class.
    pub const fn of(portion: Portion) -> Self {
        Self { portion, compute: Percent(0), class: Class(0) }
    }
}

/// How the memory of a share was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Portion {
    /// `gpu-fraction`: a part of whatever card it lands on.
    Fraction(Fraction),
    /// `gpu-memory`: so many bytes.
    Memory(Bytes),
}

impl Portion {
    /// The share's size on a card of this capacity: a fraction is rounded down, but a share is
    /// never nothing.
    pub fn of(self, card: Bytes) -> Bytes {
        match self {
            Self::Fraction(f) => f.of(card).max(Bytes(1)),
            Self::Memory(b) => b,
        }
    }
}

/// Hundredths of a card's compute; 0 if none is asked for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(pub u8);

impl Percent {
    /// All of a card.
    pub const ALL: Self = Self(100);

    /// What is left after `other` is taken, 0 if nothing is.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0)
    }
}

/// What all shares of a card have in common, as the edges number it; 0 is the usual one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Class(pub u16);

impl Request {
    /// No GPU.
    pub fn none() -> Self {
        Self::default()
    }

    /// So many whole cards.
    pub fn whole(count: u32) -> Self {
        Self::none().and(count, Each::Whole)
    }

    /// A share of each of so many cards.
    pub fn share(count: u32, part: Part) -> Self {
        Self::none().and(count, Each::Share(part))
    }

    /// The same, and these. Cards take the place of cards that were asked before.
    #[must_use]
    pub fn and(mut self, count: u32, each: Each) -> Self {
        if count == 0 {
            return self;
        }
        match each {
            Each::Whole => (self.cards, self.part) = (count, None),
            Each::Share(part) => (self.cards, self.part) = (count, Some(part)),
            Each::Device(device) => {
                match self.devices.binary_search_by_key(&device, |(other, _)| *other) {
                    Ok(at) => self.devices[at].1 = count,
                    Err(at) => self.devices.insert(at, (device, count)),
                }
            }
        }
        self
    }

    /// The same by several containers, of which none asks more than one of a kind.
    #[must_use]
    pub const fn one_each(mut self) -> Self {
        self.one_each = true;
        self
    }

    /// Of what a container may ask more than one: whole cards, as the device `Gpu`, and devices.
    pub(crate) fn several(&self) -> impl Iterator<Item = (Device, u32)> + '_ {
        let whole = (Device::Gpu, self.whole_cards());
        let all = std::iter::once(whole).chain(self.devices());
        all.filter(|(_, count)| *count > 1 && !self.one_each)
    }

    /// Leaves out all but so many kinds of devices.
    pub fn keep_kinds(&mut self, most: usize) {
        self.devices.truncate(most);
        self.devices.shrink_to_fit();
    }

    /// How many bytes its list of devices takes.
    pub const fn weight(&self) -> usize {
        self.devices.len() * size_of::<(Device, u32)>()
    }

    /// Whether no GPU is asked.
    pub const fn is_none(&self) -> bool {
        self.cards == 0 && self.devices.is_empty()
    }

    /// Whether cards are asked, whole or in shares.
    pub const fn asks_cards(&self) -> bool {
        self.cards > 0
    }

    /// Whether devices are asked that are only counted.
    pub const fn asks_devices(&self) -> bool {
        !self.devices.is_empty()
    }

    /// How many cards are asked, whole or in shares.
    pub const fn cards(&self) -> u32 {
        self.cards
    }

    /// How many whole cards are asked.
    pub const fn whole_cards(&self) -> u32 {
        if self.part.is_none() { self.cards } else { 0 }
    }

    /// What is asked of each card, if shares are.
    pub const fn part(&self) -> Option<Part> {
        self.part
    }

    /// The same in memory of each card.
    pub fn portion(&self) -> Option<Portion> {
        Some(self.part()?.portion)
    }

    /// Whether shares are asked.
    pub const fn is_share(&self) -> bool {
        self.part.is_some()
    }

    /// The devices that are only counted, and how many of each.
    pub fn devices(&self) -> impl Iterator<Item = (Device, u32)> + '_ {
        self.devices.iter().copied()
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.cards, &self.part) {
            (0, _) if self.devices.is_empty() => f.write_str("no GPU")?,
            (0, _) => {}
            (1, None) => f.write_str("1 GPU")?,
            (count, None) => write!(f, "{count} GPUs")?,
            (1, Some(part)) => write!(f, "{part}")?,
            (count, Some(part)) => write!(f, "{count} x {part}")?,
        }
        for (at, (device, count)) in self.devices().enumerate() {
            let and = if at > 0 || self.asks_cards() { " and " } else { "" };
            write!(f, "{and}{count} x {device}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.portion {
            Portion::Fraction(part) => write!(f, "{part}")?,
            Portion::Memory(bytes) => write!(f, "{} MiB", bytes.mib())?,
        }
        match self.compute {
            Percent(0) => Ok(()),
            compute => write!(f, " with {compute} compute"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Profile;

    fn slice(name: &str) -> Each {
        Each::Device(Device::Slice(Profile::parse(name).unwrap()))
    }

    #[test]
    fn a_whole_card_and_two_kinds_of_slices_are_one_request() {
        let request =
            Request::none().and(2, slice("2g.20gb")).and(1, slice("1g.10gb")).and(1, Each::Whole);
        assert_eq!(
            request.to_string(),
            "1 GPU and 1 x nvidia.com/mig-1g.10gb and 2 x nvidia.com/mig-2g.20gb"
        );
        assert_eq!((request.whole_cards(), request.cards(), request.is_share()), (1, 1, false));
        assert_eq!(request.devices().map(|(_, n)| n).collect::<Vec<_>>(), [1, 2]);
        let other = Request::whole(1)
            .and(1, slice("1g.10gb"))
            .and(7, slice("2g.20gb"))
            .and(2, slice("2g.20gb"));
        assert_eq!(request, other, "in whatever order it was written");
    }

    #[test]
    fn cards_are_asked_by_one_line() {
        let half = Part::of(Portion::Fraction(Fraction::parse("0.5").unwrap()));
        let request = Request::whole(3).and(2, Each::Share(half));
        assert_eq!((request.whole_cards(), request.cards()), (0, 2));
        assert_eq!(request.part(), Some(half));
        assert!(Request::whole(0).is_none());
        assert_eq!(Request::none().and(1, slice("1g.10gb")).cards(), 0);
    }

    #[test]
    fn each_kind_of_device_weighs_something_and_can_be_left_out() {
        let mut request = Request::whole(1)
            .and(1, slice("1g.10gb"))
            .and(2, slice("2g.20gb"))
            .and(3, slice("7g.80gb"));
        assert_eq!(request.weight(), 3 * size_of::<(Device, u32)>());
        request.keep_kinds(1);
        assert_eq!(request, Request::whole(1).and(1, slice("1g.10gb")));
        assert!(Request::whole(1).weight() == 0 && Request::none().weight() == 0);
    }

    #[test]
    fn compute_is_said_where_it_is_asked() {
        let part =
            Part { compute: Percent(30), ..Part::of(Portion::Memory(Bytes::from_mib(2000))) };
        assert_eq!(Request::share(2, part).to_string(), "2 x 2000 MiB with 30 % compute");
    }
}
