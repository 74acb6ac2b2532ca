//! What a user sees.

use crate::cluster::{cluster, eventually, is_about, manifest, namespace, pod, with_share};
use divvy_testbed::free_ports;
use serde_json::{Value, json};

pub fn entry<'a>(container: &'a Value, name: &str) -> Vec<&'a Value> {
    let env = container["env"].as_array();
    env.into_iter().flatten().filter(|entry| entry["name"] == name).collect()
}

#[test]
fn a_share_pod_is_stored_with_its_variables_and_the_runtime_class() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let mut given = with_share(pod(&tenant, "share", "kai-scheduler"), "0.5");
    given["spec"]["initContainers"] = json!([{"name": "init", "image": "x"}]);
    given["metadata"]["annotations"]["received-resource-type"] = json!("Fraction");
    given["metadata"]["labels"] = json!({"runai-gpu-group": "a-copy"});
    let stored = cluster.runtime.block_on(api.create(&given)).unwrap();
    let (main, init) = (&stored["spec"]["containers"][0], &stored["spec"]["initContainers"][0]);
    let path = "metadata.annotations['divvy.dev/visible-devices']";
    let visible = entry(main, "NVIDIA_VISIBLE_DEVICES");
    assert_eq!(visible.len(), 1);
    assert_eq!(visible[0]["valueFrom"]["fieldRef"]["fieldPath"], path);
    for name in ["GPU_PORTION", "RUNAI_NUM_OF_GPUS", "DIVVY_CARDS"] {
        assert_eq!(entry(main, name).len(), 1, "{name}");
    }
    assert_eq!(entry(init, "NVIDIA_VISIBLE_DEVICES")[0]["value"], "void");
    assert_eq!(stored["spec"]["runtimeClassName"], "nvidia");
    assert_eq!(stored["metadata"]["annotations"], json!({"gpu-fraction": "0.5"}));
    assert_eq!(stored["metadata"].get("labels"), None);
}

#[test]
fn a_pod_copied_from_a_cluster_with_kai_is_stored_without_the_config_maps_of_kai() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let map = "share-x7k2p9q-shared-gpu-0";
    let mut given = with_share(pod(&tenant, "share", "kai-scheduler"), "0.5");
    given["metadata"]["annotations"]["runai/shared-gpu-configmap"] =
        json!("share-x7k2p9q-shared-gpu");
    given["spec"]["volumes"] = json!([{"name": format!("{map}-vol"), "configMap": {"name": map}}]);
    let main = &mut given["spec"]["containers"][0];
    let key =
        |name| json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": map, "key": name}}});
    main["env"] = ["NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION"].map(key).into();
    main["envFrom"] = json!([{"configMapRef": {"name": format!("{map}-evar"), "optional": false}}]);
    let stored = cluster.runtime.block_on(api.create(&given)).unwrap();
    assert!(!stored["spec"].to_string().contains("shared-gpu"), "{stored}");
    assert_eq!(stored["metadata"]["annotations"], json!({"gpu-fraction": "0.5"}));
    let visible = entry(&stored["spec"]["containers"][0], "NVIDIA_VISIBLE_DEVICES");
    let path = "metadata.annotations['divvy.dev/visible-devices']";
    assert_eq!(visible[0]["valueFrom"]["fieldRef"]["fieldPath"], path);
}

#[test]
fn kubectl_shows_the_warnings_and_the_errors_of_kai() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, _) = cluster.tenant();
    let create = |name: &str, pod: &Value| {
        let file = cluster.plane.folder().join(format!("{name}.json"));
        std::fs::write(&file, pod.to_string()).unwrap();
        let output = cluster.plane.kubectl().args(["create", "-f"]).arg(file).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let mut stray = pod(&tenant, "stray", "default-scheduler");
    stray["metadata"]["annotations"] = json!({"divvy.dev/cards": "0:1"});
    let told = create("stray", &stray);
    let warning = "Warning: metadata.annotations[\"divvy.dev/cards\"] was removed: divvy writes it when it places the pod";
    assert!(told.contains(warning), "{told}");
    let told = create("seven", &with_share(pod(&tenant, "seven", "divvy-scheduler"), "7"));
    let expected = "admission webhook \"validate.divvy.dev\" denied the request: gpu-fraction annotation value must be a positive number smaller than 1.0";
    assert!(told.contains(expected), "{told}");
    let mut node = with_share(pod(&tenant, "node", "divvy-scheduler"), "0.5");
    node["spec"]["nodeName"] = json!("n1");
    let told = create("node", &node);
    assert!(told.contains("denied the request: spec.nodeName: \"n1\" is set"), "{told}");
}

#[test]
fn what_a_pod_asks_cannot_be_changed_and_the_rest_can() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let path = format!("/api/v1/namespaces/{tenant}/pods/share");
    let annotate = |annotations: Value| json!({"metadata": {"annotations": annotations}});
    cluster.runtime.block_on(async {
        api.create(&with_share(pod(&tenant, "share", "divvy-scheduler"), "0.5")).await.unwrap();
        for annotations in [
            json!({"gpu-fraction": "0.1"}),
            json!({"gpu-fraction": null}),
            json!({"gpu-fraction-num-devices": "8"}),
        ] {
            let result = api.patch(&path, &annotate(annotations.clone())).await;
            assert!(is_about(&result, "is fixed when it is created"), "{annotations} {result:?}");
        }
        api.patch(&path, &annotate(json!({"note": "x"}))).await.unwrap();
    });
}

