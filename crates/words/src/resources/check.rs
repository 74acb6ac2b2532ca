//! What is wrong with the quantities of a pod.

use super::{is_counted, is_extended, is_pod_level};
use crate::keys;
use crate::manifest::{PodManifest, ResourceList, Resources};
use crate::problem::{Problems, short};
use crate::quantity::{Quantity, WrittenQuantity};

/// Checks every quantity of the pod.
pub(crate) fn check(spec: &PodManifest, problems: &mut Problems) {
    let containers = spec.containers.iter().map(|c| ("containers", c)).enumerate();
    let inits = spec.init_containers.iter().map(|c| ("initContainers", c)).enumerate();
    for (index, (list, container)) in containers.chain(inits) {
        let path = || format!("spec.{list}[{index}].resources");
        check_resources(&container.resources, &path, problems);
    }
    if let Some(pod) = &spec.resources {
        check_pod_level(pod, problems);
        check_resources(pod, &|| "spec.resources".to_owned(), problems);
    }
    check_list(&spec.overhead, &|| "spec.overhead".to_owned(), problems);
}

fn check_pod_level(pod: &Resources, problems: &mut Problems) {
    for (field, list) in [("limits", &pod.limits), ("requests", &pod.requests)] {
        problems.note_some(|| {
            let (name, _) = list.iter().find(|(name, _)| !is_pod_level(name))?;
            Some(format!(
                "spec.resources.{field}[\"{}\"]: not for the pod as a whole; allowed are {}, {} and \
                 hugepages-<size>, set others in a container",
                short(name),
                keys::CPU,
                keys::MEMORY
            ))
        });
    }
}

fn check_resources(resources: &Resources, path: &dyn Fn() -> String, problems: &mut Problems) {
    let Resources { requests, limits } = resources;
    check_list(limits, &|| format!("{}.limits", path()), problems);
    check_list(requests, &|| format!("{}.requests", path()), problems);
    for (name, amount) in requests.iter() {
        let Ok(request) = amount else { continue };
        match limits.get(name) {
            Some(limit) if is_extended(name) && limit != *request => problems.note(|| {
                let (path, name) = (path(), short(name));
                format!("{path}.requests[\"{name}\"]: {request} must be equal to {name} limit of {limit}")
            }),
            Some(limit) if limit < *request => problems.note(|| {
                let (path, name) = (path(), short(name));
                format!(
                    "{path}.requests[\"{name}\"]: {request} must be less than or equal to {name} limit of {limit}"
                )
            }),
            None if is_extended(name) && limits.amount(name).is_none() => problems.note(|| {
                let (path, name) = (path(), short(name));
                format!(
                    "{path}.limits[\"{name}\"]: missing; limit must be set for non overcommitable \
                     resources, write {name}: {request}"
                )
            }),
            _ => {}
        }
    }
}

fn check_list(list: &ResourceList, path: &dyn Fn() -> String, problems: &mut Problems) {
    if list.is_cut() {
        problems.note(|| {
            format!(
                "{}: more than {} resources are given; no node has so many",
                path(),
                ResourceList::MOST
            )
        });
    }
    for (name, amount) in list.iter() {
        problems.note_some(|| {
            let problem = amount_problem(name, amount)?;
            Some(format!("{}[\"{}\"]: {problem}", path(), short(name)))
        });
    }
}

fn amount_problem(name: &str, amount: &WrittenQuantity) -> Option<String> {
    let standard = [keys::CPU, keys::MEMORY, keys::EPHEMERAL_STORAGE];
    let quantity = match amount {
        Err(error) => return Some(error.to_string()),
        Ok(quantity) => *quantity,
    };
    if !standard.contains(&name) && !is_counted(name) {
        return Some(format!(
            "unknown resource; allowed are {}, hugepages-<size> and names with a domain such as {}",
            standard.join(", "),
            keys::GPU
        ));
    }
    if quantity.is_negative() {
        return Some(format!("{quantity} is negative; allowed is 0 or more"));
    }
    if is_extended(name) && !quantity.is_integer() {
        let hint = match name == keys::GPU && quantity < Quantity::from_units(1) {
            true => format!(
                "; for a part of a GPU set the annotation {}: \"{quantity}\" instead",
                keys::GPU_FRACTION
            ),
            false => String::new(),
        };
        return Some(format!("{quantity} must be an integer{hint}"));
    }
    None
}
