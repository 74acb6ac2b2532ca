use crate::testing::{Cluster, bound, devices, fraction, node, pod, slice, whole};
use crate::{
    TextOptions, card_map_svg, explain, explanation_text, simulation, simulation_text, top_cards,
    top_cards_text, top_nodes, top_nodes_text, top_pods, top_pods_text, top_slices,
    top_slices_text,
};
use divvy_engine::{Event, NodeRecord, ObjectKey};
use divvy_ledger::{Bytes, Device, Division, Gpus, Pool};

fn wide() -> TextOptions {
    TextOptions { wide: true, ..TextOptions::default() }
}

#[test]
fn top_slices_has_a_row_for_each_kind_of_each_node() {
    let cluster = Cluster::sliced();
    let top = top_slices(&cluster.scheduler);
    insta::assert_snapshot!(top_slices_text(&top, TextOptions::default()), @"
    NODE     MODEL      RESOURCE                KIND        CARDS  EACH     TAKEN  FREE  PODS
    mixed-1  A100-80GB  nvidia.com/mig-1g.10gb  mig         -      10.0Gi   4/7    3     ml/one,ml/three:3
    mixed-1  A100-80GB  nvidia.com/mig-3g.40gb  mig         -      40.0Gi   1/2    1     ml/big
    turns-1  A100-80GB  nvidia.com/gpu.shared   time-slice  2      1/4card  2/8    6     ml/two:2
    ");
    let shown = include_str!("../../../../docs/partitions.md");
    assert!(
        shown.contains(&top_slices_text(&top, TextOptions::default())),
        "the docs show another"
    );
    insta::assert_snapshot!(serde_json::to_string(&top.items[0]).unwrap(), @r#"{"node":"mixed-1","model":"NVIDIA-A100-SXM4-80GB","resource":"nvidia.com/mig-1g.10gb","kind":"mig","profile":"1g.10gb","cards":null,"bytesEach":10737418240,"threadsPercentEach":null,"total":7,"taken":4,"pods":[{"pod":"ml/one","count":1},{"pod":"ml/three","count":3}]}"#);
    let none = Cluster::new();
    let none = top_slices(&none.scheduler);
    assert_eq!(
        top_slices_text(&none, TextOptions::default()),
        "No node hands out slices of cards.\n"
    );
}

#[test]
fn the_other_tables_count_slices_too() {
    let cluster = Cluster::sliced();
    let nodes = top_nodes(&cluster.scheduler);
    insta::assert_snapshot!(top_nodes_text(&nodes, TextOptions::default()), @"
    NODE     MODEL      CARDS  WHOLE  SHARED  SHARES  SLICES  GPU-MEM       FREE-SHARE  CPU     MEMORY        PODS
    mixed-1  A100-80GB  0/1    0      0       0       5/9     80.0/230.0Gi  80.0Gi      4.5/64  12.0/256.0Gi  3/110
    turns-1  A100-80GB  2/2    0      0       0       2/8     20.0/80.0Gi   -           1.5/64  4.0/256.0Gi   1/110
    ");
    let pods = top_pods(&cluster.scheduler);
    insta::assert_snapshot!(top_pods_text(&pods, TextOptions::default()), @"
    NAMESPACE  NAME   NODE     CARD  ASKED                     GPU-MEM  CPU  MEMORY
    ml         big    mixed-1  -     1xnvidia.com/mig-3g.40gb  40.0Gi   1.5  4.0Gi
    ml         one    mixed-1  -     1xnvidia.com/mig-1g.10gb  10.0Gi   1.5  4.0Gi
    ml         three  mixed-1  -     3xnvidia.com/mig-1g.10gb  30.0Gi   1.5  4.0Gi
    ml         two    turns-1  #0,1  2xnvidia.com/gpu.shared   -        1.5  4.0Gi
    ");
    let cards = top_cards(&cluster.scheduler);
    insta::assert_snapshot!(top_cards_text(&cards, wide()), @"
    NODE     CARD  MODEL      STATE        SHARES  USED         FREE    USED-BYTES   UUID   PODS
    mixed-1  0     A100-80GB  free         -       0.0/80.0Gi   80.0Gi  0            -      -
    turns-1  #0    A100-80GB  time-sliced  1/4     10.0/40.0Gi  30.0Gi  10737418240  GPU-1  ml/two
    turns-1  #1    A100-80GB  time-sliced  1/4     10.0/40.0Gi  30.0Gi  10737418240  GPU-2  ml/two
    ");
}

#[test]
fn cards_of_which_nobody_tells_what_is_on_them_are_not_said_to_be_free() {
    let cluster = Cluster::sliced().ask("ml/silent", devices(Device::Replica, 1));
    let cards = top_cards(&cluster.scheduler);
    insta::assert_snapshot!(top_cards_text(&cards, TextOptions::default()), @"
    NODE     CARD  MODEL      STATE        SHARES  USED        FREE    PODS
    mixed-1  0     A100-80GB  free         -       0.0/80.0Gi  80.0Gi  -
    turns-1  #0    A100-80GB  time-sliced  ?/4     -           -       ml/two
    turns-1  #1    A100-80GB  time-sliced  ?/4     -           -       ml/two
    ");
}

#[test]
fn the_map_shows_slices_by_card_where_somebody_tells_and_by_kind_where_nobody_does() {
    let cluster = Cluster::sliced();
    let sim = simulation(&cluster.scheduler, &cluster.pods);
    insta::assert_snapshot!(simulation_text(&sim, TextOptions::default()), @"
    POD       NODE     CARD  ASKED                       STATUS
    ml/two    turns-1  -     2 x nvidia.com/gpu.shared   placed
    ml/one    mixed-1  -     1 x nvidia.com/mig-1g.10gb  placed
    ml/three  mixed-1  -     3 x nvidia.com/mig-1g.10gb  placed
    ml/big    mixed-1  -     1 x nvidia.com/mig-3g.40gb  placed

    mixed-1  1 x A100-80GB (80.0 GiB each)
      0  ····················  free
      mig-1g.10gb  aaabbbbbbbb·········  4 of 7 1g.10gb slices taken   a one 1   b three 3   free 3
      mig-3g.40gb  aaaaaaaaaa··········  1 of 2 3g.40gb slices taken   a big 1   free 1

    turns-1  2 x A100-80GB (40.0 GiB each)
      #0  aaaaa···············  1/4   a two 1   free 3
      #1  aaaaa···············  1/4   a two 1   free 3

    4 of 4 pods placed. 2 of 3 cards in use, 100 of 310 GiB allocated, 7 of 17 slices taken.
    ");
    let svg = card_map_svg(&sim);
    for text in [
        "mig-1g.10gb: 4 of 7 1g.10gb slices taken",
        "ml/three: 3 of nvidia.com/mig-1g.10gb",
        "ml/two: 10.0 GiB, 25 % of card #1",
    ] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
}

#[test]
fn cards_that_are_handed_out_in_slices_are_not_called_free() {
    let mut cluster = Cluster::sliced();
    for pod in std::mem::take(&mut cluster.pods) {
        cluster.scheduler.apply(Event::PodGone(pod)).unwrap();
    }
    let sim = simulation(&cluster.scheduler, &[]);
    let text = simulation_text(&sim, TextOptions::default());
    assert!(text.contains("2 nodes have no card in use (1 free card)"), "{text}");
}

/// A node with one pool.
fn of_pool(name: &str, pool: Pool) -> NodeRecord {
    let gpus = Gpus { pools: vec![pool], ..Gpus::none() };
    NodeRecord { gpus, ..node(name, "NVIDIA-A100-SXM4-80GB", 0, 0) }
}

#[test]
fn a_card_that_fails_changes_how_many_replicas_there_are_and_not_what_each_is() {
    let each = Some(Bytes::from_mib(20 * 1024));
    let pool = |by| Pool { by: Some(by), each, cards: 8, replicas: 4, ..Pool::of(Device::Gpu, 28) };
    let cluster = Cluster::new()
        .with(of_pool("mps-1", pool(Division::Mps)))
        .with(of_pool("turns-1", pool(Division::TimeSlices)))
        .add(bound(pod("ml/one", whole(1)), "mps-1"));
    let top = top_slices(&cluster.scheduler);
    insta::assert_snapshot!(top_slices_text(&top, TextOptions::default()), @"
    NODE     MODEL      RESOURCE        KIND        CARDS  EACH        TAKEN  FREE  PODS
    mps-1    A100-80GB  nvidia.com/gpu  mps         8      20.0Gi,25%  1/28   27    ml/one
    turns-1  A100-80GB  nvidia.com/gpu  time-slice  8      1/4card     0/28   28    -
    ");
    insta::assert_snapshot!(serde_json::to_string(&top.items[0]).unwrap(), @r#"{"node":"mps-1","model":"NVIDIA-A100-SXM4-80GB","resource":"nvidia.com/gpu","kind":"mps","profile":null,"cards":8,"bytesEach":21474836480,"threadsPercentEach":25,"total":28,"taken":1,"pods":[{"pod":"ml/one","count":1}]}"#);
    let said = explained(&cluster, "one");
    assert!(said.contains("at most 20.0 GiB and 25 % of the threads each"), "{said}");
}

#[test]
fn time_slices_of_mig_slices_are_told_from_mig_slices() {
    let small = slice("1g.10gb");
    let by = Some(Division::TimeSlices);
    let each = Some(Bytes::from_mib(5 * 1024));
    let turns = Pool { by, each, replicas: 2, ..Pool::of(small, 14) };
    let cluster = Cluster::new()
        .with(of_pool("plain-1", Pool::of(small, 1)))
        .with(of_pool("turns-1", turns))
        .ask("ml/three", devices(small, 3));
    let top = top_slices(&cluster.scheduler);
    insta::assert_snapshot!(top_slices_text(&top, TextOptions::default()), @"
    NODE     MODEL      RESOURCE                KIND        CARDS  EACH      TAKEN  FREE  PODS
    plain-1  A100-80GB  nvidia.com/mig-1g.10gb  mig         -      10.0Gi    0/1    1     -
    turns-1  A100-80GB  nvidia.com/mig-1g.10gb  time-slice  -      1/2slice  3/14   11    ml/three:3
    ");
    insta::assert_snapshot!(explained(&cluster, "three"), @"
    ml/three runs on turns-1 (3 x nvidia.com/mig-1g.10gb: 3 time slices of 1g.10gb)
    Note: 3 time slices are 3 turns, on one card or on several: no more compute than one slice on the same card, and no memory of their own
    ");
    // The first node that has the name is not the one where they are turns.
    let waiting = cluster.ask("ml/many", devices(small, 20));
    let said = explained(&waiting, "many");
    assert!(said.contains("Note: 20 time slices are 20 turns"), "{said}");
}

#[test]
fn time_slices_and_mig_slices_that_take_no_shares_are_two_reasons() {
    let pool = |by| Pool { by: Some(by), cards: 2, replicas: 4, ..Pool::of(Device::Gpu, 8) };
    let cluster = Cluster::new()
        .with(of_pool("mig-1", pool(Division::Mig)))
        .with(of_pool("turns-1", pool(Division::TimeSlices)))
        .ask("ml/share", fraction("0.5", 1));
    let said = explained(&cluster, "share");
    assert!(said.contains("its GPUs are MIG slices, which take no shares    mig-1"), "{said}");
    assert!(said.contains("its GPUs are time slices, which take no shares   turns-1"), "{said}");
}

fn explained(cluster: &Cluster, name: &str) -> String {
    let explanation = explain(&cluster.scheduler, &ObjectKey::new("ml", name), true).unwrap();
    explanation_text(&explanation, TextOptions::default())
}

#[test]
fn explain_says_where_slices_are_and_what_several_turns_mean() {
    let cluster = Cluster::sliced();
    insta::assert_snapshot!(explained(&cluster, "two"), @"
    ml/two runs on turns-1 (2 x nvidia.com/gpu.shared: 2 time slices on GPU-1 and GPU-2)
    Note: 2 time slices are 2 turns, on one card or on several: no more compute than one slice on the same card, and no memory of their own
    ");
    insta::assert_snapshot!(explained(&cluster, "three"), @"ml/three runs on mixed-1 (3 x nvidia.com/mig-1g.10gb: 3 1g.10gb slices)");
    let cluster = cluster
        .ask("ml/silent", devices(Device::Replica, 1))
        .ask("ml/share", fraction("0.5", 1))
        .ask("ml/other", fraction("0.7", 1))
        .ask("ml/gpu", whole(1))
        .ask("ml/many", devices(Device::Replica, 7))
        .ask("ml/four", devices(slice("1g.10gb"), 4))
        .ask("ml/none", devices(slice("7g.80gb"), 1));
    insta::assert_snapshot!(explained(&cluster, "other"), @"
    ml/other is pending: 0/2 nodes are available: 1 largest free share 0.5 < 0.7 asked, 1 its GPUs are time slices, which take no shares.
      1 node  largest free share 0.5 < 0.7 asked               mixed-1
      1 node  its GPUs are time slices, which take no shares   turns-1
    Nearest: mixed-1 card 0 lacks 16.0 GiB. It is free when ml/share (40.0 GiB) ends.
      0  aaaaaaaaaa··········   50 %   a share 40.0   free 40.0
    Next: ask at most 0.5 to start now, or wait
    ");
    insta::assert_snapshot!(explained(&cluster, "gpu"), @"
    ml/gpu is pending: 0/2 nodes are available: 1 free cards 0 < 1 asked, 1 no nvidia.com/gpu: time slices are called nvidia.com/gpu.shared there.
      1 node  free cards 0 < 1 asked                                                  mixed-1
      1 node  no nvidia.com/gpu: time slices are called nvidia.com/gpu.shared there   turns-1
    Nearest: mixed-1 lacks 1 card. It is free when ml/share (40.0 GiB) ends.
    Next: wait for a pod to end, or add a node
    ");
    insta::assert_snapshot!(explained(&cluster, "many"), @"
    ml/many is pending: 0/2 nodes are available: 1 3 of 8 time slices of 2 cards are taken, 7 asked, 1 no nvidia.com/gpu.shared: its GPUs are called nvidia.com/gpu there.
      1 node  3 of 8 time slices of 2 cards are taken, 7 asked                     turns-1
      1 node  no nvidia.com/gpu.shared: its GPUs are called nvidia.com/gpu there   mixed-1
    Nearest: turns-1 lacks 2 nvidia.com/gpu.shared. It is free when ml/two (2 nvidia.com/gpu.shared) ends.
    Note: 7 time slices are 7 turns, on one card or on several: no more compute than one slice on the same card, and no memory of their own
    Next: ask at most nvidia.com/gpu.shared: 5 to start now, or wait
    ");
    insta::assert_snapshot!(explained(&cluster, "four"), @"
    ml/four is pending: 0/2 nodes are available: 1 4 of 7 nvidia.com/mig-1g.10gb are taken, 4 asked, 1 no nvidia.com/mig-1g.10gb.
      1 node  4 of 7 nvidia.com/mig-1g.10gb are taken, 4 asked   mixed-1
      1 node  no nvidia.com/mig-1g.10gb                          turns-1
    Nearest: mixed-1 lacks 1 nvidia.com/mig-1g.10gb. It is free when ml/one (1 nvidia.com/mig-1g.10gb) ends.
    Next: ask at most nvidia.com/mig-1g.10gb: 3 to start now, or wait
    ");
    insta::assert_snapshot!(explained(&cluster, "none"), @"
    ml/none is pending: 0/2 nodes are available: 2 no nvidia.com/mig-7g.80gb.
      2 nodes  no nvidia.com/mig-7g.80gb   mixed-1 turns-1
    Next: add a node that offers nvidia.com/mig-7g.80gb, or check its device plugin
    ");
}
