//! A real node that is shaken for a long time: `cargo xtask soak`. Two replicas take turns, and the
//! API fails for both. For the second half of it nothing takes the lease away: the same processes
//! live on, and their memory must stay what it was.

use crate::churn::{Churn, SLOW};
use crate::cluster::{Cluster, Divvy, PATIENCE};
use crate::leases::has_lost_its_lease;
use crate::settling::delete_reservations;
use divvy_testbed::Process;
use divvy_testbed::api::JSON;
use divvy_testbed::proxy::Proxy;
use http::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// As long as it is by default: a busy kubelet hears of things late.
const DIVVY: Divvy<'static> = Divvy { quarantine: 10, ..Divvy::USUAL };

struct Soak {
    cluster: Cluster,
    replicas: Vec<(Process, Proxy)>,
    churn: Churn,
    ghosts: Vec<Ghost>,
    counts: Counts,
}

/// A share that was deleted by force.
struct Ghost {
    pod: Value,
    /// Whether its card's reservation says so: from then on a successor knows of it, too.
    is_written: bool,
}

#[derive(Debug, Default)]
struct Counts {
    started: usize,
    shakes: usize,
    kills: usize,
    handed_over: usize,
    pauses: usize,
    lost_leases: usize,
    faults: usize,
    vanished: usize,
    /// How often a container was seen of a pod that was gone.
    haunted: usize,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs for as long as it is told: cargo xtask soak"]
async fn while_everything_on_the_node_is_restarted_every_container_has_its_own_cards() {
    let asked = std::env::var("DIVVY_SOAK").ok().and_then(|text| text.parse().ok());
    let (start, span) = (Instant::now(), Duration::from_secs(asked.unwrap_or(120)));
    let Some(cluster) = Cluster::enter().await else { return };
    let mut soak = Soak {
        cluster,
        replicas: Vec::new(),
        churn: Churn::new(asked.unwrap_or(1)),
        ghosts: Vec::new(),
        counts: Counts::default(),
    };
    for _ in 0..2 {
        let started = soak.start().await;
        soak.replicas.push(started);
    }
    let (mut told, mut lived) = (start, None);
    while start.elapsed() < span {
        let wild = start.elapsed() < span / 2;
        soak.revive().await;
        soak.churn.step(&soak.cluster).await;
        soak.fail(wild);
        if soak.churn.made.is_multiple_of(8) {
            soak.counts.shakes += 1;
            if wild && soak.churn.dice.below(3) == 0 {
                soak.change_leader().await;
            } else {
                soak.shake().await;
            }
        }
        soak.check().await;
        if told.elapsed() > Duration::from_secs(60) {
            soak.rest().await;
            told = Instant::now();
            soak.tell(start.elapsed());
            if !wild {
                let now = soak.memory();
                let (processes, before) = lived.get_or_insert_with(|| now.clone());
                // On a busy machine a lease is lost now and then.
                if *processes != now.0 {
                    (*processes, *before) = now.clone();
                }
                assert!(now.1 < *before * 3 / 2, "{before} bytes of memory are now {}", now.1);
            }
        }
    }
    soak.rest().await;
    soak.tell(start.elapsed());
    soak.cluster.delete_all(&soak.churn.pods).await;
    soak.cluster.until_reservations(0).await;
}

impl Soak {
    async fn start(&mut self) -> (Process, Proxy) {
        let proxy = self.cluster.start_proxy().await;
        let replica = format!("replica-{}", self.counts.started);
        self.counts.started += 1;
        let divvy = Divvy { through: Some(&proxy), replica: Some(&replica), ..DIVVY };
        (self.cluster.start_divvy_with(&divvy), proxy)
    }

    /// A replica that has lost its lease ends, and is started again as the kubelet would.
    async fn revive(&mut self) {
        for one in 0..self.replicas.len() {
            if has_lost_its_lease(&mut self.replicas[one].0) {
                self.counts.lost_leases += 1;
                self.replicas[one] = self.start().await;
            }
        }
    }

    fn fail(&mut self, wild: bool) {
        let dice = &mut self.churn.dice;
        let (_, proxy) = &self.replicas[dice.index(2)];
        match dice.below(8) {
            0..4 => self.counts.faults += proxy.inject_any(dice, wild),
            4 => proxy.cut_watches(),
            5 => proxy.expire_watches(),
            _ => {}
        }
    }

