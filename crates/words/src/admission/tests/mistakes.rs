//! What is said of what nobody reads.

use super::{created, settings, validate};
use crate::admission::{Settings, warn};
use crate::mistakes::QUOTAS;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

#[allow(clippy::needless_pass_by_value)]
fn pod(annotations: Value, labels: Value, limits: Value) -> Value {
    json!({
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ml", "annotations": annotations, "labels": labels},
        "spec": {"schedulerName": "divvy-scheduler",
            "containers": [{"name": "c", "resources": {"limits": limits}}]},
    })
}

fn of_scheduler(mut pod: Value, scheduler: &str) -> Value {
    pod["spec"]["schedulerName"] = json!(scheduler);
    pod
}

/// What makes such pods.
#[allow(clippy::needless_pass_by_value)]
fn owner(kind: &str, annotations: Value, mut pod: Value) -> Value {
    pod.as_object_mut().unwrap().remove("kind");
    let spec = match kind {
        "CronJob" => json!({"jobTemplate": {"spec": {"template": pod}}}),
        _ => json!({"template": pod}),
    };
    json!({"kind": kind, "metadata": {"name": "o", "annotations": annotations}, "spec": spec})
}

fn warnings_by(object: &Value, settings: &Settings) -> Vec<String> {
    warn(Some(&to_raw_value(object).unwrap()), settings)
}

fn warnings(object: &Value) -> Vec<String> {
    warnings_by(object, &settings())
}

#[test]
fn names_that_nobody_reads_are_warned_of_and_only_some_of_many() {
    assert_eq!(
        warnings(&pod(
            json!({"gpu_fraction": "0.5", "note": "x"}),
            json!({"gpu-memory": "2000", "app": "x"}),
            json!({"nvidia.com/gpus": "1", "volcano.sh/vgpu-memory": "5", "cpu": "1"}),
        )),
        [
            "metadata.annotations[\"gpu_fraction\"]: nothing reads it; write gpu-fraction",
            "metadata.labels[\"gpu-memory\"]: it is an annotation, and here nothing reads it; write \
             metadata.annotations[\"gpu-memory\"] of the pod",
            "spec.containers[0].resources.limits[\"nvidia.com/gpus\"]: nothing reads it; write nvidia.com/gpu",
            "spec.containers[0].resources.limits[\"volcano.sh/vgpu-memory\"]: Volcano reads it, and no node of divvy has \
             it; ask with the annotation gpu-fraction: \"0.5\" or gpu-memory: \"2000\" (MiB)",
        ]
    );
    assert_eq!(warnings(&pod(json!({"gpu-type": "a"}), json!({"app": "x"}), json!({}))), [""; 0]);
    let key = |n: usize| {
        format!("gpu-fractio{}", ["", "m", "o", "nn", "ns", "nt", "nx", "b", "p"][n % 9])
    };
    let many =
        |n: usize| -> Value { (0..n).map(|n| (key(n), json!("x"))).collect::<Map<_, _>>().into() };
    assert_eq!(warnings(&pod(many(100), many(100), json!({}))).len(), 8);
    // What comes behind so many others is not looked at.
    let mut others: Map<String, Value> =
        (0..1000).map(|n| (format!("a{n:04}"), json!("x"))).collect();
    others.insert("gpu_fraction".to_owned(), json!("0.5"));
    assert_eq!(warnings(&pod(others.into(), json!({}), json!({}))), [""; 0]);
}

#[test]
fn a_warning_is_said_once_and_no_verdict() {
    let wrong = pod(json!({"gpu-fraction": "7", "gpu_memory": "x"}), json!({}), json!({}));
    assert!(validate(&created(&wrong), &settings()).is_err());
    assert_eq!(
        warnings(&wrong),
        ["metadata.annotations[\"gpu_memory\"]: nothing reads it; write gpu-memory"]
    );
    // What cannot be read is refused by others.
    for wrong in [json!([]), json!({"spec": 7}), json!({"spec": {"template": [1]}}), Value::Null] {
        assert_eq!(warnings(&wrong), [""; 0], "{wrong}");
    }
    assert_eq!(warn(None, &settings()), [""; 0]);
}

