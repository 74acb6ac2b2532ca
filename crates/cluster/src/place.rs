//! What is to stand on objects that others made, and how it is written there.

use crate::state::Target;
use divvy_api::Failure;
use divvy_api::resources::{NODES, PODS};
use divvy_engine::{ObjectKey, Scheduler};
use divvy_words::{keys, reservation};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::fmt;

/// Where something is to stand. What it says is a text, or nothing if it is not to be there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// On a reservation pod: what is left of pods on its card.
    Ghosts(ObjectKey),
    /// On a reservation pod: that it is ours, and of this group.
    Group(ObjectKey),
    /// On a share that KAI bound: which cards it has.
    Cards(Target),
    /// On a node: the taint that keeps other schedulers off. It says nothing but that.
    Taint(Box<str>),
    /// On a pod, in a condition of this name: what is wrong with its cards.
    Condition(ObjectKey, &'static str),
}

impl Place {
    /// The path of what is to be changed, and the change. Of a node the list of taints is changed as a
    /// whole, which takes more than this: [`with_taint`].
    pub(crate) fn patch(&self, uid: &str, text: Option<&str>) -> (String, Value) {
        match self {
            Self::Ghosts(key) => {
                (path(key), json!({ "metadata": { "annotations": { keys::GHOSTS: text } } }))
            }
            Self::Group(key) => {
                let labels = reservation::our_labels(text.unwrap_or_default());
                (path(key), json!({ "metadata": { "labels": labels } }))
            }
            Self::Cards(pod) => {
                let metadata = json!({ "uid": uid, "annotations": { keys::CARDS: text } });
                (format!("{}/status", path(&pod.key)), json!({ "metadata": metadata }))
            }
            Self::Taint(node) => (NODES.path_of("", node), Value::Null),
            Self::Condition(key, reason) => {
                let condition = json!({
                    "type": reservation::condition(reason),
                    "status": if text.is_some() { "True" } else { "False" },
                    "reason": reason,
                    "message": text.unwrap_or("it is over"),
                    "lastTransitionTime": format!("{:.0}", Timestamp::now()),
                });
                let status = json!({ "conditions": [condition] });
                let body = json!({ "metadata": { "uid": uid }, "status": status });
                (format!("{}/status", path(key)), body)
            }
        }
    }

    /// The uid that a write names, so that it reaches no other object of that name; empty where any of
    /// them will do. None if what is to be written is of one that is not there any more.
    pub(crate) fn uid(&self, scheduler: &Scheduler) -> Option<Box<str>> {
        match self {
            Self::Ghosts(_) | Self::Group(_) | Self::Taint(_) => Some("".into()),
            Self::Cards(pod) => {
                let is_there = scheduler.uid(&pod.key) == Some(&*pod.uid);
                is_there.then(|| pod.uid.clone())
            }
            Self::Condition(key, _) => Some(scheduler.uid(key).unwrap_or_default().into()),
        }
    }

    /// Whether it is over once it is there: the object says it by itself from then on.
    pub(crate) const fn is_written_once(&self) -> bool {
        matches!(self, Self::Cards(_))
    }

    /// The pod that is warned when something comes to stand here, and of what.
    pub(crate) const fn warns(&self) -> Option<(&ObjectKey, &'static str)> {
        match self {
            Self::Condition(key, reason) => Some((key, *reason)),
            Self::Ghosts(_) | Self::Group(_) | Self::Cards(_) | Self::Taint(_) => None,
        }
    }

    /// Whether this answer says that there is nothing to write on any more: it is gone, or another
    /// one of that name, which says itself what is on it.
    pub(crate) const fn is_over(&self, failure: &Failure) -> bool {
        match self {
            Self::Cards(_) | Self::Condition(..) => {
                matches!(failure, Failure::NotFound(_) | Failure::Conflict(_))
            }
            Self::Ghosts(_) => matches!(failure, Failure::NotFound(_)),
            Self::Group(_) | Self::Taint(_) => false,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ghosts(key) => write!(f, "what is left of pods on the card of {key}"),
            Self::Group(key) => write!(f, "the group of {key}"),
            Self::Cards(pod) => write!(f, "the cards of {}", pod.key),
            Self::Taint(node) => write!(f, "the taint {} of {node}", keys::UNSETTLED),
            Self::Condition(key, reason) => write!(f, "the condition {reason} of {key}"),
        }
    }
}

/// What to change of a node so that it has our taint, or not, if that has to be changed; only for the
/// version that was read.
pub(crate) fn with_taint(node: &Value, on: bool) -> Option<Value> {
    let is_ours = |taint: &Value| taint["key"] == keys::UNSETTLED;
    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    if taints.iter().any(is_ours) == on {
        return None;
    }
    taints.retain(|taint| !is_ours(taint));
    if on {
        taints.push(json!({ "key": keys::UNSETTLED, "effect": "NoSchedule" }));
    }
    let version = &node["metadata"]["resourceVersion"];
    Some(json!({ "metadata": { "resourceVersion": version }, "spec": { "taints": taints } }))
}

fn path(key: &ObjectKey) -> String {
    PODS.path_of(key.namespace(), key.name())
}
