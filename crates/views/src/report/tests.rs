use super::*;
use crate::options::TextOptions;
use crate::testing::{Cluster, bound, fraction, node, pod, whole};
use crate::top::top_pending;
use divvy_engine::PodRecord;
use std::sync::Arc;

fn of(cluster: &Cluster) -> Report<'_> {
    let pending = top_pending(&cluster.scheduler, &[], std::iter::empty(), 7_200);
    report(&cluster.scheduler, pending, None, 7_200)
}

fn in_queue(record: PodRecord, queue: &str) -> PodRecord {
    let mut record = record;
    record.spec.labels = Arc::new([("kai.scheduler/queue", queue)].into_iter().collect());
    record
}

#[test]
fn the_report_says_how_full_cards_are_what_is_left_and_who_waits() {
    let cluster = Cluster::example().add(in_queue(pod("ml/team", fraction("0.5", 1)), "team-a"));
    let report = of(&cluster);
    insta::assert_snapshot!(report_text(&report, TextOptions::default()), @"
    6 of 18 cards in use, 439 of 1,310 GiB allocated, 0.9 GiB stranded on shared cards. Cards in use are 91.5% full. 1 pod pending.

    Pools: PACKING is how full cards in use are; FRAGMENTED is free on shared cards, STRANDED that of it which no known share can have
    POOL       CARDS  IDLE  WHOLE  SHARED  GPU-MEM         PACKING  FRAGMENTED  STRANDED  UNGUARDED
    A100-80GB  6/16   10    4      2       439.0/1280.0Gi  91.5%    40.9Gi      0.9Gi     1
    T4         0/2    2     0      0       0.0/30.0Gi      -        0           0         0

    Nodes: the same by node
    NODE    CARDS  IDLE  WHOLE  SHARED  GPU-MEM        PACKING  FRAGMENTED  STRANDED  UNGUARDED
    a100-1  6/8    2     4      2       439.0/640.0Gi  91.5%    40.9Gi      0.9Gi     1
    a100-2  0/8    8     0      0       0.0/640.0Gi    -        0           0         0
    t4-1    0/2    2     0      0       0.0/30.0Gi     -        0           0         0

    Idle cards: nobody holds them
    NODE    IDLE  CARD
    a100-1  2     6,7
    a100-2  8     0-7
    t4-1    2     0,1

    Unguarded cards: their shares may use more than they asked for, and together outgrow the card; level Isolated keeps shares to their part
    NODE    CARD  SHARES  PODS
    a100-1  4     3       ml/notebook-a,ml/notebook-b,ml/triton-0

    Queues: what their pods hold in whole GPUs; quotas are not enforced yet
    QUEUE   PODS  GPUS   GPU-MEM  PENDING
    team-a  1     0.5    40.0Gi   0
    -       4     4.988  399.0Gi  1

    Pending: in the order of their turns; divvy explain pod NAMESPACE/NAME says more
    NAMESPACE  NAME    ASKED     PRIORITY  AGE  MESSAGE
    ml         llm-xl  98304MiB  0         2h   largest card 80.0 GiB < 96.0 GiB asked
    ");
    let json = serde_json::to_value(&report).unwrap();
    let summary = &json["summary"];
    assert_eq!((&summary["cards"], &summary["cardsIdle"]), (&18.into(), &12.into()));
    assert_eq!(summary["packingRatio"], 0.9147);
    assert_eq!(summary["strandedBytes"], 1_006_632_960u64);
    assert_eq!(json["queues"][0]["queue"], "team-a");
    assert_eq!(json["queues"][0]["gpus"], 0.5);
    assert_eq!(json["pending"][0]["name"], "llm-xl");
    assert_eq!(json["unguardedCards"][0]["pods"][0], "ml/notebook-a");
    assert_eq!(json["generatedAt"], "1970-01-01T02:00:00Z");
}

#[test]
fn the_sums_of_pools_and_of_nodes_are_those_of_the_cluster() {
    let cluster = Cluster::example().ask("ml/more", fraction("0.3", 1)).ask("ml/big", whole(3));
    let report = of(&cluster);
    let sum = |parts: &[ReportPart], of: fn(&ReportTotals) -> u64| -> u64 {
        parts.iter().map(|part| of(&part.totals)).sum()
    };
    let measures: [fn(&ReportTotals) -> u64; 6] = [
        |t| t.cards as u64,
        |t| t.cards_in_use as u64,
        |t| t.held_bytes,
        |t| t.capacity_bytes,
        |t| t.fragmented_bytes,
        |t| t.stranded_bytes,
    ];
    for measure in measures {
        let all = measure(&report.summary);
        assert_eq!((sum(&report.nodes, measure), sum(&report.node_pools, measure)), (all, all));
    }
}

#[test]
fn slices_are_counted_by_resource_over_all_nodes() {
    let cluster = Cluster::sliced();
    let slices = of(&cluster).slices;
    let counts: Vec<_> =
        slices.iter().map(|s| (s.resource.as_str(), s.taken, s.total, s.nodes)).collect();
    assert_eq!(
        counts,
        [
            ("nvidia.com/gpu.shared", 2, 8, 1),
            ("nvidia.com/mig-1g.10gb", 4, 7, 1),
            ("nvidia.com/mig-3g.40gb", 1, 2, 1),
        ]
    );
}

#[test]
fn a_card_of_which_one_time_slice_is_taken_is_not_full() {
    let cluster = Cluster::sliced();
    let report = of(&cluster);
    let turns = report.nodes.iter().find(|part| part.name == "turns-1").unwrap();
    // Two of eight slices, one on each of two cards.
    let ReportTotals { cards_in_use, packing_ratio, allocated_ratio, .. } = turns.totals;
    assert_eq!((cards_in_use, packing_ratio, allocated_ratio), (2, Some(0.25), Some(0.25)));
    let cluster = cluster.ask("ml/all", crate::testing::devices(divvy_ledger::Device::Replica, 6));
    let report = of(&cluster);
    let turns = report.nodes.iter().find(|part| part.name == "turns-1").unwrap();
    assert_eq!(turns.totals.packing_ratio, Some(1.0));
}

#[test]
fn the_page_loads_nothing_and_shows_no_markup_of_users() {
    let evil =
        in_queue(pod("ml/<img src=x onerror=alert(1)>", fraction("0.5", 1)), "</td><script>");
    let cluster = Cluster::new()
        .with(node("<n>", "\"><iframe src=//evil>", 2, 80))
        .add(bound(evil, "<n>"))
        .ask("ml/</style><script>alert(2)</script>", whole(9));
    let page = report_page(&of(&cluster));
    for markup in ["<img", "<script", "<iframe", "</style><script", "href=", "url(http", "<link"] {
        assert!(!page.contains(markup), "{markup}");
    }
    let addresses = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!addresses.contains("://"), "only the name of the format is an address");
    assert!(page.contains("default-src &#39;none&#39;") && page.contains("<svg "));
    assert_eq!(page.matches("<table>").count(), page.matches("</table>").count());
}
