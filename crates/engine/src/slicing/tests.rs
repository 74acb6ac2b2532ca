use super::*;
use divvy_ledger::mig::Geometry;
use proptest::prelude::*;

fn host(model: &str, cards: u32) -> CardHost {
    CardHost { model: model.parse().unwrap(), cards }
}

fn slices(text: &str) -> Vec<(Profile, u32)> {
    let one = |part: &str| {
        let (count, name) = part.split_once('x').unwrap();
        (Profile::from_config(name).unwrap(), count.parse().unwrap())
    };
    text.split(' ').map(one).collect()
}

fn ask(text: &str, hosts: &[usize], count: u32) -> Ask {
    Ask { slices: slices(text), hosts: hosts.to_vec(), count }
}

fn cards(slicing: &Slicing) -> Vec<String> {
    let card =
        |card: &SlicedCard| format!("{}: {}", card.host, divvy_ledger::mig::listed(&card.slices));
    slicing.cards.iter().map(card).collect()
}

#[test]
fn the_recipes_pods_have_room_on_one_card() {
    let all = [0, 1];
    let asks = [ask("1x1g.10gb", &all, 2), ask("1x2g.20gb", &all, 1), ask("1x3g.40gb", &all, 1)];
    let slicing = divide(&[host("A100-80GB", 8), host("A100-80GB", 8)], &asks);
    assert_eq!(cards(&slicing), ["0: 2 x 1g.10gb, 1 x 2g.20gb, 1 x 3g.40gb"]);
    assert_eq!((slicing.at_least, slicing.held), (1, vec![2, 1, 1]));
}

#[test]
fn a_pod_has_all_its_slices_on_one_host() {
    let asks = [ask("3x3g.40gb", &[0, 1], 1)];
    let one_each = divide(&[host("A100-80GB", 1), host("A100-80GB", 1)], &asks);
    assert_eq!(one_each.held, [0]);
    let two = divide(&[host("A100-80GB", 1), host("A100-80GB", 2)], &asks);
    assert_eq!(cards(&two), ["1: 2 x 3g.40gb", "1: 1 x 3g.40gb"]);
}

#[test]
fn who_has_no_room_lets_those_behind_go_on() {
    let asks = [
        ask("1x4g.40gb", &[0], 1),
        ask("1x4g.40gb", &[0], 2),
        ask("1x3g.40gb", &[0], 1),
        ask("1x1g.10gb", &[0], 1),
    ];
    let slicing = divide(&[host("H100-80GB", 1)], &asks);
    assert_eq!(slicing.held, [1, 0, 1, 0]);
}

#[test]
fn pods_with_few_places_do_not_lose_them_to_others() {
    let asks = [ask("1x3g.40gb", &[0, 1], 2), ask("1x3g.40gb", &[0], 2)];
    let slicing = divide(&[host("A100-80GB", 1), host("A100-80GB", 1)], &asks);
    assert_eq!(slicing.held, [2, 2]);
    assert_eq!(cards(&slicing), ["0: 2 x 3g.40gb", "1: 2 x 3g.40gb"]);
}

/// Cards of one host each, and a pod for each host.
fn a_pod_for_each(hosts: usize) -> (Vec<CardHost>, Vec<Ask>) {
    let asks = (0..hosts).map(|at| ask("1x1g.10gb", &[at], 1));
    ((0..hosts).map(|_| host("A100-80GB", 1)).collect(), asks.collect())
}

#[test]
fn beyond_what_is_tried_it_is_said_how_few_could_do() {
    let (hosts, asks) = a_pod_for_each(12);
    let slicing = divide(&hosts, &asks);
    assert_eq!((slicing.cards.len(), slicing.at_least), (12, MOST_EXACT + 1));
}

#[test]
fn that_there_is_no_room_is_said_only_where_it_is_proven() {
    let (mut hosts, mut asks) = a_pod_for_each(9);
    hosts.extend((0..3).map(|_| host("A100-80GB", 1)));
    asks.extend([
        ask("1x3g.40gb 1x1g.10gb", &[9, 10], 2),
        // There would be room if its slices could be apart, so that many ways have to be tried.
        ask("2x2g.20gb", &[9, 10], 1),
        ask("1x4g.40gb", &[11], 2),
    ]);
    let slicing = divide(&hosts, &asks);
    assert_eq!(slicing.held[9..], [2, 0, 1]);
    assert_eq!(slicing.is_most[9..], [true, false, true]);
}

