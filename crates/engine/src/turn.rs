//! Whose turn it is: the one place that says in which order pods are tried.

use crate::record::ObjectKey;
use std::cmp::Reverse;

/// The turn of a pod: priority, then age, then name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    priority: Reverse<i32>,
    created: i64,
    key: ObjectKey,
}

impl Turn {
    pub(crate) const fn new(priority: i32, created: i64, key: ObjectKey) -> Self {
        Self { priority: Reverse(priority), created, key }
    }

    /// The namespace of the pod.
    pub(crate) fn namespace(&self) -> &str {
        self.key.namespace()
    }
}
