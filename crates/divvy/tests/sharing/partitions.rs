//! Cards that NVIDIA's device plugin divides: in time, and by MIG, as the recipe does it.

mod churn;
mod mig;
mod mixed;
mod rehearsed;
mod time;

use crate::cluster::{Cluster, devices, plain};
use crate::tenant::{CUDA, VARIABLE, assert_refused};
use divvy_testbed::Process;
use divvy_testbed::api::Api;
use divvy_testbed::node::{BUSYBOX, Card, Container};
use serde_json::{Value, json};

const RECIPE: &str = include_str!("partitions/recipe.yaml");

/// An object of the recipe.
fn of_recipe(kind: &str, name: &str) -> Value {
    let documents: Vec<Value> = serde_saphyr::from_multiple(RECIPE).unwrap();
    let is_it = |o: &Value| o["kind"] == kind && o["metadata"]["name"] == name;
    documents.into_iter().find(is_it).unwrap()
}

/// A configuration that a ConfigMap of the recipe has under a key.
fn config(name: &str, key: &str) -> Value {
    let map = of_recipe("ConfigMap", name);
    serde_saphyr::from_str(map["data"][key].as_str().unwrap()).unwrap()
}

/// A pod of the recipe, in a namespace that is there, with an image that is there, and by the runtime
/// that GPU Operator makes the default.
fn pod(name: &str) -> Value {
    let mut pod = of_recipe("Pod", name);
    pod["metadata"]["namespace"] = json!("team");
    pod["spec"]["runtimeClassName"] = json!("nvidia");
    pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
    let container = &mut pod["spec"]["containers"][0];
    container["name"] = json!("main");
    container["image"] = json!(BUSYBOX);
    container["imagePullPolicy"] = json!("Never");
    pod
}

/// The recipe's time slices, or other ones: so many of each card, under a name of their own or not.
fn time_slices(replicas: u32, renamed: bool) -> Value {
    let mut config = config("time-slicing-config", "any");
    let slicing = &mut config["sharing"]["timeSlicing"];
    slicing["renameByDefault"] = json!(renamed);
    slicing["resources"][0]["replicas"] = json!(replicas);
    config
}

fn strategy(mig: &str) -> Value {
    json!({"version": "v1", "flags": {"migStrategy": mig}})
}

/// Cards of 80 GiB that are divided as the recipe calls it.
fn divided(count: u32, name: &str) -> Vec<Card> {
    let config = config("mig-config", "config.yaml");
    let profiles = config["mig-configs"][name][0]["mig-devices"].as_object().unwrap();
    let of = |(profile, count): (&String, &Value)| {
        vec![profile.clone(); usize::try_from(count.as_u64().unwrap()).unwrap()]
    };
    let profiles: Vec<String> = profiles.iter().flat_map(of).collect();
    let profiles: Vec<&str> = profiles.iter().map(String::as_str).collect();
    (0..count).map(|index| Card::a100_80(index).divided(&profiles).unwrap()).collect()
}

/// A tenant names devices that are not its own, in the ways that a runtime would follow.
async fn tries_are_refused(api: &Api, own: &Value, others: &[&str]) {
    for other in others {
        for value in [(*other).to_owned(), format!("nvidia.com/gpu={other}")] {
            for pod in [own, &plain("team", "own")] {
                let mut named = pod.clone();
                let variable = json!([{"name": VARIABLE, "value": value}]);
                named["spec"]["containers"][0]["env"] = variable;
                let why = api.create(&named).await.unwrap_err();
                assert_refused(&format!("{VARIABLE}={value}"), &why);
            }
            let mut annotated = own.clone();
            annotated["metadata"]["annotations"] = json!({"cdi.k8s.io/vendor": value});
            assert_refused(&value, &api.create(&annotated).await.unwrap_err());
        }
    }
}

/// What a tenant's pod sees of what it was given, and what the container beside it does that asks for
/// nothing, by an image that would take all cards.
async fn own_and_aside(cluster: &Cluster, api: &Api, mut pod: Value) -> (Container, Container) {
    let mut aside = pod["spec"]["containers"][0].clone();
    aside["name"] = json!("aside");
    aside["image"] = json!(CUDA);
    aside["resources"] = json!({});
    pod["spec"]["containers"].as_array_mut().unwrap().push(aside);
    api.create(&pod).await.unwrap();
    cluster
        .until("both containers run", async || {
            let pod = cluster.get("team", "own").await;
            let states = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
            states.len() == 2 && states.iter().all(|state| state["ready"] == true)
        })
        .await;
    let pod = cluster.get("team", "own").await;
    let [main, aside] = ["main", "aside"].map(|name| cluster.look_into(&pod, name).unwrap());
    (main, aside)
}

impl Cluster {
    /// Starts so many pods of one device each; gives their names.
    async fn start_each(&self, prefix: &str, resource: &str, count: usize) -> Vec<String> {
        let names: Vec<String> = (0..count).map(|i| format!("{prefix}-{i}")).collect();
        for name in &names {
            self.create(&devices("default", name, resource, 1)).await;
        }
        for name in &names {
            self.until_running("default", name).await;
        }
        names
    }

    /// Gives the node other cards or another configuration, as it was rehearsed, and waits until a
    /// scheduler knows.
    async fn reconfigure_under(&mut self, divvy: &Process, cards: Vec<Card>, plugin_config: Value) {
        self.reconfigure_as_rehearsed(cards, plugin_config).await;
        let node = self.api.get("/api/v1/nodes/gpu-node").await.unwrap();
        crate::pages::has_seen(divvy, &node, crate::cluster::PATIENCE).await;
    }

    async fn allocatable(&self, resource: &str) -> String {
        let node = self.api.get("/api/v1/nodes/gpu-node").await.unwrap();
        let count = node["status"]["allocatable"][resource].as_str();
        count.unwrap_or("none").to_owned()
    }
}
