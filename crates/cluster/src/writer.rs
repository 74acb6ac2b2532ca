//! Bindings, conditions and events, as the API wants them.

mod provide;
mod shares;

use crate::metrics::{self, Attempt, Metrics};
use crate::objects::PodItem;
use crate::place::{Place, with_taint};
use crate::settings::HandOffSettings;
use crate::state::{Action, Binding, Grant, Outcome, Target};
use divvy_api::resources::{EVENTS, PODS};
use divvy_api::watch::Item;
use divvy_api::{Api, Failure, PatchKind};
use divvy_words::reservation;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Does what the state decided, one action a call.
#[derive(Clone)]
pub(crate) struct Writer {
    api: Api,
    /// Who says it, in events.
    identity: Arc<str>,
    events: Arc<AtomicU64>,
    metrics: Metrics,
    hand_off: Option<Arc<HandOffSettings>>,
}

/// As whom divvy reports events.
const CONTROLLER: &str = "divvy-scheduler";
/// How often a busy server is asked again before a write counts as failed.
const TRIES: u32 = 5;
/// A binding that a busy server asks for again within this time is sent again as it is.
const SOON: Duration = Duration::from_secs(1);

impl Writer {
    pub(crate) fn new(
        api: Api,
        identity: &str,
        metrics: Metrics,
        hand_off: Option<HandOffSettings>,
    ) -> Self {
        // Names of events differ from those of whoever ran before.
        let since = Timestamp::now().as_microsecond().unsigned_abs();
        let events = Arc::new(AtomicU64::new(since));
        let hand_off = hand_off.map(Arc::new);
        Self { api, identity: identity.into(), events, metrics, hand_off }
    }

    /// Does it, and says what became of it where somebody has to know.
    pub(crate) async fn perform(&self, action: Action) -> Option<Outcome> {
        Some(match action {
            Action::Bind(binding) => self.bind(&binding).await,
            Action::Provide { pod, node, steps } => {
                let result = provide::provide(&self.api, &node, &steps).await;
                Outcome::Provided { pod, result }
            }
            Action::Reserve { key, node, node_uid, group } => {
                let result = self.reserve(&node, &node_uid, &group).await;
                Outcome::Reserved { key, result }
            }
            Action::Unreserve { key, uid } => {
                let result = self.unreserve(&key, &uid).await;
                Outcome::Unreserved { key, uid, result }
            }
            Action::Tell { pod, version, text, again } => {
                self.metrics.attempt(Attempt::Unschedulable);
                let why = Why { text: &text, reason: "Unschedulable", again };
                let result = self.tell(&pod, &version, why).await;
                let result = result.map(|pod| pod.metadata.resource_version);
                Outcome::Told { pod, told_on: version, result }
            }
            Action::Void { pod, text, tries } => {
                let result = self.void(&pod, &text).await;
                Outcome::Looked { pod, text: Some(text), tries, result }
            }
            Action::Look { pod } => {
                let result = self.look(&pod).await;
                Outcome::Looked { pod, text: None, tries: 0, result }
            }
            Action::Write { place, uid, text } => {
                let result = self.write(&place, &uid, text.as_deref()).await;
                Outcome::Written { place, text, result }
            }
            Action::Warn { pod, reason, note } => {
                self.say(&pod, "Warning", reason, "Settling", &note).await;
                return None;
            }
            Action::Announce { pod, node } => {
                let note = format!("Successfully assigned {} to {node}", pod.key);
                self.say(&pod, "Normal", "Scheduled", "Binding", &note).await;
                return None;
            }
            Action::RelistPods => return None,
        })
    }

