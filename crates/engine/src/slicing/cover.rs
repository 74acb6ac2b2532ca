//! Cards for slices that are needed somewhere: which cards, filled with what.

use super::{Column, Counts, Exact, MOST_EXACT, Problem};
use foldhash::HashSet;

/// Hosts that are alike for all columns, and their cards.
struct Group {
    hosts: Vec<usize>,
    /// The columns that may be on them, by profile and then by how few groups they have.
    columns: Vec<Vec<usize>>,
    /// Those that may be nowhere else.
    own: Vec<usize>,
    cards: u32,
}

/// What is still needed, and the cards that are left of each group.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    needs: Counts,
    left: Counts,
}

impl State {
    fn is_done(&self) -> bool {
        self.needs.iter().all(|need| *need == 0)
    }
}

/// A card: its group, and how many of each profile are used of it.
type Card = (usize, Counts);

pub(super) struct Cover<'p, 'a> {
    problem: &'p Problem<'a>,
    /// Those that may be in the fewest places first, and of these the largest.
    columns: Vec<Column>,
    groups: Vec<Group>,
}

impl<'p, 'a> Cover<'p, 'a> {
    pub(super) fn new(problem: &'p Problem<'a>, mut columns: Vec<Column>) -> Self {
        let size = |column: &Column| problem.profiles[column.profile];
        columns.sort_by_key(|column| (column.hosts.len(), std::cmp::Reverse(size(column))));
        let mut groups: Vec<(Vec<bool>, Group)> = Vec::new();
        for (host, this) in problem.hosts.iter().enumerate().filter(|(_, host)| host.cards > 0) {
            let member: Vec<bool> = columns.iter().map(|c| c.hosts.contains(&host)).collect();
            let is_like = |(other, group): &&mut (Vec<bool>, Group)| {
                *other == member && problem.hosts[group.hosts[0]].model == this.model
            };
            if let Some((_, group)) = groups.iter_mut().find(is_like) {
                group.hosts.push(host);
                group.cards = group.cards.saturating_add(this.cards);
            } else if member.contains(&true) {
                let of = |profile| {
                    let all = columns.iter().enumerate();
                    let here = all.filter(|(at, c)| member[*at] && c.profile == profile);
                    here.map(|(at, _)| at).collect()
                };
                let columns = (0..problem.profiles.len()).map(of).collect();
                let (hosts, own) = (vec![host], Vec::new());
                groups.push((member, Group { hosts, columns, own, cards: this.cards }));
            }
        }
        for column in 0..columns.len() {
            let mut with = groups.iter_mut().filter(|(member, _)| member[column]);
            if let (Some((_, group)), None) = (with.next(), with.next()) {
                group.own.push(column);
            }
        }
        let groups = groups.into_iter().map(|(_, group)| group).collect();
        Self { problem, columns, groups }
    }

    fn start(&self) -> State {
        State {
            needs: self.columns.iter().map(|column| column.need).collect(),
            left: self.groups.iter().map(|group| group.cards).collect(),
        }
    }

    /// Covers everything with at most so many cards, by trying every way.
    pub(super) fn exactly(&self, most: u32, budget: &mut u32) -> Exact {
        let mut cards = Vec::new();
        match self.search(&self.start(), most, &mut HashSet::default(), &mut cards, budget) {
            true => Exact::Found(self.on_hosts(cards)),
            false if *budget == 0 => Exact::GivenUp,
            false => Exact::Nothing,
        }
    }

    /// Fills the card that takes most, again and again, until few enough are left to try every way.
    pub(super) fn one_after_another(&self) -> Option<Vec<(usize, Counts)>> {
        let mut state = self.start();
        let mut cards = Vec::new();
        loop {
            if state.is_done() {
                return Some(self.on_hosts(cards));
            }
            let mut budget = super::BUDGET / 4;
            for most in self.fewest(&state)..=MOST_EXACT {
                if self.search(&state, most, &mut HashSet::default(), &mut cards, &mut budget) {
                    return Some(self.on_hosts(cards));
                }
            }
            let next = self.next(&state).into_iter().rev();
            let (group, used, rest) = next.max_by_key(|(_, used, _)| self.problem.size(used))?;
            cards.push((group, used));
            state = rest;
        }
    }

