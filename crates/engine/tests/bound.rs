//! Pods that are bound already: nothing is booked twice, in whatever order the news comes.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
use common::*;
use divvy_engine::*;
use divvy_ledger::*;
use proptest::prelude::{ProptestConfig, prop, prop_assert_eq, proptest};
use proptest::strategy::Strategy as _;

fn send(s: &mut Scheduler, record: PodRecord) -> Result<(), Problem> {
    s.apply(Event::Pod(Box::new(record)))
}

fn bound(name: &str, spec: PodSpec, node: &str, cards: BoundCards) -> PodRecord {
    PodRecord { bound: Some(Bound::new(node, cards)), ..pod(name, spec) }
}

fn recorded(cards: &[(u32, u64)]) -> BoundCards {
    let share = |(index, bytes): &(u32, u64)| CardShare { index: *index, bytes: Bytes(*bytes) };
    BoundCards::Recorded(cards.iter().map(share).collect())
}

fn set(s: &mut Scheduler, record: NodeRecord) {
    s.apply(Event::Node(Box::new(record))).unwrap();
}

#[test]
fn a_late_word_of_an_unbound_pod_does_not_undo_its_placement() {
    let mut s = cluster(Config::default(), [node("a", cards(1, 80))]);
    assert_eq!(place(&mut s, "p", whole(1)), "p a 0");
    send(&mut s, pod("p", whole(1))).unwrap();
    send(&mut s, PodRecord { priority: 9, ..pod("q", whole(1)) }).unwrap();
    assert_eq!(pass(&mut s), ["q waits"]);
    let again = PodRecord { uid: "another".into(), ..pod("p", whole(1)) };
    send(&mut s, again).unwrap();
    assert_eq!(pass(&mut s), ["q a 0", "p waits"], "a pod of the same name is another pod");
}

#[test]
fn an_echo_of_a_waiting_pod_is_not_reported_again() {
    let mut s = cluster(Config::default(), [node("a", Gpus::none())]);
    assert_eq!(place(&mut s, "p", whole(1)), "p waits");
    send(&mut s, pod("p", whole(1))).unwrap();
    assert_eq!(pass(&mut s), [""; 0]);
}

#[test]
fn a_pod_that_is_known_before_its_node_holds_its_card_once_the_node_comes() {
    let mut s = Scheduler::new(Config::default());
    let record = bound("p", fraction("0.9"), "n", recorded(&[(0, 72 * GIB)]));
    assert!(matches!(send(&mut s, record), Err(Problem::UnknownNode { .. })));
    set(&mut s, node("n", cards(1, 80)));
    assert_eq!(place(&mut s, "q", fraction("0.9")), "q waits");
    gone(&mut s, "p");
    assert_eq!(pass(&mut s), ["q n 0"]);
}

#[test]
fn whole_cards_that_are_handed_out_twice_are_not_free() {
    for order in [["p", "q"], ["q", "p"]] {
        let mut s = cluster(Config::default(), [node("n", cards(4, 80))]);
        for name in order {
            let wanted = if name == "p" { 3 } else { 2 };
            let _ = send(&mut s, bound(name, whole(wanted), "n", BoundCards::Choose));
        }
        assert_eq!(place(&mut s, "r", whole(1)), "r waits", "{order:?}");
        gone(&mut s, "p");
        assert_eq!(pass(&mut s), ["r n 2"], "{order:?}: q has two of four again");
    }
}

#[test]
fn a_record_is_entered_when_the_node_shows_its_cards_again() {
    let off = Gpus::cards(2, 0, Some(Bytes(80 * GIB)));
    for (before, spec, held) in [
        (Gpus::none(), fraction("0.9"), recorded(&[(0, 72 * GIB)])),
        (off, whole(2), BoundCards::Choose),
    ] {
        let mut s = cluster(Config::default(), [node("n", before)]);
        assert!(send(&mut s, bound("p", spec, "n", held)).is_err());
        set(&mut s, node("n", cards(2, 80)));
        assert_eq!(place(&mut s, "x", whole(2)), "x waits");
    }
}

