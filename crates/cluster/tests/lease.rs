//! Leader election and fencing on a real API server.
#![allow(clippy::unwrap_used)]

use divvy_api::{Config, Fence, config};
use divvy_cluster::lease::{Leadership, LeaseSettings, Lost, lead};
use divvy_testbed::api::Api;
use divvy_testbed::proxy::{Fault, Proxy, Target};
use divvy_testbed::{ControlPlane, Programs};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The kubeconfig of one control plane for all tests, or a line that says why they are skipped.
fn kubeconfig() -> Option<PathBuf> {
    static PLANE: OnceLock<Option<ControlPlane>> = OnceLock::new();
    let plane = PLANE.get_or_init(|| {
        // Nothing drops what is in a static, so the files of the last run go now.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lease");
        let _ = std::fs::remove_dir_all(&folder);
        let programs = Programs::build(&mut |_| {});
        let plane = programs.and_then(|programs| ControlPlane::start(&programs, &folder));
        // Not by println, which the test runner hides.
        plane.inspect_err(|why| drop(writeln!(std::io::stdout(), "skipped: {why}"))).ok()
    });
    Some(plane.as_ref()?.kubeconfig())
}

/// One lease and what is known about the way to it.
struct Stage {
    kubeconfig: PathBuf,
    lease: &'static str,
    api: Api,
    direct: Config,
}

impl Stage {
    async fn set(lease: &'static str) -> Option<Self> {
        let kubeconfig = kubeconfig()?;
        let api = Api::from_kubeconfig(&kubeconfig).await.unwrap();
        let direct = config(Some(&kubeconfig), None).await.unwrap();
        Some(Self { kubeconfig, lease, api, direct })
    }

    fn path(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/default/leases/{}", self.lease)
    }

    async fn spec(&self) -> Value {
        self.api.get(&self.path()).await.unwrap()["spec"].take()
    }

    async fn wait_for_renewals(&self, times: usize) {
        let mut last = self.spec().await["renewTime"].take();
        for _ in 0..times {
            let mut now = last.clone();
            while now == last {
                pause().await;
                now = self.spec().await["renewTime"].take();
            }
            last = now;
        }
    }

    fn replica(&self) -> Replica {
        let mut settings = LeaseSettings::new("default", self.lease).unwrap();
        settings.duration = Duration::from_secs(6);
        settings.renew_deadline = Duration::from_secs(5);
        settings.retry = Duration::from_millis(200);
        Replica {
            settings,
            fence: Fence::elected(Duration::from_secs(15)),
            config: self.direct.clone(),
        }
    }

    /// Its lease does not expire within a test: whoever takes over does so for another reason.
    fn lasting_replica(&self) -> Replica {
        let mut replica = self.replica();
        replica.settings.duration = Duration::from_secs(7200);
        replica.settings.renew_deadline = Duration::from_secs(3600);
        replica
    }
}

/// A process that wants to lead.
struct Replica {
    settings: LeaseSettings,
    fence: Fence,
    config: Config,
}

impl Replica {
    fn through(mut self, proxy: &Proxy) -> Self {
        self.config.cluster_url = proxy.url().parse().unwrap();
        self
    }

    async fn lead(&self) -> Leadership {
        let api = connect(&self.config, &Fence::open());
        lead(api, self.settings.clone(), self.fence.clone()).await.unwrap()
    }

    fn apply(self) -> (Arc<Self>, JoinHandle<Leadership>) {
        let replica = Arc::new(self);
        let candidate = replica.clone();
        (replica, tokio::spawn(async move { candidate.lead().await }))
    }
}

fn connect(config: &Config, fence: &Fence) -> divvy_api::Api {
    divvy_api::Api::connect(config.clone(), fence.clone()).unwrap()
}

/// Between two looks at a condition.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

async fn wait_for_looks(proxy: &Proxy, least: usize) {
    while proxy.counts().get("GET leases").is_none_or(|count| *count < least) {
        pause().await;
    }
}

