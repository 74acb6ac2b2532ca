//! Pods whose turn comes namespace by namespace: nobody waits for all that another namespace has.

use divvy_engine::ObjectKey;
use std::collections::{BTreeMap, VecDeque};

/// Pods that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Those of each namespace that has some.
    pods: BTreeMap<Box<str>, VecDeque<ObjectKey>>,
    /// The namespace whose turn was last.
    last: Box<str>,
}

impl Turns {
    pub(super) fn push(&mut self, key: ObjectKey) {
        self.pods.entry(key.namespace().into()).or_default().push_back(key);
    }

    pub(super) fn pop(&mut self) -> Option<ObjectKey> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = (Excluded(&*self.last), Unbounded);
        let next = self.pods.range::<str, _>(after).next().or_else(|| self.pods.first_key_value());
        self.last = next?.0.clone();
        let pods = self.pods.get_mut(&self.last)?;
        let key = pods.pop_front();
        if pods.is_empty() {
            self.pods.remove(&self.last);
        }
        key
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_has_its_turn_and_its_pods_come_in_order() {
        let mut turns = Turns::default();
        for (namespace, pods) in [("a", 3), ("b", 1), ("c", 2)] {
            (0..pods).for_each(|i| turns.push(ObjectKey::new(namespace, &i.to_string())));
        }
        let order: Vec<String> =
            std::iter::from_fn(|| turns.pop()).map(|k| k.to_string()).collect();
        assert_eq!(order, ["a/0", "b/0", "c/0", "a/1", "c/1", "a/2"]);
        assert!(turns.is_empty() && turns.pop().is_none());
    }
}
