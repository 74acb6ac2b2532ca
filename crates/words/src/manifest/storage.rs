//! Storage objects. One type has the fields of all kinds, of which no two contradict each other;
//! [`crate::storage`] looks only at those that its kind has.

use super::lenient::{boolean, integer, list, optional, or_default, text, texts};
use super::{Expression, LabelSelector, Metadata, NodeSelector, Phase, Resources};
use crate::quantity::WrittenAmount;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

/// The kinds of storage objects that divvy reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StorageKind {
    /// PersistentVolumeClaim.
    Claim,
    /// PersistentVolume.
    Volume,
    /// StorageClass.
    Class,
    /// CSINode.
    CsiNode,
    /// CSIDriver.
    Driver,
    /// CSIStorageCapacity.
    Capacity,
    /// VolumeAttachment.
    Attachment,
}

impl StorageKind {
    /// The kind by its name, and the group of its `apiVersion`.
    pub fn of(kind: &str) -> Option<(Self, &'static str)> {
        let storage = "storage.k8s.io";
        Some(match kind {
            "PersistentVolumeClaim" => (Self::Claim, ""),
            "PersistentVolume" => (Self::Volume, ""),
            "StorageClass" => (Self::Class, storage),
            "CSINode" => (Self::CsiNode, storage),
            "CSIDriver" => (Self::Driver, storage),
            "CSIStorageCapacity" => (Self::Capacity, storage),
            "VolumeAttachment" => (Self::Attachment, storage),
            _ => return None,
        })
    }
}

/// A storage object of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct StorageManifest {
    /// `metadata`.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// `spec`.
    #[serde(deserialize_with = "or_default")]
    pub spec: StorageSpec,
    /// `status` of a claim or volume.
    #[serde(deserialize_with = "or_default")]
    pub status: Phase,
    /// Who makes the volumes of a class.
    #[serde(deserialize_with = "text")]
    pub provisioner: Box<str>,
    /// When the claims of a class are bound.
    #[serde(deserialize_with = "text")]
    pub volume_binding_mode: Box<str>,
    /// Where a class makes volumes.
    #[serde(deserialize_with = "list")]
    pub allowed_topologies: Vec<TopologyTerm>,
    /// The class that a capacity is of.
    #[serde(deserialize_with = "text")]
    pub storage_class_name: Box<str>,
    /// How much space there is.
    pub capacity: Option<WrittenAmount>,
    /// How large a volume can be.
    pub maximum_volume_size: Option<WrittenAmount>,
    /// The nodes that a capacity is for.
    #[serde(deserialize_with = "optional")]
    pub node_topology: Option<LabelSelector>,
}

impl StorageManifest {
    /// Reads one field, and skips it if no storage object has it.
    pub(super) fn read<'de, D: Deserializer<'de>>(
        &mut self,
        field: &str,
        value: D,
    ) -> Result<(), D::Error> {
        match field {
            "spec" => self.spec = or_default(value)?,
            "status" => self.status = or_default(value)?,
            "provisioner" => self.provisioner = text(value)?,
            "volumeBindingMode" => self.volume_binding_mode = text(value)?,
            "allowedTopologies" => self.allowed_topologies = list(value)?,
            "storageClassName" => self.storage_class_name = text(value)?,
            "capacity" => self.capacity = Option::deserialize(value)?,
            "maximumVolumeSize" => self.maximum_volume_size = Option::deserialize(value)?,
            "nodeTopology" => self.node_topology = optional(value)?,
            _ => {
                IgnoredAny::deserialize(value)?;
            }
        }
        Ok(())
    }
}

