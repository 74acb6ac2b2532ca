//! Storage objects and the volumes of pods into records for the engine.

mod in_tree;

use crate::affinity;
use crate::keys;
use crate::manifest::{
    Expression, LabelSelector, Metadata, NodeSelector, PodManifest, StorageKind, StorageManifest,
    StorageSpec, TopologyTerm, Volume,
};
use crate::namespace::namespace_of;
use crate::problem::Problems;
use crate::quantity::{Quantity, WrittenAmount, WrittenQuantity};
use divvy_engine::{
    AccessModes, Attached, AttachmentRecord, CapacityRecord, ClaimRecord, ClaimRef, ClassRecord,
    CsiNodeRecord, Disk, DriverRecord, ObjectKey, Requirement, Selector, StorageEvent, Term, Terms,
    Test, Values, VolumeRecord, VolumeUse,
};
use divvy_ledger::Bytes;
use in_tree::Plugin;

/// What may be kept of the selector of one claim, in bytes.
const MAX_SELECTOR: usize = 8 * 1024;
/// No object of Kubernetes has a longer name.
const MAX_NAME: usize = 253;

/// What the engine has to know of a storage object, or what is wrong with it.
pub fn storage(kind: StorageKind, object: &StorageManifest) -> Result<StorageEvent, String> {
    let StorageManifest { metadata, spec, .. } = object;
    let name = metadata.name.clone();
    Ok(match kind {
        StorageKind::Claim => StorageEvent::Claim(Box::new(claim(object)?)),
        StorageKind::Volume => StorageEvent::Volume(Box::new(volume(object)?)),
        StorageKind::Class => StorageEvent::Class(Box::new(class(object))),
        StorageKind::CsiNode => StorageEvent::CsiNode(Box::new(CsiNodeRecord {
            node: name,
            drivers: spec
                .drivers
                .iter()
                .map(|driver| {
                    let limit = driver.allocatable.count.map(|n| u32::try_from(n).unwrap_or(0));
                    ((*driver.name).into(), limit)
                })
                .collect(),
            migrated: metadata
                .annotations
                .get(keys::MIGRATED_PLUGINS)
                .map(|plugins| plugins.split(',').map(Into::into).collect())
                .unwrap_or_default(),
        })),
        StorageKind::Driver => StorageEvent::Driver(DriverRecord {
            name,
            tells_capacity: spec.storage_capacity,
            must_be_installed: spec.prevent_pod_scheduling_if_missing,
        }),
        StorageKind::Capacity => StorageEvent::Capacity(Box::new(capacity(object)?)),
        StorageKind::Attachment => StorageEvent::Attachment(Box::new(AttachmentRecord {
            name,
            node: spec.node_name.clone(),
            driver: (*spec.attacher).into(),
            volume: spec.source.persistent_volume_name.clone(),
        })),
    })
}

/// More claims and disks than a node can attach are a mistake.
const MAX_USES: usize = 64;

/// The volumes of a pod that decide where it can run.
pub(crate) fn uses(
    key: &ObjectKey,
    metadata: &Metadata,
    spec: &PodManifest,
    problems: &mut Problems,
) -> Vec<VolumeUse> {
    let mut uses = Vec::new();
    for volume in &spec.volumes {
        for usage in uses_of(key, metadata, volume).into_iter().flatten() {
            if uses.len() == MAX_USES {
                problems.note(|| {
                    format!("spec.volumes: more than {MAX_USES} claims and disks; no node takes so many for a pod")
                });
                return uses;
            }
            // A claim that is mounted twice is needed once.
            if !uses.contains(&usage) {
                uses.push(usage);
            }
        }
    }
    uses
}

