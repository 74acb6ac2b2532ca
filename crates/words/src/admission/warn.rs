//! What the user should know of a pod, or of what makes pods, before it is stored: it will be accepted,
//! and what it asks is read by nobody. `divvy lint` says the same of files.
//!
//! Nothing is refused here. What cannot be read is the business of others.

use super::Settings;
use super::mistaken::{MOST_RESOURCES, mistaken};
use super::pod::ReviewedPod;
use super::template::templated;
use crate::keys;
use crate::mistakes::{
    self, DEFAULT_SCHEDULER_GIVES_NONE, DEFAULT_SCHEDULER_PLACES, FOREIGN_RESOURCE, QUOTAS,
};
use crate::problem::short;
use serde::Deserialize;
use serde_json::value::RawValue;

/// More warnings than these are not read, and the API server cuts them off.
const MOST: usize = 8;
/// Who places pods that name nobody.
const DEFAULT: &str = "default-scheduler";

/// Of a new pod, or of what makes pods.
pub fn warn(object: Option<&RawValue>, settings: &Settings) -> Vec<String> {
    let mut warnings = read(object, settings).unwrap_or_default();
    warnings.truncate(MOST);
    warnings
}

fn read(object: Option<&RawValue>, settings: &Settings) -> Result<Vec<String>, String> {
    let templated = templated(object)?;
    let Some(template) = templated.template else {
        return Ok(of_pod(&ReviewedPod::read(object)?, "", settings));
    };
    let pod = ReviewedPod::read(Some(template))?;
    if whose(&pod, settings) == Whose::Others {
        return Ok(Vec::new());
    }
    // Nothing of a pod stands in the spec of what makes pods.
    let owner = ReviewedPod::read(object)?;
    let at = format!("{}.", templated.place.trim_start_matches('/').replace('/', "."));
    let kind = object.and_then(|text| serde_json::from_str::<Kind>(text.get()).ok());
    let kind = kind.map_or_else(|| "object".into(), |object| object.kind);
    let mut warnings = not_on_template(&owner, &pod, &kind, &at);
    warnings.extend(mistaken(&owner, "").map(|(_, text)| text));
    warnings.extend(of_pod(&pod, &at, settings));
    Ok(warnings)
}

#[derive(Deserialize)]
struct Kind {
    kind: Box<str>,
}

/// Who places a pod, as far as its scheduler's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Ours,
    /// Ours are meant.
    Nearly(&'static str),
    Default,
    /// What pods of another scheduler ask is theirs to say.
    Others,
}

fn whose(pod: &ReviewedPod<'_>, settings: &Settings) -> Whose {
    let name = &*pod.spec.scheduler_name;
    if settings.places(name) {
        return Whose::Ours;
    }
    if name.is_empty() || name == DEFAULT {
        return Whose::Default;
    }
    let meant = mistakes::scheduler(name).filter(|meant| settings.places(meant));
    meant.map_or(Whose::Others, Whose::Nearly)
}

/// `at` is where the pod stands in what makes it.
fn of_pod(pod: &ReviewedPod<'_>, at: &str, settings: &Settings) -> Vec<String> {
    let whose = whose(pod, settings);
    let mut warnings = Vec::new();
    match whose {
        Whose::Others => return warnings,
        Whose::Nearly(meant) => {
            let what = mistakes::no_scheduler(&pod.spec.scheduler_name);
            warnings.push(format!("{at}spec.schedulerName: {what}; write {meant}"));
        }
        Whose::Default if pod.spec.node_name.is_empty() => {
            let ours = settings.scheduler_names.first().map_or("", String::as_str);
            warnings.extend(left_to_default(pod).map(|(field, what)| {
                format!("{at}{field}: {what}; write {at}spec.schedulerName: {}", short(ours))
            }));
        }
        Whose::Default | Whose::Ours => {}
    }
    // HAMi and others may run beside divvy: their pods name other schedulers, or none.
    let is_meant = |name: &str| whose != Whose::Default || name != FOREIGN_RESOURCE;
    warnings.extend(mistaken(pod, at).filter(|(name, _)| is_meant(name)).map(|(_, text)| text));
    let [_, labels] = &pod.suspects;
    if whose != Whose::Default && keys::QUEUE_LABELS.iter().any(|key| labels.has(key)) {
        warnings.push(QUOTAS.to_owned());
    }
    warnings
}

/// What a pod asks that the default scheduler does not read, and what comes of that.
fn left_to_default(pod: &ReviewedPod<'_>) -> Option<(String, &'static str)> {
    let shares = [keys::GPU_FRACTION, keys::GPU_MEMORY];
    if let Some(key) = shares.iter().find(|key| pod.metadata.annotations.get(key).is_some()) {
        return Some((format!("metadata.annotations[\"{key}\"]"), DEFAULT_SCHEDULER_PLACES));
    }
    let mut resources = pod.containers().flat_map(|(part, container)| {
        let names = container.resources.limits.iter().map(|(name, _)| name);
        names.take(MOST_RESOURCES).map(move |name| (part, name))
    });
    let (part, name) = resources.find(|(_, name)| keys::KOORDINATOR.contains(name))?;
    let field = format!("{}.resources.limits[\"{name}\"]", part.place.field());
    Some((field, DEFAULT_SCHEDULER_GIVES_NONE))
}

/// What is read of pods alone stands on what makes them. The strategy is read of both, and so is the
/// queue.
fn not_on_template(
    owner: &ReviewedPod<'_>,
    pod: &ReviewedPod<'_>,
    kind: &str,
    at: &str,
) -> Vec<String> {
    let has = |pod: &ReviewedPod<'_>, key| pod.metadata.annotations.get(key).is_some();
    let annotations = |key| (has(owner, key), has(pod, key));
    let of_annotations = keys::REQUEST.map(|key| ("annotations", key, annotations(key)));
    let of_labels = [
        (keys::ISOLATION_LEVEL, (owner.level.is_some(), pod.level.is_some())),
        (keys::ISOLATION_PROVIDER, (owner.provider.is_some(), pod.provider.is_some())),
    ];
    let of_labels = of_labels.map(|(key, has)| ("labels", key, has));
    let all = of_annotations.into_iter().chain(of_labels);
    let lacking = all.filter(|(_, _, has)| *has == (true, false));
    lacking
        .map(|(field, key, _)| {
            let what = mistakes::not_on_template(&short(kind).to_string(), field);
            format!("metadata.{field}[\"{key}\"]: {what}; write it under {at}metadata.{field}")
        })
        .collect()
}
