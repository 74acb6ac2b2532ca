//! The pages of a scheduler, and what they say that it knows.

use divvy_testbed::Process;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Where its pages are, once it says so.
pub fn address(divvy: &Process) -> Option<SocketAddr> {
    let log = std::fs::read_to_string(divvy.log()).unwrap_or_default();
    // One that ran before may have had the same log.
    let line = log.lines().rfind(|line| line.contains("serving health and metrics"))?;
    let at = line.find("127.0.0.1:")?;
    let is_part = |c: &char| c.is_ascii_digit() || ".:".contains(*c);
    line[at..].chars().take_while(is_part).collect::<String>().parse().ok()
}

/// One of its pages, if the answer is 200.
pub async fn page(divvy: &Process, path: &str) -> Option<String> {
    page_at(address(divvy)?, path).await
}

/// A page of anybody, with its head.
pub async fn page_at(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    answer.lines().next()?.contains(" 200 ").then_some(answer)
}

/// Waits until a scheduler knows an object as it is here, or as it was later. What comes by another
/// watch, such as a pod after its node, it may hear of sooner.
pub async fn has_seen(divvy: &Process, object: &Value, patience: Duration) {
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let version: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let gauge = format!("divvy_watch_resource_version{{resource=\"{kind}s\"}} ");
    let end = Instant::now() + patience;
    loop {
        let metrics = page(divvy, "/metrics").await.unwrap_or_default();
        let known = metrics.lines().find_map(|line| line.strip_prefix(&gauge)?.parse::<u64>().ok());
        if known >= Some(version) {
            return;
        }
        assert!(Instant::now() < end, "it knows {kind}s up to {known:?}, not up to {version}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
