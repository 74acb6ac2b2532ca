use super::*;
use crate::options::TextOptions;
use crate::testing::{Cluster, bound, fraction, mib, node, pod, tainted, whole};
use divvy_engine::{Event, NodeRecord};
use divvy_ledger::{Gpus, Intake, Known, Part, Percent, Request};

const PLAIN: TextOptions =
    TextOptions { wide: false, colour: false, width: 0, page: 0, no_headers: false };
const WIDE: TextOptions = TextOptions { wide: true, ..PLAIN };

fn cluster() -> Cluster {
    let unknown = NodeRecord { gpus: Gpus::cards(1, 1, None), ..node("t4-2", "Tesla-T4", 1, 15) };
    Cluster::example().with(unknown)
}

#[test]
fn nodes_show_cards_memory_and_the_largest_free_share() {
    insta::assert_snapshot!(top_nodes_text(&top_nodes(&cluster().scheduler), PLAIN), @"
    NODE    MODEL      CARDS  WHOLE  SHARED  SHARES  GPU-MEM        FREE-SHARE  CPU     MEMORY        PODS
    a100-1  A100-80GB  5/8    4      1       3       399.0/640.0Gi  80.0Gi      6/64    16.0/256.0Gi  4/110
    a100-2  A100-80GB  0/8    0      0       0       0.0/640.0Gi    80.0Gi      0/64    0.0/256.0Gi   0/110
    cpu-1   -          -      -      -       -       -              -           1.5/64  4.0/256.0Gi   1/110
    t4-1    T4         0/2    0      0       0       0.0/30.0Gi     15.0Gi      0/64    0.0/256.0Gi   0/110
    t4-2    T4         0/1    0      0       0       -              1card       0/64    0.0/256.0Gi   0/110
    ");
}

#[test]
fn replicas_have_a_column_where_there_are_any() {
    let replicas = NodeRecord { gpus: Gpus::replicas(32), ..node("r-1", "Tesla-T4", 2, 15) };
    let cluster = Cluster::new().with(replicas).add(bound(pod("ml/many", whole(12)), "r-1"));
    insta::assert_snapshot!(top_nodes_text(&top_nodes(&cluster.scheduler), PLAIN), @"
    NODE  MODEL  CARDS  WHOLE  SHARED  SHARES  SLICES  GPU-MEM  FREE-SHARE  CPU     MEMORY       PODS
    r-1   T4     -      -      -       -       12/32   -        -           1.5/64  4.0/256.0Gi  1/110
    ");
    insta::assert_snapshot!(top_pods_text(&top_pods(&cluster.scheduler), PLAIN), @"
    NAMESPACE  NAME  NODE  CARD  ASKED   GPU-MEM  CPU  MEMORY
    ml         many  r-1   -     12GPUs  -        1.5  4.0Gi
    ");
}

#[test]
fn cards_show_their_state_and_their_pods() {
    let cluster = cluster();
    let cards = top_cards(&cluster.scheduler);
    let text = top_cards_text(&cards, PLAIN);
    let lines = text.lines().filter(|l| !l.starts_with("a100-2"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    NODE    CARD  MODEL      STATE   SHARES  USED         FREE    PODS
    a100-1  0     A100-80GB  whole   -       80.0/80.0Gi  0       ml/train-7
    a100-1  1     A100-80GB  whole   -       80.0/80.0Gi  0       ml/train-7
    a100-1  2     A100-80GB  whole   -       80.0/80.0Gi  0       ml/train-7
    a100-1  3     A100-80GB  whole   -       80.0/80.0Gi  0       ml/train-7
    a100-1  4     A100-80GB  shared  3       79.0/80.0Gi  0.9Gi   ml/notebook-a,ml/notebook-b,ml/triton-0
    a100-1  5     A100-80GB  free    -       0.0/80.0Gi   80.0Gi  -
    a100-1  6     A100-80GB  free    -       0.0/80.0Gi   80.0Gi  -
    a100-1  7     A100-80GB  free    -       0.0/80.0Gi   80.0Gi  -
    t4-1    0     T4         free    -       0.0/15.0Gi   15.0Gi  -
    t4-1    1     T4         free    -       0.0/15.0Gi   15.0Gi  -
    t4-2    0     T4         free    -       0/1card      1card   -
    ");
    let wide = top_cards_text(&cards, WIDE);
    assert!(
        wide.starts_with("NODE") && wide.contains("USED-BYTES") && wide.contains("84892712960")
    );
}

#[test]
fn of_a_long_list_of_pods_the_rest_is_counted_on_a_terminal_unless_wide() {
    let mut cluster = Cluster::new().with(node("a-1", "x", 1, 80));
    for i in 0..9 {
        cluster = cluster.ask(&format!("ml/notebook-{i}"), fraction("0.1", 1));
    }
    let cards = top_cards(&cluster.scheduler);
    let terminal = TextOptions { width: 120, ..PLAIN };
    insta::assert_snapshot!(top_cards_text(&cards, terminal), @"
    NODE  CARD  MODEL  STATE   SHARES  USED         FREE   PODS
    a-1   0     x      shared  9       72.0/80.0Gi  8.0Gi  ml/notebook-0,ml/notebook-1,ml/notebook-2,ml/notebook-3,+5
    ");
    for all in [PLAIN, WIDE, TextOptions { width: 120, ..WIDE }] {
        assert!(top_cards_text(&cards, all).contains("ml/notebook-7,ml/notebook-8"), "{all:?}");
    }
}

#[test]
fn a_card_that_is_claimed_twice_is_overbooked_and_its_json_state_stays() {
    let cluster = Cluster::overbooked();
    let cards = top_cards(&cluster.scheduler);
    insta::assert_snapshot!(top_cards_text(&cards, PLAIN), @"
    NODE  CARD  MODEL  STATE       SHARES  USED          FREE     PODS
    a-1   0     x      overbooked  2       120.0/80.0Gi  -40.0Gi  ml/first,ml/second
    a-1   1     x      free        -       0.0/80.0Gi    80.0Gi   -
    ");
    let json = serde_json::to_value(&cards.items[0]).unwrap();
    assert_eq!((&json["state"], &json["overbooked"]), (&"shared".into(), &true.into()));
    assert_eq!(json["overbookedBytes"], 40u64 << 30);
    assert_eq!(json["claims"][0]["pod"], "ml/second");
}

#[test]
fn a_card_that_nobody_holds_and_somebody_claims_is_not_free() {
    insta::assert_snapshot!(top_cards_text(&top_cards(&Cluster::claimed().scheduler), PLAIN), @"
    NODE  CARD  MODEL  STATE       SHARES  USED          FREE     PODS
    a-1   0     x      overbooked  2       100.0/80.0Gi  -20.0Gi  ml/first,ml/two
    a-1   1     x      claimed     -       40.0/80.0Gi   0        ml/two
    ");
}

#[test]
fn wide_shows_what_keeps_pods_off_a_node() {
    let mut closed = tainted(node("a-1", "x", 1, 80), "gpu", "maintenance");
    closed.facts.unschedulable = true;
    let cluster = Cluster::new().with(closed).with(tainted(node("a-2", "x", 1, 80), "spot", ""));
    insta::assert_snapshot!(top_nodes_text(&top_nodes(&cluster.scheduler), WIDE), @"
    NODE  MODEL  CARDS  WHOLE  SHARED  SHARES  GPU-MEM     FREE-SHARE  CPU   MEMORY       PODS   STATUS       TAINTS
    a-1   x      0/1    0      0       0       0.0/80.0Gi  80.0Gi      0/64  0.0/256.0Gi  0/110  cordoned     gpu=maintenance:NoSchedule
    a-2   x      0/1    0      0       0       0.0/80.0Gi  80.0Gi      0/64  0.0/256.0Gi  0/110  schedulable  spot:NoSchedule
    ");
}

/// A node of which the device plugin hands out fewer cards than there are.
fn withholding(cards: u32, usable: u32) -> NodeRecord {
    NodeRecord { gpus: Gpus::cards(cards, usable, None), ..node("a-1", "x", 1, 80) }
}

fn states(cluster: &Cluster) -> Vec<(String, Option<bool>)> {
    let text = top_cards_text(&top_cards(&cluster.scheduler), PLAIN);
    let states = text.lines().skip(1).map(|l| l.split_whitespace().nth(3).unwrap().to_owned());
    let cards = top_cards(&cluster.scheduler).items;
    states.zip(cards.iter().map(|card| card.allocatable)).collect()
}

#[test]
fn cards_that_are_not_handed_out_are_there_and_withheld() {
    let cluster = Cluster::new().with(withholding(3, 2)).with(node("a-2", "x", 1, 80));
    insta::assert_snapshot!(top_nodes_text(&top_nodes(&cluster.scheduler), PLAIN), @"
    NODE  MODEL  CARDS  WHOLE  SHARED  SHARES  WITHHELD  GPU-MEM     FREE-SHARE  CPU   MEMORY       PODS
    a-1   x      0/3    0      0       0       1         -           1card       0/64  0.0/256.0Gi  0/110
    a-2   x      0/1    0      0       0       0         0.0/80.0Gi  80.0Gi      0/64  0.0/256.0Gi  0/110
    ");
    let cluster = Cluster::new().with(withholding(3, 2)).ask("ml/whole", whole(1));
    // One of these; the one that is held may be it.
    let (maybe, held) = (|| ("withheld?".to_owned(), None), ("whole".to_owned(), None));
    assert_eq!(states(&cluster), [held.clone(), maybe(), maybe()]);
    let cluster = Cluster::new().with(withholding(2, 1)).ask("ml/whole", whole(1));
    let withheld = ("withheld".to_owned(), Some(false));
    assert_eq!(states(&cluster), [held, withheld]);
}

#[test]
fn a_shared_card_that_is_not_well_says_so_and_no_other_is_suspected() {
    let mut cluster = Cluster::new().with(withholding(3, 3)).ask("ml/half", fraction("0.5", 1));
    let sick = Known { intake: Intake::SICK, name: None };
    let event = Event::Cards { node: "a-1".into(), unsettled: false, cards: vec![(0, sick)] };
    cluster.scheduler.apply(event).unwrap();
    let cluster = cluster.with(withholding(3, 2));
    let free = || ("free".to_owned(), Some(true));
    assert_eq!(states(&cluster), [("shared,sick".to_owned(), Some(false)), free(), free()]);
}

#[test]
fn no_cell_has_a_space_in_it() {
    let cluster = cluster().ask("ml/two", mib(60, 2)).ask("ml/t4", fraction("0.5", 1));
    let scheduler = &cluster.scheduler;
    for options in [PLAIN, WIDE] {
        for text in [
            top_nodes_text(&top_nodes(scheduler), options),
            top_cards_text(&top_cards(scheduler), options),
            top_pods_text(&top_pods(scheduler), options),
        ] {
            let columns = text.lines().next().unwrap().split_whitespace().count();
            for line in text.lines() {
                assert_eq!(line.split_whitespace().count(), columns, "{line}");
            }
        }
    }
}

#[test]
fn pods_without_gpus_are_only_shown_wide() {
    let cluster = cluster();
    let pods = top_pods(&cluster.scheduler);
    insta::assert_snapshot!(top_pods_text(&pods, PLAIN), @"
    NAMESPACE  NAME        NODE    CARD  ASKED     GPU-MEM  CPU  MEMORY
    ml         notebook-a  a100-1  4     0.25      20.0Gi   1.5  4.0Gi
    ml         notebook-b  a100-1  4     0.25      20.0Gi   1.5  4.0Gi
    ml         train-7     a100-1  0-3   4GPUs     320.0Gi  1.5  4.0Gi
    ml         triton-0    a100-1  4     40000MiB  39.0Gi   1.5  4.0Gi
    ");
    insta::assert_snapshot!(top_pods_text(&pods, WIDE), @"
    NAMESPACE  NAME        NODE    CARD  ASKED     GPU-MEM  CPU  MEMORY  STATUS  OF-CARD  GPU-BYTES
    ml         notebook-a  a100-1  4     0.25      20.0Gi   1.5  4.0Gi   bound   0.25     21474836480
    ml         notebook-b  a100-1  4     0.25      20.0Gi   1.5  4.0Gi   bound   0.25     21474836480
    ml         train-7     a100-1  0-3   4GPUs     320.0Gi  1.5  4.0Gi   bound   1        343597383680
    ml         triton-0    a100-1  4     40000MiB  39.0Gi   1.5  4.0Gi   bound   0.48     41943040000
    ml         web         cpu-1   -     -         -        1.5  4.0Gi   bound   -        -
    ");
}

#[test]
fn nothing_is_said_in_words() {
    let empty = Cluster::new();
    insta::assert_snapshot!(top_nodes_text(&top_nodes(&empty.scheduler), PLAIN), @"The cluster has no nodes.");
    insta::assert_snapshot!(top_cards_text(&top_cards(&empty.scheduler), PLAIN), @"The cluster has no cards.");
    insta::assert_snapshot!(top_pods_text(&top_pods(&empty.scheduler), PLAIN), @"No pod holds a GPU.");
}

#[test]
fn the_json_keeps_the_full_model_and_exact_numbers() {
    let cluster = Cluster::example();
    let nodes = serde_json::to_string(&top_nodes(&cluster.scheduler).items[0]).unwrap();
    insta::assert_snapshot!(nodes, @r#"{"name":"a100-1","model":"NVIDIA-A100-SXM4-80GB","cards":8,"cardsWithheld":0,"cardsInUse":5,"whole":4,"shared":1,"shares":3,"gpuMemoryBytes":687194767360,"gpuMemoryUsedBytes":428490096640,"largestFreeShareBytes":85899345920,"replicas":null,"slices":[],"cpuMilli":64000,"cpuUsedMilli":6000,"memoryBytes":274877906944,"memoryUsedBytes":17179869184,"pods":4,"podSlots":110,"unschedulable":false,"taints":[]}"#);
    let cards = serde_json::to_string(&top_cards(&cluster.scheduler).items[4]).unwrap();
    insta::assert_snapshot!(cards, @r#"{"node":"a100-1","model":"NVIDIA-A100-SXM4-80GB","index":4,"number":4,"uuid":null,"state":"shared","closed":[],"capacityBytes":85899345920,"usedBytes":84892712960,"shares":[{"pod":"ml/notebook-a","bytes":21474836480,"computePercent":null},{"pod":"ml/notebook-b","bytes":21474836480,"computePercent":null},{"pod":"ml/triton-0","bytes":41943040000,"computePercent":null}],"allocatable":true,"overbooked":false,"overbookedBytes":0,"claims":[]}"#);
    let pods = serde_json::to_string(&top_pods(&cluster.scheduler).items[0]).unwrap();
    insta::assert_snapshot!(pods, @r#"{"namespace":"ml","name":"notebook-a","node":"a100-1","cards":[{"index":4,"number":4,"bytes":21474836480,"computePercent":null}],"replicas":0,"slices":[],"asked":"0.25","gpuMemoryBytes":21474836480,"cpuMilli":1500,"memoryBytes":4294967296,"queue":null,"terminating":false}"#);
}

#[test]
fn the_json_says_how_much_compute_shares_have_and_why_a_card_takes_nobody_new() {
    let part = fraction("0.25", 1).part().unwrap();
    let asks = |percent| Request::share(1, Part { compute: Percent(percent), ..part });
    let mut cluster = Cluster::new().with(node("a-1", "Tesla-T4", 2, 15));
    cluster = cluster.ask("ml/a", asks(30)).ask("ml/b", asks(0));
    let intake = Intake::SICK.and(Intake::RETURNING);
    let event = Event::Cards {
        node: "a-1".into(),
        unsettled: false,
        cards: vec![(0, Known { intake, name: None })],
    };
    cluster.scheduler.apply(event).unwrap();
    let cards = serde_json::to_value(top_cards(&cluster.scheduler)).unwrap();
    let card = &cards["items"][0];
    assert_eq!(card["closed"], serde_json::json!(["sick", "returning"]));
    assert_eq!(cards["items"][1]["closed"], serde_json::json!([]));
    let compute = |of: &serde_json::Value| of["computePercent"].clone();
    let expected = [serde_json::json!(30), serde_json::Value::Null];
    assert_eq!([0, 1].map(|nth: usize| compute(&card["shares"][nth])), expected);
    let pods = serde_json::to_value(top_pods(&cluster.scheduler)).unwrap();
    let of_pods = [0, 1].map(|nth: usize| compute(&pods["items"][nth]["cards"][0]));
    assert_eq!(of_pods, expected);
    let text = top_cards_text(&top_cards(&cluster.scheduler), PLAIN);
    assert!(text.contains("shared,sick,returning"), "{text}");
}

#[test]
fn cards_show_their_class_where_classes_are_told_apart() {
    let cluster = Cluster::classed();
    let cards = top_cards(&cluster.scheduler);
    let text = top_cards_text(&cards, PLAIN);
    let classes = |line: &str| line.split_whitespace().nth(4).map(str::to_owned);
    let classes: Vec<String> = text.lines().filter_map(classes).collect();
    assert_eq!(classes, ["CLASS", "Shared", "Isolated/HAMi-core", "-"]);
    let json = serde_json::to_value(&cards).unwrap();
    assert_eq!(json["items"][1]["class"], "Isolated/HAMi-core");
    assert_eq!(json["items"][2].get("class"), None);
}
