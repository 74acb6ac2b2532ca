//! Which programs are built from which module, and how.

/// Programs that are built together, from a Go module of `testbed/`.
pub(super) struct Group {
    pub name: &'static str,
    /// The Go module.
    pub module: &'static str,
    /// A folder of it with source of our own, besides the module's.
    pub source: Option<&'static str>,
    pub packages: &'static [&'static str],
    pub flags: &'static [&'static str],
    /// Whether it calls a C library, so that a C compiler is needed.
    pub cgo: bool,
    /// What a cold build takes on two cores, in minutes: said to whoever waits.
    pub minutes: u32,
}

/// Without these the server says that it is v0.0.0-master, and clients believe it.
const VERSION: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.0 \
     -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37";

const STRIPPED: &[&str] = &["-ldflags=-s -w", PURE];

/// Names and users are looked up without C, also by programs that call C for something else: packages
/// that know the network are the same for all of them, and compiled once.
const PURE: &str = "-tags=netgo,osusergo";

pub(super) const GROUPS: [Group; 4] = [
    Group {
        name: "etcd",
        module: "kubernetes",
        source: Some("etcd"),
        packages: &["./etcd"],
        flags: STRIPPED,
        cgo: false,
        minutes: 1,
    },
    Group {
        name: "kubernetes",
        module: "kubernetes",
        source: None,
        packages: &[
            "k8s.io/kubernetes/cmd/kube-apiserver",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-scheduler",
            "k8s.io/kubernetes/cmd/kubectl",
        ],
        flags: &["-ldflags", VERSION, PURE],
        cgo: false,
        minutes: 6,
    },
    Group {
        name: "filters",
        module: "kubernetes",
        source: Some("filters"),
        packages: &["./filters"],
        flags: STRIPPED,
        cgo: false,
        minutes: 1,
    },
    Group {
        name: "kwok",
        module: "kubernetes",
        source: None,
        packages: &["sigs.k8s.io/kwok/cmd/kwok"],
        flags: STRIPPED,
        cgo: false,
        minutes: 1,
    },
];

/// What only a node needs.
pub(super) const NODE_GROUPS: [Group; 3] = [
    Group {
        name: "kubelet",
        module: "kubernetes",
        source: None,
        packages: &["k8s.io/kubernetes/cmd/kubelet"],
        flags: &["-ldflags", VERSION, PURE],
        cgo: false,
        minutes: 1,
    },
    Group {
        name: "containerd",
        module: "containerd",
        source: None,
        packages: &[
            "github.com/containerd/containerd/v2/cmd/containerd",
            "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            "github.com/containerd/containerd/v2/cmd/ctr",
            "github.com/containernetworking/plugins/plugins/ipam/host-local",
            "github.com/containernetworking/plugins/plugins/main/bridge",
            "github.com/containernetworking/plugins/plugins/main/loopback",
        ],
        // Snapshotters that would need C libraries.
        flags: &["-ldflags=-s -w", "-tags=no_btrfs,no_zfs,no_devmapper,no_aufs"],
        cgo: false,
        minutes: 2,
    },
    Group {
        name: "nvidia",
        module: "kubernetes",
        source: None,
        packages: &[
            "github.com/NVIDIA/k8s-device-plugin/cmd/gpu-feature-discovery",
            "github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin",
            "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-container-runtime",
        ],
        // Each function of NVML is looked for when it is first called: the mock has not all.
        flags: &["-ldflags=-s -w -extldflags=-Wl,-z,lazy", PURE],
        cgo: true,
        minutes: 1,
    },
];

/// What only charts need. Most of it is Kubernetes' client, compiled already if Kubernetes was built.
pub(super) const HELM: Group = Group {
    name: "helm",
    module: "helm",
    source: None,
    packages: &["helm.sh/helm/v4/cmd/helm"],
    flags: STRIPPED,
    cgo: false,
    minutes: 1,
};

/// What only `cargo xtask monitoring` needs: too slow to build for every run of the tests.
pub(super) const MONITORING_GROUPS: [Group; 2] = [
    Group {
        name: "prometheus",
        module: "prometheus",
        source: None,
        packages: &[
            "github.com/prometheus/prometheus/cmd/prometheus",
            "github.com/prometheus/prometheus/cmd/promtool",
        ],
        // Of all clouds that can be asked for targets, none.
        flags: &["-ldflags=-s -w", "-tags=netgo,osusergo,remove_all_sd,enable_kubernetes_sd"],
        cgo: false,
        minutes: 6,
    },
    Group {
        name: "dashboards",
        module: "dashboards",
        source: None,
        packages: &["github.com/grafana/dashboard-linter"],
        flags: STRIPPED,
        cgo: false,
        minutes: 2,
    },
];
