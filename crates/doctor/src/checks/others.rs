//! Schedulers of other projects beside divvy.

use crate::finding::Finding;
use crate::fix::fix;
use crate::observed::Observed;
use divvy_words::keys;

pub(super) fn check(cluster: &Observed) -> Vec<Finding> {
    let Some(ours) = cluster.schedulers().next() else { return Vec::new() };
    let served = ours.option("scheduler-names").map(str::to_owned);
    let served = served.unwrap_or_else(|| keys::SCHEDULER_NAMES.join(","));
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