#[test]
fn pods_of_several_slices_are_tried_on_hosts_within_the_budget() {
    let hosts: Vec<CardHost> = (0..8).map(|_| host("A100-80GB", 1)).collect();
    // Two of them fit on each card, so one is too many; to try all ways would take for ever.
    let of = |at: usize| [at % 8, (at + 3) % 8, (at + 5) % 8];
    let asks: Vec<Ask> = (0..17).map(|at| ask("1x1g.10gb 1x2g.20gb", &of(at), 1)).collect();
    let slicing = divide(&hosts, &asks);
    let held: u32 = slicing.held.iter().sum();
    assert!((14..=16).contains(&held), "{:?}", slicing.held);
    assert!(slicing.is_most.contains(&false), "{:?}", slicing.is_most);
}

#[test]
fn many_cards_are_filled_close_to_the_bound() {
    let all: Vec<usize> = (0..50).collect();
    let hosts: Vec<CardHost> = all.iter().map(|_| host("A100-80GB", 8)).collect();
    let asks = [
        ask("1x1g.10gb", &all, 301),
        ask("1x2g.20gb", &all, 120),
        ask("1x3g.40gb", &all, 77),
        ask("2x1g.20gb", &all, 31),
    ];
    let slicing = divide(&hosts, &asks);
    assert_eq!(slicing.held, [301, 120, 77, 31]);
    let used = slicing.cards.len() as u32;
    assert!(used <= slicing.at_least + slicing.at_least / 10, "{used} {}", slicing.at_least);
}

#[test]
fn nothing_asked_divides_nothing_and_without_cards_nothing_is_held() {
    assert_eq!(divide(&[host("A30", 4)], &[]), Slicing::default());
    let none = divide(&[], &[ask("1x1g.6gb", &[], 3)]);
    assert_eq!((none.cards.len(), none.held), (0, vec![0]));
}

/// Every way to put every slice of these pods on a card of one host each; the fewest cards.
fn fewest(hosts: &[CardHost], pods: &[&Ask]) -> Option<usize> {
    type Cards = Vec<Vec<Vec<Profile>>>;
    fn go(hosts: &[CardHost], pods: &[&Ask], cards: &mut Cards, best: &mut Option<usize>) {
        let Some((pod, rest)) = pods.split_first() else {
            let used = cards.iter().flatten().filter(|card| !card.is_empty()).count();
            *best = Some(best.map_or(used, |best| best.min(used)));
            return;
        };
        let all: Vec<Profile> = pod
            .slices
            .iter()
            .flat_map(|(profile, n)| std::iter::repeat_n(*profile, *n as usize))
            .collect();
        for host in &pod.hosts {
            put(hosts, *host, &all, rest, cards, best);
        }
    }
    fn put(
        hosts: &[CardHost],
        host: usize,
        all: &[Profile],
        rest: &[&Ask],
        cards: &mut Cards,
        best: &mut Option<usize>,
    ) {
        let Some((profile, others)) = all.split_first() else {
            return go(hosts, rest, cards, best);
        };
        for card in 0..cards[host].len() {
            cards[host][card].push(*profile);
            let wanted: Vec<_> = cards[host][card].iter().map(|p| (*p, 1)).collect();
            if Geometry::of(hosts[host].model).holds(&wanted) {
                put(hosts, host, others, rest, cards, best);
            }
            cards[host][card].pop();
        }
    }
    let mut cards = hosts.iter().map(|host| vec![Vec::new(); host.cards as usize]).collect();
    let mut best = None;
    go(hosts, pods, &mut cards, &mut best);
    best
}

