//! Cards that are divided beside cards that are not.

use super::{strategy, time_slices};
use crate::cluster::{Cluster, devices, half, whole};
use divvy_testbed::node::Card;
use serde_json::{Value, json};

const SMALL: &str = "nvidia.com/mig-1g.5gb";

#[tokio::test(flavor = "multi_thread")]
async fn cards_beside_divided_ones_are_shared_and_keep_their_shares_over_restarts_and_a_reboot() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let divided = Card::a100(0).divided(&["3g.20gb", "1g.5gb", "1g.5gb"]).unwrap();
    let cards = [vec![divided], (1..4).map(Card::a100).collect()].concat();
    cluster.reconfigure(cards, strategy("mixed"));
    let divvy = cluster.start_divvy();
    for name in ["a", "b", "c"] {
        cluster.create(&half("default", name)).await;
    }
    cluster.create(&devices("default", "slice", SMALL, 2)).await;
    cluster.create(&whole("default", "whole", 1)).await;
    let a = cluster.card_of("default", "a").await;
    assert_eq!(cluster.card_of("default", "b").await, a);
    let c = cluster.card_of("default", "c").await;
    let w = cluster.card_of("default", "whole").await;
    assert!(a != c && a != w && c != w, "{a} {c} {w}");
    cluster.until_running("default", "slice").await;
    cluster.create(&whole("team", "late", 1)).await;
    cluster.said("team", "late", "free cards 0 < 1 asked").await;
    cluster.check().await;

    cluster.node().restart_kubelet().unwrap();
    cluster.node().restart_plugin().unwrap();
    cluster.until_told(&divvy, "3").await;
    cluster.check().await;
    cluster.delete("default", "c").await;
    assert_eq!(cluster.card_of("team", "late").await, c);
    cluster.until_reservations(1).await;
    cluster.check().await;

    cluster.node().reboot().unwrap();
    cluster.until_told(&divvy, "3").await;
    for name in ["a", "b"] {
        assert_eq!(cluster.card_of("default", name).await, a);
    }
    cluster.until_reservations(1).await;
    cluster.create(&whole("team", "after", 2)).await;
    let others = cluster.cards_of("team", "after").await;
    assert!(others.len() == 2 && !others.contains(&a), "{others:?} {a}");
    cluster.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cards_beside_divided_ones_are_time_sliced_and_counted_without_them() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let divided = Card::a100(0).divided(&["3g.20gb", "1g.5gb", "1g.5gb"]).unwrap();
    let mut config = time_slices(2, false);
    config["flags"] = json!({"migStrategy": "mixed"});
    cluster.reconfigure((0..3).map(Card::a100).collect(), json!({"version": "v1"}));
    cluster.reconfigure_as_rehearsed(vec![divided, Card::a100(1), Card::a100(2)], config).await;
    let _divvy = cluster.start_divvy();
    cluster.start_each("turn", "nvidia.com/gpu", 4).await;
    cluster.start_each("slice", SMALL, 2).await;
    cluster.create(&whole("team", "late", 1)).await;
    cluster.said("team", "late", "4 of 4 time slices of 2 cards are taken").await;
    cluster.create(&devices("team", "later", SMALL, 1)).await;
    cluster.said("team", "later", "2 of 2 nvidia.com/mig-1g.5gb are taken").await;
    cluster.check().await;
}

/// The state of each card as `divvy top cards` says it, and how many `divvy top nodes` calls withheld.
fn shown(cluster: &Cluster) -> (Vec<String>, String) {
    let cards = cluster.run(&["top", "cards"]);
    let state = |line: &str| line.split_whitespace().nth(3).unwrap().to_owned();
    let nodes = cluster.run(&["top", "nodes", "-o", "json"]);
    let nodes: Value = serde_json::from_str(&nodes).unwrap();
    let node = &nodes["items"][0];
    (
        cards.lines().skip(1).map(state).collect(),
        format!("{} of {}", node["cardsWithheld"], node["cards"]),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_that_fails_beside_divided_ones_is_still_there_and_said_to_be_withheld() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let divided = Card::a100(0).divided(&["3g.20gb", "1g.5gb", "1g.5gb"]).unwrap();
    let cards = [vec![divided], (1..4).map(Card::a100).collect()].concat();
    cluster.reconfigure(cards, strategy("mixed"));
    let divvy = cluster.start_divvy();
    cluster.create(&half("default", "a")).await;
    let a = cluster.card_of("default", "a").await;
    assert_eq!(
        shown(&cluster),
        (["shared", "free", "free"].map(str::to_owned).into(), "0 of 3".into())
    );
    let index = |card: &str| card.trim_start_matches("nvidia").parse::<usize>().unwrap();
    let free = (1..4).find(|card| *card != index(&a)).unwrap();
    cluster.is_hurt(true);
    cluster.node().change_cards(|inventory| inventory.cards[free].failed = true).unwrap();
    cluster.until_told(&divvy, "2").await;
    let maybe = ["shared", "withheld?", "withheld?"].map(str::to_owned);
    assert_eq!(shown(&cluster), (maybe.into(), "1 of 3".into()));
    cluster.create(&whole("team", "three", 3)).await;
    cluster.said("team", "three", "2 of 3 cards allocatable (are the others unhealthy?)").await;

    // The one that is shared, too: the kubelet says which it is.
    cluster.node().change_cards(|inventory| inventory.cards[index(&a)].failed = true).unwrap();
    cluster.until_told(&divvy, "1").await;
    cluster
        .until("its reservation says that it is not well", async || {
            shown(&cluster).0[0] == "shared,sick"
        })
        .await;
    assert_eq!(shown(&cluster).1, "2 of 3");
    cluster.create(&whole("team", "one", 1)).await;
    let one = cluster.card_of("team", "one").await;
    assert!(index(&one) != free && one != a, "{one} {free} {a}");
    let rest = ["shared,sick", "whole", "withheld"].map(str::to_owned);
    assert_eq!(shown(&cluster).0, rest);
    cluster.check().await;
}
