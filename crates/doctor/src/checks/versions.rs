//! Which version of divvy each part is of: its scheduler, its webhooks, what puts providers on nodes, the
//! reservation pods, and this binary, which says here what is wrong and how it is mended.

use super::compare::{Expected, VERSION};
use crate::finding::Finding;
use crate::fix::{Fix, fix};
use crate::objects::{Metadata, ObservedPod, Workload};
use crate::observed::Observed;
use divvy_words::reservation::NAMESPACE;

/// The label of the reservation pods that divvy makes.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const DIVVY: &str = "divvy";

pub(super) fn check(cluster: &Observed) -> Option<Finding> {
    let scheduler = cluster.schedulers().next()?;
    let works: Vec<(&'static str, &Workload)> = cluster
        .schedulers()
        .chain(cluster.admissions())
        .map(|one| ("deployment", one))
        .chain(cluster.providers().map(|one| ("daemonset", one)))
        .collect();
    let asked = reservation_image(scheduler);
    let old: Vec<&ObservedPod> = reservations(cluster)
        .filter(|pod| asked.as_ref().is_some_and(|asked| image(pod) != asked))
        .collect();
    let is_skewed = works.iter().any(|(_, one)| one.image() != scheduler.image());
    let of_scheduler = version(scheduler.image());
    let is_other = of_scheduler.is_some_and(|version| version != VERSION);
    if !is_skewed && old.is_empty() && !is_other {
        return None;
    }
    let seen =
        |(kind, one): &(&str, &Workload)| format!("{kind} {}: {}", one.metadata.key(), one.image());
    let mut finding = Finding::warning("version-skew", "parts of divvy are of different versions")
        .seen_at(works.iter().map(seen));
    if !old.is_empty() {
        let asked = asked.unwrap_or_default();
        finding = finding
            .seen_at(old.iter().map(|pod| format!("pod {}: {}", pod.metadata.key(), image(pod))))
            .seen(format!("the scheduler makes reservations with {asked}"));
    }
    if is_other {
        finding = finding.seen(format!("this divvy, which looks at the cluster: {VERSION}"));
    }
    let is_begun = works.iter().any(|(_, one)| version(one.image()) == Some(VERSION));
    Some(finding.fix(match of_scheduler {
        // It would bring back what it knows itself, and that may be older.
        Some(version) if is_other && !is_begun => {
            fix!("# look with divvy {version}: this one finds and mends what is otherwise than its own", version)
        }
        _ if is_skewed => of_workloads(cluster, &works),
        _ => "# nothing: a reservation keeps its image until the last share on its card has ended".into(),
    }))
}

/// All get the image of this version, if one has it, else that of the scheduler.
fn of_workloads(cluster: &Observed, works: &[(&str, &Workload)]) -> Fix {
    let here = Expected::seen(cluster);
    let files = ["scheduler.yaml", "admission.yaml"];
    if cluster.release().is_some() {
        return here.apply_over(&[]);
    }
    let images = || works.iter().map(|(_, one)| one.image());
    let ours = images().find(|image| version(image) == Some(VERSION));
    let Some(image) = ours.or_else(|| images().next()) else { return here.apply_over(&files) };
    let is_in_file = |kind: &str| kind == "deployment" && here.is_as_in(&files);
    let mut fix: Option<Fix> = None;
    let mut and = |line: Fix| {
        fix = Some(match fix.take() {
            Some(fix) => fix.and("\n").then(&line),
            None => line,
        });
    };
    let others = works.iter().filter(|(_, one)| one.image() != image);
    if others.clone().any(|(kind, _)| is_in_file(kind)) {
        and(here.apply_over(&files));
    }
    for (kind, one) in others.filter(|(kind, _)| !is_in_file(kind)) {
        let Metadata { namespace, name, .. } = &one.metadata;
        let container = one.spec.template.spec.containers.first().map_or("", |first| &first.name);
        and(fix!(
            "kubectl -n {namespace} set image {kind}/{name} {container}={image}",
            namespace,
            kind,
            name,
            container,
            image
        ));
    }
    fix.unwrap_or_else(|| here.apply_over(&files))
}

/// What the scheduler makes reservations with now, if that is known here.
fn reservation_image(scheduler: &Workload) -> Option<String> {
    let by_default = || Some(format!("{DIVVY}:{}", version(scheduler.image())?));
    scheduler.option("reservation-image").map(str::to_owned).or_else(by_default)
}

fn reservations(cluster: &Observed) -> impl Iterator<Item = &ObservedPod> {
    cluster.pods.iter().filter(|pod| {
        pod.metadata.namespace == NAMESPACE
            && pod.metadata.labels.is(MANAGED_BY, DIVVY)
            && !["Succeeded", "Failed"].contains(&&*pod.status.phase)
    })
}

fn image(pod: &ObservedPod) -> &str {
    pod.spec.containers.first().map_or("", |container| &container.image)
}

/// The version that the tag of an image says, if it is one.
fn version(image: &str) -> Option<&str> {
    let (name, _) = image.split_once('@').unwrap_or((image, ""));
    let (_, tag) = name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'))?;
    let tag = tag.strip_prefix('v').unwrap_or(tag);
    let numbers: Vec<&str> = tag.split(['-', '+']).next()?.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    (numbers.len() == 3 && numbers.iter().all(is_number)).then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_a_version_if_it_looks_like_one() {
        for (image, expected) in [
            ("divvy:0.1.0", Some("0.1.0")),
            ("r.example:5000/a/divvy:v1.2.3-rc.1@sha256:0", Some("1.2.3-rc.1")),
            ("divvy", None),
            ("divvy:latest", None),
            ("r.example:5000/divvy", None),
            ("divvy:1.2", None),
            ("divvy@sha256:0", None),
        ] {
            assert_eq!(version(image), expected, "{image}");
        }
    }
}
