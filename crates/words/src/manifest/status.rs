//! `status` of a pod: how far it is, and what its containers were given.

use super::ResourceList;
use super::field::manifest;
use crate::keys;
use divvy_ledger::{self as ledger, DeviceOn};

manifest! {
    /// `status` of a pod.
    pub struct PodStatus {
        /// How far it is.
        pub phase: Box<str>,
        /// Why it is in that phase, if there is more to say.
        pub reason: Box<str>,
        /// The same in words.
        pub message: Box<str>,
        /// The node that somebody makes room on for it.
        pub nominated_node_name: Box<str>,
        /// When a kubelet first saw it, in RFC 3339.
        pub start_time: Box<str>,
        /// Its conditions.
        pub conditions: Vec<Condition>,
        /// How its containers are.
        pub container_statuses: Vec<ContainerStatus>,
        /// How its init containers are.
        pub init_container_statuses: Vec<ContainerStatus>,
        /// What the node promised the pod as a whole.
        pub allocated_resources: Option<ResourceList>,
        /// What the pod as a whole has.
        pub resources: Option<ActualResources>,
    }
}

impl PodStatus {
    /// The reason of a pod that its node has refused, because a device plugin did.
    pub const REFUSED: &str = "UnexpectedAdmissionError";
    /// What NVIDIA's device plugin says if it gives no container more than one slice of a kind.
    pub const ONE_EACH: &str = "maximum request size for shared resources is 1";

    /// How a container or init container is.
    pub fn of_container(&self, name: &str) -> Option<&ContainerStatus> {
        self.containers().find(|status| &*status.name == name)
    }

    fn containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.container_statuses.iter().chain(&self.init_container_statuses)
    }

    /// Why it has failed, or why a container does not start, if it says so.
    pub fn why(&self) -> Option<String> {
        let mut containers = self.container_statuses.iter();
        let waits = containers.find_map(|status| status.state.as_ref()?.waiting.as_ref());
        let own = Some((&self.reason, &self.message)).filter(|(reason, _)| !reason.is_empty());
        let (reason, message) = own.or_else(|| waits.map(|w| (&w.reason, &w.message)))?;
        Some(if message.is_empty() { reason.to_string() } else { format!("{reason}: {message}") })
    }

    /// The cards that its containers were given by the device plugin, where the kubelet tells.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        let given = self.containers().flat_map(|status| &status.allocated_resources_status);
        let cards = given.filter(|given| &*given.name == keys::GPU);
        cards.flat_map(|given| &given.resources).map(|device| &*device.id)
    }

    /// The cards behind the time slices and MPS replicas that its containers were given, where the
    /// kubelet tells.
    pub fn devices_on(&self) -> Vec<DeviceOn> {
        let mut on: Vec<DeviceOn> = Vec::new();
        let given = self.containers().flat_map(|status| &status.allocated_resources_status);
        for given in given {
            let device = match &*given.name {
                keys::GPU => Some(ledger::Device::Gpu),
                name => ledger::Device::of_resource(name),
            };
            let Some(device) = device else { continue };
            for (uuid, _) in given.resources.iter().filter_map(|given| given.id.split_once("::")) {
                let is_it = |known: &&mut DeviceOn| *known.uuid == *uuid && known.device == device;
                match on.iter_mut().find(is_it) {
                    Some(known) => known.count += 1,
                    None => on.push(DeviceOn { uuid: uuid.into(), device, count: 1 }),
                }
            }
        }
        on
    }

    /// Whether it was given a slice under the name of a whole GPU, where the kubelet tells.
    pub fn has_slice_as_gpu(&self) -> bool {
        self.devices().any(|id| id.contains("::") || id.starts_with("MIG-"))
    }

    /// Whether its node's device plugin refused it, because a container asked more than one slice.
    pub fn is_refused_several(&self) -> bool {
        &*self.reason == Self::REFUSED && self.message.contains(Self::ONE_EACH)
    }

    /// Whether a card that it was given is not well, where the kubelet tells.
    pub fn has_sick_card(&self) -> bool {
        let given = self.containers().flat_map(|status| &status.allocated_resources_status);
        let mut cards = given.filter(|given| &*given.name == keys::GPU);
        cards.any(|given| given.resources.iter().any(|device| &*device.health == "Unhealthy"))
    }

    /// Whether a container cannot start, as its kubelet has found.
    pub fn is_stuck(&self) -> bool {
        let waits = |status: &ContainerStatus| {
            let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
            waiting.is_some_and(|w| {
                !["", "ContainerCreating", "PodInitializing"].contains(&&*w.reason)
            })
        };
        self.containers().any(waits)
    }

    /// Whether the node has said that it can never give what the pod asks after a change.
    pub fn is_resize_infeasible(&self) -> bool {
        let pending = self.conditions.iter().find(|c| &*c.kind == "PodResizePending");
        pending.is_some_and(|c| &*c.reason == "Infeasible")
    }

    /// Whether the pod has ended, and holds nothing any more.
    pub fn has_ended(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }
}

manifest! {
    /// One of `status.containerStatuses`.
    pub struct ContainerStatus {
        /// Which container.
        pub name: Box<str>,
        /// What the node promised it.
        pub allocated_resources: Option<ResourceList>,
        /// What it has.
        pub resources: Option<ActualResources>,
        /// How it is.
        pub state: Option<ContainerState>,
        /// The devices that it was given, as newer kubelets tell.
        pub allocated_resources_status: Vec<DeviceStatus>,
    }

    /// `state` of a container, of which only what it waits for matters.
    pub struct ContainerState {
        /// What it waits for.
        pub waiting: Option<ContainerWaiting>,
    }

    /// What a container waits for.
    pub struct ContainerWaiting {
        /// In a word.
        pub reason: Box<str>,
        /// In words.
        pub message: Box<str>,
    }

    /// One of `allocatedResourcesStatus`.
    pub struct DeviceStatus {
        /// The resource.
        pub name: Box<str>,
        /// Its devices.
        pub resources: Vec<ResourceHealth>,
    }

    /// One device of a resource.
    pub struct ResourceHealth {
        /// What its plugin calls it.
        #[serde(rename = "resourceID")]
        pub id: Box<str>,
        /// `Healthy`, `Unhealthy` or `Unknown`.
        pub health: Box<str>,
    }

    /// `resources` of a status, of which only the requests matter.
    pub struct ActualResources {
        /// What it was given.
        pub requests: Option<ResourceList>,
    }

    /// One of `status.conditions`.
    pub struct Condition {
        /// Which.
        #[serde(rename = "type")]
        pub kind: Box<str>,
        /// `True`, `False` or `Unknown`.
        pub status: Box<str>,
        /// Why, in one word.
        pub reason: Box<str>,
        /// Why, in a sentence.
        pub message: Box<str>,
    }
}
