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

use crate::control_plane::{NODE, PATIENCE, healthy};
use crate::{ControlPlane, Program, Programs, Unavailable, free_ports, io};
use divvy_mock_nvml::FILE;
pub use divvy_mock_nvml::{Card, Inventory};
use ground::Ground;
use inside::{Boot, Inside, output};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// An image with busybox in it; nothing is pulled.
pub const BUSYBOX: &str = "docker.io/local/busybox:1";

mod config;
mod ground;
mod images;
mod inside;
mod machine;

/// What the node has.
#[derive(Clone, Debug)]
pub struct Options {
    /// By index.
    pub cards: Vec<Card>,
    /// The device plugin's own configuration file, such as one with time slicing.
    pub plugin_config: Value,
}

impl Default for Options {
    /// Eight A100, each for one pod.
    fn default() -> Self {
        let cards = (0..8).map(Card::a100).collect();
        Self { cards, plugin_config: json!({"version": "v1"}) }
    }
}

/// What a container's first process has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The names in `/dev` of the cards that it can reach, such as `nvidia3`.
    pub cards: Vec<String>,
    /// Its environment.
    pub environment: BTreeMap<String, String>,
}

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
    Ground::take().map(|_| ())
}

impl Node {
    /// Its name in the cluster.
    pub const NAME: &str = NODE;

