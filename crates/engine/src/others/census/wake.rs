//! Whether something has happened that can help a pod that waits for others.

use super::crowds::{Crowd, CrowdId};
use super::{Census, Identity, KinId, Sense};
use crate::others::prepared::port_clash;
use divvy_ledger::NodeId;
use foldhash::HashMap;

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
    /// And how much was looked at.
    pub(crate) fn can_help(
        &self,
        who: Identity,
        since: u64,
        departures: &mut Departures,
    ) -> (bool, usize) {
        if self.clock == since {
            return (false, 0);
        }
        let Some(kin) = self.kins.get(who.kin.0) else { return (true, 0) };
        if self.places > since || kin.changed > since {
            return (true, 0);
        }
        let crowd = |id: &CrowdId| self.crowds.get(id.0);
        let mut looks = 0;
        if self.departed > since {
            let last = *departures.0.entry(who.kin).or_insert_with(|| {
                looks = kin.crowds.len();
                let about = kin.crowds.iter().filter_map(crowd);
                let owned = about.filter(|crowd| crowd.key.sense == Sense::Owned);
                owned.map(|crowd| crowd.went).max().unwrap_or(0)
            });
            if last > since {
                return (true, looks);
            }
        }
        let Some(tie) = who.tie.and_then(|id| self.ties.get(id.0)) else { return (false, looks) };
        let went = |crowd: &Crowd| crowd.went > since;
        let moved = |crowd: &Crowd| crowd.went > since || crowd.came > since;
        let required = tie.relations.spread.iter().zip(&tie.spread).filter(|(s, _)| s.required);
        let mut evened = required.filter_map(|(_, id)| crowd(id.as_ref()?));
        let helps = tie.affinity.as_ref().and_then(crowd).is_some_and(moved)
            || evened.any(moved)
            || tie.anti_affinity.iter().filter_map(crowd).any(went);
        (helps, looks + tie.relations.cost())
    }
}

/// When somebody with a term about pods of a kin last went, looked up once for all its shapes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Departures(HashMap<KinId, u64>);
