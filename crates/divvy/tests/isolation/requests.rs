//! Koordinator's requests on a node with NVIDIA's device plugin and nothing of Koordinator.

use super::cluster::{CHECKER, Cluster};
use super::divvy::{CARD, LEVEL, PROVIDER, plain, share};
use serde_json::{Value, json};

/// `levels` says whether divvy tells them apart.
pub async fn of_koordinator_run(cluster: &Cluster, levels: bool) {
    // The kubelet says sooner which card a reservation has than that says its number: here the cards
    // are known before.
    cluster.api.create(&share("known", "0.1", None)).await.unwrap();
    cluster.running("default", "known").await;
    cluster
        .until("the number of each reserved card is known", async || {
            let path = "/api/v1/namespaces/kai-resource-reservation/pods";
            let pods = cluster.api.get(path).await.unwrap();
            let number =
                |pod: &Value| pod["metadata"]["annotations"]["divvy.dev/card-number"].clone();
            let numbers: Vec<Value> =
                pods["items"].as_array().unwrap().iter().map(number).collect();
            let are_known = numbers.iter().all(Value::is_string);
            if are_known { Ok(()) } else { Err(format!("{numbers:?}")) }
        })
        .await;
    for (nth, (limits, cards, bytes)) in [
        (json!({"koordinator.sh/gpu": "25"}), 1, CARD / 4),
        (
            json!({"koordinator.sh/gpu.shared": "2", "koordinator.sh/gpu-core": "100",
                "koordinator.sh/gpu-memory-ratio": "100"}),
            2,
            CARD / 2,
        ),
        (json!({"koordinator.sh/gpu-core": "30", "koordinator.sh/gpu-memory": "8Gi"}), 1, 8 << 30),
        (json!({"koordinator.sh/gpu-memory-ratio": "10"}), 1, CARD / 10),
        (json!({"koordinator.sh/gpu": "200"}), 2, 0),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("asks-{nth}");
        let mut pod = plain(&name);
        pod["spec"]["schedulerName"] = json!("koord-scheduler");
        pod["spec"]["containers"][0]["resources"] = json!({"limits": limits});
        if bytes == 0 {
            // As the device plugin's own pods do: it is no share.
            pod["spec"]["runtimeClassName"] = json!("nvidia");
        }
        cluster.api.create(&pod).await.unwrap_or_else(|why| panic!("{limits}: {why}"));
        let pod = cluster.running("default", &name).await;
        let found = cluster.cards_of(&pod);
        assert_eq!(found.len(), cards, "{limits}");
        let annotations = &pod["metadata"]["annotations"];
        if bytes == 0 {
            assert!(annotations["divvy.dev/cards"].is_null(), "{annotations}");
        } else {
            assert_eq!(annotations["divvy.dev/class"].is_string(), levels, "{annotations}");
            cluster.sees_its_part(&pod);
            let record = annotations["divvy.dev/cards"].as_str().unwrap();
            assert!(record.split(',').all(|part| part.ends_with(&format!(":{bytes}"))), "{record}");
            if cards == 1 {
                told_in_its_words(&pod, &found, bytes);
            }
        }
        cluster.delete("default", &name).await;
    }
    cluster.delete("default", "known").await;
    if levels {
        an_isolated_one_has_its_part_of_each_of_two_cards(cluster).await;
    }
}

async fn an_isolated_one_has_its_part_of_each_of_two_cards(cluster: &Cluster) {
    let mut pod = plain("two");
    pod["metadata"]["labels"] = json!({LEVEL: "Isolated", PROVIDER: "HAMi-core"});
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {
        "koordinator.sh/gpu.shared": "2", "koordinator.sh/gpu-core": "60",
        "koordinator.sh/gpu-memory-ratio": "50",
    }});
    cluster.api.create(&pod).await.unwrap();
    let pod = cluster.running("default", "two").await;
    assert_eq!(cluster.cards_of(&pod).len(), 2);
    cluster.sees_its_part(&pod);
    let said = cluster.inside(&pod, CHECKER);
    assert!(said.contains(&format!("limits 2 cards to {} bytes each", CARD / 4)), "{said}");
    let inside = cluster.inside(&pod, "env");
    assert!(inside.contains("CUDA_DEVICE_SM_LIMIT=30\n"), "{inside}");
    cluster.delete("default", "two").await;
}

/// The annotation that Koordinator would have written: the number is that of `/dev/nvidia<number>`.
fn told_in_its_words(pod: &Value, cards: &[String], bytes: u64) {
    let told =
        pod["metadata"]["annotations"]["scheduling.koordinator.sh/device-allocated"].as_str();
    let told: Value = serde_json::from_str(told.unwrap()).unwrap();
    let told = told["gpu"].as_array().unwrap();
    assert_eq!(told.len(), cards.len(), "{told:?}");
    for card in told {
        let minor = u32::try_from(card["minor"].as_u64().unwrap()).unwrap();
        let uuid = divvy_testbed::node::Card::a100(minor).uuid;
        assert_eq!(card["id"], uuid);
        assert!(cards.contains(&uuid));
        assert_eq!(card["resources"]["koordinator.sh/gpu-memory"], bytes.to_string());
    }
}
