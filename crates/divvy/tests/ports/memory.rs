//! An admission replica stays below the limit of its manifest, whatever is posted to it, and decides
//! on what the API server shows it meanwhile.

use crate::limits::memory_limit;
use crate::reviews::{Hostile, hostile, large_share, talkative};
use crate::server::{PATIENCE, Server, is_allowed, post};
use divvy_testbed::api::Api;
use divvy_testbed::manifests::webhooks_at;
use divvy_testbed::{ControlPlane, Programs};
use http::{Method, StatusCode};
use hyper::body::Bytes;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

/// All that take reviews; the last two take those of what makes pods.
const PAGES: [&str; 5] = ["/mutate", "/void", "/validate", "/warn", "/template"];

/// Posts until it is decided on, and is told what: on a busy machine, beside so many others, it may
/// have to wait too long for its turn. Nobody is to wait for a warning: it is given at once or not at all.
async fn decided(server: Arc<Server>, from: [u8; 4], page: &'static str, body: Bytes) -> String {
    let decided = async {
        loop {
            let mut client = server.connect(from).await.unwrap();
            let (status, answer) = post(&mut client, page, body.clone()).await.unwrap();
            if page == "/warn" && status == StatusCode::SERVICE_UNAVAILABLE {
                return answer;
            }
            if status != StatusCode::REQUEST_TIMEOUT {
                assert_eq!(status, StatusCode::OK, "{answer}");
                return answer;
            }
        }
    };
    tokio::time::timeout(PATIENCE, decided).await.unwrap()
}

