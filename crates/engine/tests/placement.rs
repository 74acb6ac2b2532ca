//! Which node and which card a pod gets.

mod common;
use common::*;
use divvy_engine::*;
use divvy_ledger::*;

fn spreading(node: Strategy, card: Strategy) -> Config {
    Config { node, card, ..Config::default() }
}

#[test]
fn two_halves_share_one_card_when_packing() {
    let mut s = cluster(Config::default(), [node("a", cards(2, 80)), node("b", cards(2, 80))]);
    assert_eq!(place(&mut s, "p1", fraction("0.5")), "p1 a 0");
    assert_eq!(place(&mut s, "p2", fraction("0.5")), "p2 a 0");
    assert_eq!(place(&mut s, "p3", fraction("0.5")), "p3 a 1");
}

#[test]
fn two_halves_take_two_nodes_when_spreading() {
    let config = spreading(Strategy::Spread, Strategy::Spread);
    let mut s = cluster(config, [node("a", cards(2, 80)), node("b", cards(2, 80))]);
    assert_eq!(place(&mut s, "p1", fraction("0.5")), "p1 a 0");
    assert_eq!(place(&mut s, "p2", fraction("0.5")), "p2 b 0");
    assert_eq!(place(&mut s, "p3", fraction("0.5")), "p3 a 1");
}

#[test]
fn nodes_pack_while_cards_spread() {
    let config = spreading(Strategy::Binpack, Strategy::Spread);
    let mut s = cluster(config, [node("a", cards(2, 80)), node("b", cards(2, 80))]);
    assert_eq!(place(&mut s, "p1", fraction("0.5")), "p1 a 0");
    assert_eq!(place(&mut s, "p2", fraction("0.5")), "p2 a 1");
}

#[test]
fn nodes_spread_while_cards_pack() {
    let config = spreading(Strategy::Spread, Strategy::Binpack);
    let mut s = cluster(config, [node("a", cards(2, 80)), node("b", cards(2, 80))]);
    assert_eq!(place(&mut s, "p1", fraction("0.25")), "p1 a 0");
    assert_eq!(place(&mut s, "p2", fraction("0.25")), "p2 b 0");
    assert_eq!(place(&mut s, "p3", fraction("0.25")), "p3 a 0");
}

#[test]
fn the_pods_own_strategy_wins_over_the_configured_one() {
    let mut s = cluster(Config::default(), [node("a", cards(2, 80)), node("b", cards(2, 80))]);
    let spread = || PodSpec { strategy: Some(Strategy::Spread), ..fraction("0.5") };
    assert_eq!(place(&mut s, "p1", spread()), "p1 a 0");
    assert_eq!(place(&mut s, "p2", spread()), "p2 b 0");
}

#[test]
fn what_is_shared_counts_in_the_node_score() {
    // KAI counts whole GPUs only (#109, PR #1099): to it both nodes look alike.
    let mut s = cluster(Config::default(), [node("a", cards(2, 80)), node("b", cards(2, 80))]);
    let on_b = PodSpec {
        rules: Rules { node_name: Some("b".into()), ..Rules::default() }.into(),
        ..fraction("0.6")
    };
    place(&mut s, "p1", on_b);
    assert_eq!(place(&mut s, "p2", whole(1)), "p2 b 1");
}

#[test]
fn a_share_prefers_a_shared_card_to_a_fuller_node() {
    let mut s = cluster(Config::default(), [node("a", cards(4, 80)), node("b", cards(4, 80))]);
    place(&mut s, "w", whole(3));
    let on_b = PodSpec {
        rules: Rules { node_name: Some("b".into()), ..Rules::default() }.into(),
        ..fraction("0.1")
    };
    place(&mut s, "first", on_b);
    assert_eq!(place(&mut s, "second", fraction("0.1")), "second b 0");
}

#[test]
fn a_share_takes_the_fullest_card_it_fits_on() {
    let mut s = cluster(Config::default(), [node("a", cards(3, 10))]);
    place(&mut s, "p1", fraction("0.6"));
    place(&mut s, "p2", fraction("0.7"));
    assert_eq!(place(&mut s, "p3", fraction("0.3")), "p3 a 1");
    assert_eq!(place(&mut s, "p4", fraction("0.35")), "p4 a 0");
}

