use super::*;
use crate::{Priorities, pod, testing};

const KAI: &str = "scheduling.run.ai/v2alpha2";
const KUBERNETES: &str = "scheduling.k8s.io/v1beta1";
const PLUGINS: &str = "scheduling.x-k8s.io/v1alpha1";

/// What keeps a pod with this head of a manifest back beside this group.
fn refusal(api_version: &str, spec: &str, pod_text: &str) -> Option<String> {
    let mut groups = PodGroups::default();
    let text = format!(
        "apiVersion: {api_version}\nkind: PodGroup\nmetadata: {{name: g, namespace: ml}}\nspec: {spec}"
    );
    groups.add(&testing::object(&text));
    let (metadata, spec) = testing::pod(&format!("apiVersion: v1\nkind: Pod\n{pod_text}"));
    let mut record = pod(&metadata, &spec, None, None, &Priorities::default());
    groups.refuse(&metadata, &spec, &mut record);
    record.invalid
}

#[test]
fn a_pod_of_a_group_that_starts_together_waits_with_a_reason() {
    let annotated = "metadata: {name: p, namespace: ml, annotations: {pod-group-name: g}}";
    let own = "metadata: {name: p, namespace: ml}\nspec: {schedulingGroup: {podGroupName: g}}";
    let label = |key| format!("metadata: {{name: p, namespace: ml, labels: {{{key}: g}}}}");
    let newer = label("scheduling.x-k8s.io/pod-group");
    let older = label("pod-group.scheduling.sigs.k8s.io");
    let elsewhere = "metadata: {name: p, namespace: other, annotations: {pod-group-name: g}}";
    let unknown = "metadata: {name: p, namespace: ml, annotations: {pod-group-name: h}}";
    let gang = "{schedulingPolicy: {gang: {minCount: 3}}}";
    let cases = [
        (KAI, "{minMember: 4}", annotated, Some(4)),
        (KAI, "{minMember: 1}", annotated, None),
        (KAI, "{}", annotated, None),
        (KAI, "{minMember: 4}", own, None),
        (KAI, "{minMember: 4}", elsewhere, None),
        (KAI, "{minMember: 4}", unknown, None),
        (KUBERNETES, gang, own, Some(3)),
        (KUBERNETES, "{schedulingPolicy: {basic: {}}}", own, None),
        (PLUGINS, "{minMember: 2}", &newer, Some(2)),
        (PLUGINS, "{minMember: 2}", &older, Some(2)),
        (PLUGINS, "{minMember: 2}", annotated, None),
        ("example.com/v1", "{minMember: 2}", annotated, None),
    ];
    for (api_version, spec, pod, expected) in cases {
        let text = |n| {
            format!(
                "PodGroup g starts {n} pods together, which is not supported yet; take the pod out of the \
                 group, or let the group start 1 at a time, or leave its pods to the scheduler that knows it"
            )
        };
        let said = refusal(api_version, spec, pod);
        assert_eq!(said, expected.map(text), "{api_version} {spec} {pod}");
    }
}

#[test]
fn a_group_that_shrinks_to_one_lets_its_pods_go() {
    let mut groups = PodGroups::default();
    let metadata = Metadata { name: "g".into(), ..Metadata::default() };
    groups.set(keys::KAI_GROUPS, &metadata, 4);
    groups.set(keys::KAI_GROUPS, &metadata, 1);
    assert_eq!(groups, PodGroups::default());
}