#[test]
fn a_record_of_a_card_that_is_not_there_closes_the_node_until_it_is_or_the_pod_is_gone() {
    for over in [true, false] {
        for (gpus, missing) in [(cards(2, 80), 7), (Gpus::replicas(2), 0)] {
            let mut s = cluster(Config::default(), [node("n", gpus)]);
            // One of the cards is there.
            let odd =
                bound("p", fractions("0.5", 2), "n", recorded(&[(0, 40 * GIB), (7, 40 * GIB)]));
            let problem = send(&mut s, odd).unwrap_err();
            let said =
                format!("pod ml/p on n is recorded on card {missing}, which n does not have");
            assert!(problem.to_string().starts_with(&said), "{problem}");
            assert_eq!(place(&mut s, "q", whole(2)), "q waits");
            let why =
                "1 x the record of a pod there does not say which cards it has, so no GPU is given";
            assert_eq!(reasons(&s, "q"), [why]);
            assert_eq!(place(&mut s, "c", cpu(1_000)), "c n");
            if over {
                gone(&mut s, "p");
                assert_eq!(pass(&mut s).len(), 1);
            } else {
                set(&mut s, node("n", cards(8, 80)));
                assert_eq!(pass(&mut s), ["q n 1,2"]);
            }
        }
    }
}

#[test]
fn a_node_that_shrinks_goes_on_and_after_a_restart_is_closed_until_it_grows() {
    let record = || bound("p", fraction("0.5"), "n", recorded(&[(3, 40 * GIB)]));
    let mut s = cluster(Config::default(), [node("n", cards(4, 80))]);
    send(&mut s, record()).unwrap();
    set(&mut s, node("n", cards(2, 80)));
    send(&mut s, record()).unwrap();
    assert_eq!(place(&mut s, "q", whole(1)), "q n 0", "that is not the card of p");
    let mut s = cluster(Config::default(), [node("n", cards(2, 80))]);
    assert!(matches!(send(&mut s, record()), Err(Problem::Elsewhere { card: 3, .. })));
    assert_eq!(place(&mut s, "q", whole(2)), "q waits", "either may be");
    // The device plugin registers anew: the cards are there, and not handed out.
    set(&mut s, node("n", Gpus::cards(4, 0, Some(Bytes(80 * GIB)))));
    assert_eq!(s.holding(&ObjectKey::new("ml", "p")).unwrap().cards[0].index, 3);
    set(&mut s, node("n", cards(4, 80)));
    assert_eq!(pass(&mut s), ["q n 0,1"]);
}

#[test]
fn a_card_that_is_known_by_its_name_and_not_shown_is_none_of_the_others() {
    let mut s = cluster(Config::default(), [node("n", cards(2, 80))]);
    let share = CardShare { index: 2, bytes: Bytes(40 * GIB) };
    let named = bound("p", fraction("0.5"), "n", BoundCards::Named(vec![share]));
    assert!(matches!(send(&mut s, named), Err(Problem::Cards { .. })));
    assert_eq!(place(&mut s, "q", whole(2)), "q n 0,1");
}

#[test]
fn a_pod_without_a_record_moves_aside_for_one_that_has() {
    let mut s = cluster(Config::default(), [node("n", cards(2, 80))]);
    send(&mut s, bound("w", whole(1), "n", BoundCards::Choose)).unwrap();
    send(&mut s, bound("p", fraction("0.5"), "n", recorded(&[(0, 40 * GIB)]))).unwrap();
    let card = |name: &str| s.holding(&ObjectKey::new("ml", name)).unwrap().cards[0].index;
    assert_eq!((card("p"), card("w")), (0, 1));
}

#[test]
fn a_card_that_is_claimed_twice_takes_nobody_new_until_that_is_settled() {
    let mut s = cluster(Config::default(), [node("n", cards(1, 80))]);
    send(&mut s, bound("a", fraction("0.5"), "n", recorded(&[(0, 0)]))).unwrap();
    assert!(send(&mut s, bound("b", fraction("0.6"), "n", recorded(&[(0, 0)]))).is_err());
    assert_eq!(place(&mut s, "c", fraction("0.1")), "c waits");
    gone(&mut s, "a");
    assert_eq!(pass(&mut s), ["c n 0"], "b holds its 0.6 now, and 0.1 fits beside it");
    assert_eq!(place(&mut s, "d", fraction("0.4")), "d waits");
}

#[test]
fn a_card_is_open_again_once_who_claimed_it_is_gone() {
    let mut s = cluster(Config::default(), [node("a", cards(1, 80))]);
    send(&mut s, bound("p", fraction("0.5"), "a", recorded(&[(0, 40 * GIB)]))).unwrap();
    let contender = bound("c", fraction("0.75"), "a", recorded(&[(0, 60 * GIB)]));
    assert!(matches!(send(&mut s, contender), Err(Problem::Cards { .. })));
    assert_eq!(place(&mut s, "q", fraction("0.5")), "q waits");
    gone(&mut s, "c");
    assert_eq!(pass(&mut s), ["q a 0"]);
}

