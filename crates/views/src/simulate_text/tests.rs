use super::*;
use crate::simulation::simulation;
use crate::testing::{Cluster, bound, cpu_node, fraction, mib, node, pod, recorded, whole};
use divvy_engine::{NodeRecord, PodRecord};
use divvy_ledger::{Bytes, Gpus, Request};

fn text(cluster: &Cluster, options: TextOptions) -> String {
    let sim = simulation(&cluster.scheduler, &cluster.pods);
    simulation_text(&sim, options)
}

#[test]
fn a_simulation_shows_pods_then_cards_then_totals_then_a_next_step() {
    insta::assert_snapshot!(text(&Cluster::example(), TextOptions::default()), @"
    POD            NODE    CARD  ASKED                       STATUS
    ml/train-7     a100-1  0-3   4 GPUs                      placed
    ml/notebook-a  a100-1  4     0.25 (20.0 GiB)             placed
    ml/notebook-b  a100-1  4     0.25 (20.0 GiB)             placed
    ml/triton-0    a100-1  4     40000 MiB (39.0 GiB, 0.48)  placed
    ml/web         cpu-1   -     -                           placed
    ml/llm-xl      -       -     98304 MiB                   pending: largest card 80.0 GiB < 96.0 GiB asked

    a100-1  8 x A100-80GB (80.0 GiB each)
      0-3  ████████████████████  whole   train-7
      4    aaaaabbbbbccccccccc·   99 %   a notebook-a 20.0   b notebook-b 20.0   c triton-0 39.0   free 0.9
      5-7  ····················  free

    3 more nodes have no card in use (10 free cards)

    5 of 6 pods placed, 1 pending. 5 of 18 cards in use, 399 of 1,310 GiB allocated, 0.9 GiB stranded on shared cards.
    Next: divvy explain pod ml/llm-xl   (with the same -f, --cluster and other options)
    ");
}

#[test]
fn wide_adds_bytes_and_every_reason() {
    let options = TextOptions { wide: true, ..TextOptions::default() };
    insta::assert_snapshot!(text(&Cluster::example(), options), @"
    POD            NODE    CARD  ASKED                       BYTES        STATUS                                           REASONS
    ml/train-7     a100-1  0-3   4 GPUs                      85899345920  placed                                           -
    ml/notebook-a  a100-1  4     0.25 (20.0 GiB)             21474836480  placed                                           -
    ml/notebook-b  a100-1  4     0.25 (20.0 GiB)             21474836480  placed                                           -
    ml/triton-0    a100-1  4     40000 MiB (39.0 GiB, 0.48)  41943040000  placed                                           -
    ml/web         cpu-1   -     -                           -            placed                                           -
    ml/llm-xl      -       -     98304 MiB                   -            pending: largest card 80.0 GiB < 96.0 GiB asked  2 nodes: largest card 80.0 GiB < 96.0 GiB asked; 1 node: largest card 15.0 GiB < 96.0 GiB asked; 1 node: no GPU

    a100-1  8 x A100-80GB (80.0 GiB each)
      0-3  ████████████████████  whole   train-7
      4    aaaaabbbbbccccccccc·   99 %   a notebook-a 20.0   b notebook-b 20.0   c triton-0 39.0   free 0.9
      5-7  ····················  free

    3 more nodes have no card in use (10 free cards)

    5 of 6 pods placed, 1 pending. 5 of 18 cards in use, 399 of 1,310 GiB allocated, 0.9 GiB stranded on shared cards.
    Next: divvy explain pod ml/llm-xl   (with the same -f, --cluster and other options)
    ");
}

#[test]
fn colours_change_no_character() {
    let plain = text(&Cluster::example(), TextOptions::default());
    let colour = text(&Cluster::example(), TextOptions { colour: true, ..TextOptions::default() });
    let mut stripped = String::new();
    let mut parts = colour.split("\x1b[");
    stripped.push_str(parts.next().unwrap());
    for part in parts {
        stripped.push_str(part.split_once('m').unwrap().1);
    }
    assert_ne!(plain, colour);
    assert_eq!(plain, stripped);
    assert!(plain.lines().all(|line| !line.ends_with(' ')));
}

#[test]
fn unknown_memory_is_mapped_in_parts_of_a_card_and_replicas_are_counted() {
    let unknown = NodeRecord { gpus: Gpus::cards(2, 2, None), ..node("t4-1", "Tesla-T4", 2, 15) };
    let replicas =
        NodeRecord { gpus: Gpus::replicas(32), ..node("t4-2", "Tesla-T4-SHARED", 2, 15) };
    let cluster = Cluster::new()
        .with(unknown)
        .with(replicas)
        .ask("ml/a", fraction("0.25", 1))
        .ask("ml/b", fraction("0.333", 2))
        .add(bound(pod("team/many", whole(12)), "t4-2"));
    insta::assert_snapshot!(text(&cluster, TextOptions::default()), @"
    POD        NODE  CARD  ASKED      STATUS
    ml/a       t4-1  0     0.25       placed
    ml/b       t4-1  0,1   2 x 0.333  placed
    team/many  t4-2  -     12 GPUs    placed

    t4-1  2 x T4 (memory unknown, in parts of a card)
      0  aaaaabbbbbbb········   58 %   a ml/a 0.25   b ml/b 0.333   free 0.417
      1  aaaaaaa·············   33 %   a ml/b 0.333   free 0.667

    t4-2  T4-SHARED
      gpu  aaaaaaaa············  12 of 32 replicas taken   a team/many 12   free 20

    3 of 3 pods placed. 2 of 2 cards in use, 12 of 32 replicas taken.
    ");
}

#[test]
fn pods_of_two_namespaces_are_told_apart_on_the_map() {
    let cluster = Cluster::new()
        .with(node("a-1", "x", 2, 80))
        .ask("ml/same", fraction("0.5", 1))
        .ask("dev/same", fraction("0.25", 1));
    let text = text(&cluster, TextOptions::default());
    assert!(text.contains("a ml/same 40.0   b dev/same 20.0   free 20.0"), "{text}");
}

#[test]
fn a_gated_and_an_invalid_pod_say_why() {
    let gated = pod("ml/gated", whole(1));
    let spec = divvy_engine::PodSpec { gates: vec!["quota".to_owned()], ..gated.spec.clone() };
    let invalid = Some("gpu-fraction: \"2\" is not between 0 and 1".to_owned());
    let cluster = Cluster::new()
        .with(cpu_node("cpu-1"))
        .add(PodRecord { spec, ..gated })
        .add(PodRecord { invalid, ..pod("ml/wrong", Request::none()) });
    insta::assert_snapshot!(text(&cluster, TextOptions::default()), @r#"
    POD       NODE  CARD  ASKED  STATUS
    ml/gated  -     -     1 GPU  pending: scheduling gate quota is closed
    ml/wrong  -     -     ?      pending: gpu-fraction: "2" is not between 0 and 1

    1 node has no card in use

    0 of 2 pods placed, 2 pending. 0 of 0 cards in use.
    Next: divvy explain pod ml/gated   (with the same -f, --cluster and other options)
    "#);
}

#[test]
fn a_long_legend_is_broken_between_entries_at_the_width() {
    let mut cluster = Cluster::new().with(node("a-1", "NVIDIA-L40S", 1, 45));
    for i in 0..25 {
        cluster = cluster.ask(&format!("ml/notebook-{i}"), mib(1_000, 1));
    }
    let options = TextOptions { width: 100, ..TextOptions::default() };
    let text = text(&cluster, options);
    let map: Vec<&str> = text.lines().skip_while(|l| !l.starts_with("a-1")).collect();
    assert!(map.iter().all(|l| l.chars().count() <= 100), "{text}");
    insta::assert_snapshot!(map.join("\n"), @"
    a-1  1 x L40S (45.0 GiB each)
      0  +++++++++++·········   54 %   + notebook-0 0.9   + notebook-1 0.9   + notebook-2 0.9
                                       + notebook-3 0.9   + notebook-4 0.9   + notebook-5 0.9
                                       + notebook-6 0.9   + notebook-7 0.9   + notebook-8 0.9
                                       + notebook-9 0.9   + notebook-10 0.9   + notebook-11 0.9
                                       + notebook-12 0.9   + notebook-13 0.9   + notebook-14 0.9
                                       + notebook-15 0.9   + notebook-16 0.9   + notebook-17 0.9
                                       and 7 more 6.8   free 20.5

    25 of 25 pods placed. 1 of 1 card in use, 24 of 45 GiB allocated.
    ");
}

#[test]
fn no_line_of_a_map_is_longer_than_the_terminal() {
    let long = "train-large-language-model-with-everything-we-have-worker-17-of-200";
    let name = "ip-10-0-0-1.eu-central-1.compute.internal.example.com-with-many-cards";
    let cluster = Cluster::new()
        .with(node(name, "NVIDIA-A100-SXM4-80GB", 2, 80))
        .ask(&format!("research/{long}"), fraction("0.25", 1))
        .ask("ml/notebook-a", fraction("0.25", 1));
    let narrow = TextOptions { width: 80, ..TextOptions::default() };
    let map =
        |text: &str| text.split_once("\n\n").unwrap().1.split("\n\n").next().unwrap().to_owned();
    insta::assert_snapshot!(map(&text(&cluster, narrow)), @"
    ip-10-0-0-1.eu-central-1…mple.com-with-many-cards  2 x A100-80GB (80.0 GiB each)
      0  aaaaabbbbb··········   50 %   a research/train-large…-worker-17-of-200 20.0
                                       b ml/notebook-a 20.0   free 40.0
      1  ····················  free
    ");
    insta::assert_snapshot!(map(&text(&Cluster::sliced(), narrow)), @"
    mixed-1  1 x A100-80GB (80.0 GiB each)
      0  ····················  free
      mig-1g.10gb  aaabbbbbbbb·········  4 of 7 1g.10gb slices taken   a one 1
                   b three 3   free 3
      mig-3g.40gb  aaaaaaaaaa··········  1 of 2 3g.40gb slices taken   a big 1
                   free 1
    ");
    for cluster in [&cluster, &Cluster::sliced(), &Cluster::example(), &Cluster::overbooked()] {
        for width in [80, 100, 120] {
            let text = map(&text(cluster, TextOptions { width, ..TextOptions::default() }));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        }
    }
    let wide = text(&cluster, TextOptions { width: 80, wide: true, ..TextOptions::default() });
    assert!(wide.contains(&format!("a research/{long} 20.0")) && wide.contains(name), "{wide}");
}

#[test]
fn a_large_simulation_is_cut_short_and_says_so_but_shows_pods_that_wait() {
    let mut cluster = Cluster::new();
    for i in 0..50 {
        cluster = cluster.with(node(&format!("n-{i:02}"), "x", 8, 80));
    }
    for i in 0..400 {
        cluster = cluster.ask(&format!("ml/p-{i}"), whole(1));
    }
    cluster = cluster.ask("ml/late", whole(1));
    let short = text(&cluster, TextOptions::default());
    let has = |text: &str, line: &str| text.lines().any(|l| l.starts_with(line));
    assert!(has(&short, "... and 201 more pods: -o wide or -o json shows all"), "{short}");
    assert!(has(&short, "... and 10 more nodes with cards in use: -o wide or -o json"), "{short}");
    assert!(has(&short, "ml/late  "), "{short}");
    assert_eq!(short.lines().filter(|l| l.starts_with("ml/")).count(), 200);
    let wide = text(&cluster, TextOptions { wide: true, ..TextOptions::default() });
    assert!(has(&wide, "ml/p-399") && has(&wide, "n-49") && !wide.contains("... and"));
    assert!(wide.contains("400 of 401 pods placed, 1 pending. 400 of 400 cards in use"));
}

#[test]
fn an_empty_simulation_is_one_line() {
    insta::assert_snapshot!(text(&Cluster::new(), TextOptions::default()), @"0 of 0 pods placed. 0 of 0 cards in use.");
}

#[test]
fn without_pods_there_is_no_empty_line_at_the_start() {
    let cluster = Cluster::new().with(node("a-1", "x", 2, 80));
    insta::assert_snapshot!(text(&cluster, TextOptions::default()), @"
    1 node has no card in use (2 free cards)

    0 of 0 pods placed. 0 of 2 cards in use, 0 of 160 GiB allocated.
    ");
    let mut cluster = cluster.add(bound(pod("ml/a", whole(1)), "a-1"));
    cluster.pods.clear();
    assert!(text(&cluster, TextOptions::default()).starts_with("a-1  2 x x"));
}

#[test]
fn memory_is_shown_in_gib_and_as_a_part_of_the_card_too() {
    let cluster = Cluster::new()
        .with(node("t4-1", "Tesla-T4", 2, 15))
        .ask("ml/a", mib(2_000, 1))
        .ask("ml/b", mib(500, 2))
        .ask("ml/c", mib(10, 1))
        .ask("ml/d", fraction("0.25", 2));
    let text = text(&cluster, TextOptions::default());
    let table: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
    insta::assert_snapshot!(table.join("\n"), @"
    POD   NODE  CARD  ASKED                              STATUS
    ml/a  t4-1  0     2000 MiB (1.9 GiB, 0.13)           placed
    ml/b  t4-1  0,1   2 x 500 MiB (0.4 GiB, 0.032 each)  placed
    ml/c  t4-1  0     10 MiB (0.00065)                   placed
    ml/d  t4-1  0,1   2 x 0.25 (3.7 GiB each)            placed
    ");
}

#[test]
fn cards_that_the_device_plugin_withholds_are_not_only_called_free() {
    let withholding = |usable| {
        let gpus = Gpus::cards(3, usable, Some(Bytes::from_mib(80 * 1024)));
        NodeRecord { gpus, ..node("a-1", "x", 3, 80) }
    };
    let of = |usable| {
        let cluster = Cluster::new().with(withholding(usable)).ask("ml/w", whole(1));
        text(&cluster, TextOptions::default())
    };
    assert!(of(2).contains("  free    not all handed out by the device plugin\n"), "{}", of(2));
    assert!(of(1).contains("  free    not handed out by the device plugin\n"), "{}", of(1));
    assert!(!of(3).contains("handed out"), "{}", of(3));
}

#[test]
fn a_card_that_is_claimed_twice_says_that_it_takes_nobody_new() {
    insta::assert_snapshot!(text(&Cluster::overbooked(), TextOptions::default()), @"
    POD        NODE  CARD  ASKED                       STATUS
    ml/first   a-1   0     61440 MiB (60.0 GiB, 0.75)  placed
    ml/second  a-1   -     61440 MiB                   placed

    a-1  2 x x (80.0 GiB each)
      0  aaaaaaaaaaaaaaa·····   75 %   a first 60.0   free 20.0   overbooked by 40.0, second claims 60.0: takes nobody new
      1  ····················  free

    2 of 2 pods placed. 1 of 2 cards in use, 60 of 160 GiB allocated, 20.0 GiB stranded on shared cards.
    ");
    let nobody = Cluster::new().with(node("a-1", "x", 2, 80)).add(recorded(
        pod("ml/big", mib(98_304, 1)),
        "a-1",
        1,
        98_304,
    ));
    let text = text(&nobody, TextOptions::default());
    assert!(
        text.contains("····    0 %   overbooked by 16.0, big claims 96.0: takes nobody new"),
        "{text}"
    );
}

#[test]
fn a_card_that_nobody_holds_and_somebody_claims_is_not_called_free() {
    let text = text(&Cluster::claimed(), TextOptions::default());
    assert!(text.contains("····    0 %   two claims 40.0: takes nobody new"), "{text}");
}

#[test]
fn shares_of_less_than_a_cell_are_one_part_of_the_bar_in_proportion() {
    let mut cluster = Cluster::new().with(node("a-1", "x", 1, 80)).ask("ml/big", mib(40_960, 1));
    for i in 0..24 {
        cluster = cluster.ask(&format!("ml/s-{i}"), mib(800, 1));
    }
    let options = TextOptions { width: 90, ..TextOptions::default() };
    let map = text(&cluster, options);
    let map: Vec<&str> = map.lines().skip_while(|l| !l.starts_with("a-1")).take(8).collect();
    insta::assert_snapshot!(map.join("\n"), @"
    a-1  1 x x (80.0 GiB each)
      0  aaaaaaaaaa+++++·····   73 %   a big 40.0   + s-0 0.7   + s-1 0.7   + s-2 0.7
                                       + s-3 0.7   + s-4 0.7   + s-5 0.7   + s-6 0.7
                                       + s-7 0.7   + s-8 0.7   + s-9 0.7   + s-10 0.7
                                       + s-11 0.7   + s-12 0.7   + s-13 0.7   + s-14 0.7
                                       + s-15 0.7   + s-16 0.7   and 7 more 5.4   free 21.2

    25 of 25 pods placed. 1 of 1 card in use, 58 of 80 GiB allocated.
    ");
}

#[test]
fn the_line_of_a_shared_card_ends_with_its_class() {
    let text = text(&Cluster::classed(), TextOptions::default());
    let ends = |end: &str| text.lines().filter(|line| line.trim_end().ends_with(end)).count();
    assert_eq!((ends("   Shared"), ends("   Isolated/HAMi-core")), (1, 1), "{text}");
    assert_eq!(text.matches("Shared").count() + text.matches("Isolated").count(), 2, "{text}");
}
