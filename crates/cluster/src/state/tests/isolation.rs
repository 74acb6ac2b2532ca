//! Levels of isolation, from the labels of a pod to the annotations of its binding and back.

use super::reservations::{ended, gone, key, ready, reservation};
use super::*;
use divvy_views::Totals;
use divvy_words::isolation::{LimitUnit, MemoryLimit, Provider};

const LEVEL: &str = keys::ISOLATION_LEVEL;
const PROVIDER: &str = keys::ISOLATION_PROVIDER;
const ISOLATED: &str = "Isolated/HAMi-core";

/// A node on which HAMi-core was installed.
pub(super) fn provided(name: &str, cards: u32) -> NodeItem {
    let mut node = node(name, cards);
    let mut labels: Value = json!({ PROVIDER: "HAMi-core" });
    for (key, value) in node.metadata.labels.iter() {
        labels[key] = json!(value);
    }
    let metadata = json!({
        "name": name, "uid": format!("{name}-uid"), "labels": labels,
        "annotations": { keys::CDI_KIND: "nvidia.com/gpu" },
    });
    node.metadata = serde_json::from_value(metadata).unwrap();
    node
}

/// A state that tells levels apart and hands shares to their containers.
pub(super) fn isolating(nodes: Vec<NodeItem>) -> State {
    let mut state = state_of(nodes, Some(Isolation::default()));
    let hand_off = Some(reservation::USUAL);
    state.apply(Event::Settings(Config { hand_off, ..Config::default() }));
    state
}

/// A pod of half a card, as admission leaves one that says it is Shared.
pub(super) fn shared(name: &str) -> Value {
    with(&ready(name), "metadata.labels", json!({ LEVEL: "Shared" }))
}

/// A pod of half a card, as admission leaves one that is to be isolated.
pub(super) fn isolated(name: &str) -> Value {
    let mut pod = ready(name);
    pod["metadata"]["labels"] = json!({ LEVEL: "Isolated", PROVIDER: "HAMi-core" });
    let path = format!("metadata.annotations['{}']", keys::MEMORY_LIMIT);
    let limit =
        json!({"name": "CUDA_DEVICE_MEMORY_LIMIT", "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let safe = Provider::hami_core().environment;
    let safe = safe.iter().map(|(name, value)| json!({"name": name, "value": value}));
    env(&mut pod).extend([limit].into_iter().chain(safe));
    pod
}

/// The variables of a pod's container.
fn env(pod: &mut Value) -> &mut Vec<Value> {
    pod["spec"]["containers"][0]["env"].as_array_mut().unwrap()
}

/// Of these the one with this name.
fn variable<'a>(pod: &'a mut Value, name: &str) -> &'a mut Value {
    env(pod).iter_mut().find(|entry| entry["name"] == name).unwrap()
}

/// A pod as it is once it was bound to this card of node `a` with a class.
fn runs(pod: &Value, card: &str, class: &str) -> Value {
    let bound = bound(pod, "a", &format!("{card}:42949672960"));
    let mut bound = with(&bound, "status.startTime", "2026-01-01T00:00:00Z".into());
    bound["metadata"]["annotations"][keys::CLASS] = json!(class);
    bound
}

/// The bindings of a pass: of each its pod and all annotations.
pub(super) fn bindings(state: &mut State) -> Vec<(String, Value)> {
    state.pass(Instant::now());
    let read = |action: Action| match action {
        Action::Bind(binding) => {
            let name = binding.pod.key.name().to_owned();
            let mut annotations = json!({});
            for (key, value) in binding.limits {
                annotations[key] = json!(value);
            }
            if let Grant::HandOff(Some(HandOff { devices, .. })) = binding.grant {
                annotations["devices"] = json!(devices);
            }
            Some((name, annotations))
        }
        _ => None,
    };
    let mut all: Vec<_> = state.take_actions().into_iter().filter_map(read).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all
}

pub(super) fn said(state: &mut State, start: &str) -> Vec<String> {
    acts(state).into_iter().filter(|act| act.starts_with(start)).collect()
}

