//! Kinds and versions that the API server does not know, or not any more.

use crate::edit::{Edit, New};
use crate::object::{Found, Look};
use divvy_words::mistakes::{is_near, shown};

/// Stable name: no such kind.
pub(crate) const UNKNOWN_KIND: &str = "UnknownKind";
/// Stable name: a version that this kind does not have, or not any more.
pub(crate) const WRONG_VERSION: &str = "WrongVersion";

/// Kinds that have to do with GPUs, and the version of each that is meant.
const KINDS: [(&str, &str); 17] = [
    ("Pod", "v1"),
    ("Deployment", "apps/v1"),
    ("StatefulSet", "apps/v1"),
    ("ReplicaSet", "apps/v1"),
    ("DaemonSet", "apps/v1"),
    ("Job", "batch/v1"),
    ("CronJob", "batch/v1"),
    ("ReplicationController", "v1"),
    ("ConfigMap", "v1"),
    ("Namespace", "v1"),
    ("Node", "v1"),
    ("Service", "v1"),
    ("PriorityClass", "scheduling.k8s.io/v1"),
    ("DeviceClass", "resource.k8s.io/v1"),
    ("ResourceClaim", "resource.k8s.io/v1"),
    ("ResourceClaimTemplate", "resource.k8s.io/v1"),
    ("ClusterPolicy", "nvidia.com/v1"),
];

/// What to write instead of a kind or version that the API server does not know, or not any more.
pub fn meant(kind: &str, api_version: &str) -> Option<String> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    if !is_own(group) {
        return None;
    }
    if let Some(meant) = meant_kind(kind) {
        return Some(format!("write kind: {meant} for {}", shown(kind)));
    }
    let (_, right) = KINDS.iter().find(|(known, _)| *known == kind)?;
    let is_wrong = !api_version.is_empty() && api_version != *right;
    is_wrong.then(|| format!("write apiVersion: {right} for {}", shown(kind)))
}

/// The kind of Kubernetes that was meant by one that there is not.
fn meant_kind(kind: &str) -> Option<&'static str> {
    if KINDS.iter().any(|(known, _)| *known == kind) {
        return None;
    }
    let plain = kind.to_ascii_lowercase().replace(['_', '-'], "");
    let singular = plain.strip_suffix('s').unwrap_or(&plain);
    let same = |(known, _): &&(&str, &str)| {
        let known = known.to_ascii_lowercase();
        known == plain || known == singular || (known.len() > 4 && is_near(&plain, &known))
    };
    KINDS.iter().find(same).map(|(known, _)| *known)
}

/// Whether an `apiVersion` is of Kubernetes itself, or missing.
fn is_own(group: &str) -> bool {
    matches!(group, "" | "apps" | "batch" | "extensions" | "resource.k8s.io" | "scheduling.k8s.io")
}

pub(crate) fn look(look: &mut Look<'_, '_>) {
    let object = look.object;
    let (group, version) = (object.group(), &*object.api_version);
    if let Some(meant) = meant_kind(&object.kind).filter(|_| is_own(group)) {
        let Some(node) = object.node.get("kind") else { return };
        let edit = look.source.replace(node, meant).map(|edit| vec![edit]);
        let what = format!("there is no kind {}", shown(&object.kind));
        let found =
            Found::new(UNKNOWN_KIND, node, "kind".to_owned(), what, format!("write {meant}"));
        look.note(found.mended(edit));
        return;
    }
    let Some((_, right)) = KINDS.iter().find(|(kind, _)| *kind == object.kind) else { return };
    let Some(node) = object.node.get("apiVersion") else {
        if object.api_version.is_empty()
            && let Some(kind) = object.node.get("kind")
        {
            let edit = look.source.insert_first(object.node, &[("apiVersion", New::Plain(right))]);
            let found = Found::new(
                WRONG_VERSION,
                kind,
                "apiVersion".to_owned(),
                "it is missing, and kubectl refuses the object",
                format!("write apiVersion: {right}"),
            );
            look.note(found.mended(edit.map(|edit| vec![edit])));
        }
        return;
    };
    let is_right = version == *right
        || (group == "resource.k8s.io" && right.starts_with(group) && !version.contains("alpha"))
        || !is_own(group)
        || *right == "nvidia.com/v1";
    if is_right {
        return;
    }
    let is_old = matches!(
        version,
        "extensions/v1beta1" | "apps/v1beta1" | "apps/v1beta2" | "batch/v1beta1" | "batch/v2alpha1"
    );
    let what = match is_old {
        true => {
            let since = match group {
                "batch" => "1.25",
                _ => "1.16",
            };
            format!("{version} is gone since Kubernetes {since}")
        }
        false => format!("{} has no {}", shown(version), object.kind),
    };
    let edits = || {
        let mut edits = vec![look.source.replace(node, right)?];
        edits.extend(if is_old { selector(look) } else { None });
        Some(edits)
    };
    let found =
        Found::new(WRONG_VERSION, node, "apiVersion".to_owned(), what, format!("write {right}"));
    let found = found.mended(edits());
    look.note(found);
}

/// What the old versions filled in by themselves and the new one asks for: the labels of the pods.
fn selector(look: &Look<'_, '_>) -> Option<Edit> {
    let spec = look.object.node.get("spec")?;
    let is_one_of_these =
        matches!(&*look.object.kind, "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet");
    if !is_one_of_these || spec.get("selector").is_some() {
        return None;
    }
    let labels = spec.find(&["template", "metadata", "labels"])?.as_map()?;
    let labels: Vec<(&str, New<'_>)> = labels
        .entries
        .iter()
        .map(|(key, value)| Some((key.text()?, New::Text(value.text()?))))
        .collect::<Option<_>>()?;
    let selector = [("matchLabels", New::Map(&labels))];
    (!labels.is_empty())
        .then(|| look.source.insert_first(spec, &[("selector", New::Map(&selector))]))
        .flatten()
}
