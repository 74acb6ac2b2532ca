//! The control plane, emptied for one test at a time, and what a test does in it.

use crate::kubelets::RESERVATIONS;
use divvy_testbed::api::{Api, ApiError};
use divvy_testbed::checker::Checker;
use divvy_testbed::history::{History, Now};
use divvy_testbed::manifests::{self, GpuNode};
use divvy_testbed::proxy::Proxy;
use divvy_testbed::{ControlPlane, Programs};
use http::Method;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// Whose pods the tests make.
pub const US: &str = "divvy-scheduler";
pub const NAMESPACE: &str = "default";
/// Long enough for a busy machine; a test that waits so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(120);

static PLANE: OnceCell<Result<ControlPlane, String>> = OnceCell::const_new();
static TURN: Mutex<()> = Mutex::const_new(());

/// A turn on the control plane.
pub struct Arena {
    pub plane: &'static ControlPlane,
    pub api: Api,
    pub history: Arc<History>,
    /// Whether levels of isolation are told apart.
    pub has_levels: bool,
    _turn: MutexGuard<'static, ()>,
}

impl Arena {
    /// Waits for its turn and empties the cluster; `None`, and a line that says why, without one.
    pub async fn enter() -> Option<Self> {
        let turn = TURN.lock().await;
        let plane = PLANE.get_or_init(|| async { start().map_err(|why| why.to_string()) }).await;
        let plane = match plane {
            Ok(plane) => plane,
            Err(why) => {
                // Not by println, which the test runner hides.
                let _ = writeln!(std::io::stdout(), "skipped: {why}");
                return None;
            }
        };
        let api = Api::connect(plane).await.unwrap();
        empty(&api).await;
        let history = Arc::new(History::record(&api).await.unwrap());
        Some(Self { plane, api, history, has_levels: false, _turn: turn })
    }

    /// Makes nodes of a model, named after it.
    pub async fn nodes(&self, model: GpuNode, prefix: &str, count: usize) {
        let nodes = (0..count).map(|i| model.node(&format!("{prefix}-{i}"))).collect();
        self.api.create_all(nodes, 16).await.unwrap();
        self.catch_up().await;
    }

    /// Waits until the history has all that has happened by now.
    async fn catch_up(&self) {
        self.history.catch_up(PATIENCE).await.unwrap();
    }

