//! Pods whose place depends on other pods: they have shapes of their own.

use super::Scheduler;
use crate::config::Strategy;
use crate::labels::Labels;
use crate::others::Identity;
use crate::pods::PodState;
use crate::rules::Rules;
use crate::shapes::ShapeId;
use divvy_ledger::{Needs, PodId};
use std::sync::Arc;

impl Scheduler {
    /// The shape of a pod, new or known. Shapes use the identities in their keys.
    pub(super) fn shape(
        &mut self,
        needs: Needs,
        rules: &Arc<Rules>,
        strategy: Option<Strategy>,
        related: Option<Identity>,
    ) -> ShapeId {
        let (id, is_new) = self.shapes.intern(needs, rules, strategy, related);
        if let (true, Some(who)) = (is_new, related) {
            self.world.others.keep(who);
        }
        self.dismiss_retired();
        id
    }

    /// Forgets a shape that nobody waits for any more, if it keeps what others are asked about.
    pub(super) fn retire(&mut self, id: ShapeId) {
        if self.shapes.retire(id) {
            self.dismiss_retired();
        }
    }

    fn dismiss_retired(&mut self) {
        for who in self.shapes.take_retired() {
            self.world.others.dismiss(who);
        }
    }

    pub(super) fn set_namespace(&mut self, name: &str, labels: Option<Labels>) {
        self.world.others.set_namespace(name, labels);
        self.reshape_found();
    }

    /// Moves pods that wait into shapes of their own if terms of other pods have come to be about
    /// them.
    pub(super) fn reshape_found(&mut self) {
        let found = self.world.others.take_found();
        if found.is_empty() {
            return;
        }
        let is_found = |id: &PodId| {
            let who = self.world.others.identity(*id);
            who.is_some_and(|who| found.contains(&who.label_set))
        };
        let plain = |id: PodId, state: &PodState| {
            let shape = state.shape()?;
            (self.shapes.related(shape).is_none() && is_found(&id)).then_some((id, shape))
        };
        let pods = self.pods.iter().filter_map(|(id, pod)| plain(id, &pod.state));
        for (id, shape) in pods.collect::<Vec<_>>() {
            let who = self.world.others.identity(id);
            let Some((needs, rules, strategy)) = self.shapes.parts(shape) else { continue };
            let related = self.shape(needs, &rules, strategy, who);
            let Some(pod) = self.pods.get_mut(id) else { continue };
            pod.state = PodState::Waiting(related);
            let pod = pod.clone();
            self.leave(shape, &pod, id);
            self.join(related, pod.turn(), id);
        }
    }
}
