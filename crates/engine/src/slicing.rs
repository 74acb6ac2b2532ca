//! The division: what MIG divides which cards into, so that as few as can be hold what is asked.
//!
//! ```text
//!   Scheduler, pods that wait ─► cluster: hosts, asks ─► divide ─┬─► tied asks on hosts
//!                                                               ├─► cover: fillings of cards
//!                                                               └─► bound: how few can do at all
//! ```
//!
//! Up to [`MOST_EXACT`] cards every way is tried, as long as that is not too many; beyond that cards
//! are filled one after another, and [`Slicing::at_least`] says how far from the fewest that can be.

mod bound;
mod cluster;
mod cover;

pub use cluster::{CardsInUse, DividedNode, SlicePlan, plan_slices};

use bound::{Fillings, LeastCards};
use cover::Cover;
use divvy_ledger::Profile;
use divvy_ledger::mig::Model;

/// Up to so many cards the fewest are found by trying every way.
pub const MOST_EXACT: u32 = 8;

/// How much is tried before that is given up, in cards looked at.
const BUDGET: u32 = 60_000;

/// A node with cards that are free to be divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardHost {
    /// What its cards are.
    pub model: &'static Model,
    /// How many are free.
    pub cards: u32,
}

/// Pods that ask the same slices in the same places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What each asks of one host, each profile once.
    pub slices: Vec<(Profile, u32)>,
    /// Where it may be, in order.
    pub hosts: Vec<usize>,
    /// How many pods.
    pub count: u32,
}

/// A card that is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicedCard {
    /// On which host.
    pub host: usize,
    /// Into what.
    pub slices: Vec<(Profile, u32)>,
}

/// What is divided, for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slicing {
    /// The cards, by host.
    pub cards: Vec<SlicedCard>,
    /// How many pods of each ask have their slices.
    pub held: Vec<u32>,
    /// Whether no more of each can have theirs beside those before them; else no more were found.
    pub is_most: Vec<bool>,
    /// No fewer cards hold as much.
    pub at_least: u32,
}

/// Divides cards for pods in the order of `asks`: one that has no room lets those behind it go on.
pub fn divide(hosts: &[CardHost], asks: &[Ask]) -> Slicing {
    let problem = Problem::new(hosts, asks);
    let mut held: Vec<u32> = asks.iter().map(|ask| ask.count).collect();
    let mut is_most = vec![true; asks.len()];
    if let Solved::Found(slicing) = problem.solve(&held) {
        return Slicing { is_most, ..slicing };
    }
    let mut best = Slicing { held: vec![0; asks.len()], ..Slicing::default() };
    held.fill(0);
    for (at, ask) in asks.iter().enumerate() {
        // The most of them that have room.
        let (mut fit, mut least_not) = (0, ask.count + 1);
        while fit + 1 < least_not {
            held[at] = fit + (least_not - fit) / 2;
            match problem.solve(&held) {
                Solved::Found(slicing) => (fit, best) = (held[at], slicing),
                Solved::NoRoom => (least_not, is_most[at]) = (held[at], true),
                Solved::NotFound => (least_not, is_most[at]) = (held[at], false),
            }
        }
        held[at] = fit;
    }
    Slicing { is_most, ..best }
}

/// How many of each profile, in the order of [`Problem::profiles`].
type Counts = Vec<u32>;

/// What is asked, with profiles as indexes.
struct Problem<'a> {
    hosts: &'a [CardHost],
    asks: &'a [Ask],
    profiles: Vec<Profile>,
    /// Memory slices of each.
    sizes: Vec<u32>,
    /// What cards of each model can hold, the largest only.
    fillings: Fillings,
    bound: LeastCards,
}

/// Slices of one profile for pods that may be on the same hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    profile: usize,
    hosts: Vec<usize>,
    need: u32,
}

/// A pod that needs several slices of one host.
struct Tied<'a> {
    slices: Counts,
    hosts: &'a [usize],
}

/// What was found by trying every way.
enum Exact {
    Found(Vec<(usize, Counts)>),
    Nothing,
    /// Too much to try.
    GivenUp,
}

/// What came of looking for cards.
enum Solved {
    Found(Slicing),
    /// There is no way.
    NoRoom,
    /// There may be one.
    NotFound,
}

