//! A tenant with `edit` in its namespace tries to get a card that it was not given.

use crate::cluster::{cluster, eventually, is_about, pod, with_share};
use divvy_testbed::api::Api;
use http::Method;
use serde_json::{Value, json};

const JSON: &str = "application/json";

/// What the pods of a tenant may not say, whoever schedules them.
#[test]
fn no_pod_can_be_made_that_names_a_device() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let devices = |source: Value| {
        let mut entry = json!({"name": "NVIDIA_VISIBLE_DEVICES"});
        entry.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        entry
    };
    let value = |text: &str| json!({"containers": [{"name": "c", "image": "x", "env": [devices(json!({"value": text}))]}]});
    let from = |source: Value| json!({"containers": [{"name": "c", "image": "x", "env": [devices(json!({"valueFrom": source}))]}]});
    let void = || devices(json!({"value": "void"}));
    let only = "void or none only";
    let annotation =
        |key: &str| json!({"fieldRef": {"fieldPath": format!("metadata.annotations['{key}']")}});
    let rows = [
        ("all cards", value("all"), only),
        ("a card by number", value("0"), only),
        ("a card by UUID", value("GPU-5d3b"), only),
        ("a card by its CDI name", value("nvidia.com/gpu=0"), only),
        ("the empty text, which some runtimes take for none", value(""), only),
        ("a variable in a variable", value("$(MINE)"), only),
        ("a ConfigMap", from(json!({"configMapKeyRef": {"name": "c", "key": "k"}})), only),
        ("a Secret", from(json!({"secretKeyRef": {"name": "c", "key": "k"}})), only),
        ("an annotation of one's own", from(annotation("mine")), only),
        ("a label", from(json!({"fieldRef": {"fieldPath": "metadata.labels['mine']"}})), only),
        (
            "void first, and all behind it",
            json!({"containers": [{"name": "c", "image": "x", "env": [void(), devices(json!({"value": "all"}))]}]}),
            only,
        ),
        (
            "an init container",
            json!({"initContainers": [{"name": "i", "image": "x", "env": [devices(json!({"value": "all"}))]}],
                "containers": [{"name": "c", "image": "x"}]}),
            only,
        ),
        (
            "beside a whole card",
            json!({"containers": [{"name": "c", "image": "x", "env": [devices(json!({"value": "all"}))],
                "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}),
            only,
        ),
        (
            "a mount that names devices",
            json!({"volumes": [{"name": "v", "emptyDir": {}}], "containers": [{"name": "c", "image": "x",
                "volumeMounts": [{"name": "v", "mountPath": "/var/run/nvidia-container-devices/all"}]}]}),
            "mounts under /var/run/nvidia-container-devices",
        ),
    ];
    cluster.runtime.block_on(async {
        for (scheduler, name) in
            [("default-scheduler", "d"), ("divvy-scheduler", "o"), ("kai-scheduler", "k")]
        {
            for (at, (what, spec, why)) in rows.iter().enumerate() {
                let mut given = pod(&tenant, &format!("{name}-{at}"), scheduler);
                given["spec"] = spec.clone();
                given["spec"]["schedulerName"] = json!(scheduler);
                let result = api.create(&given).await;
                let told_by_webhook = is_about(&result, "sets NVIDIA_VISIBLE_DEVICES");
                assert!(
                    is_about(&result, why) || told_by_webhook,
                    "{what}, {scheduler}: {result:?}"
                );
            }
        }
        // Zero GPUs are none: the device plugin is not asked, so the image would decide.
        let mut zero = pod(&tenant, "zero", "default-scheduler");
        zero["spec"]["runtimeClassName"] = json!("nvidia");
        zero["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "0"}});
        let stored = api.create(&zero).await.unwrap();
        assert_eq!(stored["spec"]["containers"][0]["env"], json!([void()]));
    });
}

/// A variable can only read the annotation that a binding brings, and envFrom does not beat it.
#[test]
fn a_pod_that_is_stored_has_no_card_before_divvy_binds_it() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    cluster.runtime.block_on(async {
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": tenant, "name": "all"},
            "data": {"NVIDIA_VISIBLE_DEVICES": "all", "VISIBLE_DEVICES": "all"}});
        let result = api.create(&map).await;
        assert!(is_about(&result, "would name devices"), "{result:?}");
        map["data"].as_object_mut().unwrap().remove("NVIDIA_VISIBLE_DEVICES");
        api.create(&map).await.unwrap();
        let add = json!({"data": {"NVIDIA_VISIBLE_DEVICES": "all"}});
        let path = format!("/api/v1/namespaces/{tenant}/configmaps/all");
        let result = api.patch(&path, &add).await;
        assert!(is_about(&result, "would name devices"), "{result:?}");
        let from = json!([{"configMapRef": {"name": "all"}}, {"prefix": "NVIDIA_", "configMapRef": {"name": "all"}}]);
        let mut share = with_share(pod(&tenant, "share", "divvy-scheduler"), "0.5");
        share["spec"]["containers"] = json!([
            {"name": "main", "image": "x", "envFrom": from}, {"name": "other", "image": "x", "envFrom": from},
        ]);
        let stored = api.create(&share).await.unwrap();
        let first = |at: usize| stored["spec"]["containers"][at]["env"][0].clone();
        assert_eq!(first(0)["name"], "NVIDIA_VISIBLE_DEVICES");
        assert_eq!(
            first(0)["valueFrom"]["fieldRef"]["fieldPath"],
            "metadata.annotations['divvy.dev/visible-devices']"
        );
        assert_eq!(first(1), json!({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}));
    });
}

#[test]
fn nobody_but_divvy_can_grant_a_card_to_a_pod() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let only = "come with the binding by divvy";
    let pods = format!("/api/v1/namespaces/{tenant}/pods");
    let share = format!("{pods}/share");
    let grant = |value: &str| json!({"divvy.dev/visible-devices": value, "divvy.dev/cards": "0:1"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    cluster.admin_create(&node);
    let binding = |pod: &str, annotations: Value, labels: Value| {
        json!({"apiVersion": "v1", "kind": "Binding",
            "metadata": {"namespace": tenant, "name": pod, "annotations": annotations, "labels": labels},
            "target": {"kind": "Node", "name": "n1"}})
    };
    let divvy = cluster.api_of("divvy-system", "divvy-scheduler");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "binder"},
        "rules": [{"apiGroups": [""], "resources": ["pods/binding", "bindings", "pods"], "verbs": ["create", "patch", "get"]}]});
    let bound = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "binder"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "binder"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "divvy-system", "name": "divvy-scheduler"}]});
    cluster.admin_create(&role);
    cluster.admin_create(&bound);
    cluster.wait_for_rights(&tenant, &role, "divvy-system", "divvy-scheduler");
    cluster.runtime.block_on(async {
        api.create(&with_share(pod(&tenant, "share", "divvy-scheduler"), "0.5")).await.unwrap();
        let annotate = json!({"metadata": {"annotations": grant("all")}});
        let label = json!({"metadata": {"labels": {"runai-gpu-group": "theirs"}}});
        let status = format!("{share}/status");
        let bind = format!("{share}/binding");
        let bindings = format!("/api/v1/namespaces/{tenant}/bindings");
        let wrong = binding("share", grant("all"), json!({}));
        let admin = &cluster.admin;
        for (what, result, why) in [
            ("annotate", api.patch(&share, &annotate).await, only),
            ("annotate as administrator", admin.patch(&share, &annotate).await, only),
            ("annotate as divvy, but not by a binding", divvy.patch(&share, &annotate).await, only),
            (
                "the status, which `edit` may not write",
                api.patch(&status, &annotate).await,
                "cannot patch",
            ),
            ("the status as administrator", admin.patch(&status, &annotate).await, only),
            ("label", api.patch(&share, &label).await, "the label runai-gpu-group"),
            ("bind", api.send(Method::POST, &bind, JSON, Some(&wrong)).await, "cannot create"),
            (
                "bind the old way",
                api.send(Method::POST, &bindings, JSON, Some(&wrong)).await,
                "cannot create",
            ),
            (
                "bind as administrator",
                admin.send(Method::POST, &bind, JSON, Some(&wrong)).await,
                only,
            ),
            (
                "bind the old way as administrator",
                admin.send(Method::POST, &bindings, JSON, Some(&wrong)).await,
                only,
            ),
        ] {
            assert!(is_about(&result, why), "{what}: {result:?}");
        }
        // divvy does, and then nobody changes it.
        let right = binding("share", grant("GPU-1"), json!({"runai-gpu-group": "g"}));
        divvy.send(Method::POST, &bind, JSON, Some(&right)).await.unwrap();
        let stored = admin.get(&share).await.unwrap();
        assert_eq!(stored["metadata"]["annotations"]["divvy.dev/visible-devices"], "GPU-1");
        assert_eq!(stored["spec"]["nodeName"], "n1");
        let remove = json!({"metadata": {"annotations": {"divvy.dev/cards": null}}});
        for (what, result) in [
            ("change", api.patch(&share, &annotate).await),
            ("remove", api.patch(&share, &remove).await),
            ("change as administrator", admin.patch(&share, &annotate).await),
            ("change as divvy", divvy.patch(&share, &annotate).await),
            ("change with the status", admin.patch(&status, &annotate).await),
        ] {
            assert!(is_about(&result, only), "{what}: {result:?}");
        }
        // The kubelet still reports, and people still annotate.
        admin.patch(&status, &json!({"status": {"phase": "Running"}})).await.unwrap();
        api.patch(&share, &json!({"metadata": {"annotations": {"note": "x"}}})).await.unwrap();
        // A new pod with a grant of its own loses it.
        let mut own = with_share(pod(&tenant, "own", "divvy-scheduler"), "0.5");
        own["metadata"]["annotations"]["divvy.dev/visible-devices"] = json!("all");
        let stored = api.create(&own).await.unwrap();
        assert_eq!(stored["metadata"]["annotations"], json!({"gpu-fraction": "0.5"}));
        // Also one that goes to a node by itself, and past every webhook by its scheduler's name.
        let mut past = pod(&tenant, "past", "own-scheduler");
        past["spec"]["nodeName"] = json!("n1");
        past["metadata"]["annotations"] = grant("all");
        let stored = api.create(&past).await.unwrap();
        assert_eq!(
            stored["metadata"].get("annotations").and_then(|a| a.get("divvy.dev/cards")),
            None
        );
    });
}

