//! A cluster to measure in, and the schedulers that can be started in it.

use anyhow::{Context, ensure};
use divvy_testbed::api::Api;
use divvy_testbed::manifests::GpuNode;
use divvy_testbed::{ControlPlane, Kwok, KwokPods, Process, Program, Programs, free_ports};
use http_get::get;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub const NAMESPACE: &str = "default";
/// Where reservation pods are.
pub const RESERVATIONS: &str = "kai-resource-reservation";
/// What they would run.
pub const IMAGE: &str = "example.com/divvy:1";
pub const AT_A_TIME: usize = 32;
/// As often as a kubelet.
const HEARTBEAT: Duration = Duration::from_secs(300);
const PATIENCE: Duration = Duration::from_secs(600);

pub struct Stage {
    pub plane: ControlPlane,
    pub api: Api,
    pub nodes: usize,
    divvy: PathBuf,
    is_shared: bool,
    started: std::cell::Cell<usize>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.plane.stop_all();
        let _ = std::fs::remove_dir_all(self.plane.folder());
    }
}

impl Stage {
    /// Starts the control plane and makes the nodes. With `sharing`, divvy hands out shares, and
    /// reservation pods run so long after they were made.
    pub async fn set(
        nodes: usize,
        divvy: &Path,
        sharing: Option<Duration>,
    ) -> anyhow::Result<Self> {
        println!("\n{nodes} nodes with 8 GPUs each: starting");
        let programs = Programs::build(&mut |line| println!("{line}"))?;
        let folder = std::env::temp_dir().join(format!("divvy-e2e-{}", std::process::id()));
        let pods = sharing.map_or(KwokPods::Stay, KwokPods::Reservations);
        let kwok = Kwok { pods, heartbeat: HEARTBEAT };
        let plane = ControlPlane::start(&programs, &folder)?.with_kwok(kwok)?;
        let api = Api::connect(&plane).await?;
        let made = (0..nodes).map(|i| {
            let mut node = GpuNode::A100.node(&format!("node-{i:05}"));
            let zone = ["a", "b", "c"].get(i % 3).copied().unwrap_or_default();
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(zone);
            node
        });
        api.create_all(made.collect(), AT_A_TIME).await?;
        if sharing.is_some() {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": RESERVATIONS}});
            let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": "divvy-reservation"}, "value": 1_000_000});
            api.create_all(vec![namespace, class], 1).await?;
        }
        let (divvy, is_shared) = (divvy.to_owned(), sharing.is_some());
        let stage = Self { plane, api, nodes, divvy, is_shared, started: 0.into() };
        stage.until_ready().await?;
        Ok(stage)
    }

    /// Waits until kwok has said that all nodes are well, so that this is not measured.
    async fn until_ready(&self) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            let list = self.api.get("/api/v1/nodes").await?;
            let nodes = list["items"].as_array().context("no list of nodes")?;
            let is_ready = |node: &&serde_json::Value| !node["status"]["conditions"].is_null();
            if nodes.iter().filter(is_ready).count() == self.nodes {
                return Ok(());
            }
            ensure!(start.elapsed() < PATIENCE, "kwok does not make the nodes ready");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Starts `divvy scheduler`, and does not wait for it.
    pub fn start_divvy(&self) -> anyhow::Result<Scheduler> {
        let [port] = free_ports()?;
        let mut command = Command::new(&self.divvy);
        command.arg("scheduler").arg("--kubeconfig").arg(self.plane.kubeconfig());
        command.args(["--leader-elect=false", "--takeover-wait=0"]);
        command.arg(format!("--listen=127.0.0.1:{port}"));
        if self.is_shared {
            command.args(["--gpu-sharing", "--reservation-image", IMAGE]);
            command.args(["--reservation-runtime-class", ""]);
        }
        self.started.set(self.started.get() + 1);
        let name = format!("divvy-{}", self.started.get());
        Ok(Scheduler { process: Process::start(command, &name, self.plane.folder())?, port })
    }

    /// The process id of a server.
    pub fn id(&self, program: Program) -> u32 {
        self.plane.id(program).unwrap_or_default()
    }
}

/// A running divvy.
pub struct Scheduler {
    pub process: Process,
    port: u16,
}

impl Scheduler {
    /// Waits until it has seen the cluster.
    pub async fn ready(&self) -> anyhow::Result<()> {
        let start = Instant::now();
        while !get(self.port, "/readyz") {
            ensure!(start.elapsed() < PATIENCE, "divvy is not ready");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

mod http_get {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// Whether a plain page on loopback answers 200.
    pub fn get(port: u16, path: &str) -> bool {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().is_ok_and(|answer| answer.lines().next().is_some_and(|line| line.contains(" 200 ")))
    }
}
