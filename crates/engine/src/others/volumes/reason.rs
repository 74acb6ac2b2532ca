//! Why the volumes of a pod keep it waiting, as data.

use crate::record::ObjectKey;
use divvy_ledger::Bytes;
use std::fmt;
use std::sync::Arc;

/// Why the volumes of a pod keep it off a node, or off all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeReason {
    /// The claim does not exist.
    NoClaim(ObjectKey),
    /// The claim of an ephemeral volume does not exist yet.
    NotMade(ObjectKey),
    /// The claim of an ephemeral volume belongs to something else.
    NotOwned(ObjectKey),
    /// The claim is being deleted.
    Deleting(ObjectKey),
    /// The claim's volume is lost, or does not exist.
    NoVolume {
        /// The claim.
        claim: ObjectKey,
        /// The volume.
        volume: Arc<str>,
    },
    /// The claim should have been bound before its pod.
    NotBound(ObjectKey),
    /// The claim takes one pod at a time.
    InUse {
        /// The claim.
        claim: ObjectKey,
        /// The pod that has it.
        by: ObjectKey,
    },
    /// The volume cannot be reached from the node.
    Unreachable {
        /// The volume.
        volume: Arc<str>,
        /// From where it can be, in words.
        from: Arc<str>,
    },
    /// The claim's volume is being made for another node.
    SelectedElsewhere {
        /// The claim.
        claim: ObjectKey,
        /// That node.
        node: Arc<str>,
    },
    /// No volume can be bound to the claim here, and none is made.
    NoMatch {
        /// The claim.
        claim: ObjectKey,
        /// Its class.
        class: Arc<str>,
    },
    /// The class makes no volumes for this node.
    Topology {
        /// The class.
        class: Arc<str>,
    },
    /// There is no space for a new volume.
    NoSpace {
        /// The claim.
        claim: ObjectKey,
        /// Its class.
        class: Arc<str>,
        /// How much it asks.
        asked: Bytes,
    },
    /// A pod on the node uses the disk.
    DiskInUse {
        /// The disk, in words.
        disk: Arc<str>,
        /// The pod.
        by: ObjectKey,
    },
    /// The driver is not on the node.
    NoDriver(Arc<str>),
    /// The node has as many volumes of the driver as it takes.
    Limit {
        /// The driver.
        driver: Arc<str>,
        /// How many it takes.
        limit: u32,
    },
    /// The claim was given a node and no volume was made there.
    NotProvisioned(ObjectKey),
    /// The claim was given a volume and lost it again.
    Released {
        /// The claim.
        claim: ObjectKey,
        /// The volume.
        volume: Arc<str>,
    },
}

impl VolumeReason {
    /// A stable CamelCase name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoClaim(_) | Self::NotMade(_) => "NoClaim",
            Self::NotOwned(_) => "ClaimOfAnother",
            Self::Deleting(_) => "ClaimDeleting",
            Self::NoVolume { .. } => "NoVolume",
            Self::NotBound(_) => "ClaimNotBound",
            Self::InUse { .. } => "ClaimInUse",
            Self::Unreachable { .. } => "VolumeUnreachable",
            Self::SelectedElsewhere { .. } => "VolumeElsewhere",
            Self::NoMatch { .. } => "NoMatchingVolume",
            Self::Topology { .. } => "StorageClassTopology",
            Self::NoSpace { .. } => "InsufficientStorage",
            Self::DiskInUse { .. } => "DiskInUse",
            Self::NoDriver(_) => "NoVolumeDriver",
            Self::Limit { .. } => "VolumeLimit",
            Self::NotProvisioned(_) => "VolumeNotProvisioned",
            Self::Released { .. } => "VolumeReleased",
        }
    }
}

impl fmt::Display for VolumeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClaim(claim) => write!(f, "claim {claim} does not exist"),
            Self::NotMade(claim) => {
                write!(f, "claim {claim} of an ephemeral volume is not created yet")
            }
            Self::NotOwned(claim) => {
                write!(f, "claim {claim} was not created for this pod's ephemeral volume")
            }
            Self::Deleting(claim) => write!(f, "claim {claim} is being deleted"),
            Self::NoVolume { claim, volume } => {
                write!(f, "claim {claim} is bound to volume {volume}, which does not exist")
            }
            Self::NotBound(claim) => write!(f, "claim {claim} is not bound yet"),
            Self::InUse { claim, by } => {
                write!(f, "claim {claim} is ReadWriteOncePod and used by {by}")
            }
            Self::Unreachable { volume, from } => {
                write!(f, "volume {volume} is only reachable from {from}")
            }
            Self::SelectedElsewhere { claim, node } => {
                write!(f, "the volume of claim {claim} is being made for node {node}")
            }
            Self::NoMatch { claim, class } => write!(
                f,
                "no volume of class {class} matches claim {claim} here, and none is provisioned"
            ),
            Self::Topology { class } => {
                write!(f, "storage class {class} provisions no volumes here (allowedTopologies)")
            }
            Self::NoSpace { claim, class, asked } => {
                write!(f, "storage class {class} has no {asked} here for claim {claim}")
            }
            Self::DiskInUse { disk, by } => write!(f, "{disk} is used by {by} here"),
            Self::NoDriver(driver) => write!(f, "CSI driver {driver} is not installed"),
            Self::Limit { driver, limit } => {
                let plural = if *limit == 1 { "" } else { "s" };
                write!(f, "node takes {limit} volume{plural} of {driver}")
            }
            Self::NotProvisioned(claim) => {
                write!(f, "no volume could be provisioned for claim {claim}")
            }
            Self::Released { claim, volume } => {
                write!(f, "volume {volume} was taken from claim {claim} again")
            }
        }
    }
}