/// A disk both keeps others off and counts.
fn uses_of(key: &ObjectKey, metadata: &Metadata, volume: &Volume) -> [Option<VolumeUse>; 2] {
    let claim = |name: &str| ObjectKey::new(key.namespace(), name);
    if let Some(source) = &volume.persistent_volume_claim {
        return [Some(VolumeUse::Claim(claim(&source.claim_name))), None];
    }
    if volume.ephemeral.is_some() {
        let claim = claim(&format!("{}-{}", key.name(), volume.name));
        return [Some(VolumeUse::Ephemeral { claim, pod: metadata.uid.clone() }), None];
    }
    let attached = |plugin: &Plugin, handle: Option<Box<str>>| {
        let driver = plugin.driver.into();
        Some(VolumeUse::Attached(Attached { driver, handle: handle?, in_tree: true }))
    };
    if let Some(disk) = &volume.gce_persistent_disk {
        let (name, read_only) = (disk.pd_name.clone(), disk.read_only);
        let handle = in_tree::gce_handle(&name, None);
        return [
            Some(VolumeUse::Disk(Disk::Gce { name, read_only })),
            attached(&in_tree::GCE, handle),
        ];
    }
    if let Some(disk) = &volume.aws_elastic_block_store {
        let id = disk.volume_id.clone();
        let handle = in_tree::ebs_handle(&id);
        return [Some(VolumeUse::Disk(Disk::Ebs { id })), attached(&in_tree::EBS, handle)];
    }
    if let Some(disk) = &volume.iscsi {
        let (iqn, read_only) = (disk.iqn.clone(), disk.read_only);
        return [Some(VolumeUse::Disk(Disk::Iscsi { iqn, read_only })), None];
    }
    if let Some(disk) = &volume.rbd {
        let pool = if disk.pool.is_empty() { "rbd".into() } else { disk.pool.clone() };
        let (monitors, image) = (disk.monitors.clone(), disk.image.clone());
        let disk = Disk::Rbd { monitors, pool, image, read_only: disk.read_only };
        return [Some(VolumeUse::Disk(disk)), None];
    }
    let counted = [
        (&in_tree::AZURE, &volume.azure_disk),
        (&in_tree::CINDER, &volume.cinder),
        (&in_tree::PORTWORX, &volume.portworx_volume),
    ];
    let found = counted.into_iter().find_map(|(plugin, disk)| Some((plugin, disk.as_ref()?)));
    [found.and_then(|(plugin, disk)| attached(plugin, in_tree::plain_handle(plugin, disk))), None]
}

fn claim(object: &StorageManifest) -> Result<ClaimRecord, String> {
    let StorageManifest { metadata, spec, status, .. } = object;
    let annotation = |key| metadata.annotations.get(key);
    let given = |text: &str| (!text.is_empty()).then(|| text.into());
    let size = spec.resources.requests.amount(keys::STORAGE);
    Ok(ClaimRecord {
        key: ObjectKey::new(namespace_of(&metadata.namespace), &metadata.name),
        uid: metadata.uid.clone(),
        owner: metadata
            .owner_references
            .iter()
            .find(|owner| owner.controller)
            .map(|owner| owner.uid.clone()),
        terms: terms(object, bytes(size, "spec.resources.requests[\"storage\"]")?),
        selector: spec.selector.as_ref().map_or(Selector::all([]), claim_selector),
        volume: given(no_longer(&spec.volume_name)),
        bind_completed: annotation(keys::BIND_COMPLETED).is_some(),
        selected_node: annotation(keys::SELECTED_NODE).map(|node| no_longer(node).into()),
        lost: &*status.phase == "Lost",
        deleting: !metadata.deletion_timestamp.is_empty(),
    })
}

fn volume(object: &StorageManifest) -> Result<VolumeRecord, String> {
    let StorageManifest { metadata, spec, status, .. } = object;
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let affinity = required.map(affinity_terms);
    let labels = &metadata.labels;
    let in_tree = in_tree::of_volume(spec, labels, affinity.as_deref());
    let (attached, migrated) = match (&spec.csi, in_tree) {
        (Some(csi), _) => {
            let (driver, handle) = ((*csi.driver).into(), csi.volume_handle.clone());
            let is_named = !csi.driver.is_empty() && !handle.is_empty();
            (is_named.then_some(Attached { driver, handle, in_tree: false }), None)
        }
        (None, Some((attached, migrated))) => (attached, Some(Box::new(migrated))),
        (None, None) => (None, None),
    };
    let capacity = spec.capacity.amount(keys::STORAGE);
    Ok(VolumeRecord {
        name: metadata.name.clone(),
        terms: terms(object, bytes(capacity, "spec.capacity[\"storage\"]")?),
        labels: labels.iter().collect(),
        claim: spec.claim_ref.as_ref().map(|claim| ClaimRef {
            key: ObjectKey::new(&claim.namespace, &claim.name),
            uid: claim.uid.clone(),
        }),
        available: &*status.phase == "Available",
        deleting: !metadata.deletion_timestamp.is_empty(),
        affinity,
        migrated,
        attached,
    })
}

fn class(object: &StorageManifest) -> ClassRecord {
    let provisioner = &*object.provisioner;
    let plugin = in_tree::by_name(provisioner);
    let driver = match plugin {
        Some(plugin) => plugin.map(|plugin| plugin.driver.into()),
        None => (!provisioner.is_empty()).then(|| provisioner.into()),
    };
    let makes_volumes = !matches!(provisioner, "" | keys::NO_PROVISIONER);
    ClassRecord {
        name: object.metadata.name.clone(),
        provisioner: makes_volumes.then(|| provisioner.into()),
        driver,
        in_tree: plugin.is_some(),
        waits_for_pod: &*object.volume_binding_mode == "WaitForFirstConsumer",
        topologies: object.allowed_topologies.iter().map(topology).collect(),
    }
}

