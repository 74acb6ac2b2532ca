//! The webhooks: whether the API server can reach them, and shows them the pods that it should.

use super::compare::{Expected, differences};
use crate::finding::Finding;
use crate::fix::fix;
use crate::objects::{ObservedWebhook, Webhooks};
use crate::observed::{Observed, SERVICE};
use serde_json::Value;
use std::collections::BTreeSet;

const FILE: &str = include_str!("../../../../deploy/webhooks.yaml");
const MUTATING: &str = "MutatingWebhookConfiguration";

pub(super) fn check(cluster: &Observed) -> Vec<Finding> {
    if !cluster.shares_cards() {
        return Vec::new();
    }
    let mut found = Vec::new();
    found.extend(missing(cluster));
    found.extend(changed(cluster));
    found.extend(unreachable(cluster));
    found
}

/// The webhooks of the file, each with the kind of what it stands in.
fn expected() -> Vec<(String, Value)> {
    let of = |document: Value| {
        let kind = document["kind"].as_str().unwrap_or_default().to_owned();
        let all = document["webhooks"].as_array().cloned().unwrap_or_default();
        all.into_iter().map(move |webhook| (kind.clone(), webhook)).collect::<Vec<_>>()
    };
    divvy_words::untyped(FILE).unwrap_or_default().into_iter().flat_map(of).collect()
}

fn all_of<'a>(cluster: &'a Observed, kind: &str) -> impl Iterator<Item = &'a ObservedWebhook> {
    let all = if kind == MUTATING { &cluster.mutating } else { &cluster.validating };
    all.iter().flat_map(|all: &Webhooks| &all.webhooks)
}

fn is_seen(cluster: &Observed, kind: &str) -> bool {
    let all = if kind == MUTATING { &cluster.mutating } else { &cluster.validating };
    all.why_hidden().is_none()
}

/// What goes with `--block-nvidia-visible-devices`, and is left out without.
pub(super) fn is_optional(cluster: &Observed, name: &str) -> bool {
    let of_devices = ["void.divvy.dev", "divvy-visible-devices", "divvy-device-annotations"];
    let is_one = of_devices.iter().any(|one| name.starts_with(one));
    is_one
        && cluster
            .admissions()
            .any(|one| one.option("block-nvidia-visible-devices") == Some("false"))
}

fn missing(cluster: &Observed) -> Option<Finding> {
    let lacks = |(kind, webhook): &(String, Value)| {
        let name = webhook["name"].as_str()?;
        let is_there = all_of(cluster, kind).any(|one| one.name == name);
        let may_lack = is_there || !is_seen(cluster, kind) || is_optional(cluster, name);
        (!may_lack).then(|| format!("no {kind} has the webhook {name}"))
    };
    let lacking: Vec<String> = expected().iter().filter_map(lacks).collect();
    (!lacking.is_empty()).then(|| {
        Finding::problem("webhook-missing", "the API server does not show pods to divvy's webhooks")
            .seen_at(lacking)
            .fix(Expected::seen(cluster).apply(&["webhooks.yaml"]))
    })
}

fn changed(cluster: &Observed) -> Option<Finding> {
    let (here, mut seen) = (Expected::seen(cluster), Vec::new());
    for (kind, mut expected) in expected() {
        let name = expected["name"].as_str().unwrap_or_default().to_owned();
        let Some(webhook) = all_of(cluster, &kind).find(|one| one.name == name) else { continue };
        // Where it is and what it trusts is looked at by others.
        if let Some(fields) = expected.as_object_mut() {
            fields.remove("clientConfig");
            fields.remove("name");
        }
        let there = Value::Object(webhook.rest.clone());
        let differences = differences(&expected, &there, &here);
        seen.extend(differences.into_iter().map(|at| format!("{kind} webhook {name}: {at}")));
    }
    (!seen.is_empty()).then(|| {
        Finding::warning("webhook-changed", "webhooks are not as this version of divvy has them")
            .seen_at(seen)
            .fix(here.apply_over(&["webhooks.yaml"]))
    })
}

/// No endpoint: where the webhooks must not fail, no pod with GPUs can be made.
fn unreachable(cluster: &Observed) -> Option<Finding> {
    let answers = |namespace: &str, name: &str| {
        let slices = cluster.endpoint_slices.iter().filter(|slice| {
            slice.metadata.namespace == namespace && slice.metadata.labels.is(SERVICE, name)
        });
        let mut endpoints = slices.flat_map(|slice| &slice.endpoints);
        endpoints.any(|endpoint| endpoint.conditions.ready != Some(false))
    };
    if cluster.endpoint_slices.why_hidden().is_some() {
        return None;
    }
    let services: BTreeSet<(String, String)> = cluster.services();
    let dead: Vec<_> =
        services.iter().filter(|(namespace, name)| !answers(namespace, name)).collect();
    let (namespace, name) = dead.first()?;
    let seen = |(namespace, name): &&(String, String)| {
        format!("service {namespace}/{name} has no endpoint that is ready")
    };
    Some(
        Finding::problem(
            "webhook-unreachable",
            "the webhooks cannot be reached: pods with GPUs are refused",
        )
        .seen_at(dead.iter().map(seen))
        .fix(fix!(
            "kubectl -n {namespace} rollout restart deployment/{name}\n\
                 kubectl -n {namespace} describe deployment/{name}",
            namespace,
            name
        )),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_webhooks_of_both_kinds() {
        let kinds: BTreeSet<String> = expected().into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [MUTATING, "ValidatingWebhookConfiguration"].map(str::to_owned).into());
    }
}
