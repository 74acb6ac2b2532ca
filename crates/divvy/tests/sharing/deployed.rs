//! divvy in the cluster that it serves: the manifests of `deploy/` as they are.

use crate::cluster::{Cluster, half};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddrV4};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/divvy-system/leases/divvy-scheduler";
const SERVICE: &str = "/api/v1/namespaces/divvy-system/services/divvy-admission";

impl Cluster {
    /// Binds the pods of divvy itself, as the cluster's own scheduler would, and waits until they are
    /// ready: those whose name begins so.
    async fn until_ready(&self, name: &str, count: usize) -> Vec<Value> {
        let ours = async || {
            let pods = self.pods("divvy-system").await.into_iter();
            let is_its = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().starts_with(name);
            let stays = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_null();
            pods.filter(|pod| is_its(pod) && stays(pod)).collect::<Vec<_>>()
        };
        self.until(&format!("{count} pods of {name}"), async || ours().await.len() == count).await;
        for pod in ours().await.iter().filter(|pod| pod["spec"]["nodeName"].is_null()) {
            self.bind("divvy-system", pod["metadata"]["name"].as_str().unwrap()).await;
        }
        self.until(&format!("{name} is ready"), async || {
            let ready = |pod: &Value| pod["status"]["containerStatuses"][0]["ready"] == true;
            ours().await.iter().all(ready)
        })
        .await;
        ours().await
    }

    /// The scheduler that leads now.
    async fn leader(&self) -> String {
        let lease = self.api.get(LEASE).await.unwrap_or_default();
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifests_as_they_are_run_divvy_which_gives_shares_their_cards() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    cluster.stop_admission();
    cluster.is_hurt(true);
    for file in ["admission", "scheduler", "webhooks"] {
        cluster.apply(&format!("deploy/{file}.yaml"));
    }
    let admission = cluster.until_ready("divvy-admission", 2).await;
    let address = |text: &Value| text.as_str().unwrap().parse::<Ipv4Addr>().unwrap();
    let service = cluster.api.get(SERVICE).await.unwrap();
    let service = SocketAddrV4::new(address(&service["spec"]["clusterIP"]), 443);
    let by = SocketAddrV4::new(address(&admission[0]["status"]["podIP"]), 8443);
    cluster.node().serve(service, by).unwrap();
    cluster.until_ready("divvy-scheduler", 2).await;
    cluster.until_guarded().await;
    cluster.create(&half("team", "a")).await;
    let card = cluster.card_of("team", "a").await;
    // The other webhook and the other scheduler do as well.
    let by = SocketAddrV4::new(address(&admission[1]["status"]["podIP"]), 8443);
    cluster.node().serve(service, by).unwrap();
    let first = cluster.leader().await;
    let (name, _) = first.split_once('_').unwrap_or((&first, ""));
    cluster.delete("divvy-system", name).await;
    cluster
        .until("another scheduler leads", async || {
            let leader = cluster.leader().await;
            !leader.is_empty() && leader != first
        })
        .await;
    cluster.create(&half("team", "b")).await;
    assert_eq!(cluster.card_of("team", "b").await, card);
    cluster.undeploy().await;
}
