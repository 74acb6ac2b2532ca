//! Who looks on: when pods are bound, whether probes are answered, how much memory is taken.

use divvy_testbed::Process;
use divvy_testbed::api::{Api, JSON, Lines};
use rustls::pki_types::ServerName;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// How long pods waited.
#[derive(Default)]
pub struct Waits {
    all: Vec<Duration>,
    /// How often one had to be made again, as the webhooks were late.
    pub refused: usize,
}

impl Waits {
    pub fn add(&mut self, wait: Duration) {
        self.all.push(wait);
    }

    pub fn print(&mut self, when: &str) {
        self.all.sort_unstable();
        let at = |percent: usize| self.all[(self.all.len() - 1) * percent / 100].as_millis();
        println!(
            "{when}: {} pods, created to bound in {} ms (half of them), {} ms (99 %), {} ms (all); \
             {} tries were refused",
            self.all.len(),
            at(50),
            at(99),
            at(100),
            self.refused,
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

/// Where a process answers, and who believes it, if it speaks TLS.
#[derive(Clone)]
pub struct Door {
    pub address: SocketAddr,
    pub tls: Option<TlsConnector>,
}

/// As the kubelet asks: each time by a new connection. It would take three failures in a row to end the
/// process; here is none.
pub struct Probes {
    task: JoinHandle<()>,
    answered: Arc<AtomicUsize>,
}

/// What the manifests of `deploy/` say.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);

impl Probes {
    pub fn start(door: Door) -> Self {
        let answered = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&answered);
        let task = tokio::spawn(async move {
            for page in ["/livez", "/readyz"].iter().cycle() {
                let asked = tokio::time::timeout(PROBE_PATIENCE, answers(&door, page)).await;
                assert_eq!(asked, Ok(Some(true)), "a probe of {page} failed");
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        });
        Self { task, answered }
    }

    /// Fails if probes of this process did.
    pub async fn end(self, process: &Process) {
        self.task.abort();
        match self.task.await {
            Err(end) if end.is_cancelled() => {}
            other => {
                let log = std::fs::read_to_string(process.log()).unwrap_or_default();
                panic!("{}: {other:?}: {log}", process.name());
            }
        }
        let answered = self.answered.load(Ordering::Relaxed);
        println!("{}: {answered} probes were answered, and none was not", process.name());
    }
}

async fn answers(door: &Door, page: &str) -> Option<bool> {
    let stream = TcpStream::connect(door.address).await.ok()?;
    let Some(tls) = &door.tls else { return asked(stream, page).await };
    let name = ServerName::from(door.address.ip());
    asked(tls.connect(name, stream).await.ok()?, page).await
}

async fn asked(mut stream: impl AsyncRead + AsyncWrite + Unpin, page: &str) -> Option<bool> {
    let asked = format!("GET {page} HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n");
    stream.write_all(asked.as_bytes()).await.ok()?;
    let mut status = *b"HTTP/1.1 nnn";
    stream.read_exact(&mut status).await.ok()?;
    Some(status == *b"HTTP/1.1 200")
}
