//! The decisions once more, on whole trees of values and whole manifests: slow, large and easy to
//! believe.

use super::{hand_off_variables, void_entry};
use crate::admission::Settings;
use crate::grace_period::grace_period_allowed;
use crate::hand_off::{has_no_device, missing, visible_devices};
use crate::manifest::{Container, Metadata, PodManifest};
use crate::mistakes::{PodField, mistake};
use crate::problem::{Problems, short};
use crate::quantity::Quantity;
use crate::request::{check_container, containers, is_share, request, share_containers};
use crate::resources::totals;
use crate::{hand_off_ready, keys, koordinator};
use serde::Deserialize;
use serde_json::{Value, json};

fn read(pod: &Value) -> (Metadata, PodManifest) {
    let part = |field: &str| pod.get(field).filter(|part| !part.is_null()).cloned();
    let metadata = part("metadata").map(|part| Metadata::deserialize(part).unwrap());
    let spec = part("spec").map(|part| PodManifest::deserialize(part).unwrap());
    (metadata.unwrap_or_default(), spec.unwrap_or_default())
}

fn places(pod: &Value) -> Vec<String> {
    let of = |list: &str| {
        let count = pod["spec"][list].as_array().map_or(0, Vec::len);
        (0..count).map(|at| format!("/spec/{list}/{at}")).collect::<Vec<_>>()
    };
    [of("initContainers"), of("containers")].concat()
}

fn asks_gpu(container: &Container) -> bool {
    let all = container.resources.limits.iter().chain(container.resources.requests.iter());
    all.filter(|(name, _)| {
        name.starts_with("nvidia.com/gpu") || name.starts_with("nvidia.com/mig-")
    })
    .any(|(_, amount)| amount.as_ref().is_ok_and(|amount| *amount > Quantity::ZERO))
}

fn set(container: &mut Value, first: &[Value]) {
    let is_set = |entry: &Value| first.iter().any(|new| new["name"] == entry["name"]);
    let rest: Vec<Value> = container["env"].as_array().cloned().unwrap_or_default();
    let rest = rest.into_iter().filter(|entry| !is_set(entry));
    container["env"] = first.iter().cloned().chain(rest).collect();
}

/// The new pod as the first webhook leaves it.
pub(super) fn mutated(pod: &Value, settings: &Settings) -> Value {
    let mut pod = pod.clone();
    let is_group = |key: &str| key.split('/').next() == Some(keys::GPU_GROUP);
    let is_stray = |field: &str, key: &str| match field {
        "labels" => is_group(key),
        _ => keys::HAND_OFF.contains(&key),
    };
    for field in ["annotations", "labels"] {
        if let Some(map) = pod["metadata"][field].as_object_mut() {
            map.retain(|key, _| !is_stray(field, key));
        }
    }
    let (metadata, spec) = read(&pod);
    if !settings.places(&spec.scheduler_name) {
        return pod;
    }
    if !is_share(&metadata, &spec) {
        name_whole_cards(&mut pod, &spec);
        return pod;
    }
    remove_kais(&mut pod);
    let (metadata, spec) = read(&pod);
    let shares = share_containers(&metadata, &spec);
    if shares.is_empty() {
        return pod;
    }
    for (at, (place, container)) in places(&pod).iter().zip(containers(&spec)).enumerate() {
        let value = pod.pointer_mut(place).unwrap();
        if shares.contains(&at) && missing(container, &keys::HAND_OFF_VARIABLES).is_some() {
            set(value, &hand_off_variables());
        } else if !shares.contains(&at) && !has_no_device(container) {
            set(value, &[void_entry()]);
        }
    }
    if pod["spec"]["runtimeClassName"].as_str().unwrap_or_default().is_empty() {
        pod["spec"]["runtimeClassName"] = json!(settings.runtime_class);
    }
    if pod["spec"]["terminationGracePeriodSeconds"] == 0 {
        pod["spec"]["terminationGracePeriodSeconds"] = json!(1);
    }
    pod
}

/// Whole cards that are asked by a name that only Koordinator knows.
fn name_whole_cards(pod: &mut Value, spec: &PodManifest) {
    let names = |list: &Value| list.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
    let is_nvidias = |place: &String| {
        let limits = &pod.pointer(place).unwrap()["resources"]["limits"];
        names(limits).into_iter().flatten().any(|name| name.starts_with("nvidia.com/gpu"))
    };
    if !matches!(koordinator::asked(spec), Ok(Some(_))) || places(pod).iter().any(is_nvidias) {
        return;
    }
    for place in places(pod) {
        for field in ["limits", "requests"] {
            let Some(list) = pod.pointer_mut(&format!("{place}/resources/{field}")) else {
                continue;
            };
            let Some(list) = list.as_object_mut() else { continue };
            // The only ones that the generator makes.
            if let Some(percent) = list.remove("koordinator.sh/gpu") {
                let cards = percent.as_str().unwrap().parse::<u32>().unwrap().div_ceil(100);
                list.insert("nvidia.com/gpu".to_owned(), json!(cards.to_string()));
            }
        }
    }
}

