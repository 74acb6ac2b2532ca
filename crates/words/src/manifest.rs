//! Kubernetes objects as far as divvy reads them. Unknown fields are skipped, `null` is absent.

mod environment;
pub(crate) mod field;
pub(crate) mod lenient;
mod map;
mod object;
mod relations;
mod status;
mod storage;

pub(crate) use environment::{Environment, EnvironmentEntry, annotation_path};
pub use environment::{Variable, VariableSource};
pub use map::{Annotations, ResourceList, ResourceName, Text, Texts};
pub(crate) use map::{ReviewedAnnotations, gpu_resources};
pub use object::{Content, Kind, Object};
pub use relations::{
    LabelSelector, PodAffinity, PodAffinityTerm, SpreadConstraint, WeightedPodAffinityTerm,
};
pub use status::{
    ActualResources, Condition, ContainerState, ContainerStatus, ContainerWaiting, DeviceStatus,
    PodStatus, ResourceHealth,
};
pub use storage::{
    AttachmentSource, CsiSource, DiskSource, DriverLimit, NodeDriver, ObjectReference, StorageKind,
    StorageManifest, StorageSpec, TopologyTerm, VolumeNodeAffinity,
};

use field::manifest;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

manifest! {
    /// `metadata` of any object. Absent strings are empty.
    pub struct Metadata {
        /// Name.
        pub name: Box<str>,
        /// What the API server makes a name from.
        pub generate_name: Box<str>,
        /// Namespace.
        pub namespace: Box<str>,
        /// Labels.
        pub labels: Texts,
        /// The annotations of [`crate::keys::ANNOTATIONS`], and the first that is not a string.
        pub annotations: Annotations,
        /// Tells it from a later object of the same name.
        pub uid: Box<str>,
        /// Which version of the object this is.
        pub resource_version: Box<str>,
        /// When it was created, in RFC 3339.
        pub creation_timestamp: Box<str>,
        /// When its deletion was asked, in RFC 3339.
        pub deletion_timestamp: Box<str>,
        /// How many seconds were given for that.
        pub deletion_grace_period_seconds: Option<i64>,
        /// What it belongs to.
        pub owner_references: Vec<OwnerReference>,
    }

    /// One of `metadata.ownerReferences`.
    pub struct OwnerReference {
        /// Kind of the owner.
        pub kind: Box<str>,
        /// Name of the owner.
        pub name: Box<str>,
        /// Which object of that name.
        pub uid: Box<str>,
        /// Whether this is the controller that made the object.
        pub controller: bool,
    }

    /// `spec` of a pod or of a controller's template.
    pub struct PodManifest {
        /// Containers.
        pub containers: Vec<Container>,
        /// Init containers, sidecars among them.
        pub init_containers: Vec<Container>,
        /// The node it is bound to, or asks for.
        pub node_name: Box<str>,
        /// Labels a node must have.
        pub node_selector: Texts,
        /// Affinity.
        pub affinity: Option<Box<Affinity>>,
        /// Tolerations.
        pub tolerations: Vec<TolerationManifest>,
        /// Which scheduler places it; empty for the default one.
        pub scheduler_name: Box<str>,
        /// How many seconds its containers have to end.
        pub termination_grace_period_seconds: Option<i64>,
        /// Scheduling gates.
        pub scheduling_gates: Vec<Named>,
        /// Priority, as the API server fills it in.
        pub priority: Option<i32>,
        /// Priority class.
        pub priority_class_name: Box<str>,
        /// What the pod takes besides its containers.
        pub overhead: ResourceList,
        /// Resources of the pod as a whole.
        pub resources: Option<Box<Resources>>,
        /// How many resource claims it has.
        pub resource_claims: usize,
        /// The group that is placed together.
        pub scheduling_group: SchedulingGroup,
        /// Whether it uses the node's network.
        pub host_network: bool,
        /// Topology spread constraints.
        pub topology_spread_constraints: Vec<SpreadConstraint>,
        /// Its volumes.
        pub volumes: Vec<Volume>,
    }

    /// One of `spec.volumes`.
    pub struct Volume {
        /// Its name in the pod.
        pub name: Box<str>,
        /// A claim.
        pub persistent_volume_claim: Option<ClaimSource>,
        /// From what a claim is made for this pod alone.
        pub ephemeral: Option<Anything>,
        /// A disk.
        pub gce_persistent_disk: Option<Box<DiskSource>>,
        /// A disk.
        pub aws_elastic_block_store: Option<Box<DiskSource>>,
        /// A disk.
        pub azure_disk: Option<Box<DiskSource>>,
        /// A disk.
        pub cinder: Option<Box<DiskSource>>,
        /// A disk.
        pub portworx_volume: Option<Box<DiskSource>>,
        /// A disk.
        pub iscsi: Option<Box<DiskSource>>,
        /// A disk.
        pub rbd: Option<Box<DiskSource>>,
    }

    /// `persistentVolumeClaim` of a volume.
    pub struct ClaimSource {
        /// The claim.
        pub claim_name: Box<str>,
    }

    /// `status` of a claim or volume.
    pub struct Phase {
        /// How far it is.
        pub phase: Box<str>,
    }

    /// `spec.schedulingGroup`.
    pub struct SchedulingGroup {
        /// The PodGroup.
        pub pod_group_name: Box<str>,
    }

    /// `spec` of a PodGroup, of KAI, of Kubernetes or of its scheduler plugins.
    pub struct PodGroupManifest {
        /// How many pods start together.
        pub min_member: Option<i32>,
        /// The same as Kubernetes says it.
        pub scheduling_policy: PodGroupPolicy,
    }
}

