//! Names in the metadata of pods, and of what makes them.

use super::resources::Asked;
use crate::edit::{Edit, Gone, Leave};
use crate::object::{Found, Look, WrittenPod};
use crate::scheduler::SchedulerPlace;
use crate::tree::{Map, TreeNode};
use divvy_words::keys;
use divvy_words::mistakes::{self, Mistake, PodField, mistake};
use std::collections::BTreeMap;

/// Stable name: what is asked of a GPU stands on the controller instead of its pods.
pub(crate) const NOT_ON_TEMPLATE: &str = "NotOnTemplate";
/// Stable name: the scheduler's name is nearly one of divvy's.
pub(crate) const MISSPELT_SCHEDULER: &str = "MisspeltScheduler";

/// Stable name: the pod asks for a share and is left to the default scheduler.
pub const DEFAULT_SCHEDULER: &str = "DefaultScheduler";

/// No more keys of a map are looked at.
const MOST_KEYS: usize = 1000;

pub(crate) fn look(look: &mut Look<'_, '_>) {
    let pods = look.object.pods();
    for pod in &pods {
        of_metadata(look, pod.node, &pod.path, Some(pod));
        scheduler(look, pod);
    }
    if look.object.is_workload && pods.is_empty() {
        of_metadata(look, look.object.node, "", None);
    }
    let mut owners: BTreeMap<&str, (&TreeNode, Vec<&WrittenPod<'_>>)> = BTreeMap::new();
    for pod in &pods {
        for (owner, before) in &pod.owners {
            owners.entry(before).or_insert_with(|| (owner, Vec::new())).1.push(pod);
        }
    }
    for (before, (owner, pods)) in owners {
        of_metadata(look, owner, before, None);
        on_owner(look, (owner, before), &pods);
    }
}

/// Of the metadata of `owner`: `pod` is the one that it is; none for what makes pods.
fn of_metadata(
    look: &mut Look<'_, '_>,
    owner: &TreeNode,
    before: &str,
    pod: Option<&WrittenPod<'_>>,
) {
    for (place, name) in [(PodField::Annotations, "annotations"), (PodField::Labels, "labels")] {
        let Some(node) = owner.find(&["metadata", name]) else { continue };
        let Some(map) = node.as_map() else { continue };
        // Of two that mean the same one can be mended.
        let mut taken: Vec<(PodField, &str)> = Vec::new();
        for (text, key, value) in map.named().take(MOST_KEYS) {
            let Some(mistake) = mistake(place, text) else { continue };
            let field = format!("{before}metadata.{name}[\"{}\"]", mistakes::shown(text));
            let edits = match mistake.meant {
                Some(meant) if taken.contains(&meant) => None,
                Some((there, meant)) if there == place => {
                    let is_free = map.entry(meant).is_none();
                    is_free.then(|| look.source.rename(key, meant)).flatten().map(|e| vec![e])
                }
                Some(meant) => pod.and_then(|pod| moved(look, pod, (name, text, value), meant)),
                None => without(look, owner, name, text, pod),
            };
            taken.extend(mistake.meant.filter(|_| edits.is_some()));
            let what = said(&mistake, pod);
            look.note(Found { what, ..Found::of(mistake, key, field) }.mended(edits));
        }
    }
}

/// What is wrong, and what comes of it.
fn said(mistake: &Mistake, pod: Option<&WrittenPod<'_>>) -> String {
    let asks = mistake.meant.is_some_and(|(_, meant)| keys::REQUEST.contains(&meant));
    match pod {
        Some(_) if asks => format!("{}, so the pod gets no GPU by it", mistake.what),
        _ => mistake.what.clone(),
    }
}

/// Takes an entry to where it belongs.
fn moved(
    look: &Look<'_, '_>,
    pod: &WrittenPod<'_>,
    (from, key, value): (&str, &str, &TreeNode),
    (there, meant): (PodField, &str),
) -> Option<Vec<Edit>> {
    let field = match there {
        PodField::Annotations => "annotations",
        PodField::Labels => "labels",
        PodField::Resources => return None,
    };
    let is_there = pod.metadata(field).is_some_and(|map| map.get(meant).is_some());
    if is_there || pod.is_open(field) {
        return None;
    }
    let metadata = pod.node.get("metadata")?;
    let (key_of_map, node) = metadata.as_map()?.entry(from)?;
    if node.as_map()?.entries.len() == 1 && metadata.get(field).is_none() {
        // Alone there, it takes its map along.
        let (own, _) = node.as_map()?.entries.first()?;
        let named = look.source.rename(key_of_map, field)?;
        let renamed = (own.text() != Some(meant)).then(|| look.source.rename(own, meant));
        let quoted = look.source.quote(value)?;
        return Some(
            [Some(named), renamed.flatten(), Some(quoted)].into_iter().flatten().collect(),
        );
    }
    let gone = |leave| remove(look, pod.node, from, key, leave);
    pod.set(&look.source, field, &[(meant, value.text()?)], &gone)
}

/// Takes an entry out of the annotations or labels of the metadata of `owner`, and what is empty then.
fn remove(
    look: &Look<'_, '_>,
    owner: &TreeNode,
    field: &str,
    key: &str,
    leave: Leave,
) -> Option<Gone> {
    let metadata = owner.get("metadata")?;
    let node = metadata.get(field)?;
    let has_more = |node: &TreeNode| node.as_map().is_some_and(|map| map.entries.len() > 1);
    if has_more(node) {
        return look.source.remove(node, &|other| other == key, leave);
    }
    if has_more(metadata) {
        return look.source.remove(metadata, &|other| other == field, leave);
    }
    // An object itself has metadata.
    let is_inner = has_more(owner) && owner.at != look.object.node.at;
    is_inner.then(|| look.source.remove(owner, &|other| other == "metadata", leave)).flatten()
}

/// Takes out what nobody reads, if the pod asks for a GPU without it.
fn without(
    look: &Look<'_, '_>,
    owner: &TreeNode,
    name: &str,
    key: &str,
    pod: Option<&WrittenPod<'_>>,
) -> Option<Vec<Edit>> {
    let is_asked = match pod {
        Some(pod) => asks(pod),
        // On what makes pods it is nobody's loss.
        None => look.object.pods().iter().any(asks),
    };
    if !is_asked {
        return None;
    }
    Some(remove(look, owner, name, key, Leave::Comments)?.edits)
}

/// Whether a pod asks for GPUs in a way that is read.
fn asks(pod: &WrittenPod<'_>) -> bool {
    let is_annotated =
        [keys::GPU_FRACTION, keys::GPU_MEMORY].iter().any(|key| pod.annotation(key).is_some());
    let asks = |container: &TreeNode| {
        let lists = ["limits", "requests"].map(|list| container.find(&["resources", list]));
        let mut names =
            lists.into_iter().flatten().filter_map(TreeNode::as_map).flat_map(Map::named);
        names.any(|(name, _, value)| {
            let is_ours = name.starts_with(keys::GPU)
                || name.starts_with(keys::MIG_PREFIX)
                || keys::KOORDINATOR.contains(&name);
            is_ours && value.text().is_some_and(|n| n != "0" && !n.contains('.'))
        })
    };
    is_annotated || pod.containers().any(|(_, container)| asks(container))
}

/// What is read of pods alone stands on what makes them. The strategy is read of both, and so is the
/// queue. Which pods are meant of several is for people.
fn on_owner(look: &mut Look<'_, '_>, (owner, before): (&TreeNode, &str), pods: &[&WrittenPod<'_>]) {
    let Some((pod, others)) = pods.split_first() else { return };
    let levels = [keys::ISOLATION_LEVEL, keys::ISOLATION_PROVIDER];
    let asked: [(&str, &[&str]); 2] = [("annotations", &keys::REQUEST), ("labels", &levels)];
    for (field, names) in asked {
        let node = owner.find(&["metadata", field]);
        let Some(map) = node.and_then(TreeNode::as_map) else { continue };
        for name in names {
            let Some((key, value)) = map.entry(name) else { continue };
            let has = |pod: &WrittenPod<'_>| {
                pod.metadata(field).is_some_and(|map| map.get(name).is_some())
            };
            if pods.iter().any(|pod| pod.is_open(field) || has(pod)) {
                continue;
            }
            let maker = match before.trim_end_matches('.') {
                "" => &look.object.kind,
                inner => inner,
            };
            let edits = || {
                let gone = |leave| remove(look, owner, field, name, leave);
                pod.set(&look.source, field, &[(*name, value.text()?)], &gone)
            };
            let edits = if others.is_empty() { edits() } else { None };
            let found = Found::new(
                NOT_ON_TEMPLATE,
                key,
                format!("{before}metadata.{field}[\"{name}\"]"),
                mistakes::not_on_template(maker, field),
                format!("write it under {}metadata.{field}", pod.path),
            );
            look.note(found.mended(edits));
        }
    }
}

fn scheduler(look: &mut Look<'_, '_>, pod: &WrittenPod<'_>) {
    let Some(place) = pod.scheduler() else { return };
    if place.is_others() {
        others_scheduler(look, pod, &place);
        return;
    }
    let (Some(node), Some(name)) = (place.node(), place.name()) else { return };
    let Some(meant) = mistakes::scheduler(name) else { return };
    let what = mistakes::no_scheduler(name);
    let edit = place.write(&look.source, meant).map(|edit| vec![edit]);
    let found = Found::new(MISSPELT_SCHEDULER, node, place.field, what, format!("write {meant}"));
    look.note(found.mended(edit));
}

/// Who knows nothing of shares: the pod runs, and without a GPU.
fn others_scheduler(look: &mut Look<'_, '_>, pod: &WrittenPod<'_>, place: &SchedulerPlace<'_>) {
    if pod.spec().is_none_or(|spec| spec.get("nodeName").is_some()) {
        return;
    }
    let annotations = pod.metadata("annotations").and_then(TreeNode::as_map);
    let mut shares = [keys::GPU_FRACTION, keys::GPU_MEMORY].into_iter().filter_map(|key| {
        let (at, _) = annotations?.entry(key)?;
        Some((format!("{}metadata.annotations[\"{key}\"]", pod.path), at))
    });
    let containers: Vec<Asked<'_>> = pod.containers().map(Asked::of).collect();
    let mut resources = containers.iter().flat_map(|asked| {
        let ours = asked.entries().filter(|(_, name, ..)| keys::KOORDINATOR.contains(name));
        ours.map(|(list, name, key, _)| {
            (format!("{}.resources.{list}[\"{name}\"]", asked.field), key)
        })
    });
    let (share, resource) = (shares.next(), resources.next());
    let what = match (place.is_default(), &share) {
        (true, Some(_)) => mistakes::DEFAULT_SCHEDULER_PLACES.to_owned(),
        (true, None) => mistakes::DEFAULT_SCHEDULER_GIVES_NONE.to_owned(),
        (false, _) => mistakes::others_scheduler(&place.who()),
    };
    let Some((field, at)) = share.or(resource) else { return };
    let ours = keys::SCHEDULER_NAMES[0];
    let next = format!("write {}: {ours}", place.field);
    let edit = place.write(&look.source, ours);
    let found = Found::new(DEFAULT_SCHEDULER, at, field, what, next);
    look.note(found.mended(edit.map(|edit| vec![edit])));
}
