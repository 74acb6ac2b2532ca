//! Shares of different classes: they never meet on a card, and whoever is helped is woken.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
use common::*;
use divvy_engine::*;
use divvy_ledger::*;
use proptest::prelude::{
    Just, ProptestConfig, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use proptest::strategy::Strategy as _;
use std::collections::BTreeSet;

fn classed(text: &str, class: u16) -> PodSpec {
    part(text, class, 0, 1)
}

fn part(text: &str, class: u16, compute: u8, cards: u32) -> PodSpec {
    let portion = Portion::Fraction(Fraction::parse(text).unwrap());
    let part = Part { class: Class(class), compute: Percent(compute), ..Part::of(portion) };
    PodSpec { request: Request::share(cards, part), ..PodSpec::default() }
}

fn offering(gpus: Gpus) -> Gpus {
    Gpus { classes: vec![Class(1), Class(2)], ..gpus }
}

fn named(nodes: impl IntoIterator<Item = NodeRecord>) -> Scheduler {
    let mut s = cluster(Config::default(), nodes);
    let class = |name: &str, provider: Option<&str>| ClassName {
        name: name.into(),
        provider: provider.map(Into::into),
    };
    let names = [
        class("Shared", None),
        class("Isolated/HAMi-core", Some("HAMi-core")),
        class("Isolated/x", Some("x")),
    ];
    s.apply(Event::Classes(names.into())).unwrap();
    s
}

#[test]
fn a_card_of_the_same_class_is_preferred_to_opening_one() {
    let mut s = named([node("a", offering(cards(1, 80))), node("b", offering(cards(3, 80)))]);
    assert_eq!(place(&mut s, "p", classed("0.1", 1)), "p a 0");
    assert_eq!(place(&mut s, "q", classed("0.1", 0)), "q b 0");
    assert_eq!(place(&mut s, "r", classed("0.1", 1)), "r a 0");
    assert_eq!(place(&mut s, "s", classed("0.1", 2)), "s b 1");
    assert_eq!(place(&mut s, "t", classed("0.1", 2)), "t b 1");
    assert_eq!(place(&mut s, "u", classed("0.5", 0)), "u b 0");
}

#[test]
fn the_reasons_name_the_class_and_the_provider() {
    let mut s = named([node("a", offering(cards(1, 80))), node("b", cards(1, 80))]);
    assert_eq!(place(&mut s, "p", classed("0.1", 0)), "p a 0");
    assert_eq!(place(&mut s, "q", classed("0.1", 1)), "q waits");
    assert_eq!(
        reasons(&s, "q"),
        ["1 x card a/0 holds Shared pods", "1 x provider HAMi-core is not installed"]
    );
    gone(&mut s, "p");
    assert_eq!(pass(&mut s), ["q a 0"]);
    s.apply(Event::Node(Box::new(node("c", offering(cards(1, 80)))))).unwrap();
    assert_eq!(place(&mut s, "r", classed("0.1", 2)), "r c 0");
    assert_eq!(place(&mut s, "s", part("0.1", 1, 0, 2)), "s waits");
}

#[test]
fn a_node_that_gets_its_provider_is_looked_at_again() {
    let mut s = named([node("b", cards(1, 80))]);
    assert_eq!(place(&mut s, "q", classed("0.1", 1)), "q waits");
    s.apply(Event::Node(Box::new(node("b", offering(cards(1, 80)))))).unwrap();
    assert_eq!(pass(&mut s), ["q b 0"]);
}

/// The most that is free on one card does not grow, and there is room nevertheless.
#[test]
fn who_waits_is_woken_by_a_card_that_opens_for_its_class_or_with_compute() {
    for (here, waits, opens) in [
        (classed("0.1", 0), classed("0.3", 1), classed("0.5", 1)),
        (part("0.1", 0, 100, 1), part("0.3", 0, 30, 1), part("0.5", 0, 10, 1)),
    ] {
        // The device plugin hands out one card of two.
        let gpus = Gpus::cards(2, 1, Some(Bytes(100 * GIB)));
        let mut s = named([node("a", offering(gpus))]);
        assert_eq!(place(&mut s, "here", here), "here a 0");
        assert_eq!(place(&mut s, "p", waits), "p waits");
        let card = BoundCards::Recorded(vec![CardShare { index: 1, bytes: Bytes(50 * GIB) }]);
        let record = PodRecord { bound: Some(Bound::new("a", card)), ..pod("opens", opens) };
        s.apply(Event::Pod(Box::new(record))).unwrap();
        assert_eq!(pass(&mut s), ["p a 1"]);
    }
}

#[test]
fn a_card_that_is_found_mixed_is_reported_and_closed_and_nobody_moves() {
    let mut s = named([node("a", offering(cards(2, 80)))]);
    let on_0 = || BoundCards::Recorded(vec![CardShare { index: 0, bytes: Bytes(8 * GIB) }]);
    let bound = |name: &str, class| PodRecord {
        bound: Some(Bound::new("a", on_0())),
        ..pod(name, classed("0.1", class))
    };
    s.apply(Event::Pod(Box::new(bound("p", 0)))).unwrap();
    let problem = s.apply(Event::Pod(Box::new(bound("q", 1)))).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "pod ml/q on a: card 0 has shares of another class; it is counted without a card"
    );
    assert_eq!(place(&mut s, "r", classed("0.1", 0)), "r a 1", "the other card");
    assert_eq!(place(&mut s, "s", classed("0.1", 1)), "s waits");
    gone(&mut s, "p");
    assert_eq!(pass(&mut s), ["s a 0"], "beside the one that is left");
}

