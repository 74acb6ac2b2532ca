//! A tenant tries to get more than its Isolated share: the policy of `optional-isolation.yaml`, which
//! holds whatever the webhooks do.

use crate::cluster::{Cluster, cluster, eventually, is_about, manifest, pod, with_share};
use divvy_words::isolation::Provider;
use serde_json::{Value, json};

const LEVEL: &str = "koordinator.sh/gpu-share-isolation-level";
const PROVIDER: &str = "koordinator.sh/gpu-isolation-provider";
const UNLIMITED: &str = "reads its limit from the annotation divvy.dev/memory-limit";

/// What the container of an Isolated share has: its limit, and off-switches at safe values.
fn good() -> Vec<Value> {
    let safe = Provider::hami_core().environment;
    let safe = safe.iter().map(|(name, value)| json!({"name": name, "value": value}));
    [limit()].into_iter().chain(safe).collect()
}

fn limit() -> Value {
    let path = "metadata.annotations['divvy.dev/memory-limit']";
    json!({"name": "CUDA_DEVICE_MEMORY_LIMIT", "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

fn isolated(namespace: &str, name: &str, env: &[Value]) -> Value {
    // The webhooks of this cluster leave the pods of this scheduler alone.
    let mut pod = with_share(pod(namespace, name, "koord-scheduler"), "0.5");
    pod["metadata"]["labels"] = json!({LEVEL: "Isolated", PROVIDER: "HAMi-core"});
    let path = "metadata.annotations['divvy.dev/visible-devices']";
    let card =
        json!({"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": path}}});
    pod["spec"]["containers"][0]["env"] = std::iter::once(&card).chain(env).cloned().collect();
    pod
}

/// The policy, until it is dropped.
struct Policy<'a>(&'a Cluster);

impl Drop for Policy<'_> {
    fn drop(&mut self) {
        let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/divvy-isolation";
        let _ = self.0.runtime.block_on(self.0.admin.delete(path));
    }
}

#[test]
fn an_isolated_share_is_limited_from_the_start_and_stays_so() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    cluster.apply(&manifest("optional-isolation"));
    let policy = Policy(&cluster);
    eventually("the policy acts", || {
        is_about(&cluster.dry_create(&cluster.admin, &isolated(&tenant, "probe", &[])), UNLIMITED)
    });
    let refused = |pod: &Value, why: &str| {
        let said = cluster.runtime.block_on(api.create(pod));
        assert!(is_about(&said, why), "{said:?}");
    };
    refused(&isolated(&tenant, "none", &[]), UNLIMITED);
    // A pod that says its provider alone means Isolated: the scheduler takes it so.
    let mut unsaid = isolated(&tenant, "unsaid", &[]);
    unsaid["metadata"]["labels"] = json!({PROVIDER: "HAMi-core"});
    refused(&unsaid, UNLIMITED);
    let and = |more: Value| [good(), vec![more]].concat();
    let second = json!({"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "0"});
    refused(&isolated(&tenant, "second", &and(second)), "are set once");
    for name in
        ["CUDA_DISABLE_CONTROL", "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_MEMORY_SHARED_CACHE"]
    {
        let without = || good().into_iter().filter(|entry| entry["name"] != name);
        let from = json!({"configMapKeyRef": {"name": "x", "key": "y"}});
        let off = json!({"name": name, "value": "true"});
        let others = [Some(off.clone()), Some(json!({"name": name, "valueFrom": from})), None];
        for env in
            others.map(|other| without().chain(other).collect()).into_iter().chain([and(off)])
        {
            refused(&isolated(&tenant, "off", &env), "switch the provider");
        }
    }
    for path in [
        "/etc",
        "//etc/.",
        "/",
        "/tmp/../etc",
        "/etc//ld.so.preload",
        "/usr/local/vgpu/x",
        "/usr/local/",
        "/overrideEnv",
    ] {
        let mut pod = isolated(&tenant, "mount", &good());
        pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": path}]);
        refused(&pod, "must not hide");
    }
    for path in ["/usr/local/vgpu/libvgpu.so", "//etc/./ld.so.preload", "/overrideEnv"] {
        let mut pod = isolated(&tenant, "message", &good());
        pod["spec"]["containers"][0]["terminationMessagePath"] = json!(path);
        refused(&pod, "must not hide");
    }
    let mut kept = isolated(&tenant, "kept", &good());
    kept["spec"]["volumes"] =
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": "kept"}}]);
    for path in ["/tmp", "/tmp/cudevshr.cache"] {
        kept["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": path}]);
        refused(&kept, "only an emptyDir may be in front");
    }
    let mut block = isolated(&tenant, "block", &good());
    block["spec"]["volumes"] =
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": "raw"}}]);
    block["spec"]["containers"][0]["volumeDevices"] =
        json!([{"name": "v", "devicePath": "/etc/ld.so.preload"}]);
    refused(&block, "must not hide");
    let mut well = isolated(&tenant, "good", &good());
    well["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}, {"name": "t", "emptyDir": {}}]);
    well["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "v", "mountPath": "/etc/app"}, {"name": "t", "mountPath": "/tmp"}]);
    cluster.runtime.block_on(api.create(&well)).unwrap();
    let path = format!("/api/v1/namespaces/{tenant}/pods/good");
    let patch = |labels: Value| {
        cluster.runtime.block_on(api.patch(&path, &json!({"metadata": {"labels": labels}})))
    };
    for labels in [json!({LEVEL: "Shared"}), json!({LEVEL: null}), json!({PROVIDER: "x"})] {
        let said = patch(labels);
        assert!(is_about(&said, "are fixed when its pod is created"), "{said:?}");
    }
    patch(json!({"app": "x"})).unwrap();
    // A share can be that of an init container.
    let mut init = pod(&tenant, "init", "koord-scheduler");
    let asks = json!({"koordinator.sh/gpu": "50"});
    init["spec"]["initContainers"] =
        json!([{"name": "i", "image": "x", "resources": {"limits": asks, "requests": asks}}]);
    cluster.runtime.block_on(api.create(&init)).unwrap();
    let path = format!("/api/v1/namespaces/{tenant}/pods/init");
    let labels = json!({"metadata": {"labels": {LEVEL: "Isolated"}}});
    let said = cluster.runtime.block_on(api.patch(&path, &labels));
    assert!(is_about(&said, "are fixed when its pod is created"), "{said:?}");
    // A share that is not Isolated is nobody's business here.
    let mut shared = isolated(&tenant, "shared", &[]);
    shared["metadata"]["labels"] = json!({LEVEL: "Shared"});
    cluster.runtime.block_on(api.create(&shared)).unwrap();
    drop(policy);
}