#[test]
fn cpu_pods_are_not_drawn_to_gpu_nodes() {
    // KAI draws them to nodes with shared cards (#2154, #2168).
    let mut s = cluster(Config::default(), [node("gpu", cards(8, 80)), node("cpu", Gpus::none())]);
    place(&mut s, "share", fraction("0.5"));
    assert_eq!(place(&mut s, "web", cpu(1000)), "web cpu");
    assert_eq!(place(&mut s, "big", cpu(64_000)), "big gpu", "but they go where there is room");
}

#[test]
fn a_node_above_its_threshold_is_packed_last() {
    let mut config = Config::default();
    config.thresholds.gpu = 500_000;
    let mut s = cluster(config, [node("a", cards(4, 80)), node("b", cards(4, 80))]);
    assert_eq!(place(&mut s, "p1", whole(2)), "p1 a 0,1");
    assert_eq!(place(&mut s, "p2", whole(1)), "p2 b 0", "a would be above one half");
    assert_eq!(place(&mut s, "p3", whole(1)), "p3 b 1");
    assert_eq!(place(&mut s, "p4", whole(1)), "p4 a 2", "full nodes still serve when all are full");
}

#[test]
fn weights_decide_which_resource_is_packed() {
    let small = NodeRecord { cpu: MilliCpu(8_000), ..node("few-cores", cards(8, 80)) };
    let pod = || PodSpec { cpu: MilliCpu(4_000), ..whole(1) };
    let nodes = || [node("few-cards", cards(2, 80)), small.clone()];
    let mut s = cluster(Config::default(), nodes());
    assert_eq!(place(&mut s, "p", pod()), "p few-cards 0");
    let weights = PerResource { gpu: 1, cpu: 10, memory: 0 };
    let mut s = cluster(Config { weights, ..Config::default() }, nodes());
    assert_eq!(place(&mut s, "p", pod()), "p few-cores 0");
}

#[test]
fn shares_on_several_cards_are_on_distinct_cards_of_one_node() {
    let mut s = cluster(Config::default(), [node("a", cards(2, 80)), node("b", cards(3, 80))]);
    assert_eq!(place(&mut s, "p", fractions("0.5", 3)), "p b 0,1,2");
    assert_eq!(place(&mut s, "q", fractions("0.5", 2)), "q b 0,1");
    let (_, id) = s.nodes().nth(1).unwrap();
    let used: Vec<u64> =
        s.ledger().node(id).unwrap().cards().iter().map(|c| c.used().0 / GIB).collect();
    assert_eq!(used, [80, 80, 40]);
}

#[test]
fn gpu_memory_of_two_cards_is_not_accepted_on_one() {
    // KAI accepts exactly k whole cards' memory on a single card.
    let mut s = cluster(Config::default(), [node("a", cards(4, 40))]);
    assert_eq!(place(&mut s, "p", memory(2 * 40 * 1024)), "p waits");
    assert_eq!(reasons(&s, "p"), ["1 x largest card 40.0 GiB < 80.0 GiB asked"]);
}

#[test]
fn no_card_is_packed_beyond_its_memory_in_a_burst() {
    // KAI #2153: 16 pods of 0.5 on 8 cards, submitted at once, put 3 or 4 on one card.
    let mut s = cluster(Config::default(), [node("a", cards(8, 80))]);
    for i in 0..17 {
        add(&mut s, &format!("p{i:02}"), fraction("0.5"));
    }
    let lines = pass(&mut s);
    assert_eq!(lines.iter().filter(|l| !l.ends_with("waits")).count(), 16);
    let (_, id) = s.nodes().next().unwrap();
    for card in s.ledger().node(id).unwrap().cards() {
        assert_eq!((card.shares().len(), card.used()), (2, card.capacity()));
    }
}

