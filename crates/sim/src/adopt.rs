//! Cards of pods that are already bound.
//!
//! A share pod that divvy bound says itself which cards it has. In a dump of a cluster that KAI
//! runs, a pod says only which group of pods it shares a card with, and a reservation pod holds
//! the card for them; each group is given a card of its own, so that a rehearsal neither counts a
//! card twice nor moves a pod off the card it shares.

use divvy_engine::{BoundCards, PodRecord, PodSpec, Scheduler};
use divvy_ledger::{CardShare, Portion, Request};
use divvy_words::cards::{self, CardName, NamedShare};
use divvy_words::manifest::Metadata;
use divvy_words::{ghosts, keys, reservation};
use std::collections::BTreeMap;

/// What a bound pod's own manifest says of its cards.
pub(crate) enum Claim {
    /// All that there is to know.
    Cards(BoundCards),
    /// It shares a card with these groups of pods.
    Groups(Vec<String>),
    /// Its record cannot be read: why.
    Unreadable(String),
}

/// What a pod claims. A reservation pod of KAI claims nothing: its card is held by the shares
/// that it was made for.
pub(crate) fn claim(metadata: &Metadata, record: &mut PodRecord) -> Claim {
    let groups: Vec<String> =
        reservation::groups(metadata).into_iter().map(str::to_owned).collect();
    if keys::RESERVATION_NAMESPACES.contains(&&*metadata.namespace) && !groups.is_empty() {
        record.spec.request = Request::None;
    }
    let wanted = match record.spec.request {
        Request::None => return Claim::Cards(BoundCards::Nothing),
        Request::Whole(_) => return Claim::Cards(BoundCards::Choose),
        Request::Share { cards, .. } => cards as usize,
    };
    match metadata.annotations.get(keys::CARDS).map(cards::parse) {
        Some(Ok(cards)) if cards.len() != wanted => Claim::Unreadable(format!(
            "{} names {} cards, but the pod asks for {wanted}",
            keys::CARDS,
            cards.len()
        )),
        Some(Ok(cards)) => named(cards, groups),
        Some(Err(why)) => Claim::Unreadable(why),
        None if groups.is_empty() => Claim::Cards(BoundCards::Choose),
        None => Claim::Groups(groups),
    }
}

/// Cards that are known by index are those; of others it only matters which pods have the same,
/// by the labels that KAI would know them by too, else by UUID.
fn named(cards: Vec<NamedShare>, groups: Vec<String>) -> Claim {
    let index = |share: &NamedShare| match share.card {
        CardName::Index(index) => Some(CardShare { index, bytes: share.bytes }),
        CardName::Uuid(_) => None,
    };
    match cards.iter().map(index).collect::<Option<Vec<_>>>() {
        Some(shares) => Claim::Cards(BoundCards::Recorded(shares)),
        None if groups.len() == cards.len() => Claim::Groups(groups),
        None => Claim::Groups(cards.into_iter().map(|share| share.card.to_string()).collect()),
    }
}

/// What a reservation pod says of pods that vanished from its card: each holds its share there.
pub(crate) fn ghosts(metadata: &Metadata) -> impl Iterator<Item = PodRecord> {
    let text = metadata.annotations.get(keys::GHOSTS).unwrap_or_default();
    ghosts::parse(text).into_iter().map(|ghost| {
        let request = Request::Share { portion: Portion::Memory(ghost.bytes), cards: 1 };
        let spec = PodSpec { request, ghost: true, ..PodSpec::default() };
        PodRecord { key: ghost.key(), uid: ghost.uid, spec, ..PodRecord::default() }
    })
}

/// The card of each group, by node and group.
#[derive(Default)]
pub(crate) struct GroupCards(BTreeMap<(String, String), u32>);

impl GroupCards {
    /// The cards of a pod of these groups; a group's first pod takes a free card for it.
    pub(crate) fn of(
        &mut self,
        cluster: &Scheduler,
        request: Request,
        node: &str,
        groups: &[String],
    ) -> BoundCards {
        let found = cluster.ledger().find(node).and_then(|id| cluster.ledger().node(id));
        let (Some(found), Request::Share { portion, .. }) = (found, request) else {
            return BoundCards::Choose;
        };
        if matches!(portion, Portion::Memory(_)) && !found.knows_card_memory() {
            return BoundCards::Choose;
        }
        let bytes = portion.of(found.card_size());
        let mut shares = Vec::new();
        for group in groups {
            let of_node = |(other, _): &(String, String)| other == node;
            let taken: Vec<u32> =
                self.0.iter().filter(|(at, _)| of_node(at)).map(|(_, card)| *card).collect();
            let free = found.free_cards().map(|card| card as u32).find(|c| !taken.contains(c));
            let next = free.unwrap_or(found.card_count());
            let key = (node.to_owned(), group.clone());
            shares.push(CardShare { index: *self.0.entry(key).or_insert(next), bytes });
        }
        BoundCards::Recorded(shares)
    }
}
