//! What can be started beside the API server: controllers, kwok, and the scheduler to compare with.

use super::{ControlPlane, NODE};
use crate::Unavailable;
use crate::ports::free_ports;
use crate::process::Process;
use crate::programs::Program;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

const NODE_STAGES: &str = include_str!("../../stages/node.yaml");
const POD_STAGES: &str = include_str!("../../stages/pod.yaml");
const RESERVATION_STAGES: &str = include_str!("../../stages/reservation.yaml");

/// What kwok does with nodes that only exist in the API.
#[derive(Clone, Copy, Debug)]
pub struct Kwok {
    /// What becomes of bound pods.
    pub pods: KwokPods,
    /// How often a node says that it is well. Kubelets do it every five minutes.
    pub heartbeat: Duration,
}

/// What becomes of bound pods.
#[derive(Clone, Copy, Debug)]
pub enum KwokPods {
    /// They stay as they are.
    Stay,
    /// They run, and go when they are deleted.
    Run,
    /// Reservation pods run so long after they were made, each with a card of its own, as a kubelet
    /// would tell it; others stay as they are.
    Reservations(Duration),
}

impl ControlPlane {
    pub(super) fn start_controllers(&mut self) -> Result<(), Unavailable> {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let mut command = self.controllers()?;
        command
            .arg(format!("--service-account-private-key-file={}", file("signing.key")))
            .arg(format!("--root-ca-file={}", file("certs/apiserver.crt")));
        self.add(Program::ControllerManager, command)?;
        // Until then no pod can be made.
        self.wait_for(Program::ControllerManager.name(), |plane| {
            let output = plane.kubectl().args(["get", "serviceaccount", "default"]).output();
            let is_there = output.is_ok_and(|output| output.status.success());
            is_there.then_some(()).ok_or_else(|| "no default ServiceAccount yet".to_owned())
        })
    }

    /// Starts the one controller that binds claims and volumes; it ends when it is dropped.
    pub fn start_volume_controller(&self) -> Result<Process, Unavailable> {
        let mut command = self.controllers()?;
        command.arg("--controllers=persistentvolume-binder-controller");
        Process::start(command, "volume-controller", &self.folder)
    }

    fn controllers(&self) -> Result<Command, Unavailable> {
        let [port] = free_ports()?;
        let mut command = Command::new(self.programs.path(Program::ControllerManager));
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .arg("--cert-dir")
            .arg(self.folder.join("controller-certs"))
            .arg(format!("--secure-port={port}"))
            .args(["--bind-address=127.0.0.1", "--leader-elect=false"])
            .args(["--kube-api-qps=1000", "--kube-api-burst=2000", "--profiling=false"]);
        Ok(command)
    }

    /// Starts kwok, which keeps all nodes ready but a real one.
    pub fn with_kwok(mut self, kwok: Kwok) -> Result<Self, Unavailable> {
        // From soon to twice as long, so that the nodes of a test do not all beat at once, nor all
        // after it is over.
        let milliseconds = (kwok.heartbeat.as_millis() / 30).to_string();
        let jitter = (kwok.heartbeat.as_millis() * 2).to_string();
        let mut stages = NODE_STAGES.replace("HEARTBEAT", &milliseconds).replace("JITTER", &jitter);
        match kwok.pods {
            KwokPods::Stay => {}
            KwokPods::Run => stages += POD_STAGES,
            KwokPods::Reservations(after) => {
                stages += &RESERVATION_STAGES.replace("AFTER", &after.as_millis().to_string());
            }
        }
        self.write("stages.yaml", &stages)?;
        let [port] = free_ports()?;
        let mut command = Command::new(self.programs.path(Program::Kwok));
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .arg("--config")
            .arg(self.folder.join("stages.yaml"))
            .arg(format!("--manage-nodes-with-label-selector=kubernetes.io/hostname!={NODE}"))
            .arg("--node-lease-duration-seconds=0")
            .arg(format!("--server-address=127.0.0.1:{port}"));
        self.add(Program::Kwok, command)?;
        self.wait_for(Program::Kwok.name(), |_| healthy(port).map_err(|e| e.to_string()))?;
        Ok(self)
    }

    /// Starts kube-scheduler, with the limits of its client raised so far that they do not show.
    pub fn start_kube_scheduler(&mut self) -> Result<(), Unavailable> {
        let [port] = free_ports()?;
        let config = serde_json::json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": false},
            "clientConnection": {
                "kubeconfig": self.kubeconfig(), "qps": 100_000, "burst": 100_000,
                // What its own default is: protobuf, not JSON.
                "contentType": "application/vnd.kubernetes.protobuf",
            },
        });
        self.write("kube-scheduler.yaml", &config.to_string())?;
        let mut command = Command::new(self.programs.path(Program::Scheduler));
        command
            .arg(format!("--config={}", self.folder.join("kube-scheduler.yaml").display()))
            .arg(format!("--cert-dir={}", self.folder.join("scheduler-certs").display()))
            .arg(format!("--secure-port={port}"))
            .args(["--bind-address=127.0.0.1", "--profiling=false"]);
        self.add(Program::Scheduler, command)?;
        self.wait_for(Program::Scheduler.name(), |_| {
            TcpStream::connect(("127.0.0.1", port)).map(|_| ()).map_err(|e| e.to_string())
        })
    }

    /// Ends one of the programs.
    pub fn stop(&mut self, program: Program) {
        self.processes.retain(|process| process.name() != program.name());
    }

    /// Ends all of them.
    pub fn stop_all(&mut self) {
        self.processes.clear();
    }

    fn add(&mut self, program: Program, command: Command) -> Result<(), Unavailable> {
        self.processes.insert(0, Process::start(command, program.name(), &self.folder)?);
        Ok(())
    }
}

/// Whether the plain page of a program on this port says so.
pub(crate) fn healthy(port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let is_ok = answer.lines().next().is_some_and(|line| line.contains(" 200 "));
    is_ok.then_some(()).ok_or_else(|| std::io::Error::other(answer))
}