/// `spec` of a storage object of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct StorageSpec {
    /// Class of a claim or volume; a claim that leaves it out gets the default class.
    #[serde(deserialize_with = "optional")]
    pub storage_class_name: Option<Box<str>>,
    /// Attributes class of a claim or volume.
    #[serde(deserialize_with = "text")]
    pub volume_attributes_class_name: Box<str>,
    /// Access modes of a claim or volume.
    #[serde(deserialize_with = "texts")]
    pub access_modes: Vec<Box<str>>,
    /// `Filesystem` or `Block`.
    #[serde(deserialize_with = "text")]
    pub volume_mode: Box<str>,
    /// What a claim asks.
    #[serde(deserialize_with = "or_default")]
    pub resources: Resources,
    /// The labels of the volume that a claim asks for.
    #[serde(deserialize_with = "optional")]
    pub selector: Option<LabelSelector>,
    /// The volume of a claim.
    #[serde(deserialize_with = "text")]
    pub volume_name: Box<str>,
    /// What a volume has.
    pub capacity: super::ResourceList,
    /// The claim of a volume.
    #[serde(deserialize_with = "optional")]
    pub claim_ref: Option<ObjectReference>,
    /// From where a volume can be reached.
    #[serde(deserialize_with = "optional")]
    pub node_affinity: Option<VolumeNodeAffinity>,
    /// A volume of a CSI driver.
    #[serde(deserialize_with = "optional")]
    pub csi: Option<CsiSource>,
    /// A volume of an in-tree plugin.
    #[serde(deserialize_with = "optional")]
    pub gce_persistent_disk: Option<Box<DiskSource>>,
    /// A volume of an in-tree plugin.
    #[serde(deserialize_with = "optional")]
    pub aws_elastic_block_store: Option<Box<DiskSource>>,
    /// A volume of an in-tree plugin.
    #[serde(deserialize_with = "optional")]
    pub azure_disk: Option<Box<DiskSource>>,
    /// A volume of an in-tree plugin.
    #[serde(deserialize_with = "optional")]
    pub cinder: Option<Box<DiskSource>>,
    /// A volume of an in-tree plugin.
    #[serde(deserialize_with = "optional")]
    pub portworx_volume: Option<Box<DiskSource>>,
    /// The drivers of a CSINode.
    #[serde(deserialize_with = "list")]
    pub drivers: Vec<NodeDriver>,
    /// Whether a CSIDriver says where there is space.
    #[serde(deserialize_with = "boolean")]
    pub storage_capacity: bool,
    /// Whether a CSIDriver keeps pods off nodes that do not have it.
    #[serde(deserialize_with = "boolean")]
    pub prevent_pod_scheduling_if_missing: bool,
    /// The driver of an attachment.
    #[serde(deserialize_with = "text")]
    pub attacher: Box<str>,
    /// The node of an attachment.
    #[serde(deserialize_with = "text")]
    pub node_name: Box<str>,
    /// The volume of an attachment.
    #[serde(deserialize_with = "or_default")]
    pub source: AttachmentSource,
}

/// A term of `allowedTopologies`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct TopologyTerm {
    /// Labels with the values that are allowed.
    #[serde(deserialize_with = "list")]
    pub match_label_expressions: Vec<Expression>,
}

/// `spec.claimRef` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct ObjectReference {
    /// Namespace.
    #[serde(deserialize_with = "text")]
    pub namespace: Box<str>,
    /// Name.
    #[serde(deserialize_with = "text")]
    pub name: Box<str>,
    /// Which object of that name.
    #[serde(deserialize_with = "text")]
    pub uid: Box<str>,
}

/// `spec.nodeAffinity` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct VolumeNodeAffinity {
    /// Where it can be reached from.
    #[serde(deserialize_with = "optional")]
    pub required: Option<NodeSelector>,
}

/// `spec.csi` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct CsiSource {
    /// The driver.
    #[serde(deserialize_with = "text")]
    pub driver: Box<str>,
    /// Its name of the volume.
    #[serde(deserialize_with = "text")]
    pub volume_handle: Box<str>,
}

/// A disk that a pod or volume names, of any in-tree plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct DiskSource {
    /// Of gcePersistentDisk.
    #[serde(deserialize_with = "text")]
    pub pd_name: Box<str>,
    /// Of awsElasticBlockStore, cinder and portworxVolume.
    #[serde(rename = "volumeID", deserialize_with = "text")]
    pub volume_id: Box<str>,
    /// Of azureDisk.
    #[serde(rename = "diskURI", deserialize_with = "text")]
    pub disk_uri: Box<str>,
    /// Of azureDisk: `Managed`, or what no CSI driver attaches.
    #[serde(deserialize_with = "text")]
    pub kind: Box<str>,
    /// Of iscsi.
    #[serde(deserialize_with = "text")]
    pub iqn: Box<str>,
    /// Of rbd.
    #[serde(deserialize_with = "texts")]
    pub monitors: Vec<Box<str>>,
    /// Of rbd.
    #[serde(deserialize_with = "text")]
    pub pool: Box<str>,
    /// Of rbd.
    #[serde(deserialize_with = "text")]
    pub image: Box<str>,
    /// Whether it is only read.
    #[serde(deserialize_with = "boolean")]
    pub read_only: bool,
}

/// A driver of a CSINode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct NodeDriver {
    /// Its name.
    #[serde(deserialize_with = "text")]
    pub name: Box<str>,
    /// What it takes.
    #[serde(deserialize_with = "or_default")]
    pub allocatable: DriverLimit,
}

/// `allocatable` of a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct DriverLimit {
    /// How many volumes.
    #[serde(deserialize_with = "integer")]
    pub count: Option<i32>,
}

/// `spec.source` of an attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct AttachmentSource {
    /// The volume.
    #[serde(deserialize_with = "text")]
    pub persistent_volume_name: Box<str>,
}
