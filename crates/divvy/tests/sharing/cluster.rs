//! One cluster with a real node, emptied for one test at a time.

use crate::{pages, program};
use divvy_testbed::api::{Api, ApiError, JSON};
use divvy_testbed::image::Image;
use divvy_testbed::manifests::webhooks_at;
use divvy_testbed::node::{BUSYBOX, Card, Container, Node, Options};
use divvy_testbed::proxy::Proxy;
use divvy_testbed::{ControlPlane, Process, Program, Programs, Unavailable, free_ports};
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};

/// Long enough for a busy machine; a test that waits so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// What `deploy/` names.
const IMAGE: &str = concat!("docker.io/library/divvy:", env!("CARGO_PKG_VERSION"));
const RESERVATIONS: &str = "kai-resource-reservation";

struct Parts {
    // Clients before servers: the order in which they are dropped.
    admission: Option<Process>,
    address: SocketAddr,
    /// Whether a test has left something wrong with the node.
    hurt: bool,
    /// What a test has divided, if not by shares.
    divided: Option<Vec<Card>>,
    node: Node,
    plane: ControlPlane,
}

enum Found {
    NotYet,
    Nothing,
    Cluster(Box<Parts>),
}

static CLUSTER: Mutex<Found> = Mutex::const_new(Found::NotYet);

/// How a scheduler is started.
pub struct Divvy<'a> {
    /// What its reservation pods run.
    pub image: &'a str,
    /// Seconds.
    pub quarantine: u64,
    /// Seconds that it waits for what an earlier one has sent.
    pub wait: u64,
    /// What its requests go through.
    pub through: Option<&'a Proxy>,
    /// What it is called, if it is one of several of which one leads.
    pub replica: Option<&'a str>,
    /// The ConfigMap of the device plugin.
    pub plugin_config: Option<&'a str>,
}

impl Divvy<'_> {
    pub const USUAL: Self = Self {
        image: IMAGE,
        quarantine: 1,
        wait: 0,
        through: None,
        replica: None,
        plugin_config: None,
    };
}

/// A turn on the cluster.
pub struct Cluster {
    pub api: Api,
    found: MutexGuard<'static, Found>,
}

impl Cluster {
    /// Waits for its turn and empties the cluster; `None`, and a line that says why, without one.
    pub async fn enter() -> Option<Self> {
        let mut found = CLUSTER.lock().await;
        let is_new = matches!(*found, Found::NotYet);
        if is_new {
            *found = match start() {
                Ok(parts) => Found::Cluster(Box::new(parts)),
                Err(
                    why @ (Unavailable::NoNode(_)
                    | Unavailable::NoGo(_)
                    | Unavailable::Build { .. }),
                ) => {
                    // Not by println, which the test runner hides.
                    let _ = writeln!(std::io::stdout(), "skipped: {why}");
                    Found::Nothing
                }
                Err(why) => panic!("{why}"),
            };
        }
        let Found::Cluster(parts) = &mut *found else { return None };
        if std::mem::take(&mut parts.hurt) {
            parts.node.change_default_runtime("runc").unwrap();
            parts.node.change_kubelet(&json!({"maxPods": 110})).unwrap();
            parts.node.heal().unwrap();
            let optional = manifest("deploy/optional-default-runtime.yaml");
            kubectl(&parts.plane, &["delete", "--ignore-not-found", "-f", "-"], &optional);
            parts.plane.stop(Program::Scheduler);
            apply_all(&parts.plane, parts.address);
            undeploy(&parts.plane);
        }
        if parts.divided.take().is_some() {
            parts.node.reconfigure(Options::default()).unwrap();
        }
        let api = Api::connect(&parts.plane).await.unwrap();
        if is_new {
            api.policies_act().await.unwrap();
        }
        let mut cluster = Self { api, found };
        cluster.start_admission().await;
        cluster.empty().await;
        Some(cluster)
    }

    fn parts(&self) -> &Parts {
        let Found::Cluster(parts) = &*self.found else { panic!("no cluster") };
        parts
    }

