//! A real kubelet, containerd and NVIDIA's device plugin and container runtime, with mock cards.
#![allow(clippy::unwrap_used, clippy::panic)]

use divvy_testbed::api::{Api, JSON};
use divvy_testbed::node::{BUSYBOX, Card, Node, Options};
use divvy_testbed::{ControlPlane, Program, Programs, Unavailable};
use http::Method;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};

const PATIENCE: Duration = Duration::from_secs(120);
const VISIBLE: &str = "divvy.dev/visible-devices";

/// A machine runs one node: the others need not even start their API servers.
static TURN: Mutex<()> = Mutex::const_new(());

struct Cluster {
    api: Api,
    // The node before the plane that it talks to.
    node: Node,
    plane: ControlPlane,
    folder: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Cluster {
    /// A cluster of one node, or a line that says why the test is skipped.
    async fn start(name: &str, options: Options) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("divvy-{name}-{}", std::process::id()));
        let turn = TURN.lock().await;
        let start = || -> Result<_, Unavailable> {
            let programs = Programs::build(&mut |_| {})?;
            let plane = ControlPlane::start_with_controllers(&programs, &folder)?;
            let node = Node::start(&plane, options)?;
            Ok((plane, node))
        };
        match start() {
            Ok((plane, node)) => {
                let api = Api::connect(&plane).await.unwrap();
                Some(Self { api, node, plane, folder, _turn: turn })
            }
            Err(
                why @ (Unavailable::NoNode(_) | Unavailable::NoGo(_) | Unavailable::Build { .. }),
            ) => {
                // Not by println, which the test runner hides.
                let _ = writeln!(std::io::stdout(), "skipped: {why}");
                None
            }
            Err(why) => panic!("{why}"),
        }
    }

    async fn create(&self, pod: &Value) {
        self.api.create(pod).await.unwrap();
    }

    /// Binds a pod to the node, with these annotations.
    async fn bind(&self, pod: &str, annotations: Value) {
        let path = format!("{}/binding", path(pod));
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod, "annotations": annotations},
            "target": {"apiVersion": "v1", "kind": "Node", "name": Node::NAME},
        });
        self.api.send(Method::POST, &path, JSON, Some(&binding)).await.unwrap();
    }

    /// The object once it is as it should be.
    async fn until(&self, path: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let object = self.api.get(path).await.unwrap();
            if holds(&object) {
                return object;
            }
            let log = self.folder.display();
            assert!(start.elapsed() < PATIENCE, "{path} is not {what}: {object:#}; logs in {log}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn running(&self, pod: &str) -> Value {
        self.until(&path(pod), "ready", |pod| {
            pod["status"]["containerStatuses"][0]["ready"] == true
        })
        .await
    }

    /// What the container of a pod finds in `/dev`.
    fn cards(&self, pod: &str) -> Vec<String> {
        self.node.look("default", pod, "main").unwrap().cards
    }

    /// What a pod printed.
    fn logs(&self, pod: &str) -> String {
        let printed = self.plane.kubectl().args(["logs", pod]).output().unwrap().stdout;
        String::from_utf8(printed).unwrap()
    }

    /// Ends it; the files of a test that held are of no interest.
    fn end(self) {
        let folder = self.folder.clone();
        drop(self);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

fn path(pod: &str) -> String {
    format!("/api/v1/namespaces/default/pods/{pod}")
}

/// A pod whose container has these variables and sleeps.
fn pod(name: &str, environment: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name},
        "spec": {
            "schedulerName": "nobody", "runtimeClassName": "nvidia",
            "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
            "containers": [{
                "name": "main", "image": BUSYBOX, "env": environment,
                "imagePullPolicy": "Never",
            }],
        },
    })
}

fn whole(name: &str) -> Value {
    one(name, "nvidia.com/gpu")
}

/// A pod of one of something.
fn one(name: &str, resource: &str) -> Value {
    let mut pod = pod(name, &json!([]));
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {resource: "1"}});
    pod
}

