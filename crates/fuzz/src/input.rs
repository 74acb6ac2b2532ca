//! Bytes as a row of choices. A fuzzer changes bytes; with this a changed byte is another choice,
//! and never the end of what makes sense.

/// What is left of an input. Where nothing is, every choice is the first one: that is to be the
/// plainest.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of an input.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether there is nothing left.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that is left, as it is.
    pub const fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// The next byte.
    pub const fn byte(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((first, rest)) => {
                self.rest = rest;
                *first
            }
            None => 0,
        }
    }

    /// A number from 0 up to but not including `end`, of at most 256.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }

    /// Whether a rare thing happens: once in so many times, and not at the end.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// The next bytes, up to `most`, as many as the first of them says.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let count = self.below(most + 1).min(self.rest.len());
        let (now, later) = self.rest.split_at(count);
        self.rest = later;
        now
    }

    /// A text of up to `most` bytes.
    pub fn text(&mut self, most: usize) -> String {
        String::from_utf8_lossy(self.bytes(most)).into_owned()
    }

    /// A number, more often one at which something changes.
    pub fn number(&mut self) -> i64 {
        const EDGES: [i64; 12] =
            [0, 1, 2, -1, 8, 100, 1000, 1 << 20, 1 << 53, i32::MAX as i64, i64::MAX, i64::MIN];
        match self.below(4) {
            0 | 1 => self.pick(&EDGES),
            2 => i64::from(self.byte()),
            _ => (0..8).fold(0, |number, _| number << 8 | i64::from(self.byte())),
        }
    }
}
