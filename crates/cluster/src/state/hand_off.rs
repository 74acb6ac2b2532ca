//! What a share gets with its binding, and what a bound share has, by the names of its cards.

use super::slots::{Hold, Slot};
use super::{Binding, State};
use divvy_engine::PodKey;
use divvy_ledger::{CardShare, Portion};
use divvy_words::cards::{CardName, NamedShare};

/// What a share gets with its binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandOff {
    /// Its cards by name.
    pub(crate) cards: Vec<NamedShare>,
    /// Their groups, by which KAI would know them.
    pub(crate) groups: Vec<Box<str>>,
    /// The part of each card that it has.
    pub(crate) portion: String,
}

impl State {
    /// What a share gets, if all its cards are held by now.
    pub(super) fn hand_off(&self, binding: &Binding) -> Option<HandOff> {
        let node = &binding.placement.node;
        let slot = |share: &CardShare| {
            let slot = self.slots.get(node, share.index).filter(|slot| slot.hold == Hold::Held)?;
            let card = CardName::Uuid(slot.uuid.clone()?);
            Some((NamedShare { card, bytes: share.bytes }, slot.group.clone()))
        };
        let held = binding.placement.cards.iter().map(slot).collect::<Option<Vec<_>>>()?;
        let (cards, groups) = held.into_iter().unzip();
        let portion = self.portion(&binding.pod.key)?;
        Some(HandOff { cards, groups, portion })
    }

    /// The part of each card that a pod holds, as a decimal.
    fn portion(&self, key: &PodKey) -> Option<String> {
        let holding = self.scheduler.holding(key)?;
        Some(match holding.needs.request.portion()? {
            Portion::Fraction(fraction) => fraction.to_string(),
            Portion::Memory(bytes) => {
                let card = self.scheduler.ledger().node(holding.node)?.card_size();
                let millionths = u128::from(bytes.0) * 1_000_000 / u128::from(card.0.max(1));
                let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
        })
    }

    /// The cards that a bound share names, by index; each is a slot from now on.
    pub(super) fn named_cards(
        &mut self,
        node: &str,
        groups: &[&str],
        shares: &[NamedShare],
    ) -> Vec<CardShare> {
        let mut cards = Vec::new();
        // Of several groups nobody says which is whose: their reservations do.
        let group = if let [group] = groups { *group } else { "" };
        for NamedShare { card, bytes } in shares {
            let index = match card {
                CardName::Index(index) => *index,
                CardName::Uuid(uuid) => self.slots.by_card(node, uuid).unwrap_or_else(|| {
                    let index = self.vacant(node);
                    let uuid = Some(uuid.clone());
                    self.slots.insert(
                        node,
                        index,
                        Slot { group: group.into(), uuid, hold: Hold::Lost, sick: false },
                    );
                    self.unsettled.insert(node.into());
                    index
                }),
            };
            cards.push(CardShare { index, bytes: *bytes });
        }
        cards
    }
}
