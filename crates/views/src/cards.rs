//! The cards of a node and who holds them: what every view shows, in one form.

use crate::amount::Amount;
use crate::slices::{SliceHolders, SliceUse};
use crate::stranded::ShareSizes;
use crate::wording::labels;
use divvy_engine::{ObjectKey, Scheduler};
use divvy_ledger::{Bytes, Card, Division, Holding, Intake, Mode, Node, NodeId, Percent, Request};
use serde::{Serialize, Serializer};

/// A node, its cards, and what else it hands out of GPUs.
#[derive(Clone, Debug, Serialize)]
pub struct NodeCards<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its GPU model as the node names it.
    pub model: Option<&'a str>,
    /// Its cards by index; of those behind slices only what is known of them.
    pub cards: Vec<CardUse<'a>>,
    /// Time slices, MPS replicas and MIG slices by kind.
    pub slices: Vec<SliceUse<'a>>,
}

/// A card and who holds it.
#[derive(Clone, Debug, Serialize)]
pub struct CardUse<'a> {
    /// Its index on the node, as divvy counts.
    pub index: u32,
    /// The number that tools of the node call it by, if that is known.
    pub number: Option<u32>,
    /// Which card it is, if that is known.
    pub uuid: Option<&'a str>,
    /// What it is used for.
    pub state: CardUseState,
    /// Why it takes nobody new; empty if it does.
    pub closed: Vec<&'static str>,
    /// What its shares have in common; absent if nobody tells classes apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<&'a str>,
    /// All its memory.
    #[serde(rename = "capacityBytes")]
    pub capacity: Amount,
    /// What is held of it.
    #[serde(rename = "usedBytes")]
    pub used: Amount,
    /// Who holds it; one share of all of it if it is held whole.
    pub shares: Vec<ShareUse<'a>>,
    /// How many slices it is divided into, and how many of them are taken; absent if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slices: Option<CardSlices>,
    /// What is free but too little for any share that a pod is known to ask.
    #[serde(skip)]
    pub stranded: Amount,
    /// Whether the device plugin hands it out: it does not if it is not well. `None` if it is only known
    /// that it does not hand out all of them.
    #[serde(skip)]
    pub allocatable: Option<bool>,
    /// Whether a bound pod claims more of it than there is: then it takes nobody new.
    #[serde(skip)]
    pub overbooked: bool,
    /// Who claims what others hold, and how much.
    #[serde(skip)]
    pub claims: Vec<ShareUse<'a>>,
}

/// The slices of one card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CardSlices {
    /// How many there are.
    pub total: u32,
    /// How many pods hold; null if nobody tells of all pods which card they are on.
    pub taken: Option<u32>,
}

/// What a card is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CardUseState {
    /// Nobody holds any of it.
    Free,
    /// One pod holds all of it.
    Whole,
    /// Pods hold parts of it.
    Shared,
    /// The device plugin hands out turns on it.
    TimeSliced,
    /// The device plugin hands out clients of its MPS server.
    Mps,
    /// It is cut into MIG slices.
    Sliced,
}

impl CardUseState {
    /// As in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Whole => "whole",
            Self::Shared => "shared",
            Self::TimeSliced => "time-sliced",
            Self::Mps => "mps",
            Self::Sliced => "sliced",
        }
    }

    const fn of(by: Division) -> Self {
        match by {
            Division::TimeSlices => Self::TimeSliced,
            Division::Mps => Self::Mps,
            Division::Mig => Self::Sliced,
        }
    }
}

/// The stable names of the reasons why a card takes nobody new.
const CLOSED: [(Intake, &str); 4] = [
    (Intake::DISPUTED, "disputed"),
    (Intake::SICK, "sick"),
    (Intake::RETURNING, "returning"),
    (Intake::CONFLICT, "conflict"),
];

/// One pod's part of a card.
#[derive(Clone, Debug, Serialize)]
pub struct ShareUse<'a> {
    /// Who holds it.
    #[serde(serialize_with = "as_text")]
    pub pod: &'a ObjectKey,
    /// How much; of a card in slices, the part that they are of it.
    pub bytes: Amount,
    /// How much of its compute, if the pod asks any.
    #[serde(rename = "computePercent")]
    pub compute: Option<u8>,
    /// How many slices, if the card is cut into them.
    #[serde(skip)]
    pub slices: u32,
}

