//! Pods of all kinds that come and go on a real node.

use crate::cluster::{Cluster, half, plain, whole};
use divvy_testbed::dice::Dice;
use std::time::{Duration, Instant};

/// How long: `DIVVY_CHURN` seconds, else long enough to see most kinds meet.
fn span() -> Duration {
    let asked = std::env::var("DIVVY_CHURN").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(asked.unwrap_or(20))
}

#[tokio::test(flavor = "multi_thread")]
async fn while_pods_come_and_go_every_container_has_its_own_cards_and_no_other() {
    let Some(cluster) = Cluster::enter().await else { return };
    let _divvy = cluster.start_divvy();
    let (start, mut dice, mut made) = (Instant::now(), Dice(7), Vec::new());
    let mut next = move |end: usize| dice.below(end as u64) as usize;
    for number in 0_u32.. {
        let namespace = ["default", "team"][next(2)];
        let name = format!("p-{number}");
        cluster
            .create(&match next(6) {
                0..3 => half(namespace, &name),
                3 => whole(namespace, &name, 1),
                4 => whole(namespace, &name, 2),
                _ => plain(namespace, &name),
            })
            .await;
        made.push((namespace, name));
        // More than fit, so that some wait.
        while made.len() > 14 {
            let (namespace, name) = made.swap_remove(next(made.len()));
            cluster.delete(namespace, &name).await;
        }
        cluster.check().await;
        // What divvy gives a pod, the kubelet has: a pod that it refused would never run.
        for namespace in ["default", "team"] {
            let pods = cluster.pods(namespace).await;
            let failed: Vec<_> = pods.iter().filter(|p| p["status"]["phase"] == "Failed").collect();
            assert!(failed.is_empty(), "{failed:#?}");
        }
        if start.elapsed() > span() {
            break;
        }
    }
    cluster.delete_all(&made).await;
    cluster.until_reservations(0).await;
}
