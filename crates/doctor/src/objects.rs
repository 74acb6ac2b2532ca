//! Objects of a cluster, as far as a check looks at them.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Longer texts are not kept: tenants write them, and nothing that is looked for is longer.
const LONGEST: usize = 1024;

/// Labels or annotations.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ShortTexts(BTreeMap<String, String>);

impl ShortTexts {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Whether a label has this value.
    pub fn is(&self, key: &str, value: &str) -> bool {
        self.get(key) == Some(value)
    }
}

impl<'de> Deserialize<'de> for ShortTexts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Short;
        impl<'de> Visitor<'de> for Short {
            type Value = ShortTexts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }

            fn visit_unit<E>(self) -> Result<ShortTexts, E> {
                Ok(ShortTexts::default())
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ShortTexts, M::Error> {
                let mut texts = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    let value = map.next_value::<String>()?;
                    if value.len() <= LONGEST {
                        texts.insert(key, value);
                    }
                }
                Ok(ShortTexts(texts))
            }
        }
        deserializer.deserialize_any(Short)
    }
}

/// The API server writes some empty lists as null.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

macro_rules! objects {
    ($($(#[$note:meta])* $name:ident { $($(#[$of:meta])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[$note])*
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        pub struct $name {
            $($(#[$of])* #[serde(deserialize_with = "or_default")] pub $field: $kind,)*
        }
    )*};
}

objects! {
    /// What every object has.
    Metadata { name: String, namespace: String, labels: ShortTexts, annotations: ShortTexts, }
    /// An object of which only that it is there counts.
    Plain { metadata: Metadata, }
    /// A node.
    Node { metadata: Metadata, spec: NodeSpec, status: NodeStatus, }
    NodeSpec { taints: Vec<Taint>, }
    Taint { key: String, }
    NodeStatus { capacity: BTreeMap<String, Value>, allocatable: BTreeMap<String, Value>, }
    PodSpec { node_name: String, containers: Vec<Container>, volumes: Vec<Volume>, }
    Container { name: String, image: String, args: Vec<String>, }
    Volume { config_map: Option<Named>, }
    Named { name: String, }
    PodStatus {
        phase: String, reason: String, message: String, start_time: String,
        conditions: Vec<Condition>, container_statuses: Vec<ContainerStatus>,
    }
    Condition {
        #[serde(rename = "type")]
        kind: String,
        status: String, message: String,
    }
    ContainerStatus { state: ContainerState, }
    ContainerState { waiting: Option<Waiting>, }
    Waiting { reason: String, message: String, }
    /// A Deployment or a DaemonSet.
    Workload { metadata: Metadata, spec: WorkloadSpec, status: WorkloadStatus, }
    WorkloadSpec { replicas: Option<u32>, template: Template, }
    Template { spec: PodSpec, }
    WorkloadStatus { ready_replicas: u32, }
    /// A configuration of webhooks.
    Webhooks { metadata: Metadata, webhooks: Vec<ObservedWebhook>, }
    ClientConfig { ca_bundle: String, service: Option<ServiceRef>, }
    ServiceRef { namespace: String, name: String, }
    /// A policy or its binding.
    Policy { metadata: Metadata, spec: Value, }
    /// Who has a role in the whole cluster.
    RoleBinding { metadata: Metadata, subjects: Vec<Subject>, }
    Subject { kind: String, namespace: String, name: String, }
    /// Who answers for a Service.
    EndpointSlice { metadata: Metadata, endpoints: Vec<Endpoint>, }
    Endpoint { conditions: EndpointConditions, }
    EndpointConditions { ready: Option<bool>, }
    /// Limits of a namespace.
    Quota { metadata: Metadata, status: QuotaStatus, }
    QuotaStatus { hard: BTreeMap<String, String>, used: BTreeMap<String, String>, }
    /// Settings of the GPU operator.
    ClusterPolicy { metadata: Metadata, spec: ClusterPolicySpec, }
    ClusterPolicySpec { device_plugin: Configured, mig_manager: Configured, }
    Configured { config: Choice, }
    Choice { name: String, default: String, }
    /// Texts by name.
    ConfigMap { metadata: Metadata, data: BTreeMap<String, String>, }
    /// Devices of a node.
    ResourceSlice { metadata: Metadata, spec: SliceSpec, }
    SliceSpec { driver: String, }
    /// The certificates of a Secret; its keys are not kept.
    Certificates { metadata: Metadata, data: CertificateTexts, }
    CertificateTexts {
        #[serde(rename = "ca.crt")]
        ca: String,
        #[serde(rename = "tls.crt")]
        chain: String,
    }
    /// Which API server.
    Version { major: String, minor: String, git_version: String, }
}

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ObservedPod {
    pub metadata: Metadata,
    pub spec: PodSpec,
    pub status: PodStatus,
    /// Whose scheduler it is, if it is another project's and runs.
    #[serde(skip)]
    pub other: Option<&'static str>,
}

/// A webhook; what it is for is compared as it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObservedWebhook {
    pub name: String,
    pub client_config: ClientConfig,
    #[serde(flatten)]
    pub rest: serde_json::Map<String, Value>,
}

impl Node {
    /// How many of a resource the node has, or hands out.
    pub fn amount(of: &BTreeMap<String, Value>, resource: &str) -> u64 {
        match of.get(resource) {
            Some(Value::Number(number)) => number.as_u64().unwrap_or_default(),
            Some(Value::String(text)) => text.parse().unwrap_or_default(),
            _ => 0,
        }
    }

    /// The resources of NVIDIA's device plugin.
    pub fn gpu_resources(&self) -> impl Iterator<Item = &str> {
        let resources = self.status.capacity.keys().map(String::as_str);
        resources.filter(|name| {
            name.starts_with("nvidia.com/gpu") || name.starts_with("nvidia.com/mig-")
        })
    }

    /// Whether it has GPUs.
    pub fn has_gpus(&self) -> bool {
        self.gpu_resources().any(|name| Self::amount(&self.status.capacity, name) > 0)
    }

    /// What it is called, for people.
    pub fn called(&self) -> String {
        format!("node {}", self.metadata.name)
    }
}

impl Metadata {
    /// Namespace and name.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl Workload {
    /// Whether the image of a container has this in its name.
    pub fn runs(&self, image: &str) -> bool {
        self.spec.template.spec.containers.iter().any(|container| container.image.contains(image))
    }

    /// The value of an option of its first container; `true` if it is given without one.
    pub fn option(&self, name: &str) -> Option<&str> {
        let args = &self.spec.template.spec.containers.first()?.args;
        let at = self.option_at(name)?;
        if let Some((_, value)) = args.get(at)?.split_once('=') {
            return Some(value);
        }
        Some(args.get(at + 1).filter(|next| !next.starts_with('-')).map_or("true", String::as_str))
    }

    /// Which of the arguments the option is.
    pub fn option_at(&self, name: &str) -> Option<usize> {
        let args = &self.spec.template.spec.containers.first()?.args;
        args.iter().position(|arg| {
            let given = arg.strip_prefix("--").and_then(|arg| arg.strip_prefix(name));
            given.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    }

    /// The image of its first container.
    pub fn image(&self) -> &str {
        self.spec.template.spec.containers.first().map_or("", |container| &container.image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_api_server_writes_as_null_is_empty_and_long_texts_are_not_kept() {
        let slice = serde_json::json!({"metadata": {"labels": null}, "endpoints": null});
        let slice: EndpointSlice = serde_json::from_value(slice).unwrap();
        assert!(slice.endpoints.is_empty());
        let long = "x".repeat(LONGEST + 1);
        let node = serde_json::json!({"metadata": {"annotations": {"a": long, "b": "c"}}});
        let node: Node = serde_json::from_value(node).unwrap();
        let texts = node.metadata.annotations;
        assert_eq!((texts.get("a"), texts.get("b")), (None, Some("c")));
    }
}
