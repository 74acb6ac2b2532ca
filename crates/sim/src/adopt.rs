//! Cards of pods that are already bound.
//!
//! A share pod that divvy bound says itself which cards it has. In a dump of a cluster that KAI
//! runs, a pod says only which group of pods it shares a card with, and a reservation pod holds
//! the card for them; groups are given a card each, so that a rehearsal neither counts a card
//! twice nor moves a pod off the card it shares.

use divvy_engine::{BoundCards, PodRecord, Scheduler};
use divvy_ledger::{CardShare, Request};
use divvy_words::manifest::Metadata;
use divvy_words::{cards, keys};
use std::collections::BTreeMap;

/// The groups of each node, numbered as they come.
#[derive(Default)]
pub(crate) struct Groups {
    cards: BTreeMap<(String, String), u32>,
    next: BTreeMap<String, u32>,
}

impl Groups {
    /// What is known of the cards of a bound pod. A text says what is wrong with its record.
    pub(crate) fn cards_of(
        &mut self,
        cluster: &Scheduler,
        metadata: &Metadata,
        record: &mut PodRecord,
        node: &str,
    ) -> (BoundCards, Option<String>) {
        if is_reservation(metadata) {
            // Its card is held by the shares it was made for.
            record.spec.request = Request::None;
        }
        let Request::Share { portion, .. } = record.spec.request else {
            return match record.spec.request {
                Request::None => (BoundCards::Nothing, None),
                _ => (BoundCards::Choose, None),
            };
        };
        if let Some(text) = metadata.annotations.get(keys::CARDS) {
            return match cards::parse(text) {
                Ok(cards) => (BoundCards::Recorded(cards), None),
                Err(why) => (BoundCards::Choose, Some(why)),
            };
        }
        let groups = groups_of(metadata);
        let size = cluster.ledger().find(node).and_then(|id| cluster.ledger().node(id));
        let Some(size) = size.filter(|_| !groups.is_empty()).map(|n| n.card_size()) else {
            return (BoundCards::Choose, None);
        };
        let bytes = portion.of(size);
        let share = |group: &&str| CardShare { index: self.card(node, group), bytes };
        (BoundCards::Recorded(groups.iter().map(share).collect()), None)
    }

    fn card(&mut self, node: &str, group: &str) -> u32 {
        let next = self.next.entry(node.to_owned()).or_default();
        *self.cards.entry((node.to_owned(), group.to_owned())).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }
}

/// The groups that KAI's labels name: one plain label, or one label for each card of several.
fn groups_of(metadata: &Metadata) -> Vec<&str> {
    let is_group = |key: &str| {
        key.strip_prefix(keys::GPU_GROUP)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let labels = metadata.labels.iter().filter(|(key, _)| is_group(key));
    labels.map(|(_, group)| group).collect()
}

fn is_reservation(metadata: &Metadata) -> bool {
    keys::RESERVATION_NAMESPACES.contains(&&*metadata.namespace) && !groups_of(metadata).is_empty()
}
