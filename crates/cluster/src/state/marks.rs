//! What pods say of their cards: an event, and a condition for as long as it lasts. A condition is
//! written until it says what it should, as taints are.

use super::timers::{self, Timer};
use super::trouble::{CONFLICT, MISSING};
use super::{Action, State, Target};
use crate::api::Failure;
use crate::objects::PodItem;
use divvy_engine::PodKey;
use divvy_words::reservation;
use std::collections::BTreeMap;
use std::time::Instant;

/// The pods that have one of our conditions, or should.
#[derive(Debug, Default)]
pub(super) struct Marks {
    pods: BTreeMap<PodKey, BTreeMap<&'static str, Mark>>,
}

/// A condition of a pod.
#[derive(Debug, Default)]
struct Mark {
    node: Box<str>,
    /// What it should say, if it should be there.
    wanted: Option<Box<str>>,
    /// What it says.
    there: Option<Box<str>>,
    /// Whether a write is under way, or waits to be made again.
    writing: bool,
}

impl Marks {
    pub(super) fn forget(&mut self, key: &PodKey) {
        self.pods.remove(key);
    }
}

impl State {
    /// Brings what is to be said on the pods of a node up to date.
    pub(super) fn mark_pods(&mut self, node: &str) {
        let mut wanted = self.troubles(node);
        for (key, marks) in &mut self.marks.pods {
            for (reason, mark) in marks.iter_mut().filter(|(_, mark)| *mark.node == *node) {
                mark.wanted = wanted.remove(&(key.clone(), *reason)).map(Into::into);
            }
        }
        for ((key, reason), note) in wanted {
            let wanted = Some(note.into());
            let mark = Mark { node: node.into(), wanted, ..Mark::default() };
            self.marks.pods.entry(key).or_default().insert(reason, mark);
        }
    }

    /// Writes the conditions that are not as they should be.
    pub(super) fn write_marks(&mut self) {
        for (key, marks) in &mut self.marks.pods {
            marks.retain(|_, mark| mark.wanted.is_some() || mark.there.is_some() || mark.writing);
            for (reason, mark) in marks {
                if mark.wanted == mark.there || mark.writing {
                    continue;
                }
                mark.writing = true;
                let uid = self.scheduler.uid(key).unwrap_or_default().into();
                let (pod, note) = (Target { key: key.clone(), uid }, mark.wanted.clone());
                if let Some(note) = note.as_ref().filter(|_| mark.there.is_none()) {
                    let (pod, note) = (pod.clone(), note.to_string());
                    self.actions.push(Action::Warn { pod, reason, note });
                }
                self.actions.push(Action::Mark { pod, reason, note });
            }
        }
        self.marks.pods.retain(|_, marks| !marks.is_empty());
    }

    /// What became of [`Action::Mark`].
    pub(super) fn marked(
        &mut self,
        pod: &Target,
        reason: &'static str,
        note: Option<Box<str>>,
        result: &Result<(), Failure>,
        now: Instant,
    ) {
        let Some(mark) = self.mark(&pod.key, reason) else { return };
        match result {
            // Gone, or another one of that name: whoever is there says itself what is on it.
            Ok(()) | Err(Failure::NotFound(_) | Failure::Conflict(_)) => {
                (mark.there, mark.writing) = (note, false);
            }
            Err(why) => {
                let again = now + timers::wait(why);
                self.timers.add(again, Timer::MarkAgain(pod.key.clone(), reason));
            }
        }
    }

    pub(super) fn mark_again(&mut self, key: &PodKey, reason: &'static str) {
        if let Some(mark) = self.mark(key, reason) {
            mark.writing = false;
        }
    }

    fn mark(&mut self, key: &PodKey, reason: &'static str) -> Option<&mut Mark> {
        self.marks.pods.get_mut(key)?.get_mut(reason)
    }

    /// Takes note of what a pod says, by us or by who led before.
    pub(super) fn notice_marks(&mut self, key: &PodKey, pod: &PodItem) {
        for reason in [CONFLICT, MISSING] {
            let mut conditions = pod.status.conditions.iter().filter(|c| &*c.status == "True");
            let kind = reservation::condition(reason);
            let Some(found) = conditions.find(|c| *c.kind == *kind) else { continue };
            let mark = self.marks.pods.entry(key.clone()).or_default().entry(reason);
            let mark = mark.or_default();
            if mark.there.is_none() && !mark.writing {
                mark.there = Some(found.message.clone());
                mark.node = pod.node().unwrap_or_default().into();
                self.unsettled.insert(mark.node.clone());
            }
        }
    }
}
