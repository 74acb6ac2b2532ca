//! What a pod's volumes ask of a node: prepared once for a pod, then asked of every node.

use super::limits::Counted;
use super::pinned::Pinned;
use super::record::{CapacityRecord, ClaimRecord, ClassRecord, Terms, VolumeRecord};
use super::uses::{Disk, VolumeStep, VolumeUse};
use super::{Refusal, Volumes};
use crate::rules::{NodeFacts, Requirement, Term};
use crate::world::World;
use divvy_ledger::NodeId;
use smallvec::SmallVec;

/// For each claim that is not bound, the volume that it gets; without one, one is made.
type Picks<'a> = SmallVec<[(&'a ClaimRecord, Option<&'a VolumeRecord>); 1]>;

/// What the volumes of one pod ask.
#[derive(Debug)]
pub(crate) struct Wants<'a> {
    volumes: &'a Volumes,
    /// Volumes of claims that are bound.
    bound: Vec<&'a VolumeRecord>,
    zones: Vec<Zone<'a>>,
    /// Claims whose volume is being made for a node.
    selected: Vec<(Open<'a>, &'a str)>,
    /// Claims that get a volume with their first pod, smallest first.
    open: Vec<Open<'a>>,
    disks: Vec<&'a Disk>,
    counted: Vec<Counted<'a>>,
}

/// A label of a volume that says in which zones or regions it is.
#[derive(Debug)]
struct Zone<'a> {
    volume: &'a VolumeRecord,
    key: &'static str,
    value: &'a str,
}

/// A claim that is not bound, and what could become of it.
#[derive(Debug)]
struct Open<'a> {
    claim: &'a ClaimRecord,
    class: &'a ClassRecord,
    choice: Volume<'a>,
    /// Space for a new volume, if the driver says where there is any.
    space: Option<Pinned<'a, CapacityRecord>>,
}

/// Which volumes can be bound to a claim.
#[derive(Debug)]
enum Volume<'a> {
    /// This one is reserved for it.
    Reserved(&'a VolumeRecord),
    /// One of these.
    OneOf(Pinned<'a, VolumeRecord>),
}

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
/// The labels of zones and regions, with the one that nodes may have instead.
const ZONE_LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    (ZONE, ZONE),
    (REGION, REGION),
];

