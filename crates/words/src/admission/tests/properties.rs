//! Whatever stands in a pod: admission does not panic, its patch applies, a second call changes
//! nothing, and nothing but variables, the runtime class and what a binding brings is touched.

use super::{patched, settings};
use crate::admission::{Change, Mutation, Operation, mutate, validate, void};
use crate::keys;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The pod without all that admission may change.
fn untouchable(mut pod: Value) -> Value {
    let is_ours = |name: &str| keys::HAND_OFF_VARIABLES.iter().any(|(known, _)| *known == name);
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("runtimeClassName");
        for list in ["initContainers", "containers", "ephemeralContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
            {
                let Some(container) = container.as_object_mut() else { continue };
                if let Some(env) = container.get_mut("env").and_then(Value::as_array_mut) {
                    env.retain(|entry| !entry["name"].as_str().is_some_and(is_ours));
                }
                if container.get("env").is_some_and(|env| env.is_null() || *env == json!([])) {
                    container.remove("env");
                }
            }
        }
    }
    for (field, is_stray) in [
        ("annotations", (|key| keys::HAND_OFF.contains(&key)) as fn(&str) -> bool),
        ("labels", |key| key.split('/').next() == Some(keys::GPU_GROUP)),
    ] {
        let map = pod.pointer_mut(&format!("/metadata/{field}")).and_then(Value::as_object_mut);
        if let Some(map) = map {
            map.retain(|key, _| !is_stray(key));
        }
    }
    pod
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z~/]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z~/]{1,3}", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

fn entry() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just("NVIDIA_VISIBLE_DEVICES".to_owned()),
        Just("GPU_PORTION".to_owned()),
        "[A-Z]{1,3}",
    ];
    let path = prop_oneof![
        Just("metadata.annotations['divvy.dev/visible-devices']"),
        Just("metadata.annotations['divvy.dev/portion']"),
        Just("metadata.name"),
    ];
    prop_oneof![
        (name.clone(), "void|none|all|").prop_map(|(n, v)| json!({"name": n, "value": v})),
        (name, path).prop_map(
            |(n, p)| json!({"name": n, "valueFrom": {"fieldRef": {"fieldPath": p, "x": 1}}})
        ),
        anything(),
    ]
}

fn container() -> impl Strategy<Value = Value> {
    let resources = prop_oneof![
        Just(json!({})),
        Just(json!({"limits": {"nvidia.com/gpu": "1"}})),
        Just(json!({"requests": {"nvidia.com/mig-1g.5gb": 1, "cpu": "x"}})),
    ];
    let env = prop_oneof![
        8 => prop::collection::vec(entry(), 0..4).prop_map(Value::from),
        1 => anything(),
    ];
    let whole = ("[ab]", env, resources, anything()).prop_map(|(name, env, resources, other)| {
        json!({"name": name, "env": env, "resources": resources, "securityContext": other, "new": other})
    });
    prop_oneof![9 => whole, 1 => anything()]
}

fn pod() -> impl Strategy<Value = Value> {
    let containers = || prop::collection::vec(container(), 0..3).prop_map(Value::from);
    let text = || prop_oneof![Just(json!("0.5")), Just(json!("a")), anything()];
    let key = prop_oneof![
        prop::sample::select([&keys::REQUEST[..], &keys::HAND_OFF].concat())
            .prop_map(str::to_owned),
        Just("runai-gpu-group".to_owned()),
        Just("runai-gpu-group/a~b".to_owned()),
        "[a-z~/]{1,3}",
    ];
    let map = || prop::collection::btree_map(key.clone(), text(), 0..4).prop_map(|map| json!(map));
    let class = prop_oneof![Just(json!(null)), Just(json!("")), Just(json!("nvidia")), anything()];
    let names = prop_oneof![3 => Just(json!("divvy-scheduler")), 1 => anything()];
    let parts = (containers(), containers(), containers(), map(), map(), class, names, anything());
    let whole = parts.prop_map(|(init, main, debug, annotations, labels, class, name, other)| {
        json!({
            "metadata": {"annotations": annotations, "labels": labels, "new": other},
            "spec": {
                "initContainers": init, "containers": main, "ephemeralContainers": debug,
                "runtimeClassName": class, "schedulerName": name, "nodeName": other, "new": other,
            },
        })
    });
    prop_oneof![15 => whole, 1 => anything()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_patch_applies_once_and_touches_nothing_else(
        given in pod(),
        old in pod(),
        operation in prop::sample::select(vec![
            Operation::Create, Operation::Update, Operation::EphemeralContainers,
        ]),
    ) {
        let settings = settings();
        for decide in [mutate, void] {
            let first = decide(&Change { operation, pod: &given, old: &old }, &settings);
            let pod = patched(&given, &first.patch);
            prop_assert_eq!(untouchable(pod.clone()), untouchable(given.clone()));
            let change = Change { operation, pod: &pod, old: &old };
            prop_assert_eq!(decide(&change, &settings), Mutation::default());
            let _ = validate(&change, &settings);
        }
    }
}
