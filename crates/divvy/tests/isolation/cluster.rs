//! A cluster of one real node, and what its containers say.

use crate::program;
use divvy_testbed::api::{Api, JSON};
use divvy_testbed::image::Image;
use divvy_testbed::node::{Node, Options, STAND_IN_PROVIDER};
use divvy_testbed::{ControlPlane, Programs, Unavailable};
use http::Method;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};

/// Long enough for a busy machine; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(180);
/// What `deploy/` names.
const DIVVY: &str = concat!("docker.io/library/divvy:", env!("CARGO_PKG_VERSION"));
const LIBRARY: &str = "docker.io/library/libvgpu:1";
/// A shell that is linked statically, with `env` that is not; and nothing of CUDA.
pub const GLIBC: &str = "docker.io/local/glibc:1";
/// In the place of the image that the example names: the same, with a checker of its own.
pub const SERVER: &str = "nvcr.io/nvidia/tritonserver:25.06-py3";
pub const LOOK: &str = "/look/divvy-isolation-check";
pub const CHECKER: &str = "/usr/local/vgpu/divvy-isolation-check";
const NODE: &str = "/api/v1/nodes/gpu-node";

/// One cluster at a time: two cores are not many.
static TURN: Mutex<()> = Mutex::const_new(());

pub struct Cluster {
    pub api: Api,
    // The node before the plane that it talks to.
    pub node: Node,
    pub plane: ControlPlane,
    folder: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Cluster {
    /// Waits for its turn; `None`, and a line that says why, without one.
    pub async fn start(name: &str) -> Option<Self> {
        let turn = TURN.lock().await;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("isolation-{name}"));
        let _ = std::fs::remove_dir_all(&folder);
        let start = || -> Result<_, Unavailable> {
            let programs = Programs::build(&mut |_| {})?;
            let plane = ControlPlane::start_with_controllers(&programs, &folder)?;
            let node = Node::start(&plane, Options::default())?;
            Ok((plane, node))
        };
        let (plane, node) = match start() {
            Ok(parts) => parts,
            Err(
                why @ (Unavailable::NoNode(_) | Unavailable::NoGo(_) | Unavailable::Build { .. }),
            ) => {
                // Not by println, which the test runner hides.
                let _ = writeln!(std::io::stdout(), "skipped: {why}");
                return None;
            }
            Err(why) => panic!("{why}"),
        };
        let api = Api::connect(&plane).await.unwrap();
        let cluster = Self { api, node, plane, folder, _turn: turn };
        let library = cluster.library().join("libvgpu.so");
        std::fs::create_dir_all(cluster.library()).unwrap();
        std::fs::write(&library, STAND_IN_PROVIDER).unwrap();
        let divvy = Path::new(env!("CARGO_BIN_EXE_divvy"));
        let checker = Path::new(env!("CARGO_BIN_EXE_divvy-isolation-check"));
        cluster.node.import(&Image::programs(DIVVY, &[divvy, checker], &[])).unwrap();
        cluster.node.add_files(LIBRARY, &[(&library, "/libvgpu.so")], &[]).unwrap();
        // With this file in their images containers would set themselves another limit.
        let overrides = cluster.folder.join("overrideEnv");
        std::fs::write(&overrides, "CUDA_DEVICE_MEMORY_LIMIT=80g\n").unwrap();
        // The checker is there only for the libraries that it loads, as most images have them.
        let env = Path::new("/usr/bin/env");
        let programs = [(env, "/usr/bin/env"), (checker, "/unused"), (&*overrides, "/overrideEnv")];
        cluster.node.add_files(GLIBC, &programs, &[]).unwrap();
        // What the checker is told where no provider is mounted: there it only says what NVML says.
        let told = cluster.folder.join("limit.json");
        let memory = json!({"variable": "NONE", "unit": "bytes", "format": "{}"});
        let nothing = json!({"provider": "nobody", "memory": memory, "library": "/none"});
        std::fs::write(&told, nothing.to_string()).unwrap();
        let more = [(checker, LOOK), (&*told, "/look/limit.json")];
        let programs = [programs.as_slice(), &more].concat();
        cluster.node.add_files(SERVER, &programs, &[]).unwrap();
        for file in ["namespaces", "policy-provider"] {
            cluster.apply(&format!("deploy/{file}.yaml"));
        }
        cluster.api.policies_act().await.unwrap();
        Some(cluster)
    }

    /// A folder with the library of the provider.
    pub fn library(&self) -> PathBuf {
        self.folder.join("library")
    }

