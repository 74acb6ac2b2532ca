//! The hand-off of a share pod, and the removal of what only a binding may bring.

use super::kai::without_config_maps;
use super::patch::{Step, member};
use super::raw::{Place, Pod};
use super::void::{void_new_ephemeral, void_variable};
use super::{Change, Mutation, Operation, Settings};
use crate::hand_off::{has_no_device, missing_hand_off};
use crate::keys;
use crate::manifest::{Container, annotation_path};
use crate::problem::short;
use crate::request::share_container;
use serde_json::{Value, json};

/// Prepares a pod for its cards. What cannot be prepared is left to [`super::validate`] to refuse.
pub fn mutate(change: &Change<'_>, settings: &Settings) -> Mutation {
    let mut mutation = Mutation::default();
    if change.operation == Operation::Create {
        remove_strays(change.pod, &mut mutation);
    }
    let Ok(pod) = Pod::read(change.pod) else { return mutation };
    if !pod.is_our_share(settings) {
        return mutation;
    }
    match change.operation {
        Operation::Create => {
            let rest = without_config_maps(pod.raw, &mut mutation);
            match rest.as_ref().map(Pod::read) {
                Some(Ok(rest)) => hand_off(&rest, settings, &mut mutation),
                _ => hand_off(&pod, settings, &mut mutation),
            }
        }
        Operation::EphemeralContainers => void_new_ephemeral(&pod, change.old, &mut mutation),
        Operation::Update => {}
    }
    mutation
}

/// A manifest that was copied from a running pod carries what that pod was given.
fn remove_strays(pod: &Value, mutation: &mut Mutation) {
    let keys = |field: &str| {
        let map = pod.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_object);
        map.into_iter().flat_map(|map| map.keys())
    };
    let is_group = |key: &str| {
        let rest = key.strip_prefix(keys::GPU_GROUP);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let annotations = keys("annotations").filter(|key| keys::HAND_OFF.contains(&key.as_str()));
    let labels = keys("labels").filter(|key| is_group(key));
    let strays = annotations.map(|key| ("annotations", key));
    for (field, key) in strays.chain(labels.map(|key| ("labels", key))) {
        let path = member(&format!("/metadata/{field}"), key);
        mutation.patch.push(Step::Remove { path });
        mutation.warnings.push(format!(
            "metadata.{field}[\"{}\"] was removed: divvy writes it when it places the pod",
            short(key)
        ));
    }
}

fn hand_off(pod: &Pod<'_>, settings: &Settings, mutation: &mut Mutation) {
    let Some(share) = share_container(&pod.metadata, &pod.spec) else { return };
    for (at, (place, container)) in pod.containers().enumerate() {
        if at == share {
            if missing_hand_off(container).is_some() {
                let all = keys::HAND_OFF_VARIABLES.iter().map(hand_off_variable).collect();
                set(pod, place, container, all, mutation);
            }
        } else if !has_no_device(container) {
            set(pod, place, container, vec![void_variable()], mutation);
        }
    }
    if pod.runtime_class().is_empty() && !settings.runtime_class.is_empty() {
        let (path, value) = ("/spec/runtimeClassName".to_owned(), json!(settings.runtime_class));
        mutation.patch.push(Step::Add { path, value });
    }
    if pod.spec.termination_grace_period_seconds == Some(0) {
        let (path, value) = ("/spec/terminationGracePeriodSeconds".to_owned(), json!(1));
        mutation.patch.push(Step::Add { path, value });
        mutation.warnings.push(
            "spec.terminationGracePeriodSeconds: 0 was made 1: with 0 every deletion is one by force, and the pod \
             gone before its containers have ended"
                .to_owned(),
        );
    }
}

fn hand_off_variable((name, annotation): &(&str, &str)) -> Value {
    let field = json!({"apiVersion": "v1", "fieldPath": annotation_path(annotation)});
    json!({"name": name, "valueFrom": {"fieldRef": field}})
}

/// Sets variables, and says which of the user's own they replace.
fn set(
    pod: &Pod<'_>,
    place: Place,
    container: &Container,
    all: Vec<Value>,
    mutation: &mut Mutation,
) {
    let names: Vec<&str> = all.iter().filter_map(|entry| entry.get("name")?.as_str()).collect();
    let is_theirs = |name: &str| {
        let mut entries = container.env.iter().filter(|entry| &*entry.name == name);
        // `void` may be from a policy of the cluster, and who wrote it wanted no card to be seen.
        entries.any(|entry| !entry.source.is_no_device())
    };
    for name in names.into_iter().filter(|name| is_theirs(name)) {
        mutation.warnings.push(format!(
            "container {}: the variable {name} was replaced; divvy sets it in pods with a GPU share",
            short(&container.name)
        ));
    }
    mutation.patch.push(place.set_variables(pod.raw, all));
}
