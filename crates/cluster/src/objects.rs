//! Objects of the API as far as a decision needs them, decoded straight from its answers.

use crate::listing::Keyed;
use divvy_api::watch::Item;
use divvy_engine::ObjectKey;
use divvy_words::manifest::{
    Metadata, NodeManifest, NodeStatus, PodGroupManifest, PodManifest, PodStatus, StorageManifest,
};
use serde::Deserialize;

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodItem {
    pub(crate) metadata: Metadata,
    pub(crate) spec: PodManifest,
    pub(crate) status: PodStatus,
    /// Why its spec could not be read.
    #[serde(skip)]
    pub(crate) unreadable: Option<String>,
}

impl Keyed for PodItem {
    type Key = ObjectKey;

    fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.metadata.namespace, &self.metadata.name)
    }
}

impl PodItem {
    /// The node it is bound to.
    pub(crate) fn node(&self) -> Option<&str> {
        Some(&*self.spec.node_name).filter(|node| !node.is_empty())
    }

    pub(crate) fn is_ending(&self) -> bool {
        !self.metadata.deletion_timestamp.is_empty()
    }

    /// Whether it ended only because its node is gone: its containers may still run.
    pub(crate) fn is_given_up(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|c| &*c.kind == "DisruptionTarget" && &*c.reason == "DeletionByPodGC")
    }

    /// What its condition says of why it waits.
    pub(crate) fn told(&self) -> Option<&str> {
        let mut conditions = self.status.conditions.iter();
        let scheduled = conditions.find(|c| &*c.kind == "PodScheduled")?;
        (&*scheduled.status == "False").then_some(&*scheduled.message)
    }
}

impl Item for PodItem {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn unreadable(text: &str, why: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Rest {
            metadata: Metadata,
            #[serde(default)]
            spec: RestSpec,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct RestSpec {
            node_name: String,
            scheduler_name: String,
        }
        let Rest { metadata, spec } = serde_json::from_str(text).ok()?;
        let spec = PodManifest {
            node_name: spec.node_name.into(),
            scheduler_name: spec.scheduler_name.into(),
            ..PodManifest::default()
        };
        Some(Self { metadata, spec, unreadable: Some(why.to_owned()), ..Self::default() })
    }
}

/// A node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeItem {
    pub(crate) metadata: Metadata,
    pub(crate) spec: NodeManifest,
    pub(crate) status: NodeStatus,
    /// Why it could not be read.
    #[serde(skip)]
    pub(crate) unreadable: Option<String>,
}

impl Keyed for NodeItem {
    type Key = Box<str>;

    fn key(&self) -> Box<str> {
        self.metadata.name.clone()
    }
}

impl Item for NodeItem {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn unreadable(text: &str, why: &str) -> Option<Self> {
        let NamespaceItem { metadata } = serde_json::from_str(text).ok()?;
        Some(Self { metadata, unreadable: Some(why.to_owned()), ..Self::default() })
    }
}

/// An object of which only the metadata counts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NamespaceItem {
    pub(crate) metadata: Metadata,
}

impl Keyed for NamespaceItem {
    type Key = Box<str>;

    fn key(&self) -> Box<str> {
        self.metadata.name.clone()
    }
}

impl Item for NamespaceItem {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn unreadable(_: &str, _: &str) -> Option<Self> {
        None
    }
}

/// A storage object of any kind.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct StorageItem(pub(crate) StorageManifest);

impl Keyed for StorageItem {
    type Key = ObjectKey;

    fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.0.metadata.namespace, &self.0.metadata.name)
    }
}

impl Item for StorageItem {
    fn version(&self) -> &str {
        &self.0.metadata.resource_version
    }

    fn unreadable(_: &str, _: &str) -> Option<Self> {
        None
    }
}

/// What KAI decided for a pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct BindRequestItem {
    pub(crate) metadata: Metadata,
    spec: BindRequestSpec,
    status: BindRequestStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BindRequestSpec {
    pod_name: Option<Box<str>>,
    selected_node: Option<Box<str>>,
    #[serde(rename = "selectedGPUGroups")]
    groups: Option<Vec<Box<str>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BindRequestStatus {
    phase: Option<Box<str>>,
}

impl BindRequestItem {
    /// Whether it says which cards a pod was bound to.
    pub(crate) fn is_done(&self) -> bool {
        let has_groups = self.spec.groups.as_ref().is_some_and(|groups| !groups.is_empty());
        has_groups && self.status.phase.as_deref() == Some("Succeeded")
    }

    /// The groups of this pod, if they were decided, and done.
    pub(crate) fn groups_of(&self, pod: &PodItem) -> Option<Vec<&str>> {
        let Self { metadata, spec, .. } = self;
        let mut owners = metadata.owner_references.iter();
        let is_its = spec.pod_name.as_ref() == Some(&pod.metadata.name)
            && owners.any(|owner| &*owner.kind == "Pod" && owner.uid == pod.metadata.uid)
            && spec.selected_node.as_deref() == pod.node()
            && self.is_done();
        let groups = spec.groups.as_ref().filter(|_| is_its)?;
        Some(groups.iter().map(|group| &**group).collect())
    }
}

impl Keyed for BindRequestItem {
    type Key = ObjectKey;

    /// It has the name of its pod.
    fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.metadata.namespace, &self.metadata.name)
    }
}

impl Item for BindRequestItem {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn unreadable(_: &str, _: &str) -> Option<Self> {
        None
    }
}

/// A pod group of any API group.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodGroupItem {
    pub(crate) metadata: Metadata,
    pub(crate) spec: PodGroupManifest,
}

impl Keyed for PodGroupItem {
    type Key = ObjectKey;

    fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.metadata.namespace, &self.metadata.name)
    }
}

impl Item for PodGroupItem {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn unreadable(_: &str, _: &str) -> Option<Self> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_cannot_be_read_still_says_who_and_where_it_is() {
        let text = r#"{"metadata":{"namespace":"ml","name":"p","uid":"u","resourceVersion":"7"},
            "spec":{"nodeName":"n1","containers":{"not":"a list"}}}"#;
        assert!(serde_json::from_str::<PodItem>(text).is_err());
        let pod = PodItem::unreadable(text, "why").unwrap();
        assert_eq!((pod.key().to_string().as_str(), pod.node()), ("ml/p", Some("n1")));
        assert_eq!(pod.version(), "7");
    }
}