impl<'a> Problem<'a> {
    fn new(hosts: &'a [CardHost], asks: &'a [Ask]) -> Self {
        let mut profiles: Vec<Profile> =
            asks.iter().flat_map(|ask| ask.slices.iter().map(|(profile, _)| *profile)).collect();
        profiles.sort_unstable();
        profiles.dedup();
        let (fillings, sizes, bound) = bound::of_models(hosts, &profiles);
        Self { hosts, asks, profiles, sizes, fillings, bound }
    }

    fn fillings(&self, host: usize) -> &[Counts] {
        let model = self.hosts[host].model;
        let of_model = self.fillings.iter().find(|(other, _)| *other == model);
        of_model.map_or(&[], |(_, fillings)| fillings)
    }

    fn counts(&self, slices: &[(Profile, u32)]) -> Counts {
        let mut counts = vec![0; self.profiles.len()];
        for (profile, count) in slices {
            if let Ok(at) = self.profiles.binary_search(profile) {
                counts[at] += count;
            }
        }
        counts
    }

    /// Cards for so many pods of each ask.
    fn solve(&self, held: &[u32]) -> Solved {
        let (mut columns, mut tied) = (Vec::new(), Vec::new());
        let mut all = vec![0; self.profiles.len()];
        for (ask, held) in self.asks.iter().zip(held).filter(|(_, held)| **held > 0) {
            let slices = self.counts(&ask.slices);
            all.iter_mut().zip(&slices).for_each(|(sum, n)| *sum += n * held);
            match *ask.slices.as_slice() {
                [(profile, 1)] => {
                    if let Ok(profile) = self.profiles.binary_search(&profile) {
                        add(&mut columns, profile, &ask.hosts, *held);
                    }
                }
                _ => tied
                    .extend((0..*held).map(|_| Tied { slices: slices.clone(), hosts: &ask.hosts })),
            }
        }
        let free = self.hosts.iter().fold(0u32, |sum, host| sum.saturating_add(host.cards));
        let mut at_least = self.bound.exactly(&all);
        let mut budget = BUDGET;
        for most in at_least..=MOST_EXACT.min(free) {
            let mut demands = vec![vec![0; self.profiles.len()]; self.hosts.len()];
            match self.try_all(&columns, &tied, &mut demands, (0, 0), most, &mut budget) {
                Exact::Found(cards) => return Solved::Found(self.slicing(cards, held, at_least)),
                Exact::Nothing => at_least = most + 1,
                Exact::GivenUp => break,
            }
        }
        if at_least > free {
            return Solved::NoRoom;
        }
        match self.fill_one_after_another(columns, &tied) {
            Some(cards) => Solved::Found(self.slicing(cards, held, at_least)),
            None if self.is_too_much(held) => Solved::NoRoom,
            None => Solved::NotFound,
        }
    }

    /// Whether the cards of some hosts are too few for the pods that may be nowhere else.
    fn is_too_much(&self, held: &[u32]) -> bool {
        let asked = || self.asks.iter().zip(held).filter(|(_, held)| **held > 0);
        asked().any(|(at, _)| {
            let mut needs = vec![0; self.profiles.len()];
            let is_within = |ask: &Ask| ask.hosts.iter().all(|host| at.hosts.contains(host));
            for (ask, held) in asked().filter(|(ask, _)| is_within(ask)) {
                let slices = self.counts(&ask.slices);
                needs.iter_mut().zip(slices).for_each(|(sum, n)| *sum += n * held);
            }
            let cards = at.hosts.iter().map(|host| self.hosts[*host].cards);
            self.bound.exactly(&needs) > cards.fold(0, u32::saturating_add)
        })
    }