    async fn change_leader(&mut self) {
        let one = self.churn.dice.index(2);
        match self.churn.dice.below(3) {
            0 => {
                self.replicas[one].0.kill();
                self.replicas[one] = self.start().await;
                self.counts.kills += 1;
            }
            1 => {
                // As told: it finishes its writes, and hands over.
                let ((divvy, _), start) = (&mut self.replicas[one], Instant::now());
                divvy.signal("TERM").unwrap();
                while divvy.exited().is_none() {
                    assert!(start.elapsed() < PATIENCE, "it does not end: {:?}", divvy.log());
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                self.replicas[one] = self.start().await;
                self.counts.handed_over += 1;
            }
            _ => {
                let (divvy, _) = &self.replicas[one];
                divvy.signal("STOP").unwrap();
                tokio::time::sleep(Duration::from_millis(self.churn.dice.below(12_000))).await;
                divvy.signal("CONT").unwrap();
                self.counts.pauses += 1;
            }
        }
    }

    async fn shake(&mut self) {
        match self.churn.dice.below(8) {
            0 => self.cluster.node().restart_kubelet().unwrap(),
            1 => self.cluster.node().restart_plugin().unwrap(),
            2 => self.cluster.node().reboot().unwrap(),
            3 => {
                // What is written on them goes with them; only who leads still knows it.
                self.ghosts.iter_mut().for_each(|ghost| ghost.is_written = false);
                delete_reservations(&self.cluster).await;
            }
            4 => {
                self.cluster.stop_admission();
                self.cluster.start_admission().await;
            }
            _ => self.vanish().await,
        }
    }

    /// An administrator deletes a pod by force, a share that takes its time if there is one: its
    /// containers may run on.
    async fn vanish(&mut self) {
        let mut pods = Vec::new();
        for (namespace, name) in &self.churn.pods {
            pods.push(self.cluster.get(namespace, name).await);
        }
        let is_slow = |pod: &Value| {
            pod["spec"]["terminationGracePeriodSeconds"] == SLOW
                && pod["status"]["containerStatuses"][0]["ready"] == true
        };
        let any = self.churn.dice.index(pods.len());
        let at = pods.iter().position(is_slow).unwrap_or(any);
        let (pod, (namespace, name)) = (pods.swap_remove(at), self.churn.pods.swap_remove(at));
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        if self.churn.dice.below(2) == 0 {
            // The end that begins with this goes on for as long, whatever comes after.
            let slowly = json!({"gracePeriodSeconds": SLOW});
            let asked = self.cluster.api.send(Method::DELETE, &path, JSON, Some(&slowly));
            asked.await.unwrap();
        }
        // One that was not bound is gone by now.
        let _ = self.cluster.api.delete(&path).await;
        self.counts.vanished += 1;
        if is_slow(&pod) {
            self.ghosts.push(Ghost { pod, is_written: false });
        }
    }

    /// Looks into all containers, also those of pods that are gone.
    async fn check(&mut self) {
        let reservations = self.cluster.reservations().await;
        for ghost in &mut self.ghosts {
            let uid = ghost.pod["metadata"]["uid"].as_str().unwrap();
            let says = |pod: &Value| {
                let ghosts = pod["metadata"]["annotations"]["divvy.dev/ghosts"].as_str();
                ghosts.is_some_and(|ghosts| ghosts.contains(uid))
            };
            ghost.is_written |= reservations.iter().any(says);
        }
        self.ghosts.retain(|ghost| self.cluster.runs(&ghost.pod));
        let written = self.ghosts.iter().filter(|ghost| ghost.is_written);
        let written: Vec<&Value> = written.map(|ghost| &ghost.pod).collect();
        self.counts.haunted += written.len();
        self.cluster.check_beside(&written).await;
    }

    /// Lets what is wrong end: then each pod runs, has ended, or says why it waits, and none waits
    /// that asks no GPU.
    async fn rest(&mut self) {
        self.replicas.iter().for_each(|(_, proxy)| proxy.heal());
        let start = Instant::now();
        loop {
            self.revive().await;
            let mut pods = self.cluster.pods("default").await;
            pods.extend(self.cluster.pods("team").await);
            let Some(pod) = pods.into_iter().find(|pod| !is_at_rest(pod)) else { return };
            assert!(start.elapsed() < PATIENCE, "not in time: {pod:#}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Which processes there are, and what the larger one has.
    fn memory(&self) -> (Vec<u32>, u64) {
        let processes = self.replicas.iter().map(|(divvy, _)| divvy);
        let most = processes.clone().filter_map(Process::memory_now).max();
        (processes.map(Process::id).collect(), most.unwrap_or_default())
    }

    fn tell(&self, since: Duration) {
        let (made, (_, memory)) = (self.churn.made, self.memory());
        let (seconds, counts) = (since.as_secs(), &self.counts);
        println!("{made} pods in {seconds} s, {counts:?}, memory {} MiB", memory >> 20);
    }
}

fn is_at_rest(pod: &Value) -> bool {
    let status = &pod["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut refused = conditions.filter(|c| c["type"] == "PodScheduled" && c["status"] == "False");
    let asks_gpus = pod["metadata"]["annotations"]["gpu-fraction"].is_string()
        || pod["spec"]["containers"][0]["resources"]["limits"].is_object();
    status["phase"] == "Failed"
        || status["containerStatuses"][0]["ready"] == true
        || asks_gpus && refused.next().is_some() && pod["spec"]["nodeName"].is_null()
}
