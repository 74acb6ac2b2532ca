//! Pods that say what is wrong with their cards.

use crate::finding::Finding;
use crate::objects::ObservedPod;
use crate::observed::Observed;
use divvy_words::reservation::{CONFLICT, MISSING, MIXED, UNPROVIDED, condition};

const TROUBLES: [(&str, &str, &str, &str); 4] = [
    (
        CONFLICT,
        "card-conflict",
        "cards of running shares were given to other pods, too",
        "kubectl delete pod POD   # the one that came last, and its owner makes it anew",
    ),
    (
        MISSING,
        "card-missing",
        "cards of running shares are not handed out by the device plugin",
        "kubectl describe node NODE   # is the card healthy, and the device plugin running?",
    ),
    (
        MIXED,
        "card-mixed",
        "cards have shares of two isolation classes, and take nobody new",
        "kubectl delete pod POD   # those of one of the two classes",
    ),
    (
        UNPROVIDED,
        "provider-missing",
        "Isolated shares run on nodes that lost their provider",
        "kubectl apply -f deploy/provider.yaml   # the log of its pod on that node says why not",
    ),
];

pub(super) fn check(cluster: &Observed) -> Vec<Finding> {
    let found = |(reason, name, what, fix): (&str, &'static str, &str, &str)| {
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
        let (first, _) = all.first()?;
        let (namespace, pod) = (&first.metadata.namespace, &first.metadata.name);
        let fix = fix.replace("pod POD", &format!("pod -n {namespace} {pod}"));
        let fix = fix.replace("NODE", &first.spec.node_name);
        let finding = Finding::problem(name, what).fix(fix);
        Some(finding.seen_at(all.iter().map(|(_, text)| text.clone())))
    };
    TROUBLES.into_iter().filter_map(found).collect()
}
