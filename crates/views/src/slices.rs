//! What a node hands out besides whole cards and shares of them: time slices, MPS replicas, MIG
//! slices. They are counted by node and kind; the card behind one is the device plugin's choice.

use crate::amount::Amount;
use crate::bar::{BarFill, letters};
use crate::paint::{Painter, Tint};
use crate::wording::{Names, thousands};
use divvy_engine::{ObjectKey, Scheduler};
use divvy_ledger::{Bytes, Device, Division, Holding, Node, NodeId, Pool, Request};
use serde::Serialize;
use std::collections::HashMap;

/// The slices of one kind on a node, and who holds them.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceUse<'a> {
    /// The resource by which they are asked for.
    pub resource: String,
    /// What they are: `time-slice`, `mps`, `mig`; null if nobody says it.
    pub kind: Option<&'static str>,
    /// The profile of MIG slices.
    pub profile: Option<String>,
    /// How many cards are behind them, if that is known.
    pub cards: Option<u32>,
    /// The memory of each; of a time slice, which has none of its own, its part of a card.
    pub bytes_each: Option<u64>,
    /// Which part of the threads of a card each may use at once, in percent, if that is limited.
    pub threads_percent_each: Option<u32>,
    /// How many there are.
    pub total: u32,
    /// How many pods hold; more than there are if there were more when they came.
    pub taken: u32,
    /// Who holds them.
    pub pods: Vec<SliceHolder<'a>>,
    /// How cards are divided.
    #[serde(skip)]
    pub by: Option<Division>,
    /// How many are made of each card or MIG slice, if that is known.
    #[serde(skip)]
    pub replicas: Option<u32>,
}

/// A pod and how many slices of one kind it holds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SliceHolder<'a> {
    /// Which pod.
    #[serde(serialize_with = "crate::cards::as_text")]
    pub pod: &'a ObjectKey,
    /// How many.
    pub count: u32,
}

/// Who holds slices, by node.
#[derive(Debug, Default)]
pub(crate) struct SliceHolders<'a>(HashMap<NodeId, Vec<(Device, SliceHolder<'a>)>>);

impl<'a> SliceHolders<'a> {
    pub(crate) fn of(scheduler: &'a Scheduler) -> Self {
        let mut by_node: HashMap<NodeId, Vec<_>> = HashMap::new();
        for (pod, holding) in scheduler.holders() {
            for (device, count) in held(holding) {
                let holder = SliceHolder { pod, count };
                by_node.entry(holding.node).or_default().push((device, holder));
            }
        }
        Self(by_node)
    }

    /// The slices of a node by kind.
    pub(crate) fn on(&self, id: NodeId, node: &Node) -> Vec<SliceUse<'a>> {
        let holders = self.0.get(&id).map_or(&[][..], Vec::as_slice);
        let pools = node.capacity().gpus.pools.iter();
        let pools = pools.map(|pool| {
            let pods: Vec<SliceHolder<'a>> =
                holders.iter().filter(|(d, _)| *d == pool.device).map(|(_, h)| *h).collect();
            slice_use(pool, pods)
        });
        pools.filter(|slices| slices.total > 0 || slices.taken > 0).collect()
    }
}

/// What a pod holds of devices that are only counted.
pub(crate) fn held(holding: &Holding) -> impl Iterator<Item = (Device, u32)> + '_ {
    let replicas = Some((Device::Gpu, holding.replicas)).filter(|(_, count)| *count > 0);
    replicas.into_iter().chain(holding.needs.request.devices())
}

fn slice_use<'a>(pool: &Pool, pods: Vec<SliceHolder<'a>>) -> SliceUse<'a> {
    SliceUse {
        resource: pool.device.to_string(),
        kind: pool.by.map(kind),
        profile: pool.profile.map(|profile| profile.to_string()),
        cards: Some(pool.cards).filter(|cards| *cards > 0),
        bytes_each: pool.each.map(|each| each.0),
        threads_percent_each: threads(pool),
        total: pool.count,
        taken: pods.iter().map(|holder| holder.count).fold(0, u32::saturating_add),
        pods,
        by: pool.by,
        replicas: Some(pool.replicas).filter(|replicas| *replicas > 0),
    }
}

/// The server of MPS divides memory and threads among as many clients as there are replicas.
fn threads(pool: &Pool) -> Option<u32> {
    100u32.checked_div(pool.replicas).filter(|_| pool.by == Some(Division::Mps))
}

/// What so many are called: `time slices`, `1g.5gb slice`, `time slices of 1g.5gb`, `replicas`.
fn called(by: Option<Division>, profile: Option<&str>, count: u32) -> String {
    let slices = if count == 1 { "slice" } else { "slices" };
    let each = match count {
        1 => by.map_or("replica", Division::singular),
        _ => plural(by),
    };
    match (profile, by) {
        (Some(profile), Some(Division::Mig)) => format!("{profile} {slices}"),
        (Some(profile), _) => format!("{each} of {profile}"),
        (None, _) => each.to_owned(),
    }
}

