//! What holds after every call, worked out from the holdings alone: tests and the fuzzer ask it
//! after each step.

use crate::{
    Bytes, Card, Class, Device, Holder, Holding, Intake, Ledger, MilliCpu, Mode, Needs, Node,
    NodeId, Percent, PodId, Room, Share,
};
use std::collections::{BTreeMap, BTreeSet};

/// Who holds something of a card, how much, whether that is all of it, and whether it is kept.
type Holders = BTreeMap<(NodeId, u32), Vec<(PodId, Bytes, Use)>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Whole,
    Share(Percent, Class),
    Keep,
}

impl Ledger {
    /// Whether cards, rooms and counts are what the holdings say; if not, the first that is not.
    pub fn audit(&self) -> Result<(), String> {
        let mut holders = Holders::new();
        for (pod, holding) in self.all_holdings() {
            let request = &holding.needs.request;
            let by = match request.part() {
                _ if request.whole_cards() > 0 => Use::Whole,
                None => Use::Share(Percent::default(), Class::default()),
                Some(part) => Use::Share(part.compute, part.class),
            };
            for card in &holding.cards {
                let card_holders = holders.entry((holding.node, card.index)).or_default();
                card_holders.push((pod, card.bytes, by));
            }
            if let Some(index) = holding.keeps {
                let card_holders = holders.entry((holding.node, index)).or_default();
                card_holders.push((pod, Bytes(0), Use::Keep));
            }
        }
        for (at, node) in self.nodes().iter().enumerate() {
            let id = NodeId::at(at);
            let here = self.all_holdings().map(|(_, holding)| holding);
            let here: Vec<&Holding> = here.filter(|holding| holding.node == id).collect();
            let is_there = node.alive || !here.is_empty();
            let audited = expect(!is_there || self.find(node.name()) == Some(id), || {
                "it is not found by its name".to_owned()
            })
            .and_then(|()| audit_cards(node, id, &mut holders, |pod| self.holding(pod)))
            .and_then(|()| audit_room(node, &here))
            .and_then(|()| {
                let glance = self.glance(id).copied().unwrap_or_default();
                expect(glance == node.glance(&glance), || format!("it looks like {glance:?}"))
            });
            audited.map_err(|why| format!("node {}: {why}", node.name()))?;
        }
        match holders.first_key_value() {
            None => Ok(()),
            Some(((node, index), pods)) => {
                Err(format!("{pods:?} hold card {index} of {node:?}, which does not exist"))
            }
        }
    }
}

fn expect(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

/// Each card is free, whole or shared, by those who hold it: never beyond its bytes, and in shares of
/// one class only.
fn audit_cards<'a>(
    node: &Node,
    id: NodeId,
    holders: &mut Holders,
    holdings: impl Fn(PodId) -> Option<&'a Holding>,
) -> Result<(), String> {
    for (index, card) in (0u32..).zip(node.cards()) {
        let mut found = holders.remove(&(id, index)).unwrap_or_default();
        found.sort_unstable_by_key(|(pod, ..)| *pod);
        let shares = card.shares().iter();
        let sum: u128 = shares.clone().map(|share| u128::from(share.bytes.0)).sum();
        expect(sum <= u128::from(card.capacity().0), || {
            format!("the shares of card {index} have {sum} bytes of {}", card.capacity().0)
        })?;
        let compute: u32 = shares.clone().map(|share| u32::from(share.compute.0)).sum();
        expect(compute <= 100, || {
            format!("the shares of card {index} have {compute} % of its compute")
        })?;
        let is_as_held = match card.mode() {
            Mode::Free => {
                found.is_empty()
                    && card.name().is_none()
                    && card.capacity() == node.listed_size(index as usize)
            }
            Mode::Divided(divided) => {
                let holders = divided.held.iter().map(|(pod, ..)| *pod);
                let is_here = |pod| holdings(pod).is_some_and(|holding| holding.node == id);
                found.is_empty() && holders.into_iter().all(is_here)
            }
            Mode::Whole(pod) => matches!(found[..], [(one, _, Use::Whole)] if one == *pod),
            Mode::Shared(on) => {
                let by = |share: &Share| Use::Share(share.compute, on.class);
                let shared = shares.map(|share| (share.pod, share.bytes, by(share)));
                let kept = card.keepers().iter().map(|pod| (*pod, Bytes(0), Use::Keep));
                let mut shared: Vec<_> = shared.chain(kept).collect();
                shared.sort_unstable_by_key(|(pod, ..)| *pod);
                !shared.is_empty() && shared == found
            }
        };
        expect(is_as_held, || format!("card {index} is {card:?}, held by {found:?}"))?;
    }
    let has_more = node.cards().len() > node.listed_count();
    expect(node.cards().len() >= node.listed_count(), || "it lacks cards".to_owned())?;
    expect(!has_more || node.cards().last().is_some_and(Card::is_held), || {
        "a card that it no longer has, and nobody holds, is kept".to_owned()
    })
}