    pub fn apply(&self, file: &str) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut kubectl = self.plane.kubectl();
        kubectl.args(["apply", "-f"]).arg(root.join(file)).stdout(Stdio::null());
        assert!(kubectl.status().unwrap().success(), "{file}");
    }

    /// divvy as an administrator runs it.
    pub fn divvy(&self, arguments: &[&str]) -> Output {
        let mut divvy = program::divvy();
        let kubectl = PathBuf::from(self.plane.kubectl().get_program());
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let beside = kubectl.parent().unwrap().to_owned();
        let paths = std::iter::once(beside).chain(std::env::split_paths(&paths));
        divvy.env("PATH", std::env::join_paths(paths).unwrap());
        divvy.args(arguments).arg("--kubeconfig").arg(self.plane.kubeconfig()).output().unwrap()
    }

    /// divvy installs the provider on the node from outside.
    pub fn install(&self, more: &[&str]) -> Output {
        let (library, root) = (self.library(), self.node.path("/"));
        let mut arguments = vec!["node", "install-provider", "--node-name", Node::NAME];
        arguments.extend(["--library-dir", library.to_str().unwrap()]);
        arguments.extend(["--host-root", root.to_str().unwrap()]);
        arguments.extend(more);
        self.divvy(&arguments)
    }

    pub async fn until<T>(&self, what: &str, is: impl AsyncFn() -> Result<T, String>) -> T {
        let start = Instant::now();
        loop {
            match is().await {
                Ok(found) => return found,
                Err(why) => assert!(start.elapsed() < PATIENCE, "{what}: {why}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn bind(&self, namespace: &str, pod: &str) {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": Node::NAME},
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/binding");
        self.api.send(Method::POST, &path, JSON, Some(&binding)).await.unwrap();
    }

    /// The label and the annotation of the node.
    pub async fn provider(&self) -> (Value, Value) {
        let metadata = &self.api.get(NODE).await.unwrap()["metadata"];
        let label = metadata["labels"]["koordinator.sh/gpu-isolation-provider"].clone();
        (label, metadata["annotations"]["divvy.dev/cdi-kind"].clone())
    }

    /// Makes a pod that runs a line of shell with these devices and variables.
    pub async fn run(&self, name: &str, devices: &str, more: &[(&str, &str)], line: &str) {
        let variable = |(name, value): (&str, &str)| json!({"name": name, "value": value});
        let devices = ("NVIDIA_VISIBLE_DEVICES", devices);
        let variables: Vec<Value> =
            [devices].into_iter().chain(more.iter().copied()).map(variable).collect();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "default", "name": name},
            "spec": {
                "nodeName": Node::NAME, "runtimeClassName": "nvidia", "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
                "containers": [{
                    "name": "main", "image": GLIBC, "imagePullPolicy": "Never",
                    "env": variables, "command": ["sh", "-c", line],
                }],
            },
        });
        self.api.create(&pod).await.unwrap();
    }

    /// The state of a pod's container once it is of one of these kinds.
    pub async fn state(&self, pod: &str, kinds: &[&str]) -> Value {
        let path = format!("/api/v1/namespaces/default/pods/{pod}");
        self.until(&format!("{pod} is {kinds:?}"), async || {
            let pod = self.api.get(&path).await.map_err(|why| why.to_string())?;
            let state = &pod["status"]["containerStatuses"][0]["state"];
            let waits = state["waiting"]["reason"].as_str().unwrap_or_default();
            let is =
                kinds.iter().any(|kind| state[*kind].is_object() && waits != "ContainerCreating");
            if is { Ok(state.clone()) } else { Err(pod["status"].to_string()) }
        })
        .await
    }

    /// What a pod printed until it ended.
    pub async fn printed(&self, pod: &str) -> String {
        self.state(pod, &["terminated"]).await;
        let printed = self.kubectl(&["logs", pod]).stdout;
        String::from_utf8(printed).unwrap()
    }

    /// A client of whoever has this token; `name` is for its file.
    pub async fn with_token(&self, name: &str, token: &str) -> Api {
        let view = self.kubectl(&["config", "view", "--raw", "--output=json"]);
        let mut config: Value = serde_json::from_slice(&view.stdout).unwrap();
        config["users"][0]["user"] = json!({"token": token});
        let path = self.folder.join(format!("kubeconfig-{name}"));
        std::fs::write(&path, config.to_string()).unwrap();
        Api::from_kubeconfig(&path).await.unwrap()
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        self.plane.kubectl().args(arguments).output().unwrap()
    }
}

pub fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8(both).unwrap()
}
