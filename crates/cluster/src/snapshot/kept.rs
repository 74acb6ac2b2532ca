//! What is kept of each kind of object. Whatever is not named here is left out, also what a later
//! version of the API adds.
//!
//! When a decision, view or explanation begins to read a field, add it here: a test fails until
//! then. A text in which somebody may say anything (messages, commands, parameters of a driver)
//! stays out: what a rehearsal says, it finds out by itself. Where such a text decides something, the
//! words that do are kept, and only they.

use Kept::{Fields, Keys, Map, Phrase, Plain};
use divvy_words::keys;
use divvy_words::manifest::PodStatus;

/// What is kept of a value; nothing if it is of another form.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// A text, a number, a boolean, or a list of such.
    Plain,
    /// An object of such, whatever its keys are: labels, amounts of resources.
    Map,
    /// Of such an object, these keys.
    Keys(&'static [&'static str]),
    /// Of a text that contains these words, the words.
    Phrase(&'static str),
    /// Of an object, or of each object of a list, these fields. Without any, it is kept that there
    /// is one.
    Fields(&'static [(&'static str, Kept)]),
}

/// `metadata`. Labels and annotations are named by the kinds where they are read.
macro_rules! metadata {
    ($($more:expr),*) => {
        Fields(&[
            ("name", Plain),
            ("generateName", Plain),
            ("namespace", Plain),
            ("uid", Plain),
            ("resourceVersion", Plain),
            ("creationTimestamp", Plain),
            ("deletionTimestamp", Plain),
            ("deletionGracePeriodSeconds", Plain),
            ("ownerReferences", OWNER),
            $($more),*
        ])
    };
}

const OWNER: Kept =
    Fields(&[("kind", Plain), ("name", Plain), ("uid", Plain), ("controller", Plain)]);

pub(super) const POD: Kept = Fields(&[
    (
        "metadata",
        metadata!(
            ("labels", Map),
            (
                "annotations",
                Keys(&[
                    keys::GPU_FRACTION,
                    keys::GPU_MEMORY,
                    keys::FRACTION_DEVICES,
                    keys::FRACTION_CONTAINER,
                    keys::MPS,
                    keys::STRATEGY,
                    keys::CARDS,
                    keys::CLASS,
                    keys::DEVICE_ALLOCATED,
                    keys::POD_GROUP,
                    keys::RECEIVED_TYPE,
                    keys::RESERVED_CARD,
                    keys::RESERVED_NUMBER,
                    keys::GHOSTS,
                    keys::MIRROR,
                ])
            )
        ),
    ),
    (
        "spec",
        Fields(&[
            ("containers", CONTAINER),
            ("initContainers", CONTAINER),
            ("nodeName", Plain),
            ("nodeSelector", Map),
            ("affinity", AFFINITY),
            ("tolerations", TOLERATION),
            ("schedulerName", Plain),
            ("terminationGracePeriodSeconds", Plain),
            ("schedulingGates", Fields(&[("name", Plain)])),
            ("priority", Plain),
            ("priorityClassName", Plain),
            ("overhead", Map),
            ("resources", RESOURCES),
            ("resourceClaims", Fields(&[])),
            ("schedulingGroup", Fields(&[("podGroupName", Plain)])),
            ("hostNetwork", Plain),
            ("topologySpreadConstraints", SPREAD),
            ("volumes", VOLUME),
        ]),
    ),
    (
        "status",
        Fields(&[
            ("phase", Plain),
            // That a device plugin gives no container two slices is said nowhere else.
            ("reason", Phrase(PodStatus::REFUSED)),
            ("message", Phrase(PodStatus::ONE_EACH)),
            ("nominatedNodeName", Plain),
            ("startTime", Plain),
            // The message of a condition repeats what webhooks and drivers say.
            ("conditions", Fields(&[("type", Plain), ("status", Plain), ("reason", Plain)])),
            ("containerStatuses", CONTAINER_STATUS),
            ("initContainerStatuses", CONTAINER_STATUS),
            ("allocatedResources", Map),
            ("resources", Fields(&[("requests", Map)])),
        ]),
    ),
]);

const CONTAINER: Kept = Fields(&[
    ("name", Plain),
    ("resources", RESOURCES),
    ("restartPolicy", Plain),
    (
        "ports",
        Fields(&[
            ("containerPort", Plain),
            ("hostPort", Plain),
            ("hostIP", Plain),
            ("protocol", Plain),
        ]),
    ),
]);

