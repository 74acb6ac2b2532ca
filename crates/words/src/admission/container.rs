//! The containers of a pod, and the steps that change their variables.

use super::patch::{Patch, Step};
use super::pod::ReviewedPod;
use super::raw::{each, part};
use crate::keys;
use crate::manifest::lenient::{boolean, list, optional, text};
use crate::manifest::{Container, Environment, ResourceList, Resources, gpu_resources};
use crate::problem::short;
use crate::quantity::Quantity;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// No pod of so many starts; and each may need a step of a patch.
const MOST_CONTAINERS: usize = 1000;
/// How often a container may set one of our variables. The last one counts, and to take the others
/// out of a long list is work for the API server, one by one.
const MOST_TIMES: usize = 4;

/// Where a container stands in a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContainerPlace {
    pub(super) list: &'static str,
    pub(super) at: usize,
}

impl ContainerPlace {
    /// The field of the pod, for people.
    pub(super) fn field(self) -> String {
        format!("spec.{}[{}]", self.list, self.at)
    }

    /// The pointer to one of its fields.
    pub(super) fn pointer(self, field: &str) -> String {
        format!("/spec/{}/{}/{field}", self.list, self.at)
    }
}

/// What admission knows of a container besides what it asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContainerFacts {
    pub(super) place: ContainerPlace,
    /// Whether it has a list of variables.
    has_env: bool,
    /// By what it reaches every device of its node.
    pub(super) power: Option<&'static str>,
}

/// Reads a list of containers.
pub(super) fn containers(
    name: &'static str,
    text: Option<&RawValue>,
) -> Result<(Vec<ContainerFacts>, Vec<Container>), String> {
    let (mut parts, mut all) = (Vec::new(), Vec::new());
    each(&format!("spec.{name}"), text, |at, given: Given| {
        if at == MOST_CONTAINERS {
            return Err(format!(
                "spec.{name}: more than {MOST_CONTAINERS} containers, and no pod of so many starts"
            ));
        }
        let place = ContainerPlace { list: name, at };
        if let Some(name) = set_too_often(&given.env) {
            return Err(format!(
                "{}.env: container {} sets {name} more than {MOST_TIMES} times",
                place.field(),
                short(&given.name)
            ));
        }
        let power = given.security_context.as_ref().and_then(SecurityContext::power);
        parts.push(ContainerFacts { place, has_env: given.env.is_there, power });
        let resources = given.resources.unwrap_or_default();
        all.push(Container {
            name: given.name,
            resources: Resources { requests: resources.requests, limits: resources.limits },
            restart_policy: given.restart_policy,
            env: given.env.kept,
            ..Container::default()
        });
        Ok(())
    })?;
    Ok((parts, all))
}

fn set_too_often(env: &Environment) -> Option<&'static str> {
    let times = |name: &str| env.kept.iter().filter(|variable| variable.name == name).count();
    let mut names = keys::HAND_OFF_VARIABLES.iter().map(|(name, _)| *name);
    names.find(|name| times(name) > MOST_TIMES)
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct Given {
    #[serde(deserialize_with = "text")]
    name: Box<str>,
    #[serde(deserialize_with = "optional")]
    resources: Option<GpuResources>,
    #[serde(deserialize_with = "text")]
    restart_policy: Box<str>,
    env: Environment,
    #[serde(deserialize_with = "optional")]
    security_context: Option<SecurityContext>,
}

#[derive(Default, Deserialize)]
#[serde(default, expecting = "an object")]
struct GpuResources {
    #[serde(deserialize_with = "gpu_resources")]
    requests: ResourceList,
    #[serde(deserialize_with = "gpu_resources")]
    limits: ResourceList,
}

#[derive(Default, Deserialize)]
#[serde(default, expecting = "an object")]
struct SecurityContext {
    #[serde(deserialize_with = "boolean")]
    privileged: bool,
    #[serde(deserialize_with = "optional")]
    capabilities: Option<Capabilities>,
}

