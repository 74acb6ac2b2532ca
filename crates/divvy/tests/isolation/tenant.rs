//! A tenant tries to get more than its Isolated share through the API: it is refused, or its
//! container has its limit all the same.

use super::account::{TENANT, objects};
use super::cluster::{Cluster, SERVER};
use super::divvy::{LEVEL, PROVIDER, plain, share};
use divvy_testbed::api::{Api, ApiError, JSON};
use divvy_testbed::node::Node;
use http::{Method, StatusCode};
use serde_json::{Value, json};

const NAMESPACE: &str = "team";
/// What RBAC's refusals say.
const RBAC: &str = "in API group";

const ENV: &str = "/spec/containers/0/env";
const MOUNTS: &str = "/spec/containers/0/volumeMounts";

pub async fn gets_no_more_than_its_part(cluster: &Cluster) {
    let tenant = Tenant::enter(cluster).await;
    tenant.is_refused_at_create().await;
    tenant.is_refused_later().await;
    tenant.is_limited_all_the_same().await;
    tenant.writes_nothing_that_is_divvys().await;
}

/// Whoever has the role `edit` in one namespace.
struct Tenant<'a> {
    cluster: &'a Cluster,
    api: Api,
}

fn isolated() -> Value {
    in_its_namespace(share("tries", "0.2", Some("Isolated")))
}

fn in_its_namespace(mut pod: Value) -> Value {
    pod["metadata"]["namespace"] = json!(NAMESPACE);
    pod
}

/// It is refused for what it tries. To RBAC, which knows nothing of that, the tenant may.
fn assert_refused(what: &str, why: &ApiError, said: &str) {
    let ApiError::Refused { message, .. } = why else { panic!("{what}: {why}") };
    assert!(message.contains(said) && !message.contains(RBAC), "{what}: {message}");
}

fn with(pod: &Value, pointer: &str, value: Value) -> Value {
    let mut pod = pod.clone();
    let mut at = &mut pod;
    for part in pointer.split('/').skip(1) {
        at = match part.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[part.replace("~1", "/").as_str()],
        };
    }
    *at = value;
    pod
}

impl<'a> Tenant<'a> {
    async fn enter(cluster: &'a Cluster) -> Self {
        let place =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        for object in [place].into_iter().chain(objects(NAMESPACE)) {
            cluster.api.create(&object).await.unwrap();
        }
        let kubeconfig = cluster.plane.kubeconfig_as(NAMESPACE, TENANT).unwrap();
        let tenant = Self { cluster, api: Api::from_kubeconfig(&kubeconfig).await.unwrap() };
        // The API server hears of roles, and controllers of namespaces, a little later.
        cluster
            .until("a tenant may make pods", async || {
                let path = "/api/v1/namespaces/team/pods?dryRun=All";
                let made = tenant.api.send(Method::POST, path, JSON, Some(&isolated())).await;
                made.map_err(|why| why.to_string())
            })
            .await;
        tenant
    }