/// A pod that is told by its binding which cards it may see.
fn share(name: &str) -> Value {
    let annotation =
        json!({"fieldRef": {"fieldPath": format!("metadata.annotations['{VISIBLE}']")}});
    pod(
        name,
        &json!([
            {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": annotation},
            {"name": "DIVVY_CARDS", "valueFrom": annotation},
        ]),
    )
}

/// The card that the kubelet says the pod was given.
fn allocated(pod: &Value) -> String {
    allocated_of(pod, "nvidia.com/gpu")
}

/// The device of this resource that the kubelet says the pod was given.
fn allocated_of(pod: &Value, resource: &str) -> String {
    let status = &pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0];
    assert_eq!(status["name"], resource, "{}", pod["status"]);
    assert_eq!(status["resources"].as_array().unwrap().len(), 1);
    status["resources"][0]["resourceID"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_sees_its_cards_and_no_other_also_after_a_reboot() {
    let Some(mut cluster) = Cluster::start("node", Options::default()).await else { return };
    let node = cluster.api.get(&format!("/api/v1/nodes/{}", Node::NAME)).await.unwrap();
    assert_eq!(node["status"]["allocatable"]["nvidia.com/gpu"], "8");
    assert_eq!(node["metadata"]["labels"]["nvidia.com/gpu.memory"], "40960");
    assert_eq!(node["metadata"]["labels"]["nvidia.com/gpu.product"], "NVIDIA-A100-SXM4-40GB");

    let third = Card::a100(3).uuid;
    cluster.create(&whole("whole")).await;
    cluster.bind("whole", json!({})).await;
    for (name, value) in [("share", third.as_str()), ("void", "void")] {
        cluster.create(&share(name)).await;
        cluster.bind(name, json!({VISIBLE: value})).await;
    }
    let given = allocated(&cluster.running("whole").await);
    let index = (0..8).find(|i| Card::a100(*i).uuid == given).unwrap();
    assert_eq!(cluster.cards("whole"), [format!("nvidia{index}")]);
    cluster.running("share").await;
    assert_eq!(cluster.cards("share"), ["nvidia3"]);
    cluster.running("void").await;
    assert_eq!(cluster.cards("void"), [""; 0]);
    let cuda = "docker.io/nvidia/cuda:12.4.1-base-ubuntu22.04";
    cluster.node.add_stand_in(cuda).unwrap();
    let mut careless = pod("careless", &json!([]));
    careless["spec"]["containers"][0]["image"] = json!(cuda);
    cluster.create(&careless).await;
    cluster.bind("careless", json!({})).await;
    cluster.running("careless").await;
    assert_eq!(cluster.cards("careless").len(), 8, "an image with CUDA asks for all cards");

    cluster.node.reboot().unwrap();
    let failed = cluster.api.get(&path("whole")).await.unwrap();
    assert_eq!(failed["status"]["phase"], "Failed");
    assert_eq!(failed["status"]["reason"], "UnexpectedAdmissionError");
    cluster
        .until(&path("share"), "started again", |pod| {
            let status = &pod["status"]["containerStatuses"][0];
            status["ready"] == true && status["restartCount"] == 1
        })
        .await;
    let inside = cluster.node.look("default", "share", "main").unwrap();
    assert_eq!(inside.cards, ["nvidia3"]);
    assert_eq!(inside.environment["DIVVY_CARDS"], third);
    cluster.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_cards_and_programs_show_as_on_a_real_node() {
    let Some(mut cluster) = Cluster::start("node-faults", Options::default()).await else { return };
    let image = "docker.io/local/env:1";
    cluster.node.add_program(image, Path::new("/usr/bin/env"), &[]).unwrap();
    let mut once = share("once");
    once["spec"]["restartPolicy"] = json!("Never");
    once["spec"]["containers"][0]["image"] = json!(image);
    cluster.create(&once).await;
    cluster.bind("once", json!({VISIBLE: "1"})).await;
    let succeeded = |pod: &Value| pod["status"]["phase"] == "Succeeded";
    cluster.until(&path("once"), "done", succeeded).await;
    let printed = cluster.logs("once");
    assert!(printed.contains("DIVVY_CARDS=1\n"), "{printed}");
    assert!(printed.contains("NVIDIA_VISIBLE_DEVICES=void\n"), "set by the runtime: {printed}");

    let mut caller = pod("caller", &json!([]));
    // busybox's TLS is too old for the API server, which says so to whoever speaks none.
    let ask = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT";
    caller["spec"]["restartPolicy"] = json!("Never");
    caller["spec"]["containers"][0]["command"] = json!(["sh", "-c", ask]);
    cluster.create(&caller).await;
    cluster.bind("caller", json!({})).await;
    let ended =
        |pod: &Value| pod["status"]["phase"] != "Pending" && pod["status"]["phase"] != "Running";
    cluster.until(&path("caller"), "done", ended).await;
    let printed = cluster.logs("caller");
    assert!(printed.contains("HTTPS server"), "pods reach the API server: {printed}");

    cluster.create(&whole("whole")).await;
    cluster.bind("whole", json!({})).await;
    let given = allocated(&cluster.running("whole").await);
    cluster.node.restart_kubelet().unwrap();
    cluster.node.restart_plugin().unwrap();
    let after = cluster.running("whole").await;
    assert_eq!(allocated(&after), given);
    assert_eq!(after["status"]["containerStatuses"][0]["restartCount"], 0);

    let node = format!("/api/v1/nodes/{}", Node::NAME);
    let has = |count: &'static str| {
        move |node: &Value| node["status"]["allocatable"]["nvidia.com/gpu"] == count
    };
    cluster.until(&node, "whole again", has("8")).await;
    cluster.node.change_cards(|inventory| inventory.cards[5].lost = true).unwrap();
    cluster.until(&node, "one card short", has("7")).await;
    cluster
        .node
        .change_cards(|inventory| inventory.failing = [("nvmlInit_v2".to_owned(), 9)].into())
        .unwrap();
    assert!(cluster.node.restart_plugin().is_err(), "there is no driver");
    cluster.until(&node, "without cards", has("0")).await;
    cluster
        .node
        .change_cards(|inventory| {
            inventory.failing.clear();
            inventory.cards[5].lost = false;
        })
        .unwrap();
    cluster.node.restart_plugin().unwrap();
    cluster.until(&node, "whole again", has("8")).await;
    cluster.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_divides_time_and_cards_and_the_kubelet_names_what_each_pod_has() {
    let cards: Vec<Card> = (0..2).map(Card::a100).collect();
    let slicing = json!({
        "version": "v1",
        "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}},
    });
    let options = Options { cards: cards.clone(), plugin_config: slicing };
    let Some(mut cluster) = Cluster::start("node-slices", options).await else { return };
    let path = format!("/api/v1/nodes/{}", Node::NAME);
    let node = cluster.api.get(&path).await.unwrap();
    assert_eq!(node["status"]["allocatable"]["nvidia.com/gpu"], "8");
    let labels = &node["metadata"]["labels"];
    assert_eq!(labels["nvidia.com/gpu.replicas"], "4");
    assert_eq!(labels["nvidia.com/gpu.product"], "NVIDIA-A100-SXM4-40GB-SHARED");
    cluster.create(&whole("slice")).await;
    cluster.bind("slice", json!({})).await;
    let given = allocated(&cluster.running("slice").await);
    let (card, replica) = given.split_once("::").unwrap();
    assert!(["0", "1", "2", "3"].contains(&replica), "{given}");
    let index = (0..2).find(|i| Card::a100(*i).uuid == card).unwrap();
    assert_eq!(cluster.cards("slice"), [format!("nvidia{index}")]);

    // One card is divided by MIG, the other is given as a whole.
    let profiles = ["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"];
    let divided = Card::a100(0).divided(&profiles).unwrap();
    let mixed = json!({"version": "v1", "flags": {"migStrategy": "mixed"}});
    let cards = vec![divided.clone(), Card::a100(1)];
    cluster.node.reconfigure(Options { cards, plugin_config: mixed }).unwrap();
    let node = cluster.api.get(&path).await.unwrap();
    let allocatable = &node["status"]["allocatable"];
    for (resource, count) in [("gpu", "1"), ("mig-1g.5gb", "2"), ("mig-3g.20gb", "1")] {
        assert_eq!(allocatable[format!("nvidia.com/{resource}")], count, "{allocatable}");
    }
    let labels = &node["metadata"]["labels"];
    assert_eq!(labels["nvidia.com/mig.strategy"], "mixed");
    assert_eq!(labels["nvidia.com/mig-1g.5gb.memory"], "4864");
    assert_eq!(labels["nvidia.com/gpu.count"], "2", "it counts the divided one, too");
    let mut seen = Vec::new();
    for (name, profile) in [("small", "1g.5gb"), ("other", "1g.5gb"), ("large", "3g.20gb")] {
        let resource = format!("nvidia.com/mig-{profile}");
        cluster.create(&one(name, &resource)).await;
        cluster.bind(name, json!({})).await;
        let given = allocated_of(&cluster.running(name).await, &resource);
        let mut slices = divided.slices.iter().flatten();
        let slice = slices.find(|slice| divided.slice_uuid(slice) == given).unwrap();
        assert_eq!(slice.profile, profile);
        let own = divided.capabilities(slice).map(|minor| format!("nvidia-cap{minor}"));
        let inside = cluster.node.look("default", name, "main").unwrap();
        assert_eq!(
            (inside.cards, &inside.capabilities[..]),
            (vec!["nvidia0".to_owned()], &own[..])
        );
        seen.extend(own);
    }
    assert_eq!(seen.len(), 6);
    assert!(seen.iter().all(|own| seen.iter().filter(|other| *other == own).count() == 1));
    assert_eq!(cluster.cards("slice"), [format!("nvidia{index}")], "what runs runs on");

    // What NVIDIA's own program finds in a container: its slice and nothing else of the card.
    let finder = "docker.io/local/discovery:1";
    let program = Program::FeatureDiscovery;
    let program = Programs::build_one(program, &mut |_| {}).unwrap().path(program);
    let library = cluster.folder.join("node/nvml/libnvidia-ml.so.1");
    // The library is there only for those that it loads; its own place is given to the container.
    let files = [(program.as_path(), "/discovery"), (&library, "/unused")];
    let options =
        ["--use-node-feature-api=false", "--oneshot", "--mig-strategy=mixed", "--output-file="];
    let entry = [&["/discovery"][..], &options].concat();
    cluster.node.add_files(finder, &files, &entry).unwrap();
    let mut inside = one("inside", "nvidia.com/mig-2g.10gb");
    inside["spec"]["restartPolicy"] = json!("Never");
    inside["spec"]["containers"][0]["image"] = json!(finder);
    cluster.create(&inside).await;
    cluster.bind("inside", json!({})).await;
    let ended = |pod: &Value| pod["status"]["phase"] == "Succeeded";
    cluster.until(&self::path("inside"), "done", ended).await;
    let printed = cluster.logs("inside");
    let of_slices: Vec<&str> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("nvidia.com/")?.split_once(".count="))
        .map(|(resource, _)| resource)
        .collect();
    assert!(printed.contains("nvidia.com/mig-2g.10gb.count=1"), "{printed}");
    assert!(printed.contains("nvidia.com/gpu.count=1"), "{printed}");
    assert_eq!(of_slices.len(), 2, "{printed}");

    // With one kind of slice they may be called GPUs.
    let single = json!({"version": "v1", "flags": {"migStrategy": "single"}});
    let cards = (0..2).map(|i| Card::a100(i).divided(&["1g.5gb"; 7]).unwrap()).collect();
    cluster.node.reconfigure(Options { cards, plugin_config: single }).unwrap();
    let node = cluster.api.get(&path).await.unwrap();
    assert_eq!(node["status"]["allocatable"]["nvidia.com/gpu"], "14");
    let labels = &node["metadata"]["labels"];
    assert_eq!(labels["nvidia.com/gpu.product"], "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb");
    assert_eq!(labels["nvidia.com/gpu.count"], "14");
    assert!(labels["nvidia.com/mig-1g.5gb.count"].is_null(), "{labels}");
    cluster.end();
}