#[derive(Clone, Debug)]
enum Do {
    Add(u8, &'static str, u16, u8, u32),
    Gone(u8),
    Pass,
    /// A node has its providers from now on, or has lost them.
    Node(&'static str, bool),
    /// Another process is told what is there.
    Restart,
}

const NODES: [&str; 3] = ["a", "b", "c"];

fn of_three(name: &str, offers: bool) -> NodeRecord {
    let gpus = cards(3, 80);
    node(name, if offers { offering(gpus) } else { gpus })
}

/// Whoever holds something is told with what is recorded of it.
fn restarted(before: &Scheduler, config: Config, nodes: [NodeRecord; 3]) -> Scheduler {
    let mut s = cluster(config, nodes);
    for (key, held) in before.holders() {
        let node = before.ledger().node(held.node).unwrap().name().to_string();
        let bound = Some(Bound::new(node, BoundCards::Recorded(held.cards.to_vec())));
        let spec = PodSpec { request: held.needs.request.clone(), ..PodSpec::default() };
        let record = PodRecord { bound, ..pod(key.name(), spec) };
        s.apply(Event::Pod(Box::new(record))).unwrap();
    }
    s
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_card_has_two_classes_or_more_compute_than_there_is(
        steps in prop::collection::vec(
            prop_oneof![
                4 => (0..40u8, prop::sample::select(vec!["0.1", "0.3", "0.5", "0.9"]), 0..3u16,
                    prop::sample::select(vec![0, 10, 40, 60, 100]), 1..3u32)
                    .prop_map(|(pod, part, class, compute, cards)| Do::Add(pod, part, class, compute, cards)),
                2 => (0..40u8).prop_map(Do::Gone),
                3 => Just(Do::Pass),
                1 => (prop::sample::select(NODES.to_vec()), any::<bool>())
                    .prop_map(|(name, offers)| Do::Node(name, offers)),
                1 => Just(Do::Restart),
            ],
            1..80,
        ),
        hands_off in any::<bool>(),
    ) {
        let opening = Opening { cpu: MilliCpu(1000), memory: Bytes(GIB) };
        let config = Config { hand_off: hands_off.then_some(opening), ..Config::default() };
        let mut nodes = NODES.map(|name| of_three(name, true));
        let mut s = cluster(config, nodes.clone());
        for step in steps {
            match step {
                Do::Add(pod, text, class, compute, cards) => {
                    let spec = part(text, class, compute, cards);
                    let _ = s.apply(Event::Pod(Box::new(common::pod(&pod.to_string(), spec))));
                }
                Do::Gone(pod) => gone(&mut s, &pod.to_string()),
                Do::Pass => drop(s.pass(usize::MAX)),
                Do::Node(name, offers) => {
                    let node = of_three(name, offers);
                    s.apply(Event::Node(Box::new(node.clone()))).unwrap();
                    let at = NODES.iter().position(|known| *known == name).unwrap();
                    nodes[at] = node;
                }
                Do::Restart => {
                    let count = s.holders().len();
                    s = restarted(&s, config, nodes.clone());
                    prop_assert_eq!(s.holders().len(), count);
                }
            }
            prop_assert_eq!(s.ledger().audit(), Ok(()));
            for (_, node) in s.ledger().alive() {
                for card in node.cards() {
                    let holders = card.shares().iter().filter_map(|share| s.ledger().holding(share.pod));
                    let parts: Vec<Part> = holders.filter_map(|held| held.needs.request.part()).collect();
                    let classes: BTreeSet<u16> = parts.iter().map(|part| part.class.0).collect();
                    prop_assert!(classes.len() <= 1, "{:?}", parts);
                    let compute: u32 = parts.iter().map(|part| u32::from(part.compute.0)).sum();
                    prop_assert!(compute <= 100, "{:?}", parts);
                }
            }
        }
    }
}