#[test]
fn what_is_held_counts_when_cards_become_replicas_and_back() {
    let mut s = cluster(Config::default(), [node("n", Gpus::replicas(4))]);
    place(&mut s, "w", whole(4));
    set(&mut s, node("n", cards(4, 80)));
    assert_eq!(place(&mut s, "x", whole(4)), "x waits");
    let mut s = cluster(Config::default(), [node("n", cards(4, 80))]);
    place(&mut s, "w", whole(4));
    set(&mut s, node("n", Gpus::replicas(4)));
    assert_eq!(place(&mut s, "x", whole(4)), "x waits");
}

#[test]
fn cards_that_are_gone_are_forgotten_once_nobody_holds_them() {
    let mut s = cluster(Config::default(), [node("a", cards(8, 80)), node("b", cards(3, 80))]);
    place(&mut s, "w", whole(8));
    set(&mut s, node("a", cards(2, 80)));
    gone(&mut s, "w");
    let fresh = cluster(Config::default(), [node("a", cards(2, 80)), node("b", cards(3, 80))]);
    assert_eq!(s.scan(&pod("x", whole(1))), fresh.scan(&pod("x", whole(1))));
}

#[test]
fn an_unhealthy_card_is_not_given_away() {
    let three_of_four = Gpus::cards(4, 3, Some(Bytes(80 * GIB)));
    let mut s = cluster(Config::default(), [node("n", three_of_four)]);
    assert_eq!(place(&mut s, "a", whole(2)), "a n 0,1");
    assert_eq!(place(&mut s, "b", fraction("0.5")), "b n 2");
    assert_eq!(place(&mut s, "c", whole(1)), "c waits");
    assert_eq!(place(&mut s, "d", fraction("0.6")), "d waits");
    let why = "1 x 3 of 4 cards allocatable (are the others unhealthy?)";
    assert_eq!(reasons(&s, "d"), [why], "the fourth is free, but not handed out");
    assert_eq!(place(&mut s, "e", fraction("0.5")), "e n 2");
}

#[test]
fn a_fraction_recorded_on_a_card_of_unknown_memory_outlives_the_label() {
    let unknown = Gpus::cards(1, 1, None);
    let mut s = cluster(Config::default(), [node("n", unknown)]);
    place(&mut s, "p", fraction("0.5"));
    let written = s.holding(&ObjectKey::new("ml", "p")).unwrap().cards.to_vec();
    let mut s = cluster(Config::default(), [node("n", cards(1, 80))]);
    send(&mut s, bound("p", fraction("0.5"), "n", BoundCards::Recorded(written))).unwrap();
    assert_eq!(s.holding(&ObjectKey::new("ml", "p")).unwrap().cards[0].bytes, Bytes(40 * GIB));
}

#[test]
fn a_share_that_opens_a_card_wakes_those_that_can_join_it() {
    let two = Gpus::cards(2, 1, Some(Bytes(80 * GIB)));
    let mut s = cluster(Config::default(), [node("n", two)]);
    place(&mut s, "w", whole(1));
    assert_eq!(place(&mut s, "q", fraction("0.3")), "q waits");
    send(&mut s, bound("r", fraction("0.5"), "n", recorded(&[(1, 40 * GIB)]))).unwrap();
    assert_eq!(pass(&mut s), ["q n 1"]);
}

#[test]
fn a_bound_pod_whose_needs_changed_is_entered_anew() {
    let mut s = cluster(Config::default(), [node("n", Gpus::none())]);
    send(&mut s, bound("p", cpu(1_000), "n", BoundCards::Nothing)).unwrap();
    send(&mut s, bound("p", cpu(60_000), "n", BoundCards::Nothing)).unwrap();
    assert_eq!(place(&mut s, "q", cpu(10_000)), "q waits", "resized in place");
}

#[test]
fn the_largest_free_share_is_the_largest_in_the_unit_that_was_asked() {
    let both = [node("big", cards(1, 80)), node("small", cards(1, 15))];
    let mut s = cluster(Config::default(), both);
    send(&mut s, bound("a", memory(69 * 1024), "big", recorded(&[(0, 69 * GIB)]))).unwrap();
    send(&mut s, bound("b", memory(5 * 1024), "small", recorded(&[(0, 5 * GIB)]))).unwrap();
    place(&mut s, "p", memory(12 * 1024));
    assert_eq!(reasons(&s, "p"), ["2 x largest free share 11.0 GiB < 12.0 GiB asked"]);
    place(&mut s, "q", fraction("0.7"));
    assert_eq!(reasons(&s, "q"), ["2 x largest free share 0.666 < 0.7 asked"]);
}

