//! What nobody will read is told to whoever makes it, and refused by nobody.

use crate::cluster::{Cluster, cluster, eventually, pod};
use divvy_testbed::free_ports;
use serde_json::{Value, json};

/// What a client is told that makes an object, and whether it was accepted.
fn told(cluster: &Cluster, command: &str, object: &Value) -> (Vec<String>, bool) {
    let file = cluster.plane.folder().join("warned.json");
    std::fs::write(&file, object.to_string()).unwrap();
    let mut kubectl = cluster.plane.kubectl();
    let output = kubectl.args(command.split(' ')).arg("-f").arg(file).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let warnings = text.lines().filter_map(|line| line.strip_prefix("Warning: "));
    (warnings.map(str::to_owned).collect(), output.status.success())
}

/// A pod without GPU under another name.
fn named(namespace: &str, name: &str, change: impl Fn(&mut Value)) -> Value {
    let mut pod = pod(namespace, name, "divvy-scheduler");
    change(&mut pod);
    pod
}

/// What makes such pods.
fn workload(api: &str, kind: &str, mut pod: Value) -> Value {
    let name = format!("{}-{kind}", pod["metadata"]["name"].as_str().unwrap()).to_lowercase();
    let metadata = json!({"namespace": pod["metadata"]["namespace"], "name": name});
    pod["metadata"]["labels"]["app"] = json!("w");
    for field in ["apiVersion", "kind"] {
        pod.as_object_mut().unwrap().remove(field);
    }
    for field in ["namespace", "name"] {
        pod["metadata"].as_object_mut().unwrap().remove(field);
    }
    let selector = json!({"matchLabels": {"app": "w"}});
    let spec = match kind {
        "CronJob" | "Job" => {
            pod["spec"]["restartPolicy"] = json!("Never");
            json!({ "template": pod })
        }
        "StatefulSet" => json!({"serviceName": "s", "selector": selector, "template": pod}),
        _ => json!({"selector": selector, "template": pod}),
    };
    let spec = match kind {
        "CronJob" => json!({"schedule": "@yearly", "jobTemplate": {"spec": spec}}),
        _ => spec,
    };
    json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec})
}

/// What is done to a pod.
type Change<'a> = &'a dyn Fn(&mut Value);

const KINDS: [(&str, &str); 5] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
];

fn annotated(key: &'static str) -> impl Fn(&mut Value) {
    move |pod| pod["metadata"]["annotations"] = json!({ key: "0.5" })
}

fn limited(resource: &'static str) -> impl Fn(&mut Value) {
    move |pod| pod["spec"]["containers"][0]["resources"]["limits"] = json!({ resource: "1" })
}

fn by_scheduler(name: &'static str) -> impl Fn(&mut Value) {
    move |pod| {
        pod["spec"]["schedulerName"] = json!(name);
        pod["metadata"]["annotations"] = json!({"gpu-fraction": "0.5"});
    }
}

#[test]
fn what_nobody_reads_is_told_to_the_client_that_makes_it() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, _) = cluster.tenant();
    let probe = named(&tenant, "probe", annotated("gpu_fraction"));
    eventually("the webhook is asked", || {
        !told(&cluster, "create --dry-run=server", &probe).0.is_empty()
    });
    let queue = |pod: &mut Value| {
        annotated("gpu-fraction")(pod);
        pod["metadata"]["labels"] = json!({"kai.scheduler/queue": "a", "runai/queue": "a"});
    };
    let queued =
        "pods name queues, which divvy shows and counts; quotas of queues are not enforced yet";
    let cases: [(&str, Change<'_>, &str); 8] = [
        (
            "underscore",
            &annotated("gpu_fraction"),
            "metadata.annotations[\"gpu_fraction\"]: nothing reads it; write gpu-fraction",
        ),
        (
            "sharing",
            &annotated("nvidia.com/gpu-sharing"),
            "metadata.annotations[\"nvidia.com/gpu-sharing\"]: nothing reads it; ask for the part",
        ),
        (
            "plural",
            &limited("nvidia.com/gpus"),
            "spec.containers[0].resources.limits[\"nvidia.com/gpus\"]: nothing reads it; write nvidia.com/gpu",
        ),
        (
            "volcano",
            &limited("volcano.sh/vgpu-number"),
            "spec.containers[0].resources.limits[\"volcano.sh/vgpu-number\"]: Volcano reads it, and no node of divvy has it",
        ),
        (
            "hami",
            &limited("nvidia.com/gpumem"),
            "spec.containers[0].resources.limits[\"nvidia.com/gpumem\"]: HAMi reads it",
        ),
        (
            "slip",
            &by_scheduler("divy-scheduler"),
            "spec.schedulerName: \"divy-scheduler\" is no scheduler of divvy's, so nobody places the pod",
        ),
        (
            "default",
            &by_scheduler("default-scheduler"),
            "metadata.annotations[\"gpu-fraction\"]: the default scheduler places the pod and does not read it",
        ),
        ("queued", &queue, queued),
    ];
    for (name, change, expected) in &cases {
        let (warnings, is_accepted) = told(&cluster, "create", &named(&tenant, name, change));
        assert!(is_accepted, "{name}: {warnings:?}");
        assert!(
            matches!(&*warnings, [one] if one.starts_with(expected)),
            "{name}: {warnings:?} and not {expected}"
        );
    }
    // Of what makes pods, with the place in it.
    for (api, kind) in KINDS {
        let at = match kind {
            "CronJob" => "spec.jobTemplate.spec.template.",
            _ => "spec.template.",
        };
        for (name, change, expected) in &cases {
            let object = workload(api, kind, named(&tenant, name, change));
            let (warnings, is_accepted) = told(&cluster, "create", &object);
            assert!(is_accepted, "{kind} {name}: {warnings:?}");
            let expected =
                if *name == "queued" { queued.to_owned() } else { format!("{at}{expected}") };
            assert!(
                matches!(&*warnings, [one] if one.starts_with(&expected)),
                "{kind} {name}: {warnings:?} and not {expected}"
            );
        }
        let mut misplaced = workload(api, kind, named(&tenant, "misplaced", |_| {}));
        misplaced["metadata"]["annotations"] = json!({"gpu-fraction": "0.5"});
        let (warnings, is_accepted) = told(&cluster, "create", &misplaced);
        let expected = format!(
            "metadata.annotations[\"gpu-fraction\"]: it stands on the {kind} itself, and its pods ask for no GPU by it; \
             write it under {at}metadata.annotations"
        );
        assert!(is_accepted && *warnings == [expected], "{kind}: {warnings:?}");
    }
}

