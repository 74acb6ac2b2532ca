//! A pod as JSON, and the parts of it that decisions look at.

use super::{Settings, patch::Step};
use crate::keys;
use crate::manifest::{Container, Metadata, PodManifest};
use crate::quantity::Quantity;
use crate::request::is_share;
use serde::Deserialize;
use serde_json::Value;

/// Containers for debugging, beside `initContainers` and `containers`.
const EPHEMERAL: &str = "ephemeralContainers";

/// A pod whose metadata and spec make sense.
pub(super) struct Pod<'a> {
    pub(super) raw: &'a Value,
    pub(super) metadata: Metadata,
    pub(super) spec: PodManifest,
}

impl<'a> Pod<'a> {
    pub(super) fn read(raw: &'a Value) -> Result<Self, String> {
        for name in ["initContainers", "containers", EPHEMERAL] {
            if let Some(at) = list(raw, name).iter().position(|c| !c.is_object()) {
                let field = Place { list: name, at }.field();
                return Err(format!("{field}: an object is expected"));
            }
        }
        Ok(Self { raw, metadata: part(raw, "metadata")?, spec: part(raw, "spec")? })
    }

    /// Whether divvy places it.
    pub(super) fn is_ours(&self, settings: &Settings) -> bool {
        settings.scheduler_names.iter().any(|name| **name == *self.spec.scheduler_name)
    }

    /// Whether divvy places it, and it asks for a share.
    pub(super) fn is_our_share(&self, settings: &Settings) -> bool {
        self.is_ours(settings) && is_share(&self.metadata)
    }

    /// Init containers, then containers, each with its place.
    pub(super) fn containers(&self) -> impl Iterator<Item = (Place, &Container)> {
        let of = |list: &'static str| move |(at, c)| (Place { list, at }, c);
        let init = self.spec.init_containers.iter().enumerate().map(of("initContainers"));
        init.chain(self.spec.containers.iter().enumerate().map(of("containers")))
    }

    /// Containers for debugging that `old` does not have; the others cannot be changed any more.
    pub(super) fn new_ephemeral(&self, old: &Value) -> Result<Vec<(Place, Container)>, String> {
        let name = |container: &Value| container.get("name").cloned();
        let known: Vec<_> = list(old, EPHEMERAL).iter().map(name).collect();
        let all = list(self.raw, EPHEMERAL).iter().enumerate();
        all.filter(|(_, container)| !known.contains(&name(container)))
            .map(|(at, container)| {
                let place = Place { list: EPHEMERAL, at };
                let read = Container::deserialize(container);
                read.map(|read| (place, read)).map_err(|why| format!("{}: {why}", place.field()))
            })
            .collect()
    }

    /// Its runtime class; empty for that of the node.
    pub(super) fn runtime_class(&self) -> &str {
        let class = self.raw.pointer("/spec/runtimeClassName").and_then(Value::as_str);
        class.unwrap_or_default()
    }

    /// Whether its containers run under a runtime that gives out devices, as far as one can see.
    pub(super) fn has_gpu_runtime(&self, settings: &Settings) -> bool {
        let class = self.runtime_class();
        let is_gpu_class =
            class.starts_with("nvidia") || (!class.is_empty() && class == settings.runtime_class);
        is_gpu_class || self.containers().any(|(_, c)| asks_gpu(c))
    }
}

fn part<'de, T: Deserialize<'de> + Default>(raw: &'de Value, field: &str) -> Result<T, String> {
    match raw.get(field) {
        None | Some(Value::Null) => Ok(T::default()),
        // A struct would also be read from a list.
        Some(part @ Value::Object(_)) => {
            T::deserialize(part).map_err(|why| format!("{field}: {why}"))
        }
        Some(_) => Err(format!("{field}: an object is expected")),
    }
}

fn list<'a>(pod: &'a Value, name: &str) -> &'a [Value] {
    let list = pod.get("spec").and_then(|spec| spec.get(name)).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// Where a container stands in a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    list: &'static str,
    at: usize,
}

impl Place {
    /// The JSON of the container.
    pub(super) fn of(self, pod: &Value) -> &Value {
        list(pod, self.list).get(self.at).unwrap_or(&Value::Null)
    }

    /// The field of the pod, for people.
    pub(super) fn field(self) -> String {
        format!("spec.{}[{}]", self.list, self.at)
    }

    /// The step that puts `first` in front of the container's variables and takes away all other
    /// entries with these names: of several the last wins.
    pub(super) fn set_variables(self, pod: &Value, first: Vec<Value>) -> Step {
        let name = |entry: &Value| entry.get("name").cloned().unwrap_or_default();
        let names: Vec<Value> = first.iter().map(name).collect();
        let given = self.of(pod).get("env").and_then(Value::as_array);
        let rest = given.into_iter().flatten().filter(|entry| !names.contains(&name(entry)));
        let all = first.into_iter().chain(rest.cloned()).collect();
        let path = format!("/spec/{}/{}/env", self.list, self.at);
        Step::Add { path, value: Value::Array(all) }
    }
}

/// Whether the device plugin gives this container a device: whole, a replica or a slice.
pub(super) fn asks_gpu(container: &Container) -> bool {
    let all = container.resources.limits.iter().chain(container.resources.requests.iter());
    let mut asked = all.filter(|(_, amount)| amount.as_ref().is_ok_and(|q| *q > Quantity::ZERO));
    asked.any(|(name, _)| name.starts_with(keys::GPU) || name.starts_with(keys::MIG_PREFIX))
}