fn must_end(s: &mut Scheduler, name: &str) -> Vec<(ObjectKey, Missing)> {
    let nearest = waiting(s, name).nearest.unwrap();
    s.who_must_end(&ObjectKey::new("ml", name), nearest).1
}

fn gib(n: u64) -> Missing {
    Missing::Share(Bytes(n * GIB))
}

#[test]
fn the_nearest_fit_promises_only_what_holds() {
    let mut s = cluster(Config::default(), [node("n", cards(1, 80))]);
    place(&mut s, "a", fraction("0.9"));
    place(&mut s, "q", fraction("0.5"));
    assert_eq!(must_end(&mut s, "q"), [(ObjectKey::new("ml", "a"), gib(72))]);
    place(&mut s, "c", cpu(64_000));
    place(&mut s, "r", PodSpec { cpu: MilliCpu(1000), ..fraction("0.5") });
    assert_eq!(must_end(&mut s, "r"), [], "it would lack CPU still");
}

#[test]
fn the_nearest_fit_names_no_pod_that_need_not_end_and_all_that_each_has() {
    let key = |name: &str| ObjectKey::new("ml", name);
    let mut s = cluster(Config::default(), [node("n", cards(6, 80))]);
    place(&mut s, "aaa", whole(1));
    place(&mut s, "four", whole(4));
    place(&mut s, "half", fraction("0.5"));
    place(&mut s, "p", whole(4));
    assert_eq!(must_end(&mut s, "p"), [(key("four"), gib(320))]);
    place(&mut s, "q", whole(5));
    let both = [(key("half"), gib(40)), (key("four"), gib(320))];
    assert_eq!(must_end(&mut s, "q"), both, "the least of those that would do");
    place(&mut s, "r", whole(6));
    assert_eq!(must_end(&mut s, "r").len(), 3);
    place(&mut s, "t", fractions("0.6", 2));
    assert_eq!(must_end(&mut s, "t"), [(key("four"), gib(320))]);
}

#[test]
fn the_nearest_fit_names_who_must_end_for_what_is_no_card_too() {
    let key = |name: &str| ObjectKey::new("ml", name);
    let gpus = Gpus { pools: vec![Pool::of(Device::Gpu, 4)], ..Gpus::none() };
    let few = NodeRecord { pods: 4, extended: vec![("x/y".into(), 8)], ..node("n", gpus) };
    let mut s = cluster(Config::default(), [few]);
    let extended = |n: u64| PodSpec { extended: vec![("x/y".into(), n)], ..cpu(1_000) };
    place(&mut s, "a", PodSpec { memory: Bytes(200 * GIB), ..cpu(8_000) });
    place(&mut s, "b", PodSpec { request: Request::whole(3), ..cpu(40_000) });
    place(&mut s, "c", extended(6));
    for (name, spec, ends) in [
        ("cpu", cpu(50_000), vec![(key("b"), Missing::Cpu(MilliCpu(40_000)))]),
        (
            "memory",
            PodSpec { memory: Bytes(100 * GIB), ..PodSpec::default() },
            vec![(key("a"), Missing::Memory(Bytes(200 * GIB)))],
        ),
        ("named", extended(3), vec![(key("c"), Missing::Extended("x/y".into(), 6))]),
        ("all", cpu(60_000), vec![]),
    ] {
        place(&mut s, name, spec);
        let found = must_end(&mut s, name);
        // Of two that would do, the smaller; and b alone leaves 55 of 60 CPU.
        let both =
            [(key("a"), 8_000), (key("b"), 40_000)].map(|(k, n)| (k, Missing::Cpu(MilliCpu(n))));
        assert_eq!(found, if name == "all" { both.to_vec() } else { ends }, "{name}");
    }
    place(&mut s, "d", cpu(1));
    place(&mut s, "slot", cpu(1));
    assert_eq!(must_end(&mut s, "slot"), [(key("a"), Missing::PodSlots(1))]);
    gone(&mut s, "d");
    place(&mut s, "replicas", whole(2));
    let three = Missing::Extended("nvidia.com/gpu".into(), 3);
    assert_eq!(must_end(&mut s, "replicas"), [(key("b"), three)]);
}

/// How many changes of nodes it takes.
fn changes(s: &mut Scheduler, act: impl FnOnce(&mut Scheduler)) -> usize {
    let before = s.ledger().journal().end();
    act(s);
    s.ledger().journal().since(before).unwrap().len()
}

