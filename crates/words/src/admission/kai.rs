//! A pod that was copied from a cluster with KAI reads ConfigMaps that KAI's binder made for it.
//! With divvy there are none: a container that waits for one would never start.

use super::Mutation;
use super::patch::{Step, member};
use crate::keys;
use crate::problem::short;
use serde_json::Value;

/// The pod without what KAI's admission has put there; `None` if it has not seen the pod. What the
/// user wrote stays.
pub(super) fn without_config_maps(pod: &Value, mutation: &mut Mutation) -> Option<Value> {
    let annotations = pod.get("metadata")?.get("annotations")?;
    let prefix = annotations.get(keys::KAI_CONFIG_MAPS)?.as_str()?;
    let is_kais = |name: Option<&Value>| {
        name.and_then(Value::as_str).is_some_and(|name| is_config_map(prefix, name))
    };
    let mut rest = pod.clone();
    let path = member("/metadata/annotations", keys::KAI_CONFIG_MAPS);
    if let Some(map) = rest.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        map.remove(keys::KAI_CONFIG_MAPS);
    }
    mutation.patch.push(Step::Remove { path });
    // By what it reads: KAI has changed how it names the volume.
    let is_volume = |volume: &Value| is_kais(volume.pointer("/configMap/name"));
    let list = |pointer: &str| pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let volumes = list("/spec/volumes").filter(|volume| is_volume(volume));
    let volumes: Vec<&Value> = volumes.filter_map(|volume| volume.get("name")).collect();
    keep(&mut rest, "/spec/volumes", |volume| !is_volume(volume), mutation);
    for containers in ["/spec/initContainers", "/spec/containers"] {
        for at in 0..list(containers).count() {
            let at = |field: &str| format!("{containers}/{at}/{field}");
            let is_env = |e: &Value| is_kais(e.pointer("/valueFrom/configMapKeyRef/name"));
            keep(&mut rest, &at("env"), |entry| !is_env(entry), mutation);
            let is_source = |e: &Value| is_kais(e.pointer("/configMapRef/name"));
            keep(&mut rest, &at("envFrom"), |source| !is_source(source), mutation);
            let is_mount = |m: &Value| m.get("name").is_some_and(|name| volumes.contains(&name));
            keep(&mut rest, &at("volumeMounts"), |mount| !is_mount(mount), mutation);
        }
    }
    mutation.warnings.push(format!(
        "metadata.annotations[\"{}\"] was removed, with the variables and the volume that KAI's admission had added: \
         divvy makes no ConfigMaps {}-...",
        keys::KAI_CONFIG_MAPS,
        short(prefix)
    ));
    Some(rest)
}

/// Whether KAI gives this name to a ConfigMap of a pod with this prefix: with the number of the
/// container, of an init container after `i`; that for `envFrom` ends in `-evar`.
fn is_config_map(prefix: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')) else {
        return false;
    };
    let rest = rest.strip_suffix("-evar").unwrap_or(rest);
    let number = rest.strip_prefix('i').unwrap_or(rest);
    !prefix.is_empty() && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

/// Keeps of a list what is to be kept.
fn keep(pod: &mut Value, path: &str, keep: impl Fn(&Value) -> bool, mutation: &mut Mutation) {
    let Some(list) = pod.pointer_mut(path).and_then(Value::as_array_mut) else { return };
    let before = list.len();
    list.retain(|entry| keep(entry));
    if list.len() < before {
        let value = Value::Array(list.clone());
        mutation.patch.push(Step::Add { path: path.to_owned(), value });
    }
}
