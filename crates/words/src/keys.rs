//! The names of annotations, labels and resources that divvy reads or writes.

/// Annotation: the part of each card a pod asks, a decimal between 0 and 1.
pub const GPU_FRACTION: &str = "gpu-fraction";
/// Annotation: the MiB of each card a pod asks.
pub const GPU_MEMORY: &str = "gpu-memory";
/// Annotation: on how many cards a pod asks its share.
pub const FRACTION_DEVICES: &str = "gpu-fraction-num-devices";
/// Annotation: the container that gets the share.
pub const FRACTION_CONTAINER: &str = "gpu-fraction-container-name";
/// Annotation: `"true"` asks for MPS; only valid with a share.
pub const MPS: &str = "mps";
/// Annotation on a pod or its controller: `binpack` or `spread`.
pub const STRATEGY: &str = "scheduling.run.ai/scheduling-strategy";
/// Annotation that divvy writes with the binding: the cards a pod holds.
pub const CARDS: &str = "divvy.dev/cards";
/// Annotation that divvy writes with the binding: the devices that the share's container sees, as
/// the container runtime names them.
pub const VISIBLE_DEVICES: &str = "divvy.dev/visible-devices";
/// Annotation that divvy writes with the binding: the part of each card, a decimal.
pub const PORTION: &str = "divvy.dev/portion";
/// Annotation that divvy writes with the binding: the level of the share and its provider.
pub const CLASS: &str = "divvy.dev/class";
/// Annotation that divvy writes with the binding: the memory of one card, in the provider's unit.
pub const MEMORY_LIMIT: &str = "divvy.dev/memory-limit";
/// Annotation that divvy writes with the binding: percent of a card's compute, if any is asked.
pub const COMPUTE_LIMIT: &str = "divvy.dev/compute-limit";
/// The annotations that a provider's variables are read from.
pub const LIMITS: [&str; 2] = [MEMORY_LIMIT, COMPUTE_LIMIT];
/// Annotation that the binding brings, as Koordinator's does: the cards of a pod, in JSON.
pub const DEVICE_ALLOCATED: &str = "scheduling.koordinator.sh/device-allocated";
/// Annotation that the binding brings, as KAI's does: `Regular`, `Fraction` or `MigInstance`.
pub const RECEIVED_TYPE: &str = "received-resource-type";

/// The annotations that only a binding by divvy may bring: containers read their cards from them.
pub const HAND_OFF: [&str; 8] = [
    CARDS,
    VISIBLE_DEVICES,
    PORTION,
    RECEIVED_TYPE,
    CLASS,
    MEMORY_LIMIT,
    COMPUTE_LIMIT,
    DEVICE_ALLOCATED,
];
/// The annotations by which a pod asks for a share.
pub const REQUEST: [&str; 5] =
    [GPU_FRACTION, GPU_MEMORY, FRACTION_DEVICES, FRACTION_CONTAINER, MPS];

/// Resource of Koordinator: hundredths of a card, of compute and of memory.
pub const KOORDINATOR_GPU: &str = "koordinator.sh/gpu";
/// Resource of Koordinator: on how many cards a share is asked.
pub const KOORDINATOR_SHARED: &str = "koordinator.sh/gpu.shared";
/// Resource of Koordinator: hundredths of a card's compute, of all cards together.
pub const KOORDINATOR_CORE: &str = "koordinator.sh/gpu-core";
/// Resource of Koordinator: bytes of memory, of all cards together.
pub const KOORDINATOR_MEMORY: &str = "koordinator.sh/gpu-memory";
/// Resource of Koordinator: hundredths of a card's memory, of all cards together.
pub const KOORDINATOR_RATIO: &str = "koordinator.sh/gpu-memory-ratio";
/// The resources by which Koordinator's pods ask for GPUs. No node has to offer them.
pub const KOORDINATOR: [&str; 5] =
    [KOORDINATOR_GPU, KOORDINATOR_SHARED, KOORDINATOR_CORE, KOORDINATOR_MEMORY, KOORDINATOR_RATIO];