#[test]
fn a_pod_that_cannot_be_entered_does_not_enter_all_others_again() {
    let mut s = cluster(Config::default(), [node("n", cards(2, 80)), node("m", cards(1, 80))]);
    send(&mut s, bound("h", whole(1), "n", recorded(&[(0, 80 * GIB)]))).unwrap();
    let claims =
        |n: u32| bound(&format!("c{n:03}"), fraction("0.5"), "n", recorded(&[(0, 40 * GIB)]));
    for number in 0..100 {
        assert!(send(&mut s, claims(number)).is_err());
        let lost = bound(&format!("l{number:03}"), cpu(1), "nowhere", BoundCards::Nothing);
        assert!(send(&mut s, lost).is_err());
    }
    let came = changes(&mut s, |s| assert!(send(s, claims(100)).is_err()));
    assert!(came < 10, "{came} changes");
    for name in ["c100", "l007", "c004"] {
        let went = changes(&mut s, |s| gone(s, name));
        assert!(went < 10, "{name}: {went} changes");
    }
    send(&mut s, bound("x", whole(1), "m", recorded(&[(0, 80 * GIB)]))).unwrap();
    let elsewhere = changes(&mut s, |s| gone(s, "x"));
    assert!(elsewhere < 10, "{elsewhere} changes of another node");
    assert_eq!(place(&mut s, "q", whole(2)), "q waits");
    gone(&mut s, "h");
    let held = s.holders().into_iter().filter(|(_, held)| !held.cards.is_empty());
    let held: Vec<&str> = held.map(|(key, _)| key.name()).collect();
    assert_eq!(held, ["c000", "c001"], "what is free is theirs in turn");
}

#[test]
fn a_card_is_open_again_once_nobody_claims_it_who_could_not_be_entered() {
    let mut s = cluster(Config::default(), [node("n", cards(1, 80))]);
    send(&mut s, bound("h", fraction("0.5"), "n", recorded(&[(0, 40 * GIB)]))).unwrap();
    for name in ["c", "d"] {
        send(&mut s, bound(name, fraction("0.9"), "n", recorded(&[(0, 72 * GIB)]))).unwrap_err();
    }
    assert_eq!(place(&mut s, "q", fraction("0.5")), "q waits");
    gone(&mut s, "c");
    assert_eq!(pass(&mut s), [""; 0], "d claims it still");
    gone(&mut s, "d");
    assert_eq!(pass(&mut s), ["q n 0"]);
}

/// Two nodes and their pods, as the API would tell them.
fn told() -> Vec<Event> {
    let mut events: Vec<Event> =
        ["a", "b"].map(|n| Event::Node(Box::new(node(n, cards(4, 80))))).into();
    let pods = [
        bound("r1", fraction("0.5"), "a", recorded(&[(0, 40 * GIB)])),
        bound("r2", fraction("0.5"), "a", recorded(&[(0, 40 * GIB)])),
        bound("r3", fractions("0.25", 2), "a", recorded(&[(1, 20 * GIB), (2, 20 * GIB)])),
        bound("r4", memory(30_000), "b", recorded(&[(3, 30_000 << 20)])),
        bound("w1", whole(1), "a", BoundCards::Choose),
        bound("w2", whole(2), "b", BoundCards::Choose),
        bound("c1", cpu(9_000), "b", BoundCards::Nothing),
    ];
    events.extend(pods.map(|p| Event::Pod(Box::new(p))));
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// However the news is shuffled and repeated, the same is held in the end.
    #[test]
    fn news_in_any_order_and_twice_gives_the_same_ledger(
        order in prop::collection::vec(0usize..9, 0..30).prop_map(|mut extra| {
            extra.extend(0..9);
            extra
        }).prop_shuffle(),
    ) {
        let all = told();
        let mut straight = Scheduler::new(Config::default());
        for event in &all {
            straight.apply(event.clone()).unwrap();
        }
        let mut shuffled = Scheduler::new(Config::default());
        for at in order {
            let _ = shuffled.apply(all[at].clone());
        }
        let held = |s: &Scheduler| -> Vec<String> {
            s.holders().iter().map(|(key, h)| {
                // Which of several free cards a loose pod has may differ; how many may not.
                let loose = h.needs.request.whole_cards() > 0;
                let node = s.ledger().node(h.node).unwrap().name().clone();
                let cards: Vec<_> = h.cards.iter().map(|c| (c.index, c.bytes)).collect();
                if loose { format!("{key} {node} {}", cards.len()) } else { format!("{key} {node} {cards:?}") }
            }).collect()
        };
        prop_assert_eq!(held(&straight), held(&shuffled));
    }
}
