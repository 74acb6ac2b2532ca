//! Whether something has happened that can help a pod that waits for others.

use super::crowds::{Crowd, CrowdId};
use super::{Census, Identity, Sense};
use crate::prepared::port_clash;
use divvy_ledger::NodeId;

impl Census {
    /// Whether no port of such a pod is taken on a node.
    pub(crate) fn has_ports(&self, who: Identity, node: NodeId) -> bool {
        let tie = who.tie.and_then(|id| self.ties.get(id.0));
        let (Some(tie), Some(taken)) = (tie, self.ports.get(&node)) else { return true };
        port_clash(&tie.relations.ports, taken).is_none()
    }

    /// Now, on the clock by which [`Census::can_help`] looks back.
    pub(crate) const fn now(&self) -> u64 {
        self.clock
    }

    /// Whether something has changed since then that can make room for such a pod: a pod that
    /// comes can meet an affinity or even out a spread, one that goes takes its objections along.
    pub(crate) fn can_help(&self, who: Identity, since: u64) -> bool {
        if self.clock == since {
            return false;
        }
        let Some(kin) = self.kins.get(who.kin.0) else { return true };
        if self.places > since || kin.changed > since {
            return true;
        }
        let crowd = |id: &CrowdId| self.crowds.get(id.0);
        let went = |crowd: &Crowd| crowd.went > since;
        let moved = |crowd: &Crowd| crowd.went > since || crowd.came > since;
        let mut about = kin.crowds.iter().filter_map(crowd);
        if about.any(|crowd| crowd.key.sense == Sense::Owned && went(crowd)) {
            return true;
        }
        let Some(tie) = who.tie.and_then(|id| self.ties.get(id.0)) else { return false };
        let required = tie.relations.spread.iter().zip(&tie.spread).filter(|(s, _)| s.required);
        let mut evened = required.filter_map(|(_, id)| crowd(id.as_ref()?));
        tie.affinity.as_ref().and_then(crowd).is_some_and(moved)
            || evened.any(moved)
            || tie.anti_affinity.iter().filter_map(crowd).any(went)
    }
}
