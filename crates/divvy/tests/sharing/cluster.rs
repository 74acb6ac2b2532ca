//! One cluster with a real node, emptied for one test at a time.

use divvy_testbed::api::Api;
use divvy_testbed::node::{BUSYBOX, Card, Node, Options};
use divvy_testbed::{ControlPlane, Process, Programs, Unavailable};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};

const PATIENCE: Duration = Duration::from_secs(30);
const IMAGE: &str = "docker.io/local/divvy:1";
const RESERVATIONS: &str = "kai-resource-reservation";

/// The variables that admission puts into a share's container.
const VARIABLES: [(&str, &str); 4] = [
    ("NVIDIA_VISIBLE_DEVICES", "divvy.dev/visible-devices"),
    ("GPU_PORTION", "divvy.dev/portion"),
    ("RUNAI_NUM_OF_GPUS", "divvy.dev/portion"),
    ("DIVVY_CARDS", "divvy.dev/cards"),
];

struct Parts {
    // The node before the plane that it talks to.
    node: Node,
    plane: ControlPlane,
}

enum Found {
    NotYet,
    Nothing,
    Cluster(Box<Parts>),
}

static CLUSTER: Mutex<Found> = Mutex::const_new(Found::NotYet);

/// A turn on the cluster.
pub struct Cluster {
    pub api: Api,
    found: MutexGuard<'static, Found>,
}

impl Cluster {
    /// Waits for its turn and empties the cluster; `None`, and a line that says why, without one.
    pub async fn enter() -> Option<Self> {
        let mut found = CLUSTER.lock().await;
        if matches!(*found, Found::NotYet) {
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
        let Found::Cluster(parts) = &*found else { return None };
        let api = Api::connect(&parts.plane).await.unwrap();
        let cluster = Self { api, found };
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

    /// Looks into every running pod: no whole-GPU pod has a shared card, each share has one, and
    /// it is the one that its binding named.
    pub async fn check(&self) {
        let mut of_card: BTreeMap<String, Vec<(String, bool)>> = BTreeMap::new();
        for namespace in ["default", "team"] {
            for pod in self.pods(namespace).await {
                let name = pod["metadata"]["name"].as_str().unwrap();
                if pod["status"]["containerStatuses"][0]["ready"] != true {
                    continue;
                }
                // It may have ended since.
                let Ok(found) = self.parts().node.look(namespace, name, "main") else { continue };
                let annotations = &pod["metadata"]["annotations"];
                let is_whole = annotations["gpu-fraction"].is_null();
                if !is_whole {
                    let named = annotations["divvy.dev/visible-devices"].as_str().unwrap();
                    let cards: Vec<String> = found.cards.iter().map(|c| self.uuid(c)).collect();
                    assert_eq!(cards.join(","), named, "{namespace}/{name}");
                }
                for card in found.cards {
                    of_card.entry(card).or_default().push((name.to_owned(), is_whole));
                }
            }
        }
        for (card, pods) in of_card {
            let wholes = pods.iter().filter(|(_, is_whole)| *is_whole).count();
            assert!(wholes == 0 || pods.len() == 1, "{card} has {pods:?}");
            assert!(pods.len() <= 2, "{card} has {pods:?}");
        }
    }

    /// Starts a scheduler that hands cards over; it ends when it is dropped.
    pub fn start_divvy(&self) -> Process {
        let plane = &self.parts().plane;
        let mut command = Command::new(env!("CARGO_BIN_EXE_divvy"));
        command.arg("scheduler").arg("--kubeconfig").arg(plane.kubeconfig());
        command.args(["--leader-elect=false", "--listen=127.0.0.1:0", "--gpu-sharing"]);
        command.args(["--reservation-image", IMAGE, "--quarantine=1"]);
        Process::start(command, "divvy", plane.folder()).unwrap()
    }

    async fn empty(&self) {
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RESERVATIONS}}),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"namespace": RESERVATIONS, "name": "divvy-reserve"}}),
        ] {
            // There after the first time.
            let _ = self.api.create(&object).await;
        }
        for namespace in ["default", "team", RESERVATIONS] {
            for pod in self.pods(namespace).await {
                self.delete(namespace, pod["metadata"]["name"].as_str().unwrap()).await;
            }
        }
        // Pods of a new namespace need its ServiceAccount.
        let path = "/api/v1/namespaces/team/serviceaccounts/default";
        self.until("the ServiceAccount is there", async || self.api.get(path).await.is_ok()).await;
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

    pub async fn get(&self, namespace: &str, pod: &str) -> Value {
        self.api.get(&path(namespace, pod)).await.unwrap()
    }

    async fn pods(&self, namespace: &str) -> Vec<Value> {
        let list = self.api.get(&format!("/api/v1/namespaces/{namespace}/pods")).await.unwrap();
        list["items"].as_array().unwrap().clone()
    }

    pub async fn reservations(&self) -> Vec<Value> {
        self.pods(RESERVATIONS).await
    }

    pub async fn until_reservations(&self, count: usize) {
        let what = format!("{count} reservations");
        self.until(&what, async || self.reservations().await.len() == count).await;
    }

    /// Deletes a pod as a user does, and waits until it is gone.
    pub async fn delete(&self, namespace: &str, pod: &str) {
        let path = path(namespace, pod);
        let _ = self.api.send(http::Method::DELETE, &path, "application/json", None).await;
        self.until(&format!("{pod} is gone"), async || self.api.get(&path).await.is_err()).await;
    }

    async fn until_running(&self, namespace: &str, pod: &str) {
        self.until(&format!("{namespace}/{pod} runs"), async || {
            let pod = self.get(namespace, pod).await;
            pod["status"]["containerStatuses"][0]["ready"] == true
        })
        .await;
    }

    /// The cards in the pod's container, once it runs.
    pub async fn cards_of(&self, namespace: &str, pod: &str) -> Vec<String> {
        self.until_running(namespace, pod).await;
        self.parts().node.look(namespace, pod, "main").unwrap().cards
    }

    /// The one card in the pod's container, once it runs.
    pub async fn card_of(&self, namespace: &str, pod: &str) -> String {
        let cards = self.cards_of(namespace, pod).await;
        let [card] = cards.as_slice() else { panic!("{namespace}/{pod} has {cards:?}") };
        card.clone()
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
    node.add_program(IMAGE, Path::new(env!("CARGO_BIN_EXE_divvy")), &[])?;
    Ok(Parts { node, plane })
}

fn path(namespace: &str, pod: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{pod}")
}

fn pod(namespace: &str, name: &str) -> Value {
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

/// A pod of half a card, as admission leaves it.
pub fn half(namespace: &str, name: &str) -> Value {
    let variable = |(variable, annotation): (&str, &str)| {
        let path = format!("metadata.annotations['{annotation}']");
        json!({"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}})
    };
    let mut pod = pod(namespace, name);
    pod["metadata"]["annotations"] = json!({"gpu-fraction": "0.5"});
    pod["spec"]["containers"][0]["env"] = VARIABLES.map(variable).into();
    pod
}

/// A pod of whole cards.
pub fn whole(namespace: &str, name: &str, count: u32) -> Value {
    let mut pod = pod(namespace, name);
    let gpus = json!({"nvidia.com/gpu": count.to_string()});
    pod["spec"]["containers"][0]["resources"] = json!({"limits": gpus});
    pod
}
