//! The hand-off of a share pod, and the removal of what only a binding may bring.

use super::container::{ContainerFacts, set_variables};
use super::isolation;
use super::kai::remove_config_maps;
use super::patch::{Step, member};
use super::pod::ReviewedPod;
use super::void::{void_new_ephemeral, void_variable};
use super::{Mutation, Operation, PodChange, Settings};
use crate::hand_off::{has_no_device, missing};
use crate::isolation::Provider;
use crate::keys;
use crate::koordinator;
use crate::manifest::{Container, annotation_path};
use crate::problem::short;
use crate::request::share_containers;
use serde_json::{Value, json};

/// Prepares a pod for its cards. An error is why the pod is refused: it cannot be read. What makes no
/// sense in it is left to [`super::validate`].
pub fn mutate(change: &PodChange<'_>, settings: &Settings) -> Result<Mutation, String> {
    let mut mutation = Mutation::default();
    let mut pod = ReviewedPod::read(change.pod)?;
    if change.operation == Operation::Create {
        remove_strays(&pod, &mut mutation);
    }
    if !pod.is_our_share(settings) {
        if change.operation == Operation::Create && pod.is_ours(settings) {
            name_whole_cards(&pod, &mut mutation);
        }
        return Ok(mutation);
    }
    match change.operation {
        Operation::Create => {
            if let Some(isolation) = &settings.isolation {
                isolation::default_level(&mut pod, isolation, &mut mutation);
            }
            let mut variables = keys::HAND_OFF_VARIABLES.to_vec();
            let provider = isolation::provider(&pod, settings);
            if let Some(provider) = provider {
                isolation::note_variables(&mut pod, provider)?;
                variables.extend(isolation::variables(&pod, provider));
            }
            remove_config_maps(&mut pod, &mut mutation)?;
            hand_off(&pod, &variables, provider, settings, &mut mutation);
        }
        Operation::EphemeralContainers => void_new_ephemeral(&pod, change, &mut mutation)?,
        Operation::Update => {}
    }
    Ok(mutation)
}

/// A manifest that was copied from a running pod carries what that pod was given.
fn remove_strays(pod: &ReviewedPod<'_>, mutation: &mut Mutation) {
    let annotations = pod.metadata.annotations.iter().map(|(key, _)| key);
    let annotations = annotations.filter(|key| keys::HAND_OFF.contains(key));
    let strays = annotations.map(|key| ("annotations", key));
    for (field, key) in strays.chain(pod.stray_labels.iter().map(|key| ("labels", &**key))) {
        let path = member(&format!("/metadata/{field}"), key);
        mutation.patch.push(Step::Remove { path });
        mutation.warnings.push(format!(
            "metadata.{field}[\"{}\"] was removed: divvy writes it when it places the pod",
            short(key)
        ));
    }
}

/// Whole cards come from the device plugin, and it knows its own name for them.
fn name_whole_cards(pod: &ReviewedPod<'_>, mutation: &mut Mutation) {
    let asks_both =
        |c: &Container| c.resources.limits.iter().any(|(name, _)| name.starts_with(keys::GPU));
    if !matches!(koordinator::asked(&pod.spec), Ok(Some(_)))
        || pod.containers().any(|(_, container)| asks_both(container))
    {
        return;
    }
    for (part, container) in pod.containers() {
        let Some(cards) = koordinator::cards_of(container) else { continue };
        let resources = &container.resources;
        for (field, list) in [("limits", &resources.limits), ("requests", &resources.requests)] {
            let field = part.place.pointer(&format!("resources/{field}"));
            let theirs = keys::KOORDINATOR.into_iter().filter(|name| list.amount(name).is_some());
            let gone = theirs.map(|name| Step::Remove { path: member(&field, name) });
            let before = mutation.patch.len();
            mutation.patch.extend(gone);
            if mutation.patch.len() > before {
                let (path, value) = (member(&field, keys::GPU), json!(cards.to_string()));
                mutation.patch.push(Step::Add { path, value });
            }
        }
    }
}

fn hand_off(
    pod: &ReviewedPod<'_>,
    variables: &[(&str, &'static str)],
    provider: Option<&Provider>,
    settings: &Settings,
    mutation: &mut Mutation,
) {
    let shares = share_containers(&pod.metadata, &pod.spec);
    if shares.is_empty() {
        return;
    }
    for (at, (part, container)) in pod.containers().enumerate() {
        if shares.contains(&at) {
            let reads_all = missing(container, variables).is_none();
            let safe: Vec<_> = match provider {
                Some(provider) => isolation::safe_values(container, provider, reads_all).collect(),
                None => Vec::new(),
            };
            if !reads_all || !safe.is_empty() {
                let all = variables.iter().map(hand_off_variable).chain(safe).collect();
                set(part, container, all, mutation);
            }
        } else if !has_no_device(container) {
            set(part, container, vec![void_variable()], mutation);
        }
    }
    if pod.runtime_class.is_empty() && !settings.runtime_class.is_empty() {
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
fn set(part: &ContainerFacts, container: &Container, all: Vec<Value>, mutation: &mut Mutation) {
    let names: Vec<&str> = all.iter().filter_map(|entry| entry.get("name")?.as_str()).collect();
    let is_theirs = |name: &str| {
        let mut entries = container.env.iter().filter(|entry| entry.name == name);
        // `void` may be from a policy of the cluster, and who wrote it wanted no card to be seen.
        entries.any(|entry| !entry.source.is_no_device())
    };
    for name in names.into_iter().filter(|name| is_theirs(name)) {
        mutation.warnings.push(format!(
            "container {}: the variable {name} was replaced; divvy sets it in pods with a GPU share",
            short(&container.name)
        ));
    }
    mutation.patch.extend(set_variables(part, container, all));
}
