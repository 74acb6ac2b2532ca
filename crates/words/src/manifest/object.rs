//! One object of any kind. Which fields there are depends on the kind, so the kind is looked at
//! first; where it stands behind the fields, these wait for it as untyped values.

use super::lenient::{Key, NoList, integer, list, optional};
use super::{ClusterPolicyManifest, Metadata, NodeManifest, NodeStatus, PodManifest, PodStatus};
use super::{PodGroupManifest, StorageKind, StorageManifest};
use super::{Texts, WorkloadManifest};
use crate::keys;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// A Kubernetes object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// `apiVersion`, often not needed.
    pub api_version: Box<str>,
    /// `kind` as written; never empty.
    pub kind: Box<str>,
    /// `metadata`.
    pub metadata: Metadata,
    /// The rest, by kind.
    pub content: Content,
}

/// What an object holds besides its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// A pod: its spec and status.
    Pod(Box<PodManifest>, Box<PodStatus>),
    /// A node: its spec, and its status if it has one.
    Node(Box<(NodeManifest, Option<NodeStatus>)>),
    /// A controller of pods.
    Workload(Box<WorkloadManifest>),
    /// A priority class.
    PriorityClass {
        /// The priority.
        value: i32,
        /// Whether it is that of pods that name no class.
        global_default: bool,
    },
    /// A namespace, of which only the labels count.
    Namespace,
    /// A storage object.
    Storage(StorageKind, Box<StorageManifest>),
    /// A group of pods that start together.
    PodGroup(PodGroupManifest),
    /// A ConfigMap: its `data`.
    ConfigMap(Texts),
    /// The settings of NVIDIA's GPU operator.
    ClusterPolicy(Box<ClusterPolicyManifest>),
    /// Objects.
    List(Vec<Object>),
    /// A kind that divvy does not know: its `spec`, of which others may know where pods stand in it.
    Foreign(Box<Value>),
    /// A kind of which nothing is read.
    #[default]
    Other,
}

/// The kinds that divvy reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pod.
    Pod,
    /// Node.
    Node,
    /// Deployment, StatefulSet, ReplicaSet, ReplicationController, Job or DaemonSet.
    Workload,
    /// PriorityClass.
    PriorityClass,
    /// Namespace.
    Namespace,
    /// A storage object.
    Storage(StorageKind),
    /// PodGroup.
    PodGroup,
    /// ConfigMap.
    ConfigMap,
    /// ClusterPolicy of NVIDIA's GPU operator.
    ClusterPolicy,
    /// `List`, or one of the others with `List` behind it.
    List,
}

impl Kind {
    /// The kind by its name and the group of its `apiVersion`, for other projects have a Job or
    /// a Node too. An absent `apiVersion` is taken as the right one.
    pub fn of(kind: &str, api_version: &str) -> Option<Self> {
        let (found, group) = match kind {
            "Pod" => (Self::Pod, ""),
            "Node" => (Self::Node, ""),
            "Namespace" => (Self::Namespace, ""),
            "ReplicationController" => (Self::Workload, ""),
            "Deployment" | "StatefulSet" | "ReplicaSet" | "DaemonSet" => (Self::Workload, "apps"),
            "Job" => (Self::Workload, "batch"),
            "PriorityClass" => (Self::PriorityClass, "scheduling.k8s.io"),
            "List" => (Self::List, ""),
            "ConfigMap" => (Self::ConfigMap, ""),
            "ClusterPolicy" => (Self::ClusterPolicy, "nvidia.com"),
            "PodGroup" => {
                let given = api_version.split_once('/').map_or("", |(group, _)| group);
                let is_known = api_version.is_empty() || keys::POD_GROUP_GROUPS.contains(&given);
                return is_known.then_some(Self::PodGroup);
            }
            _ if let Some((kind, group)) = StorageKind::of(kind) => (Self::Storage(kind), group),
            _ => {
                let item = Self::of(kind.strip_suffix("List")?, api_version)?;
                return (item != Self::List).then_some(Self::List);
            }
        };
        let given = api_version.split_once('/').map_or("", |(group, _)| group);
        (given == group || api_version.is_empty()).then_some(found)
    }
}

/// The fields that mean something else in every kind.
const FIELDS: [&str; 13] = [
    "spec",
    "status",
    "data",
    "value",
    "globalDefault",
    "items",
    "provisioner",
    "volumeBindingMode",
    "allowedTopologies",
    "storageClassName",
    "capacity",
    "maximumVolumeSize",
    "nodeTopology",
];

/// Those fields, as far as they were read.
#[derive(Default)]
struct Fields {
    pod: Option<Box<PodManifest>>,
    node: Option<NodeManifest>,
    workload: Option<Box<WorkloadManifest>>,
    pod_status: Option<Box<PodStatus>>,
    node_status: Option<NodeStatus>,
    value: Option<i32>,
    global_default: bool,
    storage: Option<Box<StorageManifest>>,
    group: Option<PodGroupManifest>,
    data: Option<Texts>,
    policy: Option<Box<ClusterPolicyManifest>>,
    items: Vec<Object>,
    foreign: Option<Box<Value>>,
}

