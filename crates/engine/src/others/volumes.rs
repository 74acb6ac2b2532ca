//! Volumes: which nodes the storage of a pod can be used from, as kube-scheduler's plugins
//! VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits decide it.
//!
//! ```text
//!   StorageEvent ─► Volumes: claims, volumes, classes, drivers ... and who uses what where
//!                     │ prepare: once for a pod, what its volumes ask, or why no node will do
//!                     ▼
//!                   Wants::pick: for each node, what is chosen there, or why not
//!                     │ assume: the choice is seen by the next pod at once
//!                     ▼
//!                   VolumeStep: what the edge writes before it binds the pod
//! ```
//!
//! Pods that use no volume of these kinds are not known here and cost nothing.

mod assume;
mod limits;
mod pinned;
mod reason;
mod record;
mod refusal;
mod uses;
mod wants;

pub use reason::VolumeReason;
pub use record::{
    AccessModes, Attached, AttachmentRecord, CapacityRecord, ClaimRecord, ClaimRef, ClassRecord,
    CsiNodeRecord, DriverRecord, Migrated, StorageEvent, Terms, VolumeRecord,
};
pub(crate) use refusal::Refusal;
pub use uses::{Disk, VolumeStep, VolumeUse};
pub(crate) use wants::Wants;

use crate::record::ObjectKey;
use crate::relations::Relations;
pub(crate) use assume::Assumed;
use assume::Assumption;
use divvy_ledger::{Bytes, NodeId, PodId};
use foldhash::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;

/// All storage objects, the pods that hold volumes, and what is assumed of both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volumes {
    claims: HashMap<ObjectKey, ClaimRecord>,
    volumes: HashMap<Box<str>, VolumeRecord>,
    /// The volumes of each class, smallest first.
    by_class: HashMap<Box<str>, BTreeSet<(Bytes, Box<str>)>>,
    classes: HashMap<Box<str>, ClassRecord>,
    csi_nodes: HashMap<Box<str>, CsiNodeRecord>,
    drivers: HashMap<Box<str>, DriverRecord>,
    capacities: BTreeMap<Box<str>, CapacityRecord>,
    attachments: HashMap<Box<str>, AttachmentRecord>,
    /// The attachments of each node.
    attached_to: HashMap<Box<str>, BTreeSet<Box<str>>>,
    /// Pods that use volumes.
    pods: HashMap<PodId, Member>,
    /// Those that hold a place, by node.
    on_node: HashMap<NodeId, BTreeSet<PodId>>,
    /// The same by the claims they use.
    users: HashMap<ObjectKey, BTreeSet<PodId>>,
    /// What was decided about claims that are not bound.
    assumed: HashMap<ObjectKey, Assumption>,
    /// Volumes that were given to claims and do not say so yet.
    reserved: HashMap<Box<str>, ObjectKey>,
    storage_changes: StorageChanges,
}

/// A pod that uses volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    key: ObjectKey,
    relations: Arc<Relations>,
    /// Where it holds a place, if it does.
    node: Option<NodeId>,
}

impl Member {
    fn uses(&self) -> &[VolumeUse] {
        &self.relations.volumes
    }
}

/// What has changed so that pods that wait for it may fit now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StorageChanges {
    claims: BTreeSet<ObjectKey>,
    volumes: BTreeSet<Box<str>>,
    classes: BTreeSet<Box<str>>,
    /// A driver changed, which may matter to any pod with volumes.
    drivers: bool,
}

impl StorageChanges {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Volumes {
    /// Enters what happened to a storage object. If that may make room on one node, its name is
    /// the answer.
    pub(crate) fn apply(&mut self, event: StorageEvent) -> Option<Box<str>> {
        match event {
            StorageEvent::Claim(record) => self.set_claim(*record),
            StorageEvent::ClaimGone(key) => {
                self.claims.remove(&key);
                self.forget_assumption(&key);
                self.storage_changes.claims.insert(key);
            }
            StorageEvent::Volume(record) => self.set_volume(*record),
            StorageEvent::VolumeGone(name) => self.remove_volume(&name),
            StorageEvent::Class(record) => {
                let name = record.name.clone();
                if replace(&mut self.classes, name.clone(), *record) {
                    self.storage_changes.classes.insert(name);
                }
            }
            StorageEvent::ClassGone(name) => {
                self.classes.remove(&name);
                self.storage_changes.classes.insert(name);
            }
            StorageEvent::CsiNode(record) => {
                let node = record.node.clone();
                return replace(&mut self.csi_nodes, node.clone(), *record).then_some(node);
            }
            StorageEvent::CsiNodeGone(node) => {
                return self.csi_nodes.remove(&node).map(|_| node);
            }
            StorageEvent::Driver(record) => {
                self.storage_changes.drivers |=
                    replace(&mut self.drivers, record.name.clone(), record);
            }
            StorageEvent::DriverGone(name) => {
                self.storage_changes.drivers |= self.drivers.remove(&name).is_some();
            }
            StorageEvent::Capacity(record) => {
                self.storage_changes.classes.insert(record.class.clone());
                self.capacities.insert(record.key.clone(), *record);
            }
            StorageEvent::CapacityGone(key) => {
                self.capacities.remove(&key);
            }
            StorageEvent::Attachment(record) => {
                let moved = self.remove_attachment(&record.name);
                let moved = moved.filter(|node| *node != record.node);
                let at = self.attached_to.entry(record.node.clone()).or_default();
                at.insert(record.name.clone());
                self.attachments.insert(record.name.clone(), *record);
                return moved;
            }
            StorageEvent::AttachmentGone(name) => return self.remove_attachment(&name),
        }
        None
    }

