//! Whatever stands in a pod: admission does not panic, its patch applies, a second call changes
//! nothing, and nothing but variables, names of whole cards, the runtime class, a grace period of 0, what a binding brings and
//! what KAI added is touched.

use super::{asked, patched, plain, settings};
use crate::admission::mistaken::mistaken;
use crate::admission::pod::ReviewedPod;
use crate::admission::{Mutation, Operation, PodChange, Settings, mutate, validate, void};
use crate::keys;
use proptest::prelude::*;
use serde_json::{Value, json};

type Decide = fn(&PodChange<'_>, &Settings) -> Result<Mutation, String>;

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
        if spec.get("terminationGracePeriodSeconds") == Some(&json!(0)) {
            spec.insert("terminationGracePeriodSeconds".to_owned(), json!(1));
        }
        clean(spec, "volumes", &|v| !is_kais(v.pointer("/configMap/name")));
        for list in ["initContainers", "containers", "ephemeralContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
            {
                let Some(container) = container.as_object_mut() else { continue };
                for list in ["limits", "requests"] {
                    let resources = container.get_mut("resources").and_then(|r| r.get_mut(list));
                    if let Some(list) = resources.and_then(Value::as_object_mut) {
                        list.retain(|name, _| {
                            !["nvidia.com/gpu", "koordinator.sh/gpu"].contains(&&**name)
                        });
                    }
                }
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

/// What a field is for, or now and then anything.
fn field(kind: Kind, typed: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    match kind {
        Kind::Typed => typed.boxed(),
        Kind::Any => prop_oneof![12 => typed, 1 => anything()].boxed(),
    }
}

#[derive(Clone, Copy)]
enum Kind {
    /// As the API server writes it.
    Typed,
    /// As it does not.
    Any,
}

fn one_of<const N: usize>(all: [Value; N]) -> impl Strategy<Value = Value> {
    prop::sample::select(Vec::from(all))
}

fn entry(kind: Kind) -> BoxedStrategy<Value> {
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
    let typed = prop_oneof![
        (name.clone(), "void|none|all|").prop_map(|(n, v)| json!({"name": n, "value": v})),
        (name.clone(), path).prop_map(
            |(n, p)| json!({"name": n, "valueFrom": {"fieldRef": {"fieldPath": p, "x": 1}}})
        ),
        (name, config_map()).prop_map(
            |(n, name)| json!({"name": n, "valueFrom": {"configMapKeyRef": {"name": name}}})
        ),
    ];
    field(kind, typed)
}

/// Of KAI, if the pod says that KAI's begin with `a`, or not.
fn config_map() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a-i1-evar"), Just("a-x"), Just("b-0")]
}

fn container(kind: Kind) -> BoxedStrategy<Value> {
    let resources = one_of([
        json!({}),
        json!(null),
        json!({"limits": {"nvidia.com/gpu": "1"}}),
        json!({"limits": {"cpu": "1", "nvidia.com/gpu": "0"}, "requests": null}),
        json!({"requests": {"nvidia.com/mig-1g.5gb": 1, "cpu": "x"}}),
        json!({"requests": {"nvidia.com/gpu": "0.5", "example.com/x": "3"}}),
        json!({"limits": {"koordinator.sh/gpu": "50"}, "requests": {"koordinator.sh/gpu": "50", "cpu": 1}}),
        json!({"limits": {"koordinator.sh/gpu": "200"}, "requests": {"koordinator.sh/gpu": "200"}}),
        json!({"limits": {"koordinator.sh/gpu-core": "50"}}),
    ]);
    let context = one_of([
        json!(null),
        json!({"privileged": false, "capabilities": {"add": ["CHOWN"], "drop": ["ALL"]}}),
        json!({"privileged": true}),
        json!({"runAsUser": 5, "capabilities": {"add": ["x", "cap_sys_admin"]}}),
    ]);
    let env = prop::collection::vec(entry(kind), 0..4).prop_map(Value::from);
    let env = prop_oneof![9 => env, 1 => Just(Value::Null)];
    let from = config_map().prop_map(|name| json!([{"configMapRef": {"name": name}}, {"x": {}}]));
    let mounts = one_of([json!([{"name": "v"}, {"name": "w"}]), json!([]), json!(null)]);
    let parts = (
        "[ab]",
        field(kind, env),
        field(kind, from),
        field(kind, mounts),
        field(kind, resources),
        field(kind, prop_oneof![8 => Just(json!(null)), 2 => context]),
        anything(),
    );
    let whole = parts.prop_map(|(name, env, from, mounts, resources, context, other)| {
        json!({
            "name": name, "env": env, "envFrom": from, "volumeMounts": mounts,
            "resources": resources, "securityContext": context, "new": other,
        })
    });
    field(kind, whole)
}

fn pod(kind: Kind) -> BoxedStrategy<Value> {
    let list = |most: usize| {
        let all = prop::collection::vec(container(kind), 0..most).prop_map(Value::from);
        field(kind, prop_oneof![9 => all, 1 => Just(Value::Null)])
    };
    let key = prop_oneof![
        prop::sample::select([&keys::REQUEST[..], &keys::HAND_OFF].concat())
            .prop_map(str::to_owned),
        Just(keys::GPU_FRACTION.to_owned()),
        Just(keys::KAI_CONFIG_MAPS.to_owned()),
        Just("runai-gpu-group".to_owned()),
        Just("runai-gpu-group/a~b".to_owned()),
        "[a-z~/]{1,3}",
    ];
    let text = || field(kind, one_of(["0.5", "a", "1", "true", ""].map(Value::from)));
    let map = || {
        let map = prop::collection::btree_map(key.clone(), text(), 0..4);
        field(kind, map.prop_map(|map| json!(map)))
    };
    let class = one_of([json!(null), json!(""), json!("nvidia"), json!("other")]);
    let scheduler = prop_oneof![
        3 => Just(json!("divvy-scheduler")),
        1 => one_of([json!(null), json!("other")]),
    ];
    let node = prop_oneof![8 => Just(json!(null)), 1 => Just(json!("n1"))];
    let grace = one_of([json!(null), json!(0), json!(30), json!(601)]);
    let overhead = one_of([json!(null), json!({"cpu": "1"}), json!({"nvidia.com/gpu": "1"})]);
    let claims = prop_oneof![9 => Just(json!(null)), 1 => Just(json!([{"name": "c"}]))];
    let volumes = prop_oneof![
        config_map().prop_map(|name| json!([{"name": "v", "configMap": {"name": name}}])),
        Just(json!([{"name": "v", "emptyDir": {}}])),
    ];
    let lists = (list(3), list(3), list(3), field(kind, volumes));
    let fields = (
        field(kind, class),
        field(kind, scheduler),
        field(kind, node),
        field(kind, grace),
        field(kind, overhead),
        field(kind, claims),
    );
    let whole = (lists, map(), map(), fields, anything()).prop_map(
        |((init, main, debug, volumes), annotations, labels, fields, other)| {
            let (class, scheduler, node, grace, overhead, claims) = fields;
            json!({
                "metadata": {"annotations": annotations, "labels": labels, "new": other},
                "spec": {
                    "initContainers": init, "containers": main, "ephemeralContainers": debug,
                    "volumes": volumes, "runtimeClassName": class, "schedulerName": scheduler,
                    "nodeName": node, "terminationGracePeriodSeconds": grace,
                    "overhead": overhead, "resourceClaims": claims, "new": other,
                },
            })
        },
    );
    field(kind, whole)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_patch_applies_once_and_touches_nothing_else(
        given in pod(Kind::Any),
        old in pod(Kind::Any),
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

    #[test]
    fn what_is_read_of_a_review_decides_as_the_whole_pod_would(given in pod(Kind::Typed)) {
        let settings = settings();
        let decide = |pod: &Value, decide: Decide| {
            let decided = decide(&asked(Operation::Create, pod, &Value::Null).change(), &settings);
            patched(pod, &decided.unwrap().patch)
        };
        let first = decide(&given, mutate);
        prop_assert_eq!(&first, &plain::mutated(&given, &settings));
        let second = decide(&first, void);
        prop_assert_eq!(&second, &plain::voided(&first, &settings));
        for pod in [given, second] {
            let asked = asked(Operation::Create, &pod, &Value::Null);
            prop_assert_eq!(validate(&asked.change(), &settings), plain::verdict(&pod, &settings));
            let reviewed = ReviewedPod::read(asked.change().pod).unwrap();
            let told: Vec<String> = mistaken(&reviewed, "").map(|(_, text)| text).collect();
            prop_assert_eq!(told, plain::mistaken(&pod));
        }
    }
}
