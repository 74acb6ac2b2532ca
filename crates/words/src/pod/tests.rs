use super::*;
use crate::testing;
use divvy_ledger::Request;

fn parsed(text: &str) -> PodRecord {
    let (metadata, spec) = testing::pod(&format!("apiVersion: v1\nkind: Pod\n{text}"));
    pod(&metadata, &spec, None, None, &Priorities::default())
}

#[test]
fn a_pod_becomes_a_record() {
    let record = parsed(
        "metadata:
  name: trainer
  namespace: ml
  creationTimestamp: \"2024-02-29T12:30:15Z\"
  annotations: {gpu-fraction: \"0.5\", scheduling.run.ai/scheduling-strategy: spread}
spec:
  priorityClassName: system-node-critical
  schedulingGates: [{name: a.com/quota}]
  containers: [{name: main, resources: {requests: {cpu: 500m, memory: 1Gi}}}]
",
    );
    assert_eq!(record.key, ObjectKey::new("ml", "trainer"));
    assert_eq!(record.priority, 2_000_001_000);
    assert_eq!(record.created, 1_709_209_815);
    assert_eq!(record.spec.strategy, Some(Strategy::Spread));
    assert_eq!(record.spec.gates, ["a.com/quota"]);
    assert_eq!((record.spec.cpu.0, record.spec.memory.0), (500, 1 << 30));
    assert_eq!((record.invalid, record.bound), (None, None));
}

#[test]
fn a_pod_with_resource_claims_waits_until_it_is_bound() {
    let pod = |node: &str| {
        parsed(&format!(
            "metadata: {{name: p}}\nspec: {{nodeName: \"{node}\", resourceClaims: [{{name: c}}]}}"
        ))
    };
    let why = "resource claims (DRA) are not supported yet; ask by the annotation gpu-fraction or gpu-memory or \
               by the limit nvidia.com/gpu, or leave the pod to schedulerName: default-scheduler";
    assert_eq!(pod("").invalid.as_deref(), Some(why));
    assert_eq!(pod("n1").invalid, None);
}

#[test]
fn an_absent_namespace_is_default_and_an_absent_time_is_now() {
    let record = parsed("metadata: {generateName: job-}\nspec: {}\n");
    assert_eq!(record.key, ObjectKey::new("default", "job-"));
    assert_eq!((record.created, record.priority, record.invalid), (i64::MAX, 0, None));
}

#[test]
fn a_template_takes_from_its_controller_what_it_lacks() {
    let owner = Metadata {
        name: "inference".into(),
        namespace: "ml".into(),
        creation_timestamp: "1970-01-01T00:00:05Z".into(),
        annotations: testing::object(
            "kind: Pod\nmetadata: {name: o, annotations: {scheduling.run.ai/scheduling-strategy: spread}}",
        )
        .metadata
        .annotations,
        ..Metadata::default()
    };
    let (metadata, spec) = (Metadata::default(), PodManifest::default());
    let record = pod(&metadata, &spec, None, Some(&owner), &Priorities::default());
    assert_eq!(record.key.namespace(), "ml");
    assert_eq!(record.spec.strategy, Some(Strategy::Spread));
    assert_eq!((record.created, record.invalid), (5, None));
    let (metadata, spec) = testing::pod(
        "kind: Pod\nmetadata: {name: o, annotations: {scheduling.run.ai/scheduling-strategy: binpack}}",
    );
    let record = pod(&metadata, &spec, None, Some(&owner), &Priorities::default());
    assert_eq!(record.spec.strategy, Some(Strategy::Binpack), "the pod's own comes first");
}

#[test]
fn priority_is_the_pods_own_then_its_class_then_the_global_default() {
    let mut priorities = Priorities::default();
    let class = |name: &str, value: i32, default: bool| {
        testing::object(&format!(
            "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {value}\nglobalDefault: {default}\n"
        ))
    };
    let spec = |text: &str| testing::pod(&format!("kind: Pod\nspec: {{{text}}}")).1;
    assert_eq!(priorities.of(&spec("")), 0);
    for object in [class("train", 50, false), class("b", 9, true), class("a", 7, true)] {
        priorities.add(&object);
    }
    for (text, priority, unknown) in [
        ("", 7, None),
        ("priorityClassName: train", 50, None),
        ("priorityClassName: train, priority: -3", -3, None),
        ("priorityClassName: system-cluster-critical", 2_000_000_000, None),
        ("priorityClassName: lost", 0, Some("lost")),
        ("priorityClassName: lost, priority: 4", 4, None),
    ] {
        let spec = spec(text);
        assert_eq!(
            (priorities.of(&spec), priorities.unknown(&spec)),
            (priority, unknown),
            "{text}"
        );
    }
}

#[test]
fn wrong_metadata_is_named_with_its_field() {
    let long = "a".repeat(254);
    for (metadata, expected) in [
        ("{}", "metadata.name: missing; name or generateName is required".to_owned()),
        ("{name: Trainer}", "metadata.name: \"Trainer\" is no DNS-1123 subdomain".to_owned()),
        ("{name: a_b}", "metadata.name: \"a_b\" is no DNS-1123 subdomain".to_owned()),
        ("{name: a..b}", "metadata.name: \"a..b\" is no DNS-1123 subdomain".to_owned()),
        ("{name: -a}", "metadata.name: \"-a\" is no DNS-1123 subdomain".to_owned()),
        ("{name: a/b}", "metadata.name: \"a/b\" is no DNS-1123 subdomain".to_owned()),
        (&format!("{{name: {long}}}"), format!("metadata.name: \"{}...\" is no", "a".repeat(64))),
        ("{name: a, namespace: a.b}", "metadata.namespace: \"a.b\" is no DNS-1123 label".to_owned()),
        ("{name: a, labels: {v: 1.0}}", "metadata.labels[\"v\"]: 1.0 is a number; label values are strings, write \"1.0\"".to_owned()),
        ("{name: a, creationTimestamp: yesterday}", "metadata.creationTimestamp: \"yesterday\" is no time".to_owned()),
        ("{name: a, annotations: {scheduling.run.ai/scheduling-strategy: pack}}", "metadata.annotations[\"scheduling.run.ai/scheduling-strategy\"]: \"pack\"; allowed are binpack, spread".to_owned()),
    ] {
        let invalid = parsed(&format!("metadata: {metadata}\n")).invalid.unwrap_or_default();
        assert!(invalid.starts_with(&expected), "{metadata}: {invalid}");
    }
}

#[test]
fn a_pod_that_names_too_much_is_told_so_and_keeps_what_it_takes_from_a_node() {
    let many = |count: usize, item: fn(usize) -> String| {
        (0..count).map(item).collect::<Vec<_>>().join(", ")
    };
    let labels = many(2000, |i| format!("example.com/label-{i}: x"));
    let values = many(5000, |i| format!("value-{i}"));
    let selector =
        format!("[{{matchExpressions: [{{key: k, operator: In, values: [{values}]}}]}}]");
    let volumes =
        many(65, |i| format!("{{name: v{i}, persistentVolumeClaim: {{claimName: c{i}}}}}"));
    let resources = many(300, |i| format!("example.com/r{i}: 1"));
    let loose = many(17, |i| format!("{{key: k{i}, operator: DoesNotExist}}"));
    for (metadata, spec, expected) in [
        (format!(", labels: {{{labels}}}"), String::new(), "allowed are 32768 for one pod"),
        (
            String::new(),
            format!(
                ", affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
                 {{nodeSelectorTerms: {selector}}}}}}}"
            ),
            "allowed are 32768 for one pod",
        ),
        (
            String::new(),
            format!(
                ", affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
                 [{{topologyKey: zone, labelSelector: {{matchExpressions: [{loose}]}}}}]}}}}"
            ),
            "have 17 conditions, 17 of them in selectors that name no label value; allowed are 256 and 16",
        ),
        (String::new(), format!(", volumes: [{volumes}]"), "spec.volumes: more than 64"),
        (
            String::new(),
            format!(
                ", initContainers: [{{name: i, resources: {{limits: {{{resources}, cpu: 3}}}}}}]"
            ),
            "spec.initContainers[0].resources.limits: more than 256 resources",
        ),
    ] {
        let record = parsed(&format!(
            "metadata: {{name: p{metadata}}}\nspec: {{containers: [{{name: c, resources: {{requests: {{cpu: 2}}}}}}]{spec}}}"
        ));
        let why = record.invalid.unwrap_or_default();
        assert!(why.contains(expected), "{why}");
        assert!(record.spec.weight() < 40 * 1024, "{}", record.spec.weight());
        assert_eq!(record.spec.cpu.0, if expected.contains("limits") { 3000 } else { 2000 });
    }
}

