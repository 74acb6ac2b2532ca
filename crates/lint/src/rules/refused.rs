//! What divvy itself would refuse, and fields of the wrong type.

use super::{names, resources};
use crate::object::{Found, Look, WrittenPod};
use crate::tree::{Style, TreeNode};
use divvy_words::manifest::{Metadata, Template};
use divvy_words::mistakes::shown;
use divvy_words::{Content, Entry, Object, PodManifest, PodRules, Priorities, keys};
use std::cmp::Reverse;

/// Stable name: a field has a value of the wrong type.
pub(crate) const WRONG_TYPE: &str = "WrongType";
/// Stable name: divvy refuses the pod.
pub(crate) const REFUSED: &str = "RefusedPod";

/// How the end of a reason begins that says what to do.
const NEXT: [&str; 9] = [
    ": write ", ": add ", ": take ", "; write ", "; add ", "; take ", "; set ", ", write ",
    ", put ",
];

/// Maps whose values are texts, whatever they look like.
const OF_TEXTS: [&str; 3] = ["metadata.annotations[", "metadata.labels[", "spec.nodeSelector["];

/// Findings that say it better.
const SAID: [&str; 3] =
    [resources::FRACTIONAL, resources::SHARE_BESIDE_WHOLE, names::MISSPELT_SCHEDULER];

pub(crate) fn look(look: &mut Look<'_, '_>, rules: &PodRules) {
    match look.object.entry {
        None => {}
        Some(Entry::Malformed { error, .. }) => {
            let (field, what) = error.split_once(": ").unwrap_or(("", error));
            let at = look.object.node.at_field(field).unwrap_or(look.object.node);
            // `name: 1` and `name: n` are a number and a boolean.
            let is_bare = what.ends_with("expected a string") && !is_text(at);
            let edit = is_bare.then(|| look.source.quote(at)).flatten();
            let next = if is_bare { "put it in quotes" } else { "write a value of that type" };
            let found = Found::new(WRONG_TYPE, at, shown(field), what.to_owned(), next);
            look.note(found.mended(edit.map(|edit| vec![edit])));
        }
        Some(Entry::Object(object)) => {
            let pods = look.object.pods();
            let whys = if look.has(&SAID) { Vec::new() } else { refusals(object, rules) };
            for (pod, why) in pods.iter().zip(whys) {
                why.into_iter().for_each(|why| refused(look, pod, &why));
            }
        }
    }
}

/// Why divvy refuses the pods of an object, in the order of their templates.
fn refusals(object: &Object, rules: &PodRules) -> Vec<Option<String>> {
    let Object { kind, api_version, metadata: owner, content } = object;
    let of_template = |template: &Template| {
        let mut metadata = template.metadata.clone();
        metadata.name = owner.name.clone();
        metadata.namespace = owner.namespace.clone();
        invalid(&metadata, &template.spec, Some(owner))
    };
    match content {
        Content::Pod(spec, _) if spec.node_name.is_empty() => vec![invalid(owner, spec, None)],
        Content::Workload(workload) => vec![of_template(&workload.template)],
        Content::Foreign(spec) => {
            let found = rules.pods(kind, api_version, spec);
            let found = found.and_then(Result::ok).unwrap_or_default();
            found.iter().map(|pods| of_template(&pods.template)).collect()
        }
        _ => Vec::new(),
    }
}

fn refused(look: &mut Look<'_, '_>, pod: &WrittenPod<'_>, why: &str) {
    // KAI's texts name the annotation; those of divvy begin with the field.
    let (field, what) = match why.split_once(": ") {
        Some((field, what)) if pod.node.at_field(field).is_some() => (field, what),
        _ => ("", why),
    };
    let named = named(what, pod);
    let annotation = named.and_then(|key| pod.annotation(key));
    let at =
        pod.node.at_field(field).filter(|_| !field.is_empty()).or(annotation).unwrap_or(pod.node);
    let is_of_texts = OF_TEXTS.iter().any(|map| field.starts_with(map)) && !is_text(at);
    let edit = is_of_texts.then(|| look.source.quote(at)).flatten();
    let field = match (field, named) {
        ("", Some(key)) => format!("{}metadata.annotations[\"{key}\"]", pod.path),
        ("", None) => format!("{}spec", pod.path),
        (field, _) => format!("{}{field}", pod.path),
    };
    // Most reasons end with what to do.
    let ends = NEXT.iter().filter_map(|start| Some(what.rfind(start)? + ": ".len()));
    let (what, next) = match ends.max() {
        Some(end) => (&what[..end - ": ".len()], &what[end..]),
        None if what.starts_with("cannot have both") => (what, "take one of the two away"),
        None => (what, "write what is allowed (docs/requests.md)"),
    };
    let what = format!("divvy refuses the pod: {what}");
    look.note(Found::new(REFUSED, at, field, what, next).mended(edit.map(|edit| vec![edit])));
}

/// Whether a value is read as a text.
fn is_text(node: &TreeNode) -> bool {
    let plain = node.as_scalar().filter(|scalar| scalar.style == Style::Plain);
    let read = plain.and_then(|scalar| divvy_words::untyped(&scalar.text).ok());
    let read = read.and_then(|values| values.into_iter().next());
    !read.is_some_and(|value| value.is_number() || value.is_boolean())
}

/// The annotation that a reason is about: of those that the pod has the one that it names first.
fn named(what: &str, pod: &WrittenPod<'_>) -> Option<&'static str> {
    let keys = keys::REQUEST.into_iter().filter(|key| pod.annotation(key).is_some());
    // One key is the start of another.
    keys.filter_map(|key| Some((what.find(key)?, Reverse(key.len()), key)))
        .min()
        .map(|(.., key)| key)
}

fn invalid(metadata: &Metadata, spec: &PodManifest, owner: Option<&Metadata>) -> Option<String> {
    // That claims are not supported yet is no mistake of the file.
    if spec.resource_claims > 0 {
        return None;
    }
    divvy_words::pod(metadata, spec, None, owner, &Priorities::default()).invalid
}
