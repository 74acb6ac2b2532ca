//! Objects of dynamic resource allocation as the recipe writes them, and as `resource.k8s.io/v1` and
//! NVIDIA's driver read them.

use super::parameters;
use crate::edit::Edit;
use crate::object::{Found, Look};
use crate::tree::{Map, TreeNode};
use divvy_words::mistakes::shown;

/// Stable name: a name that no DeviceClass can have.
pub(crate) const CLASS_NAME: &str = "DeviceClassName";
/// Stable name: a map where the API server reads a list.
pub(crate) const CONFIG_LIST: &str = "DeviceConfigList";
/// Stable name: a driver that cannot be, or is not the one that is meant.
pub(crate) const DRIVER: &str = "DeviceDriver";
/// Stable name: a request as v1beta1 has it.
pub(crate) const REQUEST: &str = "DeviceRequest";

/// What the recipe takes for the driver, and the driver.
const RESOURCE: &str = "nvidia.com/gpu";
const NVIDIA: &str = "gpu.nvidia.com";
/// What of a request stands under `exactly`.
const EXACT: [&str; 8] = [
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
];

pub(crate) fn look(look: &mut Look<'_, '_>) {
    if look.object.group() != "resource.k8s.io" {
        return;
    }
    let node = look.object.node;
    match &*look.object.kind {
        "DeviceClass" => {
            if let Some(name) = node.find(&["metadata", "name"]) {
                class_name(look, name, "metadata.name");
            }
            let Some(spec) = node.get("spec") else { return };
            selectors(look, spec, "spec");
            configs(look, spec, "spec");
        }
        "ResourceClaim" => devices(look, node.find(&["spec", "devices"]), "spec.devices"),
        "ResourceClaimTemplate" => {
            devices(look, node.find(&["spec", "spec", "devices"]), "spec.spec.devices");
        }
        _ => {}
    }
}

/// The name of a class is that of a domain; what stands before a slash goes behind the rest.
fn class_name(look: &mut Look<'_, '_>, node: &TreeNode, field: &str) {
    let Some((domain, name)) = node.text().and_then(|name| name.split_once('/')) else { return };
    let right = format!("{name}.{domain}");
    let is_name = !right.contains('/') && right.len() <= 253;
    let edit = is_name.then(|| look.source.replace(node, &right)).flatten();
    let what = "a DeviceClass is called like a domain, without a slash".to_owned();
    let found =
        Found::new(CLASS_NAME, node, field.to_owned(), what, format!("write {}", shown(&right)));
    look.note(found.mended(edit.map(|edit| vec![edit])));
}

fn devices(look: &mut Look<'_, '_>, devices: Option<&TreeNode>, field: &str) {
    let Some(devices) = devices else { return };
    listed(look, devices, "requests", field);
    for (at, request) in list(devices.get("requests")) {
        let field = format!("{field}.requests[{at}]");
        let mut all = vec![(request, field.clone())];
        all.extend(request.get("exactly").map(|inner| (inner, format!("{field}.exactly"))));
        let subs = list(request.get("firstAvailable"));
        all.extend(subs.map(|(at, sub)| (sub, format!("{field}.firstAvailable[{at}]"))));
        for (request, field) in all {
            if let Some(class) = request.get("deviceClassName") {
                class_name(look, class, &format!("{field}.deviceClassName"));
            }
            selectors(look, request, &field);
        }
        request_of_v1beta1(look, request, &field);
    }
    configs(look, devices, field);
}

fn list(node: Option<&TreeNode>) -> impl Iterator<Item = (usize, &TreeNode)> {
    node.and_then(TreeNode::as_list).unwrap_or_default().iter().enumerate()
}

fn request_of_v1beta1(look: &mut Look<'_, '_>, request: &TreeNode, field: &str) {
    if look.object.api_version == "resource.k8s.io/v1beta1" {
        return;
    }
    let Some(map) = request.as_map() else { return };
    let names: Vec<&str> =
        map.named().map(|(name, ..)| name).filter(|n| EXACT.contains(n)).collect();
    let Some((_, key, _)) = map.named().find(|(name, ..)| EXACT.contains(name)) else { return };
    let has_form = ["exactly", "firstAvailable"].iter().any(|form| map.entry(form).is_some());
    let edits = (!has_form).then(|| under_exactly(look, map)).flatten();
    let what = format!(
        "{} {} here in v1beta1, and the API server drops {} of a request of {}",
        names.join(" and "),
        if names.len() == 1 { "stands" } else { "stand" },
        if names.len() == 1 { "it" } else { "them" },
        look.object.api_version
    );
    let found = Found::new(REQUEST, key, field.to_owned(), what, "write them under exactly");
    look.note(found.mended(edits));
}