#[tokio::test]
async fn one_leads_and_the_other_takes_over_only_after_expiry() {
    let Some(stage) = Stage::set("expiry").await else { return };
    let first = stage.replica();
    let leadership = first.lead().await;
    let (second, waiting) = stage.replica().apply();
    // For longer than the lease lasts without.
    stage.wait_for_renewals(40).await;
    assert_eq!(stage.spec().await["holderIdentity"], json!(first.settings.identity));
    assert!(!waiting.is_finished() && first.fence.is_open() && !second.fence.is_open());

    // As if it were killed: it neither renews nor gives the lease back.
    drop(leadership);
    let _second = waiting.await.unwrap();
    assert!(!first.fence.is_open(), "both could write");
    assert!(second.fence.is_open());
    let spec = stage.spec().await;
    assert_eq!(spec["holderIdentity"], json!(second.settings.identity));
    assert_eq!((&spec["leaseTransitions"], &spec["leaseDurationSeconds"]), (&json!(1), &json!(6)));
}

#[tokio::test]
async fn a_released_lease_is_taken_at_the_next_look() {
    let Some(stage) = Stage::set("released").await else { return };
    let first = stage.lasting_replica();
    let leadership = first.lead().await;
    let (second, waiting) = stage.lasting_replica().apply();
    leadership.release().await;
    assert!(!first.fence.is_open());
    let _second = waiting.await.unwrap();
    assert!(second.fence.is_open());
}

#[tokio::test]
async fn a_leader_without_the_api_stops_before_the_other_starts() {
    let Some(stage) = Stage::set("cut").await else { return };
    let proxy = Proxy::start(&stage.api).await.unwrap();
    let first = stage.replica().through(&proxy);
    let mut leadership = first.lead().await;
    // Only the lease is out of reach: what stops the write is the fence alone.
    let fenced = connect(&stage.direct, &first.fence);
    let read = async || fenced.get(&stage.path()).await;
    read().await.unwrap();
    let second = Arc::new(stage.replica());
    let (candidate, fence) = (second.clone(), first.fence.clone());
    // What counts is how it was when the other one began, however late we look.
    let waiting = tokio::spawn(async move { (candidate.lead().await, fence.is_open()) });
    proxy.inject(Target::Any, Fault::Drop, usize::MAX);
    let lost = leadership.lost().await;
    assert!(matches!(&lost, Lost::Expired(why) if !why.is_empty()), "{lost}");
    assert_eq!(leadership.lost().await, lost, "it can be asked again");
    assert!(!first.fence.is_open());
    assert!(read().await.is_err(), "sent on an open connection");
    let (_second, both) = waiting.await.unwrap();
    assert!(!both, "the other one led before the fence was closed");
    assert!(second.fence.is_open());
}

#[tokio::test]
async fn faults_that_pass_do_not_cost_the_lease() {
    let Some(stage) = Stage::set("faults").await else { return };
    let proxy = Proxy::start(&stage.api).await.unwrap();
    // The answer to taking the lease is lost: it is ours without our knowing.
    proxy.inject(Target::Leases, Fault::LoseAnswer, 1);
    let replica = stage.lasting_replica().through(&proxy);
    let leadership = replica.lead().await;
    let status = |code| Fault::Status(http::StatusCode::from_u16(code).unwrap());
    let faults = [
        Fault::Drop,
        Fault::LoseAnswer,
        Fault::TooMany { retry_after: 1 },
        status(409),
        status(500),
        status(503),
    ];
    for fault in faults {
        let before = proxy.injected();
        proxy.inject(Target::Leases, fault, 2);
        while proxy.injected() < before + 2 {
            pause().await;
        }
        stage.wait_for_renewals(2).await;
        assert!(replica.fence.is_open(), "{fault:?}");
    }
    assert_eq!(stage.spec().await["leaseTransitions"], json!(0));
    leadership.release().await;
}

#[tokio::test]
async fn a_lease_that_is_taken_by_hand_is_lost() {
    let Some(stage) = Stage::set("taken").await else { return };
    let replica = stage.lasting_replica();
    let mut leadership = replica.lead().await;
    let patch = json!({"spec": {"holderIdentity": "thief"}});
    stage.api.patch(&stage.path(), &patch).await.unwrap();
    assert_eq!(leadership.lost().await, Lost::Taken("thief".to_owned()));
    assert!(!replica.fence.is_open());
}