/// One card of a pod's placement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CardGrant {
    /// The card's index on its node, as divvy counts.
    pub index: u32,
    /// The number that tools of the node call it by, if that is known.
    pub number: Option<u32>,
    /// How much of it.
    pub bytes: Amount,
    /// How much of its compute, if the pod asks any.
    #[serde(rename = "computePercent")]
    pub compute: Option<u8>,
}

/// How much of a card's compute is asked, if any is.
const fn asked(compute: Percent) -> Option<u8> {
    if compute.0 > 0 { Some(compute.0) } else { None }
}

pub(crate) fn as_text<S: Serializer>(key: &&ObjectKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(key)
}

impl CardUse<'_> {
    /// What is claimed beyond what there is.
    pub fn overbooked_by(&self) -> Amount {
        self.capacity.with(Bytes(self.claimed().raw().saturating_sub(self.capacity.raw())))
    }

    /// What is held and claimed of it.
    pub fn claimed(&self) -> Amount {
        let all = self.claims.iter().map(|claim| claim.bytes.raw());
        self.used.with(Bytes(all.fold(self.used.raw(), u64::saturating_add)))
    }

    /// What people call it: its number, or `#` and its index where that is not known.
    pub fn label(&self) -> String {
        labels([(self.index, self.number)])
    }

    /// Whether somebody is known to hold some of it.
    pub fn is_in_use(&self) -> bool {
        match self.state {
            CardUseState::Free => false,
            CardUseState::Whole | CardUseState::Shared => true,
            _ => !self.shares.is_empty(),
        }
    }

    /// What is free of it.
    pub fn free(&self) -> Amount {
        self.capacity.with(Bytes(self.capacity.raw().saturating_sub(self.used.raw())))
    }
}

impl<'a> NodeCards<'a> {
    /// The node as it is now. `sizes` are the shares that may still come.
    pub(crate) fn of(
        scheduler: &'a Scheduler,
        id: NodeId,
        sizes: &mut ShareSizes,
        holders: &SliceHolders<'a>,
    ) -> Option<NodeCards<'a>> {
        let node = scheduler.ledger().node(id)?;
        let (withheld, free) = (node.withheld(), node.free_cards().count());
        let allocatable = |card: &Card| match card.mode() {
            _ if card.intake().has(Intake::SICK) => Some(false),
            Mode::Free if withheld > 0 => (withheld == free).then_some(false),
            // Of those that shares have their reservations tell.
            Mode::Whole(_) if withheld > 0 => None,
            _ => Some(true),
        };
        let cards = node.existing_cards().map(|(i, card)| {
            let allocatable = allocatable(card);
            CardUse { allocatable, ..card_use(scheduler, node, i, card, sizes) }
        });
        let mut cards: Vec<CardUse<'a>> = cards.collect();
        let slices = holders.on(id, node);
        // Unless the kubelet tells of all of them, a card may have more than is known.
        let taken: u64 = slices.iter().map(|slices| u64::from(slices.taken)).sum();
        let told: u64 = cards.iter().flat_map(|c| &c.shares).map(|s| u64::from(s.slices)).sum();
        if told < taken {
            let cut = cards.iter_mut().filter_map(|card| card.slices.as_mut());
            cut.for_each(|slices| slices.taken = None);
        }
        let model = scheduler.model(id).map(|model| &**model);
        Some(NodeCards { name: node.name(), model, cards, slices })
    }

    /// Whether there is more to show than free cards.
    pub(crate) fn is_worth_a_look(&self) -> bool {
        self.in_use().next().is_some()
            || self.cards.iter().any(|card| card.overbooked)
            || self.slices.iter().any(|slices| slices.taken > 0)
    }

    /// The cards that somebody is known to hold.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = &CardUse<'a>> {
        self.cards.iter().filter(|card| card.is_in_use())
    }

    /// All pods that hold something of it.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &'a ObjectKey> {
        let shares = self.cards.iter().flat_map(|card| &card.shares).map(|share| share.pod);
        let slices = self.slices.iter().flat_map(|slices| &slices.pods).map(|holder| holder.pod);
        shares.chain(slices)
    }
}

