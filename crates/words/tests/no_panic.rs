//! Nothing that can stand in a file makes a function of this crate panic.

use divvy_words::{
    Content, Entry, PodGroups, Priorities, cards, config, keys, node, pod, read, storage,
};
use proptest::prelude::*;
use serde_json::Value;

/// Reads a text and makes records of all that is in it.
fn digest(text: &str) {
    let Ok(entries) = read("fuzz", text, &|_| ()) else { return };
    let mut priorities = Priorities::default();
    let mut groups = PodGroups::default();
    for entry in &entries {
        if let Entry::Object(object) = entry {
            priorities.add(object);
            groups.add(object);
            let _ = node(object);
            if let Some(text) = object.metadata.annotations.get(keys::CARDS) {
                let _ = cards::parse(text);
            }
            match &object.content {
                Content::Pod(spec, status) => {
                    let mut record = pod(&object.metadata, spec, Some(status), None, &priorities);
                    groups.refuse(&object.metadata, spec, &mut record);
                }
                Content::Workload(workload) => {
                    let template = &workload.template;
                    let owner = Some(&object.metadata);
                    let _ = pod(&template.metadata, &template.spec, None, owner, &priorities);
                }
                Content::Storage(kind, manifest) => {
                    let _ = storage(*kind, manifest);
                }
                _ => {}
            }
        }
    }
}

const POD: &str = r#"apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: ml
  labels: {app: a}
  annotations: {gpu-fraction: "0.5", gpu-fraction-num-devices: "2", mps: "true", divvy.dev/cards: "1:2"}
  creationTimestamp: "2024-01-01T00:00:00Z"
  ownerReferences: [{kind: Job, name: j, controller: true}]
spec:
  nodeName: n1
  nodeSelector: {zone: a}
  priority: 5
  priorityClassName: high
  overhead: {cpu: 1m}
  resources: {requests: {cpu: 1}, limits: {memory: 1Gi}}
  resourceClaims: [{name: c}]
  schedulingGroup: {podGroupName: g}
  volumes:
  - {name: a, persistentVolumeClaim: {claimName: c}}
  - {name: b, ephemeral: {volumeClaimTemplate: {}}}
  - {name: c, gcePersistentDisk: {pdName: d, readOnly: true}}
  - {name: d, awsElasticBlockStore: {volumeID: "aws://z/vol-1"}}
  - {name: e, rbd: {monitors: [m], pool: p, image: i}}
  - {name: f, azureDisk: {diskURI: u, kind: Managed}}
  schedulingGates: [{name: g}]
  tolerations: [{key: a, operator: Equal, value: b, effect: NoSchedule}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: [{key: a, operator: In, values: [b]}]
          matchFields: [{key: metadata.name, operator: In, values: [b]}]
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 1
        preference: {matchExpressions: [{key: a, operator: Gt, values: ["1"]}]}
  initContainers:
  - {name: i, restartPolicy: Always, resources: {limits: {cpu: 1}}}
  containers:
  - name: main
    resources:
      requests: {cpu: 500m, memory: 1Gi, nvidia.com/gpu: 1}
      limits: {nvidia.com/gpu: 1, nvidia.com/mig-1g.5gb: 1}
status: {phase: Running}
"#;

const VOLUME: &str = r#"apiVersion: v1
kind: PersistentVolume
metadata: {name: v, labels: {topology.kubernetes.io/zone: a__b-c-d}}
spec:
  storageClassName: c
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: ml, name: c, uid: u}
  gcePersistentDisk: {pdName: d}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}}
status: {phase: Available}
"#;

const STORAGE: &str = r#"apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: c}
provisioner: kubernetes.io/aws-ebs
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: a, values: [b]}]}]
capacity: 1Gi
maximumVolumeSize: 1
nodeTopology: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: Exists}]}
"#;

const NODE: &str = r#"apiVersion: v1
kind: Node
metadata:
  name: n1
  labels: {nvidia.com/gpu.count: "8", nvidia.com/gpu.memory: "81559", nvidia.com/gpu.product: A100, nvidia.com/gpu.replicas: "1"}
spec:
  unschedulable: false
  taints: [{key: a, value: b, effect: NoSchedule}]
status:
  capacity: {cpu: 8}
  allocatable: {cpu: 7910m, memory: 16Gi, pods: 110, ephemeral-storage: 1Ti, nvidia.com/gpu: 8, nvidia.com/mig-1g.5gb: 0}
"#;

const JOB: &str = r#"apiVersion: batch/v1
kind: Job
metadata: {name: j, annotations: {scheduling.run.ai/scheduling-strategy: spread}}
spec:
  parallelism: 2
  completions: 4
  suspend: false
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: main}]}
"#;

const CLASS: &str = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 5\nglobalDefault: true\n";

const MANIFESTS: [&str; 6] = [POD, NODE, JOB, CLASS, VOLUME, STORAGE];

#[allow(clippy::unwrap_used)]
fn untyped(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// Every place of a value, parents before children.
fn places(value: &Value, at: String, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(child, format!("{at}/{key}"), into);
            }
        }
        Value::Array(items) => {
            for (index, child) in items.iter().enumerate() {
                places(child, format!("{at}/{index}"), into);
            }
        }
        _ => {}
    }
    into.push(at);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
        "[-+0-9.eEKMGTPimnuk]{0,25}".prop_map(Value::from),
        prop::sample::select(vec![
            "", "0", "-1", "1e400", "9Ei", "NaN", "Exists", "In", "List", "null"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(
                ".{0,8}|kind|items|name|values|cpu|nvidia.com/gpu",
                inner,
                0..4
            )
            .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

#[test]
fn the_manifests_of_these_tests_are_read() {
    for text in MANIFESTS {
        let entries = read("test", text, &|_| ()).unwrap();
        assert!(matches!(entries.as_slice(), [Entry::Object(_)]), "{entries:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_value_in_any_field(which in 0usize..4, at in any::<prop::sample::Index>(), value in any_json()) {
        let mut manifest = untyped(MANIFESTS[which]);
        let mut all = Vec::new();
        places(&manifest, String::new(), &mut all);
        *manifest.pointer_mut(&all[at.index(all.len())]).unwrap() = value;
        let text = manifest.to_string();
        digest(&text);
        // The same document as YAML, which JSON almost is.
        digest(&format!("# not JSON\n{text}"));
    }

    #[test]
    fn any_change_of_a_manifest(
        which in 0usize..4,
        changes in prop::collection::vec((any::<prop::sample::Index>(), "[ \n\t:\\-{}\\[\\]\"'|>&*#%!,a-c0-9.]{0,3}", 0usize..4), 1..4),
    ) {
        let mut text: Vec<char> = MANIFESTS[which].chars().collect();
        for (at, insert, remove) in changes {
            let at = at.index(text.len());
            text.splice(at..(at + remove).min(text.len()), insert.chars());
        }
        digest(&text.into_iter().collect::<String>());
    }

    #[test]
    fn any_text(text in ".*|[-a-z:{}\\[\\]\"'|>&*#%! \n]{0,80}|(kind: Pod\n|---\n|[a-z]+: .*\n|  - .*\n)*") {
        digest(&text);
        let _ = config(&text);
    }
}