/// Policies have a budget: what exceeds it is refused, and must not be the kubelet's report.
#[test]
fn a_pod_of_very_many_parts_opens_nothing_and_blocks_nothing() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let many: serde_json::Map<_, _> = (0..24_000).map(|i| (format!("a{i}"), json!("x"))).collect();
    let variables = |last: Value| {
        let plain = (0..10_000).map(|i| json!({"name": format!("A{i}"), "value": "x"}));
        plain.chain([last]).collect::<Vec<_>>()
    };
    let devices = |value: &str| json!({"name": "NVIDIA_VISIBLE_DEVICES", "value": value});
    let path = format!("/api/v1/namespaces/{tenant}/pods/large");
    let running = json!({"status": {"phase": "Running"}});
    cluster.runtime.block_on(async {
        let mut large = with_share(pod(&tenant, "large", "divvy-scheduler"), "0.5");
        large["spec"]["containers"][0]["env"] = json!(variables(devices("all")));
        let stored = api.create(&large).await.unwrap();
        let named = stored["spec"]["containers"][0]["env"].as_array().unwrap().iter();
        let named: Vec<_> = named.filter(|e| e["name"] == "NVIDIA_VISIBLE_DEVICES").collect();
        assert_eq!(named.len(), 1);
        assert_eq!(named[0].get("value"), None);
        let _ = api.patch(&path, &json!({"metadata": {"annotations": many}})).await;
        cluster.admin.patch(&format!("{path}/status"), &running).await.unwrap();
        let grant = json!({"metadata": {"annotations": {"divvy.dev/visible-devices": "all"}}});
        assert!(api.patch(&path, &grant).await.is_err());
        let mut own = pod(&tenant, "own", "default-scheduler");
        own["spec"]["containers"][0]["env"] = json!(variables(devices("all")));
        own["metadata"]["annotations"] = json!(many);
        assert!(api.create(&own).await.is_err());
    });
}