const RESOURCES: Kept = Fields(&[("requests", Map), ("limits", Map)]);

const CONTAINER_STATUS: Kept = Fields(&[
    ("name", Plain),
    ("allocatedResources", Map),
    ("resources", Fields(&[("requests", Map)])),
    (
        "allocatedResourcesStatus",
        Fields(&[
            ("name", Plain),
            ("resources", Fields(&[("resourceID", Plain), ("health", Plain)])),
        ]),
    ),
]);

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

const AFFINITY: Kept = Fields(&[
    (
        "nodeAffinity",
        Fields(&[
            (REQUIRED, NODE_SELECTOR),
            (PREFERRED, Fields(&[("weight", Plain), ("preference", SELECTOR_TERM)])),
        ]),
    ),
    ("podAffinity", POD_AFFINITY),
    ("podAntiAffinity", POD_AFFINITY),
]);

const POD_AFFINITY: Kept = Fields(&[
    (REQUIRED, POD_AFFINITY_TERM),
    (PREFERRED, Fields(&[("weight", Plain), ("podAffinityTerm", POD_AFFINITY_TERM)])),
]);

const POD_AFFINITY_TERM: Kept = Fields(&[
    ("labelSelector", LABEL_SELECTOR),
    ("namespaces", Plain),
    ("namespaceSelector", LABEL_SELECTOR),
    ("topologyKey", Plain),
    ("matchLabelKeys", Plain),
    ("mismatchLabelKeys", Plain),
]);

const NODE_SELECTOR: Kept = Fields(&[("nodeSelectorTerms", SELECTOR_TERM)]);

const SELECTOR_TERM: Kept =
    Fields(&[("matchExpressions", EXPRESSION), ("matchFields", EXPRESSION)]);

const LABEL_SELECTOR: Kept = Fields(&[("matchLabels", Map), ("matchExpressions", EXPRESSION)]);

const EXPRESSION: Kept = Fields(&[("key", Plain), ("operator", Plain), ("values", Plain)]);

const TOLERATION: Kept =
    Fields(&[("key", Plain), ("operator", Plain), ("value", Plain), ("effect", Plain)]);

const SPREAD: Kept = Fields(&[
    ("maxSkew", Plain),
    ("topologyKey", Plain),
    ("whenUnsatisfiable", Plain),
    ("labelSelector", LABEL_SELECTOR),
    ("minDomains", Plain),
    ("nodeAffinityPolicy", Plain),
    ("nodeTaintsPolicy", Plain),
    ("matchLabelKeys", Plain),
]);

/// Of most kinds of volumes only the name: they are the same on every node.
const VOLUME: Kept = Fields(&[
    ("name", Plain),
    ("persistentVolumeClaim", Fields(&[("claimName", Plain)])),
    // The claim that is made of its template is in the snapshot itself.
    ("ephemeral", Fields(&[])),
    ("gcePersistentDisk", GCE_DISK),
    ("awsElasticBlockStore", DISK),
    ("azureDisk", AZURE_DISK),
    ("cinder", DISK),
    ("portworxVolume", DISK),
    ("iscsi", Fields(&[("iqn", Plain), ("readOnly", Plain)])),
    ("rbd", Fields(&[("monitors", Plain), ("pool", Plain), ("image", Plain), ("readOnly", Plain)])),
]);

const GCE_DISK: Kept = Fields(&[("pdName", Plain), ("readOnly", Plain)]);
const AZURE_DISK: Kept = Fields(&[("diskURI", Plain), ("kind", Plain), ("readOnly", Plain)]);
const DISK: Kept = Fields(&[("volumeID", Plain), ("readOnly", Plain)]);

pub(super) const NODE: Kept = Fields(&[
    ("metadata", metadata!(("labels", Map), ("annotations", Keys(&[keys::CDI_KIND])))),
    (
        "spec",
        Fields(&[
            ("unschedulable", Plain),
            ("taints", Fields(&[("key", Plain), ("value", Plain), ("effect", Plain)])),
        ]),
    ),
    ("status", Fields(&[("capacity", Map), ("allocatable", Map)])),
]);

pub(super) const NAMESPACE: Kept = Fields(&[("metadata", metadata!(("labels", Map)))]);

pub(super) const PRIORITY_CLASS: Kept =
    Fields(&[("metadata", metadata!()), ("value", Plain), ("globalDefault", Plain)]);