/// As in JSON.
const fn kind(by: Division) -> &'static str {
    match by {
        Division::TimeSlices => "time-slice",
        Division::Mps => "mps",
        Division::Mig => "mig",
    }
}

/// What several are called: `time slices`, `MPS replicas`, `MIG slices`, `replicas`.
pub(crate) const fn plural(by: Option<Division>) -> &'static str {
    match by {
        Some(by) => by.plural(),
        None => "replicas",
    }
}

impl SliceUse<'_> {
    /// What each is: its memory and threads, or its part of a card.
    pub(crate) fn each(&self) -> String {
        let bytes = self.bytes_each.map(|each| Amount::new(Bytes(each), Bytes(each), true).cell());
        let of = if self.profile.is_some() { "slice" } else { "card" };
        match (self.by, self.replicas, bytes) {
            (Some(Division::TimeSlices), Some(n), _) => format!("1/{n}{of}"),
            (_, _, Some(bytes)) => match self.threads_percent_each {
                Some(percent) => format!("{bytes},{percent}%"),
                None => bytes,
            },
            (_, _, None) => "-".to_owned(),
        }
    }

    /// The resource without its vendor.
    pub(crate) fn short(&self) -> &str {
        self.resource.strip_prefix("nvidia.com/").unwrap_or(&self.resource)
    }

    /// `20 of 32 time slices of 8 cards taken`.
    pub(crate) fn summary(&self) -> String {
        let n = |n: u32| thousands(n.into());
        let what = called(self.by, self.profile.as_deref(), self.total);
        let of = match self.cards {
            None => String::new(),
            Some(1) => " of 1 card".to_owned(),
            Some(cards) => format!(" of {cards} cards"),
        };
        format!("{} of {} {what}{of} taken", n(self.taken), n(self.total))
    }

    /// The bar, and what its letters stand for.
    pub(crate) fn drawn(
        &self,
        painter: Painter,
        names: Names,
        all: bool,
    ) -> (String, Vec<(String, Option<Tint>)>) {
        let number = |count: u64| count.to_string();
        let fill = BarFill {
            whole: self.total.max(self.taken).into(),
            held: self.pods.iter().map(|holder| (holder.pod, holder.count.into())).collect(),
            number: &number,
        };
        (letters(&fill, painter), fill.legend(names, all))
    }
}

/// `2 time slices, on two of 8 cards`: what a pod holds of slices, and where they are as far as
/// that is known.
pub(crate) fn held_in_words(scheduler: &Scheduler, holding: &Holding) -> Option<String> {
    let node = scheduler.ledger().node(holding.node)?;
    let each = held(holding).filter_map(|(device, n)| {
        let pool = node.capacity().gpus.pool(device)?;
        let profile = pool.profile.map(|profile| profile.to_string());
        let what = called(pool.by, profile.as_deref(), n);
        let limit = threads(pool).zip(pool.each).map_or_else(String::new, |(percent, each)| {
            format!(", at most {each} and {percent} % of the threads each")
        });
        let told = holding.on.iter().filter(|on| on.device == device);
        let cards: Vec<&str> = told.map(|on| &*on.uuid).collect();
        let place = match (&cards[..], pool.cards, n) {
            ([uuid], ..) => format!(" on {uuid}"),
            ([_, ..], ..) => format!(" on {}", cards.join(" and ")),
            ([], 0, _) => String::new(),
            ([], 1, _) => " of the only card".to_owned(),
            ([], all, 1) => format!(", on one of {all} cards"),
            ([], all, n) => format!(", on up to {} of {all} cards", all.min(n)),
        };
        Some(format!("{} {what}{place}{limit}", thousands(n.into())))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| each.join(" and "))
}

/// What somebody has to know who asks several time slices, where they would be, or are, handed out.
pub(crate) fn note(
    scheduler: &Scheduler,
    request: &Request,
    node: Option<NodeId>,
) -> Option<String> {
    let whole = Some((Device::Gpu, request.whole_cards()));
    let several = whole.into_iter().chain(request.devices()).filter(|(_, count)| *count > 1);
    let ledger = scheduler.ledger();
    let are_turns = |id: NodeId, device| {
        let pool = ledger.node(id).and_then(|node| node.capacity().gpus.pool(device));
        pool.is_some_and(|pool| pool.by == Some(Division::TimeSlices))
    };
    let mut sliced = several.filter(|(device, _)| match node {
        Some(node) => are_turns(node, *device),
        None => scheduler.nodes().any(|(_, id)| are_turns(id, *device)),
    });
    let (_, count) = sliced.next()?;
    Some(format!(
        "{count} time slices are {count} turns, on one card or on several: no more compute than one \
         slice on the same card, and no memory of their own"
    ))
}

#[cfg(test)]
mod tests;
