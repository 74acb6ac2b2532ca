//! One real node with mock cards: containerd, a kubelet and NVIDIA's device plugin.
//!
//! ```text
//!   Node::start ─► the machine: root, namespaces, runc; one node at a time
//!        │
//!        └─► namespaces of their own, killed as one
//!              ├─ containerd ─► shims ─► containers, by runc or by NVIDIA's runtime around it
//!              ├─ kubelet ─► the control plane, as this node, not as admin
//!              └─ device plugin ─► our libnvidia-ml.so.1 ─► cards.json ◄─ Node::change_cards
//! ```
//!
//! Pods that want cards name the RuntimeClass `nvidia`. Labels are those that NVIDIA's GPU feature
//! discovery prints.

use crate::control_plane::NODE;
use crate::image::Image;
use crate::{ControlPlane, Program, Programs, Unavailable, free_ports, io};
pub use divvy_mock_nvml::{Card, Inventory, Slice};
/// A library in the place of an isolation provider's, as a file: it lets NVML tell the limit.
pub use divvy_stand_in_provider::LIBRARY as STAND_IN_PROVIDER;
use ground::Ground;
use inside::{Boot, Inside, output};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An image with busybox in it; nothing is pulled.
pub const BUSYBOX: &str = "docker.io/local/busybox:1";

mod cards;
mod config;
mod ground;
mod inside;
mod look;
mod machine;
mod services;

pub use look::Container;

/// What the node has.
#[derive(Clone, Debug)]
pub struct Options {
    /// By index.
    pub cards: Vec<Card>,
    /// The configuration file of the device plugin and GPU feature discovery, such as one with time
    /// slicing or a MIG strategy.
    pub plugin_config: Value,
}

impl Default for Options {
    /// Eight A100, each for one pod.
    fn default() -> Self {
        let cards = (0..8).map(Card::a100).collect();
        Self { cards, plugin_config: json!({"version": "v1"}) }
    }
}

/// The configuration of NVIDIA's runtime, in the folder that holds those of the node.
const NVIDIA_RUNTIME: &str = "etc/nvidia-container-runtime/config.toml";

/// A running node. Dropping it ends all that runs on it and takes away what it left on the machine,
/// but for its files and logs.
#[derive(Debug)]
pub struct Node {
    programs: Programs,
    folder: PathBuf,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    node_kubeconfig: PathBuf,
    /// Where the kubelet says that it is well.
    health: u16,
    inventory: Inventory,
    plugin_config: Value,
    /// Those that it was given by feature discovery.
    labels: BTreeSet<String>,
    // What runs on it before what it runs on: the order in which they are dropped.
    plugin: Option<Inside>,
    kubelet: Option<Inside>,
    containerd: Option<Inside>,
    boot: Boot,
    ground: Ground,
}

/// Whether this machine can run a node: builds and installs what is not there yet. `say` hears
/// what is going on, a line at a time.
pub fn prepare(say: &mut dyn FnMut(&str)) -> Result<(), Unavailable> {
    machine::prepare(say)?;
    Programs::build_node(say).map(|_| ())
}

/// Waits until a node that lived on without an owner is gone and takes away what it left.
pub fn clean() -> Result<(), Unavailable> {
    Ground::clean().map(|_| ())
}

impl Node {
    /// Its name in the cluster.
    pub const NAME: &str = NODE;

