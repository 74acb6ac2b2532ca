//! A cluster that KAI has left, with pods that run.

use crate::cluster::{Cluster, half, whole};
use divvy_testbed::api::JSON;
use divvy_testbed::manifests::foreign_kind;
use divvy_testbed::node::{BUSYBOX, Node};
use http::Method;
use serde_json::{Value, json};

const RESERVATIONS: &str = "kai-resource-reservation";
const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";

/// What guards pods once divvy is deployed: KAI's cluster has none of it.
const GUARDS: [&str; 6] = [
    "mutatingwebhookconfigurations/divvy",
    "validatingwebhookconfigurations/divvy",
    "validatingadmissionpolicybindings/divvy-hand-off",
    "validatingadmissionpolicybindings/divvy-reservations",
    "validatingadmissionpolicybindings/divvy-visible-devices",
    "validatingadmissionpolicybindings/divvy-visible-devices-sources",
];

async fn unguard(cluster: &Cluster) -> Vec<(&'static str, Value)> {
    let mut guards = Vec::new();
    for guard in GUARDS {
        let path = format!("{REGISTRATION}/{guard}");
        let found = cluster.api.get(&path).await.unwrap();
        cluster.api.delete(&path).await.unwrap();
        guards.push((guard.split('/').next().unwrap(), found));
    }
    cluster
        .until("pods are stored as they are", async || {
            let made = cluster.try_half().await;
            made.is_ok_and(|pod| pod["spec"]["containers"][0]["env"].is_null())
        })
        .await;
    guards
}

async fn guard(cluster: &Cluster, guards: Vec<(&'static str, Value)>) {
    for (kind, mut guard) in guards {
        for field in ["uid", "resourceVersion"] {
            guard["metadata"].as_object_mut().unwrap().remove(field);
        }
        post(cluster, &format!("{REGISTRATION}/{kind}"), &guard).await;
    }
    cluster.api.policies_act().await.unwrap();
}

async fn post(cluster: &Cluster, path: &str, object: &Value) {
    // A guard that is gone is asked for a moment longer.
    cluster
        .until(&format!("{path} takes {}", object["metadata"]["name"]), async || {
            let made = cluster.api.send(Method::POST, path, JSON, Some(object)).await;
            made.is_ok() || made.is_err_and(|why| why.to_string().contains("already exists"))
        })
        .await;
}

/// A reservation pod as KAI's binder makes it; the card that it has, once it runs.
async fn kais_reservation(cluster: &Cluster, group: &str) -> String {
    let name = format!("gpu-reservation-{group}");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": RESERVATIONS, "name": name,
            "labels": {"app": RESERVATIONS, "runai-gpu-group": group},
            "annotations": {"karpenter.sh/do-not-disrupt": "true"},
        },
        "spec": {
            "nodeName": Node::NAME, "runtimeClassName": "nvidia", "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "resource-reservation", "image": BUSYBOX, "imagePullPolicy": "Never",
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }],
        },
    });
    post(cluster, &format!("/api/v1/namespaces/{RESERVATIONS}/pods"), &pod).await;
    let path = format!("/api/v1/namespaces/{RESERVATIONS}/pods/{name}");
    let device = async || {
        let pod = cluster.api.get(&path).await.unwrap();
        let status = &pod["status"]["containerStatuses"][0];
        let device = &status["allocatedResourcesStatus"][0]["resources"][0]["resourceID"];
        device.as_str().filter(|_| status["ready"] == true).map(str::to_owned)
    };
    cluster.until(&format!("{name} has a card"), async || device().await.is_some()).await;
    let uuid = device().await.unwrap();
    // As its program does.
    let note = json!({"metadata": {"annotations": {"run.ai/reserve_for_gpu_index": uuid}}});
    cluster.api.patch(&path, &note).await.unwrap();
    uuid
}

/// A share as it runs after KAI's admission and binder: its devices come from a ConfigMap.
async fn kais_share(cluster: &Cluster, namespace: &str, name: &str, groups: &[(&str, &str)]) {
    let devices: Vec<&str> = groups.iter().map(|(_, uuid)| *uuid).collect();
    let config = format!("{name}-x7k2p9q-shared-gpu-0");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": config},
        "data": {"NVIDIA_VISIBLE_DEVICES": devices.join(","), "GPU_PORTION": "0.50"},
    });
    post(cluster, &format!("/api/v1/namespaces/{namespace}/configmaps"), &map).await;
    let mut pod = half(namespace, name);
    pod["metadata"]["annotations"]["received-resource-type"] = "Fraction".into();
    pod["metadata"]["annotations"]["runai/shared-gpu-configmap"] =
        format!("{name}-x7k2p9q-shared-gpu").into();
    if let [(group, _)] = groups {
        pod["metadata"]["labels"] = json!({"runai-gpu-group": group});
    } else {
        // Without labels: what KAI decided is in its bind request.
        pod["metadata"]["annotations"]["gpu-fraction-num-devices"] =
            groups.len().to_string().into();
    }
    pod["spec"]["schedulerName"] = "kai-scheduler".into();
    pod["spec"]["nodeName"] = Node::NAME.into();
    pod["spec"]["containers"][0]["env"] = json!([{
        "name": "NVIDIA_VISIBLE_DEVICES",
        "valueFrom": {"configMapKeyRef": {"name": config, "key": "NVIDIA_VISIBLE_DEVICES"}},
    }]);
    post(cluster, &format!("/api/v1/namespaces/{namespace}/pods"), &pod).await;
}

