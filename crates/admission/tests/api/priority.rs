//! A tenant wants the priority of reservation pods.

use crate::cluster::{cluster, eventually, is_about, manifest, pod};
use serde_json::{Value, json};

const VALUE: i64 = 1_000_000_000;
const CLASS: &str = "divvy-reservation";
const REFUSED: &str =
    "the priority class divvy-reservation is for pods of divvy that hold shared cards";

#[test]
fn nobody_but_reservation_pods_has_their_priority() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let scheduler = manifest("scheduler");
    let class = scheduler.split("\n---\n").find(|part| part.contains("kind: PriorityClass"));
    cluster.apply(class.unwrap());
    let named = |class: &str, priority: Value| {
        let mut pod = pod(&tenant, "own", "default-scheduler");
        pod["spec"]["priorityClassName"] = json!(class);
        pod["spec"]["priority"] = priority;
        pod
    };
    eventually("the class is known", || {
        is_about(&cluster.runtime.block_on(api.create(&named(CLASS, Value::Null))), REFUSED)
    });
    let path = format!("/api/v1/namespaces/{tenant}/pods/plain");
    let raise = json!({"spec": {"priorityClassName": CLASS, "priority": VALUE}});
    cluster.runtime.block_on(async {
        let number = "the integer value of priority (1000000000) must not be provided in pod spec";
        for (what, given, why) in [
            ("the class and its number", named(CLASS, json!(VALUE)), REFUSED),
            ("the number alone", named("", json!(VALUE)), number),
            (
                "a class that is not there",
                named("own", json!(VALUE)),
                "no PriorityClass with name own",
            ),
        ] {
            for result in [api.create(&given).await, cluster.admin.create(&given).await] {
                assert!(is_about(&result, why), "{what}: {result:?}");
            }
        }
        let own = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "own"}, "value": VALUE});
        let result = api.create(&own).await;
        assert!(is_about(&result, "403"), "a class of one's own: {result:?}");

        let stored = api.create(&pod(&tenant, "plain", "default-scheduler")).await.unwrap();
        assert_eq!(stored["spec"]["priority"], 0);
        let result = api.patch(&path, &raise).await;
        assert!(is_about(&result, "pod updates may not change fields other than"), "{result:?}");
        for part in ["ephemeralcontainers", "resize", "status"] {
            let _ = cluster.admin.patch(&format!("{path}/{part}"), &raise).await;
            let stored = api.get(&path).await.unwrap();
            assert_eq!(stored["spec"]["priority"], 0, "{part}");
            assert_eq!(stored["spec"].get("priorityClassName"), None, "{part}");
        }
    });
    // A controller makes pods as anybody does.
    let template =
        json!({"metadata": {"labels": {"run": "own"}}, "spec": named(CLASS, Value::Null)["spec"]});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"namespace": tenant, "name": "own"},
        "spec": {"selector": {"matchLabels": {"run": "own"}}, "template": template}});
    cluster.runtime.block_on(api.create(&set)).unwrap();
    let path = format!("/apis/apps/v1/namespaces/{tenant}/replicasets/own");
    eventually("the controller is refused", || {
        let set = cluster.runtime.block_on(api.get(&path)).unwrap();
        set["status"]["conditions"][0]["message"].as_str().is_some_and(|m| m.contains(REFUSED))
    });
    // Reservation pods have it.
    let divvy = cluster.api_of("divvy-system", "divvy-scheduler");
    let place = "kai-resource-reservation";
    cluster.grant(place, "ClusterRole", "admin", "divvy-system", "divvy-scheduler");
    cluster.wait_for_account(place, "default");
    let mut reservation = named(CLASS, Value::Null);
    reservation["metadata"] = json!({"namespace": place, "name": "priority"});
    let stored = cluster.runtime.block_on(divvy.create(&reservation)).unwrap();
    assert_eq!(stored["spec"]["priority"], VALUE);
}
