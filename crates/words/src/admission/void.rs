//! Containers that ask for no GPU get none: images often say `NVIDIA_VISIBLE_DEVICES=all`, and
//! NVIDIA's container runtime believes them.

use super::raw::{Pod, asks_gpu};
use super::{Change, Mutation, Operation, Settings};
use crate::hand_off::visible_devices;
use crate::keys;
use serde_json::{Value, json};

/// Gives the containers of any scheduler's pod that ask for no GPU a variable that says so, if
/// they have none and their runtime may give out devices. Pods with a share of ours have got
/// theirs from [`super::mutate`].
pub fn void(change: &Change<'_>, settings: &Settings) -> Mutation {
    let mut mutation = Mutation::default();
    let Ok(pod) = Pod::read(change.pod) else { return mutation };
    if !settings.block_visible_devices
        || pod.is_our_share(settings)
        || !pod.has_gpu_runtime(settings)
    {
        return mutation;
    }
    match change.operation {
        Operation::Create => {
            let silent = pod.containers().filter(|(_, container)| {
                !asks_gpu(container) && visible_devices(container).next().is_none()
            });
            let steps =
                silent.map(|(place, _)| place.set_variables(pod.raw, vec![void_variable()]));
            mutation.patch.extend(steps);
        }
        Operation::EphemeralContainers => void_new_ephemeral(&pod, change.old, &mut mutation),
        Operation::Update => {}
    }
    mutation
}

/// The same for new containers for debugging; what they say themselves is left to
/// [`super::validate`].
pub(super) fn void_new_ephemeral(pod: &Pod<'_>, old: &Value, mutation: &mut Mutation) {
    for (place, container) in pod.new_ephemeral(old).unwrap_or_default() {
        if visible_devices(&container).next().is_none() {
            mutation.patch.push(place.set_variables(pod.raw, vec![void_variable()]));
        }
    }
}

pub(super) fn void_variable() -> Value {
    json!({"name": keys::ENV_VISIBLE_DEVICES, "value": "void"})
}
