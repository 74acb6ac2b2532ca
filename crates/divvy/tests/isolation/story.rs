//! The user story of the proposal, on a real node: two kinds of model servers that share cards, and
//! never with the other kind.

use super::cluster::Cluster;
use super::divvy::{CARD, share};
use super::{requests, tenant};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn two_kinds_of_model_servers_never_meet_and_each_sees_its_part_of_its_card() {
    let Some(mut cluster) = Cluster::start("story").await else { return };
    cluster.prepare();
    {
        // Koordinator's requests need no levels.
        let _divvy = cluster.start_divvy(false).await;
        requests::of_koordinator_run(&cluster, false).await;
    }
    let (_admission, scheduler) = cluster.start_divvy(true).await;
    let ml = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "ml", "labels": {"pod-security.kubernetes.io/enforce": "baseline"},
    }});
    cluster.api.create(&ml).await.unwrap();
    cluster.apply("examples/isolation/model-servers.yaml");
    the_example_holds(&cluster).await;
    requests::of_koordinator_run(&cluster, true).await;
    tenant::gets_no_more_than_its_part(&cluster).await;
    // Killed in the middle of a burst, and another one goes on.
    let (first, last) = (0..10, 10..16);
    for nth in first {
        cluster.api.create(&mixed(nth)).await.unwrap();
    }
    // Some of them have their card by now, and some have not.
    cluster.running("default", "burst-0").await;
    drop(scheduler);
    for nth in last {
        cluster.api.create(&mixed(nth)).await.unwrap();
    }
    let _scheduler = cluster.start_scheduler(true, 2);
    for nth in 0..16 {
        cluster.running("default", &format!("burst-{nth}")).await;
    }
    assert_eq!(cluster.check().await, 20);
    cluster.node.reboot().unwrap();
    the_example_holds(&cluster).await;
    for nth in 0..16 {
        cluster.running("default", &format!("burst-{nth}")).await;
    }
    assert_eq!(cluster.check().await, 20);
    for nth in 16..20 {
        cluster.api.create(&mixed(nth)).await.unwrap();
        cluster.running("default", &format!("burst-{nth}")).await;
    }
    assert_eq!(cluster.check().await, 24);
    // As NVIDIA's runtime is installed: where all names are full ones, they are CDI devices.
    cluster.node.change_nvidia_mode("auto").unwrap();
    cluster.delete("ml", "steady-1").await;
    let steady = cluster.running("ml", "steady-1").await;
    cluster.sees_its_part(&steady);
}

/// A pod of either kind, and of another size.
fn mixed(nth: usize) -> Value {
    let fraction = ["0.2", "0.25", "0.3"][nth % 3];
    let level = [Some("Isolated"), Some("Shared"), None, Some("Isolated")][nth % 4];
    share(&format!("burst-{nth}"), fraction, level)
}

/// Two Shared model servers on one card see all of it, two Isolated ones on another their half.
async fn the_example_holds(cluster: &Cluster) {
    let mut cards = Vec::new();
    for (kind, class) in [("routed", "Shared"), ("steady", "Isolated/HAMi-core")] {
        let mut of_kind = Vec::new();
        for nth in 0..2 {
            let pod = cluster.running("ml", &format!("{kind}-{nth}")).await;
            let annotations = &pod["metadata"]["annotations"];
            assert_eq!(annotations["divvy.dev/class"], class);
            cluster.sees_its_part(&pod);
            of_kind.extend(cluster.cards_of(&pod));
            let is_half = annotations["divvy.dev/cards"].as_str().unwrap();
            assert!(is_half.ends_with(&format!(":{}", CARD / 2)), "{is_half}");
        }
        assert_eq!(of_kind[0], of_kind[1], "{kind}");
        cards.push(of_kind.remove(0));
    }
    assert_ne!(cards[0], cards[1], "the two kinds never meet");
}
