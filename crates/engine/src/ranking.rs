//! The best node of one shape, kept up to date one node at a time.

/// Keys of all nodes and the largest of each group of sixteen, level by level. Setting one key
/// costs a few comparisons; the best is found without looking at the others.
#[derive(Clone, Debug)]
pub(crate) struct Ranking {
    /// `levels[0]` has a key per node, 0 where the pod does not fit; the last has one key.
    levels: Vec<Vec<u64>>,
}

const FAN: usize = 16;

impl Ranking {
    pub(crate) fn new(keys: Vec<u64>) -> Self {
        let mut levels = vec![keys];
        while let Some(below) = levels.last().filter(|l| l.len() > 1) {
            levels.push(below.chunks(FAN).map(largest).collect());
        }
        Self { levels }
    }

    /// The key of each node.
    pub(crate) fn keys(&self) -> &[u64] {
        &self.levels[0]
    }

    pub(crate) fn len(&self) -> usize {
        self.levels[0].len()
    }

    /// Changes one key. An index beyond the end is ignored: the caller rebuilds when nodes come.
    pub(crate) fn set(&mut self, index: usize, key: u64) {
        let (mut index, mut key) = (index, key);
        for level in 0..self.levels.len() {
            let Some(slot) = self.levels[level].get_mut(index) else { return };
            let old = std::mem::replace(slot, key);
            if old == key {
                return;
            }
            let Some(above) = self.levels.get(level + 1) else { return };
            let group = index / FAN;
            let top = above[group];
            if key < top {
                if old < top {
                    return;
                }
                // The best of the group went down: look for the next.
                let start = group * FAN;
                let end = (start + FAN).min(self.levels[level].len());
                key = largest(&self.levels[level][start..end]);
            }
            index = group;
        }
    }

    /// The node with the largest key, and the key.
    pub(crate) fn best(&self) -> Option<(usize, u64)> {
        let top = *self.levels.last()?.first()?;
        if top == 0 {
            return None;
        }
        let mut index = 0;
        for level in self.levels.iter().rev().skip(1) {
            let start = index * FAN;
            let group = &level[start..(start + FAN).min(level.len())];
            index = start + group.iter().position(|k| *k == top)?;
        }
        Some((index, top))
    }
}

/// In four runs side by side, which do not wait for each other.
fn largest(keys: &[u64]) -> u64 {
    let (fours, rest) = keys.as_chunks::<4>();
    let mut most = [0; 4];
    for four in fours {
        for (most, key) in most.iter_mut().zip(four) {
            *most = (*most).max(*key);
        }
    }
    most.into_iter().chain(rest.iter().copied()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_best_is_the_largest_after_any_changes(
            keys in proptest::collection::vec(0u64..50, 0..700),
            changes in proptest::collection::vec((0usize..700, 0u64..60), 0..400),
        ) {
            let mut plain = keys.clone();
            let mut ranking = Ranking::new(keys);
            for (index, key) in changes {
                ranking.set(index, key);
                if let Some(slot) = plain.get_mut(index) {
                    *slot = key;
                }
                let top = plain.iter().copied().max().unwrap_or(0);
                let first = plain.iter().position(|k| *k == top).filter(|_| top > 0);
                prop_assert_eq!(ranking.best(), first.map(|i| (i, top)));
            }
        }
    }
}