/// KAI's bind requests, and the one of a pod.
async fn bind_request(cluster: &Cluster, namespace: &str, pod: &str, groups: &[&str]) {
    let kind = foreign_kind("scheduling.run.ai", "v1alpha2", "BindRequest", "bindrequests");
    post(cluster, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &kind).await;
    let owner = cluster.get(namespace, pod).await;
    let request = json!({
        "apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
        "metadata": {
            "namespace": namespace, "name": pod, "labels": {"selected-node": Node::NAME},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": pod, "uid": owner["metadata"]["uid"],
            }],
        },
        "spec": {
            "podName": pod, "selectedNode": Node::NAME, "receivedResourceType": "Fraction",
            "receivedGPU": {"count": groups.len(), "portion": "0.50"}, "selectedGPUGroups": groups,
        },
        "status": {"phase": "Succeeded"},
    });
    let path = format!("/apis/scheduling.run.ai/v1alpha2/namespaces/{namespace}/bindrequests");
    post(cluster, &path, &request).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_kai_has_left_is_taken_over_while_it_runs_on() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let guards = unguard(&cluster).await;
    let first = kais_reservation(&cluster, "g1").await;
    let second = kais_reservation(&cluster, "g2").await;
    kais_share(&cluster, "default", "kai-a", &[("g1", &first)]).await;
    kais_share(&cluster, "team", "kai-b", &[("g1", &first)]).await;
    let third = kais_reservation(&cluster, "g3").await;
    kais_share(&cluster, "team", "kai-two", &[("g2", &second), ("g3", &third)]).await;
    bind_request(&cluster, "team", "kai-two", &["g2", "g3"]).await;
    guard(&cluster, guards).await;
    cluster.start_admission().await;
    let card = cluster.card_of("default", "kai-a").await;
    assert_eq!(cluster.uuid(&card), first);
    assert_eq!(cluster.cards_of("team", "kai-two").await.len(), 2);
    let before = cluster.get("team", "kai-two").await["status"]["containerStatuses"].clone();

    let divvy = cluster.start_divvy();
    let written = async |namespace: &str, name: &str| {
        let pod = cluster.get(namespace, name).await;
        pod["metadata"]["annotations"]["divvy.dev/cards"].as_str().map(str::to_owned)
    };
    let half_of = |uuid: &str| format!("{uuid}:{}", 20_u64 << 30);
    cluster
        .until("the shares of KAI say which cards they have", async || {
            let mut two = [half_of(&second), half_of(&third)];
            two.sort();
            let mut found: Vec<String> = written("team", "kai-two")
                .await
                .unwrap_or_default()
                .split(',')
                .map(str::to_owned)
                .collect();
            found.sort();
            written("default", "kai-a").await == Some(half_of(&first))
                && written("team", "kai-b").await == Some(half_of(&first))
                && found == two
        })
        .await;
    cluster
        .until("its reservations are divvy's", async || {
            let all = cluster.reservations().await;
            let ours =
                |pod: &&Value| pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "divvy";
            all.len() == 3 && all.iter().filter(ours).count() == 3
        })
        .await;
    // Shares of divvy join the cards of KAI, whole pods get others.
    cluster.create(&half("default", "ours")).await;
    let joined = cluster.card_of("default", "ours").await;
    assert!([&second, &third].contains(&&cluster.uuid(&joined)), "{joined}");
    cluster.create(&whole("team", "rest", 5)).await;
    let rest = cluster.cards_of("team", "rest").await;
    let shared = [&first, &second, &third];
    assert!(rest.iter().all(|card| !shared.contains(&&cluster.uuid(card))), "{rest:?}");

    // So it is after a restart, and the card of the last share is free.
    drop(divvy);
    let _divvy = cluster.start_divvy();
    cluster.delete("default", "kai-a").await;
    cluster.create(&half("team", "next")).await;
    assert_eq!(cluster.uuid(&cluster.card_of("team", "next").await), first);
    cluster.delete("team", "kai-b").await;
    cluster.delete("team", "next").await;
    cluster.until_reservations(2).await;
    assert_eq!(cluster.get("team", "kai-two").await["status"]["containerStatuses"], before);
    let definition =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bindrequests.scheduling.run.ai";
    cluster.api.delete(definition).await.unwrap();
}
