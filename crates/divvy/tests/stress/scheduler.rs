//! A `divvy scheduler` process.

use crate::arena::{Arena, PATIENCE, US};
use crate::{pages, program};
use divvy_testbed::Process;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The options of one that is alone, in a cluster where nobody scheduled before.
pub const ALONE: [&str; 2] = ["--leader-elect=false", "--takeover-wait=0"];

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A running scheduler. When it is dropped, it is killed, and must not have panicked.
pub struct Divvy {
    pub process: Process,
}

impl Divvy {
    /// Starts one that is alone, and waits until it has seen the cluster.
    pub async fn start(arena: &Arena) -> Self {
        Self::start_with(arena, &ALONE).await
    }

    /// The same with these options.
    pub async fn start_with(arena: &Arena, options: &[&str]) -> Self {
        let mut divvy = Self::spawn(arena, &arena.plane.kubeconfig(), options);
        divvy.ready().await;
        divvy
    }

    /// Starts one and waits for nothing.
    pub fn spawn(arena: &Arena, kubeconfig: &Path, options: &[&str]) -> Self {
        let mut command = program::divvy();
        command.arg("scheduler").arg("--kubeconfig").arg(kubeconfig);
        command.args(["--scheduler-names", US, "--listen", "127.0.0.1:0"]).args(options);
        let name = format!("divvy-{}", STARTED.fetch_add(1, Ordering::Relaxed));
        Self { process: Process::start(command, &name, arena.plane.folder()).unwrap() }
    }

    /// Waits until it says that it is ready.
    pub async fn ready(&mut self) {
        self.until_ready("ok").await;
    }

    /// Waits until it is ready and leads.
    pub async fn leads(&mut self) {
        self.until_ready("ok: leading").await;
    }

    async fn until_ready(&mut self, answer: &str) {
        let end = Instant::now() + PATIENCE;
        while self.page("/readyz").await.is_none_or(|page| !page.contains(answer)) {
            if let Some(status) = self.process.exited() {
                panic!("divvy ended with {status}: {}", self.log());
            }
            assert!(Instant::now() < end, "divvy is not ready: {}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }

    /// Waits until its log contains this.
    pub async fn logged(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.log().contains(text) {
            assert!(Instant::now() < end, "the log does not say {text:?}: {}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Where its pages are.
    pub fn address(&self) -> Option<SocketAddr> {
        pages::address(&self.process)
    }

    /// One of its pages, if the answer is 200.
    pub async fn page(&self, path: &str) -> Option<String> {
        pages::page(&self.process, path).await
    }

    /// Waits until it knows a node or a pod as it is here.
    pub async fn has_seen(&self, object: &Value) {
        pages::has_seen(&self.process, object, PATIENCE).await;
    }

    /// Waits until it has ended; gives how.
    pub async fn ended(&mut self) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.exited() {
                return status;
            }
            assert!(Instant::now() < end, "divvy does not end: {}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Divvy {
    fn drop(&mut self) {
        self.process.kill();
        let log = self.log();
        if !std::thread::panicking() {
            assert!(!log.contains("panicked at"), "{log}");
        }
    }
}
