//! What a tenant can do, each as much as the API accepts.

use super::{HOSTILE, insist};
use crate::arena::pod_of;
use divvy_testbed::api::{Api, ApiError};
use divvy_testbed::manifests::{with_fraction, with_gpus};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

/// A class that everybody may use.
pub const PRIORITY: &str = "siege-high";

/// A label of the nodes.
const DOMAIN: &str = "nvidia.com/gpu.product";

/// So many pods of different shapes are made, by four at a time, if there is time.
const SHAPES: usize = 10_000;
/// In the short form: to look through what happened to them and to delete them takes its time, too.
const FEWER_SHAPES: usize = 4000;

/// All at once, for so long, on the ports of the scheduler and of the webhooks.
pub async fn all(api: Api, scheduler: SocketAddr, webhooks: SocketAddr, span: Duration) {
    let end = Instant::now() + span;
    let connections = tokio::spawn(connect(scheduler, |_| Ipv4Addr::LOCALHOST, end));
    // No pod has the address of the API server, which keeps connections to them.
    let neighbour = |i: usize| Ipv4Addr::new(127, 0, 9, 1 + (i % 200) as u8);
    let reviews = tokio::spawn(connect(webhooks, neighbour, end));
    let large = tokio::spawn(create(api.clone(), large, LARGE.len() * 6, LARGE.len(), end));
    let is_short = span < Duration::from_secs(600);
    let (least, most) = if is_short { (SHAPES / 50, FEWER_SHAPES) } else { (SHAPES, SHAPES) };
    let shapes = [0, 1, 2, 3].map(|lane| {
        let shape = move |i| shape(4 * i + lane);
        tokio::spawn(create(api.clone(), shape, most / 4, least / 4, end))
    });
    let repel = tokio::spawn(repel(api.clone()));
    let churn = tokio::spawn(churn(api.clone(), end));
    let vanish = tokio::spawn(vanish(api, end));
    for attack in [connections, reviews, churn, vanish, repel] {
        attack.await.unwrap();
    }
    let large = large.await.unwrap();
    let mut different = 0;
    for shapes in shapes {
        different += shapes.await.unwrap().len();
    }
    assert!(different >= least, "only {different} pods of different shapes were accepted");
    println!("accepted: {different} pods of different shapes, and {} large ones", large.len());
    let is_tried = |kind: &usize| large.iter().any(|i| i % LARGE.len() == *kind);
    let missing: Vec<usize> = (0..LARGE.len()).filter(|kind| !is_tried(kind)).collect();
    assert!(
        missing.is_empty(),
        "the API has accepted no pod that is large in the ways {missing:?}"
    );
}

/// Deletes all of it. So many pods may take longer than the server, or the connection, gives one
/// request; each deletes some.
pub async fn take_away(api: &Api) {
    let path = format!("/api/v1/namespaces/{HOSTILE}/pods");
    let now = json!({"gracePeriodSeconds": 0});
    for _ in 0..10 {
        match api.send(Method::DELETE, &path, "application/json", Some(&now)).await {
            Err(
                ApiError::Refused { status: StatusCode::GATEWAY_TIMEOUT, .. }
                | ApiError::NoAnswer { .. },
            ) => {}
            deleted => return drop(deleted.unwrap()),
        }
    }
    panic!("the pods of {HOSTILE} cannot be deleted");
}

/// Creates pods until it is over, but some at least; gives the numbers of those that were accepted.
/// They are so large that a busy API server may give up, and has then to be asked again.
async fn create(
    api: Api,
    pod: impl Fn(usize) -> Value,
    most: usize,
    least: usize,
    end: Instant,
) -> Vec<usize> {
    let mut accepted = Vec::new();
    for i in 0..most {
        if i >= least && Instant::now() > end {
            break;
        }
        let tries = if i < least { 10 } else { 1 };
        for _ in 0..tries {
            if api.create(&pod(i)).await.is_ok() {
                accepted.push(i);
                break;
            }
        }
    }
    accepted
}

/// None of them is to be placed, but for those that say otherwise. A container that asks for no GPU
/// lets the webhooks look at it.
fn pod(name: &str) -> Value {
    let mut pod = with_gpus(pod_of(HOSTILE, name), 16);
    let aside = json!({"name": "aside", "image": "example.com/aside:1"});
    pod["spec"]["containers"].as_array_mut().unwrap().push(aside);
    pod
}

/// The same as a share, which two of the webhooks look at.
fn share(name: &str) -> Value {
    with_fraction(pod_of(HOSTILE, name), "0.5", 16)
}

/// One of ten thousand pods that wait, each of another shape; half of them come before all others.
fn shape(i: usize) -> Value {
    let name = format!("shape-{i}");
    let mut pod = if i.is_multiple_of(3) { pod(&name) } else { share(&name) };
    if i.is_multiple_of(2) {
        pod["spec"]["priorityClassName"] = json!(PRIORITY);
    }
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(format!("{}m", i + 1));
    pod
}

type Enlarge = fn(&mut Value, usize);

