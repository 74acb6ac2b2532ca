//! Time slices, and replicas of MPS.

use super::{of_recipe, own_and_aside, pod, time_slices, tries_are_refused};
use crate::check::devices as given;
use crate::cluster::{Cluster, Divvy, devices, half, whole};
use crate::program;
use crate::tenant::tenant;
use divvy_testbed::node::Options;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const GPU: &str = "nvidia.com/gpu";
const SHARED: &str = "nvidia.com/gpu.shared";

#[tokio::test(flavor = "multi_thread")]
async fn the_recipes_time_slices_are_given_to_the_last_one_and_none_twice() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let cards = Options::default().cards;
    let rehearsed = cluster.rehearse(&[
        of_recipe("ConfigMap", "time-slicing-config"),
        of_recipe("ClusterPolicy", "cluster-policy"),
    ]);
    cluster.reconfigure(cards.clone(), time_slices(4, true));
    cluster.is_as(&rehearsed).await;
    assert_eq!(cluster.allocatable(SHARED).await, "32");
    let divvy = cluster.start_divvy();
    // Step 3 of the recipe asks for what step 2 has renamed.
    for name in ["notebook-small", "inference-medium"] {
        cluster.create(&pod(name)).await;
        let told = "no nvidia.com/gpu: time slices are called nvidia.com/gpu.shared there";
        cluster.said("team", name, told).await;
    }
    cluster.create(&devices("default", "named", SHARED, 1)).await;
    assert_eq!(cluster.cards_of("default", "named").await.len(), 1);
    let named = cluster.start_each("slice", SHARED, 31).await;
    cluster.create(&devices("default", "late", SHARED, 1)).await;
    cluster.said("default", "late", "32 of 32 time slices of 8 cards are taken").await;
    cluster.check().await;
    let gone = named.into_iter().chain(["named", "late"].map(str::to_owned));
    cluster.delete_all(&gone.map(|name| ("default", name)).collect::<Vec<_>>()).await;

    cluster.reconfigure_under(&divvy, cards.clone(), time_slices(4, false)).await;
    for name in ["notebook-small", "inference-medium"] {
        cluster.until_running("team", name).await;
    }
    cluster.delete("team", "inference-medium").await;
    let names = cluster.start_each("slice", GPU, 31).await;
    for (namespace, name) in [("default", "late"), ("team", "later")] {
        cluster.create(&whole(namespace, name, 1)).await;
        cluster.said(namespace, name, "32 of 32 time slices of 8 cards are taken").await;
    }
    cluster.create(&half("default", "share")).await;
    cluster.said("default", "share", "its GPUs are time slices, which take no shares").await;
    cluster.check().await;
    let told = tally(&cluster).await;
    assert_eq!(told, cards.iter().map(|card| (card.uuid.clone(), 4)).collect());
    assert_eq!(shown(&cluster), told);
    cluster.delete("default", &names[0]).await;
    cluster.until_running("default", "late").await;
    cluster.check().await;

    // Half of them are gone while all are held: what runs runs on, and nothing is given until less is
    // held than there is.
    cluster.delete("team", "later").await;
    cluster.delete("default", "share").await;
    cluster.reconfigure_under(&divvy, cards.clone(), time_slices(2, false)).await;
    cluster.create(&whole("default", "patient", 1)).await;
    cluster.said("default", "patient", "32 of 16 time slices of 8 cards are held").await;
    let row = slices(&cluster);
    let [kind, total, taken] = ["kind", "total", "taken"].map(|key| row[key].clone());
    assert_eq!((kind, total, taken), (json!("time-slice"), json!(16), json!(32)));
    let top = cluster.run(&["top", "slices"]);
    assert!(top.contains(" 1/2card  32/16  -16 "), "{top}");
    let some = |names: &[String]| names.iter().map(|name| ("default", name.clone())).collect();
    let leaving: Vec<_> = some(&names[1..16]);
    cluster.delete_all(&leaving).await;
    cluster.said("default", "patient", "17 of 16 time slices of 8 cards are held").await;
    let patient = cluster.get("default", "patient").await;
    assert_eq!(patient["spec"]["nodeName"], json!(null));
    let leaving: Vec<_> = some(&names[16..18]);
    cluster.delete_all(&leaving).await;
    cluster.until_running("default", "patient").await;
    for pod in [cluster.pods("default").await, cluster.pods("team").await].concat() {
        assert_eq!(pod["status"]["phase"], "Running", "{pod:#}");
    }
    cluster.check().await;
    assert_eq!(shown(&cluster), tally(&cluster).await);
}

/// The only row of `divvy top slices`.
fn slices(cluster: &Cluster) -> Value {
    let mut top: Value =
        serde_json::from_str(&cluster.run(&["top", "slices", "-o", "json"])).unwrap();
    assert_eq!(top["items"].as_array().unwrap().len(), 1, "{top:#}");
    top["items"][0].take()
}

/// How many time slices of each card the kubelet has given.
async fn tally(cluster: &Cluster) -> BTreeMap<String, u64> {
    let mut tally = BTreeMap::new();
    for pod in [cluster.pods("default").await, cluster.pods("team").await].concat() {
        for device in given(&pod) {
            *tally.entry(device.split_once("::").unwrap().0.to_owned()).or_default() += 1;
        }
    }
    tally
}

