//! Claims and volumes: what is known of them, and when a pod's are bound.

use super::Scheduler;
use crate::others::{StorageEvent, VolumeReason};
use crate::record::ObjectKey;

impl Scheduler {
    pub(super) fn set_storage(&mut self, event: StorageEvent) {
        let node = self.world.others.storage_changed(event);
        if let Some(id) = node.and_then(|name| self.world.ledger.find(&name)) {
            self.world.ledger.touch(id);
        }
    }

    /// Whether all claims of a pod that holds a place are bound to volumes, so that the pod can be
    /// bound too; or why it has to be placed anew. The answer can change with every
    /// [`StorageEvent`].
    pub fn claims_bound(&self, key: &ObjectKey) -> Result<bool, VolumeReason> {
        let held = self.pods.find(key).and_then(|id| Some((id, self.world.ledger.holding(id)?)));
        let Some((id, holding)) = held else { return Ok(true) };
        let (node, facts) = (self.world.ledger.node(holding.node), self.facts(holding.node));
        let (Some(node), Some(facts)) = (node, facts) else { return Ok(true) };
        self.world.others.is_written(id, node.name(), facts)
    }
}
