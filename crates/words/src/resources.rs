//! What a pod asks in sum, counted as Kubernetes does: containers, what of them runs at the same
//! time, the pod as a whole, overhead, and what a resize has not given back yet.

mod check;

pub(crate) use check::check;

use crate::keys;
use crate::manifest::{Container, PodManifest, PodStatus, ResourceList, Resources};
use crate::quantity::Quantity;
use divvy_engine::PodSpec;
use divvy_ledger::{Bytes, Device, MilliCpu};
use std::collections::BTreeMap;

/// Quantities by resource name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quantities<'a>(BTreeMap<&'a str, Quantity>);

impl<'a> Quantities<'a> {
    /// The quantity of a resource, if it is asked at all.
    pub(crate) fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    /// All quantities, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a str, Quantity)> {
        self.0.iter().map(|(name, quantity)| (*name, *quantity))
    }

    /// Whether its containers ask for more kinds of resources than any node has; the others are not
    /// counted.
    pub(crate) fn is_cut(&self) -> bool {
        self.0.len() > ResourceList::MOST
    }

    fn update(&mut self, name: &'a str, change: impl FnOnce(Quantity) -> Quantity) {
        if let Some(quantity) = self.0.get_mut(name) {
            *quantity = change(*quantity);
        } else if !self.is_cut() || keys::is_usual_resource(name) {
            self.0.insert(name, change(Quantity::ZERO));
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
        spec.extended = counted(self.iter());
    }
}

/// Resources that are only counted, by name, without GPUs and zeros.
pub(crate) fn counted<'a>(all: impl Iterator<Item = (&'a str, Quantity)>) -> Vec<(String, u64)> {
    let mut counted: Vec<_> = all
        .filter(|(name, quantity)| {
            is_counted(name)
                && *name != keys::GPU
                && Device::of_resource(name).is_none()
                && !keys::KOORDINATOR.contains(name)
                && *quantity > Quantity::ZERO
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
    is_extended(name) || is_huge_pages(name) || name.starts_with(keys::VOLUMES_PREFIX)
}

type Asked<'a> = (&'a str, Quantity);

/// The amounts of a list, without those that make no sense.
fn amounts(list: &ResourceList) -> impl Iterator<Item = Asked<'_>> {
    list.iter().filter_map(|(name, amount)| {
        amount.as_ref().ok().filter(|q| !q.is_negative()).map(|q| (name, *q))
    })
}

/// What a container asks: its requests, and its limits where it makes no request.
fn asked(resources: &Resources) -> impl Iterator<Item = Asked<'_>> {
    let Resources { requests, limits } = resources;
    let defaulted = amounts(limits).filter(|(name, _)| requests.amount(name).is_none());
    amounts(requests).chain(defaulted)
}

/// What the pod takes from a node. `status` is that of a pod that is bound: while its resources
/// are being changed in place, it takes the most of what it asks, was promised and has.
pub(crate) fn totals<'a>(spec: &'a PodManifest, status: Option<&'a PodStatus>) -> Quantities<'a> {
    let containers = of_containers(spec, |container| asked(&container.resources));
    let pod_level = spec.resources.as_deref().map(|pod| pod_level(pod, &containers));
    let mut totals = match status {
        Some(status) => resized(spec, status, containers),
        None => containers,
    };
    if let Some(mut requests) = pod_level.filter(|requests| !requests.0.is_empty()) {
        if let Some(status) = status
            && let Some(actual) = &status.resources
        {
            if status.is_resize_infeasible() {
                requests = Quantities::default();
            }
            let known = [actual.requests.as_ref(), status.allocated_resources.as_ref()];
            for (name, quantity) in known.into_iter().flatten().flat_map(amounts) {
                requests.update(name, |q| q.max(quantity));
            }
        }
        for (name, quantity) in requests.0.into_iter().filter(|(name, _)| is_pod_level(name)) {
            totals.update(name, |_| quantity);
        }
    }
    totals.add(amounts(&spec.overhead));
    totals
}

/// What the containers ask together. Init containers run one after another and before the others,
/// but sidecars among them stay: the sum is the most that runs at the same time.
pub(crate) fn of_containers<'a, I>(
    spec: &'a PodManifest,
    of: impl Fn(&'a Container) -> I,
) -> Quantities<'a>
where
    I: Iterator<Item = Asked<'a>>,
{
    let mut running = Quantities::default();
    for container in &spec.containers {
        running.add(of(container));
    }
    let mut sidecars = Quantities::default();
    let mut starting = Quantities::default();
    for init in &spec.init_containers {
        if is_sidecar(init) {
            running.add(of(init));
            sidecars.add(of(init));
            starting.raise_to(&sidecars);
        } else {
            let mut now = sidecars.clone();
            now.add(of(init));
            starting.raise_to(&now);
        }
    }
    running.raise_to(&starting);
    running
}

fn is_sidecar(init: &Container) -> bool {
    &*init.restart_policy == "Always"
}

/// What the containers of a bound pod take: what they ask, were promised and have, whichever is
/// most. What they ask does not count once the kubelet has said that it can never be.
fn resized<'a>(
    spec: &'a PodManifest,
    status: &'a PodStatus,
    asked: Quantities<'a>,
) -> Quantities<'a> {
    let infeasible = status.is_resize_infeasible();
    let mut most = if infeasible { Quantities::default() } else { asked };
    let of_pod = status.resources.as_ref().and_then(|r| r.requests.as_ref());
    if let (Some(promised), Some(actual)) = (&status.allocated_resources, of_pod) {
        for (name, quantity) in amounts(promised).chain(amounts(actual)) {
            most.update(name, |q| q.max(quantity));
        }
        return most;
    }
    let known = |container: &'a Container, prefers_actual: bool| -> Vec<Asked<'a>> {
        let found = status.of_container(&container.name);
        let promised = found.and_then(|s| s.allocated_resources.as_ref());
        let actual = found.and_then(|s| s.resources.as_ref()?.requests.as_ref());
        match actual.filter(|_| prefers_actual).or(promised) {
            Some(list) => amounts(list).collect(),
            None if infeasible => Vec::new(),
            None => self::asked(&container.resources).collect(),
        }
    };
    most.raise_to(&of_containers(spec, |container| known(container, false).into_iter()));
    most.raise_to(&of_containers(spec, |container| known(container, true).into_iter()));
    most
}

/// The requests of the pod as a whole, filled in as the API server does: by the sum of the
/// containers, and by its limits for what no container asks and for huge pages.
fn pod_level<'a>(pod: &'a Resources, containers: &Quantities<'a>) -> Quantities<'a> {
    let mut requests = Quantities::default();
    if pod.requests.is_empty() && pod.limits.is_empty() {
        return requests;
    }
    requests.add(amounts(&pod.requests).filter(|(name, _)| is_pod_level(name)));
    let given = |name: &str| pod.requests.amount(name).is_some();
    for (name, quantity) in &containers.0 {
        let is_limited = is_huge_pages(name) && pod.limits.amount(name).is_some();
        if is_pod_level(name) && !given(name) && !is_limited {
            requests.update(name, |_| *quantity);
        }
    }
    for (name, quantity) in amounts(&pod.limits) {
        if is_pod_level(name) && !given(name) && requests.get(name).is_none() {
            requests.update(name, |_| quantity);
        }
    }
    requests
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with(keys::HUGE_PAGES_PREFIX)
}

/// Whether the pod as a whole may ask for it.
fn is_pod_level(name: &str) -> bool {
    name == keys::CPU || name == keys::MEMORY || is_huge_pages(name)
}

#[cfg(test)]
mod tests;
