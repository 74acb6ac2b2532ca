//! Pods that ask for GPUs as Koordinator's do.

use super::reservations::{handing, ready, reservation};
use super::*;

/// A pod of half of a card's memory and 30 % of its compute, as admission leaves it.
fn asking(name: &str) -> Value {
    let mut pod = ready(name);
    pod["metadata"]["annotations"] = json!({});
    pod["spec"]["schedulerName"] = json!("koord-scheduler");
    pod["spec"]["containers"][0]["resources"] = json!({
        "limits": { keys::KOORDINATOR_CORE: "30", keys::KOORDINATOR_RATIO: "50" }
    });
    pod
}

/// What the bindings of a pass say in Koordinator's words, by pod.
fn allocated(state: &mut State) -> Vec<(String, Option<String>)> {
    state.pass(Instant::now());
    let read = |action: Action| match action {
        Action::Bind(binding) => match binding.grant {
            Grant::HandOff(Some(HandOff { device_allocated, .. })) => {
                Some((binding.pod.key.name().to_owned(), device_allocated))
            }
            _ => None,
        },
        _ => None,
    };
    let mut all: Vec<_> = state.take_actions().into_iter().filter_map(read).collect();
    all.sort();
    all
}

#[test]
fn cards_are_told_as_koordinator_does_if_their_numbers_are_known_and_the_pod_asks_so() {
    for number in [Some("3"), None] {
        let mut state = handing(&[("a", 1)]);
        let mut card = reservation("a", "g", Some("GPU-1"));
        card["metadata"]["annotations"] = json!({ keys::RESERVED_NUMBER: number });
        see(&mut state, &card);
        see(&mut state, &asking("k"));
        see(&mut state, &ready("p"));
        let expected = number.map(|_| {
            json!({"gpu": [{"minor": 3, "id": "GPU-1", "resources": {
                "koordinator.sh/gpu-core": "30", "koordinator.sh/gpu-memory": "42949672960",
                "koordinator.sh/gpu-memory-ratio": "50",
            }}]})
            .to_string()
        });
        assert_eq!(allocated(&mut state), [("k".to_owned(), expected), ("p".to_owned(), None)]);
    }
}

#[test]
fn compute_is_a_second_dimension_of_which_a_card_has_100_percent() {
    let mut state = handing(&[("a", 1)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    let most = |name: &str| {
        let mut pod = asking(name);
        pod["spec"]["containers"][0]["resources"]["limits"] =
            json!({ keys::KOORDINATOR_CORE: "60", keys::KOORDINATOR_RATIO: "20" });
        pod
    };
    see(&mut state, &most("k"));
    see(&mut state, &most("l"));
    let all = acts(&mut state);
    assert!(all.iter().any(|act| act.starts_with("bind ml/k")), "{all:?}");
    assert!(all.iter().any(|act| act.starts_with("tell ml/l: ")), "{all:?}");
}

/// A share that Koordinator has bound.
fn theirs(name: &str, cards: &str) -> Value {
    let mut pod = asking(name);
    pod["spec"]["nodeName"] = json!("a");
    pod["metadata"]["annotations"][keys::DEVICE_ALLOCATED] = json!(cards);
    pod
}

#[test]
fn cards_that_koordinator_gave_are_read_back_and_won_back() {
    let mut state = handing(&[("a", 2)]);
    for name in ["k", "l"] {
        see(&mut state, &theirs(name, r#"{"gpu":[{"minor":1,"id":"GPU-7"}]}"#));
    }
    let mut on = held(&state, "a");
    on.sort_unstable();
    assert_eq!(on, [0, 80], "both on the card that they name");
    let all = acts(&mut state);
    assert!(all.contains(&"taint a true".to_owned()), "{all:?}");
    assert!(all.iter().any(|act| act.starts_with("reserve ")), "its card is looked for: {all:?}");
}

#[test]
fn of_a_card_without_a_name_only_the_room_is_counted_and_what_makes_no_sense_closes_the_node() {
    let mut state = handing(&[("a", 2)]);
    see(&mut state, &theirs("k", r#"{"gpu":[{"minor":1}]}"#));
    assert_eq!(held(&state, "a").iter().sum::<u64>(), 40);
    see(&mut state, &theirs("l", "nonsense"));
    see(&mut state, &ready("p"));
    let all = acts(&mut state);
    assert!(all.iter().any(|act| act.starts_with("tell ml/p")), "{all:?}");
}

#[test]
fn while_koordinator_runs_its_shares_are_its_own() {
    let mut state = handing(&[("a", 2)]);
    let scheduler = json!({
        "metadata": {"namespace": "koordinator-system", "name": "koord", "uid": "u",
            "labels": {"koord-app": "koord-scheduler"}},
        "spec": {"nodeName": "a", "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    });
    see(&mut state, &scheduler);
    see(&mut state, &theirs("k", r#"{"gpu":[{"minor":1,"id":"GPU-7"}]}"#));
    assert_eq!(held(&state, "a"), [0, 0]);
}
