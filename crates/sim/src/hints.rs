//! Mistakes that the API would accept in silence, and what a rehearsal leaves out.

use divvy_words::manifest::Metadata;
use divvy_words::{Content, Object, keys};
use std::collections::BTreeMap;

/// What is worth a word, gathered over all objects so that each thing is said once.
#[derive(Default)]
pub(crate) struct Hints {
    texts: Vec<String>,
}

impl Hints {
    /// Looks at an object that makes `pods` pods of this metadata and spec.
    pub(crate) fn look(&mut self, object: &Object, metadata: &Metadata, pods: usize) {
        let Object { kind, metadata: own, .. } = object;
        let name = &own.name;
        for key in [keys::GPU_FRACTION, keys::GPU_MEMORY] {
            if metadata.annotations.get(key).is_some() {
                continue;
            }
            if own.annotations.get(key).is_some() {
                self.texts.push(format!(
                    "{kind} {name}: {key} stands on the {kind} itself; its pods ask for no GPU. \
                     Put it under spec.template.metadata.annotations"
                ));
            }
            if metadata.labels.get(key).is_some() {
                self.texts.push(format!(
                    "{kind} {name}: {key} is a label; it has to be an annotation to ask for a GPU"
                ));
            }
        }
        if let (0, Content::Workload(workload)) = (pods, &object.content) {
            let why = match &**kind {
                "DaemonSet" => "no node matches",
                "Job" if workload.suspend => "it is suspended",
                _ => "it asks for 0",
            };
            self.texts.push(format!("{kind} {name} makes no pods: {why}"));
        }
    }

    /// What was found, in sentences.
    pub(crate) fn into_warnings(self, ignored: &BTreeMap<String, usize>) -> Vec<String> {
        let mut texts = self.texts;
        if ignored.contains_key("Node") {
            texts.push("nodes are read from --cluster, not from -f".to_owned());
        }
        for kind in ignored.keys() {
            let known = ["Pod", "Deployment", "StatefulSet", "ReplicaSet", "Job", "DaemonSet"];
            if let Some(meant) = known.iter().find(|k| k.eq_ignore_ascii_case(kind)) {
                texts.push(format!("kind {kind} is not read: write {meant}, with its apiVersion"));
            }
        }
        texts
    }
}