/// How many `divvy top` says are taken.
fn shown(cluster: &Cluster) -> BTreeMap<String, u64> {
    let top: Value = serde_json::from_str(&cluster.run(&["top", "cards", "-o", "json"])).unwrap();
    let rows = top["items"].as_array().unwrap().iter();
    let taken =
        rows.map(|row| Some((row["uuid"].as_str()?.to_owned(), row["slices"]["taken"].as_u64()?)));
    taken.collect::<Option<_>>().unwrap_or_else(|| panic!("{top:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_two_slices_that_the_plugin_refuses_ends_with_its_words() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let mut config = time_slices(4, false);
    config["sharing"]["timeSlicing"]["failRequestsGreaterThanOne"] = json!(true);
    cluster.reconfigure_as_rehearsed(Options::default().cards, config).await;
    let _divvy = cluster.start_divvy();
    cluster.create(&pod("inference-medium")).await;
    cluster
        .until("it is refused", async || {
            cluster.get("team", "inference-medium").await["status"]["phase"] == "Failed"
        })
        .await;
    let status = cluster.get("team", "inference-medium").await["status"].take();
    assert_eq!(status["reason"], "UnexpectedAdmissionError");
    let said = "maximum request size for shared resources is 1; found 2";
    assert!(status["message"].as_str().unwrap().contains(said), "{status:#}");
    // One is given, and whoever else asks two is told: by the scheduler, and on a snapshot.
    cluster.create(&pod("notebook-small")).await;
    cluster.until_running("team", "notebook-small").await;
    let told = "a container gets one of its time slices, 2 asked";
    cluster.create(&whole("default", "two", 2)).await;
    cluster.said("default", "two", told).await;
    let snapshot = cluster.folder().join("refused.json");
    cluster.run(&["snapshot", "--output-file", snapshot.to_str().unwrap()]);
    let mut explain = program::divvy();
    explain.args(["explain", "pod", "default/two", "--cluster"]).arg(&snapshot);
    let explained = String::from_utf8(explain.output().unwrap().stdout).unwrap();
    assert!(explained.contains(told), "{explained}");
    let kept = std::fs::read_to_string(&snapshot).unwrap();
    assert!(!kept.contains("Allocate failed"), "only the words that decide are kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_the_plugins_config_map_refuses_is_not_sent_there() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let config = |fails: bool| {
        let mut config = time_slices(4, false);
        config["sharing"]["timeSlicing"]["failRequestsGreaterThanOne"] = json!(fails);
        config
    };
    cluster.reconfigure(Options::default().cards, config(false));
    let map = |fails| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "team", "name": "plugin"},
            "data": {"any": config(fails).to_string()}})
    };
    // As the chart makes them where the ConfigMap is named.
    let (role, subject) = ("plugin-config", "--serviceaccount=divvy-system:divvy-scheduler");
    let read = ["--verb=get", "--resource=configmaps", "--resource-name=plugin"];
    cluster.kubectl(&[&["-n", "team", "create", "role", role][..], &read].concat(), "");
    let bind = ["-n", "team", "create", "rolebinding", role, "--role=plugin-config", subject];
    cluster.kubectl(&bind, "");
    cluster.kubectl(&["apply", "-f", "-"], &map(true).to_string());
    let plugin_config = Some("team/plugin");
    let _divvy = cluster.start_divvy_with(&Divvy { plugin_config, ..Divvy::USUAL });
    cluster.create(&whole("default", "two", 2)).await;
    cluster.said("default", "two", "a container gets one of its time slices, 2 asked").await;
    cluster.kubectl(&["apply", "-f", "-"], &map(false).to_string());
    cluster.until_running("default", "two").await;
    let made = ["configmap/plugin", "role/plugin-config", "rolebinding/plugin-config"];
    cluster.kubectl(&[&["-n", "team", "delete"][..], &made].concat(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_has_a_time_slice_reaches_no_other_card() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    cluster.reconfigure(Options::default().cards, time_slices(4, true));
    let _divvy = cluster.start_divvy();
    cluster.create(&devices("default", "neighbour", SHARED, 1)).await;
    let neighbour = given(&cluster.until_running("default", "neighbour").await).remove(0);
    let (card, _) = neighbour.split_once("::").unwrap();
    let own = devices("team", "own", SHARED, 1);
    let api = tenant(&cluster).await;
    tries_are_refused(&api, &own, &["all", card, &neighbour, "0"]).await;
    let (own, aside) = own_and_aside(&cluster, &api, own).await;
    assert_eq!((own.cards.len(), aside.cards.len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_gets_one_replica_of_mps_and_who_asks_two_is_told_before() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let replicas = json!({"resources": [{"name": GPU, "replicas": 4}]});
    let config = json!({"version": "v1", "sharing": {"mps": replicas}});
    cluster.reconfigure_as_rehearsed(Options::default().cards, config).await;
    assert_eq!(cluster.allocatable(GPU).await, "32");
    let quarter = slices(&cluster);
    assert_eq!(quarter["threadsPercentEach"], 25);
    assert_eq!(quarter["bytesEach"], 10u64 << 30);
    let _divvy = cluster.start_divvy();
    cluster.create(&whole("default", "one", 1)).await;
    assert_eq!(cluster.cards_of("default", "one").await.len(), 1);
    let told = cluster.environment("default", "one");
    assert_eq!(told["CUDA_MPS_PIPE_DIRECTORY"], "/mps/nvidia.com/gpu/pipe");
    cluster.create(&whole("default", "two", 2)).await;
    cluster.said("default", "two", "a container gets one of its MPS replicas, 2 asked").await;
    cluster.create(&half("default", "share")).await;
    cluster.said("default", "share", "its GPUs are MPS replicas, which take no shares").await;
    cluster.check().await;
}
