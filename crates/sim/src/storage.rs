//! Claims, volumes and classes of a rehearsal.
//!
//! What `kubectl get nodes,pods` prints says nothing of storage, and a rehearsal of it cannot wait
//! for claims that it will never see: claims are then left out, with a warning. As soon as the
//! cluster has one storage object, claims count as they do in a live cluster.

use divvy_engine::{
    ClaimRecord, ClassRecord, ObjectKey, PodRecord, Relations, StorageEvent, VolumeUse,
};
use divvy_words::{Content, Entry, Kind, Object, keys, namespace_of, storage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a rehearsal knows of storage.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    /// Whether the cluster has any storage object.
    is_known: bool,
    claims: BTreeSet<ObjectKey>,
    classes: BTreeMap<Box<str>, ClassRecord>,
    default_class: Option<Box<str>>,
    /// Claims of the workload whose volumes are made before their pods are placed.
    provisioned: BTreeSet<ObjectKey>,
    /// How many pods have claims that are left out.
    left_out: usize,
}

impl Storage {
    /// Reads the storage objects of cluster and workload; what is wrong goes to `warnings`.
    pub(crate) fn read(
        cluster: &[Entry],
        workload: &[Entry],
        warnings: &mut Vec<String>,
    ) -> (Self, Vec<StorageEvent>) {
        let mut known = Self::default();
        let mut events = Vec::new();
        for entry in cluster {
            if let Some(event) = event(entry, warnings) {
                known.is_known = true;
                known.note(entry, &event);
                events.push(event);
            }
        }
        if !known.is_known {
            return (known, events);
        }
        let mut new: Vec<StorageEvent> = Vec::new();
        for entry in workload {
            if let Some(event) = event(entry, warnings) {
                known.note(entry, &event);
                new.push(event);
            }
        }
        for event in &mut new {
            if let StorageEvent::Claim(claim) = event {
                known.expect(claim, workload, warnings);
            }
        }
        events.extend(new);
        (known, events)
    }

    /// Whether storage objects of the workload are used.
    pub(crate) const fn is_known(&self) -> bool {
        self.is_known
    }

    fn note(&mut self, entry: &Entry, event: &StorageEvent) {
        match event {
            StorageEvent::Claim(claim) => {
                self.claims.insert(claim.key.clone());
            }
            StorageEvent::Class(class) => {
                let is_default = |object: &Object| {
                    object.metadata.annotations.get(keys::DEFAULT_STORAGE_CLASS) == Some("true")
                };
                if matches!(entry, Entry::Object(object) if is_default(object)) {
                    self.default_class = Some(class.name.clone());
                }
                self.classes.insert(class.name.clone(), (**class).clone());
            }
            _ => {}
        }
    }

    /// What the API server and the volume controller would make of a new claim.
    fn expect(&mut self, claim: &mut ClaimRecord, workload: &[Entry], warnings: &mut Vec<String>) {
        if let Some(class) = &self.default_class
            && !names_class(&claim.key, workload)
        {
            claim.terms.class.clone_from(class);
        }
        let Some(class) = self.classes.get(&claim.terms.class) else { return };
        if let Some(provisioner) = &class.provisioner
            && !class.waits_for_pod
            && claim.volume.is_none()
        {
            let key = &claim.key;
            warnings.push(format!(
                "claim {key} is provisioned by {provisioner} as soon as it is created: taken as \
                 reachable from every node"
            ));
            self.provisioned.insert(key.clone());
        }
    }

    /// Leaves out what nothing is known of. `is_new` for a pod that is not in the cluster yet.
    pub(crate) fn prune(&mut self, record: &mut PodRecord, is_new: bool) {
        let is_left_out = self.leave_out(record, is_new);
        self.left_out += usize::from(is_left_out && !self.is_known);
    }

    /// The same of a pod that is not counted. Whether something was left out.
    pub(crate) fn leave_out(&self, record: &mut PodRecord, is_new: bool) -> bool {
        let Some(relations) = &mut record.spec.relations else { return false };
        let is_left_out = |usage: &VolumeUse| match usage {
            VolumeUse::Claim(claim) => !self.is_known || self.provisioned.contains(claim),
            // The claim of a new pod would be made with it.
            VolumeUse::Ephemeral { claim, .. } => {
                !self.is_known || (is_new && !self.claims.contains(claim))
            }
            VolumeUse::Disk(_) | VolumeUse::Attached(_) => false,
        };
        if !relations.volumes.iter().any(is_left_out) {
            return false;
        }
        Arc::make_mut(relations).volumes.retain(|usage| !is_left_out(usage));
        if **relations == Relations::default() {
            record.spec.relations = None;
        }
        true
    }

    /// What was left out, in a sentence.
    pub(crate) fn warning(&self) -> Option<String> {
        let pods = self.left_out;
        (pods > 0).then(|| {
            format!(
                "persistentVolumeClaim of {pods} pods is not looked at: the cluster has no storage \
                 objects (kubectl get pvc,pv,storageclass,csinode -A -o yaml prints them)"
            )
        })
    }
}

/// What an entry says, if it is a storage object that can be read.
fn event(entry: &Entry, warnings: &mut Vec<String>) -> Option<StorageEvent> {
    let unreadable = |kind: &str, namespace: &str, name: &str, why: &str| {
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{kind} {namespace}{slash}{name} cannot be read and does not count: {why}")
    };
    match entry {
        Entry::Object(object) => {
            let Content::Storage(kind, manifest) = &object.content else { return None };
            let metadata = &object.metadata;
            storage(*kind, manifest)
                .map_err(|why| {
                    let text = unreadable(&object.kind, &metadata.namespace, &metadata.name, &why);
                    warnings.push(text);
                })
                .ok()
        }
        Entry::Malformed { kind, namespace, name, error, .. } => {
            if matches!(Kind::of(kind, ""), Some(Kind::Storage(_))) {
                warnings.push(unreadable(kind, namespace, name, error));
            }
            None
        }
    }
}

/// Whether a claim of the workload says which class it wants, if only "none".
fn names_class(key: &ObjectKey, workload: &[Entry]) -> bool {
    workload.iter().any(|entry| match entry {
        Entry::Object(Object { metadata, content: Content::Storage(_, manifest), .. }) => {
            *metadata.name == *key.name()
                && namespace_of(&metadata.namespace) == key.namespace()
                && (manifest.spec.storage_class_name.is_some()
                    || metadata.annotations.get(keys::BETA_STORAGE_CLASS).is_some())
        }
        _ => false,
    })
}
