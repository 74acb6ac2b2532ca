use crate::{Content, Priorities, pod, testing};
use divvy_engine::PodSpec;

fn parsed(spec: &str) -> (PodSpec, Option<String>) {
    let text = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{spec}}}\n");
    let (metadata, spec) = testing::pod(&text);
    let record = pod(&metadata, &spec, None, None, &Priorities::default());
    (record.spec, record.invalid)
}

fn container(cpu: &str) -> String {
    format!("{{resources: {{requests: {{cpu: {cpu}}}}}}}")
}

fn sidecar(cpu: &str) -> String {
    format!("{{restartPolicy: Always, resources: {{requests: {{cpu: {cpu}}}}}}}")
}

#[test]
fn the_most_that_runs_at_the_same_time_is_counted() {
    let (c, s) = (container, sidecar);
    for (containers, inits, milli) in [
        (vec![], vec![], 0),
        (vec![c("1"), c("500m")], vec![], 1500),
        (vec![c("0.0001"), c("0.0001")], vec![], 1),
        (vec![c("1")], vec![c("3")], 3000),
        (vec![c("1")], vec![c("3"), c("2")], 3000),
        (vec![c("4")], vec![c("3")], 4000),
        (vec![c("1")], vec![s("1")], 2000),
        (vec![c("1")], vec![s("1"), c("2")], 3000),
        (vec![c("1")], vec![c("2"), s("1")], 2000),
        (vec![c("1")], vec![s("1"), c("5"), s("1"), c("2")], 6000),
        (vec![c("9223372036854775807"), c("9223372036854775807")], vec![], i64::MAX as u64),
    ] {
        let spec = format!(
            "containers: [{}], initContainers: [{}]",
            containers.join(", "),
            inits.join(", ")
        );
        let (read, invalid) = parsed(&spec);
        assert_eq!((read.cpu.0, invalid), (milli, None), "{spec}");
    }
}

#[test]
fn limits_count_where_there_is_no_request() {
    let spec = "containers: [{resources: {limits: {cpu: 2, memory: 1Gi, ephemeral-storage: 1k}, requests: {cpu: 1}}}]";
    let (read, invalid) = parsed(spec);
    assert_eq!((read.cpu.0, read.memory.0, read.ephemeral.0, invalid), (1000, 1 << 30, 1000, None));
}

#[test]
fn overhead_and_the_pod_as_a_whole_count_as_in_kubernetes() {
    let container = "containers: [{resources: {requests: {cpu: 1, memory: 1}}}]";
    for (more, cpu, memory) in [
        ("overhead: {cpu: 250m, memory: 10}", 1250, 11),
        ("resources: {requests: {cpu: 3}}", 3000, 1),
        ("resources: {requests: {cpu: 3}}, overhead: {cpu: 1}", 4000, 1),
        ("resources: {requests: {cpu: 100m, memory: 0}}", 100, 0),
        // The API server fills in the sum of the containers before it looks at the limit.
        ("resources: {limits: {cpu: 3}}", 1000, 1),
    ] {
        let (read, invalid) = parsed(&format!("{container}, {more}"));
        assert_eq!((read.cpu.0, read.memory.0, invalid), (cpu, memory, None), "{more}");
    }
    let (read, _) = parsed("containers: [{name: a}], resources: {limits: {cpu: 3}}");
    assert_eq!(read.cpu.0, 3000, "no container asks for cpu");
}

#[test]
fn other_resources_are_counted_by_name() {
    let spec = "containers: [
        {resources: {limits: {amd.com/gpu: 1, hugepages-2Mi: 4Mi, a.com/zero: 0, nvidia.com/gpu: 2}}},
        {resources: {limits: {amd.com/gpu: 2, nvidia.com/mig-1g.10gb: 1}}}]";
    let (read, invalid) = parsed(spec);
    assert_eq!(invalid, None);
    let expected = [("amd.com/gpu", 3), ("hugepages-2Mi", 4 << 20)];
    assert_eq!(read.extended, expected.map(|(name, n)| (name.to_owned(), n)));
    assert_eq!(read.request.to_string(), "2 GPUs and 1 x nvidia.com/mig-1g.10gb");
}

#[test]
fn wrong_quantities_are_named_with_their_field() {
    let limits =
        |list: &str| format!("containers: [{{name: a}}, {{resources: {{limits: {{{list}}}}}}}]");
    let at = "spec.containers[1].resources.limits";
    for (spec, expected) in [
        (
            limits("nvidia.com/gpu: 0.5"),
            format!("{at}[\"nvidia.com/gpu\"]: 0.5 must be an integer; for a part of a GPU set the annotation gpu-fraction: \"0.5\" instead"),
        ),
        (
            limits("nvidia.com/gpu: 1500m"),
            format!("{at}[\"nvidia.com/gpu\"]: 1.5 must be an integer"),
        ),
        (limits("cpu: -1"), format!("{at}[\"cpu\"]: -1 is negative; allowed is 0 or more")),
        (
            limits("memory: 1GB"),
            format!("{at}[\"memory\"]: \"1GB\" is no quantity; allowed are numbers like 2, 0.5, 500m, 1Gi or 1e9"),
        ),
        (
            limits("gpu: 1"),
            format!("{at}[\"gpu\"]: unknown resource; allowed are cpu, memory, ephemeral-storage, hugepages-<size> and names with a domain such as nvidia.com/gpu"),
        ),
        (
            "initContainers: [{resources: {limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 1}}}]".to_owned(),
            "spec.initContainers[0].resources.requests[\"nvidia.com/gpu\"]: 1 must be equal to nvidia.com/gpu limit of 2".to_owned(),
        ),
        (
            "containers: [{resources: {requests: {nvidia.com/gpu: 1}}}]".to_owned(),
            "spec.containers[0].resources.limits[\"nvidia.com/gpu\"]: missing; limit must be set for non overcommitable resources, write nvidia.com/gpu: 1".to_owned(),
        ),
        (
            "containers: [{resources: {limits: {cpu: 1}, requests: {cpu: 2}}}]".to_owned(),
            "spec.containers[0].resources.requests[\"cpu\"]: 2 must be less than or equal to cpu limit of 1".to_owned(),
        ),
        ("overhead: {cpu: x}".to_owned(), "spec.overhead[\"cpu\"]: \"x\" is no quantity; allowed are numbers like 2, 0.5, 500m, 1Gi or 1e9".to_owned()),
    ] {
        assert_eq!(parsed(&spec).1, Some(expected), "{spec}");
    }
}

