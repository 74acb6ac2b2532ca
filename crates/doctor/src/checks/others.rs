//! Schedulers of other projects beside divvy.

use crate::finding::Finding;
use crate::fix::fix;
use crate::objects::ObservedPod;
use crate::observed::{KUBE_SYSTEM, Observed, SCHEDULER_CONFIG};
use divvy_words::keys;

pub(super) fn check(cluster: &Observed) -> Vec<Finding> {
    if cluster.schedulers().next().is_none() {
        return Vec::new();
    }
    let mut found = beside(cluster);
    found.extend(same_name(cluster));
    found
}

/// A profile of kube-scheduler, or of what is made of it, with a name that divvy serves: both place the
/// pods that name it.
fn same_name(cluster: &Observed) -> Option<Finding> {
    let served = cluster.scheduler_names();
    let in_kube_system = cluster.other_maps.iter().flatten();
    let in_kube_system = in_kube_system.filter(|map| map.metadata.namespace == KUBE_SYSTEM);
    let (mut seen, mut is_read, mut first) = (Vec::new(), false, None);
    for map in in_kube_system {
        for (key, text) in &map.data {
            for name in profiles(text).into_iter().filter(|name| served.contains(name)) {
                let place = map.metadata.key();
                seen.push(format!("configmap {place} data[{key:?}]: a profile is called {name}"));
                first.get_or_insert(&map.metadata.name);
            }
        }
        let is_its = |pod: &&ObservedPod| {
            let maps = pod.spec.volumes.iter().filter_map(|volume| volume.config_map.as_ref());
            pod.metadata.namespace == KUBE_SYSTEM
                && maps.into_iter().any(|one| one.name == map.metadata.name)
        };
        if first == Some(&map.metadata.name) {
            let readers: Vec<_> = cluster.pods.iter().filter(is_its).collect();
            is_read |= !readers.is_empty();
            seen.extend(readers.iter().map(|pod| format!("pod {} reads it", pod.metadata.key())));
        }
    }
    let (name, what) = (first?, "another scheduler has a name of divvy's: both place its pods");
    let finding = match is_read {
        true => Finding::problem("another-scheduler", what),
        false => Finding::warning("another-scheduler", what),
    };
    Some(finding.seen_at(seen).fix(fix!(
        "kubectl -n kube-system edit configmap {name}   # another schedulerName, then restart what reads it",
        name
    )))
}

/// The names of the profiles in a config of kube-scheduler.
fn profiles(text: &str) -> Vec<String> {
    if !text.contains(SCHEDULER_CONFIG) {
        return Vec::new();
    }
    let documents = divvy_words::untyped(text).unwrap_or_default();
    let configs = documents.iter().filter(|document| document["kind"] == SCHEDULER_CONFIG);
    let profiles = configs.filter_map(|config| config["profiles"].as_array()).flatten();
    profiles.filter_map(|profile| profile["schedulerName"].as_str()).map(str::to_owned).collect()
}

fn beside(cluster: &Observed) -> Vec<Finding> {
    let served = cluster.scheduler_names().join(",");
    let projects = [
        (keys::KAI_SCHEDULER, "kai-beside", "KAI", "kai-scheduler"),
        (keys::KOORDINATOR_SCHEDULER, "koordinator-beside", "Koordinator", "koordinator-system"),
    ];
    let beside =
        |(scheduler, name, project, namespace): (&'static str, &'static str, &str, &str)| {
            let pods: Vec<_> =
                cluster.pods.iter().filter(|pod| pod.other == Some(scheduler)).collect();
            if pods.is_empty() {
                return None;
            }
            let serves = served.split(',').any(|name| name == scheduler);
            let what = if serves {
                format!("{project}'s scheduler runs, so divvy leaves pods of {scheduler} to it")
            } else {
                format!(
                    "{project}'s scheduler runs beside divvy: both must not share cards of one node"
                )
            };
            Some(
                Finding::warning(name, what)
                    .seen_at(pods.iter().map(|pod| format!("pod {}", pod.metadata.key())))
                    .seen(format!("divvy serves {served}"))
                    .fix(fix!(
                        "kubectl -n {namespace} scale deploy --all --replicas=0   # to hand over: \
                     docs/gpu-sharing.md",
                        namespace
                    )),
            )
        };
    projects.into_iter().filter_map(beside).collect()
}
