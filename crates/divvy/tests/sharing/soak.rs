//! A real node that is shaken for a long time: `cargo xtask soak`. For the second half of it the same
//! scheduler lives on, and its memory must stay what it was.

use crate::cluster::{Cluster, Divvy, half, plain, whole};
use crate::settling::delete_reservations;
use divvy_testbed::dice::Dice;
use std::time::{Duration, Instant};

/// Whoever starts at once after a kill must have waited for what the killed one has sent.
const DIVVY: Divvy<'static> = Divvy { wait: 3, ..Divvy::USUAL };

type Pods = Vec<(&'static str, String)>;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs for as long as it is told: cargo xtask soak"]
async fn while_everything_on_the_node_is_restarted_every_container_has_its_own_cards() {
    let asked = std::env::var("DIVVY_SOAK").ok().and_then(|text| text.parse().ok());
    let (start, span) = (Instant::now(), Duration::from_secs(asked.unwrap_or(120)));
    let Some(mut cluster) = Cluster::enter().await else { return };
    let mut divvy = cluster.start_divvy_with(&DIVVY);
    let (mut dice, mut made) = (Dice(asked.unwrap_or(1)), Pods::new());
    let (mut shakes, mut told, mut lived) = (0, start, None);
    for number in 0_u32.. {
        create(&cluster, &mut dice, &mut made, number).await;
        while made.len() > 14 {
            let (namespace, name) = made.swap_remove(dice.below(made.len() as u64) as usize);
            cluster.delete(namespace, &name).await;
        }
        if number % 8 == 7 {
            if start.elapsed() < span / 2 && dice.below(6) == 0 {
                divvy.kill();
                divvy = cluster.start_divvy_with(&DIVVY);
            } else {
                shake(&mut cluster, &mut dice, &mut made).await;
            }
            shakes += 1;
        }
        cluster.check().await;
        assert!(divvy.exited().is_none(), "{}", std::fs::read_to_string(divvy.log()).unwrap());
        if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            let (seconds, memory) = (start.elapsed().as_secs(), divvy.memory_now().unwrap());
            println!("{number} pods, {shakes} shakes in {seconds} s, memory {} MiB", memory >> 20);
            if start.elapsed() > span / 2 {
                let before = *lived.get_or_insert(memory);
                assert!(memory < before * 3 / 2, "{before} bytes of memory are now {memory}");
            }
        }
        if start.elapsed() > span {
            break;
        }
    }
    cluster.delete_all(&made).await;
    cluster.until_reservations(0).await;
}

async fn create(cluster: &Cluster, dice: &mut Dice, made: &mut Pods, number: u32) {
    let namespace = ["default", "team"][dice.below(2) as usize];
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

async fn shake(cluster: &mut Cluster, dice: &mut Dice, made: &mut Pods) {
    match dice.below(6) {
        0 => cluster.node().restart_kubelet().unwrap(),
        1 => cluster.node().restart_plugin().unwrap(),
        2 => cluster.node().reboot().unwrap(),
        3 => delete_reservations(cluster).await,
        4 => {
            cluster.stop_admission();
            cluster.start_admission().await;
        }
        _ => {
            // By an administrator, and by force: its containers may run on.
            let (namespace, name) = made.swap_remove(dice.below(made.len() as u64) as usize);
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
            cluster.api.delete(&path).await.unwrap();
        }
    }
}
