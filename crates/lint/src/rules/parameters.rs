//! Parameters of NVIDIA's driver in claims and classes. The API server takes them as they are; the driver
//! reads them when a pod is to start, and refuses what it does not know.

use super::fields::walk;
use super::tables::{GPU_CONFIG, MIG_DEVICE_CONFIG};
use crate::edit::{Leave, New};
use crate::object::{Found, Look};
use crate::tree::TreeNode;
use divvy_words::mistakes::{is_near, shown};

/// Stable name: parameters that NVIDIA's driver refuses.
pub(crate) const PARAMETERS: &str = "DeviceParameters";

const VERSION: &str = "resource.nvidia.com/v1beta1";
const GPU: &str = "GpuConfig";
const MIG: &str = "MigDeviceConfig";
/// The device plugin has it.
const REPLICAS: &str = "replicas";

const STRATEGIES: [&str; 2] = ["TimeSlicing", "MPS"];
const INTERVALS: [&str; 4] = ["Default", "Short", "Medium", "Long"];

const NO_FIELD: &str =
    "NVIDIA's driver has no such field, and refuses the claim when a pod is to start";

pub(super) fn look(look: &mut Look<'_, '_>, parameters: &TreeNode, field: &str) {
    if parameters.as_map().is_none() || parameters.is_open() {
        return;
    }
    let kind = parameters.get("kind").and_then(TreeNode::text);
    let table = match kind {
        None | Some(GPU) => &GPU_CONFIG,
        Some(MIG) => &MIG_DEVICE_CONFIG,
        Some(kind) => {
            misspelt_kind(look, parameters, kind, field);
            return;
        }
    };
    head(look, parameters, field);
    replicas(look, (parameters, parameters, ""), field);
    let sharing = parameters.get("sharing");
    if let Some(sharing) = sharing {
        replicas(look, (parameters, sharing, "sharing"), &format!("{field}.sharing"));
        one_of(look, sharing, "strategy", &STRATEGIES, &format!("{field}.sharing"));
    }
    if let Some((sharing, inner)) = sharing.and_then(|node| Some((node, node.get(SLICING)?))) {
        let field = format!("{field}.sharing.{SLICING}");
        replicas(look, (sharing, inner, SLICING), &field);
        one_of(look, inner, "interval", &INTERVALS, &field);
    }
    walk(look, parameters, table, field, (PARAMETERS, NO_FIELD));
}

const SLICING: &str = "timeSlicingConfig";

/// Other kinds have other fields, which are theirs to say.
fn misspelt_kind(look: &mut Look<'_, '_>, parameters: &TreeNode, kind: &str, field: &str) {
    let plain = kind.to_ascii_lowercase();
    let meant = [GPU, MIG].into_iter().find(|known| is_near(&plain, &known.to_ascii_lowercase()));
    let (Some(meant), Some(node)) = (meant, parameters.get("kind")) else { return };
    let edit = look.source.replace(node, meant).map(|edit| vec![edit]);
    let what = format!("NVIDIA's driver has no kind {}, and refuses it", shown(kind));
    let field = format!("{field}.kind");
    look.note(Found::new(PARAMETERS, node, field, what, format!("write {meant}")).mended(edit));
}

/// Kind and version, without which nothing else is read.
fn head(look: &mut Look<'_, '_>, parameters: &TreeNode, field: &str) {
    let version = parameters.get("apiVersion");
    if let Some(node) = version.filter(|node| node.text() != Some(VERSION)) {
        let edit = look.source.replace(node, VERSION).map(|edit| vec![edit]);
        let what = "NVIDIA's driver has no such version, and refuses them";
        let next = format!("write {VERSION}");
        let field = format!("{field}.apiVersion");
        look.note(Found::new(PARAMETERS, node, field, what, next).mended(edit));
    }
    let mut lacking = vec![("apiVersion", VERSION), ("kind", GPU)];
    lacking.retain(|(name, _)| parameters.get(name).is_none());
    let Some((last, _)) = lacking.last() else { return };
    let texts: Vec<String> =
        lacking.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let entries: Vec<(&str, New<'_>)> =
        lacking.iter().map(|(name, value)| (*name, New::Plain(value))).collect();
    let edit = look.source.insert_first(parameters, &entries);
    let edit = edit.or_else(|| look.source.insert(parameters, &entries));
    let found = Found::new(
        PARAMETERS,
        parameters,
        field.to_owned(),
        format!("they have no {last}, and NVIDIA's driver refuses them when a pod is to start"),
        format!("add {}", texts.join(" and ")),
    );
    look.note(found.mended(edit.map(|edit| vec![edit])));
}

/// `replicas` in `node`, which is the field `name` of `outer`; what is empty without them goes, too.
fn replicas(
    look: &mut Look<'_, '_>,
    (outer, node, name): (&TreeNode, &TreeNode, &str),
    field: &str,
) {
    let Some((key, _)) = node.as_map().and_then(|map| map.entry(REPLICAS)) else { return };
    let gone = match node.as_map().is_some_and(|map| map.entries.len() > 1) {
        true => look.source.remove(node, &|key| key == REPLICAS, Leave::Comments),
        false => look
            .source
            .remove(outer, &|key| key == name, Leave::Comments)
            .filter(|_| outer.as_map().is_some_and(|map| map.entries.len() > 1)),
    };
    let found = Found::new(
        PARAMETERS,
        key,
        format!("{field}.{REPLICAS}"),
        NO_FIELD,
        "take it away: replicas are of the device plugin's sharing.timeSlicing; with DRA, pods share a card by one ResourceClaim for all of them",
    );
    look.note(found.mended(gone.map(|gone| gone.edits)));
}

/// A value that is none of those that the driver knows.
fn one_of(look: &mut Look<'_, '_>, node: &TreeNode, name: &str, known: &[&str], field: &str) {
    let Some(value) = node.get(name) else { return };
    let Some(text) = value.text().filter(|text| !known.contains(text)) else { return };
    let plain = text.to_ascii_lowercase().replace(['-', '_'], "");
    let meant = known.iter().find(|known| is_near(&plain, &known.to_ascii_lowercase()));
    let edit = meant.and_then(|meant| look.source.replace(value, meant));
    let what =
        format!("{} is nothing that NVIDIA's driver knows, and it refuses the claim", shown(text));
    let next = match meant {
        Some(meant) => format!("write {meant}"),
        None => format!("write one of {}", known.join(", ")),
    };
    let found = Found::new(PARAMETERS, value, format!("{field}.{name}"), what, next);
    look.note(found.mended(edit.map(|edit| vec![edit])));
}