#[test]
fn what_stands_on_an_owner_and_what_is_wrong_in_its_template_is_said_with_its_place() {
    let none = || pod(json!({}), json!({}), json!({}));
    let half = json!({"gpu-fraction": "0.5"});
    for (kind, at) in [
        ("Deployment", "spec.template"),
        ("StatefulSet", "spec.template"),
        ("CronJob", "spec.jobTemplate.spec.template"),
    ] {
        let not_there = format!(
            "metadata.annotations[\"gpu-fraction\"]: it stands on the {kind} itself, and its pods ask for no GPU by it; \
             write it under {at}.metadata.annotations"
        );
        assert_eq!(warnings(&owner(kind, half.clone(), none())), [not_there]);
        let wrong = pod(json!({"gpu_fraction": "0.5"}), json!({}), json!({"nvidia.com/gpus": "1"}));
        assert_eq!(
            warnings(&owner(kind, json!({}), wrong)),
            [
                format!(
                    "{at}.metadata.annotations[\"gpu_fraction\"]: nothing reads it; write gpu-fraction"
                ),
                format!(
                    "{at}.spec.containers[0].resources.limits[\"nvidia.com/gpus\"]: nothing reads it; write nvidia.com/gpu"
                ),
            ]
        );
    }
    let both = pod(half.clone(), json!({}), json!({}));
    assert_eq!(warnings(&owner("Deployment", half, both)), [""; 0]);
    let mut labelled = owner("Job", json!({}), none());
    labelled["metadata"]["labels"] = json!({"koordinator.sh/gpu-share-isolation-level": "Shared"});
    let said = warnings(&labelled);
    assert!(
        said.len() == 1
            && said[0].contains("stands on the Job itself, and its pods do not have it"),
        "{said:?}"
    );
    // A strategy and a queue may stand on both.
    let strategy = json!({"scheduling.run.ai/scheduling-strategy": "spread"});
    assert_eq!(warnings(&owner("Deployment", strategy, none())), [""; 0]);
}

#[test]
fn whose_scheduler_it_is_decides_what_is_said() {
    let half = || pod(json!({"gpu-fraction": "0.5"}), json!({}), json!({}));
    assert_eq!(warnings(&half()), [""; 0]);
    let nobody = "spec.schedulerName: \"divy-scheduler\" is no scheduler of divvy's, so nobody places the pod; write \
                  divvy-scheduler";
    assert_eq!(warnings(&of_scheduler(half(), "divy-scheduler")), [nobody]);
    let deployed = owner("Deployment", json!({}), of_scheduler(half(), "divy-scheduler"));
    assert_eq!(warnings(&deployed), [format!("spec.template.{nobody}")]);
    for scheduler in ["", "default-scheduler"] {
        assert_eq!(
            warnings(&of_scheduler(half(), scheduler)),
            [
                "metadata.annotations[\"gpu-fraction\"]: the default scheduler places the pod and does not read it: it runs \
              without a GPU; write spec.schedulerName: divvy-scheduler"
            ]
        );
    }
    let koordinators = || pod(json!({}), json!({}), json!({"koordinator.sh/gpu-core": "50"}));
    let said = warnings(&of_scheduler(koordinators(), ""));
    assert_eq!(
        said,
        [
            "spec.containers[0].resources.limits[\"koordinator.sh/gpu-core\"]: the default scheduler gives no card for it: the \
             pod waits, or runs without a GPU; write spec.schedulerName: divvy-scheduler"
        ]
    );
    assert_eq!(warnings(&koordinators()), [""; 0]);
    let mut placed = of_scheduler(half(), "default-scheduler");
    placed["spec"]["nodeName"] = json!("n");
    assert_eq!(warnings(&placed), [""; 0]);
    // HAMi and Volcano may run beside divvy.
    let theirs =
        || pod(json!({"gpu_fraction": "1"}), json!({}), json!({"nvidia.com/gpumem": "3000"}));
    assert_eq!(warnings(&of_scheduler(theirs(), "volcano")), [""; 0]);
    assert_eq!(warnings(&owner("Job", json!({}), of_scheduler(theirs(), "volcano"))), [""; 0]);
    assert_eq!(warnings(&of_scheduler(theirs(), "default-scheduler")).len(), 1);
    assert_eq!(warnings(&theirs()).len(), 2);
    // A slip of a name that divvy does not serve is nobody's slip.
    let ours = Settings { scheduler_names: vec!["kai-scheduler".to_owned()], ..settings() };
    assert_eq!(warnings_by(&of_scheduler(half(), "divy-scheduler"), &ours), [""; 0]);
}

#[test]
fn a_pod_in_a_queue_is_told_once_that_its_quota_is_not_enforced() {
    let queued = || {
        let labels = json!({"kai.scheduler/queue": "a", "runai/queue": "a"});
        pod(json!({"gpu-fraction": "0.5"}), labels, json!({}))
    };
    assert_eq!(warnings(&queued()), [QUOTAS]);
    assert_eq!(warnings(&owner("Deployment", json!({}), queued())), [QUOTAS]);
    assert_eq!(warnings(&of_scheduler(queued(), "volcano")), [""; 0]);
}
