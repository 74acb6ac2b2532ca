//! Labels of pods and namespaces, and selectors over them.

use crate::rules::{Requirement, Test};

/// Labels, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// All of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut all: Vec<(Box<str>, Box<str>)> =
            pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        all.sort();
        all.dedup_by(|a, b| a.0 == b.0);
        Self(all.into())
    }
}

/// A label selector: all requirements must hold. An absent selector matches nothing, one
/// without requirements everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector(pub Option<Box<[Requirement]>>);

impl Selector {
    /// Matches nothing.
    pub const NOTHING: Self = Self(None);

    /// How many conditions it has.
    pub fn requirements(&self) -> usize {
        self.0.as_deref().map_or(0, <[_]>::len)
    }

    /// Whether all that it matches have a label with one of a few values.
    pub(crate) fn names_a_value(&self) -> bool {
        let is_equality = |requirement: &Requirement| matches!(requirement.test, Test::In(_));
        self.0.iter().flatten().any(is_equality)
    }

    /// All of these must hold.
    pub fn all(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        Self(Some(requirements.into_iter().collect()))
    }

    /// Whether it matches whatever there is.
    pub fn is_everything(&self) -> bool {
        self.0.as_ref().is_some_and(|all| all.is_empty())
    }

    /// Whether these labels match.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.holds(|key| labels.get(key))
    }

    /// Whether the labels that can be looked up match.
    pub(crate) fn holds<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let all = self.0.as_ref();
        all.is_some_and(|all| all.iter().all(|r| r.test.accepts(label(&r.key))))
    }
}