#[test]
fn what_has_nothing_to_do_with_gpus_or_is_right_is_not_told_of_and_nobody_waits_for_the_webhook() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, _) = cluster.tenant();
    let up = cluster.address;
    let right: [(&str, Change<'_>); 4] = [
        ("plain", &|pod| pod["metadata"]["annotations"] = json!({"note": "x"})),
        ("share", &annotated("gpu-fraction")),
        ("whole", &limited("nvidia.com/gpu")),
        ("other", &|pod| {
            by_scheduler("volcano")(pod);
            limited("volcano.sh/vgpu-number")(pod);
        }),
    ];
    for (name, change) in right {
        let one = named(&tenant, name, change);
        assert_eq!(told(&cluster, "create", &one), (vec![], true), "{name}");
        let (warnings, is_accepted) =
            told(&cluster, "create", &workload("apps/v1", "Deployment", one));
        assert!(is_accepted && warnings.is_empty(), "{name}: {warnings:?}");
    }
    let [nobody] = free_ports().unwrap();
    cluster.point_webhooks_to(([127, 0, 0, 1], nobody).into());
    let wrong = named(&tenant, "wrong", annotated("gpu_fraction"));
    let is_told = |object: &Value| {
        let (warnings, is_accepted) = told(&cluster, "create --dry-run=server", object);
        assert!(is_accepted, "{object}");
        !warnings.is_empty()
    };
    let of_owner = workload("apps/v1", "Deployment", wrong.clone());
    eventually("the webhook is down", || !is_told(&wrong));
    assert!(!is_told(&of_owner));
    cluster.point_webhooks_to(up);
    eventually("the webhook is up", || is_told(&wrong) && is_told(&of_owner));
}

/// Who writes tens of thousands of names keeps the API server busy with none of them.
#[test]
fn the_api_server_looks_for_mistaken_names_among_few_and_asks_about_no_more() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, _) = cluster.tenant();
    let with = |count: usize| {
        let names = (1..count).map(|nth| (format!("n{nth}"), json!("")));
        let names: serde_json::Map<String, Value> =
            names.chain([("gpu_fraction".to_owned(), json!("0.5"))]).collect();
        named(&tenant, "many", move |pod| pod["metadata"]["annotations"] = json!(names))
    };
    let is_told = |object: &Value| {
        let (warnings, is_accepted) = told(&cluster, "create --dry-run=server", object);
        assert!(is_accepted, "{warnings:?}");
        !warnings.is_empty()
    };
    eventually("the webhook is asked", || is_told(&with(200)));
    for object in [with(256), workload("apps/v1", "Deployment", with(256))] {
        assert!(is_told(&object));
    }
    for object in [with(257), workload("apps/v1", "Deployment", with(257))] {
        assert!(!is_told(&object));
    }
    let mut owned = with(20);
    let owner = |nth: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("c{nth}"), "uid": "u"});
    owned["metadata"]["ownerReferences"] = (0..16).map(owner).collect();
    assert!(is_told(&owned));
    owned["metadata"]["ownerReferences"] = (0..17).map(owner).collect();
    assert!(!is_told(&owned));
}