/// Puts the fields that stand together under one more.
fn under_exactly(look: &Look<'_, '_>, map: &Map) -> Option<Vec<Edit>> {
    let is_one =
        |(key, _): &(TreeNode, TreeNode)| key.text().is_some_and(|name| EXACT.contains(&name));
    let first = map.entries.iter().position(is_one)?;
    let last = map.entries.iter().rposition(is_one)?;
    if !map.entries.get(first..=last)?.iter().all(is_one) {
        return None;
    }
    let ((first, _), (key, value)) = (map.entries.get(first)?, map.entries.get(last)?);
    let end = value.at.end.max(key.at.end);
    if map.is_flow {
        let text = if first.as_scalar()?.style == crate::tree::Style::Double {
            "\"exactly\": {"
        } else {
            "exactly: {"
        };
        let open = Edit { at: first.at.start..first.at.start, text: text.to_owned() };
        return (!value.at.is_empty())
            .then(|| vec![open, Edit { at: end..end, text: "}".to_owned() }]);
    }
    let indent = look.source.indent(first)?;
    let text = format!("exactly:{}{indent}  ", look.source.newline());
    let mut edits = vec![Edit { at: first.at.start..first.at.start, text }];
    edits.extend(look.source.shift(first.at.start..end)?);
    Some(edits)
}

fn configs(look: &mut Look<'_, '_>, node: &TreeNode, field: &str) {
    let Some(config) = node.get("config") else { return };
    if listed(look, node, "config", field) {
        opaque(look, config, &format!("{field}.config"));
    }
    for (at, config) in list(Some(config)) {
        opaque(look, config, &format!("{field}.config[{at}]"));
    }
}

/// Finds a map where a list should be, and says whether there is one.
fn listed(look: &mut Look<'_, '_>, node: &TreeNode, name: &str, field: &str) -> bool {
    let Some((inner, map)) = node.get(name).and_then(|inner| Some((inner, inner.as_map()?))) else {
        return false;
    };
    let found = Found::new(
        CONFIG_LIST,
        inner,
        format!("{field}.{name}"),
        "it is a map, and the API server reads a list",
        "write a list with this as its one entry",
    );
    let edits = as_list(look, inner, map);
    look.note(found.mended(edits));
    true
}

/// Makes a list of a map.
fn as_list(look: &Look<'_, '_>, node: &TreeNode, map: &Map) -> Option<Vec<Edit>> {
    let at = node.at.clone();
    if map.is_flow {
        return Some(vec![
            Edit { at: at.start..at.start, text: "[".to_owned() },
            Edit { at: at.end..at.end, text: "]".to_owned() },
        ]);
    }
    let mut edits = vec![Edit { at: at.start..at.start, text: "- ".to_owned() }];
    edits.extend(look.source.shift(at)?);
    Some(edits)
}

fn opaque(look: &mut Look<'_, '_>, config: &TreeNode, field: &str) {
    let Some(opaque) = config.get("opaque") else { return };
    let driver = opaque.get("driver");
    let name = driver.and_then(TreeNode::text).unwrap_or_default();
    if let Some(node) = driver.filter(|_| name.contains('/')) {
        let edit = (name == RESOURCE).then(|| look.source.replace(node, NVIDIA)).flatten();
        let what = "the name of a driver is that of a domain, without a slash";
        let found = Found::new(DRIVER, node, format!("{field}.opaque.driver"), what, driver_next());
        look.note(found.mended(edit.map(|edit| vec![edit])));
    }
    let Some(parameters) = opaque.get("parameters").filter(|_| [RESOURCE, NVIDIA].contains(&name))
    else {
        return;
    };
    parameters::look(look, parameters, &format!("{field}.opaque.parameters"));
}

fn driver_next() -> String {
    format!("write {NVIDIA}, the driver of NVIDIA")
}

/// Selectors that ask for a driver which cannot be.
fn selectors(look: &mut Look<'_, '_>, node: &TreeNode, field: &str) {
    listed(look, node, "selectors", field);
    for (at, selector) in list(node.get("selectors")) {
        let Some(expression) = selector.find(&["cel", "expression"]) else { continue };
        let Some(text) = expression.text() else { continue };
        let quoted = ['"', '\''].map(|quote| format!("{quote}{RESOURCE}{quote}"));
        if !text.contains("device.driver") || !quoted.iter().any(|quoted| text.contains(quoted)) {
            continue;
        }
        let edits = look.source.text.get(expression.at.clone()).map(|written| {
            let places = written.match_indices(RESOURCE).filter(|(at, name)| {
                let around = |at: Option<usize>| at.and_then(|at| written.as_bytes().get(at));
                let is_quote = |b: Option<&u8>| matches!(b, Some(b'"' | b'\'' | b'\\'));
                is_quote(around(at.checked_sub(1))) && is_quote(around(Some(at + name.len())))
            });
            let start = expression.at.start;
            let edit = |(at, name): (usize, &str)| Edit {
                at: start + at..start + at + name.len(),
                text: NVIDIA.to_owned(),
            };
            places.map(edit).collect()
        });
        let field = format!("{field}.selectors[{at}].cel.expression");
        let what = format!(
            "no driver is called {RESOURCE}, so it selects no device and pods wait for ever"
        );
        look.note(Found::new(DRIVER, expression, field, what, driver_next()).mended(edits));
    }
}
