//! A real node that is shaken for a long time: `cargo xtask soak`.

use crate::cluster::{Cluster, Divvy, half, plain, whole};
use crate::settling::delete_reservations;
use divvy_testbed::Process;
use std::time::{Duration, Instant};

/// Whoever starts at once after a kill must have waited for what the killed one has sent.
const DIVVY: Divvy<'static> = Divvy { wait: 3, ..Divvy::USUAL };

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

type Pods = Vec<(&'static str, String)>;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs for as long as it is told: cargo xtask soak"]
async fn while_everything_on_the_node_is_restarted_every_container_has_its_own_cards() {
    let asked = std::env::var("DIVVY_SOAK").ok().and_then(|text| text.parse().ok());
    let (start, span) = (Instant::now(), Duration::from_secs(asked.unwrap_or(120)));
    let Some(mut cluster) = Cluster::enter().await else { return };
    let mut divvy = cluster.start_divvy_with(&DIVVY);
    let (mut dice, mut made) = (Dice(asked.unwrap_or(1)), Pods::new());
    let (mut shakes, mut told) = (0, start);
    for number in 0_u32.. {
        create(&cluster, &mut dice, &mut made, number).await;
        while made.len() > 14 {
            let (namespace, name) = made.swap_remove(dice.below(made.len()));
            cluster.delete(namespace, &name).await;
        }
        if number % 8 == 7 {
            shake(&mut cluster, &mut divvy, &mut dice, &mut made).await;
            shakes += 1;
        }
        cluster.check().await;
        assert!(divvy.exited().is_none(), "{}", std::fs::read_to_string(divvy.log()).unwrap());
        if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            let (seconds, memory) = (start.elapsed().as_secs(), divvy.peak_memory().unwrap() >> 20);
            println!("{number} pods and {shakes} shakes in {seconds} s, memory {memory} MiB");
        }
        if start.elapsed() > span {
            break;
        }
    }
    cluster.delete_all(&made).await;
    cluster.until_reservations(0).await;
}

async fn create(cluster: &Cluster, dice: &mut Dice, made: &mut Pods, number: u32) {
    let namespace = ["default", "team"][dice.below(2)];
    let name = format!("p-{number}");
    let pod = match dice.below(6) {
        0..3 => half(namespace, &name),
        3 => whole(namespace, &name, 1),
        4 => whole(namespace, &name, 2),
        _ => plain(namespace, &name),
    };
    cluster.create(&pod).await;
    made.push((namespace, name));
}

async fn shake(cluster: &mut Cluster, divvy: &mut Process, dice: &mut Dice, made: &mut Pods) {
    match dice.below(7) {
        0 => {
            divvy.kill();
            *divvy = cluster.start_divvy_with(&DIVVY);
        }
        1 => cluster.node().restart_kubelet().unwrap(),
        2 => cluster.node().restart_plugin().unwrap(),
        3 => cluster.node().reboot().unwrap(),
        4 => delete_reservations(cluster).await,
        5 => {
            cluster.stop_admission();
            cluster.start_admission().await;
        }
        _ => {
            // By an administrator, and by force: its containers may run on.
            let (namespace, name) = made.swap_remove(dice.below(made.len()));
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
            cluster.api.delete(&path).await.unwrap();
        }
    }
}
