//! Owners of pods that say how these are to be placed, as the recipe's Deployment does.

use crate::cluster::{Cluster, cluster, eventually};
use divvy_testbed::api::Api;
use serde_json::{Value, json};

const STRATEGY: &str = "scheduling.run.ai/scheduling-strategy";

fn deployment(namespace: &str, name: &str, strategy: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": namespace, "name": name, "annotations": {STRATEGY: strategy}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "inference"}},
            "template": {
                "metadata": {"labels": {"app": "inference", "runai/queue": "inference"}},
                "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "server", "image": "x",
                    "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
            },
        },
    })
}

fn path_of(object: &Value) -> String {
    let [namespace, name] =
        ["namespace", "name"].map(|field| object["metadata"][field].as_str().unwrap());
    format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
}

/// The strategy of what comes out of a template.
fn strategy(template: &Value) -> Option<&str> {
    template["metadata"]["annotations"][STRATEGY].as_str()
}

/// Its webhook is no guard: it may be known later than the others.
fn wait_until_asked(cluster: &Cluster, api: &Api, tenant: &str) {
    eventually("the webhook for templates is asked", || {
        let probe =
            cluster.runtime.block_on(api.create(&deployment(tenant, "probe", "spread"))).unwrap();
        cluster.runtime.block_on(api.delete(&path_of(&probe))).unwrap();
        strategy(&probe["spec"]["template"]).is_some()
    });
}

#[test]
fn the_pods_of_the_recipes_deployment_say_what_it_says() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    wait_until_asked(&cluster, &api, &tenant);
    let stored =
        cluster.runtime.block_on(api.create(&deployment(&tenant, "spread", "spread"))).unwrap();
    assert_eq!(strategy(&stored["spec"]["template"]), Some("spread"));
    eventually("its pods are made, and say it", || {
        let pods = format!("/api/v1/namespaces/{tenant}/pods?labelSelector=app=inference");
        let pods = cluster.runtime.block_on(api.get(&pods)).unwrap();
        let theirs: Vec<&Value> = pods["items"].as_array().into_iter().flatten().collect();
        let owned = |pod: &&&Value| {
            pod["metadata"]["name"].as_str().unwrap_or_default().starts_with("spread-")
        };
        let theirs: Vec<_> = theirs.iter().filter(owned).collect();
        theirs.len() == 2 && theirs.iter().all(|pod| strategy(pod) == Some("spread"))
    });
    // Changed, and taken away.
    for (value, expected) in [(json!("binpack"), Some("binpack")), (Value::Null, None)] {
        let patch = json!({"metadata": {"annotations": {STRATEGY: value}}});
        let stored = cluster.runtime.block_on(api.patch(&path_of(&stored), &patch)).unwrap();
        assert_eq!(strategy(&stored["spec"]["template"]), expected);
    }
    // A typo is told where it was made.
    let wrong = deployment(&tenant, "wrong", "sprad");
    let file = cluster.plane.folder().join("wrong.json");
    std::fs::write(&file, wrong.to_string()).unwrap();
    let output = cluster.plane.kubectl().args(["apply", "-f"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("\"sprad\" is not passed on to its pods"),
        "{said}"
    );
}