    /// Makes what a scheduler needs that hands shares to their containers.
    pub async fn allow_reservations(&self) {
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RESERVATIONS}}),
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": "divvy-reservation"}, "value": 1_000_000_000}),
        ] {
            // They are there from an earlier test.
            let _ = self.api.create(&object).await;
        }
    }

    /// Makes a pod.
    pub async fn create(&self, pod: &Value) -> Value {
        self.api.create(pod).await.unwrap()
    }

    /// Makes pods.
    pub async fn create_all(&self, pods: Vec<Value>) {
        self.api.create_all(pods, 32).await.unwrap();
    }

    /// Changes a node or its status; gives what it is now.
    pub async fn patch_node(&self, name: &str, patch: &Value) -> Value {
        self.api.patch(&format!("/api/v1/nodes/{name}"), patch).await.unwrap()
    }

    /// A pod has done its work: it ends, then its object goes.
    pub async fn end(&self, name: &str) {
        let path = path(name);
        let ended = json!({"status": {"phase": "Succeeded"}});
        self.api.patch(&format!("{path}/status"), &ended).await.unwrap();
        self.api.delete(&path).await.unwrap();
    }

    /// Deletes a pod by force.
    pub async fn delete(&self, name: &str) {
        self.api.delete(&path(name)).await.unwrap();
    }

    /// Waits until something is true of what the API says.
    pub async fn until(&self, what: &str, is_true: impl FnMut(&Now) -> bool) {
        let waited = self.history.until(what, PATIENCE, is_true).await;
        if let Err(why) = waited {
            let waiting = self.history.look(|now| {
                let waits = |name: &&String| now.node_of(name).is_none();
                let say = |name: &String| format!("{name}: {:?}", now.message(name));
                now.pods.keys().filter(waits).take(5).map(say).collect::<Vec<_>>()
            });
            panic!("{why}; some that wait: {waiting:#?}");
        }
    }

    /// Waits until a pod is bound; gives its node.
    pub async fn bound(&self, name: &str) -> String {
        let key = format!("{NAMESPACE}/{name}");
        self.until(&format!("{name} is bound"), |now| now.node_of(&key).is_some()).await;
        self.history.look(|now| now.node_of(&key).unwrap().to_owned())
    }

    /// Waits until so many pods are bound.
    pub async fn all_bound(&self, count: usize) {
        let what = format!("{count} pods are bound");
        self.until(&what, |now| now.bound(NAMESPACE) >= count).await;
    }

    /// Waits until a pod's condition says something that contains this; gives all of it.
    pub async fn said(&self, name: &str, part: &str) -> String {
        let key = format!("{NAMESPACE}/{name}");
        let has = |now: &Now| now.message(&key).is_some_and(|message| message.contains(part));
        self.until(&format!("the condition of {name} says {part:?}"), has).await;
        self.history.look(|now| now.message(&key).unwrap().to_owned())
    }

    /// Waits until nothing waits that fits.
    pub async fn until_placed(&self) {
        // What was made last may not have been seen yet, and would not be missed.
        self.catch_up().await;
        let end = tokio::time::Instant::now() + PATIENCE * 2;
        loop {
            let fits = self.checker().seeing(&self.history.now()).waiting_that_fit();
            if fits.is_empty() {
                return;
            }
            let late = tokio::time::Instant::now() > end;
            assert!(!late, "{} pods wait and fit, such as {:?}", fits.len(), fits[0]);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until whoever was killed has nothing on its way to the server any more.
    pub async fn until_quiet(&self, proxy: &Proxy) {
        let end = tokio::time::Instant::now() + PATIENCE;
        while !proxy.is_quiet() {
            assert!(tokio::time::Instant::now() < end, "something is still under way");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn checker(&self) -> Checker {
        Checker::new(&[US]).telling_levels(self.has_levels)
    }

    /// Replays all that happened; nothing may have been wrong at any instant.
    pub async fn check(&self) -> Checker {
        self.catch_up().await;
        let checker = self.checker().after(&self.history.happened().unwrap());
        let first: Vec<_> = checker.violations.iter().take(5).collect();
        assert!(first.is_empty(), "{} violations: {first:#?}", checker.violations.len());
        checker
    }

    /// The events about a pod with this reason: their notes.
    pub async fn events(&self, pod: &str, reason: &str) -> Vec<String> {
        let list = format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events");
        let list = self.api.get(&list).await.unwrap();
        let events = list["items"].as_array().unwrap().iter();
        // One of that name from an earlier test may have an event that was written late.
        let key = format!("{NAMESPACE}/{pod}");
        let uid = self.history.look(|now| now.pods[&key]["metadata"]["uid"].clone());
        let about = |e: &&Value| e["regarding"]["uid"] == uid && e["reason"] == reason;
        events.filter(about).map(|e| e["note"].as_str().unwrap().to_owned()).collect()
    }
}

/// A pod of ours that asks no GPU.
pub fn pod(name: &str) -> Value {
    pod_of(NAMESPACE, name)
}

/// The same in another namespace.
pub fn pod_of(namespace: &str, name: &str) -> Value {
    manifests::pod(namespace, name, US)
}

/// The path of a pod.
pub fn path(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}")
}

fn start() -> Result<ControlPlane, divvy_testbed::Unavailable> {
    let programs = Programs::build(&mut |_| {})?;
    ControlPlane::start(&programs, &folder())
}

/// A folder of this process. Those of processes that are gone are deleted: the last one stays for
/// whoever looks into a failure.
fn folder() -> PathBuf {
    let all = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("stress");
    for old in std::fs::read_dir(&all).into_iter().flatten().flatten() {
        if !std::path::Path::new("/proc").join(old.file_name()).exists() {
            let _ = std::fs::remove_dir_all(old.path());
        }
    }
    all.join(std::process::id().to_string())
}

/// Deletes what earlier tests left.
async fn empty(api: &Api) {
    let now = json!({"gracePeriodSeconds": 0});
    for path in [
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/kai-resource-reservation/pods",
        "/api/v1/nodes",
    ] {
        api.send(Method::DELETE, path, "application/json", Some(&now)).await.unwrap();
    }
    // A policy is in force until the server has seen that it is gone: it names what no other test has.
    let is_empty = |list: Result<Value, ApiError>| list.unwrap()["items"] == json!([]);
    while !is_empty(api.get("/api/v1/namespaces/default/pods").await) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