fn card_use<'a>(
    scheduler: &'a Scheduler,
    node: &'a Node,
    index: usize,
    card: &'a Card,
    sizes: &mut ShareSizes,
) -> CardUse<'a> {
    let known = card.knows_memory();
    let amount = |size| Amount::new(size, card.capacity(), known);
    let (state, shares): (_, Vec<_>) = match card.mode() {
        Mode::Free => (CardUseState::Free, Vec::new()),
        Mode::Whole(pod) => (
            CardUseState::Whole,
            scheduler
                .pod_key(*pod)
                .map(|pod| ShareUse {
                    pod,
                    bytes: amount(card.capacity()),
                    compute: None,
                    slices: 0,
                })
                .into_iter()
                .collect(),
        ),
        Mode::Shared(_) => (
            CardUseState::Shared,
            card.shares()
                .iter()
                .filter_map(|s| {
                    let pod = scheduler.pod_key(s.pod)?;
                    let (bytes, compute) = (amount(s.bytes), asked(s.compute));
                    Some(ShareUse { pod, bytes, compute, slices: 0 })
                })
                .collect(),
        ),
        Mode::Divided(divided) => {
            let held = divided.held.iter().filter_map(|(pod, _, count)| {
                let bytes = amount(divided.part(card.capacity(), *count));
                let pod = scheduler.pod_key(*pod)?;
                Some(ShareUse { pod, bytes, compute: None, slices: *count })
            });
            (CardUseState::of(divided.by), held.collect())
        }
    };
    let slices = match card.mode() {
        Mode::Divided(divided) => {
            let (taken, total) = divided.taken();
            Some(CardSlices { total, taken: Some(taken) })
        }
        _ => None,
    };
    let (place, index) = (index, u32::try_from(index).unwrap_or(u32::MAX));
    let claims = card.is_disputed().then(|| scheduler.contenders(node.name(), index));
    let claim = |(pod, bytes): (&'a ObjectKey, Bytes)| {
        let part = scheduler.request(pod).and_then(Request::part);
        let compute = part.and_then(|part| asked(part.compute));
        ShareUse { pod, bytes: amount(bytes), compute, slices: 0 }
    };
    let closed = CLOSED.into_iter().filter(|(reason, _)| card.intake().has(*reason));
    CardUse {
        index,
        number: node.card_number(index),
        uuid: card.name().map(|name| &*name.uuid),
        state,
        closed: closed.map(|(_, name)| name).collect(),
        class: card.class().and_then(|class| Some(&*scheduler.class_name(class)?.name)),
        capacity: amount(card.capacity()),
        used: amount(card.used()),
        shares,
        slices,
        stranded: amount(sizes.stranded(node, place, card)),
        allocatable: None,
        overbooked: card.is_disputed(),
        claims: claims.into_iter().flatten().map(claim).collect(),
    }
}

/// The cards that a pod holds, lowest first. A whole card is all of it, whatever was recorded.
pub(crate) fn grants(scheduler: &Scheduler, holding: &Holding) -> Vec<CardGrant> {
    let Some(node) = scheduler.ledger().node(holding.node) else { return Vec::new() };
    let whole = holding.needs.request.whole_cards() > 0;
    let compute = holding.needs.request.part().and_then(|part| asked(part.compute));
    let grants = holding.cards.iter().map(|grant| {
        let card = node.cards().get(grant.index as usize)?;
        let size = if whole { card.capacity() } else { grant.bytes };
        let bytes = Amount::new(size, card.capacity(), card.knows_memory());
        let number = node.card_number(grant.index);
        Some(CardGrant { index: grant.index, number, bytes, compute })
    });
    let mut grants: Vec<_> = grants.flatten().collect();
    grants.sort_by_key(|g| g.index);
    grants
}
