//! Pods of all kinds that come and go on a real node.

use crate::cluster::{Cluster, half, plain, whole};
use divvy_testbed::dice::Dice;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long some shares take to end unless they are told to hurry, in seconds.
pub const SLOW: u64 = 8;
/// More than fit, so that some wait.
const MOST: usize = 14;

/// Pods of all kinds, some of which are there.
pub struct Churn {
    pub dice: Dice,
    /// Namespaces and names of those that are there.
    pub pods: Vec<(&'static str, String)>,
    pub made: usize,
}

impl Churn {
    pub const fn new(seed: u64) -> Self {
        Self { dice: Dice(seed), pods: Vec::new(), made: 0 }
    }

    /// A pod comes, and others go if there are too many.
    pub async fn step(&mut self, cluster: &Cluster) {
        let namespace = self.dice.of(&["default", "team"]);
        let name = format!("p-{}", self.made);
        cluster.create(&self.any(namespace, &name)).await;
        self.made += 1;
        self.pods.push((namespace, name));
        while self.pods.len() > MOST {
            let (namespace, name) = self.take();
            cluster.delete(namespace, &name).await;
        }
    }

    fn any(&mut self, namespace: &str, name: &str) -> Value {
        match self.dice.below(6) {
            0 => {
                let mut slow = half(namespace, name);
                slow["spec"]["terminationGracePeriodSeconds"] = json!(SLOW);
                slow["spec"]["containers"][0]["command"] =
                    json!(["/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"]);
                slow
            }
            1 | 2 => half(namespace, name),
            3 => whole(namespace, name, 1),
            4 => whole(namespace, name, 2),
            _ => plain(namespace, name),
        }
    }

    /// One of them, which is not counted any more.
    fn take(&mut self) -> (&'static str, String) {
        self.pods.swap_remove(self.dice.index(self.pods.len()))
    }
}

/// How long: `DIVVY_CHURN` seconds, else long enough to see most kinds meet.
fn span() -> Duration {
    let asked = std::env::var("DIVVY_CHURN").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(asked.unwrap_or(20))
}

#[tokio::test(flavor = "multi_thread")]
async fn while_pods_come_and_go_every_container_has_its_own_cards_and_no_other() {
    let Some(cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    let (start, mut churn) = (Instant::now(), Churn::new(7));
    while start.elapsed() < span() {
        churn.step(&cluster).await;
        cluster.check().await;
        // What divvy gives a pod, the kubelet has: a pod that it refused would never run.
        for namespace in ["default", "team"] {
            let pods = cluster.pods(namespace).await;
            let failed: Vec<_> = pods.iter().filter(|p| p["status"]["phase"] == "Failed").collect();
            assert!(failed.is_empty(), "{failed:#?}");
        }
    }
    cluster.delete_all(&churn.pods).await;
    cluster.until_reservations(0).await;
}
