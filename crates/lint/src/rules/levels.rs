//! Levels of isolation that make no sense, and queues that are not there.

use crate::edit::{Edit, Gone};
use crate::object::{Found, Look, WrittenObject, WrittenPod};
use crate::tree::TreeNode;
use divvy_words::isolation::{Isolation, Level, Provider};
use divvy_words::keys;
use divvy_words::mistakes::{is_near, shown};
use std::collections::BTreeSet;

/// Stable name: a level without its provider, or one that there is not.
pub(crate) const ISOLATION_LEVEL: &str = "IsolationLevel";
/// Stable name: no Queue of this name is given.
pub(crate) const UNKNOWN_QUEUE: &str = "UnknownQueue";

/// What a list of queues may take in a message.
const MOST_NAMES: usize = 8;

pub(crate) fn look(look: &mut Look<'_, '_>, queues: &BTreeSet<String>) {
    for pod in look.object.pods() {
        level(look, &pod);
    }
    if !queues.is_empty() {
        for (field, value) in named_queues(look.object) {
            queue(look, value, &field, queues);
        }
    }
}

/// The labels by which an object or its pods name a queue.
pub(crate) fn named_queues<'a>(object: &WrittenObject<'a>) -> Vec<(String, &'a TreeNode)> {
    let owner = object.node.get("metadata").filter(|_| object.is_workload);
    let owner = owner.map(|metadata| (metadata, String::new()));
    let pods = object.pods().into_iter();
    let pods = pods.filter_map(|pod| Some((pod.node.get("metadata")?, pod.path)));
    let labels = owner
        .into_iter()
        .chain(pods)
        .filter_map(|(metadata, path)| Some((metadata.get("labels")?, path)));
    let named = labels.flat_map(|(labels, path)| {
        let values = keys::QUEUE_LABELS.into_iter();
        let values = values.filter_map(move |key| Some((key, labels.get(key)?)));
        values.map(move |(key, value)| (format!("{path}metadata.labels[\"{key}\"]"), value))
    });
    named.collect()
}

/// The names of the Queues among objects.
pub(crate) fn queues(objects: &[WrittenObject<'_>]) -> BTreeSet<String> {
    let is_queue = |object: &&WrittenObject<'_>| {
        object.kind == "Queue" && object.group() == "scheduling.run.ai"
    };
    objects.iter().filter(is_queue).filter_map(|queue| queue.name().map(str::to_owned)).collect()
}

fn queue(look: &mut Look<'_, '_>, value: &TreeNode, field: &str, queues: &BTreeSet<String>) {
    let Some(name) = value.text().filter(|name| !queues.contains(*name)) else { return };
    let near = queues.iter().find(|known| is_near(name, known));
    let names: Vec<String> = queues.iter().take(MOST_NAMES).map(|name| shown(name)).collect();
    let more = if queues.len() > MOST_NAMES { " and others" } else { "" };
    let next = match near {
        Some(near) => format!("write {}", shown(near)),
        None => format!("write one of {}{more}, or give the Queue", names.join(", ")),
    };
    let what = format!("there is no Queue {} among the files", shown(name));
    look.note(Found::new(UNKNOWN_QUEUE, value, field.to_owned(), what, next));
}

fn level(look: &mut Look<'_, '_>, pod: &WrittenPod<'_>) {
    let label = |key| pod.label(key);
    let (level, provider) = (label(keys::ISOLATION_LEVEL), label(keys::ISOLATION_PROVIDER));
    if level.is_none() && provider.is_none() {
        return;
    }
    // Which providers there are is a matter of the config file: those of others are left alone.
    let known = Isolation::default();
    let of_known = provider.and_then(TreeNode::text).map(|name| known.named(name));
    let hami = Provider::hami_core().name;
    let note =
        |look: &mut Look<'_, '_>, node: &TreeNode, key: &str, what: String, next: String, edits| {
            let field = format!("{}metadata.labels[\"{key}\"]", pod.path);
            look.note(Found::new(ISOLATION_LEVEL, node, field, what, next).mended(edits));
        };
    let text =
        |node: Option<&TreeNode>| node.map(|node| node.text().unwrap_or_default().to_owned());
    if let Some(node) = level
        && let Some(given) = text(level)
        && Level::parse(&given).is_none()
    {
        let all = [Level::Isolated, Level::Shared].map(Level::as_str);
        let meant = all
            .into_iter()
            .find(|name| is_near(&given.to_ascii_lowercase(), &name.to_ascii_lowercase()));
        let edit = meant.and_then(|meant| look.source.replace(node, meant));
        let next = match meant {
            Some(meant) => format!("write {meant}"),
            None => format!("allowed are {}", Level::ALLOWED),
        };
        let what = format!("{:?} is no level, and the pod is refused", shown(&given));
        note(look, node, keys::ISOLATION_LEVEL, what, next, edit.map(|edit| vec![edit]));
        return;
    }
    if let (Some(node), Some(Err(_)), Some(given)) = (provider, of_known, text(provider)) {
        let is_meant = given.is_empty()
            || is_near(&given.to_ascii_lowercase().replace('_', "-"), &hami.to_ascii_lowercase());
        if is_meant && given != hami {
            let edit = look.source.replace(node, &hami).map(|edit| vec![edit]);
            let what = format!("{:?} is no provider of isolation", shown(&given));
            note(look, node, keys::ISOLATION_PROVIDER, what, format!("write {hami}"), edit);
        }
        return;
    }
    let is_isolated = level.and_then(TreeNode::text) == Some(Level::Isolated.as_str());
    let Some(node) = level.filter(|_| is_isolated && provider.is_none() && !pod.is_open("labels"))
    else {
        return;
    };
    let edits: Option<Vec<Edit>> =
        pod.set(&look.source, "labels", &[(keys::ISOLATION_PROVIDER, &hami)], &|_| {
            Some(Gone::default())
        });
    let what = format!(
        "{} needs a provider that keeps the pod to its part, and none is named",
        Level::Isolated
    );
    let next = format!("add the label {}: {hami}", keys::ISOLATION_PROVIDER);
    note(look, node, keys::ISOLATION_LEVEL, what, next, edits);
}