#[test]
fn the_pod_as_a_whole_may_ask_for_cpu_memory_and_huge_pages_only() {
    for (field, name) in [
        ("limits", "nvidia.com/gpu"),
        ("requests", "nvidia.com/gpu"),
        ("limits", "a.com/b"),
        ("requests", "ephemeral-storage"),
    ] {
        let (read, invalid) = parsed(&format!(
            "containers: [{{name: a}}], resources: {{{field}: {{cpu: 1, {name}: 1}}}}"
        ));
        let expected = format!(
            "spec.resources.{field}[\"{name}\"]: not for the pod as a whole; allowed are cpu, memory \
             and hugepages-<size>, set others in a container"
        );
        assert_eq!((read.request, invalid), (divvy_ledger::Request::none(), Some(expected)));
    }
    let spec = "resources: {limits: {cpu: 1, memory: 1Gi, hugepages-2Mi: 4Mi}}";
    assert_eq!(parsed(spec).1, None);
}

/// CPU of a bound pod by spec and status.
fn bound(spec: &str, status: &str) -> u64 {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{nodeName: a, {spec}}}\nstatus: {{{status}}}\n"
    );
    let object = testing::object(&text);
    let Content::Pod(spec, status) = &object.content else { panic!("{text}") };
    pod(&object.metadata, spec, Some(status), None, &Priorities::default()).spec.cpu.0
}

#[test]
fn a_pod_that_is_resized_takes_the_most_of_what_it_asks_was_promised_and_has() {
    let one = "containers: [{name: a, resources: {requests: {cpu: 2}}}]";
    let whole = format!("{one}, resources: {{requests: {{cpu: 3}}}}");
    let of = |promised: &str, has: &str| {
        format!(
            "containerStatuses: [{{name: a, allocatedResources: {promised}, resources: {has}}}]"
        )
    };
    let infeasible = "conditions: [{type: PodResizePending, reason: Infeasible}]";
    let deferred = "conditions: [{type: PodResizePending, reason: Deferred}]";
    for (spec, status, cpu) in [
        (one, String::new(), 2),
        (one, of("{cpu: 1}", "{requests: {cpu: 1}}"), 2),
        (one, of("{cpu: 5}", "{requests: {cpu: 1}}"), 5),
        (one, of("{cpu: 1}", "{requests: {cpu: 5}}"), 5),
        (one, of("null", "{requests: {cpu: 1}}"), 2),
        (one, format!("{}, {deferred}", of("{cpu: 1}", "{requests: {cpu: 1}}")), 2),
        (one, format!("{}, {infeasible}", of("{cpu: 1}", "{requests: {cpu: 1}}")), 1),
        (one, format!("{}, {infeasible}", of("{cpu: 1}", "{limits: {cpu: 9}}")), 1),
        (one, infeasible.to_owned(), 0),
        (one, "allocatedResources: {cpu: 4}, resources: {requests: {cpu: 1}}".to_owned(), 4),
        (one, "allocatedResources: {cpu: 4}".to_owned(), 2),
        (&whole, String::new(), 3),
        (&whole, of("{cpu: 9}", "{requests: {cpu: 9}}"), 3),
        (&whole, "allocatedResources: {cpu: 4}, resources: {}".to_owned(), 4),
        (&whole, format!("resources: {{requests: {{cpu: 1}}}}, {infeasible}"), 1),
    ] {
        assert_eq!(bound(spec, &status), cpu * 1000, "{spec} {status}");
    }
}

#[test]
fn a_resized_sidecar_counts_with_what_it_was_promised() {
    let spec = "containers: [{name: a, resources: {requests: {cpu: 1}}}],
        initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: 1}}}]";
    let promised = "initContainerStatuses: [{name: s, allocatedResources: {cpu: 3}}]";
    assert_eq!(bound(spec, promised), 4000);
}

#[test]
fn the_status_of_a_pod_that_is_not_bound_does_not_count() {
    let text = "kind: Pod\nspec: {containers: [{name: a}]}\n\
                status: {containerStatuses: [{name: a, allocatedResources: {cpu: 3}}]}";
    let object = testing::object(text);
    let Content::Pod(spec, status) = &object.content else { panic!("{text}") };
    let record = pod(&object.metadata, spec, Some(status), None, &Priorities::default());
    assert_eq!(record.spec.cpu.0, 0);
}