impl Volumes {
    /// What these volumes of a pod ask of a node, or why no node will do.
    pub(crate) fn prepare<'a>(&'a self, uses: &'a [VolumeUse]) -> Result<Wants<'a>, Refusal<'a>> {
        let mut wants = Wants {
            volumes: self,
            bound: Vec::new(),
            zones: Vec::new(),
            selected: Vec::new(),
            open: Vec::new(),
            disks: Vec::new(),
            counted: Vec::new(),
        };
        for usage in uses {
            if let VolumeUse::Disk(disk) = usage {
                wants.disks.push(disk);
            }
            if let Some(claim) = self.claim_of(usage)? {
                self.ask(claim, usage, &mut wants)?;
            }
            if let Some(counted) = self.counted(usage)
                && wants.counted.iter().all(|other| other.id != counted.id)
            {
                wants.counted.push(counted);
            }
        }
        wants.open.sort_by_key(|open| open.claim.terms.size.unwrap_or_default());
        Ok(wants)
    }

    /// The claim of a volume, if it uses one and the claim can be used.
    pub(super) fn claim_of<'a>(
        &'a self,
        usage: &'a VolumeUse,
    ) -> Result<Option<&'a ClaimRecord>, Refusal<'a>> {
        let Some(key) = usage.claim() else { return Ok(None) };
        let owner = match usage {
            VolumeUse::Ephemeral { pod, .. } => Some(pod),
            _ => None,
        };
        match self.claims.get(key) {
            None if owner.is_some() => Err(Refusal::NotMade(key)),
            None => Err(Refusal::NoClaim(key)),
            Some(claim) if owner.is_some() && claim.owner.as_ref() != owner => {
                Err(Refusal::NotOwned(key))
            }
            Some(claim) => Ok(Some(claim)),
        }
    }

    fn ask<'a>(
        &'a self,
        claim: &'a ClaimRecord,
        usage: &VolumeUse,
        wants: &mut Wants<'a>,
    ) -> Result<(), Refusal<'a>> {
        if claim.lost {
            return Err(Refusal::NoVolume(claim));
        }
        if claim.deleting {
            return Err(Refusal::Deleting(&claim.key));
        }
        let is_named = matches!(usage, VolumeUse::Claim(_));
        if is_named
            && claim.terms.modes.include(super::AccessModes::READ_WRITE_ONCE_POD)
            && let Some(users) = self.users.get(&claim.key)
            && let Some(by) = users.iter().filter_map(|pod| Some(&self.pods.get(pod)?.key)).min()
        {
            return Err(Refusal::InUse(&claim.key, by));
        }
        if let Some(name) = claim.bound_volume() {
            let Some(volume) = self.volumes.get(name) else {
                return Err(Refusal::NoVolume(claim));
            };
            wants.bound.push(volume);
            // As in kube-scheduler, the zones of an ephemeral volume are left to its affinity.
            if is_named {
                wants.zones.extend(zones(volume));
            }
            return Ok(());
        }
        let class = self.classes.get(&claim.terms.class);
        let Some(class) = class.filter(|c| c.waits_for_pod && claim.volume.is_none()) else {
            return Err(Refusal::NotBound(&claim.key));
        };
        let space = self.space(claim, class);
        match self.selected_node(claim) {
            Some(node) => {
                let choice = Volume::OneOf(Pinned::default());
                wants.selected.push((Open { claim, class, choice, space }, node));
            }
            None => {
                let choice = self.choice(claim);
                wants.open.push(Open { claim, class, choice, space });
            }
        }
        Ok(())
    }

    /// The volumes that a claim can be bound to, wherever they are.
    fn choice<'a>(&'a self, claim: &'a ClaimRecord) -> Volume<'a> {
        let names = self.by_class.get(&claim.terms.class).into_iter().flatten();
        let mut candidates = Pinned::default();
        for volume in names.filter_map(|(_, name)| self.volumes.get(name)) {
            if volume.deleting || !volume.terms.are_enough_for(&claim.terms) {
                continue;
            }
            match self.is_for(volume, claim) {
                Some(true) => return Volume::Reserved(volume),
                Some(false) => continue,
                None => {}
            }
            if volume.available
                && volume.terms.modes.include(claim.terms.modes)
                && claim.selector.matches(&volume.labels)
            {
                candidates.add(volume, only_term(volume.affinity.as_deref()));
            }
        }
        Volume::OneOf(candidates)
    }

    fn space<'a>(
        &'a self,
        claim: &ClaimRecord,
        class: &ClassRecord,
    ) -> Option<Pinned<'a, CapacityRecord>> {
        let size = claim.terms.size?;
        let driver = self.drivers.get(class.provisioner.as_ref()?)?;
        driver.tells_capacity.then(|| {
            let mut space = Pinned::default();
            for capacity in self.capacities.values() {
                if capacity.class == class.name
                    && capacity.largest.is_some_and(|largest| largest >= size)
                    && let Some(nodes) = &capacity.nodes.0
                {
                    space.add(capacity, nodes);
                }
            }
            space
        })
    }

    /// Whether a volume can be reached from a node.
    pub(super) fn reachable<'a>(
        &'a self,
        volume: &'a VolumeRecord,
        name: &str,
        facts: &NodeFacts,
    ) -> Result<(), Refusal<'a>> {
        let migrated = volume.migrated.as_ref().filter(|migrated| {
            let csi_node = self.csi_nodes.get(name);
            csi_node.is_some_and(|node| node.migrated.contains(&migrated.plugin))
        });
        let affinity = migrated.map_or(&volume.affinity, |migrated| &migrated.affinity).as_deref();
        match affinity {
            Some(terms) if !is_met(affinity, facts) => Err(Refusal::Unreachable(volume, terms)),
            _ => Ok(()),
        }
    }
}

impl<'a> Wants<'a> {
    /// What is chosen if the pod goes to a node, or why it cannot.
    pub(crate) fn pick(&self, id: NodeId, world: &World) -> Result<Picks<'a>, Refusal<'a>> {
        let (Some(node), Some(facts)) = (world.ledger.node(id), world.facts.get(id.index())) else {
            return Ok(Picks::new());
        };
        let name = node.name();
        for volume in &self.bound {
            self.volumes.reachable(volume, name, facts)?;
        }
        self.in_zones(facts)?;
        self.without_conflict(id)?;
        let picks = self.bindings(name, facts)?;
        self.volumes.within_limits(&self.counted, id, name)?;
        Ok(picks)
    }

    /// What has to be written and awaited before the pod can be bound to a node.
    pub(crate) fn steps(&self, id: NodeId, world: &World) -> Vec<VolumeStep> {
        let picks = self.pick(id, world).unwrap_or_default();
        let step = |(claim, volume): (&ClaimRecord, Option<&VolumeRecord>)| {
            let claim = claim.key.clone();
            match volume {
                Some(volume) => VolumeStep::BindStatic { claim, volume: volume.name.clone() },
                None => VolumeStep::SelectNode { claim },
            }
        };
        picks.into_iter().map(step).collect()
    }