#[test]
fn memory_is_not_floored_nor_rounded_to_two_decimals() {
    // KAI #416: 24 pods of 2000 MiB pass on a card of 46068 MiB; 23 fit.
    let l40s = Gpus::cards(1, 1, Some(Bytes::from_mib(46_068)));
    let mut s = cluster(Config::default(), [node("a", l40s)]);
    for i in 0..24 {
        add(&mut s, &format!("p{i:02}"), memory(2000));
    }
    assert_eq!(pass(&mut s).iter().filter(|l| l.ends_with(" a 0")).count(), 23);
    assert_eq!(reasons(&s, "p23"), ["1 x largest free share 68 MiB < 1.9 GiB asked"]);
}

#[test]
fn preferred_affinity_comes_before_packing() {
    let mut liked = node("z-liked", cards(8, 80));
    liked.facts.labels = vec![("tier".into(), "gold".into())];
    let mut s = cluster(Config::default(), [node("a", cards(2, 80)), liked]);
    let term = Term {
        labels: vec![Requirement {
            key: "tier".into(),
            test: Test::In(vec!["gold".into()].into()),
        }],
        ..Term::default()
    };
    let mut spec = whole(1);
    std::sync::Arc::make_mut(&mut spec.rules).preferred.push((10, term));
    assert_eq!(place(&mut s, "p", spec), "p z-liked 0");
}

#[test]
fn nodes_with_replicas_take_whole_requests_but_no_shares() {
    // KAI takes each replica for a whole card, so fractions oversubscribe the memory.
    let mut s = cluster(Config::default(), [node("sliced", Gpus::replicas(32))]);
    assert_eq!(place(&mut s, "whole", whole(2)), "whole sliced");
    assert_eq!(place(&mut s, "share", fraction("0.5")), "share waits");
    assert_eq!(waiting(&s, "share").refusals[0].reason.name(), "NodeSharesReplicas");
    assert_eq!(place(&mut s, "many", whole(31)), "many waits");
    assert_eq!(reasons(&s, "many"), ["1 x 2 of 32 nvidia.com/gpu are taken, 31 asked"]);
}

#[test]
fn fractions_run_on_cards_of_unknown_memory_but_gpu_memory_does_not() {
    let unknown = Gpus::cards(1, 1, None);
    let mut s = cluster(Config::default(), [node("a", unknown)]);
    assert_eq!(place(&mut s, "p", memory(1)), "p waits");
    assert!(reasons(&s, "p")[0].contains("label nvidia.com/gpu.memory is missing"));
    assert_eq!(place(&mut s, "q", fraction("0.7")), "q a 0");
    assert_eq!(place(&mut s, "r", fraction("0.31")), "r waits");
    assert_eq!(place(&mut s, "t", fraction("0.3")), "t a 0");
}

/// Each name by which slices are asked for.
fn kinds_of_slices() -> [Device; 4] {
    let small = Profile { slices: 1, gb: 10, instances: None, engines: Engines::Usual };
    [Device::Gpu, Device::Replica, Device::Slice(small), Device::SliceReplica(small)]
}

fn slices(device: Device, count: u32) -> PodSpec {
    let request = match device {
        Device::Gpu => Request::whole(count),
        device => Request::none().and(count, Each::Device(device)),
    };
    PodSpec { request, ..PodSpec::default() }
}

fn offering(name: &str, device: Device, count: u32) -> NodeRecord {
    node(name, Gpus { pools: vec![Pool::of(device, count)], ..Gpus::none() })
}

#[test]
fn a_node_whose_slices_are_in_use_comes_before_a_fresh_one() {
    for device in kinds_of_slices() {
        let asks = |n| slices(device, n);
        let large = offering("z-large", device, 28);
        let mut s = cluster(Config::default(), [large, offering("a-small", device, 4)]);
        assert_eq!(place(&mut s, "first", asks(5)), "first z-large", "only there is room");
        // By how full it would be, the small one would win.
        assert_eq!(place(&mut s, "second", asks(1)), "second z-large", "{device}");
    }
}

#[test]
fn of_fresh_nodes_the_smaller_one_gives_its_slices_first() {
    for device in kinds_of_slices() {
        let asks = slices(device, 1);
        let nodes = [offering("a-large", device, 28), offering("z-small", device, 7)];
        let mut s = cluster(Config::default(), nodes);
        assert_eq!(place(&mut s, "first", asks), "first z-small", "{device}");
    }
}