impl PodGroupManifest {
    /// How many pods start together; 1 if it does not say.
    pub fn minimum(&self) -> u32 {
        let minimum = self.min_member.or(self.scheduling_policy.gang.min_count);
        minimum.and_then(|minimum| u32::try_from(minimum).ok()).unwrap_or(1)
    }
}

manifest! {
    /// `spec.schedulingPolicy` of a PodGroup.
    pub struct PodGroupPolicy {
        /// Pods that start together.
        pub gang: Gang,
    }

    /// `gang` of a PodGroup's policy.
    pub struct Gang {
        /// How many pods start together.
        pub min_count: Option<i32>,
    }

    /// One of a container's `ports`.
    pub struct Port {
        /// The port of the container.
        pub container_port: Option<i32>,
        /// The port of the node, if it is one.
        pub host_port: Option<i32>,
        /// The address of the node; empty for every address.
        #[serde(rename = "hostIP")]
        pub host_ip: Box<str>,
        /// `TCP`, `UDP` or `SCTP`; empty for TCP.
        pub protocol: Box<str>,
    }

    /// A container or init container.
    pub struct Container {
        /// Name.
        pub name: Box<str>,
        /// Resources.
        pub resources: Resources,
        /// `Always` makes a sidecar of an init container.
        pub restart_policy: Box<str>,
        /// Ports.
        pub ports: Vec<Port>,
        /// The variables of [`crate::keys::HAND_OFF_VARIABLES`].
        pub env: Vec<Variable>,
    }

    /// `resources` of a container or a pod.
    pub struct Resources {
        /// What it asks.
        pub requests: ResourceList,
        /// What it may use.
        pub limits: ResourceList,
    }

    /// An object of which only the name is read.
    pub struct Named {
        /// The name.
        pub name: Box<str>,
    }

    /// `spec.affinity`.
    pub struct Affinity {
        /// Affinity to nodes.
        pub node_affinity: Option<NodeAffinity>,
        /// Affinity to pods.
        pub pod_affinity: Option<PodAffinity>,
        /// Affinity against pods.
        pub pod_anti_affinity: Option<PodAffinity>,
    }

    /// `spec.affinity.nodeAffinity`.
    pub struct NodeAffinity {
        /// Where it may run.
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        pub required: Option<NodeSelector>,
        /// Where it would rather run.
        #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
        pub preferred: Vec<Preference>,
    }

    /// Node selector terms, of which one must hold.
    pub struct NodeSelector {
        /// The terms.
        pub node_selector_terms: Vec<SelectorTerm>,
    }

    /// A preferred term.
    pub struct Preference {
        /// How much it counts, 1 to 100.
        pub weight: Option<i32>,
        /// The term.
        pub preference: SelectorTerm,
    }

    /// A node selector term: all of it must hold.
    pub struct SelectorTerm {
        /// Conditions on labels.
        pub match_expressions: Vec<Expression>,
        /// Conditions on `metadata.name`.
        pub match_fields: Vec<Expression>,
    }

    /// One condition.
    pub struct Expression {
        /// Label or field.
        pub key: Box<str>,
        /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
        pub operator: Box<str>,
        /// Values.
        pub values: Vec<Box<str>>,
    }

    /// One of `spec.tolerations`.
    pub struct TolerationManifest {
        /// Key; empty for every key.
        pub key: Box<str>,
        /// `Equal` or `Exists`.
        pub operator: Box<str>,
        /// Value.
        pub value: Box<str>,
        /// Effect; empty for every effect.
        pub effect: Box<str>,
    }

    /// `spec` of a node.
    pub struct NodeManifest {
        /// Whether it is cordoned.
        pub unschedulable: bool,
        /// Taints; their `operator` is always empty.
        pub taints: Vec<TolerationManifest>,
    }

    /// `status` of a node.
    pub struct NodeStatus {
        /// What it has.
        pub capacity: Option<ResourceList>,
        /// What it has for pods.
        pub allocatable: Option<ResourceList>,
    }

    /// `spec` of the GPU operator's ClusterPolicy.
    pub struct ClusterPolicyManifest {
        /// About the device plugin.
        pub device_plugin: ConfiguredPart,
        /// About the MIG manager.
        pub mig_manager: ConfiguredPart,
        /// About MIG.
        pub mig: MigManifest,
    }

    /// A part of the GPU operator that takes its configs from a ConfigMap.
    pub struct ConfiguredPart {
        /// Which.
        pub config: ConfigChoice,
    }

    /// A ConfigMap with configs by name, and which of them is for nodes that name none.
    pub struct ConfigChoice {
        /// The ConfigMap.
        pub name: Box<str>,
        /// The config.
        pub default: Box<str>,
    }

    /// `spec.mig` of a ClusterPolicy.
    pub struct MigManifest {
        /// `single` or `mixed`.
        pub strategy: Box<str>,
    }

    /// `spec` of what makes pods: Deployment, StatefulSet, ReplicaSet, Job, DaemonSet.
    pub struct WorkloadManifest {
        /// How many pods.
        pub replicas: Option<i32>,
        /// How many pods of a Job at a time.
        pub parallelism: Option<i32>,
        /// How many pods of a Job altogether.
        pub completions: Option<i32>,
        /// Whether a Job makes no pods for now.
        pub suspend: bool,
        /// Where a StatefulSet begins to count.
        pub ordinals: Ordinals,
        /// Its pods.
        pub template: Template,
    }

    /// `spec.ordinals` of a StatefulSet.
    pub struct Ordinals {
        /// The number of the first pod.
        pub start: Option<i32>,
    }

    /// `spec.template`.
    pub struct Template {
        /// Labels and annotations of the pods.
        pub metadata: Metadata,
        /// The pods.
        pub spec: PodManifest,
    }
}

/// Something that is there, of which nothing is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anything;

impl<'de> Deserialize<'de> for Anything {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}