/// Label of a pod: whether it may use no more of its card than it asked for.
pub const ISOLATION_LEVEL: &str = "koordinator.sh/gpu-share-isolation-level";
/// Label of a pod: what is to see to that. Label of a node: what can.
pub const ISOLATION_PROVIDER: &str = "koordinator.sh/gpu-isolation-provider";
/// Annotation on a node: the kind of its cards' CDI devices.
pub const CDI_KIND: &str = "divvy.dev/cdi-kind";

/// Variable of a container: the devices that NVIDIA's container runtime gives it.
pub const ENV_VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";
/// Variable of the share's container: what is booked, as [`CARDS`] says it.
pub const ENV_CARDS: &str = "DIVVY_CARDS";
/// The variables of the share's container, and the annotation that each is read from.
pub const HAND_OFF_VARIABLES: [(&str, &str); 4] = [
    (ENV_VISIBLE_DEVICES, VISIBLE_DEVICES),
    ("GPU_PORTION", PORTION),
    ("RUNAI_NUM_OF_GPUS", PORTION),
    (ENV_CARDS, CARDS),
];

/// Annotation on a claim: the volume controller has finished to bind it.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation on a claim: the node that a volume is to be made for.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation of a volume that was given to a claim by who decided it, and not by hand.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Annotation on a claim or volume: its storage class, instead of the field.
pub const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// Annotation on a storage class: claims that name no class get this one.
pub const DEFAULT_STORAGE_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// Annotation on a CSINode: in-tree plugins that CSI drivers have taken over from.
pub const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// Annotation on a pod: the PodGroup of KAI that it belongs to.
pub const POD_GROUP: &str = "pod-group-name";

/// Taint that keeps other schedulers off a node while it is not certain who has which card there.
pub const UNSETTLED: &str = "divvy.dev/unsettled";

/// Annotation that KAI's admission writes: how the names of the ConfigMaps begin that KAI makes for
/// the pod.
pub const KAI_CONFIG_MAPS: &str = "runai/shared-gpu-configmap";

/// Annotation on a reservation pod: the UUID of its card, whatever the name says.
pub const RESERVED_CARD: &str = "run.ai/reserve_for_gpu_index";

/// Annotation on a reservation pod: the number of its card's device node on the machine.
pub const RESERVED_NUMBER: &str = "divvy.dev/card-number";

/// Annotation on a reservation pod: shares of its card that vanished pods may still use.
pub const GHOSTS: &str = "divvy.dev/ghosts";

/// Annotation on a pod that a kubelet has made itself, which it can in every namespace.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// The annotations that are kept when a manifest is read.
pub const ANNOTATIONS: [&str; 21] = [
    GPU_FRACTION,
    GPU_MEMORY,
    FRACTION_DEVICES,
    FRACTION_CONTAINER,
    MPS,
    STRATEGY,
    CARDS,
    BIND_COMPLETED,
    SELECTED_NODE,
    BETA_STORAGE_CLASS,
    DEFAULT_STORAGE_CLASS,
    MIGRATED_PLUGINS,
    POD_GROUP,
    RECEIVED_TYPE,
    CLASS,
    DEVICE_ALLOCATED,
    CDI_KIND,
    RESERVED_CARD,
    RESERVED_NUMBER,
    GHOSTS,
    MIRROR,
];

/// The API group of KAI's PodGroup.
pub const KAI_GROUPS: &str = "scheduling.run.ai";
/// The API group of Kubernetes' own PodGroup.
pub const KUBERNETES_GROUPS: &str = "scheduling.k8s.io";
/// The API group of the PodGroup of the Kubernetes scheduler plugins.
pub const PLUGIN_GROUPS: &str = "scheduling.x-k8s.io";
/// All API groups that have a PodGroup.
pub const POD_GROUP_GROUPS: [&str; 3] = [KAI_GROUPS, KUBERNETES_GROUPS, PLUGIN_GROUPS];
/// Labels of a pod: the PodGroup of the scheduler plugins, now and before.
pub const POD_GROUP_LABELS: [&str; 2] =
    ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"];

