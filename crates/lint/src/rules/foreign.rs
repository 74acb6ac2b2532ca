//! Resources of HAMi, Volcano and Aliyun's gpushare, and what divvy reads instead: Koordinator's
//! resources, which say the same of a container, amount by amount.

use super::resources::Asked;
use crate::edit::{Edit, Leave};
use crate::object::{Found, Look, WrittenPod};
use crate::scheduler::SchedulerPlace;
use divvy_words::mistakes::{FOREIGN_RESOURCE, foreign};
use divvy_words::{keys, whole};

/// What one project calls what it counts.
struct Words {
    count: &'static str,
    /// MiB of each card.
    memory: &'static str,
    percentage: &'static str,
    cores: &'static str,
}

const HAMI: Words = Words {
    count: keys::GPU,
    memory: "nvidia.com/gpumem",
    percentage: "nvidia.com/gpumem-percentage",
    cores: "nvidia.com/gpucores",
};
const VOLCANO: Words = Words {
    count: "volcano.sh/vgpu-number",
    memory: "volcano.sh/vgpu-memory",
    percentage: "volcano.sh/vgpu-memory-percentage",
    cores: "volcano.sh/vgpu-cores",
};
const ALIYUN_MEMORY: &str = "aliyun.com/gpu-mem";
const ALIYUN_COUNT: &str = "aliyun.com/gpu-count";
const PRIORITY: &str = "nvidia.com/priority";
const OURS: &str = keys::SCHEDULER_NAMES[0];

pub(crate) fn look(look: &mut Look<'_, '_>) {
    for pod in look.object.pods() {
        of_pod(look, &pod);
    }
}

fn of_pod(look: &mut Look<'_, '_>, pod: &WrittenPod<'_>) {
    // Their webhooks name their scheduler where nobody is named.
    let others = pod.scheduler().filter(SchedulerPlace::is_others);
    let mut has_scheduler = false;
    for asked in pod.containers().map(Asked::of) {
        if look.is_full() {
            return;
        }
        let found = asked.entries().find(|(_, name, ..)| foreign(name).is_some());
        let Some((list, name, key, _)) = found else { continue };
        let (next, edits) = form(look, &asked);
        // Who would place the pod is changed with its first container.
        let edits = edits.map(|mut edits| {
            let theirs = others.as_ref().filter(|_| !std::mem::replace(&mut has_scheduler, true));
            edits.extend(theirs.and_then(|place| place.write(&look.source, OURS)));
            edits
        });
        let next = match (&others, edits.is_some()) {
            (Some(place), true) => format!("{next}, and {}: {OURS}", place.field),
            _ => next,
        };
        let project = foreign(name).unwrap_or_default();
        let names: Vec<&str> = asked.entries().map(|(_, name, ..)| name).collect();
        let mut theirs: Vec<&str> =
            names.into_iter().filter(|name| foreign(name).is_some()).collect();
        theirs.sort_unstable();
        theirs.dedup();
        let found = Found::new(
            FOREIGN_RESOURCE,
            key,
            format!("{}.resources.{list}[\"{name}\"]", asked.field),
            format!(
                "{project} reads {}, and no node of divvy has {}",
                theirs.join(", "),
                if theirs.len() == 1 { "it" } else { "them" }
            ),
            next,
        );
        look.note(found.mended(edits));
    }
}

/// What to write instead, and the changes where that is certain.
fn form(look: &Look<'_, '_>, asked: &Asked<'_>) -> (String, Option<Vec<Edit>>) {
    let amount = |name: &str| asked.amount(name);
    if let Some(memory) = amount(ALIYUN_MEMORY) {
        let count = amount(ALIYUN_COUNT).map(|n| format!(" and {}: {n}", keys::KOORDINATOR_SHARED));
        let next = format!(
            "write {name}: {memory}Gi{count}, or {memory}Mi if the unit of the gpushare plugin is MiB",
            name = keys::KOORDINATOR_MEMORY,
            count = count.unwrap_or_default(),
        );
        return (next, None);
    }
    if amount(ALIYUN_COUNT).is_some() {
        return (format!("write {} for whole GPUs", keys::GPU), None);
    }
    let words = if amount(VOLCANO.count).is_some()
        || amount(VOLCANO.memory).is_some()
        || amount(VOLCANO.percentage).is_some()
        || amount(VOLCANO.cores).is_some()
    {
        VOLCANO
    } else {
        HAMI
    };
    instead(look, asked, &words)
}

