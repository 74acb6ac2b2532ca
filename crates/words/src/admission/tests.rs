mod isolation;
mod koordinator;
mod mistakes;
mod plain;
mod properties;

use super::patch::patched;
use super::*;
use crate::manifest::{Metadata, PodManifest};
use crate::{hand_off_ready, keys};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

fn settings() -> Settings {
    Settings {
        gpu_sharing: true,
        block_visible_devices: true,
        runtime_class: "nvidia".to_owned(),
        scheduler_names: keys::SCHEDULER_NAMES.map(str::to_owned).to_vec(),
        max_grace_period: 600,
        isolation: None,
    }
}

/// A pod of ours with these annotations and this spec.
#[allow(clippy::needless_pass_by_value)]
fn pod(annotations: Value, spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "ml", "name": "p", "annotations": annotations},
        "spec": spec,
    });
    pod["spec"]["schedulerName"] = json!("kai-scheduler");
    pod
}

/// A pod with half a card for its first container.
fn half(spec: Value) -> Value {
    pod(json!({"gpu-fraction": "0.5"}), spec)
}

/// A change as text.
struct Asked {
    operation: Operation,
    pod: Box<RawValue>,
    old: Box<RawValue>,
}

fn asked(operation: Operation, pod: &Value, old: &Value) -> Asked {
    Asked { operation, pod: to_raw_value(pod).unwrap(), old: to_raw_value(old).unwrap() }
}

fn created(pod: &Value) -> Asked {
    asked(Operation::Create, pod, &Value::Null)
}

impl Asked {
    fn change(&self) -> PodChange<'_> {
        PodChange { operation: self.operation, pod: Some(&self.pod), old: Some(&self.old) }
    }
}

fn mutate(asked: &Asked, settings: &Settings) -> Mutation {
    super::mutate(&asked.change(), settings).unwrap()
}

fn void(asked: &Asked, settings: &Settings) -> Mutation {
    super::void(&asked.change(), settings).unwrap()
}

fn validate(asked: &Asked, settings: &Settings) -> Result<Vec<String>, String> {
    super::validate(&asked.change(), settings)
}

/// The pod as both mutating webhooks make it, and what they say.
fn admitted(pod: &Value) -> (Value, Vec<String>) {
    let first = mutate(&created(pod), &settings());
    let pod = patched(pod, &first.patch);
    let second = void(&created(&pod), &settings());
    (patched(&pod, &second.patch), [first.warnings, second.warnings].concat())
}

/// What validation says of the pod as the mutating webhooks make it.
fn verdict(pod: &Value) -> Result<Vec<String>, String> {
    validate(&created(&admitted(pod).0), &settings())
}

fn is_ready(pod: &Value) -> Result<(), String> {
    let metadata = Metadata::deserialize(&pod["metadata"]).unwrap();
    hand_off_ready(&metadata, &PodManifest::deserialize(&pod["spec"]).unwrap())
}

fn hand_off_variables() -> Vec<Value> {
    let read = |name: &str, annotation: &str| {
        let path = format!("metadata.annotations['{annotation}']");
        json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}})
    };
    vec![
        read("NVIDIA_VISIBLE_DEVICES", "divvy.dev/visible-devices"),
        read("GPU_PORTION", "divvy.dev/portion"),
        read("RUNAI_NUM_OF_GPUS", "divvy.dev/portion"),
        read("DIVVY_CARDS", "divvy.dev/cards"),
    ]
}

