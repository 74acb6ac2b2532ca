//! What if there were other nodes: some more like one that is there, or one less.
//!
//! Pods of a node that is drained or removed wait again, as their controllers would make them anew, and
//! are placed with the workload; those of DaemonSets and of the kubelet itself stay with their node.

use crate::adopt;
use crate::input::InputError;
use divvy_words::manifest::{Annotations, PodStatus};
use divvy_words::{Content, Entry, Metadata, Object, PodManifest, keys};
use std::collections::BTreeSet;

/// The label that has a node's own name.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// More nodes than this are a slip of the keyboard.
pub const MAX_NEW_NODES: u32 = 100_000;
/// Names of nodes that are told where one of them is meant.
const MOST_NAMES: usize = 8;

/// A change of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhatIf {
    /// So many more like this one, empty.
    Add(u32, String),
    /// This one is cordoned and its pods have to go elsewhere.
    Drain(String),
    /// This one is gone, and all that is on it.
    Remove(String),
}

/// The cluster as these changes would make it, and what of it has to be placed anew.
pub(crate) fn changed(
    mut entries: Vec<Entry>,
    changes: &[WhatIf],
    warnings: &mut Vec<String>,
) -> Result<(Vec<Entry>, Vec<Entry>), InputError> {
    let mut moved = Vec::new();
    for change in changes {
        match change {
            WhatIf::Add(count, like) => {
                let node = find(&entries, like, "--add-nodes", change)?.clone();
                let names: BTreeSet<Box<str>> = nodes(&entries).map(|n| n.name.clone()).collect();
                let free = (0..).map(|i| format!("{like}-new-{i}").into_boxed_str());
                let new = free.filter(|name| !names.contains(name)).take(*count as usize);
                entries.extend(new.map(|name| Entry::Object(empty(&node, name))));
            }
            WhatIf::Drain(name) => {
                find(&entries, name, "--drain", change)?;
                for entry in &mut entries {
                    if let Entry::Object(Object { metadata, content: Content::Node(node), .. }) =
                        entry
                        && *metadata.name == **name
                    {
                        node.0.unschedulable = true;
                    }
                }
                moved.extend(take_pods(&mut entries, name, false, warnings));
            }
            WhatIf::Remove(name) => {
                find(&entries, name, "--remove-node", change)?;
                entries.retain(|entry| !is_node(entry, name));
                moved.extend(take_pods(&mut entries, name, true, warnings));
            }
        }
    }
    Ok((entries, moved))
}

fn nodes(entries: &[Entry]) -> impl Iterator<Item = &Metadata> {
    entries.iter().filter_map(|entry| match entry {
        Entry::Object(Object { metadata, content: Content::Node(_), .. }) => Some(metadata),
        _ => None,
    })
}

fn is_node(entry: &Entry, name: &str) -> bool {
    matches!(entry, Entry::Object(Object { metadata, content: Content::Node(_), .. })
        if *metadata.name == *name)
}

fn find<'e>(
    entries: &'e [Entry],
    name: &str,
    option: &str,
    change: &WhatIf,
) -> Result<&'e Object, InputError> {
    let found = entries.iter().find(|entry| is_node(entry, name));
    if let Some(Entry::Object(object)) = found {
        return Ok(object);
    }
    let mut names: Vec<&str> = nodes(entries).map(|node| &*node.name).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    let mut there = names.join(", ");
    if more > 0 {
        there.push_str(&format!(" and {more} more"));
    }
    let given = match change {
        WhatIf::Add(count, _) => format!("{count}={name}"),
        WhatIf::Drain(_) | WhatIf::Remove(_) => name.to_owned(),
    };
    Err(InputError::Config(format!(
        "{option} {given}: the cluster has no node {name}; it has {there}"
    )))
}

/// A node like another one, with nothing on it and nothing wrong.
fn empty(like: &Object, name: Box<str>) -> Object {
    let mut node = like.clone();
    let hostname = vec![(HOSTNAME.to_owned(), name.to_string())];
    node.metadata.labels = node.metadata.labels.with(|key| key == HOSTNAME, hostname);
    (node.metadata.name, node.metadata.uid) = (name, Box::default());
    if let Content::Node(content) = &mut node.content {
        content.0.unschedulable = false;
        // What a condition has put there, or we have, is about the other node.
        content.0.taints.retain(|taint| {
            !taint.key.starts_with("node.kubernetes.io/") && *taint.key != *keys::UNSETTLED
        });
    }
    node
}

/// Takes the pods of a node out of the cluster. Returns those that are to be placed anew.
fn take_pods(
    entries: &mut Vec<Entry>,
    node: &str,
    is_gone: bool,
    warnings: &mut Vec<String>,
) -> Vec<Entry> {
    let (mut moved, mut lonely) = (Vec::new(), 0usize);
    entries.retain_mut(|entry| {
        let Entry::Object(Object { metadata, content: Content::Pod(spec, status), .. }) = entry
        else {
            return true;
        };
        if *spec.node_name != *node || status.has_ended() {
            return true;
        }
        let owner = metadata.owner_references.iter().find(|owner| owner.controller);
        let stays = owner.is_some_and(|owner| &*owner.kind == "DaemonSet")
            || metadata.annotations.get(keys::MIRROR).is_some();
        if stays {
            return !is_gone;
        }
        if metadata.deletion_timestamp.is_empty() && !adopt::is_reservation(metadata) {
            lonely += usize::from(owner.is_none());
            unbind(metadata, spec, status);
            moved.push(entry.clone());
        }
        false
    });
    if lonely > 0 {
        warnings.push(format!(
            "pods of {node} without a controller: {lonely}; nobody makes them again once they are \
             deleted, here they are placed as if somebody did"
        ));
    }
    moved
}

/// The pod as it was before it was bound.
fn unbind(metadata: &mut Metadata, spec: &mut PodManifest, status: &mut PodStatus) {
    let records = |key: &str| keys::HAND_OFF.contains(&key);
    metadata.annotations = Annotations::without(&metadata.annotations, records);
    spec.node_name = Box::default();
    *status = PodStatus::default();
}
