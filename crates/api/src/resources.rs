//! The collections of the API that are read or written.

use std::borrow::Cow;
use std::fmt::Write;

/// A collection of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// For logs and metrics: its plural, with its group where other groups have such objects too.
    pub name: &'static str,
    /// `apiVersion` of its objects.
    pub api_version: &'static str,
    /// `kind` of its objects.
    pub kind: &'static str,
    /// Its name in a path and in RBAC rules.
    pub plural: &'static str,
    /// Whether a cluster may lack it, or forbid us to read it.
    pub optional: bool,
}

const CORE: &str = "v1";
const SCHEDULING: &str = "scheduling.k8s.io/v1";
const STORAGE: &str = "storage.k8s.io/v1";
const DEVICES: &str = "resource.k8s.io/v1";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// Pods.
pub const PODS: Resource = needed(CORE, "Pod", "pods");
/// Nodes.
pub const NODES: Resource = needed(CORE, "Node", "nodes");
/// Namespaces.
pub const NAMESPACES: Resource = optional(CORE, "Namespace", "namespaces");
/// What pods of a namespace may ask together.
pub const RESOURCE_QUOTAS: Resource = optional(CORE, "ResourceQuota", "resourcequotas");
/// Priority classes.
pub const PRIORITY_CLASSES: Resource = optional(SCHEDULING, "PriorityClass", "priorityclasses");
/// Claims of volumes.
pub const VOLUME_CLAIMS: Resource =
    optional(CORE, "PersistentVolumeClaim", "persistentvolumeclaims");
/// Volumes.
pub const VOLUMES: Resource = optional(CORE, "PersistentVolume", "persistentvolumes");
/// Storage classes.
pub const STORAGE_CLASSES: Resource = optional(STORAGE, "StorageClass", "storageclasses");
/// What storage drivers say of nodes.
pub const CSI_NODES: Resource = optional(STORAGE, "CSINode", "csinodes");
/// Storage drivers.
pub const CSI_DRIVERS: Resource = optional(STORAGE, "CSIDriver", "csidrivers");
/// What storage is left where.
pub const STORAGE_CAPACITIES: Resource =
    optional(STORAGE, "CSIStorageCapacity", "csistoragecapacities");