    fn fewest(&self, state: &State) -> u32 {
        self.fewest_for(0..self.columns.len(), state)
    }

    fn fewest_for(&self, columns: impl Iterator<Item = usize>, state: &State) -> u32 {
        let mut needs = vec![0; self.problem.profiles.len()];
        for column in columns {
            needs[self.columns[column].profile] += state.needs[column];
        }
        self.problem.bound.quickly(&needs)
    }

    /// Whether a group has too few cards left for those that may be nowhere else.
    fn is_hopeless(&self, state: &State) -> bool {
        let lacks = |(group, left): (&Group, &u32)| {
            self.fewest_for(group.own.iter().copied(), state) > *left
        };
        self.groups.iter().zip(&state.left).any(lacks)
    }

    fn search(
        &self,
        state: &State,
        most: u32,
        failed: &mut HashSet<(State, u32)>,
        cards: &mut Vec<Card>,
        budget: &mut u32,
    ) -> bool {
        if state.is_done() {
            return true;
        }
        if self.fewest(state) > most {
            return false;
        }
        let known = (state.clone(), most);
        if *budget == 0 || failed.contains(&known) {
            return false;
        }
        *budget -= 1;
        for (group, used, rest) in self.next(state) {
            cards.push((group, used));
            if self.search(&rest, most - 1, failed, cards, budget) {
                return true;
            }
            cards.pop();
        }
        failed.insert(known);
        false
    }

    /// The cards that may come next: some card has to hold the first that is needed.
    fn next(&self, state: &State) -> Vec<(usize, Counts, State)> {
        let Some(first) = state.needs.iter().position(|need| *need > 0) else { return Vec::new() };
        let profile = self.columns[first].profile;
        let mut next: Vec<(usize, Counts, State)> = Vec::new();
        for (at, group) in self.groups.iter().enumerate() {
            if state.left[at] == 0 || !group.columns[profile].contains(&first) {
                continue;
            }
            let fillings = self.problem.fillings(group.hosts[0]).iter();
            let mut cards: Vec<(Counts, Counts)> = fillings
                .filter(|filling| filling[profile] > 0)
                .map(|filling| fill(group, filling, &state.needs))
                .collect();
            // A card with less than another is no better.
            cards.sort_by_key(|(used, _)| std::cmp::Reverse(self.problem.size(used)));
            let within = |a: &[u32], b: &[u32]| a.iter().zip(b).all(|(a, b)| a <= b);
            let begin = next.len();
            for (used, needs) in cards {
                if next[begin..].iter().any(|(_, other, _)| within(&used, other)) {
                    continue;
                }
                let mut left = state.left.clone();
                left[at] -= 1;
                next.push((at, used, State { needs, left }));
            }
        }
        next.retain(|(_, _, rest)| !self.is_hopeless(rest));
        // Groups that have a card already first, so that few nodes are divided; then the fullest.
        next.sort_by_key(|(at, used, _)| {
            let is_fresh = state.left[*at] == self.groups[*at].cards;
            (is_fresh, std::cmp::Reverse(self.problem.size(used)))
        });
        next
    }

    /// The cards on their hosts: one host after another is filled up.
    fn on_hosts(&self, cards: Vec<Card>) -> Vec<(usize, Counts)> {
        let mut free: Vec<u32> = self.problem.hosts.iter().map(|host| host.cards).collect();
        let mut placed = Vec::with_capacity(cards.len());
        for (group, used) in cards {
            let mut hosts = self.groups[group].hosts.iter().copied();
            if let Some(host) = hosts.find(|host| free[*host] > 0) {
                free[host] -= 1;
                placed.push((host, used));
            }
        }
        placed
    }
}

/// What is used of a card with this filling, and what is needed after it. Whoever may be in fewer
/// places is served first.
fn fill(group: &Group, filling: &[u32], needs: &[u32]) -> (Counts, Counts) {
    let mut needs = needs.to_vec();
    let mut used = vec![0; filling.len()];
    for (profile, slices) in filling.iter().enumerate() {
        let mut left = *slices;
        for column in &group.columns[profile] {
            let taken = left.min(needs[*column]);
            needs[*column] -= taken;
            left -= taken;
        }
        used[profile] = slices - left;
    }
    (used, needs)
}
