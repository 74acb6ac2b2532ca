//! Pods to which nothing is given because of what their namespace costs already, or whose group has
//! changed. They are looked at again, a few at a time.

use super::timers::Timer;
use super::{Action, State, Target};
use divvy_engine::PodKey;
use foldhash::{HashMap, HashSet};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How many pods of a namespace are looked at in one go, and when the next ones are.
const AT_A_TIME: usize = 64;
const SOON: Duration = Duration::from_secs(1);

/// By namespace.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    pods: HashMap<Box<str>, BTreeSet<PodKey>>,
    /// Namespaces for which something has changed.
    moved: HashSet<Box<str>>,
    /// Namespaces for which a timer runs.
    due: HashSet<Box<str>>,
}

impl HeldBack {
    pub(super) fn add(&mut self, key: &PodKey) {
        self.pods.entry(key.namespace().into()).or_default().insert(key.clone());
    }

    pub(super) fn remove(&mut self, key: &PodKey) {
        if let Some(pods) = self.pods.get_mut(key.namespace()) {
            pods.remove(key);
            if pods.is_empty() {
                self.pods.remove(key.namespace());
            }
        }
    }

    /// Something has changed for the pods of a namespace.
    pub(super) fn may_go_on(&mut self, namespace: &str) {
        if self.pods.contains_key(namespace) {
            self.moved.insert(namespace.into());
        }
    }
}

impl State {
    /// Sees to it that pods for which something has changed are tried again.
    pub(super) fn go_on_soon(&mut self, now: Instant) {
        for namespace in std::mem::take(&mut self.held_back.moved) {
            if self.held_back.due.insert(namespace.clone()) {
                self.timers.add(now + SOON, Timer::HeldBack(namespace));
            }
        }
    }

    /// Looks at some of them: what is known of each is worked out anew.
    pub(super) fn try_held_back(&mut self, namespace: &str) {
        self.held_back.due.remove(namespace);
        let Some(pods) = self.held_back.pods.get(namespace) else { return };
        let some: Vec<PodKey> = pods.iter().take(AT_A_TIME).cloned().collect();
        let is_all = some.len() == pods.len();
        for key in some {
            self.held_back.remove(&key);
            if let Some(waiting) = self.waiting.get(&key) {
                let pod = Target { key, uid: waiting.uid.clone() };
                self.actions.push(Action::Look { pod });
            }
        }
        if !is_all {
            self.held_back.may_go_on(namespace);
        }
    }
}
