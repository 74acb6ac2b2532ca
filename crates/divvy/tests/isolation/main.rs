//! An isolation provider on a real node, with NVIDIA's own runtime: what counts is what processes in
//! containers are told of their card.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../common/account.rs"]
mod account;
#[path = "../common/program.rs"]
mod program;

mod cluster;
mod divvy;
mod requests;
mod story;
mod tenant;

use cluster::{CHECKER, Cluster, text};
use divvy_testbed::api::Api;
use divvy_testbed::node::{Card, Node};
use serde_json::{Value, json};

/// Ten GiB of forty.
const LIMIT: &str = "10737418240";
const VARIABLE: &str = "CUDA_DEVICE_MEMORY_LIMIT";

/// What a binding grants: a card and a provider, both with their full names.
fn granted(provider: &str) -> String {
    format!("nvidia.com/gpu={},divvy.dev/provider={provider}", Card::a100(3).uuid)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_has_its_limit_in_every_process_or_does_not_start() {
    let Some(cluster) = Cluster::start("provider").await else { return };
    is_installed_by_the_manifests(&cluster).await;
    for mode in ["cdi", "auto"] {
        cluster.node.change_nvidia_mode(mode).unwrap();
        every_process_has_its_limit(&cluster, mode).await;
        nothing_starts_without(&cluster, mode).await;
    }
    nothing_is_unlimited_where_names_are_mixed(&cluster).await;
    says_whether_the_limit_is_in_force(&cluster).await;
    what_the_page_says_that_a_process_can_still_do(&cluster);
    no_label_where_it_cannot_work(&cluster).await;
    may_change_nothing_but_its_own_nodes_label(&cluster).await;
}

async fn is_installed_by_the_manifests(cluster: &Cluster) {
    assert_eq!(cluster.provider().await, (Value::Null, Value::Null));
    cluster.apply("deploy/provider.yaml");
    let pod = installer(cluster).await;
    // There is no kube-scheduler.
    cluster.bind("divvy-system", pod["metadata"]["name"].as_str().unwrap()).await;
    cluster
        .until("the node has the provider", async || {
            let said = cluster.provider().await;
            let is = said == (json!("HAMi-core"), json!("nvidia.com/gpu"));
            if is {
                Ok(())
            } else {
                Err(format!("{said:?}; {}", installer(cluster).await["status"]))
            }
        })
        .await;
}

/// The pod that puts the provider on the node.
async fn installer(cluster: &Cluster) -> Value {
    cluster
        .until("the DaemonSet has a pod", async || {
            let pods = cluster.api.get("/api/v1/namespaces/divvy-system/pods").await.unwrap();
            let pod = pods["items"].as_array().unwrap().first().cloned();
            pod.ok_or_else(|| "none".to_owned())
        })
        .await
}

async fn every_process_has_its_limit(cluster: &Cluster, mode: &str) {
    let name = format!("limited-{mode}");
    // The shell is static, and loads nothing; `env` and the checker are not.
    let line = format!("{CHECKER}; /usr/bin/env -i {CHECKER}; grep -c libvgpu /proc/self/maps");
    let tries = [
        (VARIABLE, LIMIT),
        ("CUDA_DEVICE_MEMORY_LIMIT_0", "80g"),
        ("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/tmp/own"),
        ("CUDA_DISABLE_CONTROL", "true"),
    ];
    cluster.run(&name, &granted("HAMi-core"), &tries, &line).await;
    let printed = cluster.printed(&name).await;
    let lines: Vec<&str> = printed.lines().collect();
    let card = Card::a100(3).uuid;
    assert_eq!(
        lines,
        [
            format!("in force: HAMi-core limits 1 card to {LIMIT} bytes each").as_str(),
            // With a clean environment.
            "not in force: HAMi-core does not limit this container",
            "  CUDA_DEVICE_MEMORY_LIMIT is not set",
            &format!("  NVML says that {card} has {LIMIT} bytes"),
            "0",
        ],
        "{mode}"
    );
}

async fn nothing_starts_without(cluster: &Cluster, mode: &str) {
    let name = format!("refused-{mode}");
    cluster.run(&name, &granted("Nobody"), &[(VARIABLE, LIMIT)], "echo started").await;
    let state = cluster.state(&name, &["waiting", "terminated"]).await.to_string();
    assert!(state.contains("divvy.dev/provider=Nobody"), "{mode}: {state}");
    let printed = text(&cluster.kubectl(&["logs", &name]));
    assert!(!printed.contains("started"), "{mode}: {printed}");
}

/// Whatever the runtime makes of a full name beside another in `auto`: the container is limited, or does
/// not start.
async fn nothing_is_unlimited_where_names_are_mixed(cluster: &Cluster) {
    let devices = format!("{},divvy.dev/provider=HAMi-core", Card::a100(3).uuid);
    let line = format!("{CHECKER} || echo unlimited");
    cluster.run("mixed", &devices, &[(VARIABLE, LIMIT)], &line).await;
    cluster.state("mixed", &["waiting", "terminated"]).await;
    let printed = text(&cluster.kubectl(&["logs", "mixed"]));
    assert!(!printed.contains("unlimited"), "{printed}");
}

async fn says_whether_the_limit_is_in_force(cluster: &Cluster) {
    let wait = "trap exit TERM; sleep 1000000 & wait";
    let shared = format!("nvidia.com/gpu={}", Card::a100(3).uuid);
    cluster.run("isolated", &granted("HAMi-core"), &[(VARIABLE, LIMIT)], wait).await;
    cluster.run("unlimited", &granted("HAMi-core"), &[(VARIABLE, "0")], wait).await;
    cluster.run("shared", &shared, &[], wait).await;
    for (pod, code, said) in [
        ("isolated", 0, format!("in force: HAMi-core limits 1 card to {LIMIT} bytes each")),
        ("unlimited", 2, "CUDA_DEVICE_MEMORY_LIMIT is \"0\", which is no limit".to_owned()),
        ("shared", 1, "that cannot be found out".to_owned()),
    ] {
        cluster.state(pod, &["running"]).await;
        let output = cluster.divvy(&["isolation", "check", "pod", &format!("default/{pod}")]);
        let printed = text(&output);
        assert!(printed.contains(&said), "{pod}: {printed}");
        assert_eq!(output.status.code(), Some(code), "{pod}: {printed}");
    }
}

/// Each is a line of docs/isolation.md; should one not hold any more, it can go there.
fn what_the_page_says_that_a_process_can_still_do(cluster: &Cluster) {
    let inside =
        |line: &str| text(&cluster.kubectl(&["exec", "unlimited", "--", "sh", "-c", line]));
    let other = "CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/other CUDA_DEVICE_MEMORY_LIMIT=80g";
    let said = inside(&format!("{other} {CHECKER}"));
    assert!(said.contains("has 85899345920 bytes"), "{said}");
    let said = inside(&format!("mv /etc /old && mkdir /etc && {CHECKER}"));
    assert!(said.contains("/etc/ld.so.preload does not name"), "{said}");
    assert!(said.contains("libvgpu.so is not loaded in this process"), "{said}");
}

async fn no_label_where_it_cannot_work(cluster: &Cluster) {
    cluster.node.change_nvidia_mode("legacy").unwrap();
    let output = cluster.install(&[]);
    assert!(!output.status.success());
    let said = text(&output);
    assert!(said.contains("the runtime's mode is \"legacy\""), "{said}");
    assert_eq!(cluster.provider().await, (Value::Null, Value::Null));
    cluster.node.change_nvidia_mode("auto").unwrap();
    let output = cluster.install(&[]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(cluster.provider().await, (json!("HAMi-core"), json!("nvidia.com/gpu")));
    let specification = cluster.node.path("/etc/cdi/divvy.dev-provider-HAMi-core.json");
    assert!(specification.exists());
    let output = cluster.install(&["--remove"]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(cluster.provider().await, (Value::Null, Value::Null));
    assert!(!specification.exists());
    // What runs keeps its library, and its limit.
    let check = cluster.kubectl(&["exec", "isolated", "--", CHECKER]);
    assert!(check.status.success(), "{}", text(&check));
    nothing_starts_without(cluster, "removed").await;
}

async fn may_change_nothing_but_its_own_nodes_label(cluster: &Cluster) {
    let other = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"}});
    cluster.api.create(&other).await.unwrap();
    let pod = installer(cluster).await;
    let name = pod["metadata"]["name"].as_str().unwrap();
    let token = |more: &[&str]| {
        let mut words = vec!["create", "token", "divvy-provider", "--namespace=divvy-system"];
        words.extend(more);
        text(&cluster.kubectl(&words)).trim().to_owned()
    };
    let bound = format!("--bound-object-name={name}");
    let of_pod = cluster.with_token("pod", &token(&["--bound-object-kind=Pod", &bound])).await;
    let of_nobody = cluster.with_token("nobody", &token(&[])).await;
    let patch = async |api: &Api, node: &str, metadata: &Value| {
        let path = format!("/api/v1/nodes/{node}?dryRun=All");
        let patched = api.patch(&path, &json!({"metadata": metadata})).await;
        patched.err().map(|why| why.to_string()).unwrap_or_default()
    };
    let label = json!({"labels": {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}});
    assert_eq!(patch(&of_pod, Node::NAME, &label).await, "");
    for (api, node, what) in [
        (&of_pod, "other", label.clone()),
        (&of_nobody, Node::NAME, label),
        (&of_pod, Node::NAME, json!({"labels": {"nvidia.com/gpu.count": "9"}})),
        (&of_pod, Node::NAME, json!({"labels": {"nvidia.com/gpu.count": null}})),
        (&of_pod, Node::NAME, json!({"annotations": {"x": "y"}})),
        (&of_pod, Node::NAME, json!({"finalizers": ["example.com/x"]})),
    ] {
        let said = patch(api, node, &what).await;
        assert!(said.contains("divvy-provider may change"), "{node} {what}: {said}");
    }
}