    fn set_claim(&mut self, record: ClaimRecord) {
        let key = record.key.clone();
        if self.claims.get(&key).is_some_and(|known| known.uid != record.uid) {
            self.forget_assumption(&key);
        }
        let is_news = replace(&mut self.claims, key.clone(), record);
        self.confirm(&key);
        if is_news {
            self.storage_changes.claims.insert(key);
        }
    }

    fn set_volume(&mut self, record: VolumeRecord) {
        if self.volumes.get(&record.name) == Some(&record) {
            return;
        }
        self.remove_volume(&record.name);
        let size = record.terms.size.unwrap_or_default();
        let of_class = self.by_class.entry(record.terms.class.clone()).or_default();
        of_class.insert((size, record.name.clone()));
        self.storage_changes.classes.insert(record.terms.class.clone());
        let claim = record.claim.as_ref().map(|claim| claim.key.clone());
        self.volumes.insert(record.name.clone(), record);
        if let Some(claim) = claim {
            self.confirm(&claim);
        }
    }

    fn remove_volume(&mut self, name: &str) {
        self.storage_changes.volumes.insert(name.into());
        let Some(record) = self.volumes.remove(name) else { return };
        let entry = (record.terms.size.unwrap_or_default(), record.name);
        take_from(&mut self.by_class, &record.terms.class, &entry);
    }

    /// The node that it was attached to.
    fn remove_attachment(&mut self, name: &str) -> Option<Box<str>> {
        let record = self.attachments.remove(name)?;
        take_from(&mut self.attached_to, &record.node, &record.name);
        Some(record.node)
    }

    /// Makes a pod known if it uses volumes; it holds no place yet.
    pub(crate) fn enroll(
        &mut self,
        pod: PodId,
        key: &ObjectKey,
        relations: Option<&Arc<Relations>>,
    ) {
        self.expel(pod);
        if let Some(relations) = relations.filter(|relations| !relations.volumes.is_empty()) {
            let member = Member { key: key.clone(), relations: relations.clone(), node: None };
            self.pods.insert(pod, member);
        }
    }

    /// Forgets a pod, and what was assumed only for it.
    pub(crate) fn expel(&mut self, pod: PodId) {
        self.leave(pod);
        let Some(member) = self.pods.remove(&pod) else { return };
        for claim in member.uses().iter().filter_map(VolumeUse::claim) {
            self.undo(claim, pod);
        }
    }

    /// A pod got a place.
    pub(crate) fn enter(&mut self, pod: PodId, node: NodeId) {
        self.leave(pod);
        let Some(member) = self.pods.get_mut(&pod) else { return };
        member.node = Some(node);
        let relations = member.relations.clone();
        self.on_node.entry(node).or_default().insert(pod);
        for claim in relations.volumes.iter().filter_map(VolumeUse::claim) {
            self.users.entry(claim.clone()).or_default().insert(pod);
        }
    }

    /// A pod lost its place.
    pub(crate) fn leave(&mut self, pod: PodId) {
        let Some(member) = self.pods.get_mut(&pod) else { return };
        let Some(node) = member.node.take() else { return };
        let relations = member.relations.clone();
        take_from(&mut self.on_node, &node, &pod);
        for claim in relations.volumes.iter().filter_map(VolumeUse::claim) {
            take_from(&mut self.users, claim, &pod);
            self.storage_changes.claims.insert(claim.clone());
        }
    }

    /// What has changed since [`Volumes::take_storage_changes`] was last asked.
    pub(crate) const fn storage_changes(&self) -> &StorageChanges {
        &self.storage_changes
    }

    /// Says that nothing else has changed.
    pub(crate) fn set_storage_changes(&mut self, storage_changes: StorageChanges) {
        self.storage_changes = storage_changes;
    }

    /// What has changed since the last time this was asked.
    pub(crate) fn take_storage_changes(&mut self) -> StorageChanges {
        std::mem::take(&mut self.storage_changes)
    }

    /// Whether such changes can help a pod with these volumes.
    pub(crate) fn concerns(&self, storage_changes: &StorageChanges, uses: &[VolumeUse]) -> bool {
        let is_concerned = |claim: &ObjectKey| {
            storage_changes.claims.contains(claim)
                || self.claims.get(claim).is_some_and(|record| match &record.volume {
                    Some(volume) => storage_changes.volumes.contains(volume),
                    None => storage_changes.classes.contains(&record.terms.class),
                })
        };
        storage_changes.drivers || uses.iter().filter_map(VolumeUse::claim).any(is_concerned)
    }
}

/// Enters a value and says whether it was not there like this before.
fn replace<K: Eq + Hash, V: Eq>(map: &mut HashMap<K, V>, key: K, value: V) -> bool {
    match map.get_mut(&key) {
        Some(known) if *known == value => false,
        Some(known) => {
            *known = value;
            true
        }
        None => {
            map.insert(key, value);
            true
        }
    }
}

/// Takes one member out of a set of sets; an empty set goes too.
fn take_from<K, Q, V>(sets: &mut HashMap<K, BTreeSet<V>>, key: &Q, member: &V)
where
    K: Eq + Hash + std::borrow::Borrow<Q>,
    Q: Eq + Hash + ?Sized,
    V: Ord,
{
    if let Some(set) = sets.get_mut(key) {
        set.remove(member);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
