//! A tenant wants pods of others off all nodes: the policy of `optional-affinity.yaml`.

use crate::cluster::{Cluster, cluster, eventually, is_about, manifest, namespace, pod};
use serde_json::{Value, json};

const FIELD: &str = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution";

/// A pod that repels what this term is about.
fn repelling(place: &str, kind: &str, wish: &str, more: &Value) -> Value {
    let mut term = json!({"labelSelector": {}, "topologyKey": "kubernetes.io/os"});
    term.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    if wish == "preferred" {
        term = json!({"weight": 1, "podAffinityTerm": term});
    }
    // One that is harmless stands before it.
    let own = json!({"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"});
    let terms = if wish == "required" { vec![own, term] } else { vec![term] };
    let mut pod = pod(place, "p", "divvy-scheduler");
    let wish = format!("{wish}DuringSchedulingIgnoredDuringExecution");
    pod["spec"]["affinity"] = json!({kind: {wish: terms}});
    pod
}

/// Removes the policy when it is dropped.
struct Policy<'a>(&'a Cluster);

impl Drop for Policy<'_> {
    fn drop(&mut self) {
        let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/divvy-affinity";
        let _ = self.0.runtime.block_on(self.0.admin.delete(path));
    }
}

#[test]
fn with_the_policy_no_pod_repels_pods_of_other_namespaces() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let all = json!({"namespaceSelector": {}});
    let repel = |more: &Value| {
        let pod = repelling(&tenant, "podAntiAffinity", "required", more);
        cluster.dry_create(&api, &pod)
    };
    repel(&all).unwrap();
    cluster.apply(&manifest("optional-affinity"));
    let _policy = Policy(&cluster);
    eventually("the policy acts", || repel(&all).is_err());

    let selected = json!({"namespaceSelector": {"matchLabels": {"a": "b"}}});
    for (more, why) in [
        (&all, "namespaceSelector would keep pods of other namespaces off nodes; leave it out"),
        (&selected, "namespaceSelector would keep pods"),
        (&json!({"namespaces": ["default"]}), "namespaces may name the pod's own and no other"),
        (&json!({"namespaces": [tenant, "default"]}), "namespaces may name the pod's own"),
        (&json!({"namespaces": [tenant], "namespaceSelector": {}}), "namespaceSelector"),
    ] {
        let result = repel(more);
        assert!(is_about(&result, &format!("{FIELD}: {why}")), "{more}: {result:?}");
    }
    for more in [json!({}), json!({"namespaces": [tenant]}), json!({"namespaces": []})] {
        repel(&more).unwrap();
    }
    // What keeps nobody off.
    for (kind, wish) in [
        ("podAntiAffinity", "preferred"),
        ("podAffinity", "required"),
        ("podAffinity", "preferred"),
    ] {
        cluster.dry_create(&api, &repelling(&tenant, kind, wish, &all)).unwrap();
    }
    cluster.dry_create(&api, &pod(&tenant, "p", "divvy-scheduler")).unwrap();

    let mut exempt = namespace("gpu-system");
    exempt["metadata"]["labels"] = json!({"divvy.dev/gpu-system": ""});
    cluster.admin_create(&exempt);
    for place in ["gpu-system", "kube-system"] {
        cluster.wait_for_account(place, "default");
        let pod = repelling(place, "podAntiAffinity", "required", &all);
        eventually("it is known as exempt", || cluster.dry_create(&cluster.admin, &pod).is_ok());
    }
}
