//! divvy in the cluster, with levels told apart, and what its pods have.

use super::cluster::{CHECKER, Cluster, LOOK, SERVER, text};
use crate::program;
use divvy_testbed::api::JSON;
use divvy_testbed::manifests::webhooks_at;
use divvy_testbed::node::Options;
use divvy_testbed::{Process, free_ports};
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

pub const LEVEL: &str = "koordinator.sh/gpu-share-isolation-level";
pub const PROVIDER: &str = "koordinator.sh/gpu-isolation-provider";
/// The bytes of each card.
pub const CARD: u64 = 40 << 30;

impl Cluster {
    /// All that guards cards, and the provider on the node.
    pub fn prepare(&self) {
        for file in ["hand-off", "reservations", "nodes", "deletions", "visible-devices"] {
            self.apply(&format!("deploy/policy-{file}.yaml"));
        }
        for file in ["scheduler", "admission"] {
            self.apply(&format!("deploy/{file}.yaml"));
        }
        let installed = self.install(&[]);
        assert!(installed.status.success(), "{}", text(&installed));
    }

    /// The webhooks and a scheduler, which tell levels apart or do not.
    pub async fn start_divvy(&self, levels: bool) -> (Process, Process) {
        let admission = self.start_admission(levels);
        self.api.policies_act().await.unwrap();
        self.until_admitted(levels).await;
        (admission, self.start_scheduler(levels, 0))
    }

    fn start_admission(&self, levels: bool) -> Process {
        let [port] = free_ports().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let webhooks = std::fs::read_to_string(root.join("deploy/webhooks.yaml")).unwrap();
        self.apply_text(&webhooks_at(address, &webhooks));
        let kubeconfig = self.plane.kubeconfig_as("divvy-system", "divvy-admission").unwrap();
        let mut command = program::divvy();
        command.arg("admission").arg("--kubeconfig").arg(kubeconfig);
        command.args(["--gpu-sharing", &gate(levels), "--tls-names=127.0.0.1"]);
        command.arg("--listen").arg(address.to_string());
        Process::start(command, "admission", self.plane.folder()).unwrap()
    }

    /// A scheduler; how long it waits for what an earlier one has sent, in seconds.
    pub fn start_scheduler(&self, levels: bool, wait: u32) -> Process {
        let kubeconfig = self.plane.kubeconfig_as("divvy-system", "divvy-scheduler").unwrap();
        let mut command = program::divvy();
        command.arg("scheduler").arg("--kubeconfig").arg(kubeconfig);
        command.args(["--leader-elect=false", "--listen=127.0.0.1:0", "--gpu-sharing"]);
        command.args([&gate(levels), "--quarantine=1", &format!("--takeover-wait={wait}")]);
        Process::start(command, "divvy", self.plane.folder()).unwrap()
    }

