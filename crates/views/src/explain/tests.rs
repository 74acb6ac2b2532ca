use super::*;
use crate::options::TextOptions;
use crate::testing::{Cluster, bound, cpu_node, fraction, mib, node, pod, tainted, whole};
use divvy_engine::{NodeFacts, NodeRecord, PodRecord, PodSpec, Rules};
use divvy_ledger::{Gpus, MilliCpu};

fn key(text: &str) -> ObjectKey {
    let (namespace, name) = text.split_once('/').unwrap();
    ObjectKey::new(namespace, name)
}

fn text(cluster: &Cluster, pod: &str, already_bound: bool) -> String {
    let explanation = explain(&cluster.scheduler, &key(pod), already_bound).unwrap();
    explanation_text(&explanation, TextOptions { width: 100, ..TextOptions::default() })
}

/// The advice for one pod on one node.
fn next(node: NodeRecord, request: Request) -> String {
    let cluster = Cluster::new().with(node).ask("ml/x", request);
    explain(&cluster.scheduler, &key("ml/x"), false).unwrap().next.unwrap()
}

#[test]
fn a_share_larger_than_any_card_is_answered_with_the_two_ways_out() {
    insta::assert_snapshot!(text(&Cluster::example(), "ml/llm-xl", false), @r#"
    ml/llm-xl is pending: 0/4 nodes are available: 2 largest card 80.0 GiB < 96.0 GiB asked, 1 largest card 15.0 GiB < 96.0 GiB asked, 1 no GPU.
      2 nodes  largest card 80.0 GiB < 96.0 GiB asked   a100-1 a100-2
      1 node   largest card 15.0 GiB < 96.0 GiB asked   t4-1
      1 node   no GPU                                   cpu-1
    Next: ask at most 81920 MiB, or set gpu-fraction-num-devices: "2" with gpu-memory: "49152"
    "#);
}

#[test]
fn a_share_that_does_not_fit_now_names_the_nearest_card_and_who_holds_it() {
    let cluster = Cluster::new()
        .with(node("a100-1", "NVIDIA-A100-SXM4-80GB", 1, 80))
        .with(tainted(node("a100-2", "NVIDIA-A100-SXM4-80GB", 8, 80), "gpu", "maintenance"))
        .with(cpu_node("cpu-1"))
        .ask("ml/notebook-a", fraction("0.25", 1))
        .ask("ml/notebook-b", fraction("0.5", 1))
        .ask("ml/triton-9", mib(30_720, 1));
    insta::assert_snapshot!(text(&cluster, "ml/triton-9", false), @"
    ml/triton-9 is pending: 0/3 nodes are available: 1 largest free share 20.0 GiB < 30.0 GiB asked, 1 taint gpu=maintenance:NoSchedule not tolerated, 1 no GPU.
      1 node  largest free share 20.0 GiB < 30.0 GiB asked     a100-1
      1 node  taint gpu=maintenance:NoSchedule not tolerated   a100-2
      1 node  no GPU                                           cpu-1
    Nearest: a100-1 card 0 lacks 10.0 GiB. It is free when ml/notebook-a (20.0 GiB) ends.
      0  aaaaabbbbbbbbbb·····   75 %   a notebook-a 20.0   b notebook-b 40.0   free 20.0
    Next: ask at most 20480 MiB to start now, or wait
    ");
}

#[test]
fn a_placed_pod_is_shown_on_its_card_with_its_neighbours() {
    let cluster = Cluster::example();
    insta::assert_snapshot!(text(&cluster, "ml/notebook-a", false), @"
    ml/notebook-a would go to a100-1 card 4 (0.25, 20.0 GiB)
      4  aaaaabbbbbccccccccc·   99 %   a notebook-a 20.0   b notebook-b 20.0   c triton-0 39.0
                                       free 0.9
    ");
    insta::assert_snapshot!(text(&cluster, "ml/train-7", true), @"
    ml/train-7 runs on a100-1 cards 0-3 (4 GPUs)
      0-3  ████████████████████  whole   train-7
    ");
    insta::assert_snapshot!(text(&cluster, "ml/web", true), @"ml/web runs on cpu-1 (no GPU)");
}

#[test]
fn whole_gpus_that_are_all_taken_name_the_pods_to_wait_for() {
    let cluster = Cluster::new()
        .with(node("a-1", "x", 2, 80))
        .ask("ml/a", whole(1))
        .ask("ml/b", whole(1))
        .ask("ml/c", whole(2));
    insta::assert_snapshot!(text(&cluster, "ml/c", false), @"
    ml/c is pending: 0/1 nodes are available: 1 free cards 0 < 2 asked.
      1 node  free cards 0 < 2 asked   a-1
    Nearest: a-1 lacks 2 cards. They are free when ml/a (80.0 GiB) and ml/b (80.0 GiB) end.
    Next: wait for a pod to end, or add a node
    ");
}

#[test]
fn what_is_no_card_names_the_pods_to_wait_for_too() {
    let record = NodeRecord { cpu: MilliCpu(2_000), ..node("a-1", "x", 2, 80) };
    let cluster = Cluster::new().with(record).ask("ml/a", whole(1)).ask("ml/b", whole(1));
    let text = text(&cluster, "ml/b", false);
    assert!(text.contains("a-1 lacks 1 CPU. It is free when ml/a (1.5 CPU) ends."), "{text}");
}

#[test]
fn a_share_on_cards_held_whole_names_the_whole_holder() {
    let cluster =
        Cluster::new().with(node("a-1", "x", 1, 80)).ask("ml/a", whole(1)).ask("ml/c", mib(10, 1));
    insta::assert_snapshot!(text(&cluster, "ml/c", false), @"
    ml/c is pending: 0/1 nodes are available: 1 largest free share 0.0 GiB < 10 MiB asked.
      1 node  largest free share 0.0 GiB < 10 MiB asked   a-1
    Nearest: a-1 card 0 lacks 10 MiB. It is free when ml/a (80.0 GiB) ends.
      0  ████████████████████  whole   a
    Next: wait for a pod to end, or add a node
    ");
}

#[test]
fn unknown_card_memory_is_explained_in_parts_of_a_card() {
    let record = NodeRecord { gpus: Gpus::cards(1, 1, None), ..node("t4-1", "Tesla-T4", 1, 15) };
    let cluster = Cluster::new()
        .with(record)
        .ask("ml/a", fraction("0.75", 1))
        .ask("ml/b", fraction("0.5", 1));
    insta::assert_snapshot!(text(&cluster, "ml/b", false), @"
    ml/b is pending: 0/1 nodes are available: 1 largest free share 0.25 < 0.5 asked.
      1 node  largest free share 0.25 < 0.5 asked   t4-1
    Nearest: t4-1 card 0 lacks 0.25. It is free when ml/a (0.75) ends.
      0  aaaaaaaaaaaaaaa·····   75 %   a a 0.75   free 0.25
    Next: ask at most 0.25 to start now, or wait
    ");
}

#[test]
fn many_node_names_are_cut_at_the_width_and_counted() {
    let mut cluster = Cluster::new();
    for i in 0..50 {
        cluster = cluster.with(node(&format!("node-{i:02}"), "x", 1, 80));
    }
    let cluster = cluster.ask("ml/c", whole(2));
    let short = text(&cluster, "ml/c", false);
    assert!(short.lines().all(|line| line.chars().count() <= 100), "{short}");
    insta::assert_snapshot!(short, @"
    ml/c is pending: 0/50 nodes are available: 50 at most 1 card < 2 asked.
      50 nodes  at most 1 card < 2 asked   node-00 node-01 node-02 node-03 node-04 node-05 +44 more
    Next: ask at most nvidia.com/gpu: 1 in one pod
    ");
    let explanation = explain(&cluster.scheduler, &key("ml/c"), false).unwrap();
    let wide = TextOptions { wide: true, width: 100, ..TextOptions::default() };
    assert!(explanation_text(&explanation, wide).contains("node-49"));
    let piped = explanation_text(&explanation, TextOptions::default());
    assert!(!piped.contains("node-49") && piped.contains(" more"), "{piped}");
}

#[test]
fn wide_adds_the_names_of_reasons_and_all_cards_of_the_node() {
    let wide = |cluster: &Cluster, pod| {
        let explanation = explain(&cluster.scheduler, &key(pod), false).unwrap();
        explanation_text(&explanation, TextOptions { wide: true, ..TextOptions::default() })
    };
    insta::assert_snapshot!(wide(&Cluster::example(), "ml/llm-xl"), @r#"
    ml/llm-xl is pending: 0/4 nodes are available: 2 largest card 80.0 GiB < 96.0 GiB asked, 1 largest card 15.0 GiB < 96.0 GiB asked, 1 no GPU.
      2 nodes  CardTooSmall  largest card 80.0 GiB < 96.0 GiB asked   a100-1 a100-2
      1 node   CardTooSmall  largest card 15.0 GiB < 96.0 GiB asked   t4-1
      1 node   NoGpu         no GPU                                   cpu-1
    Next: ask at most 81920 MiB, or set gpu-fraction-num-devices: "2" with gpu-memory: "49152"
    "#);
    insta::assert_snapshot!(wide(&Cluster::example(), "ml/triton-0"), @"
    ml/triton-0 would go to a100-1 card 4 (40000 MiB, 39.0 GiB, 0.48)
    a100-1  8 x A100-80GB (80.0 GiB each)
      0-3  ████████████████████  whole   train-7
      4    aaaaabbbbbccccccccc·   99 %   a notebook-a 20.0   b notebook-b 20.0   c triton-0 39.0   free 0.9
      5-7  ····················  free
    ");
}

#[test]
fn a_holder_is_named_only_if_its_end_is_enough() {
    let small = NodeRecord { cpu: MilliCpu(4_000), ..node("a-1", "x", 1, 80) };
    let mut asked = pod("ml/b", whole(1));
    asked.spec.cpu = MilliCpu(3_500);
    let cluster =
        Cluster::new().with(small).ask("ml/a", whole(1)).ask("ml/web", Request::none()).add(asked);
    insta::assert_snapshot!(text(&cluster, "ml/b", false), @"
    ml/b is pending: 0/1 nodes are available: 1 free cards 0 < 1 asked.
      1 node  free cards 0 < 1 asked   a-1
    Nearest: a-1 lacks 1 card.
    Next: wait for a pod to end, or add a node
    ");
}

#[test]
fn missing_memory_is_rounded_up_and_exact_in_bytes() {
    let record = NodeRecord { memory: Bytes(6 << 30), ..cpu_node("c-1") };
    let mut late = pod("ml/c", Request::none());
    late.spec.memory = Bytes((4 << 30) + 1);
    let cluster = Cluster::new().with(record).ask("ml/a", Request::none()).add(late);
    let explanation = explain(&cluster.scheduler, &key("ml/c"), false).unwrap();
    let nearest = explanation.nearest.unwrap();
    assert_eq!((&*nearest.missing, nearest.missing_bytes), ("2.1 GiB memory", Some((2 << 30) + 1)));
}

#[test]
fn each_reason_has_its_own_next_step() {
    let plain = || node("a-1", "x", 4, 80);
    let cards =
        |count, usable, memory| NodeRecord { gpus: Gpus::cards(count, usable, memory), ..plain() };
    insta::assert_snapshot!(next(cpu_node("c"), whole(1)), @"add a node with GPUs, or check that its device plugin runs: a node with GPUs has nvidia.com/gpu in status.allocatable");
    insta::assert_snapshot!(next(cards(4, 4, None), mib(100, 1)), @"kubectl label node a-1 nvidia.com/gpu.memory=<MiB of one card>");
    insta::assert_snapshot!(next(cards(4, 0, Some(Bytes::from_mib(1024))), whole(1)), @"check the device plugin on a-1: kubectl get pods -A --field-selector spec.nodeName=a-1");
    insta::assert_snapshot!(next(plain(), whole(5)), @"ask at most nvidia.com/gpu: 4 in one pod");
    insta::assert_snapshot!(next(plain(), fraction("0.5", 5)), @r#"set gpu-fraction-num-devices: "4" or less"#);
    insta::assert_snapshot!(next(plain(), mib(1_000_000, 1)), @"ask at most 81920 MiB");
    insta::assert_snapshot!(next(tainted(plain(), "gpu", ""), whole(1)), @r#"if it may run there, add to spec.tolerations: {key: "gpu", operator: Exists, effect: NoSchedule}"#);
    insta::assert_snapshot!(next(tainted(plain(), "gpu", "x"), whole(1)), @r#"if it may run there, add to spec.tolerations: {key: "gpu", operator: Equal, value: "x", effect: NoSchedule}"#);
    let facts = NodeFacts { unschedulable: true, ..NodeFacts::default() };
    insta::assert_snapshot!(next(NodeRecord { facts, ..plain() }, whole(1)), @"kubectl uncordon a-1");
    let elsewhere = |rules: Rules| {
        let record = pod("ml/x", whole(1));
        let spec = PodSpec { rules: rules.into(), ..record.spec.clone() };
        let cluster = Cluster::new().with(plain()).add(PodRecord { spec, ..record });
        explain(&cluster.scheduler, &key("ml/x"), false).unwrap().next.unwrap()
    };
    let selector = vec![("disk".into(), "ssd".into())];
    insta::assert_snapshot!(elsewhere(Rules { selector, ..Rules::default() }), @"compare spec.nodeSelector with kubectl get nodes -L disk");
    let node_name = Some("b-9".into());
    insta::assert_snapshot!(elsewhere(Rules { node_name, ..Rules::default() }), @"kubectl get node b-9, and correct spec.nodeName");
    insta::assert_snapshot!(elsewhere(Rules { required: Some(Vec::new()), ..Rules::default() }), @"compare spec.affinity.nodeAffinity with kubectl get nodes --show-labels");
    let record = pod("ml/x", Request::none());
    let spec = PodSpec { extended: vec![("amd.com/gpu".to_owned(), 1)], ..record.spec.clone() };
    let amd = Cluster::new().with(plain()).add(PodRecord { spec, ..record });
    let amd = explain(&amd.scheduler, &key("ml/x"), false).unwrap();
    insta::assert_snapshot!(amd.next.unwrap(), @"add a node that offers amd.com/gpu, or check its device plugin");
    let replicas = NodeRecord { gpus: Gpus::replicas(4), ..plain() };
    insta::assert_snapshot!(next(replicas, fraction("0.5", 1)), @"ask nvidia.com/gpu: 1 for a replica, or add a node whose cards are not divided");
    let busy = NodeRecord { cpu: MilliCpu(500), ..plain() };
    insta::assert_snapshot!(next(busy, whole(1)), @"ask at most 0.5 CPU to start now");
}

#[test]
fn a_pod_that_is_gated_invalid_astray_or_unknown_is_answered_without_nodes() {
    let gated = pod("ml/gated", whole(1));
    let spec = PodSpec { gates: vec!["quota".to_owned()], ..gated.spec.clone() };
    let cluster = Cluster::new()
        .with(cpu_node("cpu-1"))
        .add(PodRecord { spec, ..gated })
        .add(PodRecord { invalid: Some("wrong".to_owned()), ..pod("ml/wrong", whole(1)) })
        .add(bound(pod("ml/lost", whole(1)), "gone"));
    insta::assert_snapshot!(text(&cluster, "ml/gated", false), @"
    ml/gated is pending: scheduling gate quota is closed
    Next: it is tried once quota is gone from spec.schedulingGates; the controller that set it removes it
    ");
    insta::assert_snapshot!(text(&cluster, "ml/wrong", false), @"ml/wrong is pending: wrong");
    insta::assert_snapshot!(text(&cluster, "ml/lost", true), @"
    ml/lost is bound to a node that is not in the cluster, so it holds nothing
    Next: kubectl get pod lost -n ml -o wide names its node; add that node to the input, or delete the pod if the node is gone
    ");
    assert!(explain(&cluster.scheduler, &key("ml/nobody"), false).is_none());
    let empty = Cluster::new().ask("ml/x", whole(1));
    insta::assert_snapshot!(text(&empty, "ml/x", false), @"
    ml/x is pending: the cluster has no nodes
    Next: add the cluster to the input: kubectl get nodes,pods -A -o yaml
    ");
}

#[test]
fn the_json_names_every_node() {
    let cluster = Cluster::new()
        .with(node("a-1", "x", 1, 80))
        .ask("ml/a", fraction("0.75", 1))
        .ask("ml/b", fraction("0.5", 1));
    let explanation = explain(&cluster.scheduler, &key("ml/b"), false).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&explanation).unwrap(), @r#"
    {
      "apiVersion": "divvy.dev/v1alpha1",
      "kind": "Explanation",
      "displaced": [],
      "partitions": [],
      "namespace": "ml",
      "name": "b",
      "state": "pending",
      "node": null,
      "cards": [],
      "reason": "largest free share 0.25 < 0.5 asked",
      "message": "0/1 nodes are available: 1 largest free share 0.25 < 0.5 asked.",
      "reasons": [
        {
          "reason": "InsufficientFreeShare",
          "nodes": 1,
          "nodeNames": [
            "a-1"
          ],
          "message": "largest free share 0.25 < 0.5 asked"
        }
      ],
      "nearest": {
        "node": "a-1",
        "card": 0,
        "missing": "20.0 GiB",
        "missingBytes": 21474836480,
        "holders": [
          {
            "pod": "ml/a",
            "bytes": 64424509440
          }
        ]
      },
      "placedFirst": [],
      "terminating": false,
      "note": null,
      "next": "ask at most 0.25 to start now, or wait",
      "scheduler": null
    }
    "#);
}

#[test]
fn a_pod_of_another_scheduler_is_said_to_be_so() {
    let next = "set spec.schedulerName: divvy-scheduler".to_owned();
    let waiting = Explanation::of_another(&key("ml/x"), "default-scheduler", next);
    insta::assert_snapshot!(explanation_text(&waiting, TextOptions::default()), @"
    ml/x is scheduled by default-scheduler, not by divvy
    Next: set spec.schedulerName: divvy-scheduler
    ");
    let cluster = Cluster::new().with(cpu_node("cpu-1")).ask("ml/x", Request::none());
    let mut bound = explain(&cluster.scheduler, &key("ml/x"), true).unwrap();
    bound.scheduler = Some("default-scheduler".to_owned());
    insta::assert_snapshot!(explanation_text(&bound, TextOptions::default()), @"
    ml/x runs on cpu-1 (no GPU), placed by default-scheduler
    ");
}