#[tokio::test]
async fn a_lease_that_is_deleted_is_lost() {
    let Some(stage) = Stage::set("deleted").await else { return };
    let replica = stage.lasting_replica();
    let mut leadership = replica.lead().await;
    stage.api.delete(&stage.path()).await.unwrap();
    assert_eq!(leadership.lost().await, Lost::Deleted);
    assert!(!replica.fence.is_open());
}

#[tokio::test]
async fn a_candidate_waits_also_when_the_lease_it_saw_is_deleted() {
    let Some(stage) = Stage::set("vanished").await else { return };
    let first = stage.replica();
    let leadership = first.lead().await;
    let proxy = Proxy::start(&stage.api).await.unwrap();
    let (second, waiting) = stage.replica().through(&proxy).apply();
    // It asks again only after it has the answer.
    wait_for_looks(&proxy, 2).await;
    drop(leadership);
    stage.api.delete(&stage.path()).await.unwrap();
    let _second = waiting.await.unwrap();
    assert!(!first.fence.is_open(), "both could write");
    assert!(second.fence.is_open());
}

#[tokio::test]
async fn many_candidates_lead_one_after_the_other() {
    let Some(stage) = Stage::set("many").await else { return };
    let leading = Arc::new(AtomicUsize::new(0));
    let terms = (0..6).map(|_| {
        let (replica, leading) = (stage.lasting_replica(), leading.clone());
        tokio::spawn(async move {
            let leadership = replica.lead().await;
            assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two lead at once");
            assert!(replica.fence.is_open());
            tokio::task::yield_now().await;
            leading.fetch_sub(1, Ordering::SeqCst);
            leadership.release().await;
        })
    });
    for term in terms.collect::<Vec<_>>() {
        term.await.unwrap();
    }
}

/// Set in the child process that is paused.
const PAUSED: &str = "DIVVY_TEST_PAUSED_LEADER";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn a_leader_that_was_paused_writes_nothing_when_it_wakes_up() {
    if let Some(kubeconfig) = std::env::var_os(PAUSED) {
        return write_while_leading(kubeconfig.into()).await;
    }
    let Some(stage) = Stage::set("paused").await else { return };
    let child = Command::new(std::env::current_exe().unwrap())
        .env(PAUSED, &stage.kubeconfig)
        .args(["--exact", "a_leader_that_was_paused_writes_nothing_when_it_wakes_up"])
        .stdout(Stdio::null())
        .spawn();
    let mut first = Paused(child.unwrap());
    let written = async || {
        let list = stage.api.get(CONFIG_MAPS).await.unwrap();
        list["items"].as_array().unwrap().len()
    };
    while written().await < 10 {
        pause().await;
    }
    first.signal("-STOP");
    let _leadership = stage.replica().lead().await;
    // What a new leader builds on.
    let before = written().await;
    first.signal("-CONT");
    let status = loop {
        match first.0.try_wait().unwrap() {
            Some(status) => break status,
            None => pause().await,
        }
    };
    assert!(status.success(), "{status}");
    assert_eq!(written().await, before, "the old leader wrote after the new one began");
}

/// In the child: leads, and writes as fast as it can until it leads no more.
async fn write_while_leading(kubeconfig: PathBuf) {
    let direct = config(Some(&kubeconfig), None).await.unwrap();
    let api = Api::from_kubeconfig(&kubeconfig).await.unwrap();
    let replica = Stage { kubeconfig, lease: "paused", api, direct }.replica();
    let mut leadership = replica.lead().await;
    let fenced = connect(&replica.config, &replica.fence);
    let write = async {
        for number in 0.. {
            let body = json!({"metadata": {"name": format!("written-{number}")}}).to_string();
            if fenced.post(CONFIG_MAPS, body.into_bytes()).await.is_err() {
                pause().await;
            }
        }
    };
    tokio::select! {
        () = write => {}
        _ = leadership.lost() => {}
    }
}

/// A process that ends with the test, also if it is stopped at that moment.
struct Paused(Child);

impl Paused {
    fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