    async fn bind(&self, binding: &Binding) -> Outcome {
        let Binding { pod, placement, .. } = binding;
        let path = format!("{}/binding", path(pod));
        let cdi = self.hand_off.as_ref().is_some_and(|settings| settings.cdi);
        let body = binding_body(binding, cdi).to_string().into_bytes();
        let start = Instant::now();
        let mut result = self.api.post(&path, body.clone()).await;
        // Not later: what was decided is to be decided anew by then.
        if let Err(Failure::Busy { after, .. }) = result
            && after <= SOON
        {
            tokio::time::sleep(after).await;
            result = self.api.post(&path, body).await;
        }
        self.metrics.binding(kind(&result), start.elapsed());
        let attempt = if result.is_ok() { Attempt::Scheduled } else { Attempt::Error };
        self.metrics.attempt(attempt);
        let (pod, node) = (pod.clone(), placement.node.clone());
        Outcome::Bound { pod, node, result: result.map(|_| ()) }
    }

    /// Writes something on an object that others made, or removes it.
    async fn write(&self, place: &Place, uid: &str, text: Option<&str>) -> Result<(), Failure> {
        let (path, body) = place.patch(uid, text);
        match place {
            Place::Taint(_) => self.taint(&path, text.is_some()).await,
            _ => self.merge(&path, &body).await,
        }
    }

    async fn merge(&self, path: &str, patch: &Value) -> Result<(), Failure> {
        let body = patch.to_string().into_bytes();
        self.patiently(|| self.api.patch(path, PatchKind::Strategic, body.clone()))
            .await
            .map(|_| ())
    }

    /// Taints a node, or removes the taint, unless it is gone.
    async fn taint(&self, path: &str, on: bool) -> Result<(), Failure> {
        for _ in 0..TRIES {
            let found = match self.patiently(|| self.api.get(path)).await {
                Err(Failure::NotFound(_)) => return Ok(()),
                found => found?,
            };
            let unclear = |why: serde_json::Error| Failure::Unclear(why.to_string());
            let node: Value = serde_json::from_slice(&found).map_err(unclear)?;
            let Some(body) = with_taint(&node, on) else { return Ok(()) };
            match self.merge(path, &body).await {
                Err(Failure::Conflict(_)) => {}
                result => return result,
            }
        }
        Err(Failure::Unclear("the node changes all the time".to_owned()))
    }

    /// Tries again as often as a busy server asks for it, within reason.
    async fn patiently<F, T>(&self, mut write: impl FnMut() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut tries = 0;
        loop {
            match write().await {
                Err(Failure::Busy { after, .. }) if tries < TRIES => {
                    tries += 1;
                    tokio::time::sleep(after.max(Duration::from_millis(100))).await;
                }
                result => return result,
            }
        }
    }

