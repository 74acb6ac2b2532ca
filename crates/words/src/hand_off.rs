//! Whether the containers of a share pod will see their card and no other once it is bound: their
//! variables must read the annotations that the binding brings.

use crate::isolation::{Isolation, Provider};
use crate::keys;
use crate::koordinator;
use crate::manifest::{Container, Metadata, PodManifest, Variable, VariableSource};
use crate::problem::short;
use crate::request::{containers, is_share, share_containers};
use divvy_ledger::Request;

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
            true => missing(container, &keys::HAND_OFF_VARIABLES),
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
pub(crate) fn missing<'a>(
    container: &Container,
    variables: &[(&'a str, &'static str)],
) -> Option<&'a str> {
    let is_there = |variable: &str, annotation: &str| {
        is_once(container, variable, |source| source.is_annotation(annotation))
    };
    let mut all = variables.iter();
    all.find(|(variable, annotation)| !is_there(variable, annotation)).map(|(name, _)| *name)
}

/// The first variable that could switch the provider of the container off, for it is not at its safe
/// value. There must be one entry of each: what else the container reads (`envFrom`, its image) loses
/// against that, in every process.
pub(crate) fn unsafe_variable<'a>(
    container: &Container,
    provider: &'a Provider,
) -> Option<(&'a str, &'a str)> {
    let mut all = provider.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    all.find(|(name, value)| !is_once(container, name, |source| source.is_literal(value)))
}

fn is_once(
    container: &Container,
    variable: &str,
    is_right: impl Fn(&VariableSource) -> bool,
) -> bool {
    let mut entries = container.env.iter().filter(|entry| entry.name == variable);
    entries.next().is_some_and(|entry| is_right(&entry.source)) && entries.next().is_none()
}

/// Whether a share pod that a provider is to isolate may be bound: the container of the share must read
/// its limits, else it would have none. The same as [`hand_off_ready`] for the class of the pod.
///
/// Where nobody tells levels apart, no container may read a limit that nobody writes: it would have none.
pub fn limits_ready(
    isolation: Option<&Isolation>,
    request: &Request,
    metadata: &Metadata,
    spec: &PodManifest,
) -> Result<(), String> {
    let Some(part) = request.part() else { return Ok(()) };
    let Some(isolation) = isolation else {
        let is_limit =
            |entry: &Variable| keys::LIMITS.iter().any(|key| entry.source.is_annotation(key));
        return match containers(spec)
            .find_map(|container| container.env.iter().find(|e| is_limit(e)))
        {
            Some(variable) => Err(format!(
                "the variable {} would limit the pod to its share, and nobody sets it: divvy's scheduler runs without \
                 --feature-gates GPUIsolationLevel=true",
                short(&variable.name)
            )),
            None => Ok(()),
        };
    };
    let Some(provider) = isolation.provider(part.class) else { return Ok(()) };
    let wanted: Vec<_> = provider.variables(part.compute.0 > 0).collect();
    let shares = share_containers(metadata, spec);
    let all = containers(spec).enumerate().filter(|(at, _)| shares.contains(at));
    for (_, container) in all {
        let unsafe_variable = || unsafe_variable(container, provider).map(|(name, _)| name);
        if let Some(variable) = missing(container, &wanted).or_else(unsafe_variable) {
            return Err(format!(
                "the variable {variable} of container {} is not as divvy's admission sets it, so the pod would not \
                 be limited to its share; create the pod anew while the admission runs with the same providers",
                short(&container.name)
            ));
        }
    }
    Ok(())
}

/// Whether a container says that it gets no device, whatever its image says.
pub(crate) fn has_no_device(container: &Container) -> bool {
    let mut entries = visible_devices(container).peekable();
    entries.peek().is_some() && entries.all(VariableSource::is_no_device)
}

/// What a container itself says of the devices it sees.
pub(crate) fn visible_devices(container: &Container) -> impl Iterator<Item = &VariableSource> {
    let entries = container.env.iter();
    entries.filter(|entry| entry.name == keys::ENV_VISIBLE_DEVICES).map(|entry| &entry.source)
}
