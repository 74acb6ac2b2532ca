//! What is known of a pod besides what it holds and why it waits, for whoever shows it.

use crate::labels::Labels;
use crate::record::ObjectKey;
use crate::scheduler::Scheduler;
use divvy_ledger::Holding;

/// What a pod is. Nothing is decided by it here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodFacts<'a> {
    /// Its labels.
    pub labels: &'a Labels,
    /// Higher goes first.
    pub priority: i32,
    /// Seconds since 1970; `None` if it does not exist yet.
    pub created: Option<i64>,
    /// Whether its deletion was asked: it holds what it holds until it has ended.
    pub terminating: bool,
}

impl Scheduler {
    /// What a pod is, if it is known.
    pub fn pod_facts(&self, key: &ObjectKey) -> Option<PodFacts<'_>> {
        let (id, pod) = self.pods().find(key).and_then(|id| Some((id, self.pods().get(id)?)))?;
        let (labels, terminating) = self.world().others.look(id)?;
        let created = Some(pod.created).filter(|created| *created != i64::MAX);
        Some(PodFacts { labels, priority: pod.priority, created, terminating })
    }

    /// All pods, in no order, and what they hold.
    pub fn everyone(&self) -> impl Iterator<Item = (&ObjectKey, Option<&Holding>)> {
        self.pods().iter().map(|(id, pod)| (&pod.key, self.ledger().holding(id)))
    }

    /// The pods that have no place, in the order of their turns.
    pub fn without_place(&self) -> Vec<&ObjectKey> {
        let waiting = self.pods().iter().filter(|(id, _)| self.ledger().holding(*id).is_none());
        let mut waiting: Vec<_> = waiting.map(|(_, pod)| (pod.turn(), &pod.key)).collect();
        waiting.sort();
        waiting.into_iter().map(|(_, key)| key).collect()
    }

    /// When the pod was created that has waited longest, in seconds since 1970.
    pub fn oldest_waiting(&self) -> Option<i64> {
        let waiting = self.pods().iter().filter(|(id, _)| self.ledger().holding(*id).is_none());
        waiting.map(|(_, pod)| pod.created).filter(|created| *created != i64::MAX).min()
    }

    /// Whether a pod has its turn before another one.
    pub fn is_before(&self, first: &ObjectKey, second: &ObjectKey) -> bool {
        let turn = |key| self.pod(key).map(crate::pods::Pod::turn);
        turn(first).zip(turn(second)).is_some_and(|(first, second)| first < second)
    }
}