fn problem() -> impl Strategy<Value = (Vec<CardHost>, Vec<Ask>)> {
    let hosts = proptest::collection::vec((0usize..2, 1u32..3), 1..3);
    let kinds = [
        "1x1g.10gb",
        "1x2g.20gb",
        "1x3g.40gb",
        "1x1g.20gb",
        "2x1g.10gb",
        "1x4g.40gb",
        "1x3g.40gb 1x1g.10gb",
        "1x1g.10gb+me",
        "2x3g.40gb",
    ];
    let asks = proptest::collection::vec((0..kinds.len(), 1usize..4), 1..6);
    (hosts, asks).prop_map(move |(hosts, asks)| {
        let models = ["A100-80GB", "A100-40GB"];
        let hosts: Vec<CardHost> =
            hosts.iter().map(|(m, cards)| host(models[*m], *cards)).collect();
        let asks = asks.iter().map(|(kind, set)| {
            let slices = slices(kinds[*kind]);
            let may = |at: &usize| {
                let geometry = Geometry::of(hosts[*at].model);
                set & (1 << at) != 0 && slices.iter().all(|(p, _)| geometry.find(*p).is_some())
            };
            Ask { hosts: (0..hosts.len()).filter(may).collect(), slices, count: 1 }
        });
        let asks = asks.filter(|ask| !ask.hosts.is_empty()).collect();
        (hosts, asks)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Beside every way there is.
    #[test]
    fn the_fewest_cards_hold_whoever_can_be_held((hosts, asks) in problem()) {
        let mut pods: Vec<&Ask> = Vec::new();
        let mut held = Vec::new();
        for ask in &asks {
            pods.push(ask);
            let fits = fewest(&hosts, &pods).is_some();
            held.push(u32::from(fits));
            if !fits {
                pods.pop();
            }
        }
        let slicing = divide(&hosts, &asks);
        prop_assert_eq!(&slicing.held, &held);
        let best = fewest(&hosts, &pods).unwrap_or(0);
        prop_assert_eq!(slicing.cards.len(), best);
        prop_assert_eq!(slicing.at_least as usize, best);
        for card in &slicing.cards {
            prop_assert!(Geometry::of(hosts[card.host].model).holds(&card.slices));
        }
    }
}

fn large_problem() -> impl Strategy<Value = (Vec<CardHost>, Vec<Ask>)> {
    let kinds = ["1x1g.10gb", "1x2g.20gb", "1x3g.40gb", "1x1g.20gb", "2x1g.10gb 1x2g.20gb"];
    let asks = proptest::collection::vec((0..kinds.len(), 1usize..8, 1u32..60), 1..6);
    (proptest::collection::vec(1u32..9, 3), asks).prop_map(move |(cards, asks)| {
        let models = ["A100-80GB", "H100-80GB", "A100-80GB"];
        let hosts = models.iter().zip(cards).map(|(model, cards)| host(model, cards)).collect();
        let asks = asks.iter().map(|(kind, set, count)| {
            let hosts: Vec<usize> = (0..3).filter(|at| set & (1 << at) != 0).collect();
            ask(kinds[*kind], &hosts, *count)
        });
        (hosts, asks.collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn cards_of_any_number_are_legal_there_and_hold_what_is_said((hosts, asks) in large_problem()) {
        let slicing = divide(&hosts, &asks);
        let mut slices: std::collections::BTreeMap<Profile, u32> = Default::default();
        for (ask, held) in asks.iter().zip(&slicing.held) {
            prop_assert!(*held <= ask.count);
            for (profile, n) in ask.slices.iter().filter(|_| *held > 0) {
                *slices.entry(*profile).or_default() += n * held;
            }
        }
        for (at, host) in hosts.iter().enumerate() {
            let cards = slicing.cards.iter().filter(|card| card.host == at);
            prop_assert!(cards.count() <= host.cards as usize);
        }
        for card in &slicing.cards {
            prop_assert!(Geometry::of(hosts[card.host].model).holds(&card.slices));
            for (profile, n) in &card.slices {
                *slices.entry(*profile).or_default() -= n;
            }
        }
        prop_assert!(slices.values().all(|n| *n == 0), "each slice is on a card: {slices:?}");
        prop_assert!(slicing.at_least as usize <= slicing.cards.len());
    }
}
