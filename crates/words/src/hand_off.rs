//! Whether the containers of a share pod will see their card and no other once it is bound: their
//! variables must read the annotations that the binding brings.

use crate::keys;
use crate::koordinator;
use crate::manifest::{Container, Metadata, PodManifest, Source};
use crate::problem::short;
use crate::request::{containers, is_share, share_containers};

/// Whether a share pod may be bound. If not, the reason: a binding would hand the card to nobody,
/// or leave another container with all of them. Of any other pod nothing is asked.
///
/// The spec is looked at, and no marker that a tenant could copy.
pub fn hand_off_ready(metadata: &Metadata, spec: &PodManifest) -> Result<(), String> {
    if !is_share(metadata, spec) {
        return koordinator::whole_cards_ready(spec);
    }
    let shares = share_containers(metadata, spec);
    for (at, container) in containers(spec).enumerate() {
        let missing = match shares.contains(&at) {
            true => missing_hand_off(container),
            false => (!has_no_device(container)).then_some(keys::ENV_VISIBLE_DEVICES),
        };
        if let Some(variable) = missing {
            return Err(format!(
                "the variable {variable} of container {} is not as divvy's admission sets it, so the pod \
                 would not see its card, or see others; create the pod anew while the admission runs",
                short(&container.name)
            ));
        }
    }
    Ok(())
}

/// The first variable of the share's container that is not read from its annotation. There must be
/// one entry of each: the last of several wins, and which that is others may change.
pub(crate) fn missing_hand_off(container: &Container) -> Option<&'static str> {
    let is_missing = |variable: &str, annotation: &str| {
        let mut entries = container.env.iter().filter(|entry| entry.name == variable);
        let is_right = entries.next().is_some_and(|entry| entry.source.is_annotation(annotation));
        !is_right || entries.next().is_some()
    };
    let mut all = keys::HAND_OFF_VARIABLES.iter();
    all.find(|(variable, annotation)| is_missing(variable, annotation)).map(|(name, _)| *name)
}

/// Whether a container says that it gets no device, whatever its image says.
pub(crate) fn has_no_device(container: &Container) -> bool {
    let mut entries = visible_devices(container).peekable();
    entries.peek().is_some() && entries.all(Source::is_no_device)
}

/// What a container itself says of the devices it sees.
pub(crate) fn visible_devices(container: &Container) -> impl Iterator<Item = &Source> {
    let entries = container.env.iter();
    entries.filter(|entry| entry.name == keys::ENV_VISIBLE_DEVICES).map(|entry| &entry.source)
}
