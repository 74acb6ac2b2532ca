//! Names that nobody reads.

use super::{created, settings, validate};
use serde_json::{Map, Value, json};

#[test]
fn names_that_nobody_reads_are_warned_of_and_only_some_of_many() {
    let pod = |annotations: Value, labels: Value, limits: Value| {
        json!({
            "metadata": {"name": "p", "namespace": "ml", "annotations": annotations, "labels": labels},
            "spec": {"schedulerName": "divvy-scheduler",
                "containers": [{"name": "c", "resources": {"limits": limits}}]},
        })
    };
    let warnings = |pod: &Value| validate(&created(pod), &settings()).unwrap();
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
