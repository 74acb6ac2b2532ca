//! Priority classes: what a pod's priority is.

use crate::manifest::{Content, Object, PodManifest};
use std::collections::BTreeMap;

/// The priority classes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priorities {
    classes: BTreeMap<Box<str>, i32>,
    global_default: Option<i32>,
}

/// The two classes that every cluster has.
impl Default for Priorities {
    fn default() -> Self {
        let system = [
            ("system-cluster-critical".into(), 2_000_000_000),
            ("system-node-critical".into(), 2_000_001_000),
        ];
        Self { classes: system.into(), global_default: None }
    }
}

impl Priorities {
    /// Adds a class if the object is one.
    pub fn add(&mut self, object: &Object) {
        let Content::PriorityClass { value, global_default } = object.content else { return };
        self.classes.insert(object.metadata.name.clone(), value);
        if global_default {
            // Of several global defaults Kubernetes takes the lowest.
            let lowest = self.global_default.map_or(value, |other| other.min(value));
            self.global_default = Some(lowest);
        }
    }

    /// The priority of a pod: its own, that of its class, or the global default. 0 if its class is
    /// not known.
    pub fn of(&self, spec: &PodManifest) -> i32 {
        if let Some(priority) = spec.priority {
            return priority;
        }
        if spec.priority_class_name.is_empty() {
            return self.global_default.unwrap_or(0);
        }
        self.classes.get(&spec.priority_class_name).copied().unwrap_or(0)
    }

    /// The class that a pod names and that is not known, if its priority depends on it.
    pub fn unknown<'a>(&self, spec: &'a PodManifest) -> Option<&'a str> {
        let class = &spec.priority_class_name;
        let is_unknown = spec.priority.is_none() && !self.classes.contains_key(class);
        (is_unknown && !class.is_empty()).then_some(class)
    }
}
