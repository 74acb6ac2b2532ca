//! Reservation pods: each takes one card from the device plugin and keeps it for the shares on it.
//! Names, labels and annotations are KAI's, so that either scheduler knows the other's.

use crate::cards::is_uuid;
use crate::keys;
use crate::manifest::{Metadata, PodStatus};
use crate::quantity::Quantity;
pub use divvy_ledger::{Bytes, MilliCpu, Opening};
use serde_json::{Value, json};

/// What a reservation pod asks besides its card, if nobody says otherwise.
pub const USUAL: Opening = Opening { cpu: MilliCpu(1), memory: Bytes(16 << 20) };
/// The least limit of its memory.
const MEMORY_LIMIT: Bytes = Bytes(64 << 20);

/// How reservation pods are to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What holds divvy itself.
    pub image: String,
    /// The runtime class; empty for none.
    pub runtime_class: String,
    /// What one asks besides its card.
    pub resources: Opening,
}

/// The CPU that a setting asks for.
pub fn cpu(text: &str) -> Result<MilliCpu, String> {
    amount(text).map(|amount| MilliCpu(amount.milli_ceil()))
}

/// The memory that a setting asks for.
pub fn memory(text: &str) -> Result<Bytes, String> {
    amount(text).map(|amount| Bytes(amount.value_ceil()))
}

fn amount(text: &str) -> Result<Quantity, String> {
    let amount = Quantity::parse(text).map_err(|error| error.to_string())?;
    match amount.is_negative() {
        true => Err(format!("{amount} is negative; allowed is 0 or more")),
        false => Ok(amount),
    }
}

/// A node to take a card of.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

/// The namespace of reservation pods, and the value of their label `app`.
pub const NAMESPACE: &str = keys::RESERVATION_NAMESPACES[0];
const APP: &str = NAMESPACE;
/// Their priority class.
pub const PRIORITY_CLASS: &str = "divvy-reservation";
/// Tells ours from KAI's, which are its own as long as it runs.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const DIVVY: &str = "divvy";
/// As whom they run: they may write which card they have, and nothing else.
const SERVICE_ACCOUNT: &str = "divvy-reserve";

/// The name of the reservation pod for a group on a node; the same pod is never made twice.
pub fn name(node: &str, group: &str) -> String {
    // Whose it is, is told by its labels: the name need not be KAI's.
    format!("gpu-reservation-{:016x}", hash(&format!("{node}/{group}")))
}

/// The group of a reservation pod that is made to look for a card that has been lost.
pub fn search_group(node: &str, nth: usize) -> String {
    format!("{}{nth}", searches(node))
}

/// Whether a reservation pod of this group is made to look for a card of the node.
pub fn is_search(node: &str, group: &str) -> bool {
    group.starts_with(&searches(node))
}

fn searches(node: &str) -> String {
    format!("search-{:016x}-", hash(node))
}

/// FNV-1a: 64 bits that stay the same on every machine and in every version.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The reservation pod for a group on a node.
pub fn manifest(settings: &Settings, node: Owner<'_>, group: &str) -> Value {
    let Opening { cpu, memory } = settings.resources;
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": NAMESPACE,
            "name": name(node.name, group),
            "labels": { "app": APP, MANAGED_BY: DIVVY, keys::GPU_GROUP: group },
            "annotations": {
                "karpenter.sh/do-not-disrupt": "true",
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            },
            // Goes with its node, by garbage collection.
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid,
            }],
        },
        "spec": {
            // No scheduler: the kubelet decides whether it has a card left.
            "nodeName": node.name,
            "serviceAccountName": SERVICE_ACCOUNT,
            // High, but not critical: for a critical pod the kubelet ends others when CPU, memory
            // or pod slots are short.
            "priorityClassName": PRIORITY_CLASS,
            "tolerations": [{ "operator": "Exists" }],
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "resource-reservation",
                "image": settings.image,
                "imagePullPolicy": "IfNotPresent",
                "args": ["reserve"],
                "env": [
                    { "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                    { "name": "POD_NAMESPACE",
                        "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } },
                ],
                "resources": {
                    "requests": {
                        keys::GPU: "1", "cpu": format!("{}m", cpu.0), "memory": memory.0.to_string(),
                    },
                    "limits": {
                        keys::GPU: "1", "memory": memory.max(MEMORY_LIMIT).0.to_string(),
                    },
                },
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": { "drop": ["ALL"] },
                    "readOnlyRootFilesystem": true,
                    "runAsNonRoot": true,
                    "runAsUser": 65532,
                    "seccompProfile": { "type": "RuntimeDefault" },
                },
            }],
        },
    });
    if !settings.runtime_class.is_empty() {
        pod["spec"]["runtimeClassName"] = settings.runtime_class.as_str().into();
    }
    pod
}

