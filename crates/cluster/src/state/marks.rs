//! What pods say of their cards: an event, and a condition for as long as it lasts. A condition is
//! written until it says what it should, as taints are.

use super::timers::{self, Timer};
use super::trouble::{CONFLICT, MISSING};
use super::wanted::Wanted;
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

/// A condition of a pod: what it says, if it is there.
#[derive(Debug, Default)]
struct Mark {
    node: Box<str>,
    note: Wanted<Option<Box<str>>>,
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
                mark.note.want(wanted.remove(&(key.clone(), *reason)).map(Into::into));
            }
        }
        for ((key, reason), note) in wanted {
            let mut mark = Mark { node: node.into(), ..Mark::default() };
            mark.note.want(Some(note.into()));
            self.marks.pods.entry(key).or_default().insert(reason, mark);
        }
    }

    /// Writes the conditions that are not as they should be.
    pub(super) fn write_marks(&mut self) {
        for (key, marks) in &mut self.marks.pods {
            marks.retain(|_, mark| !mark.note.is_nothing());
            for (reason, mark) in marks {
                let Some(note) = mark.note.take_due() else { continue };
                let uid = self.scheduler.uid(key).unwrap_or_default().into();
                let pod = Target { key: key.clone(), uid };
                if let Some(note) = note.as_ref().filter(|_| mark.note.there().is_none()) {
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
            Ok(()) | Err(Failure::NotFound(_) | Failure::Conflict(_)) => mark.note.written(note),
            Err(why) => {
                let again = now + timers::wait(why);
                self.timers.add(again, Timer::MarkAgain(pod.key.clone(), reason));
            }
        }
    }

    pub(super) fn mark_again(&mut self, key: &PodKey, reason: &'static str) {
        if let Some(mark) = self.mark(key, reason) {
            mark.note.try_again();
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
            if mark.note.there().is_none() && !mark.note.is_writing() {
                mark.note.seen(Some(found.message.clone()));
                mark.node = pod.node().unwrap_or_default().into();
                self.unsettled.insert(mark.node.clone());
            }
        }
    }
}
