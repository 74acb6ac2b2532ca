//! The pods that hold shared cards, and what they need.

use super::compare::Expected;
use crate::finding::Finding;
use crate::fix::fix;
use crate::objects::{ObservedPod, Quota};
use crate::observed::Observed;
use divvy_words::reservation::{NAMESPACE, PRIORITY_CLASS};
use serde_json::json;

/// What a container waits for while all is well.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

pub(super) fn check(cluster: &Observed) -> Vec<Finding> {
    if !cluster.shares_cards() {
        return Vec::new();
    }
    let found = [
        without_namespace(cluster),
        without_class(cluster),
        without_runtime(cluster),
        without_room(cluster),
    ];
    found.into_iter().flatten().chain(failing(cluster)).collect()
}

fn without_namespace(cluster: &Observed) -> Option<Finding> {
    cluster.namespaces.lacks(|place| place.metadata.name == NAMESPACE).then(|| {
        Finding::problem(
            "no-reservation-namespace",
            "reservations have no namespace: no share gets a card",
        )
        .seen(format!("no Namespace {NAMESPACE}"))
        .fix(Expected::seen(cluster).apply(&["namespaces.yaml", "scheduler.yaml"]))
    })
}

fn without_class(cluster: &Observed) -> Option<Finding> {
    cluster.priority_classes.lacks(|class| class.metadata.name == PRIORITY_CLASS).then(|| {
        Finding::problem(
            "no-priority-class",
            "reservations cannot be made: their priority class is missing",
        )
        .seen(format!("no PriorityClass {PRIORITY_CLASS}"))
        .fix(Expected::seen(cluster).apply_or(fix!(
            "kubectl create priorityclass {PRIORITY_CLASS} --value=1000000000 --preemption-policy=Never \
             --description='Pods of divvy that hold shared cards.'"
        )))
    })
}

/// By the runtime of that class containers get their cards.
fn without_runtime(cluster: &Observed) -> Option<Finding> {
    let option = |one: &crate::objects::Workload| {
        one.option("reservation-runtime-class").unwrap_or("nvidia").to_owned()
    };
    let name = cluster.schedulers().map(option).find(|name| !name.is_empty())?;
    cluster.runtime_classes.lacks(|class| class.metadata.name == name).then(|| {
        let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
            "metadata": {"name": name}, "handler": "nvidia"});
        Finding::problem(
            "no-runtime-class",
            "shares and reservations cannot start: their RuntimeClass is missing",
        )
        .seen(format!("no RuntimeClass {name}"))
        .fix(fix!("echo {class} | kubectl create -f -", class = class.to_string()))
    })
}

/// A quota that is used up lets no reservation be made.
fn without_room(cluster: &Observed) -> Option<Finding> {
    let full = |quota: &Quota| {
        let used = |resource: &String| quota.status.used.get(resource);
        let full = quota.status.hard.iter().filter(|(resource, hard)| used(resource) == Some(hard));
        let places: Vec<String> = full
            .map(|(resource, hard)| {
                format!("resourcequota {}: {resource} {hard} of {hard} used", quota.metadata.key())
            })
            .collect();
        places
    };
    let seen: Vec<String> = cluster.quotas.iter().flat_map(full).collect();
    (!seen.is_empty()).then(|| {
        let quota = cluster.quotas.iter().find(|quota| !full(quota).is_empty());
        let name = quota.map_or("", |quota| &quota.metadata.name);
        Finding::problem(
            "reservation-quota",
            "no more cards can be shared: a quota of the reservations is used up",
        )
        .seen_at(seen)
        .fix(fix!("kubectl -n {NAMESPACE} delete resourcequota {name}   # or raise it", name))
    })
}

/// Reservations that do not start, by the reason.
fn failing(cluster: &Observed) -> Vec<Finding> {
    let why = |pod: &ObservedPod| -> Option<(&'static str, String)> {
        if pod.metadata.namespace != NAMESPACE {
            return None;
        }
        let mut containers = pod.status.container_statuses.iter();
        let waiting = containers.find_map(|status| status.state.waiting.as_ref());
        let waiting = waiting.filter(|waiting| !STARTING.contains(&&*waiting.reason));
        let (reason, message) = match waiting {
            Some(waiting) => (&waiting.reason, &waiting.message),
            None if pod.status.phase == "Failed" => (&pod.status.reason, &pod.status.message),
            None => return None,
        };
        let place = format!("pod {} on {}", pod.metadata.key(), pod.spec.node_name);
        Some((cause(reason), format!("{place}: {reason}: {message}")))
    };
    let all: Vec<(&ObservedPod, &'static str, String)> = cluster
        .pods
        .iter()
        .filter_map(|pod| why(pod).map(|(cause, text)| (pod, cause, text)))
        .collect();
    let found = |(cause, what): (&'static str, &str)| {
        let of: Vec<_> = all.iter().filter(|(_, its, _)| *its == cause).collect();
        let (pod, _, _) = of.first()?;
        let image = pod.spec.containers.first().map_or("", |container| &container.image);
        let node = &pod.spec.node_name;
        let fix = match cause {
            IMAGE => fix!(
                "# put the image {image} where {node} finds it, or start the scheduler with \
                 --reservation-image",
                image,
                node
            ),
            ROOM => {
                fix!("kubectl describe node {node}   # make room, or raise its limit of pods", node)
            }
            _ => fix!("kubectl -n {NAMESPACE} describe pod {pod}", pod = pod.metadata.name),
        };
        let finding = Finding::problem(cause, what).fix(fix);
        Some(finding.seen_at(of.iter().map(|(_, _, text)| text.clone())))
    };
    let causes = [
        (IMAGE, "reservations cannot start: their image is not there"),
        (ROOM, "reservations cannot start: their node has no room for them"),
        (OTHER, "reservations do not start"),
    ];
    causes.into_iter().filter_map(found).collect()
}

const IMAGE: &str = "reservation-image";
const ROOM: &str = "reservation-room";
const OTHER: &str = "reservation-failing";

fn cause(reason: &str) -> &'static str {
    match reason {
        _ if reason.contains("Image") => IMAGE,
        "OutOfpods" | "OutOfcpu" | "OutOfmemory" => ROOM,
        _ => OTHER,
    }
}
