//! Claims and volumes: what is known of them, and when a pod's are bound.

use super::Scheduler;
use crate::record::PodKey;
use crate::shapes::ShapeId;
use crate::volumes::{StorageEvent, VolumeReason, VolumeStep};
use divvy_ledger::NodeId;

impl Scheduler {
    pub(super) fn set_storage(&mut self, event: StorageEvent) {
        let node = self.world.volumes.apply(event);
        if let Some(id) = node.and_then(|name| self.world.ledger.find(&name)) {
            self.world.ledger.touch(id);
        }
    }

    /// What has to be done for the volumes of a pod of this shape before it can be bound.
    pub(super) fn volume_steps(&self, shape: ShapeId, node: NodeId) -> Vec<VolumeStep> {
        let who = self.shapes.related(shape);
        let uses = who.map_or(&[][..], |who| self.world.volumes_of(who));
        if uses.is_empty() {
            return Vec::new();
        }
        let wants = self.world.volumes.prepare(uses);
        wants.map_or_else(|_| Vec::new(), |wants| wants.steps(node, &self.world))
    }

    /// Whether all claims of a pod that holds a place are bound to volumes, so that the pod can be
    /// bound too; or why it has to be placed anew. The answer can change with every
    /// [`StorageEvent`].
    pub fn claims_bound(&self, key: &PodKey) -> Result<bool, VolumeReason> {
        let held = self.pods.find(key).and_then(|id| Some((id, self.world.ledger.holding(id)?)));
        let Some((id, holding)) = held else { return Ok(true) };
        let (node, facts) = (self.world.ledger.node(holding.node), self.facts(holding.node));
        let (Some(node), Some(facts)) = (node, facts) else { return Ok(true) };
        self.world.volumes.claims_bound(id, node.name(), facts)
    }
}