    pub fn apply_text(&self, text: &str) {
        let mut kubectl = self.plane.kubectl();
        kubectl.args(["apply", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = kubectl.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{text}");
    }

    /// Waits until pods go through these webhooks.
    async fn until_admitted(&self, levels: bool) {
        let path = "/api/v1/namespaces/default/pods?dryRun=All";
        self.until("pods go through the webhooks", async || {
            let probe = share("probe", "0.5", None);
            let made = self.api.send(Method::POST, path, JSON, Some(&probe)).await;
            let made = made.map_err(|why| why.to_string())?;
            let is_prepared = made["spec"]["containers"][0]["env"].is_array();
            let is_labelled = made["metadata"]["labels"][LEVEL] == "Shared";
            let are_these = is_prepared && is_labelled == levels;
            if are_these { Ok(()) } else { Err(made.to_string()) }
        })
        .await;
    }

    /// A pod once its container runs.
    pub async fn running(&self, namespace: &str, pod: &str) -> Value {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
        self.until(&format!("{pod} runs"), async || {
            let pod = self.api.get(&path).await.map_err(|why| why.to_string())?;
            let is_ready = pod["status"]["containerStatuses"][0]["ready"] == true;
            let runs = is_ready && self.node.look_into(&pod, "server").is_ok();
            if runs { Ok(pod) } else { Err(format!("{} {}", pod["metadata"], pod["status"])) }
        })
        .await
    }

    /// Deletes a pod as a user does, and waits until this one is gone.
    pub async fn delete(&self, namespace: &str, name: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let uid = self.api.get(&path).await.unwrap()["metadata"]["uid"].clone();
        let soon = json!({"gracePeriodSeconds": 1});
        self.api.send(Method::DELETE, &path, JSON, Some(&soon)).await.unwrap();
        self.until(&format!("{name} is gone"), async || match self.api.get(&path).await {
            Ok(pod) if pod["metadata"]["uid"] == uid => Err(pod["status"].to_string()),
            _ => Ok(()),
        })
        .await;
    }

    /// The UUIDs of the cards that a running pod's container finds in `/dev`.
    pub fn cards_of(&self, pod: &Value) -> Vec<String> {
        let found = self.node.look_into(pod, "server").unwrap().cards;
        let number = |card: &String| card.trim_start_matches("nvidia").parse::<usize>().unwrap();
        found.iter().map(|card| Options::default().cards[number(card)].uuid.clone()).collect()
    }

    /// What a program says inside of a pod.
    pub fn inside(&self, pod: &Value, line: &str) -> String {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let namespace = pod["metadata"]["namespace"].as_str().unwrap();
        text(&self.kubectl(&["exec", "-n", namespace, name, "--", "sh", "-c", line]))
    }

    /// Looks into a running pod: an Isolated one sees what it was given, any other all of its card.
    pub fn sees_its_part(&self, pod: &Value) {
        let annotations = &pod["metadata"]["annotations"];
        let record = annotations["divvy.dev/cards"].as_str().unwrap();
        let mut named: Vec<&str> =
            record.split(',').map(|part| part.split_once(':').unwrap().0).collect();
        let mut found = self.cards_of(pod);
        named.sort_unstable();
        found.sort();
        assert_eq!(found, named, "{pod}");
        if annotations["divvy.dev/class"] == "Isolated/HAMi-core" {
            let (_, bytes) = record.rsplit_once(':').unwrap();
            let said = self.inside(pod, CHECKER);
            assert!(said.contains("in force: HAMi-core limits"), "{record}: {said}");
            assert!(said.contains(&format!("to {bytes} bytes each")), "{record}: {said}");
        } else {
            let said = self.inside(pod, LOOK);
            for card in found {
                let all = format!("NVML says that {card} has {CARD} bytes");
                assert!(said.contains(&all), "{record}: {said}");
            }
            let loaded = self.inside(pod, "ls /usr/local/vgpu /etc/ld.so.preload; env");
            assert!(!loaded.contains("libvgpu") && !loaded.contains("CUDA_"), "{loaded}");
        }
    }

    /// Looks into all running shares: each sees its part, and no card is shared by two kinds. Gives how
    /// many there are.
    pub async fn check(&self) -> usize {
        let mut classes: BTreeMap<String, String> = BTreeMap::new();
        let mut count = 0;
        for namespace in ["default", "ml"] {
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            let pods = self.api.get(&path).await.unwrap();
            for pod in pods["items"].as_array().unwrap() {
                let annotations = &pod["metadata"]["annotations"];
                let Some(class) = annotations["divvy.dev/class"].as_str() else { continue };
                if pod["status"]["containerStatuses"][0]["ready"] != true {
                    continue;
                }
                self.sees_its_part(pod);
                count += 1;
                for card in self.cards_of(pod) {
                    let known = classes.entry(card.clone()).or_insert_with(|| class.to_owned());
                    assert_eq!(known, class, "{card}: {pod}");
                }
            }
        }
        count
    }
}

fn gate(levels: bool) -> String {
    format!("--feature-gates=GPUIsolationLevel={levels}")
}

/// A pod of a part of a card, as a user writes it.
pub fn share(name: &str, fraction: &str, level: Option<&str>) -> Value {
    let mut pod = plain(name);
    pod["metadata"]["annotations"] = json!({"gpu-fraction": fraction});
    if let Some(level) = level {
        pod["metadata"]["labels"] = json!({LEVEL: level});
    }
    if level == Some("Isolated") {
        pod["metadata"]["labels"][PROVIDER] = json!("HAMi-core");
    }
    pod
}

/// A pod that asks for nothing.
pub fn plain(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name},
        "spec": {
            "schedulerName": "divvy-scheduler", "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "containers": [{"name": "server", "image": SERVER, "imagePullPolicy": "Never"}],
        },
    })
}
