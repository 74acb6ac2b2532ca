//! What the containers of a pod ask in sum, counted as Kubernetes does.

use crate::keys;
use crate::manifest::{Container, PodManifest, ResourceList, Resources};
use crate::problem::{Problems, short};
use crate::quantity::{Amount, Quantity};
use divvy_engine::PodSpec;
use divvy_ledger::{Bytes, MilliCpu};

/// Quantities by resource name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals<'a>(Vec<(&'a str, Quantity)>);

impl<'a> Totals<'a> {
    /// The quantity of a resource, if it is asked at all.
    pub(crate) fn get(&self, name: &str) -> Option<Quantity> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, quantity)| *quantity)
    }

    fn update(&mut self, name: &'a str, change: impl FnOnce(Quantity) -> Quantity) {
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some((_, quantity)) => *quantity = change(*quantity),
            None => self.0.push((name, change(Quantity::ZERO))),
        }
    }

    fn add(&mut self, asked: impl Iterator<Item = (&'a str, Quantity)>) {
        asked.for_each(|(name, quantity)| self.update(name, |sum| sum.plus(quantity)));
    }

    fn raise_to(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, quantity)| self.update(name, |q| q.max(*quantity)));
    }

    /// Enters CPU, memory and all the rest but GPUs.
    pub(crate) fn enter(&self, spec: &mut PodSpec) {
        let value = |name| self.get(name).unwrap_or_default();
        spec.cpu = MilliCpu(value(keys::CPU).milli_ceil());
        spec.memory = Bytes(value(keys::MEMORY).value_ceil());
        spec.ephemeral = Bytes(value(keys::EPHEMERAL_STORAGE).value_ceil());
        spec.extended = counted(self.0.iter().copied());
    }
}

/// Resources that are only counted, by name, without GPUs and zeros.
pub(crate) fn counted<'a>(all: impl Iterator<Item = (&'a str, Quantity)>) -> Vec<(String, u64)> {
    let mut counted: Vec<_> = all
        .filter(|(name, quantity)| {
            is_counted(name) && *name != keys::GPU && *quantity > Quantity::ZERO
        })
        .map(|(name, quantity)| (name.to_owned(), quantity.value_ceil()))
        .collect();
    counted.sort();
    counted
}

fn is_extended(name: &str) -> bool {
    name.contains('/')
}

fn is_counted(name: &str) -> bool {
    is_extended(name)
        || name.starts_with(keys::HUGE_PAGES_PREFIX)
        || name.starts_with(keys::VOLUMES_PREFIX)
}

/// What a container asks: its requests, and its limits where it makes no request.
fn asked(resources: &Resources) -> impl Iterator<Item = (&str, Quantity)> {
    let Resources { requests, limits } = resources;
    let defaulted = limits.iter().filter(|(name, _)| requests.amount(name).is_none());
    requests.iter().chain(defaulted).filter_map(|(name, amount)| {
        amount.as_ref().ok().filter(|q| !q.is_negative()).map(|q| (name, *q))
    })
}

/// What the pod asks of a node. Init containers run one after another and before the others, but
/// sidecars among them stay: the sum is the most that runs at the same time.
pub(crate) fn totals(spec: &PodManifest) -> Totals<'_> {
    let mut running = Totals::default();
    for container in &spec.containers {
        running.add(asked(&container.resources));
    }
    let mut sidecars = Totals::default();
    let mut starting = Totals::default();
    for init in &spec.init_containers {
        if is_sidecar(init) {
            running.add(asked(&init.resources));
            sidecars.add(asked(&init.resources));
            starting.raise_to(&sidecars);
        } else {
            let mut now = sidecars.clone();
            now.add(asked(&init.resources));
            starting.raise_to(&now);
        }
    }
    running.raise_to(&starting);
    if let Some(pod) = &spec.resources {
        replace_by_pod_level(&mut running, pod);
    }
    running.add(spec.overhead.iter().filter_map(|(name, amount)| {
        amount.as_ref().ok().filter(|q| !q.is_negative()).map(|q| (name, *q))
    }));
    running
}

fn is_sidecar(init: &Container) -> bool {
    &*init.restart_policy == "Always"
}

/// Requests of the pod as a whole count instead of those of its containers. Its limits count only
/// for what no container asks, as the API server fills in.
fn replace_by_pod_level<'a>(running: &mut Totals<'a>, pod: &'a Resources) {
    for (name, quantity) in asked(pod) {
        let is_request = pod.requests.amount(name).is_some();
        if is_pod_level(name) && (is_request || running.get(name).is_none()) {
            running.update(name, |_| quantity);
        }
    }
}

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

/// Whether the pod as a whole may ask for it.
fn is_pod_level(name: &str) -> bool {
    name == keys::CPU || name == keys::MEMORY || name.starts_with(keys::HUGE_PAGES_PREFIX)
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
    for (name, amount) in list.iter() {
        problems.note_some(|| {
            let problem = amount_problem(name, amount)?;
            Some(format!("{}[\"{}\"]: {problem}", path(), short(name)))
        });
    }
}

fn amount_problem(name: &str, amount: &Amount) -> Option<String> {
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

#[cfg(test)]
mod tests;