    /// Tries each host for each tied pod from `at` on, and then to cover everything with `most` cards.
    fn try_all(
        &self,
        columns: &[Column],
        tied: &[Tied<'_>],
        demands: &mut [Counts],
        (at, from): (usize, usize),
        most: u32,
        budget: &mut u32,
    ) -> Exact {
        let fewest: u32 = demands.iter().map(|demand| self.bound.quickly(demand)).sum();
        if fewest > most {
            return Exact::Nothing;
        }
        let Some(pod) = tied.get(at) else {
            let mut columns = columns.to_vec();
            enter(&mut columns, demands);
            return Cover::new(self, columns).exactly(most, budget);
        };
        if *budget == 0 {
            return Exact::GivenUp;
        }
        *budget -= 1;
        // Pods that ask the same are interchangeable: they take hosts in one order only.
        let is_next = |next: &Tied<'_>| next.slices == pod.slices && next.hosts == pod.hosts;
        let same_next = tied.get(at + 1).is_some_and(is_next);
        for (order, host) in pod.hosts.iter().enumerate().skip(from) {
            if self.is_like_an_earlier(pod.hosts, order, demands, columns, tied) {
                continue;
            }
            add_all(&mut demands[*host], &pod.slices);
            let next = (at + 1, if same_next { order } else { 0 });
            let found = match self.bound.quickly(&demands[*host]) <= self.hosts[*host].cards {
                true => self.try_all(columns, tied, demands, next, most, budget),
                false => Exact::Nothing,
            };
            demands[*host].iter_mut().zip(&pod.slices).for_each(|(sum, n)| *sum -= n);
            if !matches!(found, Exact::Nothing) {
                return found;
            }
        }
        Exact::Nothing
    }

    /// Whether an earlier host of the list is as good: the same cards, nobody on either yet, and
    /// whoever may be on one may be on the other.
    fn is_like_an_earlier(
        &self,
        hosts: &[usize],
        order: usize,
        demands: &[Counts],
        columns: &[Column],
        tied: &[Tied<'_>],
    ) -> bool {
        let host = hosts[order];
        let is_empty = |host: usize| demands[host].iter().all(|n| *n == 0);
        let sets = || columns.iter().map(|c| &*c.hosts).chain(tied.iter().map(|t| t.hosts));
        let is_like = |other: usize| {
            self.hosts[other] == self.hosts[host]
                && is_empty(other)
                && sets().all(|set| set.contains(&other) == set.contains(&host))
        };
        is_empty(host) && hosts[..order].iter().any(|other| is_like(*other))
    }

    /// Each tied pod goes where it needs fewest cards more, and cards are filled as much as can be.
    fn fill_one_after_another(
        &self,
        mut columns: Vec<Column>,
        tied: &[Tied<'_>],
    ) -> Option<Vec<(usize, Counts)>> {
        let mut demands = vec![vec![0; self.profiles.len()]; self.hosts.len()];
        for pod in tied {
            let costs = |host: &&usize| {
                let mut more = demands[**host].clone();
                let before = self.bound.quickly(&more);
                add_all(&mut more, &pod.slices);
                let after = self.bound.quickly(&more);
                (after <= self.hosts[**host].cards).then_some(after - before)
            };
            let possible = pod.hosts.iter().filter_map(|host| Some((costs(&host)?, *host)));
            let (_, host) = possible.min()?;
            add_all(&mut demands[host], &pod.slices);
        }
        enter(&mut columns, &demands);
        Cover::new(self, columns).one_after_another()
    }

    /// The memory slices of a card that so many slices take.
    fn size(&self, used: &[u32]) -> u32 {
        used.iter().zip(&self.sizes).map(|(n, size)| n * size).sum()
    }

    fn slicing(&self, cards: Vec<(usize, Counts)>, held: &[u32], at_least: u32) -> Slicing {
        let card = |(host, counts): (usize, Counts)| {
            let slices = self.profiles.iter().copied().zip(counts);
            SlicedCard { host, slices: slices.filter(|(_, n)| *n > 0).collect() }
        };
        let mut cards: Vec<SlicedCard> = cards.into_iter().map(card).collect();
        cards.sort_by_key(|card| card.host);
        Slicing { cards, held: held.to_vec(), is_most: Vec::new(), at_least }
    }
}

fn add_all(sum: &mut Counts, more: &[u32]) {
    sum.iter_mut().zip(more).for_each(|(sum, n)| *sum += n);
}

fn add(columns: &mut Vec<Column>, profile: usize, hosts: &[usize], need: u32) {
    match columns.iter_mut().find(|c| c.profile == profile && c.hosts == hosts) {
        Some(same) => same.need += need,
        None => columns.push(Column { profile, hosts: hosts.to_vec(), need }),
    }
}

/// What tied pods need of their hosts.
fn enter(columns: &mut Vec<Column>, demands: &[Counts]) {
    for (host, demand) in demands.iter().enumerate() {
        for (profile, need) in demand.iter().enumerate().filter(|(_, need)| **need > 0) {
            add(columns, profile, &[host], *need);
        }
    }
}

#[cfg(test)]
mod tests;
