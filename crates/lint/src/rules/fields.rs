//! Fields that Kubernetes does not have: most are a slip of the keyboard, and what stands below is
//! not read.

use crate::object::{Found, Look, WrittenObject};
use crate::rules::tables::{self, Fields, Inside};
use crate::tree::{Map, TreeNode};
use divvy_words::mistakes::{is_near, shown};

/// Stable name: no such field.
pub(crate) const UNKNOWN_FIELD: &str = "UnknownField";

/// Who does not know a field, and what comes of it.
const REFUSED: (&str, &str) =
    (UNKNOWN_FIELD, "there is no such field: kubectl refuses it, and the API server drops it");

pub(crate) fn look(look: &mut Look<'_, '_>) {
    match tables::of_kind(&look.object.kind).filter(|_| is_of_kubernetes(look.object)) {
        Some(table) => walk(look, look.object.node, table, "", REFUSED),
        // Of what other projects make pods from, the templates alone are those of Kubernetes.
        None => {
            for pod in look.object.pods().iter().filter(|pod| !pod.path.is_empty()) {
                let path = pod.path.trim_end_matches('.');
                walk(look, pod.node, &tables::TEMPLATE, path, REFUSED);
            }
        }
    }
}

fn is_of_kubernetes(object: &WrittenObject<'_>) -> bool {
    match object.group() {
        "" | "apps" | "batch" | "extensions" => true,
        "resource.k8s.io" => object.api_version != "resource.k8s.io/v1beta1",
        _ => false,
    }
}

/// Finds the fields of a map, and of what is in it, that a table does not have. They have a stable name,
/// and something is said of them.
pub(super) fn walk(
    look: &mut Look<'_, '_>,
    node: &TreeNode,
    table: &Fields,
    path: &str,
    (stable, nothing): (&'static str, &str),
) {
    let said = (stable, nothing);
    let Some(map) = node.as_map() else { return };
    let mut taken: Vec<&str> = Vec::new();
    for (name, key, value) in map.named() {
        if look.is_full() {
            return;
        }
        let field = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        if table.known.contains(&name) || name == "<<" {
            match table.inside.iter().find(|(inside, _)| *inside == name) {
                Some((_, Inside::Map(inner))) => walk(look, value, inner, &field, said),
                Some((_, Inside::List(inner))) => {
                    for (at, item) in value.as_list().unwrap_or_default().iter().enumerate() {
                        walk(look, item, inner, &format!("{field}[{at}]"), said);
                    }
                }
                None => {}
            }
            continue;
        }
        let field = match path.is_empty() {
            true => shown(name),
            false => format!("{path}.{}", shown(name)),
        };
        let found = |what: &str, next: String| {
            Found::new(stable, key, field.clone(), what.to_owned(), next)
        };
        let Some(meant) = meant(name, table, map) else {
            let next = match table.elsewhere.iter().find(|(other, _)| *other == name) {
                Some((_, place)) => format!("write it under {place}"),
                None => "take it away, or write the field that is meant".to_owned(),
            };
            let found = found(nothing, next);
            look.note(found);
            continue;
        };
        let is_free = map.entry(meant).is_none() && !taken.contains(&meant);
        let edit = is_free.then(|| look.source.rename(key, meant)).flatten();
        taken.extend(edit.is_some().then_some(meant));
        let found = found(nothing, format!("write {meant}")).mended(edit.map(|edit| vec![edit]));
        look.note(found);
    }
}

/// The field that was meant: in other cases, one more or one less, or a slip of the keyboard.
fn meant(name: &str, table: &Fields, map: &Map) -> Option<&'static str> {
    if table.elsewhere.iter().any(|(other, _)| *other == name) {
        return None;
    }
    let plain = name.to_ascii_lowercase().replace(['_', '-'], "");
    let same = |known: &&&str| known.eq_ignore_ascii_case(&plain);
    let plural = |known: &&&str| {
        let known = known.to_ascii_lowercase();
        known.strip_suffix('s') == Some(&plain) || plain.strip_suffix('s') == Some(&known)
    };
    let near = |known: &&&str| known.len() > 4 && is_near(&plain, &known.to_ascii_lowercase());
    let known = || table.known.iter().filter(|known| map.entry(known).is_none());
    known().find(same).or_else(|| known().find(plural)).or_else(|| known().find(near)).copied()
}
