//! Who would have to end for a pod that waits: a smallest set of pods, whatever card they are on.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
use common::*;
use divvy_engine::*;
use divvy_ledger::*;
use proptest::prelude::{Just, ProptestConfig, any, prop, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as _;

/// A share of so many GiB, of a class, with so much compute.
fn part(gib: u64, class: u16, compute: u8) -> PodSpec {
    let portion = Portion::Memory(Bytes(gib * GIB));
    let part = Part { class: Class(class), compute: Percent(compute), ..Part::of(portion) };
    PodSpec { request: Request::share(1, part), ..PodSpec::default() }
}

/// A node with cards of these sizes in GiB that takes shares of two classes.
fn sized(gib: &[u64]) -> NodeRecord {
    let cards = gib.iter().map(|gib| Some(Bytes(gib * GIB))).collect();
    node("n", Gpus { cards, usable: gib.len() as u32, classes: vec![Class(1)], ..Gpus::none() })
}

/// Enters a pod that is bound and has so many GiB of each of these cards.
fn enter(
    s: &mut Scheduler,
    name: &str,
    spec: PodSpec,
    cards: &[(u32, u64)],
) -> Result<(), Problem> {
    let share = |(index, gib): &(u32, u64)| CardShare { index: *index, bytes: Bytes(gib * GIB) };
    let cards = BoundCards::Recorded(cards.iter().map(share).collect());
    let record = PodRecord { bound: Some(Bound::new("n", cards)), ..pod(name, spec) };
    s.apply(Event::Pod(Box::new(record)))
}

fn runs(s: &mut Scheduler, name: &str, spec: PodSpec, cards: &[(u32, u64)]) {
    enter(s, name, spec, cards).unwrap();
}

/// What is missing and who must end, in words: `#0 lacks 10.0 GiB: a 30.0 GiB`.
fn must_end(s: &mut Scheduler, name: &str) -> String {
    let nearest = waiting(s, name).nearest.unwrap();
    let (nearest, ends) = s.who_must_end(&ObjectKey::new("ml", name), nearest);
    let ends: Vec<String> = ends.iter().map(|(key, has)| format!("{} {has}", key.name())).collect();
    let card = nearest.card.map_or_else(|| "n".to_owned(), |card| format!("#{card}"));
    format!("{card} lacks {}: {}", nearest.missing, ends.join(", "))
}

#[test]
fn one_pod_that_has_a_card_for_itself_is_fewer_than_two_on_a_card_with_more_room() {
    let mut s = cluster(Config::default(), [sized(&[80, 80])]);
    for (name, size) in [("a", 30), ("b", 30), ("c", 20)] {
        runs(&mut s, name, part(size, 0, 0), &[(0, size)]);
    }
    runs(&mut s, "w", whole(1), &[(1, 80)]);
    assert_eq!(place(&mut s, "p", part(40, 0, 0)), "p waits");
    assert_eq!(must_end(&mut s, "p"), "#1 lacks 40.0 GiB: w 80.0 GiB");
    assert_eq!(place(&mut s, "q", part(30, 0, 0)), "q waits");
    assert_eq!(must_end(&mut s, "q"), "#0 lacks 30.0 GiB: a 30.0 GiB", "the least of one");
}

#[test]
fn a_card_of_another_class_is_not_near_because_it_has_room() {
    let mut s = cluster(Config::default(), [sized(&[80, 80])]);
    runs(&mut s, "a", part(30, 0, 0), &[(0, 30)]);
    runs(&mut s, "b", part(30, 0, 0), &[(0, 30)]);
    runs(&mut s, "c", part(70, 1, 0), &[(1, 70)]);
    assert_eq!(place(&mut s, "p", part(40, 1, 0)), "p waits");
    assert_eq!(must_end(&mut s, "p"), "#1 lacks 30.0 GiB: c 70.0 GiB");
    assert_eq!(place(&mut s, "q", part(20, 1, 0)), "q waits");
    assert_eq!(reasons(&s, "q"), ["1 x card n/0 holds other pods"]);
    assert_eq!(must_end(&mut s, "q"), "#1 lacks 10.0 GiB: c 70.0 GiB");
}

#[test]
fn a_card_of_another_class_is_free_once_all_of_it_have_ended() {
    let mut s = cluster(Config::default(), [sized(&[80])]);
    runs(&mut s, "a", part(30, 0, 0), &[(0, 30)]);
    runs(&mut s, "b", part(30, 0, 0), &[(0, 30)]);
    assert_eq!(place(&mut s, "p", part(10, 1, 0)), "p waits");
    assert_eq!(must_end(&mut s, "p"), "n lacks 1 card: a 30.0 GiB, b 30.0 GiB");
}

#[test]
fn compute_is_missing_where_there_is_memory() {
    let mut s = cluster(Config::default(), [sized(&[80, 80])]);
    runs(&mut s, "a", part(30, 0, 60), &[(0, 30)]);
    runs(&mut s, "b", part(10, 0, 20), &[(0, 10)]);
    runs(&mut s, "w", whole(1), &[(1, 80)]);
    assert_eq!(place(&mut s, "p", part(10, 0, 40)), "p waits");
    assert_eq!(must_end(&mut s, "p"), "#0 lacks 20 % compute: b 10.0 GiB");
}

#[test]
fn of_cards_of_several_sizes_each_lacks_its_own() {
    let mut s = cluster(Config::default(), [sized(&[80, 40])]);
    for (name, size) in [("w1", 33), ("w2", 33), ("a", 5), ("b", 10), ("c", 10)] {
        let card = u32::from(size < 33);
        runs(&mut s, name, part(size, 0, 0), &[(card, size)]);
    }
    assert_eq!(place(&mut s, "p", fraction("0.5")), "p waits");
    assert_eq!(must_end(&mut s, "p"), "#1 lacks 5.0 GiB: a 5.0 GiB");
}

#[test]
fn who_has_much_of_what_is_short_is_found_among_many() {
    let mut s = cluster(Config::default(), [sized(&[80, 80])]);
    for number in 0..72 {
        runs(&mut s, &format!("s{number:02}"), part(1, 0, 0), &[(0, 1)]);
    }
    for number in 0..3 {
        runs(&mut s, &format!("t{number}"), part(25, 0, 0), &[(1, 25)]);
    }
    assert_eq!(place(&mut s, "p", part(50, 0, 0)), "p waits");
    let two = "#1 lacks 45.0 GiB: t1 25.0 GiB, t2 25.0 GiB";
    assert_eq!(must_end(&mut s, "p"), two);
}

/// What a pod has of a card: a share of so many GiB, of a class, with so much compute; the same of
/// the next card too; or all of it.
#[derive(Clone, Debug)]
enum Has {
    Share(u64, u16, u8),
    Both(u64),
    Whole,
}

fn has() -> impl proptest::strategy::Strategy<Value = Has> {
    prop_oneof![
        6 => (1u64..9, 0u16..2, 0u8..4).prop_map(|(n, class, by)| Has::Share(n * 5, class, by * 20)),
        1 => (1u64..9).prop_map(|n| Has::Both(n * 5)),
        1 => Just(Has::Whole),
    ]
}

fn shares(gib: u64, cards: u32, class: u16, compute: u8) -> PodSpec {
    let request = part(gib, class, compute).request.part().unwrap();
    PodSpec { request: Request::share(cards, request), ..cpu(1) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whoever is named is a smallest set: by their number, then by what they have. If nobody is
    /// named, nobody's end would do.
    #[test]
    fn who_must_end_is_the_smallest_set_of_all(
        cards in prop::collection::vec((prop_oneof![3 => Just(80), 1 => Just(40)], prop::collection::vec(has(), 1..4)), 1..4),
        asked in (4u64..16, 0u16..2, 0u8..4, 0u32..3),
        is_fraction in any::<bool>(),
    ) {
        let sizes: Vec<u64> = cards.iter().map(|(size, _)| *size).collect();
        let mut s = cluster(Config::default(), [sized(&sizes)]);
        for (card, (size, pods)) in (0u32..).zip(cards) {
            for (number, has) in pods.into_iter().enumerate() {
                let (spec, on) = match has {
                    Has::Share(gib, class, compute) => (shares(gib, 1, class, compute), vec![(card, gib)]),
                    Has::Both(gib) => (shares(gib, 2, 0, 0), vec![(card, gib), (card + 1, gib)]),
                    Has::Whole => (whole(1), vec![(card, size)]),
                };
                let name = format!("r{card}-{number}");
                // What is not there, or full, is not entered.
                if enter(&mut s, &name, spec, &on).is_err() {
                    gone(&mut s, &name);
                }
            }
        }
        let (size, class, compute, count) = asked;
        let spec = match (count, is_fraction) {
            (0, _) => whole(2),
            (count, true) => fractions(&format!("0.{:02}", size * 6), count),
            (count, false) => shares(size * 5, count, class, compute * 20),
        };
        if place(&mut s, "p", spec.clone()) != "p waits" {
            return Ok(());
        }
        let nearest = waiting(&s, "p").nearest;
        let ends = nearest.map(|nearest| s.who_must_end(&ObjectKey::new("ml", "p"), nearest).1);
        let ends = ends.unwrap_or_default();
        let bytes = |has: &Missing| match has {
            Missing::Share(bytes) => bytes.0 / GIB,
            other => panic!("of cards bytes are told, not {other:?}"),
        };
        let found = (ends.len(), ends.iter().map(|(_, has)| bytes(has)).sum::<u64>());
        // All sets of those that hold something, tried one by one.
        let held: Vec<(ObjectKey, u64)> = s.holders().into_iter().map(|(key, holding)| {
            (key.clone(), holding.cards.iter().map(|card| card.bytes.0 / GIB).sum())
        }).collect();
        let sets = (1u32..1 << held.len()).filter_map(|set| {
            let ends = held.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1).map(|(_, held)| held);
            let mut without = s.clone();
            for (key, _) in ends.clone() {
                without.apply(Event::PodGone(key.clone())).unwrap();
            }
            let fits = without.scan(&pod("x", spec.clone())).is_some();
            fits.then(|| (set.count_ones() as usize, ends.map(|(_, gib)| gib).sum::<u64>()))
        });
        prop_assert_eq!(found, sets.min().unwrap_or_default());
    }
}
