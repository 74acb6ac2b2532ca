//! What a share gets with its binding, and what a bound share has, by the names of its cards.

use super::Cards;
use super::slots::Hold;
use crate::state::action::{Binding, Grant, HandOff};
use crate::state::context::Context;
use divvy_engine::{BoundCards, ObjectKey, Placement};
use divvy_ledger::{CardShare, Portion, Request};
use divvy_words::cards::{CardName, NamedShare};
use divvy_words::device_allocated;

impl Cards {
    /// Whether all cards of a pod are held, as far as somebody has to hold them; then the binding
    /// says which they are.
    pub(in crate::state) fn hand_over(&self, binding: &mut Binding, cx: &Context) -> bool {
        if matches!(binding.grant, Grant::HandOff(_)) {
            binding.grant = Grant::HandOff(self.hand_off(binding, cx));
        }
        binding.grant != Grant::HandOff(None)
    }

    /// Whether all cards of a share are held by now.
    pub(in crate::state) fn are_held(&self, binding: &Binding) -> bool {
        let slot =
            |share: &CardShare| self.shared.slots().get(&binding.placement.node, share.index);
        let mut slots = binding.placement.cards.iter().map(slot);
        slots.all(|slot| slot.is_some_and(|slot| slot.hold == Hold::Held))
    }

    /// What a share gets, if all its cards are held by now.
    fn hand_off(&self, binding: &Binding, cx: &Context) -> Option<HandOff> {
        let node = &binding.placement.node;
        let slot = |share: &CardShare| {
            let slot = self.shared.slots().get(node, share.index);
            let slot = slot.filter(|slot| slot.hold == Hold::Held)?;
            let card = CardName::Uuid(slot.uuid.clone()?);
            Some((NamedShare { card, bytes: share.bytes }, slot.group.clone()))
        };
        let held = binding.placement.cards.iter().map(slot).collect::<Option<Vec<_>>>()?;
        let (cards, groups): (Vec<_>, Vec<_>) = held.into_iter().unzip();
        let portion = portion(&binding.pod.key, cx)?;
        let devices = self.devices_of(binding, &cards, cx)?;
        let device_allocated = self.device_allocated(binding, &cards, cx);
        Some(HandOff { cards, groups, portion, devices, device_allocated })
    }

    /// The devices of a share that a provider isolates, which are the cards and the provider; none for
    /// any other. `None` if nobody knows how they are called on this node.
    fn devices_of(
        &self,
        binding: &Binding,
        cards: &[NamedShare],
        cx: &Context,
    ) -> Option<Option<String>> {
        let class = cx.scheduler.request(&binding.pod.key)?.part()?.class;
        let Some(isolation) = cx.isolation().filter(|all| all.provider(class).is_some()) else {
            return Some(None);
        };
        let kind = self.nodes.get(&*binding.placement.node)?.kind.as_deref()?;
        let names: Vec<String> = cards.iter().map(|share| share.card.to_string()).collect();
        isolation.devices(class, kind, names.iter().map(String::as_str)).map(Some)
    }

    /// The cards of a share as Koordinator writes them, if it asks in its way.
    fn device_allocated(
        &self,
        binding: &Binding,
        cards: &[NamedShare],
        cx: &Context,
    ) -> Option<String> {
        let node = &binding.placement.node;
        let part = cx.scheduler.request(&binding.pod.key)?.part()?;
        let held = cx.node(node).filter(|_| binding.asks_as_koordinators)?.cards();
        let named = binding.placement.cards.iter().zip(cards);
        let names: Vec<String> = named.clone().map(|(_, share)| share.card.to_string()).collect();
        let granted = named.zip(&names).map(|((placed, share), uuid)| {
            let capacity = held.get(placed.index as usize)?.capacity();
            let minor = self.shared.slots().get(node, placed.index)?.number;
            let (bytes, compute) = (share.bytes, part.compute);
            Some(device_allocated::WrittenCard { minor, uuid, bytes, capacity, compute })
        });
        device_allocated::print(&granted.collect::<Option<Vec<_>>>()?)
    }

    /// What a binding says of the isolation of a share.
    pub(in crate::state) fn limits(
        &self,
        placement: &Placement,
        request: &Request,
        cx: &Context,
    ) -> Vec<(&'static str, String)> {
        let Some((isolation, part)) = cx.isolation().zip(request.part()) else { return Vec::new() };
        // The one limit is that of each card: it is the least.
        let bytes = placement.cards.iter().map(|card| card.bytes).min().unwrap_or_default();
        isolation.annotations(part.class, placement.cards.len(), bytes, part.compute)
    }

    /// The cards that a bound share names, by index; each is a slot from now on.
    pub(in crate::state) fn named_cards(
        &mut self,
        node: &str,
        groups: &[&str],
        shares: &[NamedShare],
        cx: &Context,
    ) -> BoundCards {
        let mut cards = Vec::new();
        // Of several groups nobody says which is whose: their reservations do.
        let group = if let [group] = groups { *group } else { "" };
        for NamedShare { card, bytes } in shares {
            let index = match card {
                CardName::Index(index) => *index,
                CardName::Uuid(uuid) => self.shared.named(node, group, uuid, cx),
            };
            cards.push(CardShare { index, bytes: *bytes });
        }
        let by_index = shares.iter().any(|share| matches!(share.card, CardName::Index(_)));
        if by_index { BoundCards::Recorded(cards) } else { BoundCards::Named(cards) }
    }
}

/// The part of each card that a pod holds, as a decimal.
fn portion(key: &ObjectKey, cx: &Context) -> Option<String> {
    let holding = cx.scheduler.holding(key)?;
    Some(match holding.needs.request.portion()? {
        Portion::Fraction(fraction) => fraction.to_string(),
        Portion::Memory(bytes) => {
            let card = cx.scheduler.ledger().node(holding.node)?.card_size();
            let millionths = u128::from(bytes.0) * 1_000_000 / u128::from(card.0.max(1));
            let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    })
}
