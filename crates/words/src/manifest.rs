//! Kubernetes objects as far as divvy reads them. Unknown fields are skipped, `null` is absent.

mod environment;
pub(crate) mod lenient;
mod map;
mod object;
mod relations;
mod status;
mod storage;

pub(crate) use environment::{Environment, annotation_path};
pub use environment::{Variable, VariableSource};
pub use map::{ResourceList, ResourceName, Text, Texts};
pub(crate) use map::{gpu_resources, reviewed_annotations};
pub use object::{Content, Kind, Object};
pub use relations::{
    LabelSelector, PodAffinity, PodAffinityTerm, SpreadConstraint, WeightedPodAffinityTerm,
};
pub use status::{
    ActualResources, Condition, ContainerState, ContainerStatus, Device, DeviceStatus, PodStatus,
    Waiting,
};
pub use storage::{
    AttachmentSource, CsiSource, DiskSource, DriverLimit, NodeDriver, ObjectReference, StorageKind,
    StorageManifest, StorageSpec, TopologyTerm, VolumeNodeAffinity,
};

use lenient::{boolean, integer, length, list, optional, or_default, present, text, texts};
use serde::Deserialize;

/// `metadata` of any object. Absent strings are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct Metadata {
    /// Name.
    #[serde(deserialize_with = "text")]
    pub name: Box<str>,
    /// What the API server makes a name from.
    #[serde(deserialize_with = "text")]
    pub generate_name: Box<str>,
    /// Namespace.
    #[serde(deserialize_with = "text")]
    pub namespace: Box<str>,
    /// Labels.
    pub labels: Texts,
    /// The annotations of [`crate::keys::ANNOTATIONS`], and any that is not a string.
    #[serde(deserialize_with = "map::annotations")]
    pub annotations: Texts,
    /// Tells it from a later object of the same name.
    #[serde(deserialize_with = "text")]
    pub uid: Box<str>,
    /// Which version of the object this is.
    #[serde(deserialize_with = "text")]
    pub resource_version: Box<str>,
    /// When it was created, in RFC 3339.
    #[serde(deserialize_with = "text")]
    pub creation_timestamp: Box<str>,
    /// When its deletion was asked, in RFC 3339.
    #[serde(deserialize_with = "text")]
    pub deletion_timestamp: Box<str>,
    /// How many seconds were given for that.
    #[serde(deserialize_with = "optional")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// What it belongs to.
    #[serde(deserialize_with = "list")]
    pub owner_references: Vec<OwnerReference>,
}

/// One of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct OwnerReference {
    /// Kind of the owner.
    #[serde(deserialize_with = "text")]
    pub kind: Box<str>,
    /// Name of the owner.
    #[serde(deserialize_with = "text")]
    pub name: Box<str>,
    /// Which object of that name.
    #[serde(deserialize_with = "text")]
    pub uid: Box<str>,
    /// Whether this is the controller that made the object.
    #[serde(deserialize_with = "boolean")]
    pub controller: bool,
}

/// `spec` of a pod or of a controller's template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct PodManifest {
    /// Containers.
    #[serde(deserialize_with = "list")]
    pub containers: Vec<Container>,
    /// Init containers, sidecars among them.
    #[serde(deserialize_with = "list")]
    pub init_containers: Vec<Container>,
    /// The node it is bound to, or asks for.
    #[serde(deserialize_with = "text")]
    pub node_name: Box<str>,
    /// Labels a node must have.
    pub node_selector: Texts,
    /// Affinity.
    #[serde(deserialize_with = "optional")]
    pub affinity: Option<Box<Affinity>>,
    /// Tolerations.
    #[serde(deserialize_with = "list")]
    pub tolerations: Vec<TolerationManifest>,
    /// Which scheduler places it; empty for the default one.
    #[serde(deserialize_with = "text")]
    pub scheduler_name: Box<str>,
    /// How many seconds its containers have to end.
    #[serde(deserialize_with = "optional")]
    pub termination_grace_period_seconds: Option<i64>,
    /// Scheduling gates.
    #[serde(deserialize_with = "list")]
    pub scheduling_gates: Vec<Named>,
    /// Priority, as the API server fills it in.
    #[serde(deserialize_with = "integer")]
    pub priority: Option<i32>,
    /// Priority class.
    #[serde(deserialize_with = "text")]
    pub priority_class_name: Box<str>,
    /// What the pod takes besides its containers.
    pub overhead: ResourceList,
    /// Resources of the pod as a whole.
    #[serde(deserialize_with = "optional")]
    pub resources: Option<Box<Resources>>,
    /// How many resource claims it has.
    #[serde(deserialize_with = "length")]
    pub resource_claims: usize,
    /// The group that is placed together.
    #[serde(deserialize_with = "or_default")]
    pub scheduling_group: SchedulingGroup,
    /// Whether it uses the node's network.
    #[serde(deserialize_with = "boolean")]
    pub host_network: bool,
    /// Topology spread constraints.
    #[serde(deserialize_with = "list")]
    pub topology_spread_constraints: Vec<SpreadConstraint>,
    /// Its volumes.
    #[serde(deserialize_with = "list")]
    pub volumes: Vec<Volume>,
}