    pub fn node(&mut self) -> &mut Node {
        let Found::Cluster(parts) = &mut *self.found else { panic!("no cluster") };
        &mut parts.node
    }

    /// Gives the node other cards, divided or not, and another configuration of the device plugin;
    /// the next test has it as it was.
    pub fn reconfigure(&mut self, cards: Vec<Card>, plugin_config: Value) {
        let Found::Cluster(parts) = &mut *self.found else { panic!("no cluster") };
        parts.divided = Some(cards.clone());
        parts.node.reconfigure(Options { cards, plugin_config }).unwrap();
    }

    /// The cards of the node, as they are divided.
    pub fn cards(&self) -> Vec<Card> {
        self.parts().divided.clone().unwrap_or_else(|| Options::default().cards)
    }

    /// Says whether something is wrong with the node, which the next test would suffer from.
    pub fn is_hurt(&mut self, hurt: bool) {
        let Found::Cluster(parts) = &mut *self.found else { panic!("no cluster") };
        parts.hurt = hurt;
    }

    /// Starts a scheduler that hands cards over; it ends when it is dropped.
    pub fn start_divvy(&self) -> Process {
        self.start_divvy_with(&Divvy::USUAL)
    }

    pub fn start_divvy_with(&self, divvy: &Divvy<'_>) -> Process {
        let (plane, name) = (&self.parts().plane, divvy.replica.unwrap_or("divvy"));
        let kubeconfig = match divvy.through {
            Some(proxy) => {
                plane.kubeconfig_through(&format!("kubeconfig-{name}"), proxy.url()).unwrap()
            }
            None => self.kubeconfig_of_divvy(),
        };
        let mut command = program::divvy();
        command.arg("scheduler").arg("--kubeconfig").arg(kubeconfig);
        if divvy.replica.is_some() {
            command.args(["--lease-namespace=divvy-system", "--lease-duration=8"]);
        } else {
            command.arg("--leader-elect=false");
            command.arg(format!("--takeover-wait={}", divvy.wait));
        }
        command.args(["--listen=127.0.0.1:0", "--gpu-sharing"]);
        command.arg("--reservation-image").arg(divvy.image);
        command.arg(format!("--quarantine={}", divvy.quarantine));
        if let Some(map) = divvy.plugin_config {
            command.arg(format!("--device-plugin-config-map={map}"));
        }
        Process::start(command, name, plane.folder()).unwrap()
    }

    /// A kubeconfig for a ServiceAccount.
    pub fn kubeconfig_as(&self, namespace: &str, account: &str) -> PathBuf {
        self.parts().plane.kubeconfig_as(namespace, account).unwrap()
    }

    fn kubeconfig_of_divvy(&self) -> PathBuf {
        self.kubeconfig_as("divvy-system", "divvy-scheduler")
    }

    /// A proxy through which a scheduler reaches the API as itself.
    pub async fn start_proxy(&self) -> Proxy {
        let api = Api::from_kubeconfig(&self.kubeconfig_of_divvy()).await.unwrap();
        Proxy::start(&api).await.unwrap()
    }

    /// Starts the webhooks, unless they run, and waits until pods go through them.
    pub async fn start_admission(&mut self) {
        let Found::Cluster(parts) = &mut *self.found else { panic!("no cluster") };
        if parts.admission.is_none() {
            let kubeconfig = parts.plane.kubeconfig_as("divvy-system", "divvy-admission").unwrap();
            let mut command = program::divvy();
            command.arg("admission").arg("--kubeconfig").arg(kubeconfig);
            command.args(["--gpu-sharing", "--tls-names=127.0.0.1"]);
            command.arg("--listen").arg(parts.address.to_string());
            let process = Process::start(command, "admission", parts.plane.folder()).unwrap();
            parts.admission = Some(process);
        }
        self.until_guarded().await;
    }

