//! A cluster and a pod that looks for a node.

use serde_json::{Value, json};

/// A case: manifests, as both sides read them.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The objects of the cluster.
    pub objects: Vec<Value>,
    /// A pod that is not bound.
    pub pod: Value,
}

impl Case {
    /// The line that the Go program reads.
    pub fn line(&self) -> String {
        json!({"objects": self.objects, "pod": self.pod}).to_string()
    }

    /// The cluster as a List that `divvy` and `kubectl` read.
    pub fn cluster(&self) -> String {
        json!({"apiVersion": "v1", "kind": "List", "items": self.objects}).to_string()
    }
}