/// Which volume is attached to which node.
pub const VOLUME_ATTACHMENTS: Resource = optional(STORAGE, "VolumeAttachment", "volumeattachments");
/// Pod groups of Kubernetes itself.
pub const POD_GROUPS: Resource = Resource {
    name: "podgroups.scheduling.k8s.io",
    ..optional("scheduling.k8s.io/v1beta1", "PodGroup", "podgroups")
};
/// Pod groups of the scheduler plugins.
pub const PLUGIN_POD_GROUPS: Resource = Resource {
    name: "podgroups.scheduling.x-k8s.io",
    ..optional("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups")
};
/// Pod groups of KAI.
pub const KAI_POD_GROUPS: Resource = Resource {
    name: "podgroups.scheduling.run.ai",
    ..optional("scheduling.run.ai/v2alpha2", "PodGroup", "podgroups")
};
/// What KAI decided, which tells of the cards of pods that it bound.
pub const KAI_BIND_REQUESTS: Resource = Resource {
    name: "bindrequests.scheduling.run.ai",
    ..optional("scheduling.run.ai/v1alpha2", "BindRequest", "bindrequests")
};
/// Events.
pub const EVENTS: Resource = needed("events.k8s.io/v1", "Event", "events");
/// Leases.
pub const LEASES: Resource = needed("coordination.k8s.io/v1", "Lease", "leases");
/// Secrets.
pub const SECRETS: Resource = needed(CORE, "Secret", "secrets");
/// Configurations of webhooks that change objects.
pub const MUTATING_WEBHOOKS: Resource =
    needed(ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations");
/// Configurations of webhooks that refuse objects.
pub const VALIDATING_WEBHOOKS: Resource =
    needed(ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations");

/// Deployments.
pub const DEPLOYMENTS: Resource = optional("apps/v1", "Deployment", "deployments");
/// What runs on every node.
pub const DAEMON_SETS: Resource = optional("apps/v1", "DaemonSet", "daemonsets");
/// Container runtimes by name.
pub const RUNTIME_CLASSES: Resource = optional("node.k8s.io/v1", "RuntimeClass", "runtimeclasses");
/// Who answers for a Service.
pub const ENDPOINT_SLICES: Resource =
    optional("discovery.k8s.io/v1", "EndpointSlice", "endpointslices");
/// Limits of namespaces.
pub const QUOTAS: Resource = optional(CORE, "ResourceQuota", "resourcequotas");
/// Texts.
pub const CONFIG_MAPS: Resource = optional(CORE, "ConfigMap", "configmaps");
/// What the API server checks by itself.
pub const POLICIES: Resource =
    optional(ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies");
/// Where it does.
pub const POLICY_BINDINGS: Resource =
    optional(ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings");
/// Who has which role in the whole cluster.
pub const CLUSTER_ROLE_BINDINGS: Resource =
    optional("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings");
/// The settings of NVIDIA's GPU operator.
pub const CLUSTER_POLICIES: Resource =
    optional("nvidia.com/v1", "ClusterPolicy", "clusterpolicies");
/// Classes of devices.
pub const DEVICE_CLASSES: Resource = optional(DEVICES, "DeviceClass", "deviceclasses");
/// Devices of nodes.
pub const RESOURCE_SLICES: Resource = optional(DEVICES, "ResourceSlice", "resourceslices");

const fn needed(api_version: &'static str, kind: &'static str, plural: &'static str) -> Resource {
    Resource { name: plural, api_version, kind, plural, optional: false }
}

const fn optional(api_version: &'static str, kind: &'static str, plural: &'static str) -> Resource {
    Resource { optional: true, ..needed(api_version, kind, plural) }
}

impl Resource {
    /// The path of all its objects.
    pub fn path(&self) -> String {
        self.path_in("")
    }

    /// The path of its objects in a namespace; of all if that is empty.
    pub fn path_in(&self, namespace: &str) -> String {
        let root = if self.api_version == CORE { "/api" } else { "/apis" };
        let (version, plural) = (self.api_version, self.plural);
        if namespace.is_empty() {
            format!("{root}/{version}/{plural}")
        } else {
            format!("{root}/{version}/namespaces/{}/{plural}", segment(namespace))
        }
    }

    /// The path of one object; without a namespace where there is none.
    pub fn path_of(&self, namespace: &str, name: &str) -> String {
        format!("{}/{}", self.path_in(namespace), segment(name))
    }

    /// Its name as RBAC rules and kubectl write it.
    pub fn full_name(&self) -> String {
        match self.api_version.split_once('/') {
            Some((group, _)) => format!("{}.{group}", self.plural),
            None => self.plural.to_owned(),
        }
    }
}

/// A name as one segment of a path, whatever it is: it leads nowhere else.
fn segment(name: &str) -> Cow<'_, str> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:".contains(&b);
    let is_dots = [".", ".."].contains(&name);
    if !is_dots && name.bytes().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let mut text = String::new();
    for b in name.bytes() {
        if is_plain(b) && !is_dots {
            text.push(b.into());
        } else {
            let _ = write!(text, "%{b:02X}");
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_its_collection() {
        for (name, path) in [
            ("../secrets/s", "/api/v1/namespaces/ml/pods/..%2Fsecrets%2Fs"),
            ("..", "/api/v1/namespaces/ml/pods/%2E%2E"),
            ("p?watch=1#", "/api/v1/namespaces/ml/pods/p%3Fwatch%3D1%23"),
            ("a%2fb", "/api/v1/namespaces/ml/pods/a%252fb"),
            ("system:node", "/api/v1/namespaces/ml/pods/system:node"),
        ] {
            assert_eq!(PODS.path_of("ml", name), path);
        }
        assert_eq!(PODS.path_in("a/b"), "/api/v1/namespaces/a%2Fb/pods");
    }

    #[test]
    fn collections_are_found_where_the_api_has_them() {
        assert_eq!(PODS.path(), "/api/v1/pods");
        assert_eq!(PODS.path_of("ml", "p"), "/api/v1/namespaces/ml/pods/p");
        assert_eq!(NODES.path_of("", "n"), "/api/v1/nodes/n");
        assert_eq!(PRIORITY_CLASSES.path(), "/apis/scheduling.k8s.io/v1/priorityclasses");
        assert_eq!(PRIORITY_CLASSES.full_name(), "priorityclasses.scheduling.k8s.io");
        assert_eq!(EVENTS.path_in("ml"), "/apis/events.k8s.io/v1/namespaces/ml/events");
    }
}
