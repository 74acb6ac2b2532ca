//! How many volumes of a driver a node takes, and whether the driver is there at all.

use super::record::{Attached, CsiNodeRecord};
use super::uses::VolumeUse;
use super::{Member, Refusal, Volumes};
use crate::record::ObjectKey;
use divvy_ledger::NodeId;
use foldhash::HashSet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A volume that counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted<'a> {
    pub(super) id: VolumeId<'a>,
    /// Whether it counts only on nodes that have a CSINode.
    in_tree: bool,
}

/// What tells one attached volume from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct VolumeId<'a> {
    driver: &'a Arc<str>,
    handle: Handle<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Handle<'a> {
    Volume(&'a str),
    /// The volume that will be made for a claim.
    Future(&'a ObjectKey),
}

impl<'a> Counted<'a> {
    fn volume(volume: &'a Attached) -> Self {
        let id = VolumeId { driver: &volume.driver, handle: Handle::Volume(&volume.handle) };
        Self { id, in_tree: volume.in_tree }
    }
}

impl Volumes {
    /// What a pod's volume counts as, if a driver attaches it.
    pub(super) fn counted<'a>(&'a self, usage: &'a VolumeUse) -> Option<Counted<'a>> {
        if let VolumeUse::Attached(volume) = usage {
            return Some(Counted::volume(volume));
        }
        let claim = self.claim_of(usage).ok()??;
        match claim.volume.as_ref().and_then(|name| self.volumes.get(name)) {
            Some(volume) => volume.attached.as_ref().map(Counted::volume),
            None => {
                let class = self.classes.get(&claim.terms.class)?;
                let (driver, handle) = (class.driver.as_ref()?, Handle::Future(&claim.key));
                Some(Counted { id: VolumeId { driver, handle }, in_tree: class.in_tree })
            }
        }
    }

    /// Whether a node takes these volumes too.
    pub(super) fn within_limits<'a>(
        &'a self,
        wanted: &[Counted<'a>],
        id: NodeId,
        name: &str,
    ) -> Result<(), Refusal<'a>> {
        let csi_node = self.csi_nodes.get(name);
        for Counted { id: VolumeId { driver, .. }, in_tree } in wanted {
            let must = self.drivers.get(&***driver).is_some_and(|d| d.must_be_installed);
            let is_there = match csi_node {
                Some(csi_node) => csi_node.driver(driver).is_some(),
                None => *in_tree,
            };
            if must && !is_there {
                return Err(Refusal::NoDriver(driver));
            }
        }
        let Some(csi_node) = csi_node else { return Ok(()) };
        let limit = |driver: &str| csi_node.driver(driver).flatten();
        let least = wanted.iter().filter_map(|volume| limit(volume.id.driver)).min();
        // Most nodes are so far from full that nobody needs to know which volumes are which.
        if least.is_none_or(|least| self.most_at(id, name) + wanted.len() <= least as usize) {
            return Ok(());
        }
        let used = self.used_at(id);
        let left = self.left_at(name, &used);
        for VolumeId { driver, .. } in wanted.iter().map(|volume| volume.id) {
            let Some(limit) = limit(driver) else { continue };
            let of_driver = |id: &&VolumeId<'_>| id.driver == driver;
            let here = used.iter().chain(&left).filter(of_driver).count();
            let wanted = wanted.iter().map(|volume| &volume.id).filter(of_driver);
            let new = wanted.filter(|id| !used.contains(*id)).count();
            if new > 0 && here + new > limit as usize {
                return Err(Refusal::Limit(driver, limit));
            }
        }
        Ok(())
    }

    /// No more volumes than this are on a node.
    fn most_at(&self, id: NodeId, name: &str) -> usize {
        let pods = self.on_node.get(&id).into_iter().flatten();
        let used: usize = pods.filter_map(|pod| self.pods.get(pod)).map(|p| p.uses().len()).sum();
        used + self.attached_to.get(name).map_or(0, BTreeSet::len)
    }

    /// The volumes that the pods of a node use.
    fn used_at(&self, id: NodeId) -> HashSet<VolumeId<'_>> {
        let pods = self.on_node.get(&id).into_iter().flatten();
        let uses = pods.filter_map(|pod| self.pods.get(pod)).flat_map(Member::uses);
        uses.filter_map(|usage| self.counted(usage)).map(|volume| volume.id).collect()
    }

    /// The volumes that are attached to a node and used by none of its pods. One that a new pod
    /// asks for counts again, as in kube-scheduler: it may be on its way off the node.
    fn left_at<'a>(&'a self, name: &str, used: &HashSet<VolumeId<'a>>) -> HashSet<VolumeId<'a>> {
        let names = self.attached_to.get(name).into_iter().flatten();
        let records = names.filter_map(|name| self.attachments.get(name));
        let ids = records.filter_map(|record| {
            let volume = self.volumes.get(&record.volume)?.attached.as_ref()?;
            let id = VolumeId { driver: &record.driver, handle: Handle::Volume(&volume.handle) };
            (!volume.in_tree).then_some(id)
        });
        ids.filter(|id| !used.contains(id)).collect()
    }
}

impl CsiNodeRecord {
    /// The limit of a driver that is on the node, if it has one.
    fn driver(&self, name: &str) -> Option<Option<u32>> {
        self.drivers.iter().find(|(driver, _)| **driver == *name).map(|(_, limit)| *limit)
    }
}
