//! What a pod's place depends on besides its node: other pods, and volumes. The one seam for it.
//!
//! ```text
//!   enroll, rename, expel      a pod is known, or is not any more
//!   enter, leave               it has a place, or has lost it
//!   prepare ─► check           what such a pod asks, found once; then asked of each node
//!   choose ─► assume           what is decided about its claims, and counts at once
//!   is_written                 whether all is there that has to be before it is bound
//!   take_changes ─► helps      what has happened, and whether a pod that waits is helped by it
//!   trace ─► undo, hush        for trials
//! ```
//!
//! A closed set: a further kind (claims of devices, quotas) is a field more, and nothing outside
//! knows how many there are.

mod census;
mod clash;
mod plain;
mod prepared;
mod topology;
mod volumes;

pub(crate) use census::Identity;
pub(crate) use clash::Culprits;
pub(crate) use prepared::Prepared;
pub use volumes::{
    AccessModes, Attached, AttachmentRecord, CapacityRecord, ClaimRecord, ClaimRef, ClassRecord,
    CsiNodeRecord, Disk, DriverRecord, Migrated, StorageEvent, Terms, VolumeReason, VolumeRecord,
    VolumeStep, VolumeUse,
};

use crate::labels::Labels;
use crate::record::PodRecord;
use crate::relations::Relations;
use crate::rules::{NodeFacts, Rules};
use crate::world::World;
use census::{Census, Departures, LabelSetId, Presence};
use divvy_ledger::{NodeId, PodId};
use std::collections::BTreeSet;
use std::sync::Arc;
use topology::{Topologies, Topology};
use volumes::{StorageChanges, Volumes};

/// Other pods and volumes, as far as places depend on them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Others {
    /// Which pods are where, by what relations ask of them.
    census: Census,
    topologies: Topologies,
    /// Storage objects and who uses them.
    volumes: Volumes,
    /// When changes were last taken, by the clock of the census.
    told: u64,
}

/// What has happened that pods may wait for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pods_moved: bool,
    departures: Departures,
    storage_changes: StorageChanges,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        !self.pods_moved && self.storage_changes.is_empty()
    }
}

/// What there was before a pod came to a node, or went.
#[derive(Debug)]
pub(crate) struct Trace {
    pod: PodId,
    node: NodeId,
    census: census::CensusTrace,
    assumed: volumes::Assumed,
}

/// What there was to tell at a moment.
#[derive(Debug)]
pub(crate) struct Untold {
    now: u64,
    storage_changes: StorageChanges,
}

impl Others {
    /// Who a pod is. Counts as one user until it is enrolled or dismissed.
    pub(crate) fn identify(&mut self, record: &PodRecord) -> Identity {
        self.census.identify(record)
    }

    /// One user more.
    pub(crate) fn keep(&mut self, who: Identity) {
        self.census.keep(who);
    }

    /// One user less.
    pub(crate) fn dismiss(&mut self, who: Identity) {
        self.census.dismiss(who);
    }

    /// Whether others matter to such a pod, or it to others.
    pub(crate) fn is_related(&self, who: Identity) -> bool {
        who.relation_set.is_some() || self.census.is_meant(who.label_set)
    }

    /// Makes a pod known under its id; it has no place yet.
    pub(crate) fn enroll(&mut self, pod: PodId, who: Identity, record: &PodRecord) {
        self.census.enroll(pod, who, Presence::of(record));
        self.volumes.enroll(pod, &record.key, record.spec.relations.as_ref());
    }

    /// Makes a pod another one in the eyes of others, wherever it is.
    pub(crate) fn rename(&mut self, pod: PodId, who: Identity, record: &PodRecord) {
        self.census.rename(pod, who, Presence::of(record));
    }

    /// Forgets a pod.
    pub(crate) fn expel(&mut self, pod: PodId) {
        self.census.expel(pod);
        self.volumes.expel(pod);
    }

    /// The labels of a pod, and whether it is about to go.
    pub(crate) fn look(&self, pod: PodId) -> Option<(&Labels, bool)> {
        self.census.look(pod)
    }

    /// A pod got a place.
    pub(crate) fn enter(&mut self, pod: PodId, node: NodeId) {
        self.census.enter(pod, node);
        self.volumes.enter(pod, node);
    }

    /// A pod lost its place.
    pub(crate) fn leave(&mut self, pod: PodId) {
        self.census.leave(pod);
        self.volumes.leave(pod);
    }

    /// The labels of a namespace are these now; `None` if it is gone.
    pub(crate) fn set_namespace(&mut self, name: &str, labels: Option<Labels>) {
        self.census.set_namespace(name, labels);
    }

    /// A node came, went, or has other labels or taints.
    pub(crate) fn node_changed(&mut self, node: NodeId, before: &NodeFacts, facts: &[NodeFacts]) {
        self.topologies.node_changed(node, before, facts);
        self.census.places_changed();
    }

    /// Enters what happened to a storage object. If that may make room on one node, its name is
    /// the answer.
    pub(crate) fn storage_changed(&mut self, event: StorageEvent) -> Option<Box<str>> {
        self.volumes.apply(event)
    }

    /// Which waiting pods have become the business of other pods' terms, by label set.
    pub(crate) fn take_found(&mut self) -> BTreeSet<LabelSetId> {
        self.census.take_found().into_iter().collect()
    }

    /// Keeps the topologies that such a pod asks about, for the tries to come.
    pub(crate) fn keep_topologies(&mut self, who: Identity, facts: &[NodeFacts]) {
        for key in self.census.topologies_of(who) {
            self.topologies.keep(&key, facts);
        }
    }

