//! Pods to which nothing is given because of what their namespace costs already, or whose group has
//! changed. They are looked at again, a few at a time.

use super::timers::{Timer, Timers};
use divvy_engine::ObjectKey;
use foldhash::{HashMap, HashSet};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How many pods of a namespace are looked at in one go, and when the next ones are.
const AT_A_TIME: usize = 64;
const SOON: Duration = Duration::from_secs(1);

/// By namespace.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    pods: HashMap<Box<str>, BTreeSet<ObjectKey>>,
    /// Namespaces for which something has changed.
    moved: HashSet<Box<str>>,
    /// Namespaces for which a timer runs.
    due: HashSet<Box<str>>,
}

impl HeldBack {
    pub(super) fn add(&mut self, key: &ObjectKey) {
        self.pods.entry(key.namespace().into()).or_default().insert(key.clone());
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
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

    /// Sees to it that pods for which something has changed are tried again.
    pub(super) fn go_on_soon(&mut self, timers: &mut Timers, now: Instant) {
        for namespace in std::mem::take(&mut self.moved) {
            if self.due.insert(namespace.clone()) {
                timers.add(now + SOON, Timer::HeldBack(namespace));
            }
        }
    }

    /// Some pods of a namespace, which are to be looked at: what is known of each is worked out anew.
    pub(super) fn take_some(&mut self, namespace: &str) -> Vec<ObjectKey> {
        self.due.remove(namespace);
        let Some(pods) = self.pods.get(namespace) else { return Vec::new() };
        let some: Vec<ObjectKey> = pods.iter().take(AT_A_TIME).cloned().collect();
        some.iter().for_each(|key| self.remove(key));
        self.may_go_on(namespace);
        some
    }
}