fn void_entry() -> Value {
    json!({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"})
}

#[test]
fn the_first_container_reads_its_card_and_the_others_get_none() {
    let given = half(json!({
        "initContainers": [{"name": "init"}, {"name": "sidecar", "restartPolicy": "Always", "env": null}],
        "containers": [{"name": "main", "env": [{"name": "A", "value": "1", "new": [1]}]}, {"name": "log"}],
        "unknown": {"field": 1},
    }));
    let (pod, warnings) = admitted(&given);
    assert_eq!(warnings, [""; 0]);
    let env = |pointer: &str| pod.pointer(pointer).unwrap().clone();
    let mut expected = hand_off_variables();
    expected.push(json!({"name": "A", "value": "1", "new": [1]}));
    assert_eq!(env("/spec/containers/0/env"), json!(expected));
    for other in ["/spec/containers/1/env", "/spec/initContainers/0/env"] {
        assert_eq!(env(other), json!([void_entry()]), "{other}");
    }
    assert_eq!(env("/spec/initContainers/1/env"), json!([void_entry()]));
    assert_eq!(env("/spec/runtimeClassName"), json!("nvidia"));
    assert_eq!(env("/spec/unknown/field"), json!(1));
    assert_eq!(is_ready(&pod), Ok(()));
    assert_eq!(validate(&created(&pod), &settings()), Ok(vec![]));
}

#[test]
fn the_share_goes_to_the_named_container_init_containers_too() {
    for (name, place) in [("warm", "initContainers"), ("b", "containers")] {
        let annotations = json!({"gpu-memory": "2000", "gpu-fraction-container-name": name});
        let spec = json!({
            "initContainers": [{"name": "fetch"}, {"name": "warm"}],
            "containers": [{"name": "a"}, {"name": "b"}],
        });
        let (pod, _) = admitted(&pod(annotations, spec));
        for list in ["initContainers", "containers"] {
            assert_eq!(pod["spec"][list][0]["env"], json!([void_entry()]), "{name}");
            let env = if list == place { hand_off_variables() } else { vec![void_entry()] };
            assert_eq!(pod["spec"][list][1]["env"], json!(env), "{name}");
        }
        assert_eq!(is_ready(&pod), Ok(()));
    }
}

#[test]
fn what_the_user_set_is_replaced_with_a_warning_and_never_left_as_a_duplicate() {
    let own = json!([
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "KEEP", "value": "$(NVIDIA_VISIBLE_DEVICES)"},
        {"name": "GPU_PORTION", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"},
    ]);
    let spec = json!({"containers": [{"name": "a", "env": own}, {"name": "b", "env": own}]});
    let (pod, warnings) = admitted(&half(spec));
    let names = |at: usize| {
        let env = pod["spec"]["containers"][at]["env"].as_array().unwrap();
        env.iter().map(|e| e["name"].as_str().unwrap()).collect::<Vec<_>>()
    };
    let first =
        ["NVIDIA_VISIBLE_DEVICES", "GPU_PORTION", "RUNAI_NUM_OF_GPUS", "DIVVY_CARDS", "KEEP"];
    assert_eq!(names(0), first);
    assert_eq!(names(1), ["NVIDIA_VISIBLE_DEVICES", "KEEP", "GPU_PORTION"]);
    assert_eq!(pod["spec"]["containers"][1]["env"][0], void_entry());
    assert_eq!(
        warnings,
        [
            "container a: the variable NVIDIA_VISIBLE_DEVICES was replaced; divvy sets it in pods with a GPU share",
            "container a: the variable GPU_PORTION was replaced; divvy sets it in pods with a GPU share",
            "container b: the variable NVIDIA_VISIBLE_DEVICES was replaced; divvy sets it in pods with a GPU share",
        ]
    );
}

#[test]
fn a_pod_that_is_as_it_should_be_is_left_alone_wherever_its_variables_stand() {
    let (mut pod, _) = admitted(&half(json!({"containers": [{"name": "a"}, {"name": "b"}]})));
    let env = pod["spec"]["containers"][0]["env"].as_array_mut().unwrap();
    env.reverse();
    env.insert(2, json!({"name": "FROM_ANOTHER_WEBHOOK", "value": "x"}));
    pod["spec"]["containers"][1]["env"] =
        json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]);
    assert_eq!(mutate(&created(&pod), &settings()), Mutation::default());
    assert_eq!(void(&created(&pod), &settings()), Mutation::default());
}

#[test]
fn what_a_binding_brings_is_removed_from_new_manifests_with_a_warning() {
    let mut given = pod(
        json!({
            "divvy.dev/cards": "0:1", "divvy.dev/visible-devices": "all", "divvy.dev/portion": "1",
            "received-resource-type": "Fraction", "other": "stays",
        }),
        json!({"containers": [{"name": "a"}]}),
    );
    given["metadata"]["labels"] = json!({
        "runai-gpu-group": "g", "runai-gpu-group/g-1": "g-1", "runai-gpu-groups": "stays",
    });
    given["spec"]["schedulerName"] = json!("default-scheduler");
    let (pod, warnings) = admitted(&given);
    assert_eq!(pod["metadata"]["annotations"], json!({"other": "stays"}));
    assert_eq!(pod["metadata"]["labels"], json!({"runai-gpu-groups": "stays"}));
    assert_eq!(warnings.len(), 6);
    assert!(
        warnings.contains(
            &"metadata.annotations[\"divvy.dev/cards\"] was removed: divvy writes it when it places the pod"
                .to_owned()
        ),
        "{warnings:?}"
    );
    let update = asked(Operation::Update, &given, &given);
    assert_eq!(mutate(&update, &settings()), Mutation::default(), "a bound pod keeps them");
}

