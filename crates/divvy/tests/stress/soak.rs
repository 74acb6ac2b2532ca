//! Everything at once for a long time, on nodes that only exist in the API: `cargo xtask soak`.
//!
//! Two replicas take turns. Pods come, end and vanish; replicas are killed, stopped and paused; the
//! API fails in every way that the proxy knows. Now and then all of it rests: then everything that
//! fits must be placed, nothing may have been given twice at any instant, and objects are counted.
//! For the second half of the time nothing takes the lease away: the same processes live on, and
//! their memory must stay what it was.

use crate::arena::{Arena, PATIENCE, US, path};
use crate::bursts::mixed;
use crate::kubelets::{Kubelets, RESERVATIONS};
use crate::leases::has_lost_its_lease;
use crate::limits::memory_limit;
use crate::scheduler::Divvy;
use divvy_testbed::Process;
use divvy_testbed::checker::Checker;
use divvy_testbed::dice::Dice;
use divvy_testbed::history::Now;
use divvy_testbed::manifests::{GpuNode, with_hand_off};
use divvy_testbed::proxy::Proxy;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

const OPTIONS: [&str; 6] = [
    "--lease-namespace=default",
    "--lease-duration=8",
    "--gpu-sharing",
    "--reservation-image=example.com/divvy:1",
    "--reservation-runtime-class=",
    "--quarantine=8",
];
const NODES: usize = 30;
/// More than fit, so that some wait.
const PODS: usize = 500;
const ROUND: Duration = Duration::from_secs(90);

struct Soak {
    arena: Arena,
    replicas: Vec<(Divvy, Proxy)>,
    dice: Dice,
    pods: Vec<String>,
    made: usize,
    checker: Checker,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    ended: usize,
    vanished: usize,
    kills: usize,
    pauses: usize,
    faults: usize,
    lost_reservations: usize,
    lost_leases: usize,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs for as long as it is told: cargo xtask soak"]
async fn nothing_is_given_twice_or_lost_or_grows() {
    let asked = std::env::var("DIVVY_SOAK").ok().and_then(|text| text.parse().ok());
    let span = Duration::from_secs(asked.unwrap_or(120));
    let Some(arena) = Arena::enter().await else { return };
    arena.allow_reservations().await;
    arena.nodes(GpuNode::A100, "a100", NODES).await;
    let kubelets = Kubelets::play(&arena);
    let mut soak = Soak {
        arena,
        replicas: Vec::new(),
        dice: Dice(asked.unwrap_or(1)),
        pods: Vec::new(),
        made: 0,
        checker: Checker::new(&[US]),
        counts: Counts::default(),
    };
    for replica in 0..2 {
        let started = soak.start(replica).await;
        soak.replicas.push(started);
    }
    let (start, mut lived) = (Instant::now(), None);
    for round in 1.. {
        let end = Instant::now() + ROUND;
        let wild = start.elapsed() < span / 2;
        while Instant::now() < end {
            soak.step(wild).await;
        }
        soak.rest().await;
        soak.lose_reservations().await;
        soak.tell(round, start.elapsed());
        if !wild {
            // Nobody has died who would have to know of them: somewhat less than divvy waits.
            soak.checker.quarantine = Duration::from_secs(5);
            let now = soak.memory();
            let (processes, before) = lived.get_or_insert_with(|| now.clone());
            // On a busy machine a lease is lost now and then.
            if *processes != now.0 {
                (*processes, *before) = now.clone();
            }
            assert!(
                now.1 < *before * 3 / 2,
                "{before} bytes of memory have become {} over {:?}",
                now.1,
                start.elapsed(),
            );
        }
        if start.elapsed() > span {
            break;
        }
    }
    for name in std::mem::take(&mut soak.pods) {
        soak.arena.end(&name).await;
    }
    soak.arena.until("no reservation is left", |now| reservations(now).is_empty()).await;
    drop(kubelets);
}

impl Soak {
    async fn start(&self, replica: usize) -> (Divvy, Proxy) {
        let proxy = Proxy::start(&self.arena.api).await.unwrap();
        let name = format!("kubeconfig-soak-{replica}");
        let kubeconfig = self.arena.plane.kubeconfig_through(&name, proxy.url()).unwrap();
        (Divvy::spawn(&self.arena, &kubeconfig, &OPTIONS), proxy)
    }

    /// A replica that has lost its lease ends, and is started again as the kubelet would.
    async fn revive(&mut self) {
        for one in 0..self.replicas.len() {
            if has_lost_its_lease(&mut self.replicas[one].0.process) {
                self.counts.lost_leases += 1;
                self.replicas[one] = self.start(one).await;
            }
        }
    }

