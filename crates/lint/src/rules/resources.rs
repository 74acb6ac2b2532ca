//! What containers ask: parts of what is only counted, misspelt names, and a share beside whole GPUs.

use crate::edit::{Edit, Gone, Leave};
use crate::object::{Found, Look, WrittenObject, WrittenPod};
use crate::tree::{Map, TreeNode};
use divvy_words::keys;
use divvy_words::mistakes::{self, PodField, mistake};
use divvy_words::{decimal, whole};

/// Stable name: a part of something that is only counted.
pub(crate) const FRACTIONAL: &str = "FractionalResource";
/// Stable name: a share and whole GPUs in one pod.
pub(crate) const SHARE_BESIDE_WHOLE: &str = "ShareBesideWhole";

/// No node has so many kinds of resources.
const MOST_RESOURCES: usize = 256;

/// A container's lists of resources.
pub(crate) struct Asked<'a> {
    pub(crate) field: String,
    pub(crate) container: &'a TreeNode,
    pub(crate) lists: Vec<(&'static str, &'a TreeNode, &'a Map)>,
}

impl<'a> Asked<'a> {
    pub(crate) fn of((field, container): (String, &'a TreeNode)) -> Self {
        let lists = ["limits", "requests"].into_iter().filter_map(|name| {
            let node = container.find(&["resources", name])?;
            Some((name, node, node.as_map()?))
        });
        Self { field, container, lists: lists.collect() }
    }

    /// All entries, those of limits first.
    pub(crate) fn entries(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'a str, &'a TreeNode, &'a TreeNode)> {
        let each = self.lists.iter().map(|(list, _, map)| (*list, *map));
        each.flat_map(|(list, map)| {
            map.named().take(MOST_RESOURCES).map(move |(name, key, value)| (list, name, key, value))
        })
    }

    /// The first amount of a resource.
    pub(crate) fn amount(&self, resource: &str) -> Option<&'a str> {
        let mut found = self.entries().filter(|(_, name, ..)| *name == resource);
        found.find_map(|(.., value)| value.text())
    }

    /// Takes these resources away, and what is empty then.
    pub(crate) fn remove(&self, look: &Look<'_, '_>, gone: &[&str], leave: Leave) -> Option<Gone> {
        let is_gone = |name: &str| gone.contains(&name);
        let resources = self.container.get("resources")?;
        let empty = |map: &Map| map.entries.iter().all(|(k, _)| k.text().is_some_and(is_gone));
        let empties: Vec<&str> =
            self.lists.iter().filter(|(.., map)| empty(map)).map(|(list, ..)| *list).collect();
        if resources.as_map()?.entries.len() == empties.len() {
            if self.container.as_map()?.entries.len() < 2 {
                return None;
            }
            return look.source.remove(self.container, &|field| field == "resources", leave);
        }
        let mut all = Gone::default();
        if !empties.is_empty() {
            all.and(look.source.remove(resources, &|field| empties.contains(&field), leave)?);
        }
        for (list, node, map) in &self.lists {
            if !empties.contains(list) && map.named().any(|(name, ..)| is_gone(name)) {
                all.and(look.source.remove(node, &is_gone, leave)?);
            }
        }
        Some(all)
    }
}

pub(crate) fn look(look: &mut Look<'_, '_>) {
    for pod in look.object.pods() {
        let all: Vec<Asked<'_>> = pod.containers().map(Asked::of).collect();
        for (at, asked) in all.iter().enumerate() {
            if look.is_full() {
                return;
            }
            names(look, &pod, asked);
            fractions(look, &pod, &all, at);
        }
        beside(look, &pod, &all);
    }
}

/// Whether pods of an object ask for one of these.
pub(crate) fn asks(object: &WrittenObject<'_>, resources: &[&str]) -> bool {
    let asks = |pod: &WrittenPod<'_>| {
        let mut all = pod.containers().map(Asked::of);
        all.any(|asked| asked.entries().any(|(_, name, ..)| resources.contains(&name)))
    };
    object.pods().iter().any(asks)
}

/// The entries of a container by name, each name once.
fn by_name<'a>(asked: &Asked<'a>) -> Vec<(&'static str, &'a str, &'a TreeNode, &'a TreeNode)> {
    let mut all: Vec<(&str, &str, &TreeNode, &TreeNode)> = Vec::new();
    for (list, name, key, value) in asked.entries() {
        if !all.iter().any(|(_, known, ..)| *known == name) {
            all.push((list, name, key, value));
        }
    }
    all
}

fn names(look: &mut Look<'_, '_>, pod: &WrittenPod<'_>, asked: &Asked<'_>) {
    for (list, name, key, value) in by_name(asked) {
        let Some(mistake) = mistake(PodField::Resources, name) else { continue };
        if mistake.name == mistakes::FOREIGN_RESOURCE {
            continue;
        }
        let edits = match mistake.meant {
            Some((PodField::Resources, meant)) => renamed(look, asked, name, meant),
            Some((PodField::Annotations, meant)) => {
                let is_free = pod.annotation(meant).is_none() && !pod.is_open("annotations");
                let moved = || {
                    let gone = |leave| asked.remove(look, &[name], leave);
                    pod.set(&look.source, "annotations", &[(meant, value.text()?)], &gone)
                };
                is_free.then(moved).flatten()
            }
            Some((PodField::Labels, _)) | None => None,
        };
        let field = format!("{}.resources.{list}[\"{}\"]", asked.field, mistakes::shown(name));
        look.note(Found::of(mistake, key, field).mended(edits));
    }
}