/// Its card was given to another pod too.
pub const CONFLICT: &str = "CardConflict";
/// No reservation holds its card, and the device plugin does not hand it out.
pub const MISSING: &str = "CardMissing";

/// Its card has shares of two classes.
pub const MIXED: &str = "CardMixed";
/// The node has no provider for its class any more.
pub const UNPROVIDED: &str = "ProviderMissing";
/// All of these.
pub const TROUBLES: [&str; 4] = [CONFLICT, MISSING, MIXED, UNPROVIDED];

/// The condition of a pod that says what is wrong with its cards.
pub fn condition(reason: &str) -> String {
    format!("divvy.dev/{reason}")
}

/// The group that a reservation pod was made for, by divvy or by KAI; `None` of any other pod. Only
/// those who may write to its namespace can make one.
pub fn group(metadata: &Metadata) -> Option<&str> {
    let is_there = &*metadata.namespace == NAMESPACE && metadata.labels.get("app") == Some(APP);
    is_there.then(|| metadata.labels.get(keys::GPU_GROUP))?
}

/// Whether a reservation pod is divvy's: made by it, or taken over from KAI.
pub fn is_ours(metadata: &Metadata) -> bool {
    metadata.labels.get(MANAGED_BY) == Some(DIVVY)
}

/// The labels of a reservation pod that is divvy's.
pub fn our_labels(group: &str) -> Value {
    json!({ MANAGED_BY: DIVVY, keys::GPU_GROUP: group })
}