/// The provisioner of a storage class whose volumes are made by hand.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Resource: CPU.
pub const CPU: &str = "cpu";
/// Resource: memory.
pub const MEMORY: &str = "memory";
/// Resource: local ephemeral storage.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Resource of a claim or volume: its size.
pub const STORAGE: &str = "storage";
/// Resource of a node: pod slots.
pub const PODS: &str = "pods";
/// Resource: whole GPUs, or replicas of them.
pub const GPU: &str = "nvidia.com/gpu";
/// The resources that most pods and nodes have to do with.
pub const USUAL_RESOURCES: [&str; 5] = [CPU, MEMORY, GPU, EPHEMERAL_STORAGE, PODS];

/// Whether a resource is one of these.
pub(crate) fn is_usual_resource(name: &str) -> bool {
    USUAL_RESOURCES.contains(&name)
}

/// How the names of MIG slice resources begin.
pub const MIG_PREFIX: &str = "nvidia.com/mig-";
/// How the names of huge page resources begin.
pub const HUGE_PAGES_PREFIX: &str = "hugepages-";
/// How the names of volume count resources begin.
pub const VOLUMES_PREFIX: &str = "attachable-volumes-";

/// Node label: memory of one card in MiB.
pub const LABEL_GPU_MEMORY: &str = "nvidia.com/gpu.memory";
/// Node label: how many cards there are.
pub const LABEL_GPU_COUNT: &str = "nvidia.com/gpu.count";
/// Node label: the model of the cards.
pub const LABEL_GPU_PRODUCT: &str = "nvidia.com/gpu.product";
/// Node label: how many replicas the device plugin makes of each card.
pub const LABEL_GPU_REPLICAS: &str = "nvidia.com/gpu.replicas";
/// How the product label ends when replicas are called as whole GPUs are.
pub const SHARED_PRODUCT: &str = "-SHARED";
/// Node label: the named config of the device plugin that it gets.
pub const LABEL_PLUGIN_CONFIG: &str = "nvidia.com/device-plugin.config";
/// Node label: the named config of the MIG manager that it gets.
pub const LABEL_MIG_CONFIG: &str = "nvidia.com/mig.config";
/// Node label: what has become of that.
pub const LABEL_MIG_STATE: &str = "nvidia.com/mig.config.state";
/// Node label: how MIG slices are called.
pub const LABEL_MIG_STRATEGY: &str = "nvidia.com/mig.strategy";
/// What the product label contains when its GPUs are MIG slices.
pub const MIG_PRODUCT: &str = "-MIG-";

/// The only field that node affinity can match.
pub const FIELD_NODE_NAME: &str = "metadata.name";
/// The key of the configuration in a ConfigMap.
pub const CONFIG_FILE: &str = "config.yaml";
/// The namespace of objects that name none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Labels of a pod, or of what makes it: the queue of KAI that it belongs to, now and before v0.6.
pub const QUEUE_LABELS: [&str; 2] = ["kai.scheduler/queue", "runai/queue"];
/// Annotation of the recipe for KAI that nothing reads.
pub const GPU_SHARING: &str = "nvidia.com/gpu-sharing";

/// Label by which KAI says which pods share a card; with `/<group>` behind it, one for each card.
pub const GPU_GROUP: &str = "runai-gpu-group";
/// Where KAI keeps the pods that hold a shared card, now and before v0.6.
pub const RESERVATION_NAMESPACES: [&str; 2] = ["kai-resource-reservation", "runai-reservation"];

/// The names by which pods ask for divvy in `spec.schedulerName`; the others are KAI's and
/// Koordinator's.
pub const SCHEDULER_NAMES: [&str; 3] = ["divvy-scheduler", KAI_SCHEDULER, KOORDINATOR_SCHEDULER];
/// The name of KAI's scheduler, of its namespace, and how its pods' label `app` begins.
pub const KAI_SCHEDULER: &str = "kai-scheduler";
/// The name of Koordinator's scheduler.
pub const KOORDINATOR_SCHEDULER: &str = "koord-scheduler";
/// The scheduler of pods that name none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The label that every namespace has: its name.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