#[test]
fn debugging_a_share_pod_gives_no_card() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let debug = |name: &str, env: Value| json!({"spec": {"ephemeralContainers": [{"name": name, "image": "x", "env": env}]}});
    let all = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
    let granted = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath":
        "metadata.annotations['divvy.dev/visible-devices']"}}}]);
    let merge = "application/strategic-merge-patch+json";
    cluster.runtime.block_on(async {
        let share = with_share(pod(&tenant, "share", "divvy-scheduler"), "0.5");
        let mut gpu = pod(&tenant, "runtime", "default-scheduler");
        gpu["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
        for given in [share, gpu] {
            api.create(&given).await.unwrap();
            let name = given["metadata"]["name"].as_str().unwrap();
            let path = format!("/api/v1/namespaces/{tenant}/pods/{name}/ephemeralcontainers");
            for (name, env) in [("all", &all), ("granted", &granted)] {
                let result =
                    api.send(Method::PATCH, &path, merge, Some(&debug(name, env.clone()))).await;
                assert!(is_about(&result, "for debugging"), "{name}: {result:?}");
            }
            let stored = api
                .send(Method::PATCH, &path, merge, Some(&debug("silent", json!([]))))
                .await
                .unwrap();
            let expected = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]);
            assert_eq!(stored["spec"]["ephemeralContainers"][0]["env"], expected, "{name}");
        }
    });
}

