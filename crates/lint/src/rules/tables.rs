//! The fields of Kubernetes 1.37, where what is asked of GPUs stands. Made from the types of
//! k8s-openapi; a test asks an API server whether any is missing.

/// The fields of an object.
pub(crate) struct Fields {
    pub(crate) known: &'static [&'static str],
    /// Those whose fields are known, too.
    pub(crate) inside: &'static [(&'static str, Inside)],
    /// Fields of others that are written here by mistake, and where they belong.
    pub(crate) elsewhere: &'static [(&'static str, &'static str)],
}

/// What a field holds.
pub(crate) enum Inside {
    Map(&'static Fields),
    List(&'static Fields),
}

/// The fields of a kind.
pub(crate) fn of_kind(kind: &str) -> Option<&'static Fields> {
    Some(match kind {
        "Pod" => &POD,
        "Deployment" => &DEPLOYMENT,
        "StatefulSet" => &STATEFUL_SET,
        "ReplicaSet" | "ReplicationController" => &REPLICA_SET,
        "DaemonSet" => &DAEMON_SET,
        "Job" => &JOB,
        "CronJob" => &CRON_JOB,
        "ConfigMap" => &CONFIG_MAP,
        "DeviceClass" => &DEVICE_CLASS,
        "ResourceClaim" => &CLAIM,
        "ResourceClaimTemplate" => &CLAIM_TEMPLATE,
        _ => return None,
    })
}

static POD: Fields = Fields {
    known: &["apiVersion", "kind", "metadata", "spec", "status"],
    inside: &[("metadata", Inside::Map(&METADATA)), ("spec", Inside::Map(&POD_SPEC))],
    elsewhere: &[
        ("annotations", "metadata"),
        ("labels", "metadata"),
        ("name", "metadata"),
        ("namespace", "metadata"),
        ("containers", "spec"),
        ("schedulerName", "spec"),
    ],
};

static METADATA: Fields = Fields {
    known: &[
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    ],
    inside: &[],
    elsewhere: &[],
};

static POD_SPEC: Fields = Fields {
    known: &[
        "activeDeadlineSeconds",
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "ephemeralContainers",
        "evictionResponders",
        "hostAliases",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostUsers",
        "hostname",
        "hostnameOverride",
        "imagePullSecrets",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "os",
        "overhead",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "readinessGates",
        "resourceClaims",
        "resources",
        "restartPolicy",
        "runtimeClassName",
        "schedulerName",
        "schedulingGates",
        "schedulingGroup",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    ],
    inside: &[
        ("containers", Inside::List(&CONTAINER)),
        ("initContainers", Inside::List(&CONTAINER)),
        ("resources", Inside::Map(&RESOURCES)),
    ],
    elsewhere: &[
        ("annotations", "metadata of the pod"),
        ("labels", "metadata of the pod"),
        ("limits", "resources of a container"),
        ("requests", "resources of a container"),
    ],
};

static CONTAINER: Fields = Fields {
    known: &[
        "args",
        "command",
        "env",
        "envFrom",
        "image",
        "imagePullPolicy",
        "lifecycle",
        "livenessProbe",
        "name",
        "ports",
        "readinessProbe",
        "resizePolicy",
        "resources",
        "restartPolicy",
        "restartPolicyRules",
        "securityContext",
        "startupProbe",
        "stdin",
        "stdinOnce",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "tty",
        "volumeDevices",
        "volumeMounts",
        "workingDir",
    ],
    inside: &[("resources", Inside::Map(&RESOURCES))],
    elsewhere: &[
        ("limits", "resources"),
        ("requests", "resources"),
        ("schedulerName", "spec of the pod"),
        ("annotations", "metadata of the pod"),
        ("labels", "metadata of the pod"),
    ],
};

static RESOURCES: Fields = Fields {
    known: &["claims", "limits", "requests"],
    inside: &[],
    elsewhere: &[
        ("nvidia.com/gpu", "limits"),
        ("cpu", "limits or requests"),
        ("memory", "limits or requests"),
    ],
};

pub(crate) static TEMPLATE: Fields = Fields {
    known: &["metadata", "spec"],
    inside: &[("metadata", Inside::Map(&METADATA)), ("spec", Inside::Map(&POD_SPEC))],
    elsewhere: &[
        ("annotations", "metadata"),
        ("labels", "metadata"),
        ("containers", "spec"),
        ("schedulerName", "spec"),
    ],
};

static DEPLOYMENT: Fields = Fields {
    known: &["apiVersion", "kind", "metadata", "spec", "status"],
    inside: &[("metadata", Inside::Map(&METADATA)), ("spec", Inside::Map(&DEPLOYMENT_SPEC))],
    elsewhere: &[
        ("annotations", "metadata"),
        ("labels", "metadata"),
        ("name", "metadata"),
        ("namespace", "metadata"),
        ("replicas", "spec"),
        ("template", "spec"),
        ("containers", "spec.template.spec"),
    ],
};

static DEPLOYMENT_SPEC: Fields = Fields {
    known: &[
        "minReadySeconds",
        "paused",
        "progressDeadlineSeconds",
        "replicas",
        "revisionHistoryLimit",
        "selector",
        "strategy",
        "template",
    ],
    inside: &[("template", Inside::Map(&TEMPLATE))],
    elsewhere: &[
        ("containers", "template.spec"),
        ("schedulerName", "template.spec"),
        ("annotations", "template.metadata"),
        ("labels", "template.metadata"),
    ],
};

static STATEFUL_SET: Fields = Fields {
    known: &["apiVersion", "kind", "metadata", "spec", "status"],
    inside: &[("metadata", Inside::Map(&METADATA)), ("spec", Inside::Map(&STATEFUL_SET_SPEC))],
    elsewhere: &[
        ("annotations", "metadata"),
        ("labels", "metadata"),
        ("name", "metadata"),
        ("namespace", "metadata"),
        ("replicas", "spec"),
        ("template", "spec"),
        ("containers", "spec.template.spec"),
    ],
};

static STATEFUL_SET_SPEC: Fields = Fields {
    known: &[
        "minReadySeconds",
        "ordinals",
        "persistentVolumeClaimRetentionPolicy",
        "podManagementPolicy",
        "replicas",
        "revisionHistoryLimit",
        "selector",
        "serviceName",
        "template",
        "updateStrategy",
        "volumeClaimTemplates",
    ],
    inside: &[("template", Inside::Map(&TEMPLATE))],
    elsewhere: &[
        ("containers", "template.spec"),
        ("schedulerName", "template.spec"),
        ("annotations", "template.metadata"),
        ("labels", "template.metadata"),
    ],
};

static REPLICA_SET: Fields = Fields {
    known: &["apiVersion", "kind", "metadata", "spec", "status"],
    inside: &[("metadata", Inside::Map(&METADATA)), ("spec", Inside::Map(&REPLICA_SET_SPEC))],
    elsewhere: &[
        ("annotations", "metadata"),
        ("labels", "metadata"),
        ("name", "metadata"),
        ("namespace", "metadata"),
        ("replicas", "spec"),
        ("template", "spec"),
        ("containers", "spec.template.spec"),
    ],
};

static REPLICA_SET_SPEC: Fields = Fields {
    known: &["minReadySeconds", "replicas", "selector", "template"],
    inside: &[("template", Inside::Map(&TEMPLATE))],
    elsewhere: &[
        ("containers", "template.spec"),
        ("schedulerName", "template.spec"),
        ("annotations", "template.metadata"),
        ("labels", "template.metadata"),
    ],
};

static DAEMON_SET: Fields = Fields {
    known: &["apiVersion", "kind", "metadata", "spec", "status"],
    inside: &[("metadata", Inside::Map(&METADATA)), ("spec", Inside::Map(&DAEMON_SET_SPEC))],
    elsewhere: &[
        ("annotations", "metadata"),
        ("labels", "metadata"),
        ("name", "metadata"),
        ("namespace", "metadata"),
        ("replicas", "spec"),
        ("template", "spec"),
        ("containers", "spec.template.spec"),
    ],
};

static DAEMON_SET_SPEC: Fields = Fields {
    known: &["minReadySeconds", "revisionHistoryLimit", "selector", "template", "updateStrategy"],
    inside: &[("template", Inside::Map(&TEMPLATE))],
    elsewhere: &[
        ("containers", "template.spec"),
        ("schedulerName", "template.spec"),
        ("annotations", "template.metadata"),
        ("labels", "template.metadata"),
    ],
};

static JOB: Fields = Fields {
    known: &["apiVersion", "kind", "metadata", "spec", "status"],
    inside: &[("metadata", Inside::Map(&METADATA)), ("spec", Inside::Map(&JOB_SPEC))],
    elsewhere: &[
        ("annotations", "metadata"),
        ("labels", "metadata"),
        ("name", "metadata"),
        ("namespace", "metadata"),
        ("replicas", "spec"),
        ("template", "spec"),
        ("containers", "spec.template.spec"),
    ],
};

static JOB_SPEC: Fields = Fields {
    known: &[
        "activeDeadlineSeconds",
        "backoffLimit",
        "backoffLimitPerIndex",
        "completionMode",
        "completions",
        "managedBy",
        "manualSelector",
        "maxFailedIndexes",
        "parallelism",
        "podFailurePolicy",
        "podReplacementPolicy",
        "scheduling",
        "selector",
        "successPolicy",
        "suspend",
        "template",
        "ttlSecondsAfterFinished",
    ],
    inside: &[("template", Inside::Map(&TEMPLATE))],
    elsewhere: &[
        ("containers", "template.spec"),
        ("schedulerName", "template.spec"),
        ("annotations", "template.metadata"),
        ("labels", "template.metadata"),
    ],
};

static CRON_JOB: Fields = Fields {
    known: &["apiVersion", "kind", "metadata", "spec", "status"],
    inside: &[("metadata", Inside::Map(&METADATA)), ("spec", Inside::Map(&CRON_JOB_SPEC))],
    elsewhere: &[],
};

static CRON_JOB_SPEC: Fields = Fields {
    known: &[
        "concurrencyPolicy",
        "failedJobsHistoryLimit",
        "jobTemplate",
        "schedule",
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "suspend",
        "timeZone",
    ],
    inside: &[("jobTemplate", Inside::Map(&JOB_TEMPLATE))],
    elsewhere: &[],
};

static JOB_TEMPLATE: Fields = Fields {
    known: &["metadata", "spec"],
    inside: &[("metadata", Inside::Map(&METADATA)), ("spec", Inside::Map(&JOB_SPEC))],
    elsewhere: &[],
};

static DEVICE_CLASS: Fields = Fields {
    known: &["apiVersion", "kind", "metadata", "spec"],
    inside: &[("metadata", Inside::Map(&METADATA)), ("spec", Inside::Map(&DEVICE_CLASS_SPEC))],
    elsewhere: &[],
};

static DEVICE_CLASS_SPEC: Fields =
    Fields { known: &["config", "extendedResourceName", "selectors"], inside: &[], elsewhere: &[] };

static CLAIM: Fields = Fields {
    known: &["apiVersion", "kind", "metadata", "spec", "status"],
    inside: &[("metadata", Inside::Map(&METADATA)), ("spec", Inside::Map(&CLAIM_SPEC))],
    elsewhere: &[],
};

static CLAIM_TEMPLATE: Fields = Fields {
    known: &["apiVersion", "kind", "metadata", "spec"],
    inside: &[("metadata", Inside::Map(&METADATA)), ("spec", Inside::Map(&CLAIM_TEMPLATE_SPEC))],
    elsewhere: &[],
};

static CLAIM_TEMPLATE_SPEC: Fields = Fields {
    known: &["metadata", "spec"],
    inside: &[("metadata", Inside::Map(&METADATA)), ("spec", Inside::Map(&CLAIM_SPEC))],
    elsewhere: &[("devices", "spec.spec")],
};

static CLAIM_SPEC: Fields =
    Fields { known: &["devices"], inside: &[("devices", Inside::Map(&DEVICES))], elsewhere: &[] };

static DEVICES: Fields = Fields {
    known: &["config", "constraints", "requests"],
    inside: &[("requests", Inside::List(&REQUEST))],
    elsewhere: &[],
};

/// With those that v1 has one level deeper; rules/claims.rs says so.
static REQUEST: Fields = Fields {
    known: &[
        "exactly",
        "firstAvailable",
        "name",
        "adminAccess",
        "allocationMode",
        "capacity",
        "count",
        "derivedAttributes",
        "deviceClassName",
        "selectors",
        "tolerations",
    ],
    inside: &[("exactly", Inside::Map(&EXACTLY)), ("firstAvailable", Inside::List(&SUB_REQUEST))],
    elsewhere: &[],
};

static EXACTLY: Fields = Fields {
    known: &[
        "adminAccess",
        "allocationMode",
        "capacity",
        "count",
        "derivedAttributes",
        "deviceClassName",
        "selectors",
        "tolerations",
    ],
    inside: &[],
    elsewhere: &[],
};

static SUB_REQUEST: Fields = Fields {
    known: &[
        "allocationMode",
        "capacity",
        "count",
        "derivedAttributes",
        "deviceClassName",
        "name",
        "selectors",
        "tolerations",
    ],
    inside: &[],
    elsewhere: &[],
};

static CONFIG_MAP: Fields = Fields {
    known: &["apiVersion", "kind", "metadata", "data", "binaryData", "immutable"],
    inside: &[("metadata", Inside::Map(&METADATA))],
    elsewhere: &[],
};

/// Parameters of NVIDIA's driver, of kind GpuConfig; with replicas, of which rules/parameters.rs says more.
pub(crate) static GPU_CONFIG: Fields = Fields {
    known: &["apiVersion", "kind", "sharing", "replicas"],
    inside: &[("sharing", Inside::Map(&GPU_SHARING))],
    elsewhere: &[],
};

static GPU_SHARING: Fields = Fields {
    known: &["strategy", "timeSlicingConfig", "mpsConfig", "replicas"],
    inside: &[
        ("timeSlicingConfig", Inside::Map(&TIME_SLICING)),
        ("mpsConfig", Inside::Map(&MPS_CONFIG)),
    ],
    elsewhere: &[],
};

/// The same of kind MigDeviceConfig.
pub(crate) static MIG_DEVICE_CONFIG: Fields = Fields {
    known: &["apiVersion", "kind", "sharing", "replicas"],
    inside: &[("sharing", Inside::Map(&MIG_SHARING))],
    elsewhere: &[],
};

static MIG_SHARING: Fields = Fields {
    known: &["strategy", "mpsConfig", "replicas"],
    inside: &[("mpsConfig", Inside::Map(&MPS_CONFIG))],
    elsewhere: &[],
};

static TIME_SLICING: Fields =
    Fields { known: &["interval", "replicas"], inside: &[], elsewhere: &[] };

static MPS_CONFIG: Fields = Fields {
    known: &[
        "defaultActiveThreadPercentage",
        "defaultPinnedDeviceMemoryLimit",
        "defaultPerDevicePinnedMemoryLimit",
        "multiUser",
    ],
    inside: &[],
    elsewhere: &[],
};
