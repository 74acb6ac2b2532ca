//! Claims whose volumes wait for a node, with the volume controller of kube-controller-manager.

use crate::arena::{Arena, NAMESPACE, PATIENCE, pod};
use crate::scheduler::Divvy;
use divvy_testbed::manifests::{GpuNode, with_fraction};
use serde_json::{Value, json};
use std::time::Duration;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// A class of volumes that are made, or chosen, once a pod has a node.
fn class(name: &str, provisioner: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    })
}

fn claim(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

/// A volume that can be reached from one node only.
fn volume(name: &str, class: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "2Gi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/mnt"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
            ]}]}},
        },
    })
}

/// Half a card, and a claim.
fn user(name: &str, claim: &str) -> Value {
    let mut pod = with_fraction(pod(name), "0.5", 1);
    pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    pod
}

/// Waits until something is true of a claim; gives it.
async fn until(arena: &Arena, name: &str, is_true: impl Fn(&Value) -> bool) -> Value {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let claim = arena.api.get(&format!("{CLAIMS}/{name}")).await.unwrap();
        if is_true(&claim) {
            return claim;
        }
        assert!(tokio::time::Instant::now() < end, "{claim:#}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_gets_a_volume_of_the_node_before_its_pod_is_bound_there() {
    let Some(arena) = Arena::enter().await else { return };
    let _controller = arena.plane.start_volume_controller().unwrap();
    arena.nodes(GpuNode::T4, "t4", 3).await;
    let class_name = "local";
    for object in [
        class(class_name, "kubernetes.io/no-provisioner"),
        volume("on-t4-2", class_name, "t4-2"),
        claim("first", class_name),
        claim("second", class_name),
    ] {
        arena.create(&object).await;
    }
    let _divvy = Divvy::start(&arena).await;
    arena.create(&user("a", "first")).await;
    assert_eq!(arena.bound("a").await, "t4-2");
    let bound = until(&arena, "first", |claim| claim["status"]["phase"] == "Bound").await;
    assert_eq!(bound["spec"]["volumeName"], "on-t4-2");
    // There was one volume only; the next one comes later, elsewhere.
    arena.create(&user("b", "second")).await;
    arena.said("b", "volume").await;
    arena.create(&volume("on-t4-1", class_name, "t4-1")).await;
    assert_eq!(arena.bound("b").await, "t4-1");
    until(&arena, "second", |claim| claim["spec"]["volumeName"] == "on-t4-1").await;
    arena.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_made_for_the_chosen_node_is_waited_for_while_the_card_is_held() {
    const SELECTED: &str = "volume.kubernetes.io/selected-node";
    let Some(arena) = Arena::enter().await else { return };
    let _controller = arena.plane.start_volume_controller().unwrap();
    arena.nodes(GpuNode { cards: 1, ..GpuNode::T4 }, "t4", 1).await;
    let class_name = "made";
    arena.create(&class(class_name, "example.com/volumes")).await;
    arena.create(&claim("made-later", class_name)).await;
    let _divvy = Divvy::start(&arena).await;
    arena.create(&user("a", "made-later")).await;
    let selected = |claim: &Value| claim["metadata"]["annotations"][SELECTED] == "t4-0";
    let found = until(&arena, "made-later", selected).await;
    // Its half of the card is taken, though it is not bound yet.
    arena.create(&with_fraction(pod("b"), "0.6", 1)).await;
    arena.said("b", "0/1 nodes are available").await;
    let waits = |pod: &str| arena.history.look(|now| now.node_of(pod).is_none());
    assert!(waits("default/a"));
    // What an external provisioner does.
    let mut made = volume("just-made", class_name, "t4-0");
    made["spec"]["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACE,
        "name": "made-later", "uid": found["metadata"]["uid"],
    });
    arena.create(&made).await;
    assert_eq!(arena.bound("a").await, "t4-0");
    until(&arena, "made-later", |claim| claim["status"]["phase"] == "Bound").await;
    assert!(waits("default/b"));
    arena.check().await;
}
