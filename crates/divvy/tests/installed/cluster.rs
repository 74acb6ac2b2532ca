//! A cluster in which the chart is installed, and divvy runs beside it.

use crate::pages;
use divvy_testbed::api::Api;
use divvy_testbed::manifests::{GpuNode, webhooks_at};
use divvy_testbed::{
    ControlPlane, Kwok, KwokPods, Process, Programs, Unavailable, chart, free_ports,
};
use serde_json::{Value, json};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where divvy is, which is not where the recipes have KAI.
pub const NAMESPACE: &str = "divvy-system";
pub const NODES: usize = 4;
/// Long enough for a busy machine; a test that waits so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(180);

pub struct Cluster {
    // Clients before servers: the order in which they are dropped.
    pub scheduler: Process,
    _admission: Process,
    /// Where the webhooks are.
    pub admission: SocketAddr,
    plane: ControlPlane,
    pub api: Api,
    /// What the chart makes.
    pub objects: Vec<Value>,
}

impl Cluster {
    /// Installs the chart with these values; `None`, and a line that says why, where that cannot be.
    pub async fn install(name: &str, values: &str) -> Option<Self> {
        match Self::start(name, values).await {
            Ok(cluster) => Some(cluster),
            Err(why @ (Unavailable::NoGo(_) | Unavailable::Build { .. })) => {
                // Not by println, which the test runner hides.
                let _ = writeln!(std::io::stdout(), "skipped: {why}");
                None
            }
            Err(why) => panic!("{why}"),
        }
    }