#[test]
fn an_isolated_share_gets_full_names_and_its_limit_and_a_shared_one_nothing_of_all_this() {
    let mut state = isolating(vec![provided("a", 2)]);
    see(&mut state, &isolated("i"));
    see(&mut state, &shared("s"));
    let asked = said(&mut state, "reserve ");
    assert_eq!(asked.len(), 2, "the two kinds never meet: {asked:?}");
    for (group, uuid) in [("i-uid", "GPU-1"), ("s-uid", "GPU-2")] {
        see(&mut state, &reservation("a", group, Some(uuid)));
    }
    assert_eq!(
        bindings(&mut state),
        [
            (
                "i".to_owned(),
                json!({
                    "divvy.dev/class": ISOLATED, "divvy.dev/memory-limit": "42949672960",
                    "devices": "nvidia.com/gpu=GPU-1,divvy.dev/provider=HAMi-core",
                })
            ),
            ("s".to_owned(), json!({ "divvy.dev/class": "Shared", "devices": null })),
        ]
    );
}

#[test]
fn with_levels_not_told_apart_a_binding_says_nothing_of_them() {
    let mut state = state(&[("a", 1)]);
    let labels = json!({ LEVEL: "Isolated", PROVIDER: "HAMi-core" });
    for pod in [shared("s"), with(&ready("i"), "metadata.labels", labels)] {
        see(&mut state, &pod);
    }
    let nothing = json!({});
    let expected = ["i", "s"].map(|name| (name.to_owned(), nothing.clone()));
    assert_eq!(bindings(&mut state), expected, "on the same card");
    assert_eq!(held(&state, "a"), [80]);
}

#[test]
fn a_pod_that_reads_a_limit_is_not_bound_where_levels_are_not_told_apart() {
    let mut state = state(&[("a", 1)]);
    see(&mut state, &isolated("i"));
    let told = acts(&mut state);
    assert!(told.len() == 1 && told[0].contains("runs without --feature-gates"), "{told:?}");
}

#[test]
fn the_cards_of_an_isolated_share_go_by_the_kind_of_their_node() {
    let mut other = provided("a", 1);
    let kind = json!({ keys::CDI_KIND: "k8s.device-plugin.nvidia.com/gpu" });
    other.metadata.annotations = serde_json::from_value(kind).unwrap();
    let mut state = isolating(vec![other]);
    see(&mut state, &isolated("i"));
    acts(&mut state);
    see(&mut state, &reservation("a", "i-uid", Some("GPU-1")));
    let bound = bindings(&mut state);
    assert_eq!(
        bound[0].1["devices"],
        "k8s.device-plugin.nvidia.com/gpu=GPU-1,divvy.dev/provider=HAMi-core"
    );
}

#[test]
fn what_a_provider_is_told_is_an_entry_of_the_config() {
    let provider = Provider {
        name: "mps".to_owned(),
        device: "example.com/isolation=mps".to_owned(),
        memory: MemoryLimit::usual("LIMIT", LimitUnit::Mib),
        ..Provider::hami_core()
    };
    let mut node = provided("a", 1);
    node.metadata.labels = serde_json::from_value(json!({
        PROVIDER: "mps", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "81920",
    }))
    .unwrap();
    let mut state = state_of(vec![node], Some(Isolation::new(vec![provider])));
    let mut pod = isolated("i");
    pod["metadata"]["labels"][PROVIDER] = json!("mps");
    variable(&mut pod, "CUDA_DEVICE_MEMORY_LIMIT")["name"] = json!("LIMIT");
    see(&mut state, &pod);
    assert_eq!(
        bindings(&mut state),
        [(
            "i".to_owned(),
            json!({ "divvy.dev/class": "Isolated/mps", "divvy.dev/memory-limit": "40960m" })
        )]
    );
}