    /// Starts it and waits until its cards can be asked for. The control plane must have
    /// controllers. If another node of the testbed runs on this machine, waits for its end.
    pub fn start(plane: &ControlPlane, options: Options) -> Result<Self, Unavailable> {
        machine::prepare(&mut |_| {})?;
        let programs = Programs::build_node(&mut |_| {})?;
        let ground = Ground::take()?;
        let folder = plane.folder().join("node");
        let inventory = Inventory::new(options.cards);
        let ports = free_ports()?;
        let client = plane.kubelet_client();
        let kubelet = config::kubelet(&folder, &client, ports);
        write_files(&folder, &programs, &inventory, &kubelet, &options.plugin_config)?;
        let boot = Boot::start(&folder, &ground)?;
        let mut node = Self {
            programs,
            kubectl: plane.kubectl().get_program().into(),
            kubeconfig: plane.kubeconfig(),
            node_kubeconfig: plane.node_kubeconfig(),
            health: ports[1],
            inventory,
            plugin: None,
            kubelet: None,
            containerd: None,
            boot,
            folder,
            ground,
        };
        node.start_containerd()?;
        for name in [config::PAUSE, BUSYBOX] {
            node.import(&images::busybox(name, &busybox()?)?)?;
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
            let cards = object["status"]["allocatable"]["nvidia.com/gpu"].as_str();
            let has_cards = cards.is_some_and(|count| count != "0");
            let done = is_ready && has_cards && object["spec"]["taints"].is_null();
            done.then_some(()).ok_or_else(|| format!("its status is {}", object["status"]))
        })?;
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
        self.import(&images::program(name, program, arguments))
    }

    /// Makes an image of this name, `docker.io/...:tag`, that is [`BUSYBOX`] but asks for all cards in
    /// its own environment, as images with CUDA do.
    pub fn add_stand_in(&self, name: &str) -> Result<(), Unavailable> {
        self.import(&images::stand_in(name, &busybox()?)?)
    }

    fn import(&self, image: &images::Image) -> Result<(), Unavailable> {
        image.import(&self.folder.join("images"), &self.boot, &self.programs)
    }

    /// Changes what the mock says of the cards, or lets its functions fail, from the next call on.
    pub fn change_cards(&mut self, change: impl FnOnce(&mut Inventory)) -> Result<(), Unavailable> {
        change(&mut self.inventory);
        write_cards(&self.folder, &self.inventory)
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

    /// Kills the device plugin, starts it again and waits until it is registered.
    pub fn restart_plugin(&mut self) -> Result<(), Unavailable> {
        self.plugin = None;
        self.start_plugin()
    }

    /// All at once is dead, as by a power cut; then the machine comes up. As on most machines, the
    /// kubelet has looked at its pods before the device plugin, which is a pod there, is up: each
    /// pod that holds a device has failed by then.
    pub fn reboot(&mut self) -> Result<(), Unavailable> {
        let fresh = Boot::start(&self.folder, &self.ground)?;
        std::mem::replace(&mut self.boot, fresh).kill();
        for program in [&mut self.plugin, &mut self.kubelet, &mut self.containerd] {
            *program = None;
        }
        self.start_containerd()?;
        self.start_kubelet()?;
        self.wait(Program::Kubelet, |node| {
            let list = node.read(&["get", "pods", "--all-namespaces", "--output=json"])?;
            let pods = list["items"].as_array().cloned().unwrap_or_default();
            let holds = |pod: &&Value| {
                let is_here = pod["spec"]["nodeName"] == Self::NAME;
                let ended = ["Failed", "Succeeded"].iter().any(|p| pod["status"]["phase"] == *p);
                let mut containers = pod["spec"]["containers"].as_array().into_iter().flatten();
                let asks =
                    containers.any(|c| !c["resources"]["limits"]["nvidia.com/gpu"].is_null());
                is_here && !ended && asks
            };
            let name = pods.iter().find(holds).map(|pod| pod["metadata"]["name"].to_string());
            name.map_or(Ok(()), |name| Err(format!("the pod {name} still holds a card")))
        })?;
        self.start_plugin()
    }

    /// What a running container has, as its first process sees it.
    pub fn look(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
    ) -> Result<Container, Unavailable> {
        let wrong = |why: String| io(format!("cannot look into {namespace}/{pod}"))(other(why));
        let object = self.get("pod", Some(namespace), pod).map_err(wrong)?;
        let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
        let statuses = lists.iter().filter_map(|list| object["status"][list].as_array()).flatten();
        let status = statuses.into_iter().find(|status| status["name"] == container);
        let id = status.and_then(|status| status["containerID"].as_str()).unwrap_or_default();
        let id = id.trim_start_matches("containerd://");
        let mut ctr = self.boot.command(self.programs.path(Program::Ctr));
        ctr.args(["--namespace", "k8s.io", "tasks", "list"]);
        let tasks = output(ctr, "list containers")?;
        let mut lines = tasks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let process =
            lines.find_map(|words| (words.first() == Some(&id)).then(|| words.get(1).copied()));
        let Some(process) = process.flatten() else {
            return Err(wrong(format!("its container {container} does not run")));
        };
        let path = |name: &str| self.boot.path(&format!("/proc/{process}/{name}"));
        let read = || -> std::io::Result<Container> {
            let mut cards = Vec::new();
            for entry in std::fs::read_dir(path("root/dev"))? {
                cards.push(entry?.file_name().to_string_lossy().into_owned());
            }
            cards.retain(|name| name.starts_with("nvidia"));
            cards.sort();
            let environment = std::fs::read(path("environ"))?;
            let environment = String::from_utf8_lossy(&environment);
            let pair = |text: &str| {
                let (name, value) = text.split_once('=')?;
                Some((name.to_owned(), value.to_owned()))
            };
            Ok(Container { cards, environment: environment.split('\0').filter_map(pair).collect() })
        };
        read().map_err(io(format!("cannot look into {namespace}/{pod}")))
    }

    /// Lets it live on without an owner: the program and the id of the process that, when it is
    /// killed, takes all with it. Then [`clean`] takes away what is left on the machine.
    pub fn detach(self) -> (String, u32) {
        let Self { plugin, kubelet, containerd, boot, ground, .. } = self;
        [plugin, kubelet, containerd].into_iter().flatten().for_each(Inside::detach);
        ground.leave();
        boot.detach()
    }

    fn start_containerd(&mut self) -> Result<(), Unavailable> {
        let program = self.programs.path(Program::Containerd);
        let beside = program.parent().map(Path::to_owned).unwrap_or_default();
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let system = [beside, "/usr/sbin".into(), "/usr/bin".into()];
        let paths = std::env::join_paths(system.into_iter().chain(std::env::split_paths(&paths)));
        let mut command = self.boot.command(&program);
        command.arg("--config").arg(self.folder.join("containerd.toml"));
        // Where its shim and runc are, and the configuration of NVIDIA's runtime.
        command.env("PATH", paths.unwrap_or_default()).env("XDG_CONFIG_HOME", &self.folder);
        self.containerd = Some(Inside::start(command, Program::Containerd, &self.folder)?);
        self.wait(Program::Containerd, |node| {
            let mut ctr = node.boot.command(node.programs.path(Program::Ctr));
            ctr.arg("version");
            output(ctr, "reach containerd").map(|_| ()).map_err(|e| e.to_string())
        })
    }

    fn start_kubelet(&mut self) -> Result<(), Unavailable> {
        let mut command = self.boot.command(self.programs.path(Program::Kubelet));
        command
            .arg(format!("--config={}", self.folder.join("kubelet.json").display()))
            .arg(format!("--kubeconfig={}", self.node_kubeconfig.display()))
            .arg(format!("--hostname-override={}", Self::NAME))
            .arg(format!("--node-ip={}", ground::ADDRESS))
            .arg("--v=2");
        self.kubelet = Some(Inside::start(command, Program::Kubelet, &self.folder)?);
        let health = self.health;
        self.wait(Program::Kubelet, |_| healthy(health).map_err(|e| e.to_string()))?;
        self.wait(Program::Kubelet, |node| node.get("node", None, Self::NAME).map(|_| ()))
    }

    fn start_plugin(&mut self) -> Result<(), Unavailable> {
        let mut command = self.nvidia(Program::DevicePlugin);
        command.args(["--device-list-strategy=envvar", "--device-discovery-strategy=nvml"]);
        let log = self.folder.join("nvidia-device-plugin.log");
        let read = || std::fs::read_to_string(&log).unwrap_or_default();
        let before = read().len();
        self.plugin = Some(Inside::start(command, Program::DevicePlugin, &self.folder)?);
        self.wait(Program::DevicePlugin, |_| {
            let text = read();
            let said = text.get(before..).unwrap_or_default();
            said.contains("Registered device plugin for 'nvidia.com/gpu'")
                .then_some(())
                .ok_or_else(|| "it is not registered".to_owned())
        })
    }

    /// Sets the labels that NVIDIA's GPU feature discovery finds.
    fn label(&self) -> Result<(), Unavailable> {
        let file = self.folder.join("labels");
        let mut discovery = self.nvidia(Program::FeatureDiscovery);
        discovery.args(["--use-node-feature-api=false", "--oneshot", "--output-file"]).arg(&file);
        output(discovery, "run GPU feature discovery")?;
        let labels = std::fs::read_to_string(&file).map_err(io("no labels of the node"))?;
        let mut kubectl = self.kubectl();
        kubectl.args(["label", "--overwrite", "node", Self::NAME]).args(labels.lines());
        output(kubectl, "label the node").map(|_| ())
    }

    /// One of NVIDIA's programs, with our library.
    fn nvidia(&self, program: Program) -> Command {
        let nvml = self.folder.join("nvml");
        let mut command = self.boot.command(self.programs.path(program));
        command.env("LD_LIBRARY_PATH", &nvml).env(FILE, nvml.join(config::CARDS));
        command.arg("--config-file").arg(self.folder.join("plugin.json"));
        command
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

    /// Tries until it is true, the program that it waits for runs and the patience lasts.
    fn wait(
        &mut self,
        program: Program,
        is_done: impl Fn(&Self) -> Result<(), String>,
    ) -> Result<(), Unavailable> {
        let start = Instant::now();
        loop {
            let Err(why) = is_done(self) else { return Ok(()) };
            let inside = match program {
                Program::Containerd => &mut self.containerd,
                Program::Kubelet => &mut self.kubelet,
                _ => &mut self.plugin,
            };
            let ended = inside.as_mut().and_then(Inside::exited);
            if ended.is_none() && start.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
            return Err(Unavailable::NotReady {
                program: program.name().to_owned(),
                seconds: start.elapsed().as_secs(),
                why: ended.map_or(why, |status| format!("it ended with {status}")),
                log: self.folder.join(format!("{}.log", program.name())).display().to_string(),
            });
        }
    }
}

fn busybox() -> Result<PathBuf, Unavailable> {
    machine::find("busybox").ok_or_else(|| Unavailable::NoNode("no busybox".to_owned()))
}

fn other(why: String) -> std::io::Error {
    std::io::Error::other(why)
}

fn write_files(
    folder: &Path,
    programs: &Programs,
    inventory: &Inventory,
    kubelet: &Value,
    plugin: &Value,
) -> Result<(), Unavailable> {
    let nvml = folder.join("nvml");
    let network_plugins = programs.path(Program::Containerd);
    let network_plugins = network_plugins.parent().unwrap_or(Path::new("/"));
    let runtime = programs.path(Program::ContainerRuntime);
    let files = [
        ("containerd.toml", config::containerd(folder, network_plugins, &runtime)),
        ("nvidia-container-runtime/config.toml", config::nvidia_runtime(folder)),
        ("cni/10-divvy.conflist", config::network(folder).to_string()),
        ("cdi/nvidia.json", config::devices(inventory, &nvml).to_string()),
        ("kubelet.json", kubelet.to_string()),
        ("plugin.json", plugin.to_string()),
    ];
    for inner in ["nvml", "cni", "cdi", "nvidia-container-runtime"] {
        std::fs::create_dir_all(folder.join(inner)).map_err(io("cannot make a folder"))?;
    }
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(io(format!("cannot write {}", path.display())))?;
    }
    let library = library()?;
    let copied = std::fs::copy(&library, nvml.join(config::LIBRARY));
    copied.map_err(io(format!("cannot copy {}", library.display())))?;
    write_cards(folder, inventory)
}

fn write_cards(folder: &Path, inventory: &Inventory) -> Result<(), Unavailable> {
    let path = folder.join("nvml").join(config::CARDS);
    inventory.write(&path).map_err(io(format!("cannot write {}", path.display())))
}

/// Our mock as a C library: cargo builds it with the Rust library that this crate uses, and puts it
/// beside what the running program is linked from.
fn library() -> Result<PathBuf, Unavailable> {
    let own = std::env::current_exe().map_err(io("cannot find the running program"))?;
    let folders = own.ancestors().skip(1).take(2);
    let mut places = folders.flat_map(|folder| [folder.join("deps"), folder.to_owned()]);
    let found = places.find_map(|folder| {
        let file = folder.join("libdivvy_mock_nvml.so");
        file.is_file().then_some(file)
    });
    found.ok_or_else(|| Unavailable::NoNode("libdivvy_mock_nvml.so is not built".to_owned()))
}
