//! Nodes and pods to test with, and what is deployed where there is no network for Services.

use serde_json::{Value, json};
use std::net::SocketAddr;

/// A node with GPUs, as GPU feature discovery and the device plugin would describe it.
#[derive(Clone, Copy, Debug)]
pub struct GpuNode {
    /// The label `nvidia.com/gpu.product`.
    pub model: &'static str,
    /// The label `nvidia.com/gpu.family`.
    pub family: &'static str,
    /// How many cards.
    pub cards: u32,
    /// The memory of each in MiB.
    pub mib: u64,
    /// How many replicas the device plugin makes of each.
    pub replicas: u32,
}

impl GpuNode {
    /// Eight A100.
    pub const A100: Self = Self {
        model: "NVIDIA-A100-SXM4-80GB",
        family: "ampere",
        cards: 8,
        mib: 81_920,
        replicas: 1,
    };
    /// Eight H100.
    pub const H100: Self = Self {
        model: "NVIDIA-H100-80GB-HBM3",
        family: "hopper",
        cards: 8,
        mib: 81_559,
        replicas: 1,
    };
    /// Four L40S.
    pub const L40S: Self =
        Self { model: "NVIDIA-L40S", family: "ada-lovelace", cards: 4, mib: 46_068, replicas: 1 };
    /// Four T4.
    pub const T4: Self =
        Self { model: "Tesla-T4", family: "turing", cards: 4, mib: 15_360, replicas: 1 };

    /// The node with this name.
    pub fn node(&self, name: &str) -> Value {
        let Self { model, family, cards, mib, replicas } = self;
        let mut node = cpu_node(name);
        let suffix = if *replicas > 1 { "-SHARED" } else { "" };
        let labels = &mut node["metadata"]["labels"];
        labels["nvidia.com/gpu.count"] = json!(cards.to_string());
        labels["nvidia.com/gpu.memory"] = json!(mib.to_string());
        labels["nvidia.com/gpu.product"] = json!(format!("{model}{suffix}"));
        labels["nvidia.com/gpu.family"] = json!(family);
        labels["nvidia.com/gpu.replicas"] = json!(replicas.to_string());
        for list in ["capacity", "allocatable"] {
            node["status"][list]["nvidia.com/gpu"] = json!((cards * replicas).to_string());
        }
        node
    }
}

/// A node without GPUs.
pub fn cpu_node(name: &str) -> Value {
    let amounts = json!({
        "cpu": "128", "memory": "1Ti", "ephemeral-storage": "4Ti", "pods": "250",
    });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }},
        "status": {"capacity": amounts, "allocatable": amounts},
    })
}

/// A pod that asks no GPU, for this scheduler.
pub fn pod(namespace: &str, name: &str, scheduler: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "annotations": {}},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "example.com/main:1", "resources": {
                "requests": {"cpu": "10m", "memory": "16Mi"},
            }}],
        },
    })
}

/// A kind of another project, with objects of any content in namespaces. `plural` is its name in
/// paths.
pub fn foreign_kind(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

/// The pod asks this part of a card, or of each of `cards` cards.
pub fn with_fraction(mut pod: Value, fraction: &str, cards: u32) -> Value {
    let annotations = &mut pod["metadata"]["annotations"];
    annotations["gpu-fraction"] = json!(fraction);
    if cards > 1 {
        annotations["gpu-fraction-num-devices"] = json!(cards.to_string());
    }
    pod
}

/// The pod asks so many MiB of a card.
pub fn with_memory(mut pod: Value, mib: u64) -> Value {
    pod["metadata"]["annotations"]["gpu-memory"] = json!(mib.to_string());
    pod
}

/// The pod asks so many percent of a card's memory and of its compute, as Koordinator's pods do.
pub fn with_koordinators(mut pod: Value, memory: u32, compute: u32) -> Value {
    let limits = &mut pod["spec"]["containers"][0]["resources"]["limits"];
    limits["koordinator.sh/gpu-memory-ratio"] = json!(memory.to_string());
    limits["koordinator.sh/gpu-core"] = json!(compute.to_string());
    pod
}

/// The node as one on which HAMi-core was installed.
pub fn with_provider(mut node: Value) -> Value {
    node["metadata"]["labels"]["koordinator.sh/gpu-isolation-provider"] = json!("HAMi-core");
    node["metadata"]["annotations"]["divvy.dev/cdi-kind"] = json!("nvidia.com/gpu");
    node
}

/// The share asks for this level; its container reads its limits, as the admission sees to it.
pub fn with_level(mut pod: Value, level: &str) -> Value {
    let labels = &mut pod["metadata"]["labels"];
    labels["koordinator.sh/gpu-share-isolation-level"] = json!(level);
    if level == "Isolated" {
        labels["koordinator.sh/gpu-isolation-provider"] = json!("HAMi-core");
        let limit = |name: &str, annotation: &str| {
            let field =
                json!({"fieldPath": format!("metadata.annotations['divvy.dev/{annotation}']")});
            json!({"name": name, "valueFrom": {"fieldRef": field}})
        };
        let container = &mut pod["spec"]["containers"][0];
        let asks_compute = !container["resources"]["limits"]["koordinator.sh/gpu-core"].is_null();
        let memory = limit("CUDA_DEVICE_MEMORY_LIMIT", "memory-limit");
        let compute = asks_compute.then(|| limit("CUDA_DEVICE_SM_LIMIT", "compute-limit"));
        let known = container["env"].as_array().cloned().unwrap_or_default();
        container["env"] = known.into_iter().chain([memory]).chain(compute).collect();
    }
    pod
}

/// The pod asks whole GPUs.
pub fn with_gpus(pod: Value, count: u32) -> Value {
    with_devices(pod, "nvidia.com/gpu", count)
}

/// The pod asks so many of this resource.
pub fn with_devices(mut pod: Value, resource: &str, count: u32) -> Value {
    pod["spec"]["containers"][0]["resources"]["limits"][resource] = json!(count.to_string());
    pod
}

/// The pod's container reads its card from the binding, as the admission sees to it.
pub fn with_hand_off(mut pod: Value) -> Value {
    pod["spec"]["containers"][0]["env"] = hand_off_variables();
    pod
}

/// The variables of a share's container.
pub fn hand_off_variables() -> Value {
    let read = |(name, annotation): (&str, &str)| {
        let path = format!("metadata.annotations['divvy.dev/{annotation}']");
        json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}})
    };
    let all = [
        ("NVIDIA_VISIBLE_DEVICES", "visible-devices"),
        ("GPU_PORTION", "portion"),
        ("RUNAI_NUM_OF_GPUS", "portion"),
        ("DIVVY_CARDS", "cards"),
    ];
    all.map(read).into_iter().collect()
}

/// The text of `deploy/webhooks.yaml`, with the webhooks at an address: there is no network to reach
/// their Service by.
pub fn webhooks_at(address: SocketAddr, text: &str) -> String {
    let service = "service: {namespace: divvy-system, name: divvy-admission, path: ";
    let lines = text.lines().map(|line| match line.split_once(service) {
        Some((indent, path)) => {
            format!("{indent}url: https://{address}{}", path.trim_end_matches('}'))
        }
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