#[test]
fn a_pod_whose_container_does_not_read_its_limit_is_not_bound() {
    let mut state = isolating(vec![provided("a", 1)]);
    let mut pod = isolated("i");
    variable(&mut pod, "CUDA_DEVICE_MEMORY_LIMIT")["name"] = json!("X");
    see(&mut state, &pod);
    let told = acts(&mut state);
    assert!(told.len() == 1 && told[0].contains("CUDA_DEVICE_MEMORY_LIMIT"), "{told:?}");
    // Nor one that says it twice: the last would win.
    let mut pod = isolated("j");
    let limit = json!({"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "80g"});
    env(&mut pod).push(limit);
    see(&mut state, &pod);
    let told = acts(&mut state);
    assert!(told.len() == 1 && told[0].contains("would not be limited"), "{told:?}");
}

#[test]
fn a_pod_whose_processes_could_find_an_off_switch_elsewhere_is_not_bound() {
    let mut state = isolating(vec![provided("a", 1)]);
    let off = |value: &str| json!({"name": "CUDA_DISABLE_CONTROL", "value": value});
    let (mut absent, mut other, mut twice) = (isolated("i"), isolated("j"), isolated("k"));
    env(&mut absent).retain(|entry| entry["name"] != "CUDA_DISABLE_CONTROL");
    *variable(&mut other, "CUDA_DISABLE_CONTROL") = off("true");
    env(&mut twice).push(off("false"));
    for pod in [absent, other, twice] {
        see(&mut state, &pod);
        let told = acts(&mut state);
        assert!(told.len() == 1 && told[0].contains("variable CUDA_DISABLE_CONTROL"), "{told:?}");
    }
}

#[test]
fn labels_that_make_no_sense_are_the_reason_of_their_pod_alone() {
    let mut state = isolating(vec![provided("a", 1)]);
    see(&mut state, &with(&ready("w"), "metadata.labels", json!({ LEVEL: "Isoalted" })));
    see(&mut state, &isolated("i"));
    let all = acts(&mut state);
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all.iter().any(|act| act.contains("allowed are Isolated and Shared")), "{all:?}");
    assert!(all.iter().any(|act| act.starts_with("reserve ")), "{all:?}");
}

#[test]
fn a_node_without_the_provider_is_one_refused_node_and_others_go_on() {
    let mut state = isolating(vec![node("a", 4), provided("b", 1)]);
    for name in ["i", "j", "k"] {
        see(&mut state, &isolated(name));
    }
    let all = acts(&mut state);
    assert!(all.iter().any(|act| act.starts_with("reserve ") && act.contains("on b")), "{all:?}");
    let told: Vec<&String> = all.iter().filter(|act| act.starts_with("tell ml/k")).collect();
    assert!(
        told[0].contains("1 provider HAMi-core is not installed")
            && told[0].contains("1 largest free share 0 < 0.5 asked"),
        "{told:?}"
    );
}

#[test]
fn a_restart_reads_the_class_of_the_binding_back_whatever_the_labels_say_by_now() {
    let mut state = isolating(vec![provided("a", 2)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    see(&mut state, &runs(&shared("i"), "GPU-1", ISOLATED));
    see(&mut state, &shared("s"));
    assert_eq!(said(&mut state, "reserve ").len(), 1, "not beside an isolated one");
    see(&mut state, &isolated("j"));
    let bound = bindings(&mut state);
    assert_eq!(bound[0].0, "j", "beside it");
}

#[test]
fn what_runs_from_before_has_the_class_that_its_labels_say_and_is_shared_if_they_make_no_sense() {
    for (labels, joins) in [
        (json!({}), "s"),
        (json!({ LEVEL: "Isoalted" }), "s"),
        (json!({ LEVEL: "Isolated" }), "s"),
        (json!({ PROVIDER: "HAMi-core" }), "i"),
    ] {
        let mut state = isolating(vec![provided("a", 2)]);
        see(&mut state, &reservation("a", "g", Some("GPU-1")));
        let old = bound(&ready("old"), "a", "GPU-1:42949672960");
        see(&mut state, &with(&old, "metadata.labels", labels.clone()));
        see(&mut state, &shared("s"));
        see(&mut state, &isolated("i"));
        let bound = bindings(&mut state);
        assert_eq!(bound.len(), 1, "{labels}: {bound:?}");
        assert_eq!(bound[0].0, joins, "{labels}");
    }
}

#[test]
fn what_is_left_of_a_pod_keeps_its_class_also_for_who_leads_next() {
    let mut state = isolating(vec![provided("a", 2)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    let pod = runs(&isolated("i"), "GPU-1", ISOLATED);
    see(&mut state, &pod);
    acts(&mut state);
    gone(&mut state, &pod);
    let all = said(&mut state, "remember ");
    assert_eq!(all.len(), 1, "{all:?}");
    let text = all[0].split(' ').nth(2).unwrap().to_owned();
    assert!(text.ends_with(":0:Isolated/HAMi-core"), "{text}");
    let mut next = isolating(vec![provided("a", 2)]);
    let mut kept = reservation("a", "g", Some("GPU-1"));
    kept["metadata"]["annotations"] = json!({ keys::GHOSTS: text });
    see(&mut next, &kept);
    for mut state in [state, next] {
        see(&mut state, &shared("s"));
        assert_eq!(said(&mut state, "reserve ").len(), 1, "not beside what is left");
        see(&mut state, &isolated("j"));
        assert_eq!(bindings(&mut state)[0].0, "j", "beside it");
    }
}

#[test]
fn a_card_that_is_found_mixed_is_reported_and_closed_and_nobody_is_ended_for_it() {
    let mut state = isolating(vec![provided("a", 1)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    let quarter = |name: &str, class: &str| {
        let mut pod = runs(&ready(name), "GPU-1", class);
        pod["metadata"]["annotations"]["gpu-fraction"] = json!("0.25");
        pod
    };
    let (first, second) = (quarter("i", ISOLATED), quarter("s", "Shared"));
    see(&mut state, &first);
    see(&mut state, &second);
    let all = acts(&mut state);
    let note = "card GPU-1 has Isolated/HAMi-core and Shared shares: it takes no new ones until one of the two kinds \
                is gone";
    for name in ["i", "s"] {
        assert!(all.contains(&format!("warn ml/{name}: {note}")), "{all:?}");
        assert!(all.contains(&format!("mark ml/{name} CardMixed true")), "{all:?}");
    }
    assert_eq!(Totals::of(state.scheduler()).disputed, 1, "as the gauge says it");
    for pod in [shared("new"), isolated("other")] {
        see(&mut state, &pod);
    }
    let all = acts(&mut state);
    let is_report = |act: &String| act.starts_with("tell ml/");
    assert!(all.len() == 2 && all.iter().all(is_report), "{all:?}");
    for name in ["i", "s"] {
        let place = Place::Condition(ObjectKey::new("ml", name), reservation::MIXED);
        let text = Some(note.into());
        state.outcome(Outcome::Written { place, text, result: Ok(()) }, Instant::now());
    }
    // Once one of the two kinds is gone, it is over.
    ended(&mut state, &second);
    let all = acts(&mut state);
    assert!(all.contains(&"mark ml/i CardMixed false".to_owned()), "{all:?}");
    assert!(all.iter().any(|act| act.starts_with("bind ml/other")), "{all:?}");
}

#[test]
fn a_pod_whose_node_has_lost_its_provider_says_so_runs_on_and_gets_no_company() {
    let mut state = isolating(vec![provided("a", 1)]);
    see(&mut state, &reservation("a", "g", Some("GPU-1")));
    see(&mut state, &runs(&isolated("i"), "GPU-1", ISOLATED));
    assert!(said(&mut state, "warn ").is_empty());
    state.node_changed(Change::Seen(node("a", 1)));
    let all = acts(&mut state);
    assert!(all[0].starts_with("warn ml/i: node a has nothing any more that keeps"), "{all:?}");
    assert_eq!(all[1], "mark ml/i ProviderMissing true");
    assert_eq!(all.len(), 2, "{all:?}");
    see(&mut state, &isolated("j"));
    let told = said(&mut state, "tell ml/j");
    assert!(told[0].contains("provider HAMi-core is not installed"), "{told:?}");
    let place = Place::Condition(ObjectKey::new("ml", "i"), reservation::UNPROVIDED);
    state.outcome(
        Outcome::Written { place, text: Some("x".into()), result: Ok(()) },
        Instant::now(),
    );
    state.node_changed(Change::Seen(provided("a", 1)));
    let all = acts(&mut state);
    assert!(all.contains(&"mark ml/i ProviderMissing false".to_owned()), "{all:?}");
    assert!(all.iter().any(|act| act.starts_with("bind ml/j")), "{all:?}");
}

#[test]
fn a_pod_that_waits_for_its_card_while_the_provider_goes_gives_its_place_up() {
    let mut state = isolating(vec![provided("a", 1)]);
    see(&mut state, &isolated("i"));
    assert_eq!(acts(&mut state), [format!("reserve {} on a for i-uid", key("i-uid"))]);
    state.node_changed(Change::Seen(node("a", 1)));
    see(&mut state, &reservation("a", "i-uid", Some("GPU-1")));
    let all = acts(&mut state);
    assert!(
        all.contains(
            &"void ml/i: binding failed: to a: its isolation provider is not there any more"
                .to_owned()
        ),
        "{all:?}"
    );
    assert!(!all.iter().any(|act| act.starts_with("bind ")), "{all:?}");
}
