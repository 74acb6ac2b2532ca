//! Things that belong to few nodes, found by the label that ties them there: a cluster of local
//! disks has as many volumes as nodes, and looking at each for each would not end.

use crate::rules::{NodeFacts, Requirement, Test};
use foldhash::HashMap;

/// Items by the first label that their requirements ask for.
#[derive(Debug)]
pub(super) struct Pinned<'a, T> {
    loose: Vec<&'a T>,
    by_label: Vec<(&'a str, HashMap<&'a str, Vec<&'a T>>)>,
}

impl<T> Default for Pinned<'_, T> {
    fn default() -> Self {
        Self { loose: Vec::new(), by_label: Vec::new() }
    }
}

impl<'a, T> Pinned<'a, T> {
    /// Adds an item that asks this of its nodes, and maybe more.
    pub(super) fn add(&mut self, item: &'a T, requirements: &'a [Requirement]) {
        let pin = requirements.iter().find_map(|r| match &r.test {
            Test::In(values) => Some((&*r.key, values)),
            _ => None,
        });
        let Some((key, values)) = pin else { return self.loose.push(item) };
        let at = match self.by_label.iter().position(|(known, _)| *known == key) {
            Some(at) => at,
            None => {
                self.by_label.push((key, HashMap::default()));
                self.by_label.len() - 1
            }
        };
        for value in &**values {
            self.by_label[at].1.entry(value).or_default().push(item);
        }
    }

    /// The items that may belong to a node; the rest surely do not.
    pub(super) fn at<'b>(&'b self, node: &'b NodeFacts) -> impl Iterator<Item = &'a T> + 'b {
        let pinned =
            self.by_label.iter().filter_map(|(key, by_value)| by_value.get(node.label(key)?));
        self.loose.iter().chain(pinned.flatten()).copied()
    }
}
