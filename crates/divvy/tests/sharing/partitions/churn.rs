//! Everything at once on one node: whole cards, shares, MIG slices, and time slices of those.

use super::strategy;
use crate::cluster::{Cluster, devices, half, plain, whole};
use divvy_testbed::checker::Checker;
use divvy_testbed::dice::Dice;
use divvy_testbed::history::History;
use divvy_testbed::node::Card;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// More than fit, so that some wait.
const MOST: usize = 16;
const SCHEDULER: &str = "divvy-scheduler";

/// Three cards as they are, three divided; each of the smallest slices is for two.
fn cards() -> Vec<Card> {
    let divided = |index| Card::a100(index).divided(&["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"]);
    (0..6).map(|i| if i < 3 { Card::a100(i) } else { divided(i).unwrap() }).collect()
}

fn config() -> Value {
    let mut config = strategy("mixed");
    config["sharing"]["timeSlicing"] = json!({
        "resources": [{"name": "nvidia.com/mig-1g.5gb", "replicas": 2}],
    });
    config
}

fn any(dice: &mut Dice, namespace: &str, name: &str) -> Value {
    match dice.below(8) {
        0 | 1 => half(namespace, name),
        2 => whole(namespace, name, 1),
        3 => whole(namespace, name, 2),
        4 => devices(namespace, name, "nvidia.com/mig-3g.20gb", 1),
        5 => devices(namespace, name, "nvidia.com/mig-2g.10gb", 2),
        6 => devices(namespace, name, "nvidia.com/mig-1g.5gb", 3),
        _ => plain(namespace, name),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_pods_of_all_kinds_come_and_go_and_divvy_is_killed_nothing_is_given_twice() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    cluster.reconfigure(cards(), config());
    let mut divvy = cluster.start_divvy();
    let history = History::record(&cluster.api).await.unwrap();
    let (start, mut dice, mut made) = (Instant::now(), Dice(11), 0);
    let mut pods: Vec<(&str, String)> = Vec::new();
    while start.elapsed() < Duration::from_secs(12) {
        let (namespace, name) = (dice.of(&["default", "team"]), format!("p-{made}"));
        cluster.create(&any(&mut dice, namespace, &name)).await;
        made += 1;
        pods.push((namespace, name));
        while pods.len() > MOST {
            let (namespace, name) = pods.swap_remove(dice.below(pods.len() as u64) as usize);
            cluster.delete(namespace, &name).await;
        }
        if made % 12 == 0 {
            // By SIGKILL, and another one at once.
            drop(divvy);
            divvy = cluster.start_divvy();
        }
        cluster.check().await;
        for namespace in ["default", "team"] {
            let pods = cluster.pods(namespace).await;
            let failed: Vec<_> = pods.iter().filter(|p| p["status"]["phase"] == "Failed").collect();
            assert!(failed.is_empty(), "{failed:#?}");
        }
    }
    let happened = history.happened().unwrap();
    let checker = Checker::new(&[SCHEDULER]).after(&happened);
    assert_eq!(checker.violations, [""; 0]);
    assert!(checker.bindings > 10, "{} bindings of {made} pods", checker.bindings);
    cluster.delete_all(&pods).await;
    cluster.until_reservations(0).await;
}
