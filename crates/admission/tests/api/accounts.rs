//! divvy's own ServiceAccounts, as its manifests make them: each may do what it does, and not the nearest
//! thing beyond.

use crate::cluster::{Cluster, cluster, eventually, is_about, manifest, pod};
use divvy_testbed::api::Api;
use serde_json::{Value, json};
use std::process::Command;

const OURS: &str = "divvy-system";
const RESERVATIONS: &str = "kai-resource-reservation";

/// A verb, and what of: `pods`, `pods/binding` or `leases.coordination.k8s.io/NAME`, after a namespace
/// and a space where it is in one.
type Right = (&'static str, &'static str);

impl Cluster {
    /// The rights and accounts of a manifest, and nothing that runs.
    fn grant_all_of(&self, file: &str) {
        let text = manifest(file);
        let is_right = |text: &&str| {
            ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"]
                .iter()
                .any(|kind| text.contains(&format!("\nkind: {kind}\n")))
        };
        let rights: Vec<&str> = text.split("---\n").filter(is_right).collect();
        self.apply(&rights.join("---\n"));
    }

    /// Whether an account may do this, as RBAC says.
    fn may(&self, (place, account): (&str, &str), (verb, what): Right) -> bool {
        let (namespace, what) = what.split_once(' ').unwrap_or(("", what));
        let (what, name) = what.split_once(':').unwrap_or((what, ""));
        let (what, part) = what.split_once('/').unwrap_or((what, ""));
        let (resource, group) = what.split_once('.').unwrap_or((what, ""));
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": format!("system:serviceaccount:{place}:{account}"),
                "groups": [
                    "system:serviceaccounts", format!("system:serviceaccounts:{place}"),
                    "system:authenticated",
                ],
                "resourceAttributes": {
                    "namespace": namespace, "verb": verb, "group": group, "resource": resource,
                    "subresource": part, "name": name,
                },
            },
        });
        self.admin_create(&review)["status"]["allowed"] == true
    }

    /// An account may do the ones, once the server has heard of it, and not the others.
    fn has_rights(&self, account: (&str, &str), may: &[Right], may_not: &[Right]) {
        for right in may {
            eventually(&format!("{account:?} may {right:?}"), || self.may(account, *right));
        }
        for right in may_not {
            assert!(!self.may(account, *right), "{account:?} may {right:?}");
        }
    }
}

#[test]
fn the_scheduler_binds_pods_and_may_not_change_or_end_them() {
    let Some(cluster) = cluster() else { return };
    cluster.grant_all_of("scheduler");
    cluster.has_rights(
        (OURS, "divvy-scheduler"),
        &[
            ("create", "team pods/binding"),
            ("patch", "team pods/status"),
            ("patch", "nodes"),
            ("create", "kai-resource-reservation pods"),
            ("delete", "kai-resource-reservation pods"),
            ("update", "divvy-system leases.coordination.k8s.io:divvy-scheduler"),
        ],
        &[
            ("delete", "team pods"),
            ("patch", "team pods"),
            ("create", "team pods"),
            ("create", "team pods/eviction"),
            ("create", "team pods/exec"),
            ("patch", "team pods/ephemeralcontainers"),
            ("get", "team secrets"),
            ("get", "divvy-system secrets:divvy-admission-tls"),
            ("list", "team configmaps"),
            ("delete", "nodes"),
            ("patch", "nodes/status"),
            ("get", "nodes/proxy"),
            ("delete", "persistentvolumes"),
            ("delete", "team persistentvolumeclaims"),
            ("create", "divvy-system pods"),
            ("delete", "kai-resource-reservation serviceaccounts"),
            ("create", "kai-resource-reservation serviceaccounts/token:divvy-reserve"),
            ("update", "kube-system leases.coordination.k8s.io:kube-scheduler"),
            ("delete", "divvy-system leases.coordination.k8s.io:divvy-scheduler"),
            ("patch", "validatingadmissionpolicies.admissionregistration.k8s.io:divvy-nodes"),
            ("patch", "clusterroles.rbac.authorization.k8s.io:divvy-scheduler"),
            ("create", "team rolebindings.rbac.authorization.k8s.io"),
        ],
    );
}

#[test]
fn the_webhooks_keep_their_certificate_and_see_no_pod() {
    let Some(cluster) = cluster() else { return };
    let webhooks = "webhookconfigurations.admissionregistration.k8s.io";
    let named = |kind: &str, name: &str| -> &'static str {
        // A handful of names, for as long as the test runs.
        Box::leak(format!("{kind}{webhooks}:{name}").into_boxed_str())
    };
    cluster.has_rights(
        (OURS, "divvy-admission"),
        &[
            ("update", "divvy-system secrets:divvy-admission-tls"),
            ("patch", named("mutating", "divvy")),
            ("patch", named("validating", "divvy")),
        ],
        &[
            ("get", "divvy-system secrets:other"),
            ("list", "divvy-system secrets"),
            ("delete", "divvy-system secrets:divvy-admission-tls"),
            ("create", "divvy-system secrets"),
            ("get", "team secrets"),
            ("get", "team secrets:divvy-admission-tls"),
            ("patch", named("mutating", "others")),
            ("patch", named("validating", "others")),
            ("delete", named("validating", "divvy")),
            ("create", named("mutating", "")),
            ("get", "team pods"),
            ("patch", "team pods"),
            ("create", "team pods/binding"),
            ("list", "nodes"),
        ],
    );
}

