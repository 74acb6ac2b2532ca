//! Which pods are refused, and why.

use super::container::ContainerPlace;
use super::isolation;
use super::pod::ReviewedPod;
use super::{Operation, PodChange, Settings};
use crate::grace_period::grace_period_allowed;
use crate::hand_off::{hand_off_ready, has_no_device, visible_devices};
use crate::kai_texts;
use crate::keys;
use crate::manifest::{Container, VariableSource};
use crate::problem::{Problems, short};
use crate::request::{check_container, is_share, request, share_containers};
use crate::resources::totals;

/// What the user should know of a pod that is accepted, or why it is not. The errors of KAI come
/// first, word for word and in its order.
pub fn validate(change: &PodChange<'_>, settings: &Settings) -> Result<Vec<String>, String> {
    let mut pod = ReviewedPod::read(change.pod)?;
    if !pod.is_ours(settings) {
        return Ok(Vec::new());
    }
    match change.operation {
        Operation::Create => create(&mut pod, settings),
        Operation::Update => {
            let old = ReviewedPod::read(change.old)?;
            unchanged(&pod, &old)?;
            if settings.isolation.is_some() && is_share(&pod.metadata, &pod.spec) {
                isolation::unchanged(&pod, &old)?;
            }
            Ok(Vec::new())
        }
        Operation::EphemeralContainers => {
            ephemeral(&pod, &ReviewedPod::read(change.old)?, settings).map(|()| Vec::new())
        }
    }
}

fn create(pod: &mut ReviewedPod<'_>, settings: &Settings) -> Result<Vec<String>, String> {
    let (metadata, spec) = (&pod.metadata, &pod.spec);
    let is_share = is_share(metadata, spec);
    let (mut problems, mut warnings) = (Problems::default(), Vec::new());
    check_container(metadata, spec, &mut problems);
    if is_share && !settings.gpu_sharing {
        let name = Some(&metadata.name).filter(|name| !name.is_empty());
        let (namespace, name) = (&metadata.namespace, name.unwrap_or(&metadata.generate_name));
        problems.note(|| kai_texts::sharing_is_off(namespace, name));
    }
    let whole = totals(spec, None).get(keys::GPU).unwrap_or_default();
    request(metadata, spec, whole, &mut problems);
    if is_share {
        problems.note_some(|| node_name(&spec.node_name));
        problems.note_some(|| grace_period_allowed(spec, settings.max_grace_period).err());
        check_power(pod, &mut problems, &mut warnings);
    }
    problems.note_some(|| hand_off_ready(metadata, spec).err());
    if !is_share && settings.block_visible_devices {
        problems.note_some(|| {
            pod.containers().find_map(|(part, container)| own_devices(part.place, container))
        });
    }
    isolation::check(pod, is_share, settings, &mut problems, &mut warnings);
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
fn check_power(pod: &ReviewedPod<'_>, problems: &mut Problems, warnings: &mut Vec<String>) {
    let shares = share_containers(&pod.metadata, &pod.spec);
    for (at, (part, container)) in pod.containers().enumerate() {
        let Some(power) = part.power else { continue };
        let (field, name) = (part.place.field(), short(&container.name));
        let text = format!(
            "{field}.securityContext: container {name} {power}: it reaches every card of its node"
        );
        if shares.contains(&at) {
            problems
                .note(|| format!("{text}, and not only its GPU share; take one of the two away"));
        } else {
            warnings.push(text);
        }
    }
}

/// What is wrong with a container that names its devices itself. The annotation of the hand-off is
/// no danger: only a binding by divvy sets it.
fn own_devices(place: ContainerPlace, container: &Container) -> Option<String> {
    let is_granted = |source: &VariableSource| {
        source.is_no_device() || source.is_annotation(keys::VISIBLE_DEVICES)
    };
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
fn unchanged(pod: &ReviewedPod<'_>, old: &ReviewedPod<'_>) -> Result<(), String> {
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
fn ephemeral(
    pod: &ReviewedPod<'_>,
    old: &ReviewedPod<'_>,
    settings: &Settings,
) -> Result<(), String> {
    let is_share = is_share(&pod.metadata, &pod.spec);
    for (part, container) in pod.new_ephemeral(old) {
        if is_share && !has_no_device(container) {
            return Err(format!(
                "{}.env: container {} is for debugging and gets no GPU: {} must be void",
                part.place.field(),
                short(&container.name),
                keys::ENV_VISIBLE_DEVICES
            ));
        }
        let wrong = own_devices(part.place, container).filter(|_| settings.block_visible_devices);
        wrong.map_or(Ok(()), Err)?;
    }
    Ok(())
}