    fn in_zones(&self, facts: &NodeFacts) -> Result<(), Refusal<'a>> {
        // A cluster of one zone may not label its nodes.
        if self.zones.is_empty() || ZONE_LABELS.iter().all(|(key, _)| facts.label(key).is_none()) {
            return Ok(());
        }
        for Zone { volume, key, value } in &self.zones {
            let newer = ZONE_LABELS.iter().find(|(known, _)| known == key).map(|(_, newer)| newer);
            let label = facts.label(key).or_else(|| facts.label(newer?));
            if !label.is_some_and(|label| value.split("__").any(|zone| zone.trim() == label)) {
                return Err(Refusal::OtherZone(volume, key, value));
            }
        }
        Ok(())
    }

    fn without_conflict(&self, id: NodeId) -> Result<(), Refusal<'a>> {
        if self.disks.is_empty() {
            return Ok(());
        }
        let pods = self.volumes.on_node.get(&id).into_iter().flatten();
        let conflicts = pods.filter_map(|pod| self.volumes.pods.get(pod)).filter_map(|pod| {
            let disk = pod.uses().iter().find_map(|usage| {
                let VolumeUse::Disk(other) = usage else { return None };
                self.disks.iter().copied().find(|disk| disk.conflicts(other))
            });
            Some((&pod.key, disk?))
        });
        let first = conflicts.min_by_key(|(pod, _)| *pod);
        first.map_or(Ok(()), |(pod, disk)| Err(Refusal::DiskInUse(disk, pod)))
    }

    fn bindings(&self, name: &str, facts: &NodeFacts) -> Result<Picks<'a>, Refusal<'a>> {
        let mut picks = Picks::new();
        for (open, node) in &self.selected {
            if *node != name {
                return Err(Refusal::SelectedElsewhere(&open.claim.key, node));
            }
            open.can_be_made(facts)?;
            picks.push((open.claim, None));
        }
        let mut taken: SmallVec<[&str; 4]> = SmallVec::new();
        for open in &self.open {
            let volume = open.volume_at(facts, &taken);
            match volume {
                Some(volume) => taken.push(&volume.name),
                None => open.can_be_made(facts)?,
            }
            picks.push((open.claim, volume));
        }
        Ok(picks)
    }
}

impl<'a> Open<'a> {
    /// The smallest volume for the claim on a node that is not taken.
    fn volume_at(&self, facts: &NodeFacts, taken: &[&str]) -> Option<&'a VolumeRecord> {
        let here = |volume: &&VolumeRecord| is_met(volume.affinity.as_deref(), facts);
        match &self.choice {
            Volume::Reserved(volume) => Some(*volume).filter(here),
            Volume::OneOf(volumes) => {
                let free = volumes.at(facts).filter(|v| !taken.contains(&&*v.name)).filter(here);
                free.min_by_key(|v| (v.terms.size, &v.name))
            }
        }
    }

    /// Whether a volume can be made for the claim on a node.
    fn can_be_made(&self, facts: &NodeFacts) -> Result<(), Refusal<'a>> {
        if self.class.provisioner.is_none() {
            return Err(Refusal::NoMatch(self.claim));
        }
        let topologies = Some(&*self.class.topologies).filter(|terms| !terms.is_empty());
        if !is_met(topologies, facts) {
            return Err(Refusal::Topology(self.class));
        }
        let is_space = |capacity: &CapacityRecord| capacity.nodes.holds(|key| facts.label(key));
        if self.space.as_ref().is_some_and(|space| !space.at(facts).any(is_space)) {
            return Err(Refusal::NoSpace(self.claim));
        }
        Ok(())
    }
}

impl Terms {
    /// Whether a volume with these terms has what a claim asks, but for its access modes.
    fn are_enough_for(&self, claim: &Self) -> bool {
        self.size.unwrap_or_default() >= claim.size.unwrap_or_default()
            && self.block == claim.block
            && self.attributes_class == claim.attributes_class
    }
}

/// Whether a node is where one of the terms asks it to be. Only labels count: a volume does not
/// know nodes by name.
fn is_met(terms: Option<&[Term]>, facts: &NodeFacts) -> bool {
    terms.is_none_or(|terms| terms.iter().any(|term| term.holds("", facts)))
}

/// The conditions of the only term, if there is one.
fn only_term(terms: Option<&[Term]>) -> &[Requirement] {
    match terms {
        Some([term]) => &term.labels,
        _ => &[],
    }
}

fn zones(volume: &VolumeRecord) -> impl Iterator<Item = Zone<'_>> {
    ZONE_LABELS.iter().filter_map(move |(key, _)| {
        let value = volume.labels.get(key)?;
        let is_list = value.split("__").all(|zone| !zone.trim().is_empty());
        is_list.then_some(Zone { volume, key, value })
    })
}
