//! Storage objects as the edges hand them in: only what a decision asks.

use crate::labels::{Labels, Selector};
use crate::record::ObjectKey;
use crate::rules::Term;
use divvy_ledger::Bytes;
use std::sync::Arc;

/// A storage object is new, has changed or is gone. Sending one again replaces what was known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageEvent {
    /// A PersistentVolumeClaim.
    Claim(Box<ClaimRecord>),
    /// A PersistentVolumeClaim is gone.
    ClaimGone(ObjectKey),
    /// A PersistentVolume.
    Volume(Box<VolumeRecord>),
    /// A PersistentVolume is gone.
    VolumeGone(Box<str>),
    /// A StorageClass.
    Class(Box<ClassRecord>),
    /// A StorageClass is gone.
    ClassGone(Box<str>),
    /// A CSINode.
    CsiNode(Box<CsiNodeRecord>),
    /// A CSINode is gone.
    CsiNodeGone(Box<str>),
    /// A CSIDriver.
    Driver(DriverRecord),
    /// A CSIDriver is gone.
    DriverGone(Box<str>),
    /// A CSIStorageCapacity.
    Capacity(Box<CapacityRecord>),
    /// A CSIStorageCapacity is gone; its `namespace/name`.
    CapacityGone(Box<str>),
    /// A VolumeAttachment.
    Attachment(Box<AttachmentRecord>),
    /// A VolumeAttachment is gone.
    AttachmentGone(Box<str>),
}

/// Which nodes and pods may use a volume at a time, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessModes(u8);

impl AccessModes {
    /// One node reads and writes.
    pub const READ_WRITE_ONCE: Self = Self(1);
    /// Many nodes read.
    pub const READ_ONLY_MANY: Self = Self(2);
    /// Many nodes read and write.
    pub const READ_WRITE_MANY: Self = Self(4);
    /// One pod reads and writes.
    pub const READ_WRITE_ONCE_POD: Self = Self(8);

    /// Both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are in this set.
    pub const fn include(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What a claim asks of a volume and a volume offers to claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The storage class, or empty.
    pub class: Box<str>,
    /// The volume attributes class, or empty.
    pub attributes_class: Box<str>,
    /// The size; a claim may ask for none.
    pub size: Option<Bytes>,
    /// The access modes.
    pub modes: AccessModes,
    /// A raw block device instead of a file system.
    pub block: bool,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRecord {
    /// Which claim.
    pub key: ObjectKey,
    /// Tells it from a later claim of the same name; empty where nobody knows.
    pub uid: Box<str>,
    /// The uid of the pod that it was made for, if it is the claim of an ephemeral volume.
    pub owner: Option<Box<str>>,
    /// What it asks.
    pub terms: Terms,
    /// Which labels its volume must have; everything if it does not say.
    pub selector: Selector,
    /// The volume that it names.
    pub volume: Option<Box<str>>,
    /// Whether the volume controller has finished to bind it.
    pub bind_completed: bool,
    /// The node that a scheduler chose for its first pod.
    pub selected_node: Option<Box<str>>,
    /// Whether its volume is lost.
    pub lost: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl ClaimRecord {
    /// The volume of a claim that is bound and will stay so.
    pub(crate) fn bound_volume(&self) -> Option<&str> {
        self.volume.as_deref().filter(|_| self.bind_completed)
    }
}

/// The claim that a volume names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    /// Which claim.
    pub key: ObjectKey,
    /// Its uid; empty if an administrator reserved the volume by name.
    pub uid: Box<str>,
}

/// A volume that a driver attaches, and that counts against what a node takes of that driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attached {
    /// The CSI driver.
    pub driver: Arc<str>,
    /// Its name of the volume.
    pub handle: Box<str>,
    /// Whether the manifest names an in-tree plugin, for which the driver stands in on nodes that
    /// have a CSINode.
    pub in_tree: bool,
}

/// What a volume of an in-tree plugin asks of nodes where a CSI driver has taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The in-tree plugin, as CSINodes list it.
    pub plugin: Box<str>,
    /// From which nodes it can be reached, in the driver's labels.
    pub affinity: Option<Box<[Term]>>,
}

/// A PersistentVolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Its name.
    pub name: Box<str>,
    /// What it offers.
    pub terms: Terms,
    /// Labels.
    pub labels: Labels,
    /// The claim it is bound to or reserved for.
    pub claim: Option<ClaimRef>,
    /// Whether its phase is Available.
    pub available: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// From which nodes it can be reached: one of the terms must hold.
    pub affinity: Option<Box<[Term]>>,
    /// The same where a CSI driver has taken over from its in-tree plugin.
    pub migrated: Option<Box<Migrated>>,
    /// What is attached to the node.
    pub attached: Option<Attached>,
}

/// A StorageClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRecord {
    /// Its name.
    pub name: Box<str>,
    /// Who makes its volumes; none if volumes are only made by hand.
    pub provisioner: Option<Box<str>>,
    /// The driver that attaches its volumes.
    pub driver: Option<Arc<str>>,
    /// Whether the provisioner is an in-tree plugin, for which the driver stands in on nodes that
    /// have a CSINode.
    pub in_tree: bool,
    /// Whether claims are bound only when their first pod has been placed.
    pub waits_for_pod: bool,
    /// Where it makes volumes; everywhere if there are no terms.
    pub topologies: Box<[Term]>,
}

/// A CSINode: what its drivers can do on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiNodeRecord {
    /// The node.
    pub node: Box<str>,
    /// Its drivers, and how many volumes of each it takes if that is limited.
    pub drivers: Box<[(Arc<str>, Option<u32>)]>,
    /// In-tree plugins that CSI drivers have taken over from.
    pub migrated: Box<[Box<str>]>,
}

/// A CSIDriver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverRecord {
    /// Its name.
    pub name: Box<str>,
    /// Whether it says where there is space, by CSIStorageCapacity objects.
    pub tells_capacity: bool,
    /// Whether pods must not go to nodes where it is not installed.
    pub must_be_installed: bool,
}

/// A CSIStorageCapacity: space for new volumes of a class on some nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityRecord {
    /// `namespace/name`.
    pub key: Box<str>,
    /// The class.
    pub class: Box<str>,
    /// The largest volume that can be made.
    pub largest: Option<Bytes>,
    /// The labels of the nodes.
    pub nodes: Selector,
}

/// A VolumeAttachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentRecord {
    /// Its name.
    pub name: Box<str>,
    /// The node.
    pub node: Box<str>,
    /// The CSI driver.
    pub driver: Arc<str>,
    /// The volume.
    pub volume: Box<str>,
}
