//! How fast manifests are read: `cargo bench -p divvy-words`. Prints MB/s of 100,000 pods in each
//! form in which they come.

use std::fmt::Write;
use std::time::Instant;

const PODS: usize = 100_000;

fn main() {
    let documents: String = (0..PODS).map(|i| format!("---\n{}", pod(i, ""))).collect();
    let mut list = "apiVersion: v1\nitems:\n".to_owned();
    for i in 0..PODS {
        let _ = writeln!(list, "- {}", pod(i, "  ").trim_start());
    }
    list.push_str("kind: List\nmetadata:\n  resourceVersion: \"\"\n");
    let items: Vec<String> = (0..PODS).map(json_pod).collect();
    let json = format!(r#"{{"apiVersion":"v1","items":[{}],"kind":"List"}}"#, items.join(",\n"));
    for (form, text) in [("YAML documents", documents), ("YAML List", list), ("JSON List", json)] {
        let start = Instant::now();
        let count = divvy_words::read("bench", &text, &|_| ()).map_or(0, |entries| entries.len());
        let seconds = start.elapsed().as_secs_f64();
        let megabytes = text.len() as f64 / 1e6;
        println!(
            "{form}: {count} objects, {megabytes:.0} MB in {seconds:.2} s, {:.0} MB/s",
            megabytes / seconds
        );
    }
}

fn pod(i: usize, indent: &str) -> String {
    let text = format!(
        r#"apiVersion: v1
kind: Pod
metadata:
  name: training-{i}
  namespace: team-{}
  labels:
    app: training
    runai/queue: development
  annotations:
    gpu-fraction: "0.25"
    note: "written by the generator of the benchmark"
spec:
  schedulerName: kai-scheduler
  priorityClassName: train
  containers:
  - name: main
    image: nvcr.io/nvidia/pytorch:24.01-py3
    command: ["python", "-m", "train"]
    env:
    - name: EPOCHS
      value: "10"
    resources:
      requests:
        cpu: 500m
        memory: 2Gi
      limits:
        memory: 4Gi
  tolerations:
  - key: nvidia.com/gpu
    operator: Exists
    effect: NoSchedule
"#,
        i % 10
    );
    text.lines().map(|line| format!("{indent}{line}\n")).collect()
}

fn json_pod(i: usize) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"training-{i}","namespace":"team-{}","labels":{{"app":"training","runai/queue":"development"}},"annotations":{{"gpu-fraction":"0.25","note":"written by the generator of the benchmark"}}}},"spec":{{"schedulerName":"kai-scheduler","priorityClassName":"train","containers":[{{"name":"main","image":"nvcr.io/nvidia/pytorch:24.01-py3","command":["python","-m","train"],"env":[{{"name":"EPOCHS","value":"10"}}],"resources":{{"requests":{{"cpu":"500m","memory":"2Gi"}},"limits":{{"memory":"4Gi"}}}}}}],"tolerations":[{{"key":"nvidia.com/gpu","operator":"Exists","effect":"NoSchedule"}}]}}}}"#,
        i % 10
    )
}
