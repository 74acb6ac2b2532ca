//! A pod's volumes, and what has to be done for them before the pod can be bound.

use super::record::Attached;
use crate::record::ObjectKey;
use std::fmt;

/// One of a pod's volumes, as far as it decides where the pod can run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VolumeUse {
    /// A claim by its name.
    Claim(ObjectKey),
    /// A claim that is made for this pod alone.
    Ephemeral {
        /// The claim that will be made.
        claim: ObjectKey,
        /// The uid of the pod.
        pod: Box<str>,
    },
    /// A disk that the pod names itself.
    Disk(Disk),
    /// The same or another disk, as its driver counts it.
    Attached(Attached),
}

impl VolumeUse {
    /// The claim, if it is one.
    pub const fn claim(&self) -> Option<&ObjectKey> {
        match self {
            Self::Claim(claim) | Self::Ephemeral { claim, .. } => Some(claim),
            Self::Disk(_) | Self::Attached(_) => None,
        }
    }
}

/// A disk that pods of one node cannot share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Disk {
    /// gcePersistentDisk: shared only if all read.
    Gce {
        /// `pdName`.
        name: Box<str>,
        /// Whether the pod only reads.
        read_only: bool,
    },
    /// awsElasticBlockStore: never shared.
    Ebs {
        /// `volumeID`.
        id: Box<str>,
    },
    /// iscsi: shared only if all read.
    Iscsi {
        /// `iqn`.
        iqn: Box<str>,
        /// Whether the pod only reads.
        read_only: bool,
    },
    /// rbd: shared only if all read.
    Rbd {
        /// Ceph monitors; two disks are one if they have a monitor in common.
        monitors: Vec<Box<str>>,
        /// Pool.
        pool: Box<str>,
        /// Image.
        image: Box<str>,
        /// Whether the pod only reads.
        read_only: bool,
    },
}

impl Disk {
    /// Whether two pods on one node cannot use both at a time.
    pub(crate) fn conflicts(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ebs { id: a }, Self::Ebs { id: b }) => a == b,
            (Self::Gce { name: a, read_only: x }, Self::Gce { name: b, read_only: y })
            | (Self::Iscsi { iqn: a, read_only: x }, Self::Iscsi { iqn: b, read_only: y }) => {
                a == b && !(*x && *y)
            }
            (
                Self::Rbd { monitors: m, pool: p, image: i, read_only: x },
                Self::Rbd { monitors: n, pool: q, image: j, read_only: y },
            ) => (p, i) == (q, j) && !(*x && *y) && m.iter().any(|m| n.contains(m)),
            _ => false,
        }
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gce { name, .. } => write!(f, "gcePersistentDisk {name}"),
            Self::Ebs { id } => write!(f, "awsElasticBlockStore {id}"),
            Self::Iscsi { iqn, .. } => write!(f, "iscsi {iqn}"),
            Self::Rbd { pool, image, .. } => write!(f, "rbd {pool}/{image}"),
        }
    }
}

/// What has to be written, and then awaited, before a pod can be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeStep {
    /// Annotate the claim with the pod's node, so that a volume is made there.
    SelectNode {
        /// The claim.
        claim: ObjectKey,
    },
    /// Reserve the volume for the claim.
    BindStatic {
        /// The claim.
        claim: ObjectKey,
        /// The volume.
        volume: Box<str>,
    },
}
