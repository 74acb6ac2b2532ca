//! What was decided about claims that are not bound yet, and whether the cluster has followed.
//!
//! A choice counts from the moment it is made: the next pod with the same claim goes to the same
//! node, the next pod with another claim gets another volume. Once an object shows the choice, the
//! object alone counts, so that a provisioner that gives up is seen.

use super::record::{ClaimRecord, VolumeRecord};
use super::uses::{VolumeStep, VolumeUse};
use super::{Member, Refusal, VolumeReason, Volumes};
use crate::record::ObjectKey;
use crate::rules::NodeFacts;
use divvy_ledger::PodId;
use foldhash::HashMap;
use smallvec::SmallVec;

/// A choice for one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assumption {
    choice: Choice,
    /// The pods that were placed by it.
    pods: SmallVec<[PodId; 1]>,
    /// Whether the objects have shown it.
    confirmed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    /// A volume is to be made for this node.
    Node(Box<str>),
    /// This volume.
    Volume(Box<str>),
}

/// What is assumed of the claims of a pod, to be put back.
#[derive(Debug)]
pub(crate) struct Assumed(Vec<(ObjectKey, Option<Assumption>)>);

#[cfg(test)]
impl Assumption {
    pub(super) fn pods(&self) -> &[PodId] {
        &self.pods
    }

    pub(super) fn volume(&self) -> Option<&str> {
        match &self.choice {
            Choice::Volume(volume) if !self.confirmed => Some(volume),
            _ => None,
        }
    }
}

impl Volumes {
    /// Remembers what was chosen for a pod that is held on this node.
    pub(crate) fn assume(&mut self, pod: PodId, node: &str, steps: &[VolumeStep]) {
        for step in steps {
            let (claim, choice) = match step {
                VolumeStep::SelectNode { claim } => (claim, Choice::Node(node.into())),
                VolumeStep::BindStatic { claim, volume } => (claim, Choice::Volume(volume.clone())),
            };
            match self.assumed.get_mut(claim).filter(|known| known.choice == choice) {
                Some(known) => {
                    known.pods.push(pod);
                    // The objects had shown it and do not any more: it is to be written again.
                    known.confirmed = false;
                }
                None => {
                    self.forget_assumption(claim);
                    let pods = SmallVec::from([pod]);
                    let assumption = Assumption { choice: choice.clone(), pods, confirmed: false };
                    self.assumed.insert(claim.clone(), assumption);
                }
            }
            self.confirm(claim);
            let confirmed = self.assumed.get(claim).is_some_and(|known| known.confirmed);
            if let (Choice::Volume(volume), false) = (choice, confirmed) {
                self.reserved.insert(volume, claim.clone());
            }
        }
    }

    /// Takes back what was assumed of a claim for this pod alone.
    pub(super) fn undo(&mut self, claim: &ObjectKey, pod: PodId) {
        let Some(assumption) = self.assumed.get_mut(claim) else { return };
        assumption.pods.retain(|p| *p != pod);
        if assumption.pods.is_empty() {
            self.forget_assumption(claim);
        }
    }

    /// What is assumed of the claims of a pod.
    pub(crate) fn assumed_for(&self, pod: PodId) -> Assumed {
        let uses = self.pods.get(&pod).map_or(&[][..], Member::uses);
        let claims = uses.iter().filter_map(VolumeUse::claim);
        Assumed(claims.map(|claim| (claim.clone(), self.assumed.get(claim).cloned())).collect())
    }

    /// Assumes what was assumed then, and nothing else of these claims.
    pub(crate) fn assume_again(&mut self, Assumed(then): Assumed) {
        for (claim, then) in then {
            if self.assumed.get(&claim) == then.as_ref() {
                continue;
            }
            self.forget_assumption(&claim);
            let Some(then) = then else { continue };
            if let (Choice::Volume(volume), false) = (&then.choice, then.confirmed) {
                self.reserved.insert(volume.clone(), claim.clone());
            }
            self.assumed.insert(claim, then);
        }
    }

