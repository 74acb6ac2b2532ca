//! Claims in a rehearsal: looked at if the cluster tells of storage, else left out.
#![allow(clippy::unwrap_used)]

use divvy_engine::{ObjectKey, Standing};
use divvy_sim::{Input, Rehearsal, Setup};

fn node(name: &str, zone: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: {zone}}}}}\n\
         status: {{allocatable: {{cpu: 8, memory: 8Gi, pods: 10}}}}\n"
    )
}

fn pod(name: &str, volumes: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: ml}}\n\
         spec: {{containers: [{{name: c}}], volumes: [{volumes}]}}\n"
    )
}

fn claiming(name: &str, claim: &str) -> String {
    pod(name, &format!("{{name: v, persistentVolumeClaim: {{claimName: {claim}}}}}"))
}

const CLASS: &str = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: late}\n\
    provisioner: d\nvolumeBindingMode: WaitForFirstConsumer\n\
    allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [b]}]}]\n";

const DEFAULT: &str = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\n\
    metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: \"true\"}}\n\
    provisioner: disk.example.com\nvolumeBindingMode: Immediate\n";

fn claim(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}, namespace: ml}}\nspec: {spec}\n"
    )
}

fn rehearse(cluster: &[String], workload: &[String]) -> Rehearsal {
    let input = |name: &str, text: String| Input { name: name.to_owned(), text };
    let setup = Setup {
        cluster: Some(input("cluster", cluster.concat())),
        workload: vec![input("workload", workload.concat())],
        ..Setup::default()
    };
    let mut rehearsal = Rehearsal::load(&setup, &()).unwrap();
    rehearsal.run(&());
    rehearsal
}

fn standing(rehearsal: &Rehearsal, name: &str) -> String {
    match rehearsal.scheduler.standing(&ObjectKey::new("ml", name)) {
        Some(Standing::Placed(placement)) => placement.node.to_string(),
        Some(Standing::Waiting(diagnosis)) => diagnosis.headline(),
        other => format!("{other:?}"),
    }
}

#[test]
fn claims_are_left_out_with_a_warning_if_the_cluster_tells_of_no_storage() {
    let rehearsal = rehearse(&[node("n1", "a")], &[claiming("p", "data"), claim("data", "{}")]);
    assert_eq!(standing(&rehearsal, "p"), "n1");
    assert_eq!(
        rehearsal.warnings,
        ["persistentVolumeClaim of 1 pods is not looked at: the cluster has no storage objects \
          (kubectl get pvc,pv,storageclass,csinode -A -o yaml prints them)"]
    );
    assert_eq!(rehearsal.ignored["PersistentVolumeClaim"], 1);
}

#[test]
fn claims_count_if_the_cluster_tells_of_storage() {
    let cluster = [node("n1", "a"), node("n2", "b"), CLASS.to_owned()];
    let late = claim("data", "{storageClassName: late, resources: {requests: {storage: 1Gi}}}");
    let rehearsal = rehearse(&cluster, &[late, claiming("p", "data"), claiming("q", "none")]);
    assert_eq!(standing(&rehearsal, "p"), "n2");
    assert_eq!(standing(&rehearsal, "q"), "claim ml/none does not exist");
    assert_eq!(rehearsal.warnings, [""; 0]);
    assert!(rehearsal.ignored.is_empty());
}

#[test]
fn a_new_claim_that_is_provisioned_at_once_holds_no_pod_up() {
    let cluster = [node("n1", "a"), DEFAULT.to_owned()];
    let workload = [
        claim("unset", "{}"),
        claim("none", "{storageClassName: \"\"}"),
        claiming("p", "unset"),
        claiming("q", "none"),
    ];
    let rehearsal = rehearse(&cluster, &workload);
    assert_eq!(standing(&rehearsal, "p"), "n1");
    assert_eq!(standing(&rehearsal, "q"), "claim ml/none is not bound yet");
    assert_eq!(
        rehearsal.warnings,
        ["claim ml/unset is provisioned by disk.example.com as soon as it is created: taken as \
          reachable from every node"]
    );
}

#[test]
fn a_storage_object_that_cannot_be_read_is_told() {
    let cluster = [
        node("n1", "a"),
        claim("bad", "{resources: {requests: {storage: ten}}}"),
        claim("worse", "[]"),
    ];
    let rehearsal = rehearse(&cluster, &[pod("p", "")]);
    assert_eq!(standing(&rehearsal, "p"), "n1");
    let bad = "PersistentVolumeClaim ml/bad cannot be read and does not count: \
        spec.resources.requests[\"storage\"]: \"ten\" is no quantity";
    assert!(rehearsal.warnings[0].starts_with(bad), "{:?}", rehearsal.warnings);
    let worse = "PersistentVolumeClaim ml/worse cannot be read and does not count: spec:";
    assert!(rehearsal.warnings[1].starts_with(worse), "{:?}", rehearsal.warnings);
}

#[test]
fn pods_of_a_group_and_pods_with_resource_claims_wait_with_a_reason() {
    let group = "---\napiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\n\
        metadata: {name: g, namespace: ml}\nspec: {minMember: 2}\n";
    let member = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: m, namespace: ml, annotations: \
        {pod-group-name: g}}\nspec: {containers: [{name: c}]}\n";
    let dra = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: d, namespace: ml}\n\
        spec: {containers: [{name: c}], resourceClaims: [{name: x}]}\n";
    let cluster = [node("n1", "a"), group.to_owned(), member.to_owned()];
    let rehearsal = rehearse(&cluster, &[dra.to_owned()]);
    let why = "PodGroup g starts 2 pods together, which is not supported yet; take the pod out of the group";
    assert!(standing(&rehearsal, "m").starts_with(why));
    let why = "resource claims (DRA) are not supported yet; ask by the annotation gpu-fraction";
    assert!(standing(&rehearsal, "d").starts_with(why));
}