    async fn step(&mut self, wild: bool) {
        self.revive().await;
        let one = self.dice.index(2);
        match self.dice.below(100) {
            0..45 => self.create().await,
            45..75 => self.end().await,
            75..80 => self.vanish().await,
            80..83 if wild => {
                self.replicas[one].0.process.kill();
                self.replicas[one] = self.start(one).await;
                self.counts.kills += 1;
            }
            83..85 if wild => {
                // As told: it finishes its writes, and hands over.
                let (divvy, _) = &mut self.replicas[one];
                divvy.process.signal("TERM").unwrap();
                let end = Instant::now() + PATIENCE;
                while divvy.process.exited().is_none() {
                    assert!(Instant::now() < end, "it does not end: {}", divvy.log());
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                self.replicas[one] = self.start(one).await;
            }
            85..87 if wild => {
                let (divvy, _) = &self.replicas[one];
                divvy.process.signal("STOP").unwrap();
                tokio::time::sleep(Duration::from_millis(self.dice.below(12_000))).await;
                divvy.process.signal("CONT").unwrap();
                self.counts.pauses += 1;
            }
            87..95 => {
                let (_, proxy) = &self.replicas[one];
                self.counts.faults += proxy.inject_any(&mut self.dice, wild);
            }
            95..97 => self.replicas[one].1.cut_watches(),
            97 => self.replicas[one].1.expire_watches(),
            _ => {
                let node = format!("a100-{}", self.dice.below(NODES as u64));
                let cordoned = self.dice.below(2) == 0;
                let spec = json!({"spec": {"unschedulable": cordoned}});
                self.arena.patch_node(&node, &spec).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(self.dice.below(150))).await;
    }

    async fn create(&mut self) {
        while self.pods.len() > PODS {
            self.end().await;
        }
        let count = 1 + self.dice.index(8);
        let names: Vec<String> = (0..count).map(|i| format!("p-{}", self.made + i)).collect();
        self.made += count;
        let pods = names.iter().map(|name| with_hand_off(mixed(&mut self.dice, name))).collect();
        self.arena.create_all(pods).await;
        self.pods.extend(names);
    }

    async fn end(&mut self) {
        if self.pods.is_empty() {
            return;
        }
        let name = self.pods.swap_remove(self.dice.index(self.pods.len()));
        self.arena.end(&name).await;
        self.counts.ended += 1;
    }

    /// A pod is deleted by force while its containers run.
    async fn vanish(&mut self) {
        let key = |name: &String| format!("default/{name}");
        let is_bound =
            |name: &&String| self.arena.history.look(|now| now.node_of(&key(name)).is_some());
        let Some(name) = self.pods.iter().find(is_bound).cloned() else { return };
        self.pods.retain(|other| *other != name);
        let runs = json!({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}});
        let path = path(&name);
        self.arena.api.patch(&format!("{path}/status"), &runs).await.unwrap();
        self.arena.delete(&name).await;
        self.counts.vanished += 1;
    }

    /// Lets everything that is wrong end, and looks at what there is.
    async fn rest(&mut self) {
        self.replicas.iter().for_each(|(_, proxy)| proxy.heal());
        // Whoever has lost its lease has noticed by then.
        tokio::time::sleep(Duration::from_secs(12)).await;
        self.revive().await;
        for node in 0..NODES {
            let open = json!({"spec": {"unschedulable": null}});
            self.arena.patch_node(&format!("a100-{node}"), &open).await;
        }
        self.arena.until_placed().await;
        for happened in self.arena.history.take().unwrap() {
            self.checker.step(&happened);
        }
        let wrong = &self.checker.violations;
        assert!(wrong.is_empty(), "{}: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
        let there = self.arena.history.look(|now| now.pods.len() - reservations(now).len());
        assert_eq!(there, self.pods.len(), "pods that nobody made, or that were lost");
        self.revive().await;
        for (divvy, _) in &self.replicas {
            let peak = divvy.process.peak_memory().unwrap();
            let limit = memory_limit("scheduler.yaml");
            assert!(peak < limit, "{peak} bytes of {limit}");
        }
    }

    /// Somebody deletes reservations: they are won back.
    async fn lose_reservations(&mut self) {
        let is_held = |now: &Now| {
            let held = reservations(now);
            let runs = held.iter().all(|(_, pod)| pod["status"]["phase"] == "Running");
            runs && held.len() == shared_cards(now)
        };
        self.arena.until("each shared card is held once", is_held).await;
        let names: Vec<String> = self
            .arena
            .history
            .look(|now| reservations(now).into_iter().take(3).map(|(name, _)| name).collect());
        for name in names {
            let path = format!("/api/v1/namespaces/{RESERVATIONS}/pods/{name}");
            self.arena.api.delete(&path).await.unwrap();
            self.counts.lost_reservations += 1;
        }
        self.arena.until("each shared card is held again", is_held).await;
    }

    /// Which processes there are, and what the larger one has.
    fn memory(&self) -> (Vec<u32>, u64) {
        let processes = self.replicas.iter().map(|(divvy, _)| &divvy.process);
        let most = processes.clone().map(|process| process.memory_now().unwrap()).max();
        (processes.map(Process::id).collect(), most.unwrap())
    }

    fn tell(&self, round: usize, since: Duration) {
        let memory: Vec<String> = self
            .replicas
            .iter()
            .map(|(divvy, _)| format!("{} MiB", divvy.process.memory_now().unwrap() >> 20))
            .collect();
        let pods = self.arena.history.look(|now| now.pods.len());
        println!(
            "round {round} after {} s: {} pods made, {} bindings, {:?}, {pods} pods there, memory {}",
            since.as_secs(),
            self.made,
            self.checker.bindings,
            self.counts,
            memory.join(" and "),
        );
    }
}

fn reservations(now: &Now) -> Vec<(String, Value)> {
    let is_one = |(_, pod): &(&String, &Value)| pod["metadata"]["namespace"] == RESERVATIONS;
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    now.pods.iter().filter(is_one).map(|(_, pod)| (name(pod), pod.clone())).collect()
}

/// How many cards have shares.
fn shared_cards(now: &Now) -> usize {
    let bound = now.pods.values().filter(|pod| pod["spec"]["nodeName"].is_string());
    let cards = bound.filter_map(|pod| {
        let cards = pod["metadata"]["annotations"]["divvy.dev/cards"].as_str()?;
        Some((pod["spec"]["nodeName"].as_str()?, cards))
    });
    let each = cards.flat_map(|(node, cards)| {
        cards.split(',').map(move |card| (node, card.split(':').next().unwrap_or_default()))
    });
    each.collect::<std::collections::BTreeSet<_>>().len()
}