fn capacity(object: &StorageManifest) -> Result<CapacityRecord, String> {
    let metadata = &object.metadata;
    // The size of a volume says more than the space of all of them.
    let largest = match &object.maximum_volume_size {
        Some(WrittenAmount(size)) => bytes(Some(size), "maximumVolumeSize")?,
        None => bytes(object.capacity.as_ref().map(|WrittenAmount(size)| size), "capacity")?,
    };
    Ok(CapacityRecord {
        key: format!("{}/{}", metadata.namespace, metadata.name).into(),
        class: object.storage_class_name.clone(),
        largest,
        nodes: object.node_topology.as_ref().map_or(Selector::NOTHING, selector),
    })
}

fn terms(object: &StorageManifest, size: Option<Bytes>) -> Terms {
    let StorageManifest { metadata, spec, .. } = object;
    let StorageSpec { storage_class_name, volume_attributes_class_name, .. } = spec;
    let class = metadata.annotations.get(keys::BETA_STORAGE_CLASS);
    let modes = spec.access_modes.iter().map(|mode| match &**mode {
        "ReadWriteOnce" => AccessModes::READ_WRITE_ONCE,
        "ReadOnlyMany" => AccessModes::READ_ONLY_MANY,
        "ReadWriteMany" => AccessModes::READ_WRITE_MANY,
        "ReadWriteOncePod" => AccessModes::READ_WRITE_ONCE_POD,
        _ => AccessModes::default(),
    });
    Terms {
        class: class.or(storage_class_name.as_deref()).unwrap_or_default().into(),
        attributes_class: volume_attributes_class_name.clone(),
        size,
        modes: modes.fold(AccessModes::default(), AccessModes::and),
        block: &*spec.volume_mode == "Block",
    }
}

fn bytes(amount: Option<&WrittenQuantity>, field: &str) -> Result<Option<Bytes>, String> {
    match amount {
        Some(Ok(quantity)) => Ok(Some(Bytes(Quantity::value_ceil(*quantity)))),
        Some(Err(error)) => Err(format!("{field}: {error}")),
        None => Ok(None),
    }
}

/// The conditions of a selector; one that makes no sense holds nowhere.
/// What a claim asks of volumes. Tenants make claims, and what is kept of one has a bound: a selector
/// beyond it matches nothing.
fn claim_selector(given: &LabelSelector) -> Selector {
    let labels = given.match_labels.iter().flat_map(|(key, value)| [key, value]);
    let expressions = given.match_expressions.iter();
    let expressions = expressions.flat_map(|e| [&e.key].into_iter().chain(&e.values));
    let texts = labels.chain(expressions.map(|text| &**text));
    let bytes: usize = texts.map(|text| 32 + text.len()).sum();
    if bytes <= MAX_SELECTOR { selector(given) } else { Selector::NOTHING }
}

/// A name that no object has, if this one is longer than names can be.
fn no_longer(name: &str) -> &str {
    if name.len() <= MAX_NAME { name } else { "/" }
}

fn selector(selector: &LabelSelector) -> Selector {
    let labels = selector.match_labels.iter();
    let labels = labels.map(|(key, value)| one_of(key, vec![value.into()]));
    let expressions = selector.match_expressions.iter().map(|e| {
        let test = affinity::test(e).ok().filter(|test| !matches!(test, Test::Gt(_) | Test::Lt(_)));
        Requirement { key: e.key.clone(), test: test.unwrap_or(Test::In(Values::default())) }
    });
    Selector::all(labels.chain(expressions))
}

fn topology(term: &TopologyTerm) -> Term {
    let labels = term.match_label_expressions.iter();
    let labels = labels.map(|Expression { key, values, .. }| one_of(key, values.clone()));
    Term { labels: labels.collect(), fields: Vec::new() }
}

fn one_of(key: &str, values: Vec<Box<str>>) -> Requirement {
    Requirement { key: key.into(), test: Test::In(values.into()) }
}

/// The terms that make sense; the others hold nowhere. Kubernetes looks at the labels of a node
/// here and not at its name, so that what is asked of the name holds everywhere.
fn affinity_terms(selector: &NodeSelector) -> Box<[Term]> {
    let terms = selector.node_selector_terms.iter().filter_map(|term| {
        let mut problems = Problems::default();
        let mut term = affinity::term(term, &String::new, &mut problems);
        let asks_only_name = term.labels.is_empty() && !term.fields.is_empty();
        if asks_only_name {
            term.labels
                .push(Requirement { key: Box::default(), test: Test::NotIn(Values::default()) });
        }
        term.fields.clear();
        problems.into_first().is_none().then_some(term)
    });
    terms.collect()
}

#[cfg(test)]
mod tests;