/// One of `spec.volumes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct Volume {
    /// Its name in the pod.
    #[serde(deserialize_with = "text")]
    pub name: Box<str>,
    /// A claim.
    #[serde(deserialize_with = "optional")]
    pub persistent_volume_claim: Option<ClaimSource>,
    /// Whether a claim is made for this pod alone.
    #[serde(deserialize_with = "present")]
    pub ephemeral: bool,
    /// A disk.
    #[serde(deserialize_with = "optional")]
    pub gce_persistent_disk: Option<Box<DiskSource>>,
    /// A disk.
    #[serde(deserialize_with = "optional")]
    pub aws_elastic_block_store: Option<Box<DiskSource>>,
    /// A disk.
    #[serde(deserialize_with = "optional")]
    pub azure_disk: Option<Box<DiskSource>>,
    /// A disk.
    #[serde(deserialize_with = "optional")]
    pub cinder: Option<Box<DiskSource>>,
    /// A disk.
    #[serde(deserialize_with = "optional")]
    pub portworx_volume: Option<Box<DiskSource>>,
    /// A disk.
    #[serde(deserialize_with = "optional")]
    pub iscsi: Option<Box<DiskSource>>,
    /// A disk.
    #[serde(deserialize_with = "optional")]
    pub rbd: Option<Box<DiskSource>>,
}

/// `persistentVolumeClaim` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct ClaimSource {
    /// The claim.
    #[serde(deserialize_with = "text")]
    pub claim_name: Box<str>,
}

/// `status` of a claim or volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Phase {
    /// How far it is.
    #[serde(deserialize_with = "text")]
    pub phase: Box<str>,
}

/// `spec.schedulingGroup`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct SchedulingGroup {
    /// The PodGroup.
    #[serde(deserialize_with = "text")]
    pub pod_group_name: Box<str>,
}

/// `spec` of a PodGroup, of KAI, of Kubernetes or of its scheduler plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct GroupManifest {
    /// How many pods start together.
    #[serde(deserialize_with = "integer")]
    pub min_member: Option<i32>,
    /// The same as Kubernetes says it.
    #[serde(deserialize_with = "or_default")]
    pub scheduling_policy: GroupPolicy,
}

impl GroupManifest {
    /// How many pods start together; 1 if it does not say.
    pub fn minimum(&self) -> u32 {
        let minimum = self.min_member.or(self.scheduling_policy.gang.min_count);
        minimum.and_then(|minimum| u32::try_from(minimum).ok()).unwrap_or(1)
    }
}

/// `spec.schedulingPolicy` of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct GroupPolicy {
    /// Pods that start together.
    #[serde(deserialize_with = "or_default")]
    pub gang: Gang,
}

/// `gang` of a PodGroup's policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct Gang {
    /// How many pods start together.
    #[serde(deserialize_with = "integer")]
    pub min_count: Option<i32>,
}

/// One of a container's `ports`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct Port {
    /// The port of the container.
    #[serde(deserialize_with = "integer")]
    pub container_port: Option<i32>,
    /// The port of the node, if it is one.
    #[serde(deserialize_with = "integer")]
    pub host_port: Option<i32>,
    /// The address of the node; empty for every address.
    #[serde(rename = "hostIP", deserialize_with = "text")]
    pub host_ip: Box<str>,
    /// `TCP`, `UDP` or `SCTP`; empty for TCP.
    #[serde(deserialize_with = "text")]
    pub protocol: Box<str>,
}

/// A container or init container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct Container {
    /// Name.
    #[serde(deserialize_with = "text")]
    pub name: Box<str>,
    /// Resources.
    #[serde(deserialize_with = "or_default")]
    pub resources: Resources,
    /// `Always` makes a sidecar of an init container.
    #[serde(deserialize_with = "text")]
    pub restart_policy: Box<str>,
    /// Ports.
    #[serde(deserialize_with = "list")]
    pub ports: Vec<Port>,
    /// The variables of [`crate::keys::HAND_OFF_VARIABLES`].
    #[serde(deserialize_with = "environment::hand_off")]
    pub env: Vec<Variable>,
}

