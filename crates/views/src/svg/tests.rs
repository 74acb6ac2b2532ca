use super::*;
use crate::simulation::simulation;
use crate::testing::{Cluster, bound, fraction, mib, node, pod, whole};
use divvy_engine::NodeRecord;
use divvy_ledger::Gpus;

fn svg(cluster: &Cluster) -> String {
    let sim = simulation(&cluster.scheduler, &cluster.pods);
    card_map_svg(&sim)
}

/// Every tag that is opened is closed, in order: enough to know that nothing broke out.
fn assert_balanced(svg: &str) {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').unwrap();
        assert!(!text.contains('>'), "{tag}>{text}");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap()),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

/// A busy cluster of every kind of node; `DIVVY_SVG=file cargo test` writes it to be looked at.
fn zoo() -> Cluster {
    let unknown = NodeRecord { gpus: Gpus::cards(2, 2, None), ..node("lab-7", "Tesla-T4", 2, 15) };
    let replicas = NodeRecord { gpus: Gpus::replicas(32), ..node("time-1", "Tesla-T4", 2, 15) };
    let mut cluster = Cluster::example()
        .with(node("l40s-with-a-very-long-name.example.com", "NVIDIA-L40S", 4, 45))
        .with(node("dgx-h100-16", "NVIDIA-H100-80GB-HBM3", 16, 80))
        .with(unknown)
        .with(replicas)
        .add(bound(pod("ml/many", whole(12)), "time-1"))
        .add(bound(pod("ml/lab", fraction("0.4", 2)), "lab-7"))
        .add(bound(pod("ml/train-h100-large-language-model", whole(8)), "dgx-h100-16"))
        .add(bound(pod("ml/train-9", whole(2)), "dgx-h100-16"));
    for (i, size) in ["0.5", "0.2", "0.1", "0.6", "0.3", "0.15", "0.75", "0.05"].iter().enumerate()
    {
        let on = ["l40s-with-a-very-long-name.example.com", "a100-2", "dgx-h100-16"][i % 3];
        cluster = cluster.add(bound(pod(&format!("ml/service-{i}"), fraction(size, 1)), on));
    }
    for i in 0..12 {
        let share = pod(&format!("ml/tiny-{i}"), mib(3_000 + 500 * i, 1));
        cluster = cluster.add(bound(share, "a100-2"));
    }
    cluster.ask("ml/huge", whole(40))
}

#[test]
fn the_picture_shows_every_pod_on_a_card_and_the_totals() {
    let cluster = zoo();
    let svg = svg(&cluster);
    if let Ok(path) = std::env::var("DIVVY_SVG") {
        std::fs::write(path, &svg).unwrap();
    }
    assert_balanced(&svg);
    for pod in ["ml/train-7", "ml/notebook-a", "ml/tiny-11", "ml/service-7", "ml/lab"] {
        assert!(svg.contains(&format!("<title>{pod}: ")), "{pod}");
    }
    assert!(svg.contains("12 of 32 replicas taken"));
    assert!(svg.contains("pending  ml/llm-xl: largest card 80.0 GiB &lt; 96.0 GiB asked"));
    assert!(svg.contains("cards in use"));
}

#[test]
fn names_of_users_cannot_break_out_of_the_picture() {
    let cluster = Cluster::new()
        .with(node("<n>", "\"><script>alert(1)</script>", 1, 80))
        .ask("ml/</title><script>&\x07", fraction("0.5", 1))
        .ask("a&b/'\"><svg onload=x", whole(9));
    let svg = svg(&cluster);
    assert_balanced(&svg);
    assert!(!svg.contains("<script") && !svg.contains("<svg onload"));
}

#[test]
fn an_empty_cluster_is_still_a_picture() {
    let svg = svg(&Cluster::new());
    assert_balanced(&svg);
    assert!(svg.contains("0 of 0 cards in use"));
}

#[test]
fn many_nodes_are_cut_short_with_a_note() {
    let mut cluster = Cluster::new();
    for i in 0..45 {
        cluster = cluster.with(node(&format!("n-{i}"), "x", 1, 80));
    }
    for i in 0..44 {
        cluster = cluster.ask(&format!("ml/p-{i}"), whole(1));
    }
    let svg = svg(&cluster);
    assert!(svg.contains("4 more nodes with cards in use"));
    assert!(svg.contains("1 node without a card in use"));
}

#[test]
fn the_same_input_gives_the_same_picture() {
    assert_eq!(svg(&zoo()), svg(&zoo()));
}

#[test]
fn neighbours_on_a_node_never_have_the_same_colour() {
    let mut cluster = Cluster::new().with(node("a-1", "x", 8, 80)).with(node("a-2", "x", 8, 80));
    for i in 0..40 {
        let on = ["a-1", "a-2"][i % 2];
        cluster = cluster.add(bound(pod(&format!("ml/p-{i}"), fraction("0.3", 1)), on));
    }
    let sim = simulation(&cluster.scheduler, &cluster.pods);
    let palette = Palette::of(&sim);
    for node in &sim.nodes {
        for pair in node.cards.windows(2) {
            let shares = pair.iter().flat_map(|card| &card.shares);
            let mut colours: Vec<_> = shares.map(|share| palette.colour(share.pod)).collect();
            let all = colours.len();
            colours.sort_unstable();
            colours.dedup();
            assert_eq!(colours.len(), all, "cards {} and {}", pair[0].index, pair[1].index);
        }
    }
}

#[test]
fn a_card_that_is_claimed_twice_is_marked_and_in_the_legend() {
    let marked = svg(&Cluster::overbooked());
    assert_balanced(&marked);
    assert_eq!(marked.matches(">overbooked</text>").count(), 2);
    assert!(!svg(&Cluster::example()).contains("overbooked"));
}

#[test]
fn each_shared_card_says_its_class() {
    let svg = svg(&Cluster::classed());
    assert_balanced(&svg);
    assert!(svg.contains(">Shared 50 %</text>"), "{svg}");
    assert!(svg.contains(">Isolated/HAMi-core 25 %</text>"), "{svg}");
    let named = |class| svg.matches(class).count();
    assert_eq!((named("Shared"), named("Isolated")), (1, 1), "the free card has none: {svg}");
}