pub(super) const RESOURCE_QUOTA: Kept = Fields(&[
    ("metadata", metadata!()),
    (
        "spec",
        Fields(&[
            ("hard", Map),
            ("scopes", Plain),
            (
                "scopeSelector",
                Fields(&[(
                    "matchExpressions",
                    Fields(&[("operator", Plain), ("scopeName", Plain), ("values", Plain)]),
                )]),
            ),
        ]),
    ),
]);

pub(super) const PERSISTENT_VOLUME_CLAIM: Kept = Fields(&[
    (
        "metadata",
        metadata!((
            "annotations",
            Keys(&[keys::BIND_COMPLETED, keys::SELECTED_NODE, keys::BETA_STORAGE_CLASS])
        )),
    ),
    (
        "spec",
        Fields(&[
            ("storageClassName", Plain),
            ("volumeAttributesClassName", Plain),
            ("accessModes", Plain),
            ("volumeMode", Plain),
            ("resources", RESOURCES),
            ("selector", LABEL_SELECTOR),
            ("volumeName", Plain),
        ]),
    ),
    ("status", Fields(&[("phase", Plain)])),
]);

pub(super) const PERSISTENT_VOLUME: Kept = Fields(&[
    ("metadata", metadata!(("labels", Map), ("annotations", Keys(&[keys::BETA_STORAGE_CLASS])))),
    (
        "spec",
        Fields(&[
            ("storageClassName", Plain),
            ("volumeAttributesClassName", Plain),
            ("accessModes", Plain),
            ("volumeMode", Plain),
            ("capacity", Map),
            ("claimRef", Fields(&[("namespace", Plain), ("name", Plain), ("uid", Plain)])),
            ("nodeAffinity", Fields(&[("required", NODE_SELECTOR)])),
            ("csi", Fields(&[("driver", Plain), ("volumeHandle", Plain)])),
            ("gcePersistentDisk", GCE_DISK),
            ("awsElasticBlockStore", DISK),
            ("azureDisk", AZURE_DISK),
            ("cinder", DISK),
            ("portworxVolume", DISK),
        ]),
    ),
    ("status", Fields(&[("phase", Plain)])),
]);

pub(super) const STORAGE_CLASS: Kept = Fields(&[
    ("metadata", metadata!(("annotations", Keys(&[keys::DEFAULT_STORAGE_CLASS])))),
    ("provisioner", Plain),
    ("volumeBindingMode", Plain),
    (
        "allowedTopologies",
        Fields(&[("matchLabelExpressions", Fields(&[("key", Plain), ("values", Plain)]))]),
    ),
]);

pub(super) const CSI_NODE: Kept = Fields(&[
    ("metadata", metadata!(("annotations", Keys(&[keys::MIGRATED_PLUGINS])))),
    (
        "spec",
        Fields(&[(
            "drivers",
            Fields(&[("name", Plain), ("allocatable", Fields(&[("count", Plain)]))]),
        )]),
    ),
]);

pub(super) const CSI_DRIVER: Kept = Fields(&[
    ("metadata", metadata!()),
    ("spec", Fields(&[("storageCapacity", Plain), ("preventPodSchedulingIfMissing", Plain)])),
]);

pub(super) const CSI_STORAGE_CAPACITY: Kept = Fields(&[
    ("metadata", metadata!()),
    ("storageClassName", Plain),
    ("capacity", Plain),
    ("maximumVolumeSize", Plain),
    ("nodeTopology", LABEL_SELECTOR),
]);

pub(super) const VOLUME_ATTACHMENT: Kept = Fields(&[
    ("metadata", metadata!()),
    (
        "spec",
        Fields(&[
            ("attacher", Plain),
            ("nodeName", Plain),
            ("source", Fields(&[("persistentVolumeName", Plain)])),
        ]),
    ),
]);

/// Only that of the device plugin is read, and only if somebody names it.
pub(super) const CONFIG_MAP: Kept = Fields(&[("metadata", metadata!()), ("data", Map)]);

/// Of Kubernetes itself.
pub(super) const POD_GROUP: Kept = Fields(&[
    ("metadata", metadata!()),
    ("spec", Fields(&[("schedulingPolicy", Fields(&[("gang", Fields(&[("minCount", Plain)]))]))])),
]);

/// Of its scheduler plugins and of KAI.
pub(super) const POD_GROUP_OF_OTHERS: Kept =
    Fields(&[("metadata", metadata!()), ("spec", Fields(&[("minMember", Plain)]))]);
