//! A tenant with the role `edit` in its namespace tries to reach a card that it was not given: what
//! counts is what its containers find in `/dev`.

mod changes;
mod default_runtime;
mod deletions;
mod pods;
mod workloads;

use crate::account::{TENANT, objects};
use crate::cluster::{Cluster, half, plain, whole};
use divvy_testbed::Process;
use divvy_testbed::api::{Api, ApiError};
use http::StatusCode;
use serde_json::{Value, json};

/// An image that asks for all cards by itself.
pub const CUDA: &str = "docker.io/nvidia/cuda:12.4.1-base-ubuntu22.04";
pub const VARIABLE: &str = "NVIDIA_VISIBLE_DEVICES";

/// The namespace `team`, and who else has cards.
pub struct Tenant {
    pub cluster: Cluster,
    pub api: Api,
    /// The one card that the tenant was given a share of, as pod `own`.
    pub card: String,
    _divvy: Process,
}

impl Tenant {
    /// Others have all cards but two: one is free, and of one the tenant has a part.
    pub async fn enter() -> Option<Self> {
        let cluster = Cluster::enter().await?;
        let divvy = cluster.start_divvy();
        let api = tenant(&cluster).await;
        cluster.create(&whole("default", "victim", 5)).await;
        cluster.create(&share("default", "neighbour", "0.96")).await;
        cluster.cards_of("default", "victim").await;
        cluster.card_of("default", "neighbour").await;
        api.create(&share("team", "own", "0.2")).await.unwrap();
        let card = cluster.card_of("team", "own").await;
        Some(Self { cluster, api, card, _divvy: divvy })
    }

    /// Makes pods, and looks into all that the API server took: they see no card but the tenant's
    /// own, and that only if they are shares.
    pub async fn try_pods(&self, tries: Vec<(String, Value)>) {
        let mut made = Vec::new();
        for (nth, (what, mut pod)) in tries.into_iter().enumerate() {
            pod["metadata"]["name"] = json!(format!("try-{nth}"));
            match self.api.create(&pod).await {
                Ok(stored) => made.push((what, stored)),
                Err(why) => assert_refused(&what, &why),
            }
        }
        for (what, pod) in &made {
            self.bind(pod).await;
            let is_share = !pod["metadata"]["annotations"]["gpu-fraction"].is_null();
            self.sees_nothing(what, pod, is_share).await;
        }
    }

    /// Another scheduler that knows nothing of cards binds what is not divvy's.
    pub async fn bind(&self, pod: &Value) {
        let (name, scheduler) = (name(pod), pod["spec"]["schedulerName"].as_str().unwrap());
        let is_ours = ["divvy-scheduler", "kai-scheduler"].contains(&scheduler);
        if !is_ours && pod["spec"]["nodeName"].is_null() {
            self.cluster.bind("team", name).await;
        }
    }

    /// What a pod sees in a namespace whose pods manage GPUs.
    pub async fn unguarded(&self, mut pod: Value) -> Vec<String> {
        let gpus = json!({"divvy.dev/gpu-system": "true"});
        let place = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpus", "labels": gpus}});
        // There after the first time.
        let _ = self.cluster.api.create(&place).await;
        self.cluster.delete("gpus", "all").await;
        pod["metadata"]["namespace"] = json!("gpus");
        pod["metadata"]["name"] = json!("all");
        pod["spec"]["serviceAccountName"] = json!("default");
        let create = async || self.cluster.api.create(&pod).await.is_ok();
        self.cluster.until("a pod of those who manage GPUs", create).await;
        self.cluster.bind("gpus", "all").await;
        let cards = self.cluster.cards_of("gpus", "all").await;
        self.cluster.delete("gpus", "all").await;
        cards
    }

    /// Looks into all containers of a pod once they run, or never will.
    pub async fn sees_nothing(&self, what: &str, pod: &Value, is_share: bool) {
        let name = name(pod);
        let (cluster, path) = (&self.cluster, format!("/api/v1/namespaces/team/pods/{name}"));
        cluster
            .until(&format!("{what}: the containers of {name} start"), async || {
                // A pod that pretends to be a static one is deleted by the kubelet.
                let Ok(pod) = cluster.api.get(&path).await else { return true };
                let status = &pod["status"];
                let is_over = status["phase"] == "Failed";
                is_over || statuses(status).next().is_some() && statuses(status).all(is_settled)
            })
            .await;
        let Ok(pod) = cluster.api.get(&path).await else { return };
        let status = &pod["status"];
        for container in statuses(status).filter(|status| status["state"]["running"].is_object()) {
            let container = container["name"].as_str().unwrap();
            let cards = cluster.look(&pod, container);
            let may = |card: &String| is_share && container == "main" && *card == self.card;
            assert!(cards.iter().all(may), "{what}: {container} of {name} sees {cards:?}");
        }
    }
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap()
}

fn statuses(status: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    lists.into_iter().filter_map(|list| status[list].as_array()).flatten()
}

/// It runs, has ended, or cannot start.
fn is_settled(status: &Value) -> bool {
    let waits = status["state"]["waiting"]["reason"].as_str();
    waits.is_none_or(|why| !["ContainerCreating", "PodInitializing"].contains(&why))
        && status["state"] != json!({})
}

/// It was refused for what it tries, not because it makes no sense.
pub fn assert_refused(what: &str, why: &ApiError) {
    let ApiError::Refused { status, message, .. } = why else { panic!("{what}: {why}") };
    assert_eq!(*status, StatusCode::FORBIDDEN, "{what}: {message}");
}

/// A pod of the tenant for a scheduler that knows nothing of shares, with the runtime that hands out
/// cards.
pub fn foreign() -> Value {
    let mut pod = plain("team", "x");
    pod["spec"]["schedulerName"] = json!("default-scheduler");
    pod
}

pub fn share(namespace: &str, name: &str, fraction: &str) -> Value {
    let mut pod = half(namespace, name);
    pod["metadata"]["annotations"]["gpu-fraction"] = json!(fraction);
    pod
}

/// The API as the tenant reaches it.
pub async fn tenant(cluster: &Cluster) -> Api {
    for object in objects("team") {
        // There after the first time.
        let _ = cluster.api.create(&object).await;
    }
    let api = Api::from_kubeconfig(&cluster.kubeconfig_as("team", TENANT)).await.unwrap();
    let pods = "/api/v1/namespaces/team/pods";
    cluster.until("the tenant may list pods", async || api.get(pods).await.is_ok()).await;
    api
}
