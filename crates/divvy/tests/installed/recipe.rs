//! Steps 6 and 7 of the recipe, word for word: how pods are packed and spread is read live.

use crate::cluster::{Cluster, NODES};
use crate::pages;
use divvy_testbed::manifests::{pod, with_gpus};
use serde_json::{Value, json};

const PACKING: &str = include_str!("step-6.yaml");
const SPREADING: &str = include_str!("step-7.yaml");
/// What makes the recipe's Deployment spread.
const ANNOTATION: &str = "    scheduling.run.ai/scheduling-strategy: spread\n";

impl Cluster {
    /// On how many nodes three pods of one GPU come.
    async fn spread_of(&self, name: &str) -> usize {
        for i in 0..3 {
            let mut pod =
                with_gpus(pod("ml-inference", &format!("{name}-{i}"), "kai-scheduler"), 1);
            pod["metadata"]["labels"]["app"] = json!(name);
            self.api.create(&pod).await.unwrap();
        }
        let nodes = self.nodes_of("ml-inference", &format!("app={name}"), 3).await.len();
        self.delete_pods("ml-inference", &format!("app={name}")).await;
        nodes
    }

    /// How often the settings were read anew, rightly or not.
    async fn reloads(&self, result: &str) -> u64 {
        let page = pages::page(&self.scheduler, "/metrics").await.unwrap();
        let series = format!("divvy_config_reloads_total{{result=\"{result}\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).unwrap()
    }

    /// Applies a ConfigMap, and waits until the scheduler has read it.
    async fn configure(&self, text: &str, result: &str) {
        let before = self.reloads(result).await;
        self.kubectl(&["apply", "-f", "-"], text);
        self.until("it is read", async || self.reloads(result).await > before).await;
    }

    /// On how many nodes the pods of the recipe's Deployment come, changed and under another name.
    async fn deployed(&self, name: &str, change: impl Fn(String) -> String) -> Vec<String> {
        let text = SPREADING.replace("inference-spread", name);
        let text = change(text.replace("app: inference", &format!("app: {name}")));
        self.kubectl(&["apply", "-f", "-"], &text);
        self.nodes_of("ml-inference", &format!("app={name}"), 4).await
    }
}

/// Without its preferred anti-affinity.
fn without_affinity(text: &str) -> String {
    let (before, rest) = text.split_once("      # Pod anti-affinity").unwrap();
    let (_, after) = rest.split_once("      containers:").unwrap();
    format!("{before}      containers:{after}")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recipes_config_map_packs_and_its_deployment_spreads_as_they_are_written() {
    // The values of its step 1, and another strategy than that of its step 6.
    let values = "gpuSharing.enabled=true,gpuSharing.strategy=binpack,scheduling.strategy=spread,\
                  scheduling.configMap=kai-scheduler/kai-scheduler-config,runtimeClass.create=true";
    let Some(cluster) = Cluster::install("recipe", values).await else { return };
    assert_eq!(cluster.spread_of("before").await, 3, "as the file says");
    cluster.configure(PACKING, "ok").await;
    assert_eq!(cluster.spread_of("packed").await, 1, "as the ConfigMap says");

    // It may read that one, and none beside it.
    let scheduler = cluster.api_of("divvy-scheduler").await;
    let beside =
        scheduler.get("/api/v1/namespaces/kai-scheduler/configmaps/kube-root-ca.crt").await;
    assert!(beside.is_err_and(|why| why.to_string().contains("403 Forbidden")));

    // Its Deployment spreads by its annotation and by its affinity, and by each of them alone.
    assert_eq!(cluster.deployed("both", |text| text).await.len(), NODES);
    let annotated = cluster.deployed("annotated", |text| without_affinity(&text)).await;
    assert_eq!(annotated.len(), NODES);
    for pod in cluster.pods("ml-inference", "app=annotated").await {
        let said = &pod["metadata"]["annotations"]["scheduling.run.ai/scheduling-strategy"];
        assert_eq!(said, "spread", "the template has it from its owner");
    }
    let plain = |text: String| {
        let text = without_affinity(&text);
        assert!(text.contains(ANNOTATION));
        text.replace(ANNOTATION, "    example.com/owner: me\n")
    };
    assert_eq!(cluster.deployed("plain", plain).await.len(), 1);
    for name in ["both", "annotated", "plain"] {
        cluster.kubectl(&["delete", "deployment", name, "--namespace=ml-inference"], "");
        cluster.delete_pods("ml-inference", &format!("app={name}")).await;
    }

    // A wrong one says so on itself, and what it said before counts; without it the file does.
    cluster.configure(&PACKING.replace("strategy: binpack", "strategy: best"), "failed").await;
    cluster
        .until("the wrong strategy is said on the ConfigMap", async || {
            let events = "/apis/events.k8s.io/v1/namespaces/kai-scheduler/events";
            let events = cluster.api.get(events).await.unwrap();
            let about = |event: &Value| {
                event["regarding"]["name"] == "kai-scheduler-config"
                    && event["note"].as_str().unwrap().contains("scheduling.strategy")
            };
            events["items"].as_array().unwrap().iter().any(about)
        })
        .await;
    assert_eq!(cluster.spread_of("still").await, 1);
    cluster.configure(&PACKING.replace("strategy: binpack", "strategy: spread"), "ok").await;
    assert_eq!(cluster.spread_of("changed").await, 3);
}
