//! What was looked at, and what could not be.

/// The objects of a kind, or why they could not be looked at.
#[derive(Clone, Debug)]
pub struct Looked<T> {
    /// Those that matter.
    all: Vec<T>,
    /// How many there were.
    count: usize,
    hidden: Option<String>,
}

impl<T> Default for Looked<T> {
    fn default() -> Self {
        Self { all: Vec::new(), count: 0, hidden: None }
    }
}

impl<T> Looked<T> {
    /// All of them were seen, and these matter.
    pub fn seen(all: Vec<T>, count: usize) -> Self {
        Self { all, count, hidden: None }
    }

    /// They could not be looked at.
    pub fn hidden(why: String) -> Self {
        Self { hidden: Some(why), ..Self::default() }
    }

    /// The same with something more.
    pub fn map(self, change: impl Fn(T) -> T) -> Self {
        Self { all: self.all.into_iter().map(change).collect(), ..self }
    }

    /// Why they could not be looked at.
    pub fn why_hidden(&self) -> Option<&str> {
        self.hidden.as_deref()
    }

    /// How many there were.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Those that matter; none if nobody could look.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.all.iter()
    }

    /// Whether there is none such, as far as it was possible to look at all.
    pub fn lacks(&self, is: impl Fn(&T) -> bool) -> bool {
        self.hidden.is_none() && !self.all.iter().any(is)
    }
}

impl<'a, T> IntoIterator for &'a Looked<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