#[test]
fn a_bound_pod_counts_by_what_it_was_given() {
    let parse = |limits: &str, devices: &str| {
        let (metadata, spec) = testing::pod(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {{gpu-fraction: \"0.5\"}}}}\n\
             spec: {{nodeName: n1, containers: [{{name: c, resources: {{limits: {{{limits}}}}}}}]}}"
        ));
        let status = serde_json::json!({"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [
            {"name": "nvidia.com/gpu", "resources": devices.split_whitespace().map(|id|
                serde_json::json!({"resourceID": id})).collect::<Vec<_>>()}]}]});
        let status = serde_json::from_value(status).unwrap();
        pod(&metadata, &spec, Some(&status), None, &Priorities::default()).spec.request
    };
    assert!(parse("", "").is_share());
    assert_eq!(parse("nvidia.com/gpu: 2", ""), Request::whole(2));
    assert_eq!(parse("nvidia.com/gpu: 2", "GPU-1"), Request::whole(2));
    assert_eq!(parse("", "GPU-1 GPU-2 GPU-1"), Request::whole(2));
}

#[test]
fn whole_cards_by_koordinators_names_count_once_bound_if_its_scheduler_wrote_them_down() {
    let parse = |annotations: &str| {
        let (metadata, spec) = testing::pod(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {{{annotations}}}}}\n\
             spec: {{nodeName: n1, containers: [{{name: c, resources: {{limits: {{koordinator.sh/gpu: 800}}}}}}]}}"
        ));
        let status = PodStatus::default();
        pod(&metadata, &spec, Some(&status), None, &Priorities::default()).spec.request
    };
    assert_eq!(parse(""), Request::none(), "who names a node itself is given nothing");
    let allocated = "scheduling.koordinator.sh/device-allocated: '{}'";
    assert_eq!(parse(allocated), Request::whole(8));
}
