//! Containers that ask for no GPU get none: images often say `NVIDIA_VISIBLE_DEVICES=all`, and
//! NVIDIA's container runtime believes them.

use super::container::{asks_gpu, set_variables};
use super::pod::ReviewedPod;
use super::{Mutation, Operation, PodChange, Settings};
use crate::hand_off::visible_devices;
use crate::keys;
use serde_json::{Value, json};

/// Gives the containers of any scheduler's pod that ask for no GPU a variable that says so, if
/// they have none and their runtime may give out devices. Pods with a share of ours have got
/// theirs from [`super::mutate`]. An error is why the pod is refused: it cannot be read.
pub fn void(change: &PodChange<'_>, settings: &Settings) -> Result<Mutation, String> {
    let mut mutation = Mutation::default();
    let pod = ReviewedPod::read(change.pod)?;
    if !settings.block_visible_devices
        || pod.is_our_share(settings)
        || !pod.has_gpu_runtime(settings)
    {
        return Ok(mutation);
    }
    match change.operation {
        Operation::Create => {
            let silent = pod.containers().filter(|(_, container)| {
                !asks_gpu(container) && visible_devices(container).next().is_none()
            });
            let steps = silent.flat_map(|(part, container)| {
                set_variables(part, container, vec![void_variable()])
            });
            mutation.patch.extend(steps);
        }
        Operation::EphemeralContainers => void_new_ephemeral(&pod, change, &mut mutation)?,
        Operation::Update => {}
    }
    Ok(mutation)
}

/// The same for new containers for debugging; what they say themselves is left to
/// [`super::validate`].
pub(super) fn void_new_ephemeral(
    pod: &ReviewedPod<'_>,
    change: &PodChange<'_>,
    mutation: &mut Mutation,
) -> Result<(), String> {
    for (part, container) in pod.new_ephemeral(&ReviewedPod::read(change.old)?) {
        if visible_devices(container).next().is_none() {
            mutation.patch.extend(set_variables(part, container, vec![void_variable()]));
        }
    }
    Ok(())
}

pub(super) fn void_variable() -> Value {
    json!({"name": keys::ENV_VISIBLE_DEVICES, "value": "void"})
}
