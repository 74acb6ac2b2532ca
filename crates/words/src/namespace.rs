//! A namespace as relations of pods see it: its name and labels.

use crate::keys;
use crate::manifest::{Content, Object};
use divvy_engine::{Event, Labels};
use std::collections::BTreeMap;

/// The namespace of an object that names this one, or none.
pub fn namespace_of(named: &str) -> &str {
    if named.is_empty() { keys::DEFAULT_NAMESPACE } else { named }
}

/// The namespaces of a set of objects, each as an event: those that are given, and those that
/// pods and controllers are in. The API server gives each a label with its name.
pub fn namespaces<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Vec<Event> {
    let mut found: BTreeMap<&str, Option<&Object>> = BTreeMap::new();
    for object in objects {
        match object.content {
            Content::Namespace => {
                found.insert(&object.metadata.name, Some(object));
            }
            Content::Pod(..) | Content::Workload(_) => {
                found.entry(namespace_of(&object.metadata.namespace)).or_default();
            }
            _ => {}
        }
    }
    let event = |(name, given): (&str, Option<&Object>)| {
        let labels = given.into_iter().flat_map(|object| object.metadata.labels.iter());
        let labels: Labels = labels.chain([(keys::NAMESPACE_NAME, name)]).collect();
        Event::Namespace { name: name.into(), labels }
    };
    found.into_iter().map(event).collect()
}
