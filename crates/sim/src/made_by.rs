//! Which controller makes which pods.

use divvy_engine::ObjectKey;
use divvy_words::{Metadata, Object, namespace_of};
use std::collections::BTreeMap;

/// Kind, namespace and name.
type Controller = (Box<str>, Box<str>, Box<str>);

/// The pods of each controller.
#[derive(Clone, Debug, Default)]
pub struct MadeBy(BTreeMap<Controller, Vec<ObjectKey>>);

impl MadeBy {
    /// The pods of a controller, in the order in which they came; none if it is not known.
    pub fn pods(&self, kind: &str, controller: &ObjectKey) -> &[ObjectKey] {
        let key = (kind.into(), controller.namespace().into(), controller.name().into());
        self.0.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The controllers of a kind that have pods, by namespace and name.
    pub fn controllers(&self, kind: &str) -> impl Iterator<Item = String> {
        let of_kind = self.0.keys().filter(move |(own, ..)| **own == *kind);
        of_kind.map(|(_, namespace, name)| format!("{namespace}/{name}"))
    }

    /// Enters a pod under the controller that its metadata name. A Deployment makes its pods by a
    /// ReplicaSet whose name is its own and a hash, which the pods have as a label.
    pub(crate) fn enter_owned(&mut self, metadata: &Metadata, pod: &ObjectKey) {
        let controller = metadata.owner_references.iter().find(|owner| owner.controller);
        let Some(owner) = controller else { return };
        self.enter(&owner.kind, pod.namespace(), &owner.name, pod);
        let hash =
            metadata.labels.get("pod-template-hash").filter(|_| &*owner.kind == "ReplicaSet");
        let deployment = hash.and_then(|hash| owner.name.strip_suffix(hash)?.strip_suffix('-'));
        if let Some(deployment) = deployment {
            self.enter("Deployment", pod.namespace(), deployment, pod);
        }
    }

    /// Enters a pod that this object makes.
    pub(crate) fn enter_made(&mut self, maker: &Object, pod: &ObjectKey) {
        let Metadata { namespace, name, .. } = &maker.metadata;
        self.enter(&maker.kind, namespace_of(namespace), name, pod);
    }

    fn enter(&mut self, kind: &str, namespace: &str, name: &str, pod: &ObjectKey) {
        let key = (kind.into(), namespace.into(), name.into());
        self.0.entry(key).or_default().push(pod.clone());
    }
}
