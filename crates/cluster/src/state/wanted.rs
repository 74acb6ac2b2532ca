//! Something that is to stand on an object of the API: it is written until it does.

/// What is wanted, what is there as far as we heard, and whether a write is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted<T> {
    wanted: T,
    there: T,
    /// Or waits to be made again.
    writing: bool,
}

impl<T: Clone + Default + PartialEq> Wanted<T> {
    pub(super) fn want(&mut self, wanted: T) {
        self.wanted = wanted;
    }

    /// What is there, as the object says itself.
    pub(super) fn seen(&mut self, there: T) {
        self.there = there;
    }

    pub(super) const fn there(&self) -> &T {
        &self.there
    }

    pub(super) const fn is_writing(&self) -> bool {
        self.writing
    }

    /// What to write now, if it is not there and nobody writes it.
    pub(super) fn take_due(&mut self) -> Option<T> {
        if self.writing || self.wanted == self.there {
            return None;
        }
        self.writing = true;
        Some(self.wanted.clone())
    }

    /// It has been written.
    pub(super) fn written(&mut self, there: T) {
        (self.there, self.writing) = (there, false);
    }

    /// It could not be written, and some time has passed.
    pub(super) const fn try_again(&mut self) {
        self.writing = false;
    }

    /// Whether nothing is wanted, there or being written.
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