/// A pod as KAI's admission leaves it: the share is for the container at `at`, by the name that KAI
/// gives it.
fn kais(at: &str, init: &Value, main: &Value) -> Value {
    let map = format!("trainer-x7k2p9q-shared-gpu-{at}");
    let key = |name: &str| {
        let key = json!({"name": map, "key": name});
        json!({"name": name, "valueFrom": {"configMapKeyRef": key}})
    };
    let mut pod = pod(
        json!({
            "gpu-fraction": "0.5", "runai/shared-gpu-configmap": "trainer-x7k2p9q-shared-gpu",
            "received-resource-type": "Fraction", "pod-group-name": "pg-trainer",
        }),
        json!({
            "initContainers": init, "containers": main, "runtimeClassName": "nvidia",
            "volumes": [
                {"name": "data", "configMap": {"name": "trainer-x7k2p9q-shared-gpu-data"}},
                {"name": format!("{map}-vol"), "configMap": {"name": map, "defaultMode": 420}},
                {"name": "token", "projected": {"sources": []}},
            ],
        }),
    );
    let list = if at.starts_with('i') { "initContainers" } else { "containers" };
    let container = &mut pod["spec"][list][at.trim_start_matches('i').parse::<usize>().unwrap()];
    let more = ["NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION"].map(key);
    container["env"] =
        json!([{"name": "OWN", "valueFrom": {"configMapKeyRef": {"name": "own", "key": "k"}}}]);
    container["env"].as_array_mut().unwrap().extend(more);
    container["envFrom"] = json!([
        {"configMapRef": {"name": "own"}},
        {"configMapRef": {"name": format!("{map}-evar"), "optional": false}},
    ]);
    container["volumeMounts"] = json!([
        {"name": "data", "mountPath": "/data"},
        {"name": format!("{map}-vol"), "mountPath": "/gpu"},
    ]);
    pod
}

