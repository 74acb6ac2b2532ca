//! The programs of the control plane and of the node, built once per set of pins and flags of each
//! group.

use crate::{Unavailable, io};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Programs that are built together, from a Go module of `testbed/`.
struct Group {
    name: &'static str,
    /// The Go module.
    module: &'static str,
    /// A folder of it with source of our own, besides the module's.
    source: Option<&'static str>,
    packages: &'static [&'static str],
    flags: &'static [&'static str],
    /// Whether it calls a C library, so that a C compiler is needed.
    cgo: bool,
    /// What a cold build takes on two cores, in minutes: said to whoever waits.
    minutes: u32,
}

/// Without these the server says that it is v0.0.0-master, and clients believe it.
const VERSION: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.0 \
     -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37";

const STRIPPED: &[&str] = &["-ldflags=-s -w"];

const GROUPS: [Group; 4] = [
    Group {
        name: "etcd",
        module: "etcd",
        source: None,
        packages: &["."],
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
        flags: &["-ldflags", VERSION],
        cgo: false,
        minutes: 8,
    },
    // Of the same module, so that what the scheduler is made of is compiled once, but with a
    // stamp of its own.
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
        module: "kwok",
        source: None,
        packages: &["sigs.k8s.io/kwok/cmd/kwok"],
        flags: STRIPPED,
        cgo: false,
        minutes: 2,
    },
];

/// What only a node needs.
const NODE_GROUPS: [Group; 3] = [
    Group {
        name: "kubelet",
        module: "kubernetes",
        source: None,
        packages: &["k8s.io/kubernetes/cmd/kubelet"],
        flags: &["-ldflags", VERSION],
        cgo: false,
        minutes: 2,
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
        module: "nvidia",
        source: None,
        packages: &[
            "github.com/NVIDIA/k8s-device-plugin/cmd/gpu-feature-discovery",
            "github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin",
            "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-container-runtime",
        ],
        // Each function of NVML is looked for when it is first called: the mock has not all.
        flags: &["-ldflags=-s -w -extldflags=-Wl,-z,lazy"],
        cgo: true,
        minutes: 2,
    },
];

/// One of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The store.
    Etcd,
    /// The API.
    ApiServer,
    /// Controllers.
    ControllerManager,
    /// The scheduler to compare with.
    Scheduler,
    /// For people.
    Kubectl,
    /// Nodes and pods that only exist in the API.
    Kwok,
    /// The scheduler's filters, for cases on standard input.
    Filters,
    /// The node's agent.
    Kubelet,
    /// Runs containers. Beside it are its shim and the network plugins.
    Containerd,
    /// containerd's own client.
    Ctr,
    /// NVIDIA's device plugin.
    DevicePlugin,
    /// NVIDIA's GPU feature discovery.
    FeatureDiscovery,
    /// NVIDIA's container runtime, around runc.
    ContainerRuntime,
}

impl Program {
    /// The name of its file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kwok => "kwok",
            Self::Filters => "filters",
            Self::Kubelet => "kubelet",
            Self::Containerd => "containerd",
            Self::Ctr => "ctr",
            Self::DevicePlugin => "nvidia-device-plugin",
            Self::FeatureDiscovery => "gpu-feature-discovery",
            Self::ContainerRuntime => "nvidia-container-runtime",
        }
    }

    const fn group(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer | Self::ControllerManager | Self::Scheduler | Self::Kubectl => {
                "kubernetes"
            }
            Self::Kwok => "kwok",
            Self::Filters => "filters",
            Self::Kubelet => "kubelet",
            Self::Containerd | Self::Ctr => "containerd",
            Self::DevicePlugin | Self::FeatureDiscovery | Self::ContainerRuntime => "nvidia",
        }
    }
}

/// Where the built programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// By group.
    folders: BTreeMap<&'static str, PathBuf>,
}

impl Programs {
    /// The file of a program.
    pub fn path(&self, program: Program) -> PathBuf {
        let folder = self.folders.get(program.group()).cloned().unwrap_or_default();
        folder.join(program.name())
    }

    /// Builds what is not built yet; a second call with the same pins builds nothing. `say` hears
    /// what is going on, a line at a time.
    pub fn build(say: &mut dyn FnMut(&str)) -> Result<Self, Unavailable> {
        Self::build_groups(&GROUPS, say)
    }