/// The room of a node is what it has without what is held there.
fn audit_room(node: &Node, here: &[&Holding]) -> Result<(), String> {
    let has = node.capacity();
    let left = |total: u64, of: &dyn Fn(&Needs) -> u64| {
        let used: u128 = here.iter().map(|holding| u128::from(of(&holding.needs))).sum();
        u64::try_from(u128::from(total).saturating_sub(used)).unwrap_or(0)
    };
    let pods = here.iter().filter(|holding| holding.needs.holder != Holder::Ghost).count();
    let pods = u32::try_from(pods).unwrap_or(u32::MAX);
    expect(node.taken().2 == pods, || format!("{pods} pods are counted as {}", node.taken().2))?;
    let unknown = here.iter().any(|holding| holding.unknown);
    expect(node.has_unknown_holder() == unknown, || "unknown holders are miscounted".to_owned())?;
    let (unkept, opening) = (unkept(here), node.opening().unwrap_or_default());
    let unkept = if node.opening().is_some() { unkept } else { 0 };
    let to_come = |each: u64| each * u64::from(unkept);
    let expected = Room {
        cpu: MilliCpu(left(has.cpu.0, &|n| n.cpu.0).saturating_sub(to_come(opening.cpu.0))),
        memory: Bytes(
            left(has.memory.0, &|n| n.memory.0).saturating_sub(to_come(opening.memory.0)),
        ),
        ephemeral: Bytes(left(has.ephemeral.0, &|needs| needs.ephemeral.0)),
        pods: has.pods.saturating_sub(pods + unkept),
        ..card_room(node, here)
    };
    expect(!node.alive || *node.room() == expected, || {
        format!("its room is {:?}, and should be {expected:?}", node.room())
    })?;
    let counted = has.gpus.pools.iter().map(|pool| (&pool.device, &pool.count));
    for (device, total) in counted.filter(|(device, _)| **device != Device::Gpu) {
        let asked = here.iter().flat_map(|holding| holding.needs.request.devices());
        let used: u64 = asked.filter(|(other, _)| other == device).map(|(_, n)| u64::from(n)).sum();
        let free = total.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX));
        expect(node.devices(*device) == Some((free, *total)), || {
            format!("{device} is {:?}, and should be {free} of {total}", node.devices(*device))
        })?;
    }
    for (resource, total) in &has.extended {
        let asked = |needs: &Needs| {
            needs.extended.iter().filter(|(id, _)| id == resource).map(|(_, n)| *n).sum()
        };
        let expected = (left(*total, &asked), *total);
        expect(node.extended(*resource) == expected, || {
            format!("{resource:?} is {:?}, and should be {expected:?}", node.extended(*resource))
        })?;
    }
    Ok(())
}

/// How many cards have shares, and no reservation.
fn unkept(here: &[&Holding]) -> u32 {
    let shares = here.iter().filter(|holding| holding.needs.request.whole_cards() == 0);
    let shared: BTreeSet<u32> = shares.flat_map(|h| &h.cards).map(|card| card.index).collect();
    let kept: BTreeSet<u32> = here.iter().filter_map(|holding| holding.keeps).collect();
    u32::try_from(shared.difference(&kept).count()).unwrap_or(u32::MAX)
}

fn card_room(node: &Node, here: &[&Holding]) -> Room {
    let cards = node.cards();
    let is_free = |card: &Card| *card.mode() == Mode::Free;
    // A card that does not work is no longer among those that the node hands out.
    let held = cards.iter().filter(|card| card.is_held() && !card.is_sick()).count();
    let replicas: u64 = here.iter().map(|holding| u64::from(holding.replicas)).sum();
    let held = u32::try_from(held as u64 + replicas).unwrap_or(u32::MAX);
    let gpus = &node.capacity().gpus;
    let (mut pool_used, mut pool_total) = (0u64, 0u64);
    for pool in &gpus.pools {
        let asked = here.iter().flat_map(|holding| holding.needs.request.devices());
        let asked: u64 = asked.filter(|(d, _)| *d == pool.device).map(|(_, n)| u64::from(n)).sum();
        let used = if pool.device == Device::Gpu { u64::from(held) } else { asked };
        let count = u64::from(pool.count);
        pool_used = pool_used.saturating_add(used.min(count).saturating_mul(pool.unit()));
        pool_total = pool_total.saturating_add(count.saturating_mul(pool.unit()));
    }
    if let Some(pool) = gpus.pool(Device::Gpu) {
        let whole = pool.count.saturating_sub(held);
        return Room { whole, gpu_used: pool_used, gpu_total: pool_total, ..Room::default() };
    }
    if gpus.cards.is_empty() {
        return Room { gpu_used: pool_used, gpu_total: pool_total, ..Room::default() };
    }
    let is_open = |index: usize, card: &Card| {
        card.capacity() == node.listed_size(index) && card.intake() == Intake::OPEN
    };
    let present = cards.iter().enumerate().take(gpus.cards.len());
    let open: Vec<&Card> =
        present.filter(|(index, card)| is_open(*index, card)).map(|(_, card)| card).collect();
    let free = open.iter().filter(|card| is_free(card)).count();
    let free = u32::try_from(free).unwrap_or(u32::MAX);
    let shared = open.iter().filter(|card| matches!(card.mode(), Mode::Shared(_)));
    let undivided = || cards.iter().filter(|card| !matches!(card.mode(), Mode::Divided(_)));
    let classes: Vec<Class> = cards.iter().filter_map(Card::class).collect();
    let differ = |sizes: &[Option<Bytes>]| sizes.windows(2).any(|pair| pair[0] != pair[1]);
    Room {
        whole: free.min(gpus.usable.saturating_sub(held)),
        share: shared.map(|c| c.capacity().minus(c.used())).max().unwrap_or_default(),
        class: classes.first().copied(),
        is_mixed: differ(&gpus.cards) || classes.windows(2).any(|pair| pair[0] != pair[1]),
        gpu_used: undivided().map(|card| card.used().0).fold(pool_used, u64::saturating_add),
        gpu_total: undivided().map(|card| card.capacity().0).fold(pool_total, u64::saturating_add),
        ..Room::default()
    }
}
