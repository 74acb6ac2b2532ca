//! Storage objects. One type has the fields of all kinds, of which no two contradict each other;
//! [`crate::storage`] looks only at those that its kind has.

use super::field::{Field, manifest};
use super::{Expression, LabelSelector, Metadata, NodeSelector, Phase, Resources};
use crate::quantity::WrittenAmount;
use serde::de::{Deserialize, Deserializer, IgnoredAny};

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

manifest! {
    /// A storage object of any kind.
    pub struct StorageManifest {
        /// `metadata`.
        pub metadata: Metadata,
        /// `spec`.
        pub spec: StorageSpec,
        /// `status` of a claim or volume.
        pub status: Phase,
        /// Who makes the volumes of a class.
        pub provisioner: Box<str>,
        /// When the claims of a class are bound.
        pub volume_binding_mode: Box<str>,
        /// Where a class makes volumes.
        pub allowed_topologies: Vec<TopologyTerm>,
        /// The class that a capacity is of.
        pub storage_class_name: Box<str>,
        /// How much space there is.
        pub capacity: Option<WrittenAmount>,
        /// How large a volume can be.
        pub maximum_volume_size: Option<WrittenAmount>,
        /// The nodes that a capacity is for.
        pub node_topology: Option<LabelSelector>,
    }
}

impl StorageManifest {
    /// Reads one field, and skips it if no storage object has it.
    pub(super) fn read<'de, D: Deserializer<'de>>(
        &mut self,
        field: &str,
        value: D,
    ) -> Result<(), D::Error> {
        match field {
            "spec" => self.spec = Field::read(value)?,
            "status" => self.status = Field::read(value)?,
            "provisioner" => self.provisioner = Field::read(value)?,
            "volumeBindingMode" => self.volume_binding_mode = Field::read(value)?,
            "allowedTopologies" => self.allowed_topologies = Field::read(value)?,
            "storageClassName" => self.storage_class_name = Field::read(value)?,
            "capacity" => self.capacity = Field::read(value)?,
            "maximumVolumeSize" => self.maximum_volume_size = Field::read(value)?,
            "nodeTopology" => self.node_topology = Field::read(value)?,
            _ => {
                IgnoredAny::deserialize(value)?;
            }
        }
        Ok(())
    }
}

manifest! {
    /// `spec` of a storage object of any kind.
    pub struct StorageSpec {
        /// Class of a claim or volume; a claim that leaves it out gets the default class.
        pub storage_class_name: Option<Box<str>>,
        /// Attributes class of a claim or volume.
        pub volume_attributes_class_name: Box<str>,
        /// Access modes of a claim or volume.
        pub access_modes: Vec<Box<str>>,
        /// `Filesystem` or `Block`.
        pub volume_mode: Box<str>,
        /// What a claim asks.
        pub resources: Resources,
        /// The labels of the volume that a claim asks for.
        pub selector: Option<LabelSelector>,
        /// The volume of a claim.
        pub volume_name: Box<str>,
        /// What a volume has.
        pub capacity: super::ResourceList,
        /// The claim of a volume.
        pub claim_ref: Option<ObjectReference>,
        /// From where a volume can be reached.
        pub node_affinity: Option<VolumeNodeAffinity>,
        /// A volume of a CSI driver.
        pub csi: Option<CsiSource>,
        /// A volume of an in-tree plugin.
        pub gce_persistent_disk: Option<Box<DiskSource>>,
        /// A volume of an in-tree plugin.
        pub aws_elastic_block_store: Option<Box<DiskSource>>,
        /// A volume of an in-tree plugin.
        pub azure_disk: Option<Box<DiskSource>>,
        /// A volume of an in-tree plugin.
        pub cinder: Option<Box<DiskSource>>,
        /// A volume of an in-tree plugin.
        pub portworx_volume: Option<Box<DiskSource>>,
        /// The drivers of a CSINode.
        pub drivers: Vec<NodeDriver>,
        /// Whether a CSIDriver says where there is space.
        pub storage_capacity: bool,
        /// Whether a CSIDriver keeps pods off nodes that do not have it.
        pub prevent_pod_scheduling_if_missing: bool,
        /// The driver of an attachment.
        pub attacher: Box<str>,
        /// The node of an attachment.
        pub node_name: Box<str>,
        /// The volume of an attachment.
        pub source: AttachmentSource,
    }

    /// A term of `allowedTopologies`.
    pub struct TopologyTerm {
        /// Labels with the values that are allowed.
        pub match_label_expressions: Vec<Expression>,
    }

    /// `spec.claimRef` of a volume.
    pub struct ObjectReference {
        /// Namespace.
        pub namespace: Box<str>,
        /// Name.
        pub name: Box<str>,
        /// Which object of that name.
        pub uid: Box<str>,
    }

    /// `spec.nodeAffinity` of a volume.
    pub struct VolumeNodeAffinity {
        /// Where it can be reached from.
        pub required: Option<NodeSelector>,
    }

    /// `spec.csi` of a volume.
    pub struct CsiSource {
        /// The driver.
        pub driver: Box<str>,
        /// Its name of the volume.
        pub volume_handle: Box<str>,
    }

    /// A disk that a pod or volume names, of any in-tree plugin.
    pub struct DiskSource {
        /// Of gcePersistentDisk.
        pub pd_name: Box<str>,
        /// Of awsElasticBlockStore, cinder and portworxVolume.
        #[serde(rename = "volumeID")]
        pub volume_id: Box<str>,
        /// Of azureDisk.
        #[serde(rename = "diskURI")]
        pub disk_uri: Box<str>,
        /// Of azureDisk: `Managed`, or what no CSI driver attaches.
        pub kind: Box<str>,
        /// Of iscsi.
        pub iqn: Box<str>,
        /// Of rbd.
        pub monitors: Vec<Box<str>>,
        /// Of rbd.
        pub pool: Box<str>,
        /// Of rbd.
        pub image: Box<str>,
        /// Whether it is only read.
        pub read_only: bool,
    }

    /// A driver of a CSINode.
    pub struct NodeDriver {
        /// Its name.
        pub name: Box<str>,
        /// What it takes.
        pub allocatable: DriverLimit,
    }

    /// `allocatable` of a driver.
    pub struct DriverLimit {
        /// How many volumes.
        pub count: Option<i32>,
    }

    /// `spec.source` of an attachment.
    pub struct AttachmentSource {
        /// The volume.
        pub persistent_volume_name: Box<str>,
    }
}