/// Whether a label of this key names a group of a pod.
pub(crate) fn is_group(key: &str) -> bool {
    let rest = key.strip_prefix(keys::GPU_GROUP);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The groups that a pod's labels name: one plain label, or one label for each of several cards.
pub fn groups(metadata: &Metadata) -> Vec<&str> {
    let labels = metadata.labels.iter().filter(|(key, _)| is_group(key));
    labels.map(|(_, group)| group).collect()
}

/// The groups of the cards that KAI gave a pod, as its binder writes them. Labels alone say nothing:
/// anybody may write them.
pub fn given_groups(metadata: &Metadata) -> Vec<&str> {
    let is_given = metadata.annotations.get(keys::RECEIVED_TYPE) == Some("Fraction");
    if is_given { groups(metadata) } else { Vec::new() }
}

/// The labels that name a pod's groups.
pub fn labels(groups: &[Box<str>]) -> Value {
    if let [group] = groups {
        return json!({ keys::GPU_GROUP: group });
    }
    let label = |group| (format!("{}/{group}", keys::GPU_GROUP), json!(group));
    Value::Object(groups.iter().map(label).collect())
}

/// The card that a reservation pod has: as the kubelet says, or as the pod itself wrote. It has
/// none before it runs.
pub fn card<'a>(metadata: &'a Metadata, status: &'a PodStatus) -> Option<&'a str> {
    if &*status.phase != "Running" {
        return None;
    }
    let published = status.devices().next().filter(|uuid| is_uuid(uuid));
    let written = || metadata.annotations.get(keys::RESERVED_CARD).filter(|uuid| is_uuid(uuid));
    published.or_else(written)
}

/// The number of the card that a reservation pod has, as the pod itself wrote.
pub fn number(metadata: &Metadata) -> Option<u32> {
    metadata.annotations.get(keys::RESERVED_NUMBER)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let (image, runtime_class) = ("example.com/divvy:1".to_owned(), "nvidia".to_owned());
        Settings { image, runtime_class, resources: USUAL }
    }

    fn read(pod: &Value) -> (Metadata, PodStatus) {
        let metadata = serde_json::from_value(pod["metadata"].clone()).unwrap();
        (metadata, serde_json::from_value(pod["status"].clone()).unwrap_or_default())
    }

    #[test]
    fn a_reservation_pod_is_known_by_namespace_and_labels_and_by_nothing_less() {
        let node = Owner { name: "n1", uid: "u" };
        let pod = manifest(&settings(), node, "g");
        assert_eq!(group(&read(&pod).0), Some("g"));
        for (field, value) in [
            ("namespace", json!("default")),
            ("labels", json!({keys::GPU_GROUP: "g"})),
            ("labels", json!({"app": NAMESPACE})),
        ] {
            let mut other = pod.clone();
            other["metadata"][field] = value;
            assert_eq!(group(&read(&other).0), None, "{other}");
        }
        assert!(is_ours(&read(&pod).0));
        let mut kais = pod;
        kais["metadata"]["labels"] = json!({"app": NAMESPACE, keys::GPU_GROUP: "g"});
        let (kais, _) = read(&kais);
        assert_eq!((group(&kais), is_ours(&kais)), (Some("g"), false));
    }

    #[test]
    fn what_one_asks_can_be_set_and_its_limit_is_never_below() {
        let node = Owner { name: "n1", uid: "u" };
        let resources = Opening { cpu: cpu("0.1").unwrap(), memory: memory("1Gi").unwrap() };
        let pod = manifest(&Settings { resources, ..settings() }, node, "g");
        let found = &pod["spec"]["containers"][0]["resources"];
        assert_eq!(found["requests"]["cpu"], "100m");
        assert_eq!(found["requests"]["memory"], "1073741824");
        assert_eq!(found["limits"]["memory"], "1073741824");
        for text in ["-1", "much", ""] {
            assert!(cpu(text).is_err() && memory(text).is_err(), "{text}");
        }
    }

    #[test]
    fn one_group_on_one_node_has_one_name() {
        assert_eq!(name("n1", "g"), name("n1", "g"));
        assert_ne!(name("n1", "g"), name("n2", "g"));
        assert_ne!(name("n1", "g"), name("n1", "h"));
        assert!(name("n1", "g").len() <= 63);
    }

    #[test]
    fn the_kubelets_word_counts_before_the_pods_own() {
        let node = Owner { name: "n1", uid: "u" };
        let mut pod = manifest(&settings(), node, "g");
        pod["metadata"]["annotations"][keys::RESERVED_CARD] = "GPU-written".into();
        pod["status"] = json!({"phase": "Pending"});
        let (metadata, status) = read(&pod);
        assert_eq!(card(&metadata, &status), None);
        pod["status"]["phase"] = "Running".into();
        let (metadata, status) = read(&pod);
        assert_eq!(card(&metadata, &status), Some("GPU-written"));
        pod["status"]["containerStatuses"] = json!([{
            "name": "resource-reservation",
            "allocatedResourcesStatus": [
                {"name": "example.com/other", "resources": [{"resourceID": "x"}]},
                {"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-published", "health": "Healthy"}]},
            ],
        }]);
        let (metadata, status) = read(&pod);
        assert_eq!(card(&metadata, &status), Some("GPU-published"));
        let device = &mut pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"][1];
        device["resources"][0]["resourceID"] = "GPU-published::3".into();
        let (metadata, status) = read(&pod);
        assert_eq!(card(&metadata, &status), Some("GPU-written"));
        assert!(status.has_slice_as_gpu(), "a slice of a card keeps nothing of it");
        let device = &mut pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"][1];
        device["resources"][0]["resourceID"] = "something".into();
        let (metadata, status) = read(&pod);
        assert_eq!(card(&metadata, &status), Some("GPU-written"), "what can be read counts");
        pod["metadata"]["annotations"][keys::RESERVED_CARD] = "all".into();
        pod["status"]["containerStatuses"] = json!([]);
        let (metadata, status) = read(&pod);
        assert_eq!(card(&metadata, &status), None, "that is no card");
    }
}
