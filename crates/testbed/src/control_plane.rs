//! etcd and kube-apiserver, and what else is asked for, on free loopback ports.

use crate::key::signing_key;
use crate::process::Process;
use crate::programs::{Program, Programs};
use crate::{Unavailable, io};
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A running control plane. Dropping it kills it; its files and logs stay where they are.
#[derive(Debug)]
pub struct ControlPlane {
    programs: Programs,
    folder: PathBuf,
    url: String,
    token: String,
    // Clients before servers: the order in which they are dropped.
    processes: Vec<Process>,
}

/// An API server on busy cores needs a while.
const PATIENCE: Duration = Duration::from_secs(120);

impl ControlPlane {
    /// Starts etcd and the API server with files and logs in `folder`, and waits until the API
    /// server is ready.
    pub fn start(programs: &Programs, folder: &Path) -> Result<Self, Unavailable> {
        std::fs::create_dir_all(folder).map_err(io("cannot make a folder for the cluster"))?;
        let mut random = [0; 64];
        let mut source = std::fs::File::open("/dev/urandom").map_err(io("no /dev/urandom"))?;
        source.read_exact(&mut random).map_err(io("no /dev/urandom"))?;
        let (secret, seed) = random.split_at(32);
        let token: String = secret.iter().map(|b| format!("{b:02x}")).collect();
        let [etcd, peers, api] = free_ports()?;
        let url = format!("https://127.0.0.1:{api}");
        let mut plane = Self {
            programs: programs.clone(),
            folder: folder.to_owned(),
            url,
            token,
            processes: Vec::new(),
        };
        plane.write("tokens.csv", &format!("{},admin,admin,system:masters\n", plane.token))?;
        plane.write("signing.key", &signing_key(seed))?;
        plane.write("kubeconfig", &plane.kubeconfig_text())?;
        plane.start_etcd(etcd, peers)?;
        plane.start_api_server(etcd, api)?;
        Ok(plane)
    }

    /// Where the API server listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A token of `system:masters`.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A kubeconfig for it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// kubectl with these arguments against this cluster.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(self.programs.path(Program::Kubectl));
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Unavailable> {
        let path = self.folder.join(name);
        std::fs::write(&path, text).map_err(io(format!("cannot write {}", path.display())))
    }

    fn start_etcd(&mut self, client: u16, peer: u16) -> Result<(), Unavailable> {
        let (client, peer) =
            (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut command = Command::new(self.programs.path(Program::Etcd));
        command
            .arg("--data-dir")
            .arg(self.folder.join("etcd"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            // The data is gone with the test, so nothing has to survive a power cut.
            .args(["--unsafe-no-fsync", "--log-level=warn"]);
        self.processes.push(Process::start(command, "etcd", &self.folder)?);
        Ok(())
    }

    fn start_api_server(&mut self, etcd: u16, port: u16) -> Result<(), Unavailable> {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let mut command = Command::new(self.programs.path(Program::ApiServer));
        command
            .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
            .arg(format!("--secure-port={port}"))
            .arg(format!("--cert-dir={}", file("certs")))
            .arg(format!("--token-auth-file={}", file("tokens.csv")))
            .arg(format!("--service-account-key-file={}", file("signing.key")))
            .arg(format!("--service-account-signing-key-file={}", file("signing.key")))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .args(["--bind-address=127.0.0.1", "--endpoint-reconciler-type=none"])
            .args(["--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=Node,RBAC"])
            // No controller-manager makes the default ServiceAccounts.
            .args(["--disable-admission-plugins=ServiceAccount", "--allow-privileged=true"])
            .args(["--enable-priority-and-fairness=false", "--max-requests-inflight=0"])
            .args(["--max-mutating-requests-inflight=0", "--profiling=false"]);
        self.processes.insert(0, Process::start(command, "kube-apiserver", &self.folder)?);
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<(), Unavailable> {
        let start = Instant::now();
        loop {
            let output = self.kubectl().args(["get", "--raw", "/readyz"]).output();
            let output = output.map_err(io("cannot run kubectl"))?;
            if output.status.success() {
                return Ok(());
            }
            let ended = self.processes.iter_mut().find_map(|p| {
                let status = p.exited()?;
                Some((p.name().to_owned(), format!("it ended with {status}"), p.log().to_owned()))
            });
            if ended.is_none() && start.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
            let (program, why, log) = ended.unwrap_or_else(|| {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                ("kube-apiserver".to_owned(), why, self.folder.join("kube-apiserver.log"))
            });
            let (seconds, log) = (start.elapsed().as_secs(), log.display().to_string());
            return Err(Unavailable::NotReady { program, seconds, why, log });
        }
    }

    fn kubeconfig_text(&self) -> String {
        let Self { url, token, .. } = self;
        // JSON is YAML, and serde_json quotes whatever has to be quoted.
        serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "testbed", "cluster": {
                // Its certificate is made at start and only ever seen on loopback.
                "server": url, "insecure-skip-tls-verify": true,
            }}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "admin"}}],
            "current-context": "testbed",
        })
        .to_string()
    }
}

/// Ports that nobody listens on. All are held until all are found, so they differ.
fn free_ports<const N: usize>() -> Result<[u16; N], Unavailable> {
    let mut ports = [0; N];
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(io("no free port"))?;
        *port = listener.local_addr().map_err(io("no free port"))?.port();
        held.push(listener);
    }
    Ok(ports)
}
