//! Whether something has happened that can help a pod that waits for others.

use super::selections::{Selection, SelectionId};
use super::{Census, Identity, LabelSetId, Sense};
use crate::others::prepared::port_clash;
use divvy_ledger::NodeId;
use foldhash::HashMap;

impl Census {
    /// Whether no port of such a pod is taken on a node.
    pub(crate) fn has_ports(&self, who: Identity, node: NodeId) -> bool {
        let relation_set = who.relation_set.and_then(|id| self.relation_sets.get(id.0));
        let (Some(relation_set), Some(taken)) = (relation_set, self.ports.get(&node)) else {
            return true;
        };
        port_clash(&relation_set.relations.ports, taken).is_none()
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
        let Some(label_set) = self.label_sets.get(who.label_set.0) else { return (true, 0) };
        if self.places > since || label_set.changed > since {
            return (true, 0);
        }
        let selection = |id: &SelectionId| self.selections.get(id.0);
        let mut looks = 0;
        if self.departed > since {
            let last = *departures.0.entry(who.label_set).or_insert_with(|| {
                looks = label_set.selections.len();
                let about = label_set.selections.iter().filter_map(selection);
                let owned = about.filter(|selection| selection.key.sense == Sense::Owned);
                owned.map(|selection| selection.went).max().unwrap_or(0)
            });
            if last > since {
                return (true, looks);
            }
        }
        let Some(relation_set) = who.relation_set.and_then(|id| self.relation_sets.get(id.0))
        else {
            return (false, looks);
        };
        let went = |selection: &Selection| selection.went > since;
        let moved = |selection: &Selection| selection.went > since || selection.came > since;
        let required = relation_set
            .relations
            .spread
            .iter()
            .zip(&relation_set.spread)
            .filter(|(s, _)| s.required);
        let mut evened = required.filter_map(|(_, id)| selection(id.as_ref()?));
        let helps = relation_set.affinity.as_ref().and_then(selection).is_some_and(moved)
            || evened.any(moved)
            || relation_set.anti_affinity.iter().filter_map(selection).any(went);
        (helps, looks + relation_set.relations.cost())
    }
}

/// When somebody with a term about pods of a label set last went, looked up once for all its shapes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Departures(HashMap<LabelSetId, u64>);
