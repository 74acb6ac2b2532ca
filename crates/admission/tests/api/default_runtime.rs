//! Where NVIDIA's runtime is the default of nodes, images are believed in every pod: the policy of
//! `optional-default-runtime.yaml`.

use crate::cluster::{Cluster, cluster, eventually, is_about, manifest, pod, with_share};
use crate::webhooks::entry;
use http::Method;
use serde_json::{Value, json};

const VARIABLE: &str = "NVIDIA_VISIBLE_DEVICES";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The policy, until it is dropped.
struct Policy<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
}

impl<'a> Policy<'a> {
    fn apply(cluster: &'a Cluster, namespace: &'a str) -> Self {
        cluster.apply(&manifest("optional-default-runtime"));
        let policy = Self { cluster, namespace };
        eventually("the policy acts", || policy.acts());
        policy
    }

    fn acts(&self) -> bool {
        let plain = pod(self.namespace, "probe", "default-scheduler");
        let stored = self.cluster.dry_create(&self.cluster.admin, &plain).unwrap();
        !entry(&stored["spec"]["containers"][0], VARIABLE).is_empty()
    }
}

impl Drop for Policy<'_> {
    fn drop(&mut self) {
        let path = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/divvy-default-runtime";
        let _ = self.cluster.runtime.block_on(self.cluster.admin.delete(path));
        // The next test wants to be without it.
        if !std::thread::panicking() {
            eventually("the policy is gone", || !self.acts());
        }
    }
}

fn void() -> Value {
    json!({"name": VARIABLE, "value": "void"})
}

#[test]
fn every_container_that_asks_for_no_card_is_kept_from_them() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let _policy = Policy::apply(&cluster, &tenant);
    let mut plain = pod(&tenant, "plain", "default-scheduler");
    plain["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}]);
    plain["spec"]["initContainers"] = json!([{"name": "init", "image": "x"}]);
    let stored = cluster.runtime.block_on(api.create(&plain)).unwrap();
    let (main, init) = (&stored["spec"]["containers"][0], &stored["spec"]["initContainers"][0]);
    assert_eq!(entry(main, "A").len(), 1);
    for container in [main, init] {
        assert_eq!(entry(container, VARIABLE), [&void()]);
    }
    let mut whole = pod(&tenant, "whole", "default-scheduler");
    whole["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
    let stored = cluster.runtime.block_on(api.create(&whole)).unwrap();
    assert_eq!(stored["spec"]["containers"][0].get("env"), None, "the device plugin's business");
    // A share still gets its card.
    let share = with_share(pod(&tenant, "share", "divvy-scheduler"), "0.5");
    let stored = cluster.runtime.block_on(api.create(&share)).unwrap();
    let visible = entry(&stored["spec"]["containers"][0], VARIABLE);
    assert_eq!(visible.len(), 1);
    assert_eq!(visible[0].get("value"), None);
}

#[test]
fn containers_for_debugging_are_kept_from_them_too() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    // One that is older than the policy.
    let path = format!("/api/v1/namespaces/{tenant}/pods/plain");
    let inside = format!("{path}/ephemeralcontainers");
    let debug = |name: &str, env: Value| {
        let container = json!({"name": name, "image": "x", "env": env});
        let patch = json!({"spec": {"ephemeralContainers": [container]}});
        cluster.runtime.block_on(api.send(Method::PATCH, &inside, STRATEGIC, Some(&patch)))
    };
    let plain = pod(&tenant, "plain", "default-scheduler");
    cluster.runtime.block_on(api.create(&plain)).unwrap();
    debug("before", json!([])).unwrap();
    let _policy = Policy::apply(&cluster, &tenant);
    debug("silent", json!([])).unwrap();
    debug("other", json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])).unwrap();
    debug("none", json!([{"name": VARIABLE, "value": "none"}])).unwrap();
    for value in ["all", "0", ""] {
        let result = debug("all", json!([{"name": VARIABLE, "value": value}]));
        assert!(is_about(&result, "for debugging"), "{value:?}: {result:?}");
    }
    // As people do.
    let mut kubectl = cluster.plane.kubectl();
    kubectl.args(["debug", "plain", "--namespace", &tenant, "--image=x", "--container=kubectl"]);
    let output = kubectl.args(["--target=main", "--attach=false"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stored = cluster.runtime.block_on(api.get(&path)).unwrap();
    let container = |name: &str| {
        let all = stored["spec"]["ephemeralContainers"].as_array().unwrap().iter();
        all.into_iter().find(|container| container["name"] == name).unwrap()
    };
    for name in ["silent", "other", "kubectl"] {
        assert_eq!(entry(container(name), VARIABLE), [&void()], "{name}");
    }
    assert_eq!(entry(container("other"), "A").len(), 2);
    assert_eq!(entry(container("none"), VARIABLE)[0]["value"], "none");
    assert_eq!(entry(container("before"), VARIABLE), [&Value::Null; 0], "it runs already");
    assert_eq!(container("kubectl")["targetContainerName"], "main");
    assert_eq!(entry(&stored["spec"]["containers"][0], VARIABLE), [&Value::Null; 0]);
}
