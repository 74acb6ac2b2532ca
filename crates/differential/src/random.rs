//! Random choices that are the same for the same seed on every machine.

use divvy_testbed::dice::Dice;

/// What a generator of cases asks of the dice.
#[derive(Debug)]
pub struct Random(Dice);

impl Random {
    /// The generator of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(Dice(seed))
    }

    /// A number from 0 up to but not including `end`; 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.below(end as u64) as usize
    }

    /// A number of this range, both ends included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Puts them in another order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for end in (1..all.len()).rev() {
            all.swap(end, self.below(end + 1));
        }
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        self.0.of(all)
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_same_seed_chooses_the_same() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (random.below(1000), random.pick(&["a", "b"]), random.between(3, 5))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!((0..100).all(|seed| (3..=5).contains(&Random::new(seed).between(3, 5))));
    }
}
