//! A pod manifest, or the template of a controller, into a record for the engine.

use crate::keys;
use crate::manifest::{Metadata, PodManifest, PodStatus};
use crate::namespace::namespace_of;
use crate::priorities::Priorities;
use crate::problem::{Problems, check_metadata, short, visible};
use crate::{affinity, relations, request, resources, strategy, time, volumes};
use divvy_engine::{ObjectKey, PodRecord, PodSpec, Strategy};
use std::sync::Arc;

/// What may be kept of one pod: ten times what large ones have.
const MAX_WEIGHT: usize = 32 * 1024;
/// How many conditions about other pods one may have, and how many of these in selectors that name no
/// value: whatever changes is compared with all of them.
const MAX_CONDITIONS: usize = 256;
const MAX_LOOSE: usize = 16;

/// The record of a pod. `status` is that of a pod that exists, `owner` is the metadata of the
/// controller if this is its template. The caller sets the final key of such a pod, and `bound`,
/// for which `spec.rules.node_name` says the node. `invalid` names the first problem; the rest is then as good as it can be.
pub fn pod(
    metadata: &Metadata,
    spec: &PodManifest,
    status: Option<&PodStatus>,
    owner: Option<&Metadata>,
    priorities: &Priorities,
) -> PodRecord {
    let mut problems = Problems::default();
    request::check_container(metadata, spec, &mut problems);
    check_metadata(metadata, owner.is_some(), &mut problems);
    resources::check(spec, &mut problems);
    let bound = status.filter(|_| !spec.node_name.is_empty());
    let totals = resources::totals(spec, bound);
    if totals.is_cut() {
        problems.note(|| {
            "spec: its containers ask for more kinds of resources than any node has".to_owned()
        });
    }
    let whole = totals.get(keys::GPU).unwrap_or_default();
    let key = key(metadata, owner);
    let mut relations = relations::relations(metadata, key.namespace(), spec, &mut problems);
    let volumes = volumes::uses(&key, metadata, spec, &mut problems);
    if !volumes.is_empty() {
        relations.get_or_insert_default().volumes = volumes;
    }
    let asked = request::request(metadata, spec, whole, &mut problems);
    let asked = match bound {
        Some(status) => request::given(metadata, status, whole, asked),
        None => asked,
    };
    let mut record = PodSpec {
        request: request::with_devices(asked, &totals, spec),
        rules: affinity::rules(spec, &mut problems).into(),
        labels: Arc::new(metadata.labels.iter().collect()),
        relations: relations.map(Arc::new),
        strategy: own_strategy(metadata, owner, &mut problems),
        gates: spec.scheduling_gates.iter().map(|gate| gate.name.to_string()).collect(),
        ..PodSpec::default()
    };
    totals.enter(&mut record);
    // A pod that is bound has its claims, whoever saw to that.
    if spec.resource_claims > 0 && spec.node_name.is_empty() {
        problems.note(|| {
            "resource claims (DRA) are not supported yet; ask by the annotation gpu-fraction or \
             gpu-memory or by the limit nvidia.com/gpu, or leave the pod to schedulerName: \
             default-scheduler"
                .to_owned()
        });
    }
    let created = created(metadata, owner, &mut problems);
    let weight = record.weight();
    if weight > MAX_WEIGHT {
        problems.note(|| {
            format!(
                "its labels, selectors, affinity, tolerations, host ports, volumes and gates take {weight} bytes; \
                 allowed are {MAX_WEIGHT} for one pod"
            )
        });
        record.lighten();
    }
    let (conditions, loose) = record.conditions();
    if conditions > MAX_CONDITIONS || loose > MAX_LOOSE {
        problems.note(|| {
            format!(
                "its pod affinity and topology spread have {conditions} conditions, {loose} of them in selectors that \
                 name no label value; allowed are {MAX_CONDITIONS} and {MAX_LOOSE} for one pod"
            )
        });
        record.lighten();
    }
    PodRecord {
        key,
        uid: Box::default(),
        priority: priorities.of(spec),
        created,
        spec: record,
        invalid: problems.into_first(),
        nominated: status
            .map(|status| &status.nominated_node_name)
            .filter(|node| !node.is_empty())
            .cloned(),
        ..PodRecord::default()
    }
}

fn key(metadata: &Metadata, owner: Option<&Metadata>) -> ObjectKey {
    let namespace = [Some(metadata), owner]
        .into_iter()
        .flatten()
        .map(|metadata| &*metadata.namespace)
        .find(|namespace| !namespace.is_empty())
        .unwrap_or_default();
    let name = if metadata.name.is_empty() { &metadata.generate_name } else { &metadata.name };
    // A name that cannot be shown as it is makes the pod invalid; it is shown nevertheless.
    ObjectKey::new(&visible(namespace_of(namespace)), &visible(name))
}

/// The annotation of the pod, or else that of its controller.
fn own_strategy(
    metadata: &Metadata,
    owner: Option<&Metadata>,
    problems: &mut Problems,
) -> Option<Strategy> {
    let of = |metadata: &Metadata| metadata.annotations.get(keys::STRATEGY).map(str::to_owned);
    let text = of(metadata).or_else(|| owner.and_then(of))?;
    let found = strategy::parse(&text);
    if found.is_none() {
        problems.note(|| {
            let (field, text) = (keys::STRATEGY, short(&text));
            format!(
                "metadata.annotations[\"{field}\"]: {text:?}; allowed are {}",
                strategy::ALLOWED
            )
        });
    }
    found
}

/// Seconds since 1970. A pod that does not exist yet comes after all that do.
fn created(metadata: &Metadata, owner: Option<&Metadata>, problems: &mut Problems) -> i64 {
    let stamps = [Some(metadata), owner].into_iter().flatten().map(|m| &*m.creation_timestamp);
    let Some(text) = stamps.into_iter().find(|text| !text.is_empty()) else { return i64::MAX };
    time::seconds(text).unwrap_or_else(|| {
        problems.note(|| {
            let text = short(text);
            format!("metadata.creationTimestamp: {text:?} is no time like 2026-01-31T12:00:00Z")
        });
        i64::MAX
    })
}

#[cfg(test)]
mod tests;
