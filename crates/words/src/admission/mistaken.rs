//! Names in a new pod that nobody reads: the same mistakes that `divvy lint` finds in files.

use super::pod::ReviewedPod;
use crate::mistakes::{Mistake, PodField, mistake};
use crate::problem::short;

/// So many names of resources are looked at.
pub(super) const MOST_RESOURCES: usize = 64;

/// Names that nobody reads, as `divvy lint` finds them, each with the stable name of the mistake: the
/// pod would run without what it asks for. `at` is where the pod stands in what makes it.
pub(super) fn mistaken<'a>(
    pod: &'a ReviewedPod<'_>,
    at: &'a str,
) -> impl Iterator<Item = (&'static str, String)> + 'a {
    let [annotations, labels] = &pod.suspects;
    let told = move |field: &str, name: &str, mistake: &Mistake| {
        let text = format!("{at}{field}[\"{}\"]: {}; {}", short(name), mistake.what, mistake.next);
        (mistake.name, text)
    };
    let annotations = annotations.mistakes(PodField::Annotations);
    let annotations = annotations.map(move |(key, why)| told("metadata.annotations", key, &why));
    let labels = labels.mistakes(PodField::Labels);
    let labels = labels.map(move |(key, why)| told("metadata.labels", key, &why));
    let resources = pod.containers().flat_map(|(part, container)| {
        let names = container.resources.limits.iter().map(|(name, _)| name);
        names.map(move |name| (part, name))
    });
    let resources = resources.take(MOST_RESOURCES).filter_map(move |(part, name)| {
        let why = mistake(PodField::Resources, name)?;
        Some(told(&format!("{}.resources.limits", part.place.field()), name, &why))
    });
    annotations.chain(labels).chain(resources)
}
