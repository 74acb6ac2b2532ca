//! Isolation levels through rehearsals, and pods that ask as Koordinator's do.
#![allow(clippy::unwrap_used, clippy::panic)]

use divvy_engine::{ObjectKey, Standing};
use divvy_sim::{Input, Rehearsal, Setup};
use divvy_words::isolation::Isolation;

const CLUSTER: &str = include_str!("../../../examples/isolation/cluster.yaml");
const WORKLOAD: &str = include_str!("../../../examples/isolation/model-servers.yaml");

fn input(text: &str) -> Input {
    Input { name: "test.yaml".to_owned(), text: text.to_owned() }
}

fn rehearse(cluster: &str, workload: &str, isolation: Option<Isolation>) -> Rehearsal {
    let workload = if workload.is_empty() { Vec::new() } else { vec![input(workload)] };
    let setup = Setup { cluster: Some(input(cluster)), workload, isolation, ..Setup::default() };
    let mut rehearsal = Rehearsal::load(&setup, &()).unwrap_or_else(|e| panic!("{e}"));
    rehearsal.run(&());
    rehearsal
}

/// `name cards`, or `name: reason`.
fn lines(rehearsal: &Rehearsal) -> Vec<String> {
    let line = |key: &ObjectKey| match rehearsal.scheduler.standing(key).unwrap() {
        Standing::Placed(at) => {
            let cards: Vec<String> = at.cards.iter().map(|c| c.index.to_string()).collect();
            format!("{} {}", key.name(), cards.join(","))
        }
        Standing::Waiting(why) => format!("{}: {}", key.name(), why.headline()),
        Standing::Astray => format!("{} astray", key.name()),
    };
    rehearsal.pods.iter().map(line).collect()
}

fn on() -> Option<Isolation> {
    Some(Isolation::default())
}

#[test]
fn the_two_kinds_of_model_servers_of_the_example_never_meet() {
    let rehearsal = rehearse(CLUSTER, WORKLOAD, on());
    assert_eq!(lines(&rehearsal), ["routed-0 0", "routed-1 0", "steady-0 1", "steady-1 1"]);
    let less = WORKLOAD.replacen("replicas: 2", "replicas: 1", 1).replacen(
        "replicas: 2",
        "replicas: 3",
        1,
    );
    assert_eq!(
        lines(&rehearse(CLUSTER, &less, on())),
        ["routed-0 0", "steady-0 1", "steady-1 1", "steady-2: card gpu-node-1/0 holds Shared pods"]
    );
    assert_eq!(
        lines(&rehearse(CLUSTER, &less, None)),
        ["routed-0 0", "steady-0 0", "steady-1 1", "steady-2 1"],
        "with the gate off all shares are alike"
    );
}

#[test]
fn a_node_without_the_provider_or_the_kind_of_its_cards_takes_no_isolated_pod() {
    for missing in [
        "    koordinator.sh/gpu-isolation-provider: HAMi-core\n",
        "    divvy.dev/cdi-kind: nvidia.com/gpu\n",
    ] {
        let cluster = CLUSTER.replace(missing, "");
        let said = lines(&rehearse(&cluster, WORKLOAD, on()));
        assert_eq!(
            said[2..],
            [
                "steady-0: provider HAMi-core is not installed",
                "steady-1: provider HAMi-core is not installed"
            ]
        );
    }
    let wrong = WORKLOAD.replace("level: Isolated", "level: Isoalted");
    let said = lines(&rehearse(CLUSTER, &wrong, on()));
    assert!(said[3].ends_with("\"Isoalted\"; allowed are Isolated and Shared"), "{said:?}");
}

fn bound(name: &str, metadata: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: ml, {metadata}}}\n\
         spec: {{nodeName: gpu-node-1, schedulerName: koord-scheduler, containers: [{{name: c, resources: {{limits: \
         {{koordinator.sh/gpu: 25}}}}}}]}}\nstatus: {{phase: Running}}\n"
    )
}

