//! Random numbers that are the same for the same seed, in every run and on every machine:
//! splitmix64.

/// Throws what follows from its seed.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }

    /// A place in a list of this length.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.index(values.len())]
    }

    /// A number of this range, both ends included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.index(high - low + 1)
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.index(times) == 0
    }

    /// Puts them in another order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for end in (1..all.len()).rev() {
            all.swap(end, self.index(end + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn the_same_seed_throws_the_same() {
        let throw = |seed| {
            let mut dice = Dice(seed);
            (dice.below(1000), dice.of(&["a", "b"]), dice.between(3, 5))
        };
        assert_eq!(throw(7), throw(7));
        assert_ne!(throw(7), throw(8));
        assert!((0..100).all(|seed| (3..=5).contains(&Dice(seed).between(3, 5))));
    }
}