#[test]
fn pods_without_gpus_never_wait_and_pods_with_gpus_are_refused_while_the_webhooks_are_down() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let share = || with_share(pod(&tenant, "share", "divvy-scheduler"), "0.5");
    let up = cluster.address;
    cluster.runtime.block_on(api.create(&share())).unwrap();
    let [nobody] = free_ports().unwrap();
    cluster.point_webhooks_to(([127, 0, 0, 1], nobody).into());
    let next = with_share(pod(&tenant, "next", "divvy-scheduler"), "0.5");
    // Not stored, however long the server goes on asking those that are up.
    eventually("the webhooks are down", || {
        is_about(&cluster.dry_create(&api, &next), "failed calling webhook")
    });
    let mut whole = pod(&tenant, "whole", "default-scheduler");
    whole["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
    let mut devices = pod(&tenant, "devices", "default-scheduler");
    devices["spec"]["containers"][0]["env"] =
        json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
    let path = format!("/api/v1/namespaces/{tenant}/pods/share");
    let note = json!({"metadata": {"annotations": {"note": "x"}}});
    let grant = json!({"metadata": {"annotations": {"divvy.dev/visible-devices": "all"}}});
    cluster.runtime.block_on(async {
        api.create(&pod(&tenant, "plain", "divvy-scheduler")).await.unwrap();
        api.create(&pod(&tenant, "other", "default-scheduler")).await.unwrap();
        api.create(&whole).await.unwrap();
        api.patch(&path, &note).await.unwrap();
        // The policies hold.
        let granted = api.patch(&path, &grant).await;
        assert!(is_about(&granted, "come with the binding by divvy"), "{granted:?}");
        let devices = api.create(&devices).await;
        assert!(is_about(&devices, "void or none only"), "{devices:?}");
    });
    cluster.point_webhooks_to(up);
    eventually("the webhooks are up", || cluster.runtime.block_on(api.create(&next)).is_ok());
}

#[test]
fn a_container_that_another_webhook_adds_gets_no_card() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    // A policy stands for the other webhook. Policies come first, and again when a webhook has
    // changed the pod: only then it adds its container, and ours must come again too.
    let mutation = "object.spec.containers[0].?env.orValue([]).exists(e, e.name == 'DIVVY_CARDS')
        ? [JSONPatch{op: 'add', path: '/spec/containers/-', value: Object.spec.containers{name: 'late', image: 'x'}}]
        : [JSONPatch{op: 'add', path: '/metadata/labels/seen', value: 'yes'}]";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "sidecar"},
        "spec": {
            "failurePolicy": "Fail", "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["pods"]}]},
            "matchConditions": [{"name": "asked", "expression":
                "object.metadata.?labels[?'sidecar'].hasValue() && object.spec.containers.size() == 1"}],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": mutation}}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "sidecar"}, "spec": {"policyName": "sidecar"},
    });
    cluster.apply(&format!("{policy}\n---\n{binding}"));
    let mut given = with_share(pod(&tenant, "share", "divvy-scheduler"), "0.5");
    given["metadata"]["labels"] = json!({"sidecar": "yes"});
    let path = format!("/api/v1/namespaces/{tenant}/pods/share");
    eventually("the other one adds its container", || {
        cluster.runtime.block_on(async {
            let stored = api.create(&given).await.unwrap();
            let is_there = stored["spec"]["containers"][1]["name"] == "late";
            if is_there {
                let late = &stored["spec"]["containers"][1];
                assert_eq!(entry(late, "NVIDIA_VISIBLE_DEVICES")[0]["value"], "void");
            }
            api.delete(&path).await.unwrap();
            is_there
        })
    });
}

/// With what the chart adds to both expressions where `runtimeClass.name` is `gpu`.
#[test]
fn no_image_is_believed_in_a_runtime_class_of_another_name() {
    const NVIDIAS: &str = "object.spec.?runtimeClassName.orValue('').startsWith('nvidia')";
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    cluster.admin_create(&json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": "gpu"}, "handler": "nvidia"}));
    let or = format!("{NVIDIAS} || object.spec.?runtimeClassName.orValue('') == 'gpu'");
    let mut given = pod(&tenant, "silent", "default-scheduler");
    given["spec"]["runtimeClassName"] = json!("gpu");
    given["spec"]["nodeName"] = json!("gpu-1");
    cluster.dry_create(&api, &given).unwrap();
    let usual = manifest("policy-visible-devices");
    cluster.apply(&usual.replace(NVIDIAS, &or));
    let refused = "containers that ask for no GPU must have NVIDIA_VISIBLE_DEVICES=void";
    eventually("the policy knows it", || is_about(&cluster.dry_create(&api, &given), refused));
    given["spec"]["containers"][0]["env"] =
        json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]);
    cluster.dry_create(&api, &given).unwrap();
    cluster.apply(&usual);
}

#[test]
fn images_of_containers_without_gpus_get_no_card_whoever_schedules_the_pod() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let mut whole = pod(&tenant, "whole", "default-scheduler");
    whole["spec"]["containers"] = json!([
        {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
        {"name": "log", "image": "x"},
    ]);
    let whole = cluster.runtime.block_on(api.create(&whole)).unwrap();
    assert_eq!(whole["spec"]["containers"][0].get("env"), None, "the device plugin's business");
    let log = &whole["spec"]["containers"][1];
    assert_eq!(entry(log, "NVIDIA_VISIBLE_DEVICES")[0]["value"], "void");

    // Who manages GPUs sees them.
    let mut system = namespace("gpu-tools");
    system["metadata"]["labels"] = json!({"divvy.dev/gpu-system": "true"});
    cluster.admin_create(&system);
    cluster.wait_for_account("gpu-tools", "default");
    let mut exporter = pod("gpu-tools", "exporter", "default-scheduler");
    exporter["spec"]["containers"][0]["env"] =
        json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
    cluster.admin_create(&exporter);
}