/// Sends so much of the body of a review, and not the rest, again and again.
async fn stall(server: Arc<Server>, from: [u8; 4], bytes: usize) {
    let head = "POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-length: 7000000\r\n\r\n";
    let text = [head.as_bytes(), &vec![b' '; bytes]].concat();
    loop {
        let Some(mut stream) = server.secured(from).await else { continue };
        if stream.write_all(&text).await.is_ok() {
            let mut answer = [0; 1024];
            while stream.read(&mut answer).await.is_ok_and(|count| count > 0) {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_reviews_at_once_and_unfinished_ones_stay_within_the_limit() {
    let server = Arc::new(Server::admission("memory").await);
    let mut neighbours = JoinSet::new();
    for number in 0..400 {
        let from = [127, 0, 3, 1 + (number % 200) as u8];
        neighbours.spawn(stall(Arc::clone(&server), from, 60 << 10));
    }
    for pair in hostile().chunks(2) {
        let mut posts = JoinSet::new();
        let all = pair.iter().flat_map(|one| PAGES.map(|page| (page, one)));
        for (number, (page, Hostile { pod, owner, .. })) in (1..).zip(all) {
            let body = if ["/warn", "/template"].contains(&page) { owner } else { pod };
            posts.spawn(decided(Arc::clone(&server), [127, 0, 2, number], page, body.clone()));
        }
        posts.join_all().await;
        let peak = server.peak();
        let limit = memory_limit("admission.yaml");
        assert!(peak < limit, "{} and {}: {peak} of {limit} bytes", pair[0].name, pair[1].name);
    }
}

fn request(page: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("POST {page} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// Posts a review until it is decided on, and reads no more of the answer than its status. The
/// connection is for the caller to keep open.
async fn post_and_leave(
    server: Arc<Server>,
    from: [u8; 4],
    page: &'static str,
    body: Bytes,
) -> TlsStream<TcpStream> {
    loop {
        let Some(mut stream) = server.secured(from).await else { continue };
        let mut status = *b"HTTP/1.1 nnn";
        if stream.write_all(&request(page, &body)).await.is_ok()
            && stream.read_exact(&mut status).await.is_ok()
            && status != *b"HTTP/1.1 408"
        {
            return stream;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads_stay_within_the_limit() {
    for (name, body, connections) in talkative() {
        let server = Arc::new(Server::admission(&format!("unread-{name}")).await);
        let mut posts = JoinSet::new();
        for number in 0..connections {
            let from = [127, 0, 4, 1 + (number % 200) as u8];
            // A patch of all containers is what the first page makes.
            let page = if name == "patch" { PAGES[0] } else { PAGES[number % PAGES.len()] };
            posts.spawn(post_and_leave(Arc::clone(&server), from, page, body.clone()));
        }
        let _open = tokio::time::timeout(PATIENCE, posts.join_all()).await.unwrap();
        let (peak, limit) = (server.peak(), memory_limit("admission.yaml"));
        assert!(peak < limit, "{name}: {peak} of {limit} bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_its_answer_is_disconnected() {
    let server = Arc::new(Server::admission("unread").await);
    let (_, body, _) = talkative().pop().unwrap();
    // Answers of far more than what the kernel keeps for a connection.
    let requests = request(PAGES[0], &body).repeat(100);
    let mut stream = server.secured([127, 0, 4, 1]).await.unwrap();
    let end = async { while stream.write_all(&requests).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, end).await.unwrap();
    // Whoever comes next has its turn.
    let answer = decided(server, [127, 0, 0, 1], PAGES[0], large_share()).await;
    assert!(is_allowed(&answer), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_neighbour_that_sends_slowly_keeps_no_large_review_of_others_waiting() {
    let server = Arc::new(Server::admission("slow").await);
    let mut neighbours = JoinSet::new();
    for _ in 0..20 {
        neighbours.spawn(stall(Arc::clone(&server), [127, 0, 2, 1], 100 << 10));
    }
    for _ in 0..10 {
        let answer = decided(Arc::clone(&server), [127, 0, 0, 1], PAGES[0], large_share()).await;
        assert!(is_allowed(&answer), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_240000_variables_is_prepared_and_its_reviews_stay_within_the_limit() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ports").join("cluster");
    let _ = std::fs::remove_dir_all(&folder);
    let started = Programs::build(&mut |_| {}).and_then(|p| ControlPlane::start(&p, &folder));
    let plane = match started {
        Ok(plane) => plane,
        Err(why) => {
            // Not by println, which the test runner hides.
            let _ = writeln!(std::io::stdout(), "skipped: {why}");
            return;
        }
    };
    let api = Api::connect(&plane).await.unwrap();
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"}, "handler": "nvidia"});
    api.create(&class).await.unwrap();
    let server = Server::admission("variables").await;
    // Without a CA of its own it tells nobody; so the test does.
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/webhooks.yaml");
    let text = webhooks_at(server.address, &std::fs::read_to_string(manifest).unwrap());
    let bundle = format!("clientConfig:\n    caBundle: {}", server.ca_bundle());
    let file = folder.join("webhooks.yaml");
    std::fs::write(&file, text.replace("clientConfig:", &bundle)).unwrap();
    let applied = plane.kubectl().args(["apply", "-f"]).arg(&file).output().unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let pod = |name: &str, fraction: &str, variables: usize| {
        let env: Vec<Value> = vec![json!({"name": "a"}); variables];
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "default", "name": name, "annotations": {"gpu-fraction": fraction}},
            "spec": {"schedulerName": "divvy-scheduler",
                "containers": [{"name": "main", "image": "x", "env": env}]},
        })
    };
    // The API server takes a moment to know of them.
    let wrong = pod("wrong", "7", 0);
    let known = async {
        while !api
            .create(&wrong)
            .await
            .is_err_and(|why| why.to_string().contains("smaller than 1.0"))
        {
            let _ = api.delete("/api/v1/namespaces/default/pods/wrong").await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, known).await.unwrap();
    // The API server takes it and shows it to all; etcd would not keep it.
    let path = "/api/v1/namespaces/default/pods?dryRun=All";
    let many = pod("many", "0.5", 240_000);
    let prepared = api.send(Method::POST, path, "application/json", Some(&many)).await.unwrap();
    let env = prepared["spec"]["containers"][0]["env"].as_array().unwrap();
    assert_eq!(env.len(), 240_004);
    assert_eq!(env[0]["name"], "NVIDIA_VISIBLE_DEVICES");
    let limit = memory_limit("admission.yaml");
    assert!(server.peak() < limit, "{} of {limit} bytes", server.peak());
}
