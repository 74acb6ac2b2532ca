use super::*;
use crate::options::TextOptions;
use crate::testing::{Cluster, bound, node, pod, whole};
use divvy_engine::NodeRecord;
use divvy_ledger::Gpus;

const PLAIN: TextOptions = TextOptions { wide: false, colour: false, width: 0 };
const WIDE: TextOptions = TextOptions { wide: true, ..PLAIN };

fn cluster() -> Cluster {
    let unknown = NodeRecord {
        gpus: Gpus::Cards { count: 1, usable: 1, memory: None },
        ..node("t4-2", "Tesla-T4", 1, 15)
    };
    Cluster::example().with(unknown)
}

#[test]
fn nodes_show_cards_memory_and_the_largest_free_share() {
    insta::assert_snapshot!(top_nodes_text(&top_nodes(&cluster().scheduler), PLAIN), @"
    NODE    MODEL      CARDS  WHOLE  SHARED  SHARES  GPU-MEM      FREE-SHARE  CPU     MEMORY      PODS
    a100-1  A100-80GB  5/8    4      1       3       399.0/640.0  80.0        6/64    16.0/256.0  4/110
    a100-2  A100-80GB  0/8    0      0       0       0.0/640.0    80.0        0/64    0.0/256.0   0/110
    cpu-1   -          -      -      -       -       -            -           1.5/64  4.0/256.0   1/110
    t4-1    T4         0/2    0      0       0       0.0/30.0     15.0        0/64    0.0/256.0   0/110
    t4-2    T4         0/1    0      0       0       -            1           0/64    0.0/256.0   0/110
    ");
}

#[test]
fn replicas_have_a_column_where_there_are_any() {
    let replicas =
        NodeRecord { gpus: Gpus::Replicas { count: 32 }, ..node("r-1", "Tesla-T4", 2, 15) };
    let cluster = Cluster::new().with(replicas).add(bound(pod("ml/many", whole(12)), "r-1"));
    insta::assert_snapshot!(top_nodes_text(&top_nodes(&cluster.scheduler), PLAIN), @"
    NODE  MODEL  CARDS  WHOLE  SHARED  SHARES  REPLICAS  GPU-MEM  FREE-SHARE  CPU     MEMORY     PODS
    r-1   T4     -      -      -       -       12/32     -        -           1.5/64  4.0/256.0  1/110
    ");
    insta::assert_snapshot!(top_pods_text(&top_pods(&cluster.scheduler), PLAIN), @"
    NAMESPACE  NAME  NODE  CARD  ASKED    GPU-MEM  CPU  MEMORY
    ml         many  r-1   -     12 GPUs  -        1.5  4.0
    ");
}

#[test]
fn cards_show_their_state_and_wide_their_pods() {
    let cluster = cluster();
    let cards = top_cards(&cluster.scheduler);
    let text = top_cards_text(&cards, WIDE);
    let lines = text.lines().filter(|l| !l.starts_with("a100-2"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    NODE    CARD  MODEL      STATE   SHARES  USED       FREE  PODS
    a100-1  0     A100-80GB  whole   -       80.0/80.0  0.0   ml/train-7
    a100-1  1     A100-80GB  whole   -       80.0/80.0  0.0   ml/train-7
    a100-1  2     A100-80GB  whole   -       80.0/80.0  0.0   ml/train-7
    a100-1  3     A100-80GB  whole   -       80.0/80.0  0.0   ml/train-7
    a100-1  4     A100-80GB  shared  3       79.0/80.0  0.9   ml/notebook-a,ml/notebook-b,ml/triton-0
    a100-1  5     A100-80GB  free    -       0.0/80.0   80.0  -
    a100-1  6     A100-80GB  free    -       0.0/80.0   80.0  -
    a100-1  7     A100-80GB  free    -       0.0/80.0   80.0  -
    t4-1    0     T4         free    -       0.0/15.0   15.0  -
    t4-1    1     T4         free    -       0.0/15.0   15.0  -
    t4-2    0     T4         free    -       0/1        1     -
    ");
    assert!(!top_cards_text(&cards, PLAIN).contains("PODS"));
}

#[test]
fn pods_without_gpus_are_only_shown_wide() {
    let cluster = cluster();
    let pods = top_pods(&cluster.scheduler);
    insta::assert_snapshot!(top_pods_text(&pods, PLAIN), @"
    NAMESPACE  NAME        NODE    CARD  ASKED            GPU-MEM  CPU  MEMORY
    ml         notebook-a  a100-1  4     0.25 (20.0 GiB)  20.0     1.5  4.0
    ml         notebook-b  a100-1  4     0.25 (20.0 GiB)  20.0     1.5  4.0
    ml         train-7     a100-1  0-3   4 GPUs           320.0    1.5  4.0
    ml         triton-0    a100-1  4     40000 MiB        39.0     1.5  4.0
    ");
    assert!(top_pods_text(&pods, WIDE).contains("web"));
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
    insta::assert_snapshot!(nodes, @r#"{"name":"a100-1","model":"NVIDIA-A100-SXM4-80GB","cards":8,"cardsInUse":5,"whole":4,"shared":1,"shares":3,"gpuMemoryBytes":687194767360,"gpuMemoryUsedBytes":428490096640,"largestFreeShareBytes":85899345920,"replicas":null,"cpuMilli":64000,"cpuUsedMilli":6000,"memoryBytes":274877906944,"memoryUsedBytes":17179869184,"pods":4,"podSlots":110}"#);
    let cards = serde_json::to_string(&top_cards(&cluster.scheduler).items[4]).unwrap();
    insta::assert_snapshot!(cards, @r#"{"node":"a100-1","model":"NVIDIA-A100-SXM4-80GB","index":4,"state":"shared","capacityBytes":85899345920,"usedBytes":84892712960,"shares":[{"pod":"ml/notebook-a","bytes":21474836480},{"pod":"ml/notebook-b","bytes":21474836480},{"pod":"ml/triton-0","bytes":41943040000}]}"#);
    let pods = serde_json::to_string(&top_pods(&cluster.scheduler).items[0]).unwrap();
    insta::assert_snapshot!(pods, @r#"{"namespace":"ml","name":"notebook-a","node":"a100-1","cards":[{"index":4,"bytes":21474836480}],"replicas":0,"asked":"0.25","gpuMemoryBytes":21474836480,"cpuMilli":1500,"memoryBytes":4294967296}"#);
}
