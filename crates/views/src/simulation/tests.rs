use super::*;
use crate::testing::{Cluster, bound, fraction, mib, node, pod, whole};
use divvy_engine::NodeRecord;
use divvy_ledger::Gpus;

fn json(cluster: &Cluster) -> serde_json::Value {
    serde_json::to_value(simulation(&cluster.scheduler, &cluster.pods)).unwrap()
}

#[test]
fn the_json_has_exactly_the_keys_of_the_contract_in_order() {
    let cluster = Cluster::new()
        .with(node("a-1", "NVIDIA-A100-SXM4-80GB", 2, 80))
        .ask("ml/train", whole(1))
        .ask("ml/half", fraction("0.5", 1))
        .ask("ml/big", mib(98_304, 1));
    let sim = simulation(&cluster.scheduler, &cluster.pods);
    insta::assert_snapshot!(serde_json::to_string_pretty(&sim).unwrap(), @r#"
    {
      "apiVersion": "divvy.dev/v1alpha1",
      "kind": "Simulation",
      "displaced": [],
      "partitions": [],
      "pods": [
        {
          "namespace": "ml",
          "name": "train",
          "node": "a-1",
          "cards": [
            {
              "index": 0,
              "number": 0,
              "bytes": 85899345920,
              "computePercent": null
            }
          ],
          "gpus": 1,
          "reason": null,
          "reasons": []
        },
        {
          "namespace": "ml",
          "name": "half",
          "node": "a-1",
          "cards": [
            {
              "index": 1,
              "number": 1,
              "bytes": 42949672960,
              "computePercent": null
            }
          ],
          "gpus": 0,
          "reason": null,
          "reasons": []
        },
        {
          "namespace": "ml",
          "name": "big",
          "node": null,
          "cards": [],
          "gpus": 0,
          "reason": "largest card 80.0 GiB < 96.0 GiB asked",
          "reasons": [
            {
              "reason": "CardTooSmall",
              "nodes": 1,
              "message": "largest card 80.0 GiB < 96.0 GiB asked"
            }
          ]
        }
      ],
      "more": null,
      "nodes": [
        {
          "name": "a-1",
          "model": "NVIDIA-A100-SXM4-80GB",
          "cards": [
            {
              "index": 0,
              "number": 0,
              "uuid": null,
              "state": "whole",
              "closed": [],
              "capacityBytes": 85899345920,
              "usedBytes": 85899345920,
              "shares": [
                {
                  "pod": "ml/train",
                  "bytes": 85899345920,
                  "computePercent": null
                }
              ]
            },
            {
              "index": 1,
              "number": 1,
              "uuid": null,
              "state": "shared",
              "closed": [],
              "capacityBytes": 85899345920,
              "usedBytes": 42949672960,
              "shares": [
                {
                  "pod": "ml/half",
                  "bytes": 42949672960,
                  "computePercent": null
                }
              ]
            }
          ],
          "slices": []
        }
      ],
      "summary": {
        "placed": 2,
        "pending": 1,
        "cards": 2,
        "cardsInUse": 2,
        "slices": 0,
        "slicesTaken": 0,
        "allocatedRatio": 0.75,
        "fragmentationRatio": 0.0
      }
    }
    "#);
}

#[test]
fn unknown_card_memory_is_null_and_counts_in_no_ratio() {
    let unknown = NodeRecord { gpus: Gpus::cards(2, 2, None), ..node("t4-1", "Tesla-T4", 2, 15) };
    let cluster = Cluster::new().with(unknown).ask("ml/half", fraction("0.5", 1));
    let json = json(&cluster);
    insta::assert_snapshot!(json["pods"][0]["cards"], @r#"[{"bytes":null,"computePercent":null,"index":0,"number":0}]"#);
    insta::assert_snapshot!(json["nodes"], @r#"[{"cards":[{"capacityBytes":null,"closed":[],"index":0,"number":0,"shares":[{"bytes":null,"computePercent":null,"pod":"ml/half"}],"state":"shared","usedBytes":null,"uuid":null},{"capacityBytes":null,"closed":[],"index":1,"number":1,"shares":[],"state":"free","usedBytes":null,"uuid":null}],"model":"Tesla-T4","name":"t4-1","slices":[]}]"#);
    insta::assert_snapshot!(json["summary"], @r#"{"allocatedRatio":null,"cards":2,"cardsInUse":1,"fragmentationRatio":0.0,"pending":0,"placed":1,"slices":0,"slicesTaken":0}"#);
}

#[test]
fn free_memory_is_stranded_only_if_no_known_share_fits_it() {
    let base = || Cluster::new().with(node("a-1", "x", 1, 80)).ask("ml/a", mib(61_440, 1));
    let small = base().ask("ml/b", whole(1)).ask("ml/c", fraction("0.25", 1));
    assert_eq!(json(&small)["summary"]["fragmentationRatio"], 0.0, "c has filled it");
    let pending = base().ask("ml/b", fraction("0.5", 1));
    assert_eq!(json(&pending)["summary"]["fragmentationRatio"], 0.25);
    let fits = base().ask("ml/gpu", whole(1));
    let with_small = fits.ask("ml/s", mib(1_024, 1));
    assert_eq!(json(&with_small)["summary"]["fragmentationRatio"], 0.0);
}

#[test]
fn running_pods_outside_the_workload_hold_cards_but_are_not_listed() {
    let mut cluster = Cluster::new()
        .with(node("a-1", "x", 1, 80))
        .add(bound(pod("ml/old", fraction("0.5", 1)), "a-1"));
    cluster.pods.clear();
    let json = json(&cluster);
    assert_eq!(json["pods"], serde_json::json!([]));
    assert_eq!(json["nodes"][0]["cards"][0]["shares"][0]["pod"], "ml/old");
    assert_eq!(json["summary"]["fragmentationRatio"], 0.0, "another like it would still fit");
}

#[test]
fn a_workload_without_shares_strands_nothing_that_running_pods_could_use() {
    let mut cluster = Cluster::new()
        .with(node("a-1", "x", 2, 80))
        .add(bound(pod("ml/old", fraction("0.75", 1)), "a-1"))
        .add(bound(pod("ml/small", fraction("0.1", 1)), "a-1"));
    cluster.pods.clear();
    let cluster = cluster.ask("ml/train", whole(1));
    assert_eq!(json(&cluster)["summary"]["fragmentationRatio"], 0.0);
}

#[test]
fn a_pod_on_an_unknown_node_and_one_that_is_unknown_are_pending_with_a_reason() {
    let mut cluster = Cluster::new()
        .with(node("a-1", "x", 1, 80))
        .add(bound(pod("ml/lost", fraction("0.5", 1)), "gone"));
    cluster.pods.push(ObjectKey::new("ml", "never-seen"));
    let json = json(&cluster);
    assert_eq!(json["pods"][0]["reasons"][0]["reason"], "UnknownNode");
    assert_eq!(json["pods"][1]["reasons"][0]["reason"], "UnknownPod");
    assert_eq!(json["summary"]["pending"], 2);
}

#[test]
fn a_card_that_the_node_no_longer_has_is_listed_only_while_it_is_held() {
    let cluster = Cluster::new()
        .with(node("a-1", "x", 4, 80))
        .ask("ml/a", whole(2))
        .with(node("a-1", "x", 1, 80));
    let json = json(&cluster);
    let cards = json["nodes"][0]["cards"].as_array().unwrap();
    let states: Vec<_> = cards.iter().map(|c| (&c["index"], &c["state"])).collect();
    assert_eq!(states.len(), 2, "{states:?}");
}

#[test]
fn pods_that_ask_for_the_same_share_one_diagnosis() {
    let mut cluster = Cluster::new().with(node("a-1", "x", 1, 80));
    for i in 0..3 {
        cluster = cluster.ask(&format!("ml/big-{i}"), mib(98_304, 1));
    }
    let sim = simulation(&cluster.scheduler, &cluster.pods);
    assert!(Arc::ptr_eq(&sim.pods[0].reasons, &sim.pods[2].reasons));
}