impl Fields {
    /// Reads the field `name` if this kind has one, and skips it otherwise.
    fn read<'de, D>(&mut self, kind: Option<Kind>, name: &str, value: D) -> Result<(), D::Error>
    where
        D: Deserializer<'de>,
    {
        match (kind, name) {
            (Some(Kind::Pod), "spec") => self.pod = optional(value)?,
            (Some(Kind::Node), "spec") => self.node = optional(value)?,
            (Some(Kind::Workload), "spec") => self.workload = optional(value)?,
            (Some(Kind::Pod), "status") => self.pod_status = optional(value)?,
            (Some(Kind::Node), "status") => self.node_status = optional(value)?,
            (Some(Kind::PriorityClass), "value") => self.value = integer(value)?,
            (Some(Kind::PriorityClass), "globalDefault") => {
                self.global_default = super::lenient::boolean(value)?;
            }
            (Some(Kind::Storage(_)), name) => {
                self.storage.get_or_insert_default().read(name, value)?;
            }
            (Some(Kind::PodGroup), "spec") => self.group = optional(value)?,
            (Some(Kind::ConfigMap), "data") => self.data = optional(value)?,
            (Some(Kind::ClusterPolicy), "spec") => self.policy = optional(value)?,
            (Some(Kind::List), "items") => self.items = list(value)?,
            (None, "spec") => self.foreign = Some(Box::new(Value::deserialize(value)?)),
            _ => {
                IgnoredAny::deserialize(value)?;
            }
        }
        Ok(())
    }

    fn into_content(self, kind: Option<Kind>, metadata: &Metadata) -> Content {
        match kind {
            Some(Kind::Pod) => {
                Content::Pod(self.pod.unwrap_or_default(), self.pod_status.unwrap_or_default())
            }
            Some(Kind::Node) => {
                Content::Node(Box::new((self.node.unwrap_or_default(), self.node_status)))
            }
            Some(Kind::Workload) => Content::Workload(self.workload.unwrap_or_default()),
            Some(Kind::PriorityClass) => Content::PriorityClass {
                value: self.value.unwrap_or_default(),
                global_default: self.global_default,
            },
            Some(Kind::Namespace) => Content::Namespace,
            Some(Kind::Storage(kind)) => {
                let storage = self.storage.unwrap_or_default();
                Content::Storage(
                    kind,
                    Box::new(StorageManifest { metadata: metadata.clone(), ..*storage }),
                )
            }
            Some(Kind::PodGroup) => Content::PodGroup(self.group.unwrap_or_default()),
            Some(Kind::ConfigMap) => Content::ConfigMap(self.data.unwrap_or_default()),
            Some(Kind::ClusterPolicy) => Content::ClusterPolicy(self.policy.unwrap_or_default()),
            Some(Kind::List) => Content::List(self.items),
            None => self.foreign.map_or(Content::Other, Content::Foreign),
        }
    }
}

/// Reads one value of [`Fields`] in place.
struct FieldSeed<'a>(&'a mut Fields, Option<Kind>, &'a str);

impl<'de> de::DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.read(self.1, self.2, deserializer)
    }
}

/// A string of the object's head; `null` is absent.
#[derive(Default)]
struct Head(Box<str>);

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        super::lenient::text(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a Kubernetes object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut object = Object::default();
                let mut fields = Fields::default();
                let mut waiting: Vec<(&'static str, Value)> = Vec::new();
                while let Some(key) = map.next_key::<Key<'de>>()? {
                    let field = FIELDS.iter().find(|field| **field == key.as_str());
                    match (key.as_str(), field) {
                        ("apiVersion", _) => object.api_version = map.next_value::<Head>()?.0,
                        ("kind", _) => object.kind = map.next_value::<Head>()?.0,
                        ("metadata", _) => {
                            let metadata: Option<NoList<Metadata>> = map.next_value()?;
                            object.metadata = metadata.map(|NoList(m)| m).unwrap_or_default();
                        }
                        // kubectl sorts keys, so the items of a List stand before its kind.
                        (_, Some(&"items")) if object.kind.is_empty() => {
                            map.next_value_seed(FieldSeed(&mut fields, Some(Kind::List), "items"))?;
                        }
                        (_, Some(field))
                            if object.kind.is_empty() || object.api_version.is_empty() =>
                        {
                            waiting.push((field, map.next_value()?));
                        }
                        (_, Some(field)) => {
                            let kind = Kind::of(&object.kind, &object.api_version);
                            map.next_value_seed(FieldSeed(&mut fields, kind, field))?;
                        }
                        (_, None) => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                if object.kind.is_empty() {
                    return Err(de::Error::missing_field("kind"));
                }
                let kind = Kind::of(&object.kind, &object.api_version);
                for (field, value) in waiting {
                    fields.read(kind, field, value).map_err(de::Error::custom)?;
                }
                object.content = fields.into_content(kind, &object.metadata);
                Ok(object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor)
    }
}
