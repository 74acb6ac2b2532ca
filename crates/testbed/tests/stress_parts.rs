//! The parts of the testbed that stress tests stand on: kwok, controllers, history, proxy.
#![allow(clippy::unwrap_used)]

use divvy_testbed::api::{Api, ApiError};
use divvy_testbed::history::History;
use divvy_testbed::manifests::{GpuNode, pod};
use divvy_testbed::proxy::{Fault, Proxy, Target};
use divvy_testbed::{ControlPlane, Kwok, KwokPods, Programs, Unavailable};
use http::StatusCode;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("divvy-{name}-{}", std::process::id()))
}

/// What was started, or a line that says why the test is skipped.
fn or_skip<T>(started: Result<T, Unavailable>) -> Option<T> {
    let say = |why| writeln!(std::io::stdout(), "skipped: {why}");
    started.map_err(|why| say(why).unwrap()).ok()
}

fn start(folder: &Path) -> Option<ControlPlane> {
    let programs = Programs::build(&mut |_| {});
    or_skip(programs.and_then(|programs| ControlPlane::start(&programs, folder)))
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_and_kwok_run_what_is_bound() {
    let folder = folder("controllers");
    let programs = Programs::build(&mut |_| {});
    let kwok = Kwok { pods: KwokPods::Run, heartbeat: Duration::from_secs(20) };
    let start = || ControlPlane::start_with_controllers(&programs?, &folder)?.with_kwok(kwok);
    let Some(plane) = or_skip(start()) else { return };
    let api = Api::connect(&plane).await.unwrap();
    let history = History::record(&api).await.unwrap();
    api.create(&GpuNode::T4.node("t4")).await.unwrap();
    let is_ready = |node: &serde_json::Value| {
        node["spec"]["taints"].is_null() && node["status"]["conditions"][0]["status"] == "True"
    };
    let ready = |now: &divvy_testbed::history::Now| now.nodes.values().any(is_ready);
    history.until("a node is ready and has no taint", PATIENCE, ready).await.unwrap();
    let mut bound = pod("default", "a", "nobody");
    bound["spec"]["nodeName"] = json!("t4");
    api.create(&bound).await.unwrap();
    let phase = |now: &divvy_testbed::history::Now| {
        now.pods.get("default/a").is_some_and(|pod| pod["status"]["phase"] == "Running")
    };
    history.until("the pod runs", PATIENCE, phase).await.unwrap();
    assert_eq!(history.look(|now| now.bound("default")), 1);
    drop(plane);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_fails_as_it_is_told_and_counts() {
    let folder = folder("proxy");
    let Some(plane) = start(&folder) else { return };
    let direct = Api::connect(&plane).await.unwrap();
    let proxy = Proxy::start(&direct).await.unwrap();
    let kubeconfig = plane.kubeconfig_through("kubeconfig-proxy", proxy.url()).unwrap();
    let api = Api::from_kubeconfig(&kubeconfig).await.unwrap();
    let status = |result: Result<_, ApiError>| match result {
        Err(ApiError::Refused { status, .. }) => Some(status),
        _ => None,
    };

    let conflict = Fault::Status(StatusCode::CONFLICT);
    proxy.inject(Target::Writes, conflict, 1);
    assert!(api.get("/api/v1/nodes").await.is_ok(), "a read is no write");
    let node = GpuNode::A100.node("n");
    assert_eq!(status(api.create(&node).await), Some(StatusCode::CONFLICT));
    proxy.inject(Target::Writes, Fault::LoseAnswer, 1);
    assert!(matches!(api.create(&node).await, Err(ApiError::NoAnswer { .. })));
    assert_eq!(status(api.create(&node).await), Some(StatusCode::CONFLICT), "it was made");
    // Who makes or deletes many asks again.
    proxy.inject(Target::Writes, Fault::LoseAnswer, 1);
    api.create_all(vec![GpuNode::A100.node("asked-twice")], 1).await.unwrap();
    proxy.inject(Target::Writes, Fault::LoseAnswer, 1);
    api.delete_all(vec!["/api/v1/nodes/asked-twice".to_owned()], 1).await.unwrap();
    assert!(direct.get("/api/v1/nodes/asked-twice").await.is_err());
    proxy.inject(Target::Any, Fault::TooMany { retry_after: 1 }, 1);
    let answer = api.get("/api/v1/nodes").await;
    assert_eq!(status(answer), Some(StatusCode::TOO_MANY_REQUESTS));
    assert_eq!(proxy.counts()["POST nodes"], 5);
    assert_eq!(proxy.counts()["LIST nodes"], 2);
    assert_eq!(proxy.injected(), 5);

    proxy.inject(Target::Writes, Fault::Held, 1);
    let held = tokio::spawn(async move { api.create(&GpuNode::A100.node("held")).await });
    while proxy.injected() < 6 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(direct.get("/api/v1/nodes/held").await.is_err() && !proxy.is_quiet());
    proxy.heal();
    held.await.unwrap().unwrap();
    // The client is gone with its task.
    while !proxy.is_quiet() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let api = Api::from_kubeconfig(&kubeconfig).await.unwrap();
    let history = History::record(&api).await.unwrap();
    proxy.cut_watches();
    api.create(&GpuNode::A100.node("m")).await.unwrap();
    direct.delete("/api/v1/nodes/n").await.unwrap();
    history.catch_up(PATIENCE).await.unwrap();
    assert_eq!(history.look(|now| now.nodes.keys().cloned().collect::<Vec<_>>()), ["held", "m"]);
    proxy.expire_watches();
    let gap = history.until("never", PATIENCE, |_| false).await.unwrap_err();
    assert!(gap.contains("410"), "{gap}");
    drop(plane);
    std::fs::remove_dir_all(&folder).unwrap();
}
