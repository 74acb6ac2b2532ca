//! Names in a new pod that nobody reads: the same mistakes that `divvy lint` finds in files.

use super::pod::ReviewedPod;
use crate::mistakes::{Mistake, PodField, mistake};
use crate::problem::short;

/// More warnings than these are not read, and the API server cuts them off.
const MOST_MISTAKES: usize = 8;
/// So many names of resources are looked at.
const MOST_RESOURCES: usize = 64;

/// Names that nobody reads, as `divvy lint` finds them: the pod would run without what it asks for.
pub(super) fn mistaken(pod: &ReviewedPod<'_>) -> Vec<String> {
    let [annotations, labels] = &pod.suspects;
    let told = |field: &str, name: &str, mistake: &Mistake| {
        format!("{field}[\"{}\"]: {}; {}", short(name), mistake.what, mistake.next)
    };
    let annotations = annotations.mistakes(PodField::Annotations);
    let annotations = annotations.map(|(key, why)| told("metadata.annotations", key, &why));
    let labels = labels.mistakes(PodField::Labels);
    let labels = labels.map(|(key, why)| told("metadata.labels", key, &why));
    let resources = pod.containers().flat_map(|(part, container)| {
        let names = container.resources.limits.iter().map(|(name, _)| name);
        names.map(move |name| (part, name))
    });
    let resources = resources.take(MOST_RESOURCES).filter_map(|(part, name)| {
        let why = mistake(PodField::Resources, name)?;
        Some(told(&format!("{}.resources.limits", part.place.field()), name, &why))
    });
    annotations.chain(labels).chain(resources).take(MOST_MISTAKES).collect()
}
