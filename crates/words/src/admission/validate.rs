//! Which pods are refused, and why.

use super::raw::{Place, Pod};
use super::{Change, Operation, Settings};
use crate::grace_period::grace_period_allowed;
use crate::hand_off::{hand_off_ready, has_no_device, visible_devices};
use crate::keys;
use crate::manifest::{Container, Source};
use crate::problem::{Problems, short};
use crate::request::{check_container, is_share, request, share_container};
use crate::resources::totals;
use serde_json::Value;

/// What the user should know of a pod that is accepted, or why it is not. The errors of KAI come
/// first, word for word and in its order.
pub fn validate(change: &Change<'_>, settings: &Settings) -> Result<Vec<String>, String> {
    let pod = Pod::read(change.pod)?;
    if !pod.is_ours(settings) {
        return Ok(Vec::new());
    }
    match change.operation {
        Operation::Create => create(&pod, settings),
        Operation::Update => unchanged(&pod, change.old).map(|()| Vec::new()),
        Operation::EphemeralContainers => {
            ephemeral(&pod, change.old, settings).map(|()| Vec::new())
        }
    }
}

fn create(pod: &Pod<'_>, settings: &Settings) -> Result<Vec<String>, String> {
    let (metadata, spec) = (&pod.metadata, &pod.spec);
    let is_share = is_share(metadata);
    let (mut problems, mut warnings) = (Problems::default(), Vec::new());
    check_container(metadata, spec, &mut problems);
    if is_share && !settings.gpu_sharing {
        let name = Some(&metadata.name).filter(|name| !name.is_empty());
        let (namespace, name) = (&metadata.namespace, name.unwrap_or(&metadata.generate_name));
        problems.note(|| {
            format!(
                "attempting to create a pod {namespace}/{name} with gpu sharing request, while GPU sharing is disabled"
            )
        });
    }
    let whole = totals(spec, None).get(keys::GPU).unwrap_or_default();
    request(metadata, spec, whole, &mut problems);
    if is_share {
        problems.note_some(|| node_name(&spec.node_name));
        problems.note_some(|| grace_period_allowed(spec, settings.max_grace_period).err());
        check_power(pod, &mut problems, &mut warnings);
        problems.note_some(|| hand_off_ready(metadata, spec).err());
    } else if settings.block_visible_devices {
        problems.note_some(|| {
            pod.containers().find_map(|(place, container)| own_devices(place, container))
        });
    }
    problems.into_first().map_or(Ok(warnings), Err)
}

fn node_name(node: &str) -> Option<String> {
    (!node.is_empty()).then(|| {
        format!(
            "spec.nodeName: {:?} is set in a pod with a GPU share, but divvy must place it to choose its card; \
             use spec.nodeSelector or spec.affinity",
            short(node)
        )
    })
}

/// Containers that reach devices they were not given: the share's own is refused, of others the
/// user is told.
fn check_power(pod: &Pod<'_>, problems: &mut Problems, warnings: &mut Vec<String>) {
    let share = share_container(&pod.metadata, &pod.spec);
    for (at, (place, container)) in pod.containers().enumerate() {
        let Some(power) = power(place.of(pod.raw)) else { continue };
        let (field, name) = (place.field(), short(&container.name));
        let text = format!(
            "{field}.securityContext: container {name} {power}: it reaches every card of its node"
        );
        if share == Some(at) {
            problems
                .note(|| format!("{text}, and not only its GPU share; take one of the two away"));
        } else {
            warnings.push(text);
        }
    }
}

fn power(container: &Value) -> Option<&'static str> {
    let context = container.get("securityContext")?;
    if context.get("privileged") == Some(&Value::Bool(true)) {
        return Some("is privileged");
    }
    let is_admin = |name: &str| {
        let name = name.to_ascii_uppercase();
        matches!(name.strip_prefix("CAP_").unwrap_or(&name), "SYS_ADMIN" | "ALL")
    };
    let mut added = context.pointer("/capabilities/add").and_then(Value::as_array)?.iter();
    added.any(|name| name.as_str().is_some_and(is_admin)).then_some("has the capability SYS_ADMIN")
}

/// What is wrong with a container that names its devices itself. The annotation of the hand-off is
/// no danger: only a binding by divvy sets it.
fn own_devices(place: Place, container: &Container) -> Option<String> {
    let is_granted =
        |source: &Source| source.is_no_device() || source.is_annotation(keys::VISIBLE_DEVICES);
    let mut sources = visible_devices(container);
    sources.any(|source| !is_granted(source)).then(|| {
        format!(
            "{}.env: container {} sets {}; allowed are void and none, and GPUs are asked for by resource or \
             annotation",
            place.field(),
            short(&container.name),
            keys::ENV_VISIBLE_DEVICES
        )
    })
}

/// What was asked when the pod was made is what it was given.
fn unchanged(pod: &Pod<'_>, old: &Value) -> Result<(), String> {
    let old = Pod::read(old)?;
    for key in keys::REQUEST {
        let (before, now) = (old.metadata.annotations.get(key), pod.metadata.annotations.get(key));
        if before != now {
            let shown = |value: Option<&str>| {
                value.map_or("absent".to_owned(), |value| format!("{:?}", short(value)))
            };
            return Err(format!(
                "metadata.annotations[\"{key}\"]: {} cannot become {}: what a pod asks of GPUs is fixed when it \
                 is created",
                shown(before),
                shown(now)
            ));
        }
    }
    Ok(())
}

/// Whoever may debug a pod does not get its card, nor others.
fn ephemeral(pod: &Pod<'_>, old: &Value, settings: &Settings) -> Result<(), String> {
    let is_share = is_share(&pod.metadata);
    for (place, container) in pod.new_ephemeral(old)? {
        if is_share && !has_no_device(&container) {
            return Err(format!(
                "{}.env: container {} is for debugging and gets no GPU: {} must be void",
                place.field(),
                short(&container.name),
                keys::ENV_VISIBLE_DEVICES
            ));
        }
        let wrong = own_devices(place, &container).filter(|_| settings.block_visible_devices);
        wrong.map_or(Ok(()), Err)?;
    }
    Ok(())
}