#[test]
fn the_installer_of_providers_patches_nodes_and_reads_nothing() {
    let Some(cluster) = cluster() else { return };
    cluster.grant_all_of("provider");
    cluster.has_rights(
        (OURS, "divvy-provider"),
        &[("patch", "nodes")],
        &[
            ("get", "nodes"),
            ("update", "nodes"),
            ("patch", "nodes/status"),
            ("delete", "nodes"),
            ("get", "team pods"),
            ("get", "divvy-system secrets:divvy-admission-tls"),
        ],
    );
}

/// A client as the pod of a reservation, whose token says which one it is.
fn as_reservation(cluster: &Cluster, pod: &str) -> Api {
    let token = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let mut create = cluster.plane.kubectl();
    create.args(["create", "token", "divvy-reserve", "--namespace", RESERVATIONS]);
    let token = token(create.args(["--bound-object-kind=Pod", "--bound-object-name", pod]));
    let text = std::fs::read_to_string(cluster.plane.kubeconfig()).unwrap();
    let file = cluster.plane.folder().join(format!("kubeconfig-{pod}"));
    std::fs::write(&file, text.replace(cluster.plane.token(), token.trim())).unwrap();
    cluster.runtime.block_on(Api::from_kubeconfig(&file)).unwrap()
}

#[test]
fn a_reservation_pod_may_write_on_itself_which_card_it_has_and_nothing_else() {
    let Some(cluster) = cluster() else { return };
    cluster.grant_all_of("scheduler");
    let account = (RESERVATIONS, "divvy-reserve");
    let never: &[Right] = &[
        ("get", "kai-resource-reservation pods"),
        ("create", "kai-resource-reservation pods"),
        ("delete", "kai-resource-reservation pods"),
        ("patch", "kai-resource-reservation pods/status"),
        ("get", "kai-resource-reservation secrets"),
        ("patch", "team pods"),
        ("patch", "nodes"),
    ];
    cluster.has_rights(account, &[("patch", "kai-resource-reservation pods")], never);
    let scheduler = cluster.api_of(OURS, "divvy-scheduler");
    let made = |name: &str| {
        let mut pod = pod(RESERVATIONS, name, "nobody");
        pod["spec"]["serviceAccountName"] = json!("divvy-reserve");
        pod
    };
    for name in ["one", "two"] {
        eventually("a reservation is made", || {
            cluster.runtime.block_on(scheduler.create(&made(name))).is_ok()
        });
    }
    let one = as_reservation(&cluster, "one");
    let card = json!({"metadata": {"annotations": {"run.ai/reserve_for_gpu_index": "GPU-1"}}});
    let write = |name: &str| {
        let path = format!("/api/v1/namespaces/{RESERVATIONS}/pods/{name}");
        cluster.runtime.block_on(one.patch(&path, &card))
    };
    let own: Value = write("one").unwrap();
    assert_eq!(own["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"], "GPU-1");
    let itself = format!("/api/v1/namespaces/{RESERVATIONS}/pods/one");
    for change in [
        json!({"metadata": {"labels": {"runai-gpu-group": "of-another"}}}),
        json!({"metadata": {"annotations": {"divvy.dev/ghosts": "ml/p/u:1:1"}}}),
        json!({"metadata": {"annotations": {"divvy.dev/card-number": "1", "other": "too"}}}),
        json!({"metadata": {"finalizers": ["example.com/stay"]}}),
        json!({"spec": {"activeDeadlineSeconds": 9}}),
    ] {
        let result = cluster.runtime.block_on(one.patch(&itself, &change));
        assert!(is_about(&result, "may change nothing of itself but"), "{change}: {result:?}");
    }
    let other = write("two");
    assert!(
        is_about(&other, "only divvy, nodes and garbage collection may touch them"),
        "{other:?}"
    );
    // Somebody else who got a token of the account, without a pod, may not write either.
    let stray = cluster.api_of(RESERVATIONS, "divvy-reserve");
    let path = format!("/api/v1/namespaces/{RESERVATIONS}/pods/one");
    let result = cluster.runtime.block_on(stray.patch(&path, &card));
    assert!(
        is_about(&result, "only divvy, nodes and garbage collection may touch them"),
        "{result:?}"
    );
    let options = "/api/v1/namespaces/kai-resource-reservation/pods/";
    for name in ["one", "two"] {
        cluster.runtime.block_on(cluster.admin.delete(&format!("{options}{name}"))).unwrap();
    }
}

#[test]
fn the_scheduler_and_the_installer_change_nothing_of_a_node_but_what_is_theirs() {
    let Some(cluster) = cluster() else { return };
    for file in ["scheduler", "provider"] {
        cluster.grant_all_of(file);
    }
    for file in ["policy-nodes", "policy-provider"] {
        cluster.apply(&manifest(file));
    }
    cluster.runtime.block_on(cluster.admin.policies_act()).unwrap();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "of-accounts"}});
    cluster.admin_create(&node);
    let label = json!({"metadata": {"labels": {"pool": "mine"}}});
    for (account, words) in [
        ("divvy-scheduler", "divvy-scheduler may change nothing of a node but the taint"),
        ("divvy-provider", "divvy-provider may change"),
    ] {
        let api = cluster.api_of(OURS, account);
        eventually("it may patch nodes", || cluster.may((OURS, account), ("patch", "nodes")));
        let result = cluster.runtime.block_on(api.patch("/api/v1/nodes/of-accounts", &label));
        assert!(is_about(&result, words), "{account}: {result:?}");
    }
    cluster.runtime.block_on(cluster.admin.delete("/api/v1/nodes/of-accounts")).unwrap();
}