#[test]
fn a_card_that_is_found_mixed_is_reported_and_takes_nobody_new() {
    let card = "divvy.dev/cards: \"0:10737418240\"";
    let mixed = CLUSTER.to_owned()
        + &bound("a", &format!("annotations: {{{card}, divvy.dev/class: Shared}}"))
        + &bound("b", &format!("annotations: {{{card}, divvy.dev/class: Isolated/HAMi-core}}"));
    let rehearsal = rehearse(&mixed, WORKLOAD, on());
    let expected =
        "pod ml/b on gpu-node-1: card 0 has shares of another class; it is counted without a card";
    assert_eq!(rehearsal.warnings, [expected]);
    assert_eq!(lines(&rehearsal)[..2], ["routed-0 1", "routed-1 1"]);
}

#[test]
fn what_bindings_record_says_the_class_of_a_card_without_a_gate_or_a_table_of_providers() {
    let of = |name: &str, card: u8, class: &str| {
        let card = format!("divvy.dev/cards: \"{card}:10737418240\"");
        bound(name, &format!("annotations: {{{card}, divvy.dev/class: {class}}}"))
    };
    let ghost = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: r, namespace: kai-resource-reservation, \
                 annotations: {divvy.dev/ghosts: \"ml/c/1-2:10737418240:9000000000:0:Isolated/CUDA\"}}\n\
                 spec: {nodeName: gpu-node-1, containers: [{name: c}]}\nstatus: {phase: Running}\n";
    let text = CLUSTER.to_owned() + &of("a", 0, "Isolated/MPS") + &of("b", 1, "Shared") + ghost;
    let classes = |recorded_levels| {
        let setup = Setup { cluster: Some(input(&text)), recorded_levels, ..Setup::default() };
        let rehearsal = Rehearsal::load(&setup, &()).unwrap();
        let top = serde_json::to_value(divvy_views::top_cards(&rehearsal.scheduler)).unwrap();
        [0, 1].map(|card: usize| top["items"][card]["class"].as_str().map(str::to_owned))
    };
    assert_eq!(classes(true), [Some("Isolated/MPS".to_owned()), Some("Shared".to_owned())]);
    assert_eq!(classes(false), [None, None], "unless somebody asks");
    // To place pods only the table counts, as for the scheduler.
    let table = rehearse(&text, WORKLOAD, on());
    let expected = ["routed-0 1", "routed-1: card gpu-node-1/0 holds Isolated pods"];
    assert_eq!(lines(&table)[..2], expected);
}

#[test]
fn cards_that_koordinator_gave_are_read_back_and_its_pods_left_to_its_scheduler() {
    let on_card = |uuid: &str| {
        let text = format!(r#"{{\"gpu\":[{{\"minor\":1,\"id\":\"{uuid}\"}}]}}"#);
        format!("annotations: {{scheduling.koordinator.sh/device-allocated: \"{text}\"}}")
    };
    let cluster = CLUSTER.to_owned()
        + &bound("a", &on_card("GPU-1"))
        + &bound("b", &on_card("GPU-2"))
        + &bound("c", &on_card("GPU-1"));
    let rehearsal = rehearse(&cluster, "", None);
    assert_eq!(rehearsal.warnings, [""; 0]);
    let card = |name: &str| {
        rehearsal.scheduler.holding(&ObjectKey::new("ml", name)).unwrap().cards[0].index
    };
    assert_eq!([card("a"), card("b"), card("c")], [0, 1, 0]);
    let waits = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: w, namespace: ml}\n\
                 spec: {schedulerName: koord-scheduler, containers: [{name: c}]}\n";
    let scheduler = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: s, namespace: koordinator-system, \
                     labels: {koord-app: koord-scheduler}}\nspec: {nodeName: gpu-node-1, containers: [{name: c}]}\n\
                     status: {phase: Running}\n";
    let ours = rehearse(&(cluster.clone() + waits), "", None);
    assert_eq!(ours.pods, [ObjectKey::new("ml", "w")]);
    let theirs = rehearse(&(cluster + waits + scheduler), "", None);
    assert!(theirs.running.koordinator && theirs.pods.is_empty());
}