/// Each makes a pod about as large as the API server takes it in time.
const LARGE: [Enlarge; 11] = [
    |pod, _| {
        let labels = (0..20_000).map(|i| (format!("l{i}"), json!("v")));
        pod["metadata"]["labels"] = Value::Object(labels.collect());
    },
    |pod, i| {
        let values: Vec<String> = (0..100_000).map(|k| format!("{i}-{k}")).collect();
        let term =
            json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": values}]});
        pod["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        }});
    },
    |pod, i| {
        let term = |k: usize| {
            json!({
                "topologyKey": format!("zone-{i}-{k}"), "namespaceSelector": {},
                "labelSelector": {"matchLabels": {"app": format!("{i}-{k}")}},
            })
        };
        let terms: Vec<Value> = (0..1000).map(term).collect();
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": terms,
        }});
    },
    |pod, i| {
        let spread = |k: usize| {
            json!({
                "topologyKey": format!("zone-{i}-{k}"), "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": format!("{i}-{k}")}},
            })
        };
        pod["spec"]["topologySpreadConstraints"] = (0..500).map(spread).collect();
    },
    |pod, _| pod["metadata"]["annotations"]["note"] = json!("x".repeat(250_000)),
    |pod, i| {
        let variable = |k: usize| json!({"name": format!("V{i}_{k}")});
        pod["spec"]["containers"][0]["env"] = (0..50_000).map(variable).collect();
    },
    |pod, i| {
        let claim = |k: usize| {
            json!({
                "name": format!("v-{k}"),
                "persistentVolumeClaim": {"claimName": format!("c-{i}-{k}")},
            })
        };
        pod["spec"]["volumes"] = (0..3000).map(claim).collect();
    },
    |pod, i| {
        let toleration = |k: usize| json!({"key": format!("t-{i}-{k}"), "operator": "Exists"});
        pod["spec"]["tolerations"] = (0..5000).map(toleration).collect();
    },
    |pod, i| {
        // About labels that nodes have, and with rules that take long to ask.
        let spread = |key: &str| {
            json!({
                "topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": format!("spread-{i}")}},
            })
        };
        let labels = [DOMAIN, "nvidia.com/gpu.count", "nvidia.com/gpu.memory"];
        pod["spec"]["topologySpreadConstraints"] = labels.into_iter().map(spread).collect();
        let none = |k: usize| json!({"key": format!("none-{i}-{k}"), "operator": "DoesNotExist"});
        let none: Vec<Value> = (0..400).map(none).collect();
        pod["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": none}]},
        }});
    },
    |pod, i| {
        // Each is about all pods of the namespace, and they are many.
        let term = |k: usize| {
            json!({
                "topologyKey": DOMAIN,
                "labelSelector": {"matchExpressions":
                    [{"key": format!("none-{i}-{k}"), "operator": "DoesNotExist"}]},
            })
        };
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution":
                (0..16).map(term).collect::<Vec<_>>(),
        }});
    },
    |pod, i| {
        let resources = &mut pod["spec"]["containers"][0]["resources"];
        for k in 0..5000 {
            resources["limits"][format!("example.com/r-{i}-{k}")] = json!("1");
        }
    },
];

fn large(i: usize) -> Value {
    let mut pod = share(&format!("large-{i}"));
    LARGE[i % LARGE.len()](&mut pod, i);
    pod
}

/// Pods that run, and want nobody of their namespace near: all others have to say who keeps them off.
async fn repel(api: Api) {
    for i in 0..60 {
        let mut pod = pod_of(HOSTILE, &format!("repels-{i}"));
        pod["spec"]["nodeName"] = json!("a100-0");
        let none = |k: usize| json!({"key": format!("none-{k}"), "operator": "DoesNotExist"});
        let mut none: Vec<Value> = (0..15).map(none).collect();
        // All but the last differ from those that keep others off in nothing but this.
        if i < 59 {
            none.push(json!({"key": format!("only-{i}"), "operator": "Exists"}));
        }
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution":
                [{"topologyKey": DOMAIN, "labelSelector": {"matchExpressions": none}}],
        }});
        insist(&api, &pod).await;
    }
}

/// Connections that say nothing, or one byte now and then.
async fn connect(port: SocketAddr, from: impl Fn(usize) -> Ipv4Addr, end: Instant) {
    let mut open = Vec::new();
    for i in (0..).step_by(50) {
        if Instant::now() > end {
            return;
        }
        for i in i..i + 50 {
            // Whoever is sent away comes again.
            if let Ok(stream) = stream(from(i), port).await {
                open.push(stream);
            }
        }
        for stream in open.iter_mut().step_by(3) {
            let _ = stream.write_all(b"G").await;
        }
        if open.len() > 2000 {
            open.drain(..1000);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn stream(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}

/// Pods that come and go, each with names that nobody has heard of.
async fn churn(api: Api, end: Instant) {
    for i in 0.. {
        if Instant::now() > end {
            return;
        }
        let name = format!("churn-{i}");
        let mut pod = pod(&name);
        pod["metadata"]["labels"] = json!({(format!("label-{i}")): "v"});
        pod["spec"]["nodeSelector"] = json!({(format!("node-label-{i}")): "v"});
        pod["spec"]["containers"][0]["resources"]["limits"][format!("example.com/c-{i}")] =
            json!("1");
        insist(&api, &pod).await;
        api.delete(&format!("/api/v1/namespaces/{HOSTILE}/pods/{name}")).await.unwrap();
    }
}

/// Shares that are deleted by force while their containers run.
async fn vanish(api: Api, end: Instant) {
    for i in 0.. {
        let name = format!("ghost-{i}");
        insist(&api, &with_fraction(pod_of(HOSTILE, &name), "0.1", 1)).await;
        let path = format!("/api/v1/namespaces/{HOSTILE}/pods/{name}");
        while api.get(&path).await.unwrap()["spec"]["nodeName"].is_null() {
            if Instant::now() > end {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let runs = json!({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}});
        api.patch(&format!("{path}/status"), &runs).await.unwrap();
        api.delete(&path).await.unwrap();
    }
}
