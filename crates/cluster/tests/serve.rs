//! The pages over real HTTP.
#![allow(clippy::unwrap_used)]

use divvy_cluster::health::Health;
use divvy_cluster::metrics::Metrics;
use divvy_cluster::serve::serve;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn start(health: &Health) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, Metrics::new(), health.clone()));
    address
}

/// Sends bytes and returns all that comes back.
async fn send(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The other side may hang up before it has read all of it.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

async fn ask(address: SocketAddr, method: &str, path: &str) -> (u16, String) {
    let request = format!("{method} {path} HTTP/1.1\r\nhost: divvy\r\n\r\n");
    let answer = send(address, request.as_bytes()).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

const PATIENT: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn the_pages_follow_the_life_of_a_scheduler() {
    let health = Health::new(["pods"], PATIENT);
    let address = start(&health).await;
    let page = async |path| ask(address, "GET", path).await;
    let text = |code, text: &str| (code, text.to_owned());
    assert_eq!(page("/livez").await, text(200, "ok\n"));
    assert_eq!(page("/healthz").await, text(200, "ok\n"));
    assert_eq!(page("/readyz").await, text(503, "starting\n"));
    health.waits();
    assert_eq!(page("/readyz").await, text(200, "ok: waiting: another process leads\n"));
    health.leads();
    assert_eq!(page("/readyz").await, text(503, "waiting for the first list of pods\n"));
    health.listed("pods");
    assert_eq!(page("/readyz").await, text(200, "ok: leading\n"));
    assert_eq!(page("/readyz?verbose").await, text(200, "ok: leading\n"));
}

#[tokio::test]
async fn a_loop_that_hangs_is_named() {
    let health = Health::new([], Duration::ZERO);
    health.beat("deciding");
    health.leads();
    let (code, text) = ask(start(&health).await, "GET", "/livez").await;
    assert_eq!(code, 503);
    assert!(text.starts_with("the scheduler loop hangs: deciding for "), "{text}");
}

#[tokio::test]
async fn metrics_are_open_metrics() {
    let address = start(&Health::new([], PATIENT)).await;
    let answer = send(address, b"GET /metrics HTTP/1.0\r\n\r\n").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200 OK"), "{head}");
    let content = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.contains(content), "{head}");
    assert!(body.contains("\ndivvy_leader 0\n") && body.ends_with("# EOF\n"), "{body}");
}

#[tokio::test]
async fn only_reading_known_pages_is_allowed() {
    let address = start(&Health::new([], PATIENT)).await;
    for (method, path, code, body) in [
        ("GET", "/", 404, "try /livez, /readyz or /metrics\n"),
        ("GET", "/livez/", 404, "try /livez, /readyz or /metrics\n"),
        ("GET", "/../etc/passwd", 404, "try /livez, /readyz or /metrics\n"),
        ("HEAD", "/livez", 200, ""),
        ("HEAD", "/metrics", 200, ""),
        ("POST", "/livez", 405, "only GET and HEAD are allowed\n"),
        ("DELETE", "/metrics", 405, "only GET and HEAD are allowed\n"),
    ] {
        let answer = ask(address, method, path).await;
        assert_eq!(answer, (code, body.to_owned()), "{method} {path}");
    }
}

#[tokio::test]
async fn hostile_requests_do_not_keep_others_from_an_answer() {
    let address = start(&Health::new([], PATIENT)).await;
    let long = "a".repeat(1 << 20);
    for (bytes, expected) in [
        (b"\0\xff\x16\x03\x01 garbage\r\n\r\n".to_vec(), "400"),
        (format!("GET /livez HTTP/1.1\r\nx: {long}\r\n\r\n").into_bytes(), "431"),
        (format!("GET /{long} HTTP/1.1\r\n\r\n").into_bytes(), "4"),
        (b"GET /livez HTTP/9.9\r\n\r\n".to_vec(), "400"),
    ] {
        let answer = send(address, &bytes).await;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        // The connection may be reset before the answer is read.
        assert!(answer.is_empty() || status.starts_with(expected), "{answer}");
    }
    // Clients that say nothing, or half of something, and stay.
    let mut idle = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /livez HTT").await.unwrap();
        idle.push(stream);
    }
    assert_eq!(ask(address, "GET", "/livez").await.0, 200);
}