/// `resources` of a container or a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Resources {
    /// What it asks.
    pub requests: ResourceList,
    /// What it may use.
    pub limits: ResourceList,
}

/// An object of which only the name is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Named {
    /// The name.
    #[serde(deserialize_with = "text")]
    pub name: Box<str>,
}

/// `spec.affinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct Affinity {
    /// Affinity to nodes.
    #[serde(deserialize_with = "optional")]
    pub node_affinity: Option<NodeAffinity>,
    /// Affinity to pods.
    #[serde(deserialize_with = "optional")]
    pub pod_affinity: Option<PodAffinity>,
    /// Affinity against pods.
    #[serde(deserialize_with = "optional")]
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// `spec.affinity.nodeAffinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct NodeAffinity {
    /// Where it may run.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    #[serde(deserialize_with = "optional")]
    pub required: Option<NodeSelector>,
    /// Where it would rather run.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    #[serde(deserialize_with = "list")]
    pub preferred: Vec<Preference>,
}

/// Node selector terms, of which one must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct NodeSelector {
    /// The terms.
    #[serde(deserialize_with = "list")]
    pub node_selector_terms: Vec<SelectorTerm>,
}

/// A preferred term.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Preference {
    /// How much it counts, 1 to 100.
    #[serde(deserialize_with = "integer")]
    pub weight: Option<i32>,
    /// The term.
    #[serde(deserialize_with = "or_default")]
    pub preference: SelectorTerm,
}

/// A node selector term: all of it must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct SelectorTerm {
    /// Conditions on labels.
    #[serde(deserialize_with = "list")]
    pub match_expressions: Vec<Expression>,
    /// Conditions on `metadata.name`.
    #[serde(deserialize_with = "list")]
    pub match_fields: Vec<Expression>,
}

/// One condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Expression {
    /// Label or field.
    #[serde(deserialize_with = "text")]
    pub key: Box<str>,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    #[serde(deserialize_with = "text")]
    pub operator: Box<str>,
    /// Values.
    #[serde(deserialize_with = "texts")]
    pub values: Vec<Box<str>>,
}

/// One of `spec.tolerations`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct TolerationManifest {
    /// Key; empty for every key.
    #[serde(deserialize_with = "text")]
    pub key: Box<str>,
    /// `Equal` or `Exists`.
    #[serde(deserialize_with = "text")]
    pub operator: Box<str>,
    /// Value.
    #[serde(deserialize_with = "text")]
    pub value: Box<str>,
    /// Effect; empty for every effect.
    #[serde(deserialize_with = "text")]
    pub effect: Box<str>,
}

/// `spec` of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct NodeManifest {
    /// Whether it is cordoned.
    #[serde(deserialize_with = "boolean")]
    pub unschedulable: bool,
    /// Taints; their `operator` is always empty.
    #[serde(deserialize_with = "list")]
    pub taints: Vec<TolerationManifest>,
}

/// `status` of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct NodeStatus {
    /// What it has.
    pub capacity: Option<ResourceList>,
    /// What it has for pods.
    pub allocatable: Option<ResourceList>,
}

/// `spec` of what makes pods: Deployment, StatefulSet, ReplicaSet, Job, DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct WorkloadManifest {
    /// How many pods.
    #[serde(deserialize_with = "integer")]
    pub replicas: Option<i32>,
    /// How many pods of a Job at a time.
    #[serde(deserialize_with = "integer")]
    pub parallelism: Option<i32>,
    /// How many pods of a Job altogether.
    #[serde(deserialize_with = "integer")]
    pub completions: Option<i32>,
    /// Whether a Job makes no pods for now.
    #[serde(deserialize_with = "boolean")]
    pub suspend: bool,
    /// Where a StatefulSet begins to count.
    #[serde(deserialize_with = "or_default")]
    pub ordinals: Ordinals,
    /// Its pods.
    #[serde(deserialize_with = "or_default")]
    pub template: Template,
}

/// `spec.ordinals` of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Ordinals {
    /// The number of the first pod.
    #[serde(deserialize_with = "integer")]
    pub start: Option<i32>,
}

/// `spec.template`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Template {
    /// Labels and annotations of the pods.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// The pods.
    #[serde(deserialize_with = "or_default")]
    pub spec: PodManifest,
}
