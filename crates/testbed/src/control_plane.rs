//! etcd and kube-apiserver, and what else is asked for, on free loopback ports.

use crate::key::{kubelet_client, token_signer, webhook_client};
use crate::ports::free_ports;
use crate::process::Process;
use crate::programs::{Program, Programs};
use crate::{Unavailable, io};
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

mod parts;

pub(crate) use parts::healthy;
pub use parts::{Kwok, KwokPods};

/// A running control plane. Dropping it kills it; its files and logs stay where they are.
#[derive(Debug)]
pub struct ControlPlane {
    programs: Programs,
    folder: PathBuf,
    url: String,
    token: String,
    controllers: bool,
    // Clients before servers: the order in which they are dropped.
    processes: Vec<Process>,
}

/// The name of the one real node that may join.
pub(crate) const NODE: &str = "gpu-node";

/// An API server on busy cores needs a while.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

impl ControlPlane {
    /// Starts etcd and the API server with files and logs in `folder`, and waits until the API
    /// server is ready.
    pub fn start(programs: &Programs, folder: &Path) -> Result<Self, Unavailable> {
        Self::start_servers(programs, folder, false)
    }

    /// The same with the controller-manager, and with the admission that needs it: default
    /// ServiceAccounts in pods, and taints on nodes until they are ready.
    pub fn start_with_controllers(programs: &Programs, folder: &Path) -> Result<Self, Unavailable> {
        let mut plane = Self::start_servers(programs, folder, true)?;
        plane.start_controllers()?;
        Ok(plane)
    }

    fn start_servers(
        programs: &Programs,
        folder: &Path,
        controllers: bool,
    ) -> Result<Self, Unavailable> {
        std::fs::create_dir_all(folder).map_err(io("cannot make a folder for the cluster"))?;
        let (token, node_token) = (hex(&random()?), hex(&random()?));
        let [etcd, peers, api] = free_ports()?;
        let url = format!("https://127.0.0.1:{api}");
        let mut plane = Self {
            programs: programs.clone(),
            folder: folder.to_owned(),
            url,
            token,
            controllers,
            processes: Vec::new(),
        };
        let tokens = format!(
            "{},admin,admin,system:masters\n{node_token},system:node:{NODE},node,system:nodes\n",
            plane.token
        );
        plane.write("tokens.csv", &tokens)?;
        plane.write("kubeconfig", &kubeconfig_text(&plane.url, &plane.token))?;
        plane.write("kubeconfig-node", &kubeconfig_text(&plane.url, &node_token))?;
        for (name, identity) in [
            ("signing", token_signer()?),
            ("kubelet-client", kubelet_client()?),
            ("webhook-client", webhook_client()?),
        ] {
            plane.write(&format!("{name}.pem"), &identity.public)?;
            plane.write(&format!("{name}.key"), &identity.key)?;
        }
        plane.write_admission()?;
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

    /// Where its files and logs are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A kubeconfig for it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// A kubeconfig for the kubelet of the node [`NODE`], which may do what such a kubelet may.
    pub(crate) fn node_kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig-node")
    }

    /// The certificate that the API server shows to kubelets.
    pub(crate) fn kubelet_client(&self) -> PathBuf {
        self.folder.join("kubelet-client.pem")
    }

    /// The certificate that the API server shows to webhooks; it is its own CA.
    pub fn webhook_client(&self) -> PathBuf {
        self.folder.join("webhook-client.pem")
    }

    /// A kubeconfig with the same token for another way to it, such as a proxy.
    pub fn kubeconfig_through(&self, name: &str, url: &str) -> Result<PathBuf, Unavailable> {
        self.write(name, &kubeconfig_text(url, &self.token))?;
        Ok(self.folder.join(name))
    }

