//! How Koordinator's pods ask for GPUs: by resources of their containers, which no node has to
//! offer. The kubelet lets resources pass that its node does not know.
//!
//! Koordinator's webhook completes each container, and its scheduler looks at the sum of the pod:
//! on how many cards, and how much of all of them together.

use crate::kai::works_in;
use crate::keys;
use crate::manifest::{Container, Metadata, PodManifest, PodStatus};
use crate::problem::short;
use crate::quantity::Quantity;
use crate::request::{MAX_CARDS, containers};
use crate::resources::{Quantities, of_containers};
use divvy_ledger::{Bytes, Fraction, Part, Percent, Portion, Request};

/// Whether this pod is Koordinator's own scheduler and has not ended: two schedulers for the same pods
/// do harm.
pub fn is_koordinator_scheduler(metadata: &Metadata, status: &PodStatus) -> bool {
    let is_it = metadata.labels.get("koord-app") == Some(keys::KOORDINATOR_SCHEDULER);
    is_it && works_in("koordinator-system", metadata, status)
}

/// Whether a container asks for GPUs in this way.
pub(crate) fn asks(container: &Container) -> bool {
    let all = container.resources.limits.iter().chain(container.resources.requests.iter());
    let mut asked = all.filter(|(_, amount)| !amount.as_ref().is_ok_and(|q| *q == Quantity::ZERO));
    asked.any(|(name, _)| keys::KOORDINATOR.contains(&name))
}

/// Whether a pod asks for GPUs in this way.
pub fn asks_as_koordinators(spec: &PodManifest) -> bool {
    containers(spec).any(asks)
}

/// Whether the pod asks for shares in this way, and not for whole cards.
pub(crate) fn is_share(spec: &PodManifest) -> bool {
    asked(spec).is_ok_and(|asked| asked.is_some_and(|asked| asked.is_share()))
}

/// What the pod asks in this way, or what is wrong with it.
pub(crate) fn asked(spec: &PodManifest) -> Result<Option<Request>, String> {
    if !asks_as_koordinators(spec) {
        return Ok(None);
    }
    for (at, container) in containers(spec).enumerate().filter(|(_, c)| asks(c)) {
        let path = match at.checked_sub(spec.init_containers.len()) {
            Some(at) => format!("spec.containers[{at}].resources"),
            None => format!("spec.initContainers[{at}].resources"),
        };
        complete(container).map_err(|why| format!("{path}: {why}"))?;
    }
    let sum = of_containers(spec, |c| complete(c).unwrap_or_default().into_quantities());
    let sum = Amounts::of_pod(&sum);
    sum.check().map_err(|why| format!("spec.containers[*].resources, in sum: {why}"))?;
    Ok(sum.request())
}

/// How many cards a container of a pod with whole cards gets.
pub(crate) fn cards_of(container: &Container) -> Option<u64> {
    asks(container).then(|| complete(container).map_or(0, |amounts| amounts.cards))
}

/// Whether a pod may be bound that asks for whole cards in this way: the device plugin gives them to
/// containers that ask by its own name, and admission writes that instead.
pub(crate) fn whole_cards_ready(spec: &PodManifest) -> Result<(), String> {
    match containers(spec).find(|container| asks(container)) {
        Some(container) => Err(format!(
            "container {} asks for whole cards by Koordinator's names, and would get none; divvy's admission \
             writes {} instead: create the pod anew while the admission runs",
            short(&container.name),
            keys::GPU
        )),
        None => Ok(()),
    }
}

/// What is asked of all cards together.
#[derive(Clone, Copy, Debug, Default)]
struct Amounts {
    cards: u64,
    core: u64,
    memory: u64,
    ratio: u64,
}

/// What a container asks, completed as Koordinator's webhook does.
fn complete(container: &Container) -> Result<Amounts, String> {
    let amount = |name: &str| amount(container, name);
    let (both, given) = (amount(keys::KOORDINATOR_GPU)?, amount(keys::KOORDINATOR_SHARED)?);
    let (mut core, memory) = (amount(keys::KOORDINATOR_CORE)?, amount(keys::KOORDINATOR_MEMORY)?);
    let mut ratio = amount(keys::KOORDINATOR_RATIO)?;
    if both > 0 {
        if given + core + memory + ratio > 0 {
            return Err(format!(
                "{} stands for {} and {}; allowed is that alone, or the others without it",
                keys::KOORDINATOR_GPU,
                keys::KOORDINATOR_CORE,
                keys::KOORDINATOR_RATIO
            ));
        }
        percent(keys::KOORDINATOR_GPU, both)?;
        (core, ratio) = (both, both);
    }
    if given == 0 {
        percent(keys::KOORDINATOR_CORE, core)?;
        percent(keys::KOORDINATOR_RATIO, ratio)?;
    }
    let cards = match (given, ratio, core) {
        (0, 0, core) => (core / 100).max(1),
        (0, ratio, _) => (ratio / 100).max(1),
        (given, ..) => given,
    };
    let amounts = Amounts { cards, core, memory, ratio };
    amounts.check()?;
    Ok(amounts)
}