    /// Waits until pods go through the webhooks.
    pub async fn until_guarded(&self) {
        self.until("pods go through the webhooks", async || {
            let made = self.try_half().await;
            made.is_ok_and(|pod| !pod["spec"]["containers"][0]["env"].is_null())
        })
        .await;
    }

    /// What would be stored of a pod of half a card.
    pub async fn try_half(&self) -> Result<Value, ApiError> {
        let path = "/api/v1/namespaces/default/pods?dryRun=All";
        self.api.send(Method::POST, path, JSON, Some(&half("default", "probe"))).await
    }

    pub fn plane(&mut self) -> &mut ControlPlane {
        let Found::Cluster(parts) = &mut *self.found else { panic!("no cluster") };
        &mut parts.plane
    }

    /// Runs kubectl as an administrator, with this on its standard input.
    pub fn kubectl(&self, arguments: &[&str], input: &str) {
        kubectl(&self.parts().plane, arguments, input);
    }

    /// Takes away all of divvy that is there for all tests.
    pub fn without_divvy(&mut self) {
        self.stop_admission();
        self.is_hurt(true);
        for file in ["webhooks"].iter().chain(FILES.iter().rev()) {
            let text = manifest(&format!("deploy/{file}.yaml"));
            self.kubectl(&["delete", "--ignore-not-found", "-f", "-"], &text);
        }
    }

    /// Puts all of divvy back for the next test.
    pub async fn restore(&mut self) {
        apply_all(&self.parts().plane, self.parts().address);
        undeploy(&self.parts().plane);
        self.is_hurt(false);
        self.api.policies_act().await.unwrap();
    }

    /// Ends the webhooks.
    pub fn stop_admission(&mut self) {
        let Found::Cluster(parts) = &mut *self.found else { panic!("no cluster") };
        parts.admission = None;
    }

    /// Applies a file of the repository, as a user does.
    pub fn apply(&self, file: &str) {
        self.kubectl(&["apply", "-f", "-"], &manifest(file));
    }

    async fn empty(&self) {
        let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
        // There after the first time.
        let _ = self.api.create(&team).await;
        let mut left = Vec::new();
        for namespace in ["default", "team", RESERVATIONS] {
            let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
            left.extend(self.pods(namespace).await.iter().map(|pod| (namespace, name(pod))));
        }
        self.delete_all(&left).await;
        // Pods of a new namespace need its ServiceAccount.
        let path = "/api/v1/namespaces/team/serviceaccounts/default";
        self.until("the ServiceAccount is there", async || self.api.get(path).await.is_ok()).await;
    }

    /// Ends what runs of divvy in the cluster itself, and lets the webhooks be ours again.
    pub async fn undeploy(&mut self) {
        let parts = self.parts();
        undeploy(&parts.plane);
        let webhooks = webhooks_at(parts.address, &manifest("deploy/webhooks.yaml"));
        self.kubectl(&["apply", "-f", "-"], &webhooks);
        self.is_hurt(false);
        self.until("nothing of divvy runs", async || self.pods("divvy-system").await.is_empty())
            .await;
    }

    pub async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let start = Instant::now();
        while !holds().await {
            let log = self.parts().plane.folder().join("divvy.log");
            let log = std::fs::read_to_string(log).unwrap_or_default();
            assert!(start.elapsed() < PATIENCE, "not in time: {what}\n{log}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn create(&self, pod: &Value) {
        self.api.create(pod).await.unwrap();
    }

    /// What a command of divvy prints about this cluster.
    pub fn run(&self, command: &[&str]) -> String {
        let mut divvy = program::divvy();
        divvy.args(command).arg("--kubeconfig").arg(self.parts().plane.kubeconfig());
        let output = divvy.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A folder for files of a test.
    pub fn folder(&self) -> &Path {
        self.parts().plane.folder()
    }

    /// Binds a pod, as a scheduler that knows nothing of shares.
    pub async fn bind(&self, namespace: &str, pod: &str) {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": Node::NAME},
        });
        let path = format!("{}/binding", path(namespace, pod));
        self.api.send(Method::POST, &path, JSON, Some(&binding)).await.unwrap();
    }