    async fn is_refused_at_create(&self) {
        let cluster = self.cluster;
        let pod = isolated();
        let label = |key: &str| format!("/metadata/labels/{}", key.replace('/', "~1"));
        let annotation = |key: &str| format!("/metadata/annotations/{}", key.replace('/', "~1"));
        let mounted = |path: &str| {
            let pod = with(&pod, MOUNTS, json!([{"name": "v", "mountPath": path}]));
            with(&pod, "/spec/volumes", json!([{"name": "v", "emptyDir": {}}]))
        };
        let variable =
            |name: &str, value: &str| with(&pod, ENV, json!([{"name": name, "value": value}]));
        let mut beside = pod.clone();
        let other = json!({"name": "beside", "image": SERVER, "imagePullPolicy": "Never", "restartPolicy": "Always",
            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]});
        beside["spec"]["initContainers"] = json!([other]);
        for (what, pod, said) in [
            (
                "no level",
                with(&pod, &label(LEVEL), json!("Isoalted")),
                "allowed are Isolated and Shared",
            ),
            (
                "no provider",
                with(
                    &in_its_namespace(share("tries", "0.2", Some("Shared"))),
                    &label(LEVEL),
                    json!("Isolated"),
                ),
                "needs a provider",
            ),
            ("another provider", with(&pod, &label(PROVIDER), json!("mine")), "is no provider"),
            (
                "an off-switch",
                variable("CUDA_DISABLE_CONTROL", "true"),
                "can switch provider HAMi-core off",
            ),
            (
                "the limit of one card",
                variable("CUDA_DEVICE_MEMORY_LIMIT_0", "80g"),
                "can switch provider HAMi-core off",
            ),
            ("more compute", variable("CUDA_DEVICE_SM_LIMIT", "100"), "says how much it may use"),
            ("its devices", variable("NVIDIA_VISIBLE_DEVICES", "nvidia.com/gpu=all"), ""),
            ("a mount", mounted("/etc"), "would hide /etc/ld.so.preload"),
            (
                "a mount, spelled otherwise",
                mounted("/tmp/..//etc/."),
                "would hide /etc/ld.so.preload",
            ),
            ("the library's folder", mounted("/usr/local/vgpu/"), "would hide /usr/local/vgpu"),
            (
                "an empty file over the library",
                with(
                    &pod,
                    "/spec/containers/0/terminationMessagePath",
                    json!("/usr/local/vgpu/libvgpu.so"),
                ),
                "terminationMessagePath: \"/usr/local/vgpu/libvgpu.so\" would hide /usr/local/vgpu",
            ),
            ("a file that sets variables", mounted("/overrideEnv"), "would hide /overrideEnv"),
            (
                "the limits of an earlier pod",
                with(
                    &mounted("/tmp"),
                    "/spec/volumes",
                    json!([{"name": "v", "persistentVolumeClaim": {"claimName": "kept"}}]),
                ),
                "could bring a /tmp/cudevshr.cache",
            ),
            ("another container", beside, ""),
            ("its own limit", with(&pod, &annotation("divvy.dev/memory-limit"), json!("0")), ""),
        ] {
            match self.api.create(&pod).await {
                Err(why) => assert_refused(what, &why, said),
                Ok(stored) => {
                    // What was taken out instead.
                    assert_eq!(said, "", "{what}: {stored}");
                    let running = cluster.running(NAMESPACE, "tries").await;
                    cluster.sees_its_part(&running);
                    if running["spec"]["initContainers"].is_array() {
                        let beside = cluster.node.look_into(&running, "beside").unwrap();
                        assert!(beside.cards.is_empty(), "{what}: {beside:?}");
                    }
                    self.delete().await;
                }
            }
        }
    }

    /// Nor can it change what its containers read when they start again.
    async fn is_refused_later(&self) {
        self.api.create(&isolated()).await.unwrap();
        self.cluster.running(NAMESPACE, "tries").await;
        let path = "/api/v1/namespaces/team/pods/tries";
        for (change, said) in [
            (json!({"labels": {LEVEL: "Shared"}}), "cannot become"),
            (json!({"labels": {PROVIDER: null}}), "cannot become"),
            (
                json!({"annotations": {"divvy.dev/memory-limit": "0"}}),
                "come with the binding by divvy",
            ),
            (
                json!({"annotations": {"divvy.dev/class": "Shared"}}),
                "come with the binding by divvy",
            ),
            (
                json!({"annotations": {"scheduling.koordinator.sh/device-allocated": "{}"}}),
                "come with the binding by divvy",
            ),
            (
                json!({"annotations": {"divvy.dev/visible-devices": "nvidia.com/gpu=all"}}),
                "come with the binding by divvy",
            ),
        ] {
            let patch = json!({ "metadata": change });
            let why = self.api.patch(path, &patch).await.unwrap_err();
            assert_refused(&change.to_string(), &why, said);
        }
        // What is nobody else's is its own to change.
        let own = json!({"metadata": {"labels": {"app": "x"}, "annotations": {"mine": "x"}}});
        self.api.patch(path, &own).await.unwrap();
        // A container for debugging has no card.
        let debug = async |devices: &str| {
            let debug = json!({"spec": {"ephemeralContainers": [{
                "name": "debug", "image": SERVER, "imagePullPolicy": "Never",
                "targetContainerName": "server",
                "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": devices}],
            }]}});
            let of_debug = format!("{path}/ephemeralcontainers");
            let kind = "application/strategic-merge-patch+json";
            self.api.send(Method::PATCH, &of_debug, kind, Some(&debug)).await
        };
        let why = debug("nvidia.com/gpu=all").await.unwrap_err();
        assert_refused("debug", &why, "containers for debugging get no GPU");
        debug("void").await.unwrap();
        self.delete().await;
    }

    /// What is not refused changes nothing.
    async fn is_limited_all_the_same(&self) {
        let cluster = self.cluster;
        let config = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": NAMESPACE, "name": "unlimited"},
            "data": {
                "CUDA_DEVICE_MEMORY_LIMIT": "0", "CUDA_DEVICE_MEMORY_LIMIT_0": "80g",
                "CUDA_DISABLE_CONTROL": "true",
            },
        });
        self.api.create(&config).await.unwrap();
        let from = json!([{"configMapRef": {"name": "unlimited"}}]);
        let pod = with(&isolated(), "/spec/containers/0/envFrom", from);
        let limit = json!([
            {"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "0"},
            {"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "80g"},
        ]);
        self.api.create(&with(&pod, ENV, limit)).await.unwrap();
        let running = cluster.running(NAMESPACE, "tries").await;
        let found = cluster.node.look_into(&running, "server").unwrap();
        assert_eq!(found.environment["CUDA_DISABLE_CONTROL"], "false");
        // The first process sleeps: the one that `kubectl exec` starts is the first to use the card, and
        // has the variables of the pod alone.
        let inside = cluster.inside(&running, "env");
        assert!(inside.contains("CUDA_DISABLE_CONTROL=false\n"), "{inside}");
        assert!(inside.contains("CUDA_DEVICE_MEMORY_LIMIT_0=\n"), "{inside}");
        cluster.sees_its_part(&running);
        self.delete().await;
    }

    /// What a binding writes, and who isolates where, is not a tenant's at all.
    async fn writes_nothing_that_is_divvys(&self) {
        let mut waits = in_its_namespace(plain("tries"));
        waits["spec"]["schedulerName"] = json!("nobody");
        self.api.create(&waits).await.unwrap();
        let pod = "/api/v1/namespaces/team/pods/tries";
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": "tries", "annotations": {"divvy.dev/class": "Shared"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": Node::NAME},
        });
        let label = json!({"metadata": {"labels": {PROVIDER: "mine"}}});
        let merge = "application/merge-patch+json";
        let policy =
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/divvy-hand-off";
        for (method, path, kind, body) in [
            (Method::POST, format!("{pod}/binding"), JSON, Some(&binding)),
            (Method::PATCH, format!("{pod}/status"), merge, Some(&label)),
            (Method::PATCH, format!("/api/v1/nodes/{}", Node::NAME), merge, Some(&label)),
            (Method::DELETE, policy.to_owned(), JSON, None),
        ] {
            let why = self.api.send(method, &path, kind, body).await.unwrap_err();
            let ApiError::Refused { status, message, .. } = why else { panic!("{path}: {why}") };
            assert_eq!(status, StatusCode::FORBIDDEN, "{path}");
            assert!(message.contains(RBAC), "{path}: {message}");
        }
        self.delete().await;
    }

    async fn delete(&self) {
        self.cluster.delete(NAMESPACE, "tries").await;
    }
}
