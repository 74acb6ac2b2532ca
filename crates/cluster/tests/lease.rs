//! Leader election and fencing on a real API server.
#![allow(clippy::unwrap_used)]

use divvy_cluster::client::{client, config};
use divvy_cluster::fence::Fence;
use divvy_cluster::lease::{Leadership, LeaseSettings, Lost, lead};
use divvy_testbed::{ControlPlane, Programs};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, yield_now};

const HOUR: Duration = Duration::from_secs(3600);

/// The control plane, or a line that says why the test is skipped.
fn control_plane(folder: &Path) -> Option<ControlPlane> {
    let programs = Programs::build(&mut |_| {});
    match programs.and_then(|programs| ControlPlane::start(&programs, folder)) {
        Ok(plane) => Some(plane),
        Err(why) => {
            // Not by println, which the test runner hides.
            let _ = writeln!(std::io::stdout(), "skipped: {why}");
            None
        }
    }
}

/// A process that wants to lead.
struct Replica {
    settings: LeaseSettings,
    fence: Fence,
    config: kube::Config,
}

impl Replica {
    fn new(config: &kube::Config, lease: &str) -> Self {
        let mut settings = LeaseSettings::new("default", lease).unwrap();
        settings.duration = Duration::from_secs(6);
        settings.renew_deadline = Duration::from_secs(5);
        settings.retry = Duration::from_millis(200);
        Self { settings, fence: Fence::closed(), config: config.clone() }
    }

    /// Never expires within a test, so that whoever takes over does so for another reason.
    fn lasting(config: &kube::Config, lease: &str) -> Self {
        let mut replica = Self::new(config, lease);
        (replica.settings.duration, replica.settings.renew_deadline) = (HOUR * 2, HOUR);
        replica
    }

    async fn lead(&self) -> Leadership {
        let client = client(self.config.clone(), &Fence::open()).unwrap();
        lead(client, self.settings.clone(), self.fence.clone()).await.unwrap()
    }

    fn apply(self) -> (Arc<Self>, JoinHandle<Leadership>) {
        let replica = Arc::new(self);
        let candidate = replica.clone();
        (replica, tokio::spawn(async move { candidate.lead().await }))
    }
}

fn path(lease: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/default/leases/{lease}")
}

async fn read(client: &kube::Client, lease: &str) -> Value {
    let request = http::Request::get(path(lease)).body(Vec::new()).unwrap();
    client.request(request).await.unwrap()
}

async fn one_leads_and_the_other_takes_over_only_after_expiry(config: &kube::Config) {
    let api = client(config.clone(), &Fence::open()).unwrap();
    let first = Replica::new(config, "expiry");
    let leadership = first.lead().await;
    let (second, waiting) = Replica::new(config, "expiry").apply();
    // Renewed many times, for longer than the lease lasts without.
    let mut last = String::new();
    for _ in 0..40 {
        loop {
            let lease = read(&api, "expiry").await;
            let spec = &lease["spec"];
            assert_eq!(spec["holderIdentity"], json!(first.settings.identity));
            let renewed = spec["renewTime"].as_str().unwrap().to_owned();
            if renewed != last {
                last = renewed;
                break;
            }
            pause().await;
        }
    }
    assert!(!waiting.is_finished() && first.fence.is_open() && !second.fence.is_open());

    // As if it were killed: it neither renews nor gives the lease back.
    drop(leadership);
    let _second = waiting.await.unwrap();
    assert!(!first.fence.is_open(), "both could write");
    assert!(second.fence.is_open());
    let spec = &read(&api, "expiry").await["spec"];
    assert_eq!(spec["holderIdentity"], json!(second.settings.identity));
    assert_eq!(spec["leaseTransitions"], json!(1));
    assert_eq!(spec["leaseDurationSeconds"], json!(6));
}

async fn a_released_lease_is_taken_at_the_next_look(config: &kube::Config) {
    let first = Replica::lasting(config, "released");
    let leadership = first.lead().await;
    let (second, waiting) = Replica::lasting(config, "released").apply();
    leadership.release().await;
    assert!(!first.fence.is_open());
    let _second = waiting.await.unwrap();
    assert!(second.fence.is_open());
}