    async fn look(&self, pod: &Target) -> Result<Option<Box<PodItem>>, Failure> {
        let path = path(pod);
        match self.patiently(|| self.api.get(&path)).await {
            Ok(bytes) => read(&bytes).map(Some),
            Err(Failure::NotFound(_)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Writes on a pod that its binding failed, unless it is bound or gone, and returns it. The
    /// condition is for the version that was seen not to be bound: a bound pod never gets it, and
    /// a binding that is still under way names an older version once it is written.
    async fn void(&self, pod: &Target, text: &str) -> Result<Option<Box<PodItem>>, Failure> {
        for _ in 0..TRIES {
            let Some(found) = self.look(pod).await? else { return Ok(None) };
            if found.metadata.uid != pod.uid || found.node().is_some() {
                return Ok(Some(found));
            }
            let why = Why { text, reason: "SchedulerError", again: found.told().is_some() };
            match self.tell(pod, found.version(), why).await {
                Err(Failure::NotFound(_)) => return Ok(None),
                Err(Failure::Conflict(_)) => {}
                result => return result.map(Some),
            }
        }
        Err(Failure::Unclear("the pod changes all the time".to_owned()))
    }

    /// Writes the condition that says why a pod waits, if it still is of that version, and an
    /// event; returns the pod.
    async fn tell(
        &self,
        pod: &Target,
        version: &str,
        why: Why<'_>,
    ) -> Result<Box<PodItem>, Failure> {
        let path = format!("{}/status", path(pod));
        let body = condition_body(pod, version, why).to_string().into_bytes();
        let bytes =
            self.patiently(|| self.api.patch(&path, PatchKind::Strategic, body.clone())).await?;
        self.say(pod, "Warning", "FailedScheduling", "Scheduling", why.text).await;
        read(&bytes)
    }

    /// Records an event. Events may be lost: what they say is in the pod's status too.
    async fn say(&self, pod: &Target, kind: &str, reason: &str, action: &str, note: &str) {
        let number = self.events.fetch_add(1, Ordering::Relaxed);
        let namespace = pod.key.namespace();
        let body = json!({
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                // As long as a pod's name may be, so may this one.
                "name": format!("{}.{number:x}", shortened(pod.key.name(), 230)),
                "namespace": namespace,
            },
            "eventTime": format!("{:.6}", Timestamp::now()),
            "reportingController": CONTROLLER,
            "reportingInstance": shortened(&self.identity, 128),
            "action": action,
            "reason": reason,
            "regarding": {
                "apiVersion": "v1", "kind": "Pod", "namespace": namespace,
                "name": pod.key.name(), "uid": pod.uid,
            },
            "note": shortened(note, 1023),
            "type": kind,
        });
        match self.api.post(&EVENTS.path_in(namespace), body.to_string().into_bytes()).await {
            Ok(_) => self.metrics.event_written(),
            Err(failure) => {
                tracing::debug!(pod = %pod.key, why = %failure, "failed to record an event");
            }
        }
    }
}

fn kind<T>(result: &Result<T, Failure>) -> metrics::BindingResult {
    match result {
        Ok(_) => metrics::BindingResult::Bound,
        Err(Failure::NotFound(_)) => metrics::BindingResult::Gone,
        Err(Failure::Conflict(_)) => metrics::BindingResult::Conflict,
        Err(Failure::Refused { .. }) => metrics::BindingResult::Refused,
        Err(_) => metrics::BindingResult::Unknown,
    }
}

/// Whether this action is a binding, which has its own writers.
pub(crate) const fn is_binding(action: &Action) -> bool {
    matches!(action, Action::Bind(_))
}

fn path(pod: &Target) -> String {
    PODS.path_of(pod.key.namespace(), pod.key.name())
}

fn read(bytes: &[u8]) -> Result<Box<PodItem>, Failure> {
    match serde_json::from_slice(bytes) {
        Ok(item) => Ok(item),
        Err(error) => {
            let why = error.to_string();
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            PodItem::unreadable(text, &why).map(Box::new).ok_or(Failure::Unclear(why))
        }
    }
}

/// uid and version are preconditions: the pod that was decided on is bound, or none. The
/// annotations become the pod's in the same transaction.
fn binding_body(binding: &Binding, cdi: bool) -> Value {
    let Binding { pod, version, placement, grant, limits, .. } = binding;
    let mut metadata = json!({
        "name": pod.key.name(),
        "namespace": pod.key.namespace(),
        "uid": pod.uid,
        "resourceVersion": version,
    });
    match grant {
        Grant::Nothing | Grant::HandOff(None) => {}
        Grant::Indexes => metadata["annotations"] = shares::indexes(&placement.cards),
        Grant::HandOff(Some(hand_off)) => {
            metadata["annotations"] = shares::annotations(hand_off, cdi);
            metadata["labels"] = reservation::labels(&hand_off.groups);
        }
    }
    for (key, value) in limits {
        metadata["annotations"][*key] = json!(value);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": { "apiVersion": "v1", "kind": "Node", "name": &*placement.node },
    })
}

/// Why a pod waits, and whether its condition already says that it does.
#[derive(Clone, Copy)]
struct Why<'a> {
    text: &'a str,
    reason: &'a str,
    again: bool,
}

fn condition_body(pod: &Target, version: &str, why: Why<'_>) -> Value {
    let now = format!("{:.0}", Timestamp::now());
    let mut condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": why.reason,
        "message": why.text,
        // Always new, so that the pod's version is: a binding that is still on its way to the
        // server names the old one.
        "lastProbeTime": now,
    });
    if !why.again {
        condition["lastTransitionTime"] = now.into();
    }
    json!({
        // Both are preconditions.
        "metadata": { "uid": pod.uid, "resourceVersion": version },
        "status": { "conditions": [condition] },
    })
}

fn shortened(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests;
