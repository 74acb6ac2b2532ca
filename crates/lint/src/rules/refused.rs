//! What divvy itself would refuse, and fields of the wrong type.

use super::{names, resources};
use crate::object::{Found, Look};
use crate::tree::TreeNode;
use divvy_words::manifest::Metadata;
use divvy_words::mistakes::shown;
use divvy_words::{Content, Entry, Object, PodManifest, Priorities};

/// Stable name: a field has a value of the wrong type.
pub(crate) const WRONG_TYPE: &str = "WrongType";
/// Stable name: divvy refuses the pod.
pub(crate) const REFUSED: &str = "RefusedPod";

/// Findings that say it better.
const SAID: [&str; 3] =
    [resources::FRACTIONAL, resources::SHARE_BESIDE_WHOLE, names::MISSPELT_SCHEDULER];

pub(crate) fn look(look: &mut Look<'_, '_>) {
    match look.object.entry {
        None => {}
        Some(Entry::Malformed { error, .. }) => {
            let (field, what) = error.split_once(": ").unwrap_or(("", error));
            let at = find(look.object.node, field).unwrap_or(look.object.node);
            let next = "write a value of that type";
            look.note(Found::new(WRONG_TYPE, at, shown(field), what.to_owned(), next));
        }
        Some(Entry::Object(object)) => refused(look, object),
    }
}

fn refused(look: &mut Look<'_, '_>, object: &Object) {
    let owner = &object.metadata;
    let why = match &object.content {
        Content::Pod(spec, _) if spec.node_name.is_empty() => invalid(&object.metadata, spec, None),
        Content::Workload(workload) => {
            let mut metadata = workload.template.metadata.clone();
            metadata.name = owner.name.clone();
            metadata.namespace = owner.namespace.clone();
            invalid(&metadata, &workload.template.spec, Some(owner))
        }
        _ => return,
    };
    let Some(why) = why.filter(|_| !look.has(&SAID)) else { return };
    let Some(pod) = look.object.pod() else { return };
    // KAI's texts name the annotation; those of divvy begin with the field.
    let (field, what) = match why.split_once(": ") {
        Some((field, what)) if find(pod.node, field).is_some() => (field, what),
        _ => ("", &*why),
    };
    let named = ["gpu-fraction", "gpu-memory"].into_iter().find(|key| what.contains(key));
    let annotation = named.and_then(|key| pod.annotation(key));
    let at = find(pod.node, field).filter(|_| !field.is_empty()).or(annotation).unwrap_or(pod.node);
    let field = match (field, named) {
        ("", Some(key)) => format!("{}metadata.annotations[\"{key}\"]", pod.path),
        ("", None) => format!("{}spec", pod.path),
        (field, _) => format!("{}{field}", pod.path),
    };
    let next = "write what is allowed (docs/requests.md); divvy refuses the pod as it is";
    let found = Found::new(REFUSED, at, field, what.to_owned(), next);
    look.note(found);
}

fn invalid(metadata: &Metadata, spec: &PodManifest, owner: Option<&Metadata>) -> Option<String> {
    // That claims are not supported yet is no mistake of the file.
    if spec.resource_claims > 0 {
        return None;
    }
    divvy_words::pod(metadata, spec, None, owner, &Priorities::default()).invalid
}

/// The node at the end of a path as messages write it: `spec.containers[0].resources.limits["x"]`.
fn find<'a>(node: &'a TreeNode, path: &str) -> Option<&'a TreeNode> {
    let (mut node, mut rest) = (node, path);
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix("[\"") {
            let (key, behind) = inner.split_once("\"]")?;
            node = node.get(key)?;
            rest = behind;
        } else if let Some(inner) = rest.strip_prefix('[') {
            let (index, behind) = inner.split_once(']')?;
            node = node.as_list()?.get(index.parse::<usize>().ok()?)?;
            rest = behind;
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find(['.', '[']).unwrap_or(name.len());
            let (key, behind) = name.split_at_checked(end)?;
            node = node.get(key)?;
            rest = behind;
        }
    }
    Some(node)
}