async fn a_leader_without_the_api_stops_before_the_other_starts(config: &kube::Config) {
    let api = client(config.clone(), &Fence::open()).unwrap();
    let proxy = Proxy::start(config).await;
    let mut first = Replica::new(&proxy.config, "cut");
    first.settings.duration = Duration::from_secs(10);
    first.settings.renew_deadline = Duration::from_secs(8);
    let mut leadership = first.lead().await;
    // The API itself stays in reach: what stops the write is the fence alone.
    let fenced = client(config.clone(), &first.fence).unwrap();
    read(&fenced, "cut").await;
    let (second, waiting) = Replica::new(config, "cut").apply();

    // A short cut does no harm.
    proxy.cut();
    wait_for(&proxy.refused, 1).await;
    proxy.mend();
    let before = read(&api, "cut").await["spec"]["renewTime"].clone();
    while read(&api, "cut").await["spec"]["renewTime"] == before {
        pause().await;
    }
    assert!(first.fence.is_open() && !waiting.is_finished());

    proxy.cut();
    let lost = leadership.lost().await;
    assert!(matches!(&lost, Lost::Expired(why) if !why.is_empty()), "{lost}");
    assert_eq!(leadership.lost().await, lost, "it can be asked again");
    assert!(!first.fence.is_open());
    assert!(!waiting.is_finished(), "the other one led before the fence was closed");
    let request = http::Request::get(path("cut")).body(Vec::new()).unwrap();
    assert!(fenced.request_text(request).await.is_err(), "sent on an open connection");
    let _second = waiting.await.unwrap();
    assert!(second.fence.is_open());
}

async fn a_lease_that_is_taken_or_deleted_by_hand_is_lost(config: &kube::Config) {
    let api = client(config.clone(), &Fence::open()).unwrap();
    let replica = Replica::lasting(config, "by-hand");
    let mut leadership = replica.lead().await;
    let patch = json!({"spec": {"holderIdentity": "thief"}}).to_string().into_bytes();
    let request = http::Request::patch(path("by-hand"))
        .header("content-type", "application/merge-patch+json")
        .body(patch);
    api.request::<Value>(request.unwrap()).await.unwrap();
    assert_eq!(leadership.lost().await, Lost::Taken("thief".to_owned()));
    assert!(!replica.fence.is_open());

    let replica = Replica::lasting(config, "deleted");
    let mut leadership = replica.lead().await;
    let request = http::Request::delete(path("deleted")).body(Vec::new()).unwrap();
    api.request::<Value>(request).await.unwrap();
    assert_eq!(leadership.lost().await, Lost::Deleted);
    assert!(!replica.fence.is_open());
}

async fn a_candidate_waits_also_when_the_lease_it_saw_is_deleted(config: &kube::Config) {
    let api = client(config.clone(), &Fence::open()).unwrap();
    let first = Replica::new(config, "vanished");
    let leadership = first.lead().await;
    let proxy = Proxy::start(config).await;
    let (second, waiting) = Replica::new(&proxy.config, "vanished").apply();
    // More than a handshake has: it looked several times.
    wait_for(&proxy.answers, 20).await;
    drop(leadership);
    let request = http::Request::delete(path("vanished")).body(Vec::new()).unwrap();
    api.request::<Value>(request).await.unwrap();
    let _second = waiting.await.unwrap();
    assert!(!first.fence.is_open(), "both could write");
    assert!(second.fence.is_open());
}

async fn many_candidates_lead_one_after_the_other(config: &kube::Config) {
    let leading = Arc::new(AtomicUsize::new(0));
    let terms = (0..6).map(|_| {
        let (replica, leading) = (Replica::lasting(config, "many"), leading.clone());
        tokio::spawn(async move {
            let leadership = replica.lead().await;
            assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two lead at once");
            assert!(replica.fence.is_open());
            yield_now().await;
            leading.fetch_sub(1, Ordering::SeqCst);
            leadership.release().await;
        })
    });
    for term in terms.collect::<Vec<_>>() {
        term.await.unwrap();
    }
}

/// The kubeconfig of the child process that is paused.
const PAUSED: &str = "DIVVY_TEST_PAUSED_LEADER";