    /// Which nodes are near each other by this label.
    fn topology(&self, key: &str, facts: &[NodeFacts]) -> Arc<Topology> {
        self.topologies.get(key, facts)
    }

    /// Who an enrolled pod is.
    pub(crate) fn identity(&self, pod: PodId) -> Option<Identity> {
        self.census.identity(pod)
    }

    /// How much there is to look at on each node, to say why it is not for such a pod.
    pub(crate) fn cost(&self, who: Identity) -> usize {
        let own = self.relations_of(who).map_or(0, Relations::cost);
        own + self.census.owned_term_count(who)
    }

    /// How often label sets of a namespace's pods and terms have found each other, and how many such
    /// sets there are.
    pub(crate) fn matches_in(&self, namespace: &str) -> (usize, usize) {
        self.census.matches_in(namespace)
    }

    /// What such a pod says of others and of storage.
    pub(crate) fn relations_of(&self, who: Identity) -> Option<&Relations> {
        let relation_set = who.relation_set.and_then(|id| self.census.relation_set_of(id))?;
        Some(&relation_set.relations)
    }

    fn volumes_of(&self, who: Identity) -> &[VolumeUse] {
        self.relations_of(who).map_or(&[], |relations| &relations.volumes)
    }

    /// Remembers what was chosen for a pod that is held on this node.
    pub(crate) fn assume(&mut self, pod: PodId, node: &str, steps: &[VolumeStep]) {
        self.volumes.assume(pod, node, steps);
    }

    /// Whether all is there that has to be before a pod that is held on this node can be bound; or
    /// why it has to be placed anew.
    pub(crate) fn is_written(
        &self,
        pod: PodId,
        node: &str,
        facts: &NodeFacts,
    ) -> Result<bool, VolumeReason> {
        self.volumes.claims_bound(pod, node, facts)
    }

    /// Now, on the clock by which [`Others::helps`] looks back.
    pub(crate) const fn now(&self) -> u64 {
        self.census.now()
    }

    /// What has happened since this was last asked.
    pub(crate) fn take_changes(&mut self) -> Changes {
        let now = self.now();
        Changes {
            pods_moved: std::mem::replace(&mut self.told, now) != now,
            departures: Departures::default(),
            storage_changes: self.volumes.take_storage_changes(),
        }
    }

    /// Whether such changes can help such a pod that fitted nowhere then. And how much was looked at.
    pub(crate) fn helps(&self, who: Identity, then: u64, changes: &mut Changes) -> (bool, usize) {
        let Changes { pods_moved, departures, storage_changes } = changes;
        let (helped, looks) = match pods_moved {
            true => self.census.can_help(who, then, departures),
            false => (false, 0),
        };
        let is_concerned = || self.volumes.concerns(storage_changes, self.volumes_of(who));
        (helped || !storage_changes.is_empty() && is_concerned(), looks)
    }

    /// What there is before a pod comes to a node, or goes.
    pub(crate) fn trace(&self, pod: PodId, node: NodeId) -> Trace {
        let (census, assumed) = (self.census.trace(pod, node), self.volumes.assumed_for(pod));
        Trace { pod, node, census, assumed }
    }

    /// Takes back what has happened to that pod since.
    pub(crate) fn undo(&mut self, trace: Trace) {
        let Trace { pod, node, census, assumed } = trace;
        match census.was_there() {
            true => self.volumes.enter(pod, node),
            false => self.volumes.leave(pod),
        }
        self.volumes.assume_again(assumed);
        self.census.undo(census);
    }

    /// What there is to tell now.
    pub(crate) fn untold(&self) -> Untold {
        Untold { now: self.now(), storage_changes: self.volumes.storage_changes().clone() }
    }

    /// Takes back what there was to tell of what has been done and undone since.
    pub(crate) fn hush(&mut self, untold: &Untold) {
        if self.told == untold.now {
            self.told = self.now();
        }
        self.volumes.set_storage_changes(untold.storage_changes.clone());
    }
}

impl World {
    /// What such a pod asks of others, to be asked of each node.
    pub(crate) fn prepare<'a>(&'a self, who: Identity, rules: &'a Rules) -> Option<Prepared<'a>> {
        Some(Prepared::new(self.others.census.question(who, rules)?, self))
    }

    /// Whether one of these nodes, where something was freed, may be for such a pod, as far as what
    /// it shares with the pods of a node is concerned.
    pub(crate) fn may_take<'a>(
        &self,
        who: Identity,
        nodes: impl Iterator<Item = &'a NodeId>,
    ) -> bool {
        let mut nodes = nodes.filter(|node| self.others.census.has_ports(who, **node)).peekable();
        let uses = self.others.volumes_of(who);
        if uses.is_empty() || nodes.peek().is_none() {
            return nodes.peek().is_some();
        }
        let Ok(wants) = self.others.volumes.prepare(uses) else { return false };
        nodes.any(|node| wants.pick(*node, self).is_ok())
    }

    /// What has to be written before such a pod can be bound to this node.
    pub(crate) fn choose(&self, who: Identity, node: NodeId) -> Vec<VolumeStep> {
        let uses = self.others.volumes_of(who);
        if uses.is_empty() {
            return Vec::new();
        }
        let wants = self.others.volumes.prepare(uses);
        wants.map_or_else(|_| Vec::new(), |wants| wants.steps(node, self))
    }
}

#[cfg(test)]
impl Others {
    /// Whether all is the same that a trial must leave as it was.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        self.census.in_words() == other.census.in_words() && self.volumes == other.volumes
    }
}