    /// As [`Programs::build`], but only what `program` is built with.
    pub fn build_one(program: Program, say: &mut dyn FnMut(&str)) -> Result<Self, Unavailable> {
        Self::build_groups(GROUPS.iter().filter(|g| g.name == program.group()), say)
    }

    /// As [`Programs::build`], but what a node needs.
    pub(crate) fn build_node(say: &mut dyn FnMut(&str)) -> Result<Self, Unavailable> {
        Self::build_groups(&NODE_GROUPS, say)
    }

    fn build_groups<'a>(
        groups: impl IntoIterator<Item = &'a Group>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self, Unavailable> {
        let go = Command::new("go").arg("version").output();
        let go = go.map_err(|e| Unavailable::NoGo(e.to_string()))?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed");
        let mut folders = BTreeMap::new();
        for group in groups {
            let module = sources.join(group.module);
            let folder =
                cache().join(format!("{}-{}", group.name, key(group, &module, &go.stdout)?));
            std::fs::create_dir_all(&folder).map_err(io("cannot make the cache"))?;
            let done = folder.join("built");
            if !done.exists() {
                build(group, &module, &folder, say)?;
                std::fs::write(&done, "").map_err(io("cannot write to the cache"))?;
            }
            folders.insert(group.name, folder);
        }
        Ok(Self { folders })
    }
}

fn build(
    group: &Group,
    module: &Path,
    folder: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), Unavailable> {
    let Group { name, packages, flags, cgo, minutes, .. } = group;
    say(&format!("building {name}: about {minutes} min the first time"));
    let log = folder.join(format!("{name}.log"));
    let output = std::fs::File::create(&log).map_err(io("cannot write to the cache"))?;
    let errors = output.try_clone().map_err(io("cannot write to the cache"))?;
    // A folder to build into, so that a build that is cut off leaves nothing half written.
    let fresh = folder.join(format!("{name}.{}", std::process::id()));
    std::fs::create_dir_all(&fresh).map_err(io("cannot write to the cache"))?;
    let target = if *name == "etcd" { fresh.join("etcd") } else { fresh.join("") };
    let start = Instant::now();
    let mut go = Command::new("go")
        .args(["build", "-mod=readonly", "-o"])
        .arg(&target)
        .args(*flags)
        .args(*packages)
        .current_dir(module)
        .env("CGO_ENABLED", if *cgo { "1" } else { "0" })
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(errors))
        .spawn()
        .map_err(io("cannot run go"))?;
    let mut told = start;
    let status = loop {
        if let Some(status) = go.try_wait().map_err(io("cannot wait for go"))? {
            break status;
        }
        if told.elapsed() > Duration::from_secs(30) {
            told = Instant::now();
            say(&format!("building {name}: {} s so far", start.elapsed().as_secs()));
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    if !status.success() {
        let log = log.display().to_string();
        return Err(Unavailable::Build { what: (*name).to_owned(), log });
    }
    for file in std::fs::read_dir(&fresh).map_err(io("cannot read the cache"))? {
        let file = file.map_err(io("cannot read the cache"))?;
        let to = folder.join(file.file_name());
        std::fs::rename(file.path(), to).map_err(io("cannot write to the cache"))?;
    }
    std::fs::remove_dir_all(&fresh).map_err(io("cannot write to the cache"))?;
    say(&format!("built {name} in {} s", start.elapsed().as_secs()));
    Ok(())
}

/// Where what is built, and clusters to play with, are kept: outside `target/`, so that `cargo clean` does not cost ten minutes.
pub fn cache() -> PathBuf {
    let given = std::env::var_os("DIVVY_TESTBED_CACHE").map(PathBuf::from);
    given.unwrap_or_else(|| {
        let base = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
        base.unwrap_or_else(std::env::temp_dir).join("divvy").join("testbed")
    })
}

/// A name for the pins, source and flags of a group, and the compiler.
fn key(group: &Group, module: &Path, go: &[u8]) -> Result<String, Unavailable> {
    let mut hash = DefaultHasher::new();
    (go, group.packages, group.flags).hash(&mut hash);
    for folder in [Some(module.to_owned()), group.source.map(|s| module.join(s))].iter().flatten() {
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
            .map_err(io(format!("cannot read {}", folder.display())))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_file())
            .collect();
        files.sort();
        for file in files {
            let text =
                std::fs::read(&file).map_err(io(format!("cannot read {}", file.display())))?;
            (file.file_name(), text).hash(&mut hash);
        }
    }
    Ok(format!("{:016x}", hash.finish()))
}