    /// A kubeconfig for a ServiceAccount.
    pub fn kubeconfig_as(&self, namespace: &str, account: &str) -> Result<PathBuf, Unavailable> {
        let failed = |why: String| {
            io(format!("no token for {namespace}/{account}"))(std::io::Error::other(why))
        };
        let output =
            self.kubectl().args(["create", "token", account, "--namespace", namespace]).output();
        let output = output.map_err(|e| failed(e.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let token = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let name = format!("kubeconfig-{namespace}-{account}");
        self.write(&name, &kubeconfig_text(&self.url, &token))?;
        Ok(self.folder.join(name))
    }

    /// The process id of one of its programs.
    pub fn id(&self, program: Program) -> Option<u32> {
        self.processes.iter().find(|p| p.name() == program.name()).map(Process::id)
    }

    /// Names and process ids of its programs, clients before servers.
    pub fn ids(&self) -> Vec<(String, u32)> {
        self.processes.iter().map(|p| (p.name().to_owned(), p.id())).collect()
    }

    /// Lets all of it live on without an owner.
    pub fn detach(self) {
        self.processes.into_iter().for_each(Process::detach);
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

    /// What the API server is told to show to webhooks, as docs/operations.md says it.
    fn write_admission(&self) -> Result<(), Unavailable> {
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config",
            "users": [{"name": "*", "user": {
                "client-certificate": self.webhook_client(),
                "client-key": self.folder.join("webhook-client.key"),
            }}],
        });
        self.write("webhook-kubeconfig", &kubeconfig.to_string())?;
        let plugin = |name: &str| {
            serde_json::json!({"name": name, "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
                "kubeConfigFile": self.folder.join("webhook-kubeconfig"),
            }})
        };
        let plugins = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"].map(plugin);
        let admission = serde_json::json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
            "plugins": plugins,
        });
        self.write("admission.json", &admission.to_string())
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
            .arg(format!("--service-account-key-file={}", file("signing.pem")))
            .arg(format!("--service-account-signing-key-file={}", file("signing.key")))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .args(["--bind-address=127.0.0.1", "--endpoint-reconciler-type=none"])
            .args(["--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=Node,RBAC"])
            .arg("--enable-admission-plugins=NodeRestriction")
            .arg(format!("--admission-control-config-file={}", file("admission.json")))
            .arg(format!("--kubelet-client-certificate={}", file("kubelet-client.pem")))
            .arg(format!("--kubelet-client-key={}", file("kubelet-client.key")))
            // The names of nodes are known nowhere.
            .arg("--kubelet-preferred-address-types=InternalIP")
            .args([
                "--allow-privileged=true",
                "--enable-priority-and-fairness=false",
                "--max-requests-inflight=0",
            ])
            .args(["--max-mutating-requests-inflight=0", "--profiling=false"]);
        if !self.controllers {
            // Nobody makes the default ServiceAccounts, nor takes the taint off a ready node.
            command.arg("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition");
        }
        self.processes.insert(0, Process::start(command, "kube-apiserver", &self.folder)?);
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<(), Unavailable> {
        self.wait_for("kube-apiserver", |plane| {
            // kubectl costs more than the server has to spare meanwhile.
            let address = plane.url.trim_start_matches("https://");
            TcpStream::connect(address).map_err(|e| format!("{address}: {e}"))?;
            let output = plane.kubectl().args(["get", "--raw", "/readyz"]).output();
            let output = output.map_err(|e| format!("cannot run kubectl: {e}"))?;
            let text = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
            output.status.success().then_some(()).ok_or_else(text)
        })
    }

    /// Tries until it is true, all programs run and the patience lasts.
    fn wait_for(
        &mut self,
        program: &str,
        is_ready: impl Fn(&Self) -> Result<(), String>,
    ) -> Result<(), Unavailable> {
        let start = Instant::now();
        loop {
            let Err(why) = is_ready(self) else { return Ok(()) };
            let ended = self.processes.iter_mut().find_map(|p| {
                let status = p.exited()?;
                Some((p.name().to_owned(), format!("it ended with {status}")))
            });
            if ended.is_none() && start.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            let (program, why) = ended.unwrap_or_else(|| (program.to_owned(), why));
            let log = self.folder.join(format!("{program}.log")).display().to_string();
            let seconds = start.elapsed().as_secs();
            return Err(Unavailable::NotReady { program, seconds, why, log });
        }
    }
}

fn kubeconfig_text(url: &str, token: &str) -> String {
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

fn random() -> Result<[u8; 32], Unavailable> {
    let mut bytes = [0; 32];
    let mut source = std::fs::File::open("/dev/urandom").map_err(io("no /dev/urandom"))?;
    source.read_exact(&mut bytes).map_err(io("no /dev/urandom"))?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
