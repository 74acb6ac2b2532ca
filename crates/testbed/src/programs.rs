//! The programs of the control plane and of the node, built once per set of pins and flags of each
//! group.

use crate::{Unavailable, io};
use groups::{GROUPS, Group, HELM, MONITORING_GROUPS, NODE_GROUPS};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

mod build;
mod groups;

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
    /// What renders and installs charts.
    Helm,
    /// What reads metrics.
    Prometheus,
    /// What checks its rules and its sources.
    Promtool,
    /// Grafana's own, for dashboards.
    DashboardLinter,
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
            Self::Helm => "helm",
            Self::Prometheus => "prometheus",
            Self::Promtool => "promtool",
            Self::DashboardLinter => "dashboard-linter",
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
            Self::Helm => "helm",
            Self::Prometheus | Self::Promtool => "prometheus",
            Self::DashboardLinter => "dashboards",
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
        let all = GROUPS.iter().chain(&NODE_GROUPS).chain([&HELM]).chain(&MONITORING_GROUPS);
        Self::build_groups(all.filter(|g| g.name == program.group()), say)
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
            build::build(group, &module, &folder, say)?;
            folders.insert(group.name, folder);
        }
        Ok(Self { folders })
    }
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
