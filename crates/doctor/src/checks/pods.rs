//! Pods that say what is wrong with their cards.

use super::compare::Expected;
use crate::finding::Finding;
use crate::fix::{Fix, fix};
use crate::objects::{Metadata, ObservedPod};
use crate::observed::Observed;
use divvy_words::reservation::{CONFLICT, MISSING, MIXED, UNPROVIDED, condition};

/// Said of the pod that began last.
type FixOf = fn(&ObservedPod, &Observed) -> Fix;

const TROUBLES: [(&str, &str, &str, FixOf); 4] = [
    (
        CONFLICT,
        "card-conflict",
        "cards of running shares were given to other pods, too",
        |pod, _| delete(pod).and("   # the one that came last, and its owner makes it anew"),
    ),
    (
        MISSING,
        "card-missing",
        "cards of running shares are not handed out by the device plugin",
        |pod, _| {
            let node = &pod.spec.node_name;
            fix!(
                "kubectl describe node {node}   # is the card healthy, and the device plugin running?",
                node
            )
        },
    ),
    (
        MIXED,
        "card-mixed",
        "cards have shares of two isolation classes, and take nobody new",
        |pod, _| delete(pod).and("   # those of one of the two classes"),
    ),
    (
        UNPROVIDED,
        "provider-missing",
        "Isolated shares run on nodes that lost their provider",
        |_, cluster| match cluster.providers().next() {
            Some(set) => {
                let Metadata { namespace, name, .. } = &set.metadata;
                fix!(
                    "kubectl -n {namespace} rollout restart daemonset/{name}   # the log of its pod on that node says why not",
                    namespace,
                    name
                )
            }
            None => Expected::seen(cluster).apply(&["provider.yaml"]),
        },
    ),
];

fn delete(pod: &ObservedPod) -> Fix {
    let Metadata { namespace, name, .. } = &pod.metadata;
    fix!("kubectl delete pod -n {namespace} {name}", namespace, name)
}

pub(super) fn check(cluster: &Observed) -> Vec<Finding> {
    let found = |(reason, name, what, fix): (&str, &'static str, &str, FixOf)| {
        let kind = condition(reason);
        let message = |pod: &ObservedPod| {
            let mut all = pod.status.conditions.iter();
            let found = all.find(|one| one.kind == kind && one.status == "True")?;
            let place = format!("pod {} on {}", pod.metadata.key(), pod.spec.node_name);
            Some(format!("{place}: {}", found.message))
        };
        let with_message = |pod| Some((pod, message(pod)?));
        let all: Vec<(&ObservedPod, String)> =
            cluster.pods.iter().filter_map(with_message).collect();
        // Not the first by name, which anybody may have: who began last took what others had. A node says
        // when a pod began.
        let (last, _) = all.iter().rev().max_by_key(|(pod, _)| &pod.status.start_time)?;
        let finding = Finding::problem(name, what).fix(fix(last, cluster));
        Some(finding.seen_at(all.iter().map(|(_, text)| text.clone())))
    };
    TROUBLES.into_iter().filter_map(found).collect()
}
