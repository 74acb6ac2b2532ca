//! Why volumes keep a pod off a node, as it is found: no more than references, because a search
//! is refused by thousands of nodes and only a person wants to read about it.

use super::VolumeReason;
use super::record::{ClaimRecord, ClassRecord, VolumeRecord};
use super::uses::Disk;
use crate::record::ObjectKey;
use crate::rules::{Requirement, Term, Test};
use std::fmt::Write;
use std::sync::Arc;

/// Why a node, or none at all, is for a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal<'a> {
    NoClaim(&'a ObjectKey),
    NotMade(&'a ObjectKey),
    NotOwned(&'a ObjectKey),
    Deleting(&'a ObjectKey),
    NoVolume(&'a ClaimRecord),
    NotBound(&'a ObjectKey),
    InUse(&'a ObjectKey, &'a ObjectKey),
    Unreachable(&'a VolumeRecord, &'a [Term]),
    OtherZone(&'a VolumeRecord, &'static str, &'a str),
    SelectedElsewhere(&'a ObjectKey, &'a str),
    NoMatch(&'a ClaimRecord),
    Topology(&'a ClassRecord),
    NoSpace(&'a ClaimRecord),
    DiskInUse(&'a Disk, &'a ObjectKey),
    NoDriver(&'a Arc<str>),
    Limit(&'a Arc<str>, u32),
}

impl Refusal<'_> {
    /// Whether it is about where the storage is, whoever else uses it.
    pub(crate) const fn is_of_the_place(self) -> bool {
        matches!(
            self,
            Self::Unreachable(..)
                | Self::OtherZone(..)
                | Self::SelectedElsewhere(..)
                | Self::NoMatch(_)
                | Self::Topology(_)
                | Self::NoDriver(_)
        )
    }

    /// The same for a person.
    pub(crate) fn told(self) -> VolumeReason {
        let class = |claim: &ClaimRecord| (*claim.terms.class).into();
        match self {
            Self::NoClaim(claim) => VolumeReason::NoClaim(claim.clone()),
            Self::NotMade(claim) => VolumeReason::NotMade(claim.clone()),
            Self::NotOwned(claim) => VolumeReason::NotOwned(claim.clone()),
            Self::Deleting(claim) => VolumeReason::Deleting(claim.clone()),
            Self::NoVolume(claim) => VolumeReason::NoVolume {
                claim: claim.key.clone(),
                volume: claim.volume.as_deref().unwrap_or_default().into(),
            },
            Self::NotBound(claim) => VolumeReason::NotBound(claim.clone()),
            Self::InUse(claim, by) => VolumeReason::InUse { claim: claim.clone(), by: by.clone() },
            Self::Unreachable(volume, terms) => VolumeReason::Unreachable {
                volume: (*volume.name).into(),
                from: in_words(terms).into(),
            },
            Self::OtherZone(volume, key, zones) => VolumeReason::Unreachable {
                volume: (*volume.name).into(),
                from: format!("{key}={}", zones.replace("__", " or ")).into(),
            },
            Self::SelectedElsewhere(claim, node) => {
                VolumeReason::SelectedElsewhere { claim: claim.clone(), node: node.into() }
            }
            Self::NoMatch(claim) => {
                VolumeReason::NoMatch { claim: claim.key.clone(), class: class(claim) }
            }
            Self::Topology(class) => VolumeReason::Topology { class: (*class.name).into() },
            Self::NoSpace(claim) => VolumeReason::NoSpace {
                claim: claim.key.clone(),
                class: class(claim),
                asked: claim.terms.size.unwrap_or_default(),
            },
            Self::DiskInUse(disk, by) => {
                VolumeReason::DiskInUse { disk: disk.to_string().into(), by: by.clone() }
            }
            Self::NoDriver(driver) => VolumeReason::NoDriver(driver.clone()),
            Self::Limit(driver, limit) => VolumeReason::Limit { driver: driver.clone(), limit },
        }
    }
}

/// The terms as a person would say them.
fn in_words(terms: &[Term]) -> String {
    let mut text = String::new();
    for (index, term) in terms.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { ", or " });
        for (index, Requirement { key, test }) in term.labels.iter().enumerate() {
            text.push_str(if index == 0 { "" } else { " and " });
            let written = match test {
                Test::In(values) => write!(text, "{key}={}", values.join(" or ")),
                Test::NotIn(values) => write!(text, "{key} not {}", values.join(" or ")),
                Test::Exists => write!(text, "any {key}"),
                Test::DoesNotExist => write!(text, "no {key}"),
                Test::Gt(bound) => write!(text, "{key}>{bound}"),
                Test::Lt(bound) => write!(text, "{key}<{bound}"),
            };
            debug_assert!(written.is_ok(), "a string takes all that is written to it");
        }
    }
    if text.is_empty() { "no node".to_owned() } else { text }
}
