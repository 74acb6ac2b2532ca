//! Which queues have series of their own. Whoever makes or labels pods names queues, and Prometheus
//! keeps each series that it has ever seen: so only queues that hold GPUs have one, and each of so many
//! places changes its name now and then only.

use divvy_views::QueueUse;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Queues that have series of their own.
pub(super) const MOST: usize = 64;
/// A name keeps its place for so long, whatever others hold meanwhile.
pub(super) const KEPT: Duration = Duration::from_secs(3600);

/// The names that have places, and since when.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<String, Instant>);

impl Places {
    /// Parts the queues that hold GPUs into those with a series of their own, and the others. Pods
    /// that name no queue have theirs always.
    pub(super) fn part<'a>(
        &mut self,
        queues: &'a [QueueUse<'a>],
        now: Instant,
    ) -> (Vec<&'a QueueUse<'a>>, Vec<&'a QueueUse<'a>>) {
        let holding = queues.iter().filter(|queue| queue.pods > 0);
        self.give(holding.clone().filter_map(|one| Some((one.queue?, one.gpus))).collect(), now);
        holding.partition(|queue| queue.queue.is_none_or(|name| self.0.contains_key(name)))
    }

    /// Gives places to those that hold most, as far as there are some.
    fn give<T: Copy + Default + Ord>(&mut self, mut held: Vec<(&str, T)>, now: Instant) {
        held.sort_by_key(|(name, gpus)| (Reverse(*gpus), *name));
        let by_name: HashMap<&str, T> = held.iter().copied().collect();
        for (name, gpus) in held {
            if self.0.contains_key(name) {
                continue;
            }
            if self.0.len() >= MOST {
                let old = self.0.iter().filter(|(_, since)| now.duration_since(**since) >= KEPT);
                let of = |name: &str| by_name.get(name).copied().unwrap_or_default();
                let least = old.map(|(name, _)| (of(name), name)).min();
                // Whoever comes next holds no more than this one.
                let Some((_, name)) = least.filter(|(least, _)| *least < gpus) else { return };
                let name = name.clone();
                self.0.remove(&name);
            }
            self.0.insert(name.to_owned(), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_holds_more_has_the_place_of_one_that_holds_less_after_an_hour() {
        let (mut places, begin) = (Places::default(), Instant::now());
        let names: Vec<String> = (0..MOST).map(|nth| format!("small-{nth:02}")).collect();
        let small = names.iter().map(|name| (&**name, 2));
        places.give(small.clone().collect(), begin);
        let all = || small.clone().chain([("large", 8), ("tiny", 1)]).collect();
        places.give(all(), begin + KEPT / 2);
        assert!(!places.0.contains_key("large"));
        places.give(all(), begin + KEPT);
        assert!(places.0.contains_key("large") && !places.0.contains_key("tiny"));
        assert!(places.0.len() == MOST && !places.0.contains_key("small-00"));
        // Of those that hold nothing any more some give way as well.
        places.give(vec![("tiny", 1)], begin + KEPT * 2);
        assert!(places.0.contains_key("tiny") && places.0.len() == MOST);
    }
}