    pub(super) fn forget_assumption(&mut self, claim: &ObjectKey) {
        let Some(assumption) = self.assumed.remove(claim) else { return };
        if let Choice::Volume(volume) = assumption.choice {
            unreserve(&mut self.reserved, &volume, claim);
            if let Some(volume) = self.volumes.get(&volume) {
                self.storage_changes.classes.insert(volume.terms.class.clone());
            }
        }
    }

    /// Looks whether the objects show what was assumed of a claim.
    pub(super) fn confirm(&mut self, key: &ObjectKey) {
        let (Some(claim), Some(assumption)) = (self.claims.get(key), self.assumed.get_mut(key))
        else {
            return;
        };
        let is_shown = claim.bound_volume().is_some()
            || match &assumption.choice {
                Choice::Node(node) => claim.selected_node.as_ref() == Some(node),
                Choice::Volume(volume) => {
                    self.volumes.get(volume).is_some_and(|v| v.names(claim) == Some(true))
                }
            };
        if is_shown {
            assumption.confirmed = true;
            if let Choice::Volume(volume) = &assumption.choice {
                unreserve(&mut self.reserved, volume, key);
            }
        }
    }

    /// The node for which the volume of a claim is being made.
    pub(super) fn selected_node<'a>(&'a self, claim: &'a ClaimRecord) -> Option<&'a str> {
        let assumed = || match self.assumed.get(&claim.key) {
            Some(Assumption { choice: Choice::Node(node), confirmed: false, .. }) => Some(&**node),
            _ => None,
        };
        claim.selected_node.as_deref().or_else(assumed)
    }

    /// Whether a volume is bound to a claim or reserved for it; `None` if for nobody.
    pub(super) fn is_for(&self, volume: &VolumeRecord, claim: &ClaimRecord) -> Option<bool> {
        let assumed = || self.reserved.get(&volume.name).map(|key| *key == claim.key);
        volume.names(claim).or_else(assumed)
    }

    /// Whether all claims of a pod that is held on a node are bound, so that it can be bound too;
    /// or why it has to be placed anew.
    pub(crate) fn claims_bound(
        &self,
        pod: PodId,
        node: &str,
        facts: &NodeFacts,
    ) -> Result<bool, VolumeReason> {
        let Some(member) = self.pods.get(&pod) else { return Ok(true) };
        let mut all_bound = true;
        for usage in member.uses() {
            let Some(claim) = self.claim_of(usage).map_err(Refusal::told)? else { continue };
            let volume = claim.bound_volume().and_then(|name| self.volumes.get(name));
            match volume {
                Some(volume) => self.reachable(volume, node, facts).map_err(Refusal::told)?,
                None => {
                    if claim.bound_volume().is_none() {
                        self.is_under_way(claim, pod)?;
                    }
                    all_bound = false;
                }
            }
        }
        Ok(all_bound)
    }

    fn is_under_way(&self, claim: &ClaimRecord, pod: PodId) -> Result<(), VolumeReason> {
        let key = &claim.key;
        let assumption = self.assumed.get(key).filter(|a| a.pods.contains(&pod));
        let Some(Assumption { choice, confirmed, .. }) = assumption else {
            return Err(VolumeReason::NotBound(key.clone()));
        };
        match choice {
            _ if !confirmed => Ok(()),
            Choice::Node(node) if claim.selected_node.as_ref() == Some(node) => Ok(()),
            Choice::Node(_) => Err(VolumeReason::NotProvisioned(key.clone())),
            Choice::Volume(volume) => match self.volumes.get(volume) {
                Some(found) if found.names(claim) == Some(true) => Ok(()),
                _ => Err(VolumeReason::Released { claim: key.clone(), volume: (**volume).into() }),
            },
        }
    }
}

/// Another claim may have been given the volume since.
fn unreserve(reserved: &mut HashMap<Box<str>, ObjectKey>, volume: &str, claim: &ObjectKey) {
    if reserved.get(volume) == Some(claim) {
        reserved.remove(volume);
    }
}

impl VolumeRecord {
    /// Whether the volume names this claim; `None` if it names none.
    fn names(&self, claim: &ClaimRecord) -> Option<bool> {
        let named = self.claim.as_ref()?;
        Some(named.key == claim.key && (named.uid.is_empty() || named.uid == claim.uid))
    }
}