    pub async fn get(&self, namespace: &str, pod: &str) -> Value {
        self.api.get(&path(namespace, pod)).await.unwrap()
    }

    pub async fn pods(&self, namespace: &str) -> Vec<Value> {
        let list = self.api.get(&format!("/api/v1/namespaces/{namespace}/pods")).await.unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// Waits until the node says that it has so many of something for pods; gives the node.
    pub async fn until_node_has(&self, count: &str, resource: &str) -> Value {
        let path = format!("/api/v1/nodes/{}", Node::NAME);
        self.until(&format!("{count} {resource} of the node"), async || {
            self.api.get(&path).await.unwrap()["status"]["allocatable"][resource] == count
        })
        .await;
        self.api.get(&path).await.unwrap()
    }

    /// Waits until a scheduler knows that the node has so many cards for pods.
    pub async fn until_told(&self, divvy: &Process, cards: &str) {
        let node = self.until_node_has(cards, "nvidia.com/gpu").await;
        pages::has_seen(divvy, &node, PATIENCE).await;
    }

    pub async fn reservations(&self) -> Vec<Value> {
        self.pods(RESERVATIONS).await
    }

    pub async fn until_reservations(&self, count: usize) {
        let what = format!("{count} reservations");
        self.until(&what, async || self.reservations().await.len() == count).await;
    }

    /// Deletes pods, and waits until they are gone.
    pub async fn delete_all(&self, pods: &[(&str, String)]) {
        for (namespace, pod) in pods {
            let soon = json!({"gracePeriodSeconds": 1});
            let _ = self.api.send(Method::DELETE, &path(namespace, pod), JSON, Some(&soon)).await;
        }
        for (namespace, pod) in pods {
            self.delete(namespace, pod).await;
        }
    }

    /// Deletes a pod as a user does, and waits until it is gone.
    pub async fn delete(&self, namespace: &str, pod: &str) {
        let path = path(namespace, pod);
        let soon = json!({"gracePeriodSeconds": 1});
        let _ = self.api.send(Method::DELETE, &path, JSON, Some(&soon)).await;
        self.until(&format!("{pod} is gone"), async || self.api.get(&path).await.is_err()).await;
    }

    pub async fn until_running(&self, namespace: &str, pod: &str) -> Value {
        self.until(&format!("{namespace}/{pod} runs"), async || {
            let pod = self.get(namespace, pod).await;
            pod["status"]["containerStatuses"][0]["ready"] == true
        })
        .await;
        self.get(namespace, pod).await
    }

    /// The cards in the pod's container, once it runs.
    pub async fn cards_of(&self, namespace: &str, pod: &str) -> Vec<String> {
        let pod = self.until_running(namespace, pod).await;
        self.look(&pod, "main")
    }

    /// The one card in the pod's container, once it runs.
    pub async fn card_of(&self, namespace: &str, pod: &str) -> String {
        self.only_card(namespace, pod, "main").await
    }

    /// The one card in this container of a pod, once it runs.
    pub async fn only_card(&self, namespace: &str, pod: &str, container: &str) -> String {
        let object = self.until_running(namespace, pod).await;
        let cards = self.look(&object, container);
        let [card] = cards.as_slice() else { panic!("{namespace}/{pod} has {cards:?}") };
        card.clone()
    }

    /// The cards in a container of a pod that runs.
    pub fn look(&self, pod: &Value, container: &str) -> Vec<String> {
        self.look_into(pod, container).unwrap().cards
    }

    /// What is in a container of a pod, if it runs.
    pub fn look_into(&self, pod: &Value, container: &str) -> Result<Container, Unavailable> {
        self.parts().node.look_into(pod, container)
    }

    /// Whether the container of a pod runs, which the API may have forgotten.
    pub fn runs(&self, pod: &Value) -> bool {
        self.parts().node.look_into(pod, "main").is_ok()
    }

    pub fn environment(&self, namespace: &str, pod: &str) -> BTreeMap<String, String> {
        self.parts().node.look(namespace, pod, "main").unwrap().environment
    }

    /// The UUID of a card by its name in `/dev`.
    pub fn uuid(&self, card: &str) -> String {
        let index: usize = card.trim_start_matches("nvidia").parse().unwrap();
        Options::default().cards[index].uuid.clone()
    }

    /// Waits until the condition of a pod says something that contains this.
    pub async fn said(&self, namespace: &str, pod: &str, part: &str) {
        let start = Instant::now();
        loop {
            let status = &self.get(namespace, pod).await["status"];
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            if conditions.iter().any(|c| c["message"].as_str().unwrap_or_default().contains(part)) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{pod} does not say {part:?}: {status:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn start() -> Result<Parts, Unavailable> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sharing");
    let _ = std::fs::remove_dir_all(&folder);
    let programs = Programs::build(&mut |_| {})?;
    let plane = ControlPlane::start_with_controllers(&programs, &folder)?;
    let node = Node::start(
        &plane,
        Options { cards: (0..8).map(Card::a100).collect(), ..Options::default() },
    )?;
    let programs = [env!("CARGO_BIN_EXE_divvy"), env!("CARGO_BIN_EXE_divvy-isolation-check")];
    node.import(&Image::programs(IMAGE, &programs.map(Path::new), &[]))?;
    node.add_stand_in("docker.io/nvidia/cuda:12.4.1-base-ubuntu22.04")?;
    let [port] = free_ports()?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    apply_all(&plane, address);
    Ok(Parts { admission: None, address, hurt: false, divided: None, node, plane })
}

/// What of `deploy/` is there for all tests.
const FILES: [&str; 8] = [
    "namespaces",
    "policy-hand-off",
    "policy-reservations",
    "policy-nodes",
    "policy-deletions",
    "policy-visible-devices",
    "scheduler",
    "admission",
];

/// All of it, with nothing that runs yet and the webhooks at an address.
fn apply_all(plane: &ControlPlane, address: SocketAddr) {
    for file in FILES {
        kubectl(plane, &["apply", "-f", "-"], &manifest(&format!("deploy/{file}.yaml")));
    }
    let webhooks = webhooks_at(address, &manifest("deploy/webhooks.yaml"));
    kubectl(plane, &["apply", "-f", "-"], &webhooks);
}

fn undeploy(plane: &ControlPlane) {
    let mut kubectl = plane.kubectl();
    kubectl.args(["scale", "deployment", "--all", "--replicas=0", "--namespace=divvy-system"]);
    assert!(kubectl.stdout(Stdio::null()).status().unwrap().success());
}

fn manifest(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(file)).unwrap()
}

fn kubectl(plane: &ControlPlane, arguments: &[&str], input: &str) {
    let mut kubectl = plane.kubectl();
    kubectl.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = kubectl.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{arguments:?} {input}");
}

fn path(namespace: &str, pod: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{pod}")
}

/// A pod that asks no GPU.
pub fn plain(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "schedulerName": "divvy-scheduler", "runtimeClassName": "nvidia",
            "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": BUSYBOX, "imagePullPolicy": "Never"}],
        },
    })
}

/// A pod of half a card.
pub fn half(namespace: &str, name: &str) -> Value {
    let mut pod = plain(namespace, name);
    pod["metadata"]["annotations"] = json!({"gpu-fraction": "0.5"});
    pod
}

/// A pod of whole cards.
pub fn whole(namespace: &str, name: &str, count: u32) -> Value {
    devices(namespace, name, "nvidia.com/gpu", count)
}

/// A pod of so many of something.
pub fn devices(namespace: &str, name: &str, resource: &str, count: u32) -> Value {
    let mut pod = plain(namespace, name);
    let limits = json!({resource: count.to_string()});
    pod["spec"]["containers"][0]["resources"] = json!({"limits": limits});
    pod
}