/// Another name for a resource, in limits and requests.
fn renamed(look: &Look<'_, '_>, asked: &Asked<'_>, name: &str, to: &str) -> Option<Vec<Edit>> {
    if asked.entries().any(|(_, known, ..)| known == to) {
        return None;
    }
    let same = asked.entries().filter(|(_, known, ..)| *known == name);
    same.map(|(_, _, key, _)| look.source.rename(key, to)).collect()
}

/// A part of what is only counted. Of one GPU it is a share.
fn fractions(look: &mut Look<'_, '_>, pod: &WrittenPod<'_>, all: &[Asked<'_>], at: usize) {
    let Some(asked) = all.get(at) else { return };
    for (list, name, key, value) in by_name(asked) {
        let is_counted = name.contains('/') && !name.starts_with("kubernetes.io/");
        let part = value.text().filter(|_| is_counted).and_then(decimal);
        let Some(part) = part else { continue };
        let is_of_one = part.starts_with("0.");
        let (next, edits) = match name {
            keys::GPU if is_of_one => (
                format!(
                    "leave it out and set the annotation {}: \"{part}\" of the pod",
                    keys::GPU_FRACTION
                ),
                share(look, pod, all, at, &part),
            ),
            keys::GPU => (
                format!(
                    "ask for whole GPUs, or for shares of several cards with the annotations {} (a part of each) and {}",
                    keys::GPU_FRACTION,
                    keys::FRACTION_DEVICES
                ),
                None,
            ),
            keys::KOORDINATOR_GPU | keys::KOORDINATOR_CORE | keys::KOORDINATOR_RATIO => {
                ("write hundredths of a card: 50 is half of one".to_owned(), None)
            }
            _ => ("write a whole number".to_owned(), None),
        };
        let found = Found::new(
            FRACTIONAL,
            key,
            format!("{}.resources.{list}[\"{}\"]", asked.field, mistakes::shown(name)),
            format!(
                "{} is refused: extended resources are counted in whole numbers",
                mistakes::shown(value.text().unwrap_or_default())
            ),
            next,
        );
        look.note(found.mended(edits));
    }
}

/// The annotation instead, if only this container asks and nothing else is asked.
fn share(
    look: &Look<'_, '_>,
    pod: &WrittenPod<'_>,
    all: &[Asked<'_>],
    at: usize,
    part: &str,
) -> Option<Vec<Edit>> {
    let (asked, others) = (all.get(at)?, all.iter().enumerate().filter(|(other, _)| *other != at));
    let is_gpu = |name: &str| {
        name.starts_with(keys::GPU)
            || name.starts_with(keys::MIG_PREFIX)
            || keys::KOORDINATOR.contains(&name)
    };
    let is_alone =
        others.into_iter().all(|(_, other)| !other.entries().any(|(_, name, ..)| is_gpu(name)));
    let mut own = asked.entries().filter(|(_, name, ..)| is_gpu(name));
    let is_same = own.all(|(_, name, _, value)| {
        name == keys::GPU && value.text().and_then(decimal).as_deref() == Some(part)
    });
    let names = [keys::GPU_FRACTION, keys::GPU_MEMORY, keys::FRACTION_CONTAINER];
    let is_free = names.iter().all(|name| pod.annotation(name).is_none());
    if !is_alone || !is_same || !is_free || pod.is_open("annotations") {
        return None;
    }
    let gone = |leave| asked.remove(look, &[keys::GPU], leave);
    let share = (keys::GPU_FRACTION, part);
    // Without a name the first container that is no init container gets the share.
    let spec = pod.spec()?;
    let first = spec.get("containers").and_then(TreeNode::as_list).and_then(<[TreeNode]>::first);
    if first.is_some_and(|first| first.at == asked.container.at) {
        return pod.set(&look.source, "annotations", &[share], &gone);
    }
    let container = (keys::FRACTION_CONTAINER, asked.container.get("name")?.text()?);
    pod.set(&look.source, "annotations", &[share, container], &gone)
}

/// KAI and divvy refuse a share beside whole GPUs; which of the two was meant is for people.
fn beside(look: &mut Look<'_, '_>, pod: &WrittenPod<'_>, all: &[Asked<'_>]) {
    let share = [keys::GPU_FRACTION, keys::GPU_MEMORY]
        .into_iter()
        .find(|key| pod.annotation(key).is_some());
    let Some(share) = share else { return };
    let entry =
        pod.metadata("annotations").and_then(TreeNode::as_map).and_then(|map| map.entry(share));
    let Some((key, _)) = entry else { return };
    let whole = all.iter().find_map(|asked| {
        let mut entries = asked.entries();
        let (_, _, _, value) = entries.find(|(_, name, ..)| *name == keys::GPU)?;
        Some((asked, value.text().and_then(whole).unwrap_or(0)))
    });
    let Some((asked, count)) = whole else { return };
    let field = format!("{}metadata.annotations[\"{share}\"]", pod.path);
    let gpus = if count == 1 { "GPU" } else { "GPUs" };
    let found = Found::new(
        SHARE_BESIDE_WHOLE,
        key,
        field,
        format!(
            "{}.resources ask for {count} whole {gpus} ({}) beside it, and the pod is refused",
            asked.field,
            keys::GPU
        ),
        format!(
            "take one of the two away: the annotation for {count} whole {gpus}, {} for the share",
            keys::GPU
        ),
    );
    look.note(found);
}
