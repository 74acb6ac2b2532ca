//! Whatever stands in a pod: admission does not panic, its patch applies, a second call changes
//! nothing, and nothing but variables, the runtime class, what a binding brings and what KAI added is
//! touched.

use super::{asked, patched, settings};
use crate::admission::{Mutation, Operation, mutate, validate, void};
use crate::keys;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The pod without all that admission may change.
fn untouchable(mut pod: Value) -> Value {
    let is_ours = |name: &str| keys::HAND_OFF_VARIABLES.iter().any(|(known, _)| *known == name);
    let is_kais = |name: Option<&Value>| name.is_some_and(|name| *name == "a-i1-evar");
    let clean =
        |map: &mut serde_json::Map<String, Value>, field: &str, kept: &dyn Fn(&Value) -> bool| {
            if let Some(list) = map.get_mut(field).and_then(Value::as_array_mut) {
                list.retain(kept);
            }
            if map.get(field).is_some_and(|list| list.is_null() || *list == json!([])) {
                map.remove(field);
            }
        };
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("runtimeClassName");
        clean(spec, "volumes", &|v| !is_kais(v.pointer("/configMap/name")));
        for list in ["initContainers", "containers", "ephemeralContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
            {
                let Some(container) = container.as_object_mut() else { continue };
                clean(container, "env", &|entry| {
                    !entry["name"].as_str().is_some_and(is_ours)
                        && !is_kais(entry.pointer("/valueFrom/configMapKeyRef/name"))
                });
                clean(container, "envFrom", &|e| !is_kais(e.pointer("/configMapRef/name")));
                clean(container, "volumeMounts", &|mount| mount["name"] != "v");
            }
        }
    }
    for (field, is_stray) in [
        (
            "annotations",
            (|key| keys::HAND_OFF.contains(&key) || key == keys::KAI_CONFIG_MAPS)
                as fn(&str) -> bool,
        ),
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
        config_map().prop_map(
            |name| json!({"name": "X", "valueFrom": {"configMapKeyRef": {"name": name}}})
        ),
        anything(),
    ]
}

/// Of KAI, if the pod says that KAI's begin with `a`, or not.
fn config_map() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a-i1-evar"), Just("a-x"), Just("b-0")]
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
    let from = prop_oneof![
        8 => config_map().prop_map(|name| json!([{"configMapRef": {"name": name}}])),
        1 => anything(),
    ];
    let mounts = prop_oneof![Just(json!([{"name": "v"}, {"name": "w"}])), anything()];
    let parts = ("[ab]", env, from, mounts, resources, anything());
    let whole = parts.prop_map(|(name, env, from, mounts, resources, other)| {
        json!({
            "name": name, "env": env, "envFrom": from, "volumeMounts": mounts,
            "resources": resources, "securityContext": other, "new": other,
        })
    });
    prop_oneof![9 => whole, 1 => anything()]
}

fn pod() -> impl Strategy<Value = Value> {
    let containers = || prop::collection::vec(container(), 0..3).prop_map(Value::from);
    let text = || prop_oneof![Just(json!("0.5")), Just(json!("a")), anything()];
    let key = prop_oneof![
        prop::sample::select([&keys::REQUEST[..], &keys::HAND_OFF].concat())
            .prop_map(str::to_owned),
        Just(keys::KAI_CONFIG_MAPS.to_owned()),
        Just("runai-gpu-group".to_owned()),
        Just("runai-gpu-group/a~b".to_owned()),
        "[a-z~/]{1,3}",
    ];
    let map = || prop::collection::btree_map(key.clone(), text(), 0..4).prop_map(|map| json!(map));
    let class = prop_oneof![Just(json!(null)), Just(json!("")), Just(json!("nvidia")), anything()];
    let names = prop_oneof![3 => Just(json!("divvy-scheduler")), 1 => anything()];
    let volumes = prop_oneof![
        config_map().prop_map(|name| json!([{"name": "v", "configMap": {"name": name}}])),
        anything(),
    ];
    let containers = (containers(), containers(), containers());
    let parts = (containers, volumes, map(), map(), class, names, anything());
    let whole = parts.prop_map(|(containers, volumes, annotations, labels, class, name, other)| {
        let (init, main, debug) = containers;
        json!({
            "metadata": {"annotations": annotations, "labels": labels, "new": other},
            "spec": {
                "initContainers": init, "containers": main, "ephemeralContainers": debug, "volumes": volumes,
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
            let first = asked(operation, &given, &old);
            let Ok(first) = decide(&first.change(), &settings) else { continue };
            let pod = patched(&given, &first.patch);
            prop_assert_eq!(untouchable(pod.clone()), untouchable(given.clone()));
            let second = asked(operation, &pod, &old);
            prop_assert_eq!(decide(&second.change(), &settings), Ok(Mutation::default()));
            let _ = validate(&second.change(), &settings);
        }
    }
}
