//! What the programs of the node are told in files.

use super::ground::{ADDRESS, BRIDGE, CGROUP, SUBNET};
use divvy_mock_nvml::{FILE, INSIDE, Inventory};
use serde_json::{Value, json};
use std::path::Path;

/// The image that every pod's namespaces are held by.
pub(super) const PAUSE: &str = "docker.io/local/pause:1";
/// Where the kubelet finds containerd, in the node's own `/run`.
pub(super) const SOCKET: &str = "/run/containerd/containerd.sock";

/// TOML, of which JSON's strings are a part.
pub(super) fn containerd(folder: &Path, network_plugins: &Path, nvidia_runtime: &Path) -> String {
    let text = |path: &Path| json!(path).to_string();
    let (root, networks) = (text(&folder.join("containerd")), text(&folder.join("cni")));
    let options = text(&folder.join("opt"));
    let (plugins, runtime) = (text(network_plugins), text(nvidia_runtime));
    // Without restrict_oom_score_adj a machine without CAP_SYS_RESOURCE starts no pod at all. NVIDIA's
    // runtime is shown annotations of pods as by CRI-O, which shows it all of them.
    format!(
        r#"version = 3
root = {root}
state = "/run/containerd"
[grpc]
address = "{SOCKET}"
[plugins.'io.containerd.internal.v1.opt']
path = {options}
[plugins.'io.containerd.nri.v1.nri']
disable = true
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE}"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = [{plugins}]
conf_dir = {networks}
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "runc"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
pod_annotations = ["*cdi.k8s.io", "*cdi.k8s.io/*"]
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]
BinaryName = {runtime}
"#
    )
}

/// NVIDIA's runtime makes what our specification says, for the cards that a container's
/// NVIDIA_VISIBLE_DEVICES names, or its pod's annotations: also those of older GPU operators.
pub(super) fn nvidia_runtime(mode: &str) -> String {
    format!(
        r#"[nvidia-container-runtime]
mode = "{mode}"
runtimes = ["runc"]
[nvidia-container-runtime.modes.cdi]
annotation-prefixes = ["cdi.k8s.io/", "nvidia.cdi.k8s.io/"]
default-kind = "nvidia.com/gpu"
"#
    )
}

/// A bridge of the node's own pods; outside of it they reach the API server only.
pub(super) fn network(folder: &Path) -> Value {
    json!({
        "cniVersion": "1.0.0", "name": "divvy",
        "plugins": [{
            "type": "bridge", "bridge": BRIDGE, "isDefaultGateway": true,
            "ipam": {
                "type": "host-local", "dataDir": folder.join("addresses"),
                "ranges": [[{"subnet": SUBNET, "gateway": ADDRESS}]],
            },
        }],
    })
}

pub(super) fn kubelet(folder: &Path, client: &Path, [port, health]: [u16; 2]) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": ADDRESS, "port": port, "readOnlyPort": 0,
        "healthzBindAddress": "127.0.0.1", "healthzPort": health,
        "authentication": {
            "anonymous": {"enabled": false}, "webhook": {"enabled": true},
            "x509": {"clientCAFile": client},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        "cgroupDriver": "cgroupfs", "cgroupRoot": format!("/{CGROUP}"), "failCgroupV1": false,
        "failSwapOn": false, "enforceNodeAllocatable": [],
        // The disk of whoever runs the tests may be rather full.
        "evictionHard": {}, "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": false,
        "resolvConf": "",
        "podLogsDir": folder.join("pods"),
        "volumePluginDir": folder.join("volume-plugins"),
        // Tests wait for what a node says of its cards.
        "nodeStatusUpdateFrequency": "1s",
    })
}

/// The Container Device Interface specification of the cards, with the names and edits of the one
/// that NVIDIA's own tool writes. A container that is given a card also finds the mock there and a
/// stub of CUDA, as it would find the driver's libraries. Of a card that is divided there are only
/// its slices.
pub(super) fn devices(inventory: &Inventory, nvml: &Path) -> Value {
    let node = |path: String| json!({"path": path, "hostPath": "/dev/null"});
    let device = |name: &str, nodes: &[Value]| json!({"name": name, "containerEdits": {"deviceNodes": nodes}});
    let (mut devices, mut all) = (Vec::new(), Vec::new());
    let mut push = |names: [&str; 2], nodes: Vec<Value>| {
        devices.extend(names.map(|name| device(name, &nodes)));
        all.extend(nodes);
    };
    for (index, card) in inventory.cards.iter().enumerate() {
        let itself = node(format!("/dev/nvidia{}", card.minor));
        let Some(slices) = &card.slices else {
            push([&index.to_string(), &card.uuid], vec![itself]);
            continue;
        };
        for (at, slice) in slices.iter().enumerate() {
            let [gpu_instance, compute_instance] = card
                .capabilities(slice)
                .map(|minor| node(format!("/dev/nvidia-caps/nvidia-cap{minor}")));
            push(
                [&format!("{index}:{at}"), &card.slice_uuid(slice)],
                vec![itself.clone(), gpu_instance, compute_instance],
            );
        }
    }
    devices.push(device("all", &all));
    let mount = |from: &Path, to: &str| {
        json!({
            "hostPath": from, "containerPath": to,
            "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"],
        })
    };
    let library = |name: &str| {
        mount(&nvml.join(name), &format!("/usr/lib/{}-linux-gnu/{name}", std::env::consts::ARCH))
    };
    let folder = Path::new(INSIDE).parent().unwrap_or(Path::new("/")).display().to_string();
    json!({
        "cdiVersion": "0.5.0", "kind": "nvidia.com/gpu",
        "devices": devices,
        "containerEdits": {
            "env": [
                "NVIDIA_VISIBLE_DEVICES=void",
                format!("{FILE}={INSIDE}"),
            ],
            // The folder, not the file: a file that is replaced would not be seen inside.
            "mounts": [mount(nvml, &folder), library(LIBRARY), library(CUDA)],
        },
    })
}

/// The device nodes of slices, as NVIDIA's driver tells them in [`MINORS`].
pub(super) fn minors(inventory: &Inventory) -> String {
    let lines = inventory.cards.iter().flat_map(|card| {
        card.slices.iter().flatten().map(|slice| {
            let instance = format!("gpu{}/gi{}", card.minor, card.instance(slice));
            let [gpu_instance, compute_instance] = card.capabilities(slice);
            format!("{instance}/access {gpu_instance}\n{instance}/ci0/access {compute_instance}\n")
        })
    });
    lines.collect()
}

/// Where they are, in the folder of the node.
pub(super) const MINORS: &str = "proc/driver/nvidia-caps/mig-minors";
/// The Container Device Interface specification of the cards, there too.
pub(super) const DEVICES: &str = "etc/cdi/nvidia.json";
/// The configuration of NVIDIA's device plugin and feature discovery, there too.
pub(super) const PLUGIN: &str = "plugin.json";

/// What NVIDIA's programs load.
pub(super) const LIBRARY: &str = "libnvidia-ml.so.1";
/// What programs that use CUDA load.
pub(super) const CUDA: &str = "libcuda.so.1";
/// The file that our library reads.
pub(super) const CARDS: &str = "cards.json";
