//! Who looks on: when pods are bound, whether probes are answered, how much memory is taken.

use crate::scheduler::Divvy;
use divvy_testbed::api::{Api, JSON, Lines};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// How long pods waited.
#[derive(Default)]
pub struct Waits(Vec<Duration>);

impl Waits {
    pub fn add(&mut self, wait: Duration) {
        self.0.push(wait);
    }

    pub fn print(&mut self, when: &str) {
        self.0.sort_unstable();
        let at = |percent: usize| self.0[(self.0.len() - 1) * percent / 100].as_millis();
        println!(
            "{when}: {} pods, created to bound in {} ms (half of them), {} ms (99 %), {} ms (all)",
            self.0.len(),
            at(50),
            at(99),
            at(100),
        );
    }
}

/// The pods of a namespace that are bound, by a watch of its own.
pub struct Bound {
    lines: Lines,
    names: BTreeSet<String>,
}

impl Bound {
    pub async fn watch(api: &Api, namespace: &str) -> Self {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let list = api.get(&path).await.unwrap();
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let uri = format!("{path}?watch=true&resourceVersion={version}");
        Self { lines: api.watch(&uri, JSON).await.unwrap(), names: BTreeSet::new() }
    }

    /// Waits until the pod is bound.
    pub async fn until(&mut self, name: &str) {
        while !self.names.remove(name) {
            let line = self.lines.next().await.expect("the watch goes on");
            let event: Value = serde_json::from_slice(&line).unwrap();
            if event["type"] != "DELETED" && event["object"]["spec"]["nodeName"].is_string() {
                let name = event["object"]["metadata"]["name"].as_str().unwrap();
                self.names.insert(name.to_owned());
            }
        }
    }
}

/// As the kubelet asks: each time by a new connection, and three failures in a row end the process.
pub struct Probes {
    task: JoinHandle<()>,
    count: Arc<Count>,
}

#[derive(Default)]
struct Count {
    answered: AtomicUsize,
    failed: AtomicUsize,
}

/// What deploy/scheduler.yaml says.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);
const FAILURES: usize = 3;

impl Probes {
    pub fn start(address: SocketAddr) -> Self {
        let count = Arc::<Count>::default();
        let counted = Arc::clone(&count);
        let task = tokio::spawn(async move {
            let mut in_a_row = 0;
            for page in ["/livez", "/readyz"].iter().cycle() {
                let asked = tokio::time::timeout(PROBE_PATIENCE, answers(address, page)).await;
                if asked == Ok(Some(true)) {
                    in_a_row = 0;
                    counted.answered.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(300)).await;
                } else {
                    in_a_row += 1;
                    counted.failed.fetch_add(1, Ordering::Relaxed);
                }
                assert!(in_a_row < FAILURES, "{FAILURES} probes failed, the last of {page}");
            }
        });
        Self { task, count }
    }

    /// Fails if probes did.
    pub async fn end(self, divvy: &Divvy) {
        self.task.abort();
        match self.task.await {
            Err(end) if end.is_cancelled() => {}
            other => panic!("{other:?}: {}", divvy.log()),
        }
        let [answered, failed] =
            [&self.count.answered, &self.count.failed].map(|n| n.load(Ordering::Relaxed));
        println!("{answered} probes were answered, {failed} were not");
    }
}

async fn answers(address: SocketAddr, page: &str) -> Option<bool> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let asked = format!("GET {page} HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n");
    stream.write_all(asked.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer.starts_with("HTTP/1.1 200"))
}