    /// Starts it and waits until its cards can be asked for. The control plane must have
    /// controllers. If another node of the testbed runs on this machine, waits for its end.
    pub fn start(plane: &ControlPlane, options: Options) -> Result<Self, Unavailable> {
        machine::prepare(&mut |_| {})?;
        let programs = Programs::build_node(&mut |_| {})?;
        let ground = Ground::take(plane.url().trim_start_matches("https://"))?;
        let folder = plane.folder().join("node");
        let inventory = Inventory::new(options.cards);
        let ports = free_ports()?;
        let client = plane.kubelet_client();
        let kubelet = config::kubelet(&folder, &client, ports);
        write_files(&folder, &programs, &kubelet)?;
        let boot = Boot::start(&folder, &ground)?;
        let mut node = Self {
            programs,
            kubectl: plane.kubectl().get_program().into(),
            kubeconfig: plane.kubeconfig(),
            node_kubeconfig: plane.node_kubeconfig(),
            health: ports[1],
            inventory,
            plugin_config: options.plugin_config,
            labels: BTreeSet::new(),
            plugin: None,
            kubelet: None,
            containerd: None,
            boot,
            folder,
            ground,
        };
        node.write_cards()?;
        node.start_containerd()?;
        for name in [config::PAUSE, BUSYBOX] {
            node.import(&Image::busybox(name, &busybox()?)?)?;
        }
        node.start_kubelet()?;
        node.apply(&json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"}, "handler": "nvidia",
        }))?;
        node.label()?;
        node.start_plugin()?;
        node.wait(Program::Kubelet, |node| {
            let object = node.get("node", None, Self::NAME)?;
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
            let done = is_ready && object["spec"]["taints"].is_null();
            done.then_some(()).ok_or_else(|| format!("its status is {}", object["status"]))
        })?;
        node.until_allocatable()?;
        Ok(node)
    }

    /// Makes an image of this name, `docker.io/...:tag`, of a program of this machine and the libraries
    /// that it loads; it runs with these arguments.
    pub fn add_program(
        &self,
        name: &str,
        program: &Path,
        arguments: &[&str],
    ) -> Result<(), Unavailable> {
        self.import(&Image::programs(name, &[program], arguments))
    }

    /// Makes an image of this name, `docker.io/...:tag`, that is [`BUSYBOX`] but asks for all cards in
    /// its own environment, as images with CUDA do.
    pub fn add_stand_in(&self, name: &str) -> Result<(), Unavailable> {
        self.import(&Image::stand_in(name, &busybox()?)?)
    }

    /// Makes an image of this name, `docker.io/...:tag`, that is [`BUSYBOX`] with files of this machine
    /// and the libraries that they load; it runs `entry`, or waits if that is empty.
    pub fn add_files(
        &self,
        name: &str,
        files: &[(&Path, &str)],
        entry: &[&str],
    ) -> Result<(), Unavailable> {
        self.import(&Image::busybox(name, &busybox()?)?.with(files, entry))
    }

    /// Lets the API server reach a service at the pod that serves it: there is no kube-proxy. The last
    /// one that was said counts.
    pub fn serve(&self, service: SocketAddrV4, by: SocketAddrV4) -> Result<(), Unavailable> {
        self.ground.serve(service, by)
    }

    /// Hands containerd the archive of an image.
    pub fn import(&self, image: &Image) -> Result<(), Unavailable> {
        let folder = self.folder.join("images");
        std::fs::create_dir_all(&folder).map_err(io("cannot make a folder"))?;
        let archive = folder.join(image.name().replace(['/', ':'], "-") + ".tar");
        image.write(&archive)?;
        let mut ctr = self.boot.command(self.programs.path(Program::Ctr));
        ctr.args(["--namespace", "k8s.io", "images", "import"]).arg(&archive);
        output(ctr, &format!("import the image {}", image.name()))?;
        // containerd has it now, and a test has many.
        std::fs::remove_file(&archive).map_err(io("cannot remove the archive of an image"))
    }

    /// Kills the kubelet; containers run on.
    pub fn stop_kubelet(&mut self) {
        self.kubelet = None;
    }

    /// Kills the kubelet and starts it again.
    pub fn restart_kubelet(&mut self) -> Result<(), Unavailable> {
        self.stop_kubelet();
        self.start_kubelet()
    }

    /// Changes fields of the kubelet's configuration and starts it again.
    pub fn change_kubelet(&mut self, fields: &Value) -> Result<(), Unavailable> {
        let path = self.folder.join("kubelet.json");
        let wrong = io(format!("cannot change {}", path.display()));
        let change = || -> std::io::Result<()> {
            let mut config: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
            for (field, value) in fields.as_object().into_iter().flatten() {
                config[field] = value.clone();
            }
            std::fs::write(&path, config.to_string())
        };
        change().map_err(wrong)?;
        self.restart_kubelet()
    }

    /// Lets pods without a runtime class run by this runtime, `runc` or `nvidia`: starts containerd
    /// again; containers run on.
    pub fn change_default_runtime(&mut self, name: &str) -> Result<(), Unavailable> {
        let path = self.folder.join("containerd.toml");
        let wrong = io(format!("cannot change {}", path.display()));
        let change = || -> std::io::Result<()> {
            let text = std::fs::read_to_string(&path)?;
            let line = |line: &str| match line.split_once(" = ") {
                Some(("default_runtime_name", _)) => format!("default_runtime_name = \"{name}\"\n"),
                _ => format!("{line}\n"),
            };
            std::fs::write(&path, text.lines().map(line).collect::<String>())
        };
        change().map_err(wrong)?;
        self.containerd = None;
        self.start_containerd()
    }

    /// Lets NVIDIA's runtime work in this mode from the next container on: `cdi` at first, `auto` as
    /// it is installed, `legacy`, or `csv`.
    pub fn change_nvidia_mode(&self, mode: &str) -> Result<(), Unavailable> {
        let path = self.folder.join(NVIDIA_RUNTIME);
        let written = std::fs::write(&path, config::nvidia_runtime(mode));
        written.map_err(io(format!("cannot write {}", path.display())))
    }

    /// A file of the node, which has some folders of its own, seen from outside.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.boot.path(inside)
    }

    /// All at once is dead, as by a power cut; then the machine comes up. As on most machines, the
    /// kubelet has looked at its pods before the device plugin, which is a pod there, is up: each
    /// pod that held a device has failed by then.
    pub fn reboot(&mut self) -> Result<(), Unavailable> {
        self.reboot_without_plugin()?;
        self.start_plugin()
    }

    /// As [`Node::reboot`], up to the moment before the plugin starts.
    pub fn reboot_without_plugin(&mut self) -> Result<(), Unavailable> {
        let held = self.holders().map_err(|why| io("cannot list the node's pods")(other(why)))?;
        let fresh = Boot::start(&self.folder, &self.ground)?;
        std::mem::replace(&mut self.boot, fresh).kill();
        for program in [&mut self.plugin, &mut self.kubelet, &mut self.containerd] {
            *program = None;
        }
        ground::renew_cgroups()?;
        self.start_containerd()?;
        self.start_kubelet()?;
        self.wait(Program::Kubelet, |node| {
            let still: Vec<String> = node.holders()?.intersection(&held).cloned().collect();
            still.is_empty().then_some(()).ok_or_else(|| format!("these hold cards: {still:?}"))
        })
    }

    /// The pods of the node, by UID, that hold devices.
    fn holders(&self) -> Result<BTreeSet<String>, String> {
        let selector = format!("--field-selector=spec.nodeName={}", Self::NAME);
        let list = self.read(&["get", "pods", "--all-namespaces", &selector, "--output=json"])?;
        let holds = |pod: &&Value| {
            let ended = ["Failed", "Succeeded"].iter().any(|p| pod["status"]["phase"] == *p);
            let mut containers = pod["spec"]["containers"].as_array().into_iter().flatten();
            let asks = |name: &String| name.starts_with(cards::VENDOR);
            let holds = |c: &Value| {
                let limits = c["resources"]["limits"].as_object();
                limits.is_some_and(|limits| limits.keys().any(asks))
            };
            !ended && containers.any(holds)
        };
        let pods = list["items"].as_array().into_iter().flatten().filter(holds);
        Ok(pods.map(|pod| pod["metadata"]["uid"].to_string()).collect())
    }

    /// Lets it live on without an owner: the program and the id of the process that, when it is
    /// killed, takes all with it. Then [`clean`] takes away what is left on the machine.
    pub fn detach(self) -> (String, u32) {
        let Self { plugin, kubelet, containerd, boot, ground, .. } = self;
        [plugin, kubelet, containerd].into_iter().flatten().for_each(Inside::detach);
        ground.leave();
        boot.detach()
    }

    fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    fn apply(&self, object: &Value) -> Result<(), Unavailable> {
        let mut kubectl = self.kubectl();
        kubectl.args(["apply", "--filename=-"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut apply = || -> std::io::Result<()> {
            let mut child = kubectl.spawn()?;
            if let Some(mut input) = child.stdin.take() {
                input.write_all(object.to_string().as_bytes())?;
            }
            let done = child.wait()?.success();
            done.then_some(()).ok_or_else(|| other("kubectl apply failed".to_owned()))
        };
        apply().map_err(io(format!("cannot make the {}", object["kind"])))
    }

    fn get(&self, kind: &str, namespace: Option<&str>, name: &str) -> Result<Value, String> {
        let namespace = namespace.map(|namespace| format!("--namespace={namespace}"));
        let mut arguments = vec!["get", kind, name, "--output=json"];
        arguments.extend(namespace.as_deref());
        self.read(&arguments)
    }

    fn read(&self, arguments: &[&str]) -> Result<Value, String> {
        let mut kubectl = self.kubectl();
        kubectl.args(arguments);
        let text = output(kubectl, "ask the API").map_err(|e| e.to_string())?;
        serde_json::from_str(&text).map_err(|e| e.to_string())
    }
}

fn busybox() -> Result<PathBuf, Unavailable> {
    machine::find("busybox").ok_or_else(|| Unavailable::NoNode("no busybox".to_owned()))
}

fn other(why: String) -> std::io::Error {
    std::io::Error::other(why)
}

fn write_files(folder: &Path, programs: &Programs, kubelet: &Value) -> Result<(), Unavailable> {
    let nvml = folder.join("nvml");
    let network_plugins = programs.path(Program::Containerd);
    let network_plugins = network_plugins.parent().unwrap_or(Path::new("/"));
    let runtime = programs.path(Program::ContainerRuntime);
    let files = [
        ("containerd.toml", config::containerd(folder, network_plugins, &runtime)),
        (NVIDIA_RUNTIME, config::nvidia_runtime("cdi")),
        ("cni/10-divvy.conflist", config::network(folder).to_string()),
        ("kubelet.json", kubelet.to_string()),
    ];
    for inner in
        ["nvml", "cni", "etc/cdi", "etc/nvidia-container-runtime", "proc/driver/nvidia-caps"]
    {
        std::fs::create_dir_all(folder.join(inner)).map_err(io("cannot make a folder"))?;
    }
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(io(format!("cannot write {}", path.display())))?;
    }
    let library = library()?;
    let copied = std::fs::copy(&library, nvml.join(config::LIBRARY));
    copied.map_err(io(format!("cannot copy {}", library.display())))?;
    let written = std::fs::write(nvml.join(config::CUDA), divvy_stand_in_provider::CUDA);
    written.map_err(io("cannot write the stub of CUDA"))
}

/// Our mock as a C library: cargo builds it with the Rust library that this crate uses, and puts it
/// beside what the running program is linked from.
pub fn library() -> Result<PathBuf, Unavailable> {
    let own = std::env::current_exe().map_err(io("cannot find the running program"))?;
    let folders = own.ancestors().skip(1).take(2);
    let mut places = folders.flat_map(|folder| [folder.join("deps"), folder.to_owned()]);
    let found = places.find_map(|folder| {
        let file = folder.join("libdivvy_mock_nvml.so");
        file.is_file().then_some(file)
    });
    found.ok_or_else(|| Unavailable::NoNode("libdivvy_mock_nvml.so is not built".to_owned()))
}
