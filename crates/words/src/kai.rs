//! Whether KAI's own scheduler runs in a cluster: two schedulers for the same pods do harm.

use crate::keys::{KAI_SCHEDULER, MIRROR};
use crate::manifest::{Metadata, PodStatus};

/// Whether this pod is KAI's scheduler and has not ended. KAI labels it `app:
/// kai-scheduler-<shard>`, and before there were shards `app: scheduler`; its other pods in that
/// namespace (binder, admission, operator) place nothing.
pub fn is_kai_scheduler(metadata: &Metadata, status: &PodStatus) -> bool {
    let app = metadata.labels.get("app").unwrap_or_default();
    let is_scheduler = app == "scheduler"
        || app
            .strip_prefix(KAI_SCHEDULER)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    is_scheduler && works_in(KAI_SCHEDULER, metadata, status)
}

/// Whether this pod is KAI's binder and has not ended: it makes and deletes reservation pods.
pub fn is_kai_binder(metadata: &Metadata, status: &PodStatus) -> bool {
    metadata.labels.get("app") == Some("binder") && works_in(KAI_SCHEDULER, metadata, status)
}

/// Whether a pod is of this namespace, and has not ended. What a node puts there by itself does not
/// count: no node decides for the cluster whose pods are ours.
pub(crate) fn works_in(namespace: &str, metadata: &Metadata, status: &PodStatus) -> bool {
    let is_mirror = metadata.annotations.get(MIRROR).is_some();
    &*metadata.namespace == namespace && !is_mirror && !status.has_ended()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(namespace: &str, app: &str) -> Metadata {
        let text = format!(r#"{{"namespace": "{namespace}", "labels": {{"app": "{app}"}}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn kais_scheduler_is_known_by_namespace_label_and_phase() {
        let cases = [
            ("kai-scheduler", "kai-scheduler-default", "Running", true),
            ("kai-scheduler", "scheduler", "Running", true),
            ("kai-scheduler", "kai-scheduler-default", "Pending", true),
            ("kai-scheduler", "kai-scheduler-default", "Failed", false),
            ("kai-scheduler", "binder", "Running", false),
            ("kai-scheduler", "kai-schedulers", "Running", false),
            ("ml", "kai-scheduler-default", "Running", false),
        ];
        for (namespace, app, phase, expected) in cases {
            let status = PodStatus { phase: phase.into(), ..PodStatus::default() };
            let found = is_kai_scheduler(&metadata(namespace, app), &status);
            assert_eq!(found, expected, "{namespace} {app} {phase}");
            let is_binder = is_kai_binder(&metadata(namespace, app), &status);
            assert_eq!(is_binder, app == "binder", "{namespace} {app} {phase}");
        }
    }

    #[test]
    fn a_pod_that_a_node_has_made_itself_is_nobodys_scheduler() {
        let mut pod = metadata("kai-scheduler", "scheduler");
        let status = PodStatus::default();
        assert!(is_kai_scheduler(&pod, &status));
        pod.annotations = serde_json::from_str(&format!(r#"{{"{MIRROR}": "x"}}"#)).unwrap();
        assert!(!is_kai_scheduler(&pod, &status));
        (pod.namespace, pod.labels) = (
            "koordinator-system".into(),
            serde_json::from_str(r#"{"koord-app": "koord-scheduler"}"#).unwrap(),
        );
        assert!(!crate::is_koordinator_scheduler(&pod, &status));
    }
}