#[test]
fn the_reservation_namespace_is_closed_also_to_those_who_may_edit_it() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let place = "kai-resource-reservation";
    // Somebody was generous.
    cluster.grant(place, "ClusterRole", "edit", &tenant, "tenant");
    cluster.grant(place, "ClusterRole", "edit", "divvy-system", "divvy-scheduler");
    let divvy = cluster.api_of("divvy-system", "divvy-scheduler");
    cluster.wait_for_account(place, "default");
    let mut reservation = pod(place, "gpu-reservation-1", "divvy-scheduler");
    reservation["metadata"]["labels"] =
        json!({"app": "kai-resource-reservation", "runai-gpu-group": "g"});
    reservation["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
    let path = format!("/api/v1/namespaces/{place}/pods/gpu-reservation-1");
    cluster.runtime.block_on(async {
        let mut own = reservation.clone();
        own["metadata"]["name"] = json!("own");
        divvy.create(&reservation).await.unwrap();
        let note = json!({"metadata": {"labels": {"runai-gpu-group": "mine"}}});
        let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "x"}]}});
        let merge = "application/strategic-merge-patch+json";
        let inside = format!("{path}/ephemeralcontainers");
        let exec = format!("{path}/exec?command=sh&container=main");
        let evict = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "gpu-reservation-1", "namespace": place}});
        let eviction = format!("{path}/eviction");
        for (what, result) in [
            ("make one", api.create(&own).await),
            ("make one as administrator", cluster.admin.create(&own).await),
            ("change its label", api.patch(&path, &note).await),
            (
                "add a container as administrator",
                cluster.admin.send(Method::PATCH, &inside, merge, Some(&debug)).await,
            ),
            ("get into it", api.send(Method::POST, &exec, JSON, None).await),
            ("delete it", api.delete(&path).await),
            ("evict it", api.send(Method::POST, &eviction, JSON, Some(&evict)).await),
        ] {
            assert!(is_about(&result, "hold shared cards"), "{what}: {result:?}");
        }
        divvy.patch(&path, &json!({"metadata": {"annotations": {"run.ai/reserve_for_gpu_index": "GPU-1"}}})).await.unwrap();
        cluster.admin.delete(&path).await.unwrap();
    });
}

#[test]
fn no_node_makes_a_reservation_pod_by_itself() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, _) = cluster.tenant();
    let place = "kai-resource-reservation";
    cluster.wait_for_account(place, "default");
    let kubeconfig = cluster.plane.folder().join("kubeconfig-node");
    let node = cluster.runtime.block_on(Api::from_kubeconfig(&kubeconfig)).unwrap();
    let its = cluster.admin_create(
        &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-node"}}),
    );
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "gpu-node",
        "uid": its["metadata"]["uid"], "controller": true});
    let mirror = |namespace: &str| {
        let mut pod = pod(namespace, "gpu-reservation-1", "default-scheduler");
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        pod["metadata"]["labels"] = json!({"app": place});
        pod["metadata"]["ownerReferences"] = json!([owner]);
        pod["spec"]["nodeName"] = json!("gpu-node");
        cluster.runtime.block_on(node.create(&pod))
    };
    // The API server hears of the node in its own time.
    eventually("it may elsewhere", || mirror(&tenant).is_ok());
    let said = mirror(place);
    cluster.runtime.block_on(cluster.admin.delete("/api/v1/nodes/gpu-node")).unwrap();
    assert!(is_about(&said, "hold shared cards"), "{said:?}");
}

#[test]
fn what_edit_does_not_allow_anyway() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let pod = pod("divvy-system", "own", "default-scheduler");
    let token =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let account = "/api/v1/namespaces/divvy-system/serviceaccounts/divvy-scheduler/token";
    let policy =
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/divvy-hand-off";
    let label = json!({"metadata": {"labels": {"divvy.dev/gpu-system": "true"}}});
    let own_namespace = format!("/api/v1/namespaces/{tenant}");
    cluster.runtime.block_on(async {
        for (what, result) in [
            ("a pod in divvy's namespace", api.create(&pod).await),
            ("act as divvy", api.send(Method::POST, account, JSON, Some(&token)).await),
            ("read the key of the webhooks", api.get(crate::cluster::SECRET).await),
            ("take the policy away", api.delete(policy).await),
            (
                "point the webhooks elsewhere",
                api.patch(crate::cluster::WEBHOOKS[0], &json!({})).await,
            ),
            (
                "make the own namespace one that manages GPUs",
                api.patch(&own_namespace, &label).await,
            ),
        ] {
            assert!(is_about(&result, "403"), "{what}: {result:?}");
        }
    });
}