fn instead(look: &Look<'_, '_>, asked: &Asked<'_>, words: &Words) -> (String, Option<Vec<Edit>>) {
    let number = |name: &str| asked.amount(name).map(whole);
    let count = number(words.count).unwrap_or(Some(1));
    let given = [words.memory, words.percentage, words.cores].map(number);
    let (Some(count), [memory, percentage, cores]) =
        (count.filter(|n| (1..=64).contains(n)), given)
    else {
        return ("write whole numbers, and then what divvy reads".to_owned(), None);
    };
    // All of a card's memory, or nothing said of it, is all of the card.
    let is_whole = percentage == Some(Some(100)) || (memory.is_none() && percentage.is_none());
    let mut wanted: Vec<(&str, Option<(&str, String)>)> = Vec::new();
    if is_whole && memory.is_none() {
        wanted.push((words.count, Some((keys::GPU, count.to_string()))));
        wanted.extend([(words.percentage, None), (words.cores, None)]);
    } else {
        let all = |each: u64, unit: &str| each.checked_mul(count).map(|n| format!("{n}{unit}"));
        let shared = Some((keys::KOORDINATOR_SHARED, count.to_string()));
        wanted.push((words.count, shared));
        let of = |given: Option<Option<u64>>, most: u64, name, unit| match given {
            None => Some(None),
            Some(each) => {
                let each = each.filter(|each| (1..=most).contains(each))?;
                Some(Some((name, all(each, unit)?)))
            }
        };
        let most_mib = u64::MAX >> 24;
        let amounts = [
            (words.memory, of(memory, most_mib, keys::KOORDINATOR_MEMORY, "Mi")),
            (words.percentage, of(percentage, 100, keys::KOORDINATOR_RATIO, "")),
            (words.cores, of(cores, 100, keys::KOORDINATOR_CORE, "")),
        ];
        for (name, amount) in amounts {
            match amount {
                Some(amount) => wanted.push((name, amount)),
                None => return (format!("write a number that can be for {name}"), None),
            }
        }
        if memory.is_some() && percentage.is_some() {
            return (format!("take one of {} and {} away", words.memory, words.percentage), None);
        }
    }
    wanted.push((PRIORITY, None));
    let texts = wanted.iter().filter_map(|(_, to)| to.as_ref());
    let texts: Vec<String> = texts.map(|(name, amount)| format!("{name}: {amount}")).collect();
    let next = format!("write {}", texts.join(", "));
    (next, change(look, asked, &wanted))
}

/// Writes other names and amounts in the places of the old ones; what has none goes.
fn change(
    look: &Look<'_, '_>,
    asked: &Asked<'_>,
    wanted: &[(&str, Option<(&str, String)>)],
) -> Option<Vec<Edit>> {
    let mut edits = Vec::new();
    let mut gone: Vec<&str> = Vec::new();
    for (list, name, key, value) in asked.entries() {
        let Some((_, to)) = wanted.iter().find(|(from, _)| *from == name) else { continue };
        let Some((to, amount)) = to else {
            gone.push(name);
            continue;
        };
        if asked.entries().any(|(other, known, ..)| other == list && known == *to && *to != name) {
            return None;
        }
        if *to != name {
            edits.push(look.source.rename(key, to)?);
        }
        if value.text() != Some(amount) {
            edits.push(look.source.replace(value, amount)?);
        }
    }
    if !gone.is_empty() {
        if edits.is_empty() && asked.entries().all(|(_, name, ..)| gone.contains(&name)) {
            return None;
        }
        edits.extend(asked.remove(look, &gone, Leave::Comments)?.edits);
    }
    (!edits.is_empty()).then_some(edits)
}