fn remove_kais(pod: &mut Value) {
    let annotations = pod["metadata"]["annotations"].as_object_mut();
    let prefix = annotations.and_then(|all| all.remove(keys::KAI_CONFIG_MAPS));
    let Some(prefix) = prefix.as_ref().and_then(Value::as_str).map(str::to_owned) else { return };
    let is_kais = |name: Option<&Value>| {
        let rest = name.and_then(Value::as_str).and_then(|name| name.strip_prefix(&prefix));
        let numbers = ["-0", "-1", "-i1", "-0-evar", "-1-evar", "-i1-evar"];
        !prefix.is_empty() && rest.is_some_and(|rest| numbers.contains(&rest))
    };
    let mut keep = |pointer: &str, is_kept: &dyn Fn(&Value) -> bool| {
        if let Some(list) = pod.pointer_mut(pointer).and_then(Value::as_array_mut) {
            list.retain(is_kept);
        }
    };
    let volumes = std::cell::RefCell::new(Vec::new());
    keep("/spec/volumes", &|volume| {
        let is_gone = is_kais(volume.pointer("/configMap/name"));
        volumes.borrow_mut().extend(is_gone.then(|| volume["name"].clone()));
        !is_gone
    });
    for list in ["initContainers", "containers"] {
        for at in 0..3 {
            let field = |field: &str| format!("/spec/{list}/{at}/{field}");
            keep(&field("env"), &|e| !is_kais(e.pointer("/valueFrom/configMapKeyRef/name")));
            keep(&field("envFrom"), &|e| !is_kais(e.pointer("/configMapRef/name")));
            keep(&field("volumeMounts"), &|m| !volumes.borrow().contains(&m["name"]));
        }
    }
}

/// The new pod as the second webhook leaves it.
pub(super) fn voided(pod: &Value, settings: &Settings) -> Value {
    let mut pod = pod.clone();
    let (metadata, spec) = read(&pod);
    let class = pod["spec"]["runtimeClassName"].as_str().unwrap_or_default();
    let has_gpu_runtime = class.starts_with("nvidia") || containers(&spec).any(asks_gpu);
    if (settings.places(&spec.scheduler_name) && is_share(&metadata, &spec)) || !has_gpu_runtime {
        return pod;
    }
    for (place, container) in places(&pod).iter().zip(containers(&spec)) {
        if !asks_gpu(container) && visible_devices(container).next().is_none() {
            set(pod.pointer_mut(place).unwrap(), &[void_entry()]);
        }
    }
    pod
}

/// What is said of a new pod, or why it is refused.
pub(super) fn verdict(pod: &Value, settings: &Settings) -> Result<Vec<String>, String> {
    let (metadata, spec) = read(pod);
    if !settings.places(&spec.scheduler_name) {
        return Ok(Vec::new());
    }
    let (mut problems, mut warnings) = (Problems::default(), Vec::new());
    check_container(&metadata, &spec, &mut problems);
    let whole = totals(&spec, None).get(keys::GPU).unwrap_or_default();
    request(&metadata, &spec, whole, &mut problems);
    let field = |place: &str| {
        let (list, at) = place.trim_start_matches("/spec/").split_once('/').unwrap();
        format!("spec.{list}[{at}]")
    };
    let all = || places(pod).into_iter().zip(containers(&spec));
    if is_share(&metadata, &spec) {
        if !spec.node_name.is_empty() {
            let node = short(&spec.node_name);
            problems.note(|| {
                format!(
                    "spec.nodeName: {node:?} is set in a pod with a GPU share, but divvy must place it to choose its \
                     card; use spec.nodeSelector or spec.affinity"
                )
            });
        }
        problems.note_some(|| grace_period_allowed(&spec, settings.max_grace_period).err());
        for (at, (place, container)) in all().enumerate() {
            let context = &pod.pointer(&place).unwrap()["securityContext"];
            let add = context["capabilities"]["add"].as_array().cloned().unwrap_or_default();
            let is_admin =
                |name: &Value| ["ALL", "cap_sys_admin"].contains(&name.as_str().unwrap());
            let power = match context["privileged"] == true {
                true => "is privileged",
                false if add.iter().any(is_admin) => "has the capability SYS_ADMIN",
                false => continue,
            };
            let (field, name) = (field(&place), &container.name);
            let text = format!(
                "{field}.securityContext: container {name} {power}: it reaches every card of its node"
            );
            if share_containers(&metadata, &spec).contains(&at) {
                problems.note(|| {
                    format!("{text}, and not only its GPU share; take one of the two away")
                });
            } else {
                warnings.push(text);
            }
        }
        problems.note_some(|| hand_off_ready(&metadata, &spec).err());
    } else {
        problems.note_some(|| hand_off_ready(&metadata, &spec).err());
        problems.note_some(|| {
            let is_own = |container: &Container| {
                visible_devices(container)
                    .any(|s| !s.is_no_device() && !s.is_annotation("divvy.dev/visible-devices"))
            };
            let (place, container) = all().find(|(_, container)| is_own(container))?;
            Some(format!(
                "{}.env: container {} sets NVIDIA_VISIBLE_DEVICES; allowed are void and none, and GPUs are asked for \
                 by resource or annotation",
                field(&place),
                container.name
            ))
        });
    }
    problems.into_first().map_or(Ok(warnings), Err)
}

/// Names that nobody reads.
pub(super) fn mistaken(pod: &Value) -> Vec<String> {
    let (_, spec) = read(pod);
    let mut all = Vec::new();
    for (place, name) in [(PodField::Annotations, "annotations"), (PodField::Labels, "labels")] {
        let map = pod["metadata"][name].as_object().into_iter().flatten();
        all.extend(map.map(|(key, _)| (place, format!("metadata.{name}"), key.clone())));
    }
    for (place, container) in places(pod).into_iter().zip(containers(&spec)) {
        let (list, at) = place.trim_start_matches("/spec/").split_once('/').unwrap();
        let field = format!("spec.{list}[{at}].resources.limits");
        let names = container.resources.limits.iter();
        all.extend(names.map(|(name, _)| (PodField::Resources, field.clone(), name.to_owned())));
    }
    let told = all.into_iter().filter_map(|(place, field, key)| {
        let why = mistake(place, &key)?;
        Some(format!("{field}[\"{key}\"]: {}; {}", why.what, why.next))
    });
    told.collect()
}
