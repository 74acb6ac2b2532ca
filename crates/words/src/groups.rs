//! Pod groups: pods that start together or not at all, which divvy does not do yet.

use crate::keys;
use crate::manifest::{Content, Metadata, Object, PodManifest};
use crate::namespace::namespace_of;
use crate::problem::short;
use divvy_engine::PodRecord;
use std::collections::BTreeMap;

/// The pod groups of a cluster that ask for more than one pod at a time. One that is not known
/// here holds no pod back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodGroups {
    gangs: BTreeMap<GroupKey, u32>,
}

/// API group, namespace and name.
type GroupKey = (Box<str>, Box<str>, Box<str>);

impl PodGroups {
    /// Adds a group if the object is one, or replaces what was known of it.
    pub fn add(&mut self, object: &Object) {
        let Content::PodGroup(spec) = &object.content else { return };
        let api_group = object.api_version.split_once('/').map_or("", |(group, _)| group);
        self.set(api_group, &object.metadata, spec.minimum());
    }

    /// Enters a group of one API group by how many pods start together; up to 1 forgets it. Returns
    /// whether that is news.
    pub fn set(&mut self, api_group: &str, metadata: &Metadata, minimum: u32) -> bool {
        let key =
            (api_group.into(), namespace_of(&metadata.namespace).into(), metadata.name.clone());
        match minimum {
            0 | 1 => self.gangs.remove(&key).is_some(),
            _ => self.gangs.insert(key, minimum) != Some(minimum),
        }
    }

    /// The names of the groups that a pod says it belongs to.
    pub fn named_by<'a>(
        metadata: &'a Metadata,
        spec: &'a PodManifest,
    ) -> impl Iterator<Item = &'a str> {
        groups_of(metadata, spec).map(|(_, name)| name)
    }

    /// Makes a pod wait with a reason if it belongs to a group that starts together.
    pub fn refuse(&self, metadata: &Metadata, spec: &PodManifest, record: &mut PodRecord) {
        if record.invalid.is_some() || self.gangs.is_empty() {
            return;
        }
        let namespace: Box<str> = record.key.namespace().into();
        let found = groups_of(metadata, spec).find_map(|(api_group, name)| {
            let key = (api_group.into(), namespace.clone(), name.into());
            Some((name, self.gangs.get(&key)?))
        });
        if let Some((name, minimum)) = found {
            let name = short(name);
            record.invalid = Some(format!(
                "PodGroup {name} starts {minimum} pods together, which is not supported yet; take the pod \
                 out of the group, or let the group start 1 at a time, or leave its pods to the \
                 scheduler that knows it"
            ));
        }
    }
}

/// The groups that a pod names, with their API groups.
fn groups_of<'a>(
    metadata: &'a Metadata,
    spec: &'a PodManifest,
) -> impl Iterator<Item = (&'static str, &'a str)> {
    let kai = metadata.annotations.get(keys::POD_GROUP).map(|name| (keys::KAI_GROUPS, name));
    let own = Some((keys::KUBERNETES_GROUPS, &*spec.scheduling_group.pod_group_name));
    let labels = keys::POD_GROUP_LABELS.into_iter().map(|label| metadata.labels.get(label));
    let plugins = labels.flatten().map(|name| (keys::PLUGIN_GROUPS, name));
    // A longer one is no object's name.
    kai.into_iter().chain(own).chain(plugins).filter(|(_, name)| (1..=253).contains(&name.len()))
}

#[cfg(test)]
mod tests;