/// A container's amount of a resource: a request defaults to its limit.
fn amount(container: &Container, name: &str) -> Result<u64, String> {
    let resources = &container.resources;
    match resources.requests.amount(name).or_else(|| resources.limits.amount(name)) {
        None => Ok(0),
        Some(Ok(quantity)) if quantity.is_integer() && !quantity.is_negative() => {
            // Four of these can be added up; no card has a part of it.
            Ok(quantity.value_ceil().min(u64::MAX >> 4))
        }
        Some(Ok(quantity)) => Err(format!("{name}: {quantity}; allowed are whole numbers from 0")),
        Some(Err(why)) => Err(format!("{name}: {why}")),
    }
}

/// Hundredths of one card, or whole cards.
fn percent(name: &str, value: u64) -> Result<(), String> {
    match value <= 100 || value.is_multiple_of(100) {
        true => Ok(()),
        false => Err(format!("{name}: {value}; allowed are 1 to 100, and multiples of 100")),
    }
}

impl Amounts {
    fn of_pod(sum: &Quantities<'_>) -> Self {
        let of = |name| sum.get(name).unwrap_or_default().value_ceil();
        Self {
            cards: of(keys::KOORDINATOR_SHARED),
            core: of(keys::KOORDINATOR_CORE),
            memory: of(keys::KOORDINATOR_MEMORY),
            ratio: of(keys::KOORDINATOR_RATIO),
        }
    }

    fn into_quantities<'a>(self) -> impl Iterator<Item = (&'a str, Quantity)> {
        let all = [
            (keys::KOORDINATOR_SHARED, self.cards),
            (keys::KOORDINATOR_CORE, self.core),
            (keys::KOORDINATOR_MEMORY, self.memory),
            (keys::KOORDINATOR_RATIO, self.ratio),
        ];
        all.into_iter().map(|(name, value)| (name, Quantity::from_units(value.into())))
    }

    /// What holds for a container, and for the pod.
    fn check(self) -> Result<(), String> {
        let (memory, ratio) = (keys::KOORDINATOR_MEMORY, keys::KOORDINATOR_RATIO);
        if self.memory > 0 && self.ratio > 0 {
            return Err(format!("{memory} and {ratio} both say how much memory; allowed is one"));
        }
        if self.memory == 0 && self.ratio == 0 {
            return Err(format!("no memory is asked for; set {memory} or {ratio}"));
        }
        let shared = keys::KOORDINATOR_SHARED;
        if self.cards > MAX_CARDS {
            let cards = self.cards;
            return Err(format!(
                "{shared}: {cards} is too many cards for one node; allowed are 1 to {MAX_CARDS}"
            ));
        }
        for (name, value) in [(keys::KOORDINATOR_CORE, self.core), (ratio, self.ratio)] {
            let most = self.cards * 100;
            if !value.is_multiple_of(self.cards.max(1)) || value > most {
                return Err(match self.cards {
                    1 => format!("{name}: {value}; allowed are 1 to 100 for one card"),
                    cards => format!(
                        "{name}: {value}; allowed are multiples of {cards} up to {most} for {cards} cards \
                         ({shared}), which get the same part each"
                    ),
                });
            }
        }
        if self.memory > 0 && self.memory < self.cards {
            let (value, cards) = (self.memory, self.cards);
            return Err(format!("{memory}: {value} bytes on {cards} cards leave nothing for each"));
        }
        Ok(())
    }

    /// What is asked of each card.
    fn request(self) -> Option<Request> {
        let cards = u32::try_from(self.cards).ok()?;
        let each = |sum: u64| sum / self.cards.max(1);
        let portion = match each(self.ratio) {
            0 => Portion::Memory(Bytes(each(self.memory))),
            ratio @ 1..100 => Portion::Fraction(Fraction::parse(&format!("0.{ratio:02}")).ok()?),
            _ => return Some(Request::whole(cards)),
        };
        let compute = Percent(u8::try_from(each(self.core)).ok()?);
        Some(Request::share(cards, Part { compute, ..Part::of(portion) }))
    }
}

#[cfg(test)]
mod tests;