#[derive(Default, Deserialize)]
#[serde(default, expecting = "an object")]
struct Capabilities {
    #[serde(rename = "add", deserialize_with = "has_admin")]
    is_admin: bool,
}

impl SecurityContext {
    fn power(&self) -> Option<&'static str> {
        if self.privileged {
            return Some("is privileged");
        }
        let is_admin = self.capabilities.as_ref().is_some_and(|all| all.is_admin);
        is_admin.then_some("has the capability SYS_ADMIN")
    }
}

fn has_admin<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    #[derive(Default)]
    struct IsAdmin(bool);
    impl<'de> Deserialize<'de> for IsAdmin {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let name = text(deserializer)?.to_ascii_uppercase();
            let name = name.strip_prefix("CAP_").unwrap_or(&name);
            Ok(Self(matches!(name, "SYS_ADMIN" | "ALL")))
        }
    }
    Ok(list::<D, IsAdmin>(deserializer)?.iter().any(|IsAdmin(is_admin)| *is_admin))
}

/// Lists of a pod's spec whose entries are looked at one by one.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub(super) struct PodLists<'a> {
    #[serde(borrow)]
    pub(super) volumes: Option<&'a RawValue>,
    #[serde(borrow)]
    init_containers: Option<&'a RawValue>,
    #[serde(borrow)]
    containers: Option<&'a RawValue>,
}

/// Lists of a container whose entries are looked at one by one, and what is mounted into it besides.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub(super) struct ContainerLists<'a> {
    #[serde(borrow)]
    pub(super) env: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) env_from: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) volume_mounts: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) volume_devices: Option<&'a RawValue>,
    /// The kubelet mounts an empty file there.
    #[serde(deserialize_with = "text")]
    pub(super) termination_message_path: Box<str>,
}

impl<'a> PodLists<'a> {
    pub(super) fn read(pod: &ReviewedPod<'a>) -> Result<Self, String> {
        part("spec", pod.text)
    }

    /// Shows the init containers, then the others.
    pub(super) fn each_container(
        &self,
        mut look: impl FnMut(ContainerPlace, ContainerLists<'a>) -> Result<(), String>,
    ) -> Result<(), String> {
        for (list, given) in
            [("initContainers", self.init_containers), ("containers", self.containers)]
        {
            each(&format!("spec.{list}"), given, |at, given| {
                look(ContainerPlace { list, at }, given)
            })?;
        }
        Ok(())
    }
}

/// The steps that put `first` in front of a container's variables and take away all other entries
/// with these names: of several the last wins. Other entries are not repeated.
pub(super) fn set_variables(
    part: &ContainerFacts,
    container: &Container,
    first: Vec<Value>,
) -> Patch {
    let list = part.place.pointer("env");
    if !part.has_env {
        return vec![Step::Add { path: list, value: Value::Array(first) }];
    }
    let is_set =
        |name: &str| first.iter().any(|entry| entry.get("name").is_some_and(|n| n == name));
    let old = container.env.iter().filter(|entry| is_set(&entry.name)).map(|entry| entry.at);
    let mut steps = remove_entries(&list, old);
    let new = first.into_iter().enumerate();
    steps.extend(new.map(|(at, value)| Step::Add { path: format!("{list}/{at}"), value }));
    steps
}

/// The steps that remove entries of a list, whose places are in order; the last goes first, so that
/// the others stay where they are.
pub(super) fn remove_entries(list: &str, places: impl DoubleEndedIterator<Item = usize>) -> Patch {
    places.rev().map(|at| Step::Remove { path: format!("{list}/{at}") }).collect()
}

/// Whether the device plugin gives this container a device: whole, a replica or a slice.
pub(super) fn asks_gpu(container: &Container) -> bool {
    let all = container.resources.limits.iter().chain(container.resources.requests.iter());
    let mut asked = all.filter(|(_, amount)| amount.as_ref().is_ok_and(|q| *q > Quantity::ZERO));
    asked.any(|(name, _)| name.starts_with(keys::GPU) || name.starts_with(keys::MIG_PREFIX))
}