#[test]
fn a_pod_copied_from_a_cluster_with_kai_waits_for_no_config_map_of_kai() {
    for (at, place) in [("0", "/spec/containers/0"), ("i1", "/spec/initContainers/1")] {
        let mut given = kais(
            at,
            &json!([{"name": "fetch"}, {"name": "warm"}]),
            &json!([{"name": "main"}, {"name": "log"}]),
        );
        if at == "i1" {
            given["metadata"]["annotations"]["gpu-fraction-container-name"] = json!("warm");
        }
        let (pod, warnings) = admitted(&given);
        assert_eq!(
            warnings,
            [
                "metadata.annotations[\"received-resource-type\"] was removed: divvy writes it when it places the pod",
                "metadata.annotations[\"runai/shared-gpu-configmap\"] was removed, with the variables and the volume that \
                 KAI's admission had added: divvy makes no ConfigMaps trainer-x7k2p9q-shared-gpu-...",
            ]
        );
        let share = pod.pointer(place).unwrap();
        let mut env = hand_off_variables();
        env.push(
            json!({"name": "OWN", "valueFrom": {"configMapKeyRef": {"name": "own", "key": "k"}}}),
        );
        assert_eq!(share["env"], json!(env));
        assert_eq!(share["envFrom"], json!([{"configMapRef": {"name": "own"}}]));
        assert_eq!(share["volumeMounts"], json!([{"name": "data", "mountPath": "/data"}]));
        let names = |list: &Value| {
            let all = list.as_array().unwrap().iter();
            all.map(|v| v["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&pod["spec"]["volumes"]), ["data", "token"], "{at}");
        assert_eq!(pod["metadata"]["annotations"].get("runai/shared-gpu-configmap"), None);
        assert_eq!(pod["metadata"]["annotations"]["pod-group-name"], "pg-trainer");
        assert_eq!(is_ready(&pod), Ok(()));
        assert_eq!(validate(&created(&pod), &settings()), Ok(vec![]));
        assert_eq!(mutate(&created(&pod), &settings()), Mutation::default());
        let mut other = given.clone();
        other["spec"]["schedulerName"] = json!("default-scheduler");
        let patch = mutate(&created(&other), &settings()).patch;
        assert_eq!(patch.len(), 1, "{at}: the pod of another scheduler is not ours to change");
    }
}

#[test]
fn only_config_maps_that_kai_names_so_are_taken_from_a_pod() {
    for (name, is_kais) in [
        ("p-shared-gpu-0", true),
        ("p-shared-gpu-12-evar", true),
        ("p-shared-gpu-i3", true),
        ("p-shared-gpu-i3-evar", true),
        ("p-shared-gpu", false),
        ("p-shared-gpu-", false),
        ("p-shared-gpu-i", false),
        ("p-shared-gpu--evar", false),
        ("p-shared-gpu-0-mine", false),
        ("p-shared-gpux-0", false),
        ("-0", false),
    ] {
        for prefix in ["p-shared-gpu", ""] {
            let from = json!([{"configMapRef": {"name": name}}]);
            let annotations = json!({"gpu-fraction": "0.5", "runai/shared-gpu-configmap": prefix});
            let given =
                pod(annotations, json!({"containers": [{"name": "a", "envFrom": from.clone()}]}));
            let left = &admitted(&given).0["spec"]["containers"][0]["envFrom"];
            let is_taken = is_kais && !prefix.is_empty();
            assert_eq!(*left, if is_taken { json!([]) } else { from }, "{name} of {prefix:?}");
        }
    }
}

#[test]
fn the_runtime_class_is_set_where_none_is_and_only_if_configured() {
    let spec = |class: Value| json!({"containers": [{"name": "a"}], "runtimeClassName": class});
    for (class, expected) in [(json!(null), "nvidia"), (json!(""), "nvidia"), (json!("own"), "own")]
    {
        assert_eq!(admitted(&half(spec(class))).0["spec"]["runtimeClassName"], expected);
    }
    let off = Settings { runtime_class: String::new(), ..settings() };
    let patch = mutate(&created(&half(spec(json!(null)))), &off).patch;
    assert_eq!(patch.len(), 1, "the variables alone");
}

#[test]
fn a_share_without_time_to_end_gets_a_second_so_that_a_deletion_is_not_one_by_force() {
    let spec = |seconds: Value| {
        let containers = json!([{"name": "a"}]);
        json!({"containers": containers, "terminationGracePeriodSeconds": seconds})
    };
    let warning = "spec.terminationGracePeriodSeconds: 0 was made 1: with 0 every deletion is one by force, and the \
                   pod gone before its containers have ended";
    for (given, expected, warnings) in [
        (json!(0), json!(1), vec![warning.to_owned()]),
        (json!(1), json!(1), vec![]),
        (json!(null), json!(null), vec![]),
    ] {
        let (share, told) = admitted(&half(spec(given.clone())));
        assert_eq!(share["spec"]["terminationGracePeriodSeconds"], expected);
        assert_eq!(told, warnings, "{given}");
        assert_eq!(mutate(&created(&share), &settings()), Mutation::default());
    }
    let (plain, _) = admitted(&pod(json!({}), spec(json!(0))));
    assert_eq!(plain["spec"]["terminationGracePeriodSeconds"], 0);
}

#[test]
fn pods_of_other_schedulers_and_pods_without_a_share_get_no_hand_off() {
    let mut other = half(json!({"containers": [{"name": "a"}]}));
    other["spec"]["schedulerName"] = json!("default-scheduler");
    let plain = pod(json!({}), json!({"containers": [{"name": "a"}]}));
    for pod in [other, plain] {
        assert_eq!(mutate(&created(&pod), &settings()), Mutation::default());
        assert_eq!(void(&created(&pod), &settings()), Mutation::default());
    }
}

#[test]
fn containers_that_ask_for_no_gpu_get_none_from_their_image() {
    let gpu = |amount: &str| json!({"limits": {"nvidia.com/gpu": amount}});
    let mig = json!({"limits": {"nvidia.com/mig-1g.5gb": "1"}});
    let own = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
    for (what, class, containers, voided) in [
        ("a sidecar of a whole card", "", json!([{"resources": gpu("1")}, {}]), vec![1]),
        ("a sidecar of a slice", "", json!([{}, {"resources": mig}]), vec![0]),
        ("no resource, the runtime of GPUs", "nvidia", json!([{}, {}]), vec![0, 1]),
        ("another runtime of GPUs", "nvidia-legacy", json!([{}]), vec![0]),
        ("zero GPUs are none", "nvidia", json!([{"resources": gpu("0")}]), vec![0]),
        ("a CPU pod", "", json!([{}]), vec![]),
        ("a CPU pod with a runtime", "gvisor", json!([{}]), vec![]),
        ("one that names its own is refused, not changed", "nvidia", json!([{"env": own}]), vec![]),
    ] {
        let mut given = pod(json!({}), json!({"containers": containers}));
        given["spec"]["runtimeClassName"] = json!(class);
        given["spec"]["schedulerName"] = json!("default-scheduler");
        let patch = void(&created(&given), &settings()).patch;
        let pod = patched(&given, &patch);
        assert_eq!(patch.len(), voided.len(), "{what}");
        for at in voided {
            assert_eq!(pod["spec"]["containers"][at]["env"], json!([void_entry()]), "{what}");
        }
        let off = Settings { block_visible_devices: false, ..settings() };
        assert_eq!(void(&created(&given), &off).patch, [], "{what}");
    }
}

#[test]
fn the_errors_of_kai_come_first_and_in_its_order() {
    let off = Settings { gpu_sharing: false, ..settings() };
    let one = json!({"containers": [{"name": "main"}]});
    let whole = json!({"containers": [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]});
    let disabled =
        "attempting to create a pod ml/p with gpu sharing request, while GPU sharing is disabled";
    let lost = "failed to get fraction container ref: container with name x not found for fraction request";
    let both = "cannot have both GPU fraction request and whole GPU resource request/limit";
    for (settings, annotations, spec, expected) in [
        (&off, json!({"gpu-fraction": "7", "gpu-fraction-container-name": "x"}), &one, lost),
        (&off, json!({"gpu-fraction": "7", "mps": "true"}), &whole, disabled),
        (&off, json!({"gpu-memory": "1"}), &one, disabled),
        (&off, json!({"mps": "true"}), &one, "MPS is only supported with GPU fraction request"),
        (&settings(), json!({"gpu-fraction": "7"}), &whole, both),
        (
            &settings(),
            json!({"gpu-fraction": "7", "gpu-memory": "0"}),
            &one,
            "cannot request both GPU and GPU memory",
        ),
        (
            &settings(),
            json!({"gpu-fraction-num-devices": "0"}),
            &one,
            "cannot request multiple fractional devices without specifying fraction portion or gpu-memory",
        ),
        (
            &settings(),
            json!({"gpu-memory": "٣", "gpu-fraction-num-devices": "0"}),
            &one,
            "gpu-memory annotation value must be a positive integer greater than 0",
        ),
        (
            &settings(),
            json!({"gpu-fraction": "NaN", "gpu-fraction-num-devices": "0"}),
            &one,
            "gpu-fraction annotation value must be a positive number smaller than 1.0",
        ),
        (
            &settings(),
            json!({"gpu-fraction": "0x1p-1", "gpu-fraction-num-devices": "0"}),
            &one,
            "gpu-fraction annotation value must be a float written with a decimal point or a scientific notation .given value: 0x1p-1",
        ),
        (
            &settings(),
            json!({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "-1"}),
            &one,
            "fraction count annotation value must be a positive integer greater than 0",
        ),
    ] {
        // Each with a mistake that only divvy minds, which is told last.
        let mut spec = spec.clone();
        spec["nodeName"] = json!("n1");
        let given = pod(annotations.clone(), spec);
        let given = patched(&given, &mutate(&created(&given), settings).patch);
        let result = validate(&created(&given), settings);
        let said = result.unwrap_err();
        let rest = said.strip_prefix(expected);
        assert!(rest.is_some_and(|rest| rest.starts_with("; ")), "{annotations}: {said}");
    }
}

#[test]
fn what_kai_lets_pass_is_refused() {
    let context =
        |context: Value| json!({"containers": [{"name": "m", "securityContext": context}]});
    let add = |name: &str| context(json!({"capabilities": {"add": ["CHOWN", name]}}));
    let admin = "spec.containers[0].securityContext: container m has the capability SYS_ADMIN: it reaches every card of its node, and not only its GPU share; take one of the two away";
    for (spec, expected) in [
        (
            json!({"containers": [{"name": "m"}], "nodeName": "n1"}),
            "spec.nodeName: \"n1\" is set in a pod with a GPU share, but divvy must place it to choose its card; use spec.nodeSelector or spec.affinity",
        ),
        (
            json!({"containers": [{"name": "m"}], "terminationGracePeriodSeconds": 86_400}),
            "spec.terminationGracePeriodSeconds: 86400 is too long for a pod with a GPU share, whose cards stay closed for so long if it is deleted by force; allowed are 0 to 600",
        ),
        (
            context(json!({"privileged": true})),
            "spec.containers[0].securityContext: container m is privileged: it reaches every card of its node, and not only its GPU share; take one of the two away",
        ),
        (add("SYS_ADMIN"), admin),
        (add("cap_sys_admin"), admin),
        (add("ALL"), admin),
        (
            json!({"containers": [{"name": "m"}], "resourceClaims": [{"name": "c"}]}),
            "cannot have both a GPU share (annotation gpu-fraction or gpu-memory) and spec.resourceClaims",
        ),
        (
            json!({"containers": [{"name": "m"}, {"name": "n", "resources": {"requests": {"nvidia.com/mig-1g.5gb": "1"}}}]}),
            "cannot have both a GPU share (annotation gpu-fraction or gpu-memory) and the MIG resource nvidia.com/mig-1g.5gb of container n",
        ),
    ] {
        assert_eq!(verdict(&half(spec.clone())), Err(expected.to_owned()), "{spec}");
    }
    let longest = json!({"containers": [{"name": "m"}], "terminationGracePeriodSeconds": 600});
    for accepted in [add("NET_ADMIN"), context(json!({"privileged": false})), longest] {
        assert_eq!(verdict(&half(accepted)), Ok(vec![]));
    }
    let sidecar = json!({"containers": [{"name": "m"}, {"name": "n", "securityContext": {"privileged": true}}]});
    let warning = "spec.containers[1].securityContext: container n is privileged: it reaches every card of its node";
    assert_eq!(verdict(&half(sidecar)), Ok(vec![warning.to_owned()]));
}

#[test]
fn a_share_pod_without_its_variables_is_neither_accepted_nor_ready() {
    let spec = json!({"containers": [{"name": "m"}, {"name": "n"}], "runtimeClassName": "nvidia"});
    let (right, _) = admitted(&half(spec));
    let reason = |variable: &str, container: &str| {
        format!(
            "the variable {variable} of container {container} is not as divvy's admission sets it, so the pod would \
             not see its card, or see others; create the pod anew while the admission runs"
        )
    };
    let field = "/0/env/0/valueFrom/fieldRef/fieldPath";
    for (pointer, value, variable, container) in [
        ("/0/env", json!([]), "NVIDIA_VISIBLE_DEVICES", "m"),
        ("/0/env/0/valueFrom", json!({"configMapKeyRef": {}}), "NVIDIA_VISIBLE_DEVICES", "m"),
        (field, json!("metadata.annotations['a']"), "NVIDIA_VISIBLE_DEVICES", "m"),
        // One too many of this, and one too few of another that is looked at later.
        ("/0/env/2/name", json!("GPU_PORTION"), "GPU_PORTION", "m"),
        ("/0/env/3/name", json!("DIVVY"), "DIVVY_CARDS", "m"),
        ("/1/env", json!(null), "NVIDIA_VISIBLE_DEVICES", "n"),
        ("/1/env/0/value", json!("all"), "NVIDIA_VISIBLE_DEVICES", "n"),
        ("/1/env/0/value", json!(null), "NVIDIA_VISIBLE_DEVICES", "n"),
    ] {
        let mut pod = right.clone();
        *pod["spec"]["containers"].pointer_mut(pointer).unwrap() = value;
        assert_eq!(is_ready(&pod), Err(reason(variable, container)), "{pointer}");
        let verdict = validate(&created(&pod), &settings());
        assert_eq!(verdict, Err(reason(variable, container)), "{pointer}");
    }
}

#[test]
fn containers_that_name_devices_themselves_are_refused() {
    let from = |source: Value| json!({"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": source});
    let value = |text: &str| json!({"name": "NVIDIA_VISIBLE_DEVICES", "value": text});
    let granted =
        json!({"fieldRef": {"fieldPath": "metadata.annotations['divvy.dev/visible-devices']"}});
    for (entry, is_allowed) in [
        (value("all"), false),
        (value("nvidia.com/gpu=0"), false),
        (value("GPU-1"), false),
        (value(""), false),
        (value("$(X)"), false),
        (from(json!({"configMapKeyRef": {"name": "c", "key": "k"}})), false),
        (from(json!({"fieldRef": {"fieldPath": "metadata.annotations['mine']"}})), false),
        (from(granted), true),
        (value("void"), true),
        (value("none"), true),
    ] {
        let given = pod(json!({}), json!({"containers": [{"name": "m", "env": [entry]}]}));
        let refused = "spec.containers[0].env: container m sets NVIDIA_VISIBLE_DEVICES; allowed are void and none, and GPUs are asked for by resource or annotation";
        let expected = if is_allowed { Ok(vec![]) } else { Err(refused.to_owned()) };
        assert_eq!(validate(&created(&given), &settings()), expected, "{entry}");
        let off = Settings { block_visible_devices: false, ..settings() };
        assert_eq!(validate(&created(&given), &off), Ok(vec![]), "{entry}");
    }
}

#[test]
fn what_a_pod_asks_is_fixed_when_it_is_created() {
    let spec = json!({"containers": [{"name": "m"}]});
    let of = |annotations: Value| pod(annotations, spec.clone());
    for (before, now, expected) in [
        (
            json!({"gpu-fraction": "0.5"}),
            json!({"gpu-fraction": "0.9"}),
            "[\"gpu-fraction\"]: \"0.5\" cannot become \"0.9\"",
        ),
        (json!({"gpu-memory": "5"}), json!({}), "[\"gpu-memory\"]: \"5\" cannot become absent"),
        (
            json!({}),
            json!({"gpu-fraction": "0.5"}),
            "[\"gpu-fraction\"]: absent cannot become \"0.5\"",
        ),
        (
            json!({"gpu-fraction": "0.5"}),
            json!({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "8"}),
            "[\"gpu-fraction-num-devices\"]: absent cannot become \"8\"",
        ),
    ] {
        let (old, pod) = (of(before), of(now));
        let change = asked(Operation::Update, &pod, &old);
        let expected = format!(
            "metadata.annotations{expected}: what a pod asks of GPUs is fixed when it is created"
        );
        assert_eq!(validate(&change, &settings()), Err(expected));
    }
    // Also one that could not be created any more.
    let (old, pod) =
        (of(json!({"gpu-fraction": "7"})), of(json!({"gpu-fraction": "7", "note": "x"})));
    let change = asked(Operation::Update, &pod, &old);
    assert_eq!(validate(&change, &settings()), Ok(vec![]));
}

#[test]
fn containers_for_debugging_get_no_card() {
    let (old, _) = admitted(&half(json!({"containers": [{"name": "m"}]})));
    let with = |old: &Value, name: &str, env: Value| {
        let mut pod = old.clone();
        let spec = pod["spec"].as_object_mut().unwrap();
        let all = spec.entry("ephemeralContainers").or_insert(json!([])).as_array_mut().unwrap();
        all.push(json!({"name": name, "env": env}));
        pod
    };
    let change = |old, pod| asked(Operation::EphemeralContainers, pod, old);
    let silent = with(&old, "debug", json!([]));
    let mutation = mutate(&change(&old, &silent), &settings());
    let pod = patched(&silent, &mutation.patch);
    assert_eq!(pod["spec"]["ephemeralContainers"][0]["env"], json!([void_entry()]));
    assert_eq!(validate(&change(&old, &pod), &settings()), Ok(vec![]));
    let refused = "spec.ephemeralContainers[0].env: container debug is for debugging and gets no GPU: NVIDIA_VISIBLE_DEVICES must be void";
    assert_eq!(validate(&change(&old, &silent), &settings()), Err(refused.to_owned()));
    let asking = with(&old, "debug", json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]));
    assert_eq!(validate(&change(&old, &asking), &settings()), Err(refused.to_owned()));
    let wrong = with(&old, "debug", json!([false]));
    let why = validate(&change(&old, &wrong), &settings()).unwrap_err();
    assert!(why.starts_with("spec.ephemeralContainers[0]: invalid type"), "{why}");
    // One that was there before cannot be changed, and is not touched.
    let second = with(&asking, "debug-2", json!([]));
    let patch = mutate(&change(&asking, &second), &settings()).patch;
    assert_eq!(patch.len(), 1);
    let pod = patched(&second, &patch);
    assert_eq!(validate(&change(&asking, &pod), &settings()), Ok(vec![]));
}

#[test]
fn a_body_that_is_no_pod_is_refused_by_all_with_the_field() {
    for (pod, expected) in [
        (json!([]), "the pod: invalid type: sequence, expected an object"),
        (json!({"spec": []}), "spec: invalid type: sequence, expected an object"),
        (json!({"metadata": 5}), "metadata: invalid type: integer `5`, expected an object"),
        (
            json!({"spec": {"containers": {}}}),
            "spec.containers: invalid type: map, expected a list",
        ),
        (
            json!({"spec": {"containers": [{}, null]}}),
            "spec.containers[1]: invalid type: null, expected an object",
        ),
        (
            json!({"spec": {"initContainers": [{"env": [false]}]}}),
            "spec.initContainers[0]: invalid type: boolean `false`, expected an object",
        ),
    ] {
        let (asked, expected) = (created(&pod), Err(expected.to_owned()));
        let change = asked.change();
        assert_eq!(super::validate(&change, &settings()).map(|_| ()), expected);
        assert_eq!(super::mutate(&change, &settings()).map(|_| ()), expected);
        assert_eq!(super::void(&change, &settings()).map(|_| ()), expected);
    }
}

#[test]
fn a_pod_with_more_than_can_be_meant_is_refused_by_all_with_the_field() {
    let many = |count: usize, entry: Value| Value::from(vec![entry; count]);
    let labels = |count: usize| -> Value {
        (0..count).map(|i| (format!("runai-gpu-group/{i}"), json!("x"))).collect()
    };
    let ours = json!({"name": "DIVVY_CARDS", "value": "x"});
    let spec = |env: Value| json!({"containers": [{"name": "a"}, {"name": "b", "env": env}]});
    let labelled = |count| {
        let mut pod = half(json!({"containers": [{"name": "a"}]}));
        pod["metadata"]["labels"] = labels(count);
        pod
    };
    for (most, too_many, expected) in [
        (
            half(json!({"containers": many(1000, json!({"name": "a"}))})),
            half(json!({"containers": many(1001, json!({"name": "a"}))})),
            "spec.containers: more than 1000 containers, and no pod of so many starts",
        ),
        (
            half(spec(many(4, ours.clone()))),
            half(spec(many(5, ours))),
            "spec.containers[1].env: container b sets DIVVY_CARDS more than 4 times",
        ),
        (labelled(100), labelled(101), "metadata: more than 100 labels runai-gpu-group/..."),
    ] {
        assert_eq!(verdict(&most), Ok(vec![]), "{expected}");
        let asked = created(&too_many);
        let change = asked.change();
        assert_eq!(super::validate(&change, &settings()), Err(expected.to_owned()));
        assert_eq!(super::mutate(&change, &settings()), Err(expected.to_owned()));
        assert_eq!(super::void(&change, &settings()), Err(expected.to_owned()));
    }
    let kais = |count: usize| {
        let from = many(count, json!({"configMapRef": {"name": "p-0"}}));
        let annotations = json!({"gpu-fraction": "0.5", "runai/shared-gpu-configmap": "p"});
        pod(annotations, json!({"containers": [{"name": "a", "envFrom": from}]}))
    };
    assert_eq!(verdict(&kais(16)), Ok(vec![]));
    let why = super::mutate(&created(&kais(17)).change(), &settings()).unwrap_err();
    assert_eq!(why, "spec.containers[0].envFrom: more than 16 entries of KAI's");
}

#[test]
fn a_patch_repeats_nothing_of_a_long_list() {
    let mut env: Vec<Value> = (0..5000).map(|i| json!({"name": format!("V{i}")})).collect();
    env.insert(3000, json!({"name": "GPU_PORTION", "value": "1"}));
    let given = half(json!({"containers": [{"name": "a", "env": env}]}));
    let patch = mutate(&created(&given), &settings()).patch;
    let text = serde_json::to_string(&patch).unwrap();
    assert!(text.contains(r#"{"op":"remove","path":"/spec/containers/0/env/3000"}"#), "{text}");
    assert!(text.len() < 1000, "{text}");
    let env = &patched(&given, &patch)["spec"]["containers"][0]["env"];
    assert_eq!(env.as_array().unwrap().len(), 5004);
    assert_eq!(env.as_array().unwrap()[..4], hand_off_variables());
}

#[test]
fn a_refusal_repeats_no_long_text() {
    let long = "x".repeat(1 << 20);
    let [mut metadata, mut spec, mut name] = [(); 3].map(|()| half(json!({"containers": []})));
    metadata["metadata"] = json!(long);
    spec["spec"] = json!(long);
    name["spec"]["containers"] = json!([long]);
    for given in [json!(long), metadata, spec, name] {
        let why = validate(&created(&given), &settings()).unwrap_err();
        assert!(why.len() < 1100, "{} bytes: {}", why.len(), &why[..200]);
        assert!(why.contains("invalid type: string \"xxx"), "{why}");
    }
}