/// In the child: leads, and writes as fast as it can until it leads no more.
async fn write_while_leading(kubeconfig: &Path) {
    let config = config(Some(kubeconfig), None).await.unwrap();
    let replica = Replica::new(&config, "paused");
    let mut leadership = replica.lead().await;
    let fenced = client(config, &replica.fence).unwrap();
    let write = async {
        for number in 0.. {
            let request = http::Request::post(CONFIG_MAPS)
                .header("content-type", "application/json")
                .body(json!({"metadata": {"name": format!("written-{number}")}}).to_string());
            let request = request.unwrap().map(String::into_bytes);
            if fenced.request_text(request).await.is_err() {
                pause().await;
            }
        }
    };
    tokio::select! {
        () = write => {}
        _ = leadership.lost() => {}
    }
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn written(api: &kube::Client) -> usize {
    let request = http::Request::get(CONFIG_MAPS).body(Vec::new()).unwrap();
    let list: Value = api.request(request).await.unwrap();
    list["items"].as_array().unwrap().len()
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

async fn a_leader_that_was_paused_writes_nothing_when_it_wakes_up(
    config: &kube::Config,
    kubeconfig: &Path,
) {
    let api = client(config.clone(), &Fence::open()).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .env(PAUSED, kubeconfig)
        .args(["--exact", "leader_election_on_a_real_api_server"])
        .stdout(Stdio::null())
        .spawn();
    let mut first = Paused(child.unwrap());
    while written(&api).await < 10 {
        pause().await;
    }
    let second = Replica::new(config, "paused");
    first.signal("-STOP");
    let _leadership = second.lead().await;
    // What a new leader builds on.
    let before = written(&api).await;
    first.signal("-CONT");
    let status = loop {
        match first.0.try_wait().unwrap() {
            Some(status) => break status,
            None => pause().await,
        }
    };
    assert!(status.success(), "{status}");
    assert_eq!(written(&api).await, before, "the old leader wrote after the new one began");
}

/// A way to the API server that can be cut, and that counts what comes back.
struct Proxy {
    config: kube::Config,
    open: watch::Sender<bool>,
    answers: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
}

impl Proxy {
    async fn start(config: &kube::Config) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut through = config.clone();
        let address = listener.local_addr().unwrap();
        through.cluster_url = format!("https://{address}").parse().unwrap();
        let server = config.cluster_url.authority().unwrap().to_string();
        let open = watch::Sender::new(true);
        let (answers, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let proxy =
            Self { config: through, open, answers: answers.clone(), refused: refused.clone() };
        let open = proxy.open.subscribe();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if *open.borrow() {
                    let mut open = open.clone();
                    let (server, answers) = (server.clone(), answers.clone());
                    tokio::spawn(async move {
                        tokio::select! {
                            _ = forward(client, &server, &answers) => {}
                            _ = open.wait_for(|open| !open) => {}
                        }
                    });
                } else {
                    refused.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        proxy
    }

    fn cut(&self) {
        self.open.send_replace(false);
    }

    fn mend(&self) {
        self.open.send_replace(true);
    }
}

async fn forward(client: TcpStream, server: &str, answers: &AtomicUsize) -> std::io::Result<()> {
    let (mut read_server, mut write_server) = TcpStream::connect(server).await?.into_split();
    let (mut read_client, mut write_client) = client.into_split();
    let back = async {
        let mut buffer = vec![0; 65536];
        loop {
            let count = read_server.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            write_client.write_all(&buffer[..count]).await?;
            answers.fetch_add(1, Ordering::SeqCst);
        }
    };
    tokio::select! {
        result = back => result,
        result = tokio::io::copy(&mut read_client, &mut write_server) => result.map(|_| ()),
    }
}

async fn wait_for(counter: &AtomicUsize, least: usize) {
    while counter.load(Ordering::SeqCst) < least {
        pause().await;
    }
}

/// Between two looks at a condition.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_election_on_a_real_api_server() {
    if let Some(kubeconfig) = std::env::var_os(PAUSED) {
        return write_while_leading(Path::new(&kubeconfig)).await;
    }
    let folder = std::env::temp_dir().join(format!("divvy-lease-{}", std::process::id()));
    let Some(plane) = control_plane(&folder) else { return };
    let kubeconfig = plane.kubeconfig();
    let config = config(Some(&kubeconfig), None).await.unwrap();
    tokio::join!(
        one_leads_and_the_other_takes_over_only_after_expiry(&config),
        a_released_lease_is_taken_at_the_next_look(&config),
        a_leader_without_the_api_stops_before_the_other_starts(&config),
        a_lease_that_is_taken_or_deleted_by_hand_is_lost(&config),
        a_candidate_waits_also_when_the_lease_it_saw_is_deleted(&config),
        many_candidates_lead_one_after_the_other(&config),
        a_leader_that_was_paused_writes_nothing_when_it_wakes_up(&config, &kubeconfig),
    );
    drop(plane);
    std::fs::remove_dir_all(&folder).unwrap();
}