    async fn start(name: &str, values: &str) -> Result<Self, Unavailable> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        let programs = Programs::build(&mut |_| {})?;
        let made = made(chart::helm(&mut |_| {})?, values);
        let kwok = Kwok {
            pods: KwokPods::Reservations(Duration::ZERO),
            heartbeat: Duration::from_secs(300),
        };
        let plane = ControlPlane::start_with_controllers(&programs, &folder)?.with_kwok(kwok)?;
        let api = Api::connect(&plane).await.unwrap();
        let namespaces = ["kai-scheduler", "ml-inference", NAMESPACE];
        let namespaces = namespaces.map(
            |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        );
        let nodes = (0..NODES).map(|i| GpuNode::A100.node(&format!("a100-{i}")));
        api.create_all(namespaces.into_iter().chain(nodes).collect(), 1).await.unwrap();
        let [port] = free_ports()?;
        let admission = SocketAddr::from(([127, 0, 0, 1], port));
        let made = webhooks_at(admission, &made);
        let objects = divvy_words::untyped(&made).unwrap();
        let objects: Vec<Value> = objects.into_iter().filter(Value::is_object).collect();
        // Pods of divvy would wait for ever, for it runs beside the cluster; monitors are of a kind that
        // is not there; and kwok, which runs reservation pods, is no kubelet to their policy.
        let left_out = [
            "\nkind: Deployment\n",
            "\napiVersion: monitoring.coreos.com/",
            "\n  name: divvy-reservations\n",
        ];
        let stays = |text: &&str| left_out.iter().all(|part| !text.contains(part));
        let applied: Vec<&str> = made.split("---\n").filter(stays).collect();
        kubectl(&plane, &["apply", "-f", "-"], &applied.join("---\n"));
        api.policies_act().await.unwrap();
        let start = |program: &str, more: &[String]| {
            let kubeconfig = plane.kubeconfig_as(NAMESPACE, &format!("divvy-{program}"))?;
            let mut divvy = Command::new(env!("CARGO_BIN_EXE_divvy"));
            divvy.args(arguments(&objects, program, &folder)).args(more);
            divvy.arg("--kubeconfig").arg(kubeconfig);
            Process::start(divvy, program, &folder)
        };
        let listen = format!("--listen={admission}");
        let webhooks = start("admission", &[listen, "--tls-names=127.0.0.1".to_owned()])?;
        let scheduler = start("scheduler", &["--listen=127.0.0.1:0".to_owned()])?;
        let cluster = Self { scheduler, _admission: webhooks, admission, plane, api, objects };
        cluster
            .until("the scheduler leads", async || {
                let ready = pages::page(&cluster.scheduler, "/readyz").await;
                ready.is_some_and(|page| page.contains("leading"))
            })
            .await;
        cluster
            .until("the nodes are ready", async || {
                let nodes = cluster.api.get("/api/v1/nodes").await.unwrap();
                nodes["items"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|node| node["spec"]["taints"].is_null())
            })
            .await;
        Ok(cluster)
    }

    /// Runs kubectl as an administrator, with this on its standard input.
    pub fn kubectl(&self, arguments: &[&str], input: &str) {
        kubectl(&self.plane, arguments, input);
    }

    /// The API as one of divvy's accounts sees it.
    pub async fn api_of(&self, account: &str) -> Api {
        let kubeconfig = self.plane.kubeconfig_as(NAMESPACE, account).unwrap();
        Api::from_kubeconfig(&kubeconfig).await.unwrap()
    }

    /// A folder for files of a test.
    pub fn folder(&self) -> &Path {
        self.plane.folder()
    }

    pub async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let start = Instant::now();
        while !holds().await {
            let log = self.folder().join("scheduler.log");
            let log = std::fs::read_to_string(log).unwrap_or_default();
            assert!(start.elapsed() < PATIENCE, "not in time: {what}\n{log}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The pods of a namespace with a label, such as `app=x`.
    pub async fn pods(&self, namespace: &str, label: &str) -> Vec<Value> {
        let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={label}");
        self.api.get(&path).await.unwrap()["items"].as_array().unwrap().clone()
    }

    /// Deletes the pods of a namespace with a label, with no kubelet to ask.
    pub async fn delete_pods(&self, namespace: &str, label: &str) {
        for pod in self.pods(namespace, label).await {
            let name = pod["metadata"]["name"].as_str().unwrap();
            // Whoever made it may have deleted it already.
            let _ = self.api.delete(&format!("/api/v1/namespaces/{namespace}/pods/{name}")).await;
        }
    }

    /// Waits until so many pods with a label are bound; gives the nodes, each once.
    pub async fn nodes_of(&self, namespace: &str, label: &str, count: usize) -> Vec<String> {
        let nodes = async || {
            let pods = self.pods(namespace, label).await.into_iter();
            let node = |pod: Value| pod["spec"]["nodeName"].as_str().map(str::to_owned);
            pods.filter_map(node).collect::<Vec<_>>()
        };
        let what = format!("{count} pods {label} are bound");
        self.until(&what, async || nodes().await.len() == count).await;
        let mut nodes = nodes().await;
        nodes.sort();
        nodes.dedup();
        nodes
    }
}

/// What the chart makes in its namespace.
fn made(mut helm: Command, values: &str) -> String {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/divvy");
    helm.args(["template", "divvy", "--no-hooks", "--namespace", NAMESPACE, "--set", values]);
    let output = helm.arg(chart).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The arguments of a program as the chart has them; the config file is in the folder.
fn arguments(objects: &[Value], program: &str, folder: &Path) -> Vec<String> {
    let named = |kind: &str, name: &str| {
        let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        objects.iter().find(is_it)
    };
    let config: PathBuf = folder.join("config.yaml");
    if let Some(map) = named("ConfigMap", "divvy-config") {
        std::fs::write(&config, map["data"]["config.yaml"].as_str().unwrap()).unwrap();
    }
    let deployment = named("Deployment", &format!("divvy-{program}")).unwrap();
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let arguments = arguments.as_array().unwrap().iter();
    let arguments = arguments.map(|argument| argument.as_str().unwrap());
    arguments.map(|a| a.replace("/etc/divvy/config.yaml", config.to_str().unwrap())).collect()
}

fn kubectl(plane: &ControlPlane, arguments: &[&str], input: &str) {
    let mut kubectl = plane.kubectl();
    kubectl.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = kubectl.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{arguments:?} {input}");
}
