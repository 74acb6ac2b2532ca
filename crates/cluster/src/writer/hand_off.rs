//! What hands a card to a container: the annotations of the binding, and the reservation pod that
//! keeps the card from everybody else.

use super::Writer;
use crate::state::{HandOff, Target};
use divvy_api::resources::{NODES, PODS};
use divvy_api::{Failure, Patch};
use divvy_engine::PodKey;
use divvy_ledger::CardShare;
use divvy_words::cards::{self, CardName, NamedShare};
use divvy_words::{keys, reservation};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// How the device plugin's CDI specification names a card.
const CDI_KIND: &str = "k8s.device-plugin.nvidia.com/gpu";

/// The annotation of a share that nobody hands out.
pub(super) fn indexes(shares: &[CardShare]) -> Value {
    let named =
        |share: &CardShare| NamedShare { card: CardName::Index(share.index), bytes: share.bytes };
    let shares: Vec<NamedShare> = shares.iter().map(named).collect();
    json!({ keys::CARDS: cards::print(&shares) })
}

/// The annotations that the variables of a share's container are read from.
pub(super) fn annotations(hand_off: &HandOff, cdi: bool) -> Value {
    let device = |share: &NamedShare| match cdi {
        true => format!("{CDI_KIND}={}", share.card),
        false => share.card.to_string(),
    };
    let devices: Vec<String> = hand_off.cards.iter().map(device).collect();
    json!({
        keys::CARDS: cards::print(&hand_off.cards),
        keys::VISIBLE_DEVICES: devices.join(","),
        keys::PORTION: hand_off.portion,
        keys::RECEIVED_TYPE: "Fraction",
    })
}

impl Writer {
    pub(super) async fn reserve(&self, node: &str, uid: &str, group: &str) -> Result<(), Failure> {
        let Some(settings) = &self.hand_off else { return Ok(()) };
        let owner = reservation::Owner { name: node, uid };
        let pod = reservation::manifest(&settings.reservation, owner, group);
        let path = PODS.path_in(reservation::NAMESPACE);
        let body = pod.to_string().into_bytes();
        self.patiently(|| self.api.post(&path, body.clone())).await.map(|_| ())
    }

    async fn merge(&self, path: &str, patch: &Value) -> Result<(), Failure> {
        let body = patch.to_string().into_bytes();
        self.patiently(|| self.api.patch(path, Patch::Strategic, body.clone())).await.map(|_| ())
    }

    /// Writes on a reservation pod what is left of pods on its card.
    pub(super) async fn remember(&self, key: &PodKey, ghosts: &str) -> Result<(), Failure> {
        let path = PODS.path_of(key.namespace(), key.name());
        let ghosts = Some(ghosts).filter(|ghosts| !ghosts.is_empty());
        self.merge(&path, &json!({ "metadata": { "annotations": { keys::GHOSTS: ghosts } } })).await
    }

    pub(super) async fn relabel(&self, key: &PodKey, group: &str) -> Result<(), Failure> {
        let path = PODS.path_of(key.namespace(), key.name());
        let body = json!({ "metadata": { "labels": reservation::our_labels(group) } });
        self.merge(&path, &body).await
    }

    /// Writes on a share that KAI bound which cards it has.
    pub(super) async fn record(&self, pod: &Target, shares: &[NamedShare]) -> Result<(), Failure> {
        let path = format!("{}/status", super::path(pod));
        let annotations = json!({ keys::CARDS: cards::print(shares) });
        let body = json!({ "metadata": { "uid": pod.uid, "annotations": annotations } });
        self.merge(&path, &body).await
    }

    pub(super) async fn unreserve(&self, key: &PodKey, uid: &str) -> Result<(), Failure> {
        let path = PODS.path_of(key.namespace(), key.name());
        let mut options = json!({ "gracePeriodSeconds": 0 });
        if !uid.is_empty() {
            options["preconditions"] = json!({ "uid": uid });
        }
        let body = options.to_string().into_bytes();
        self.patiently(|| self.api.delete(&path, body.clone())).await.map(|_| ())
    }

    /// Says in a condition of a pod what is wrong with its cards, or that it is over.
    pub(super) async fn mark(
        &self,
        pod: &Target,
        reason: &str,
        note: Option<&str>,
    ) -> Result<(), Failure> {
        let path = format!("{}/status", super::path(pod));
        let condition = json!({
            "type": reservation::condition(reason),
            "status": if note.is_some() { "True" } else { "False" },
            "reason": reason,
            "message": note.unwrap_or("it is over"),
            "lastTransitionTime": format!("{:.0}", Timestamp::now()),
        });
        let body =
            json!({ "metadata": { "uid": pod.uid }, "status": { "conditions": [condition] } });
        self.merge(&path, &body).await
    }

    /// Taints a node for other schedulers, or removes the taint. The list of taints is written as
    /// a whole, so only for the version that was read.
    pub(super) async fn taint(&self, node: &str, on: bool) -> Result<(), Failure> {
        let path = NODES.path_of("", node);
        let is_ours = |taint: &Value| taint["key"] == keys::UNSETTLED;
        for _ in 0..super::TRIES {
            let found = match self.patiently(|| self.api.get(&path)).await {
                Err(Failure::NotFound(_)) => return Ok(()),
                found => found?,
            };
            let found: Value = divvy_api::read(&found)?;
            let mut taints = found["spec"]["taints"].as_array().cloned().unwrap_or_default();
            if taints.iter().any(is_ours) == on {
                return Ok(());
            }
            taints.retain(|taint| !is_ours(taint));
            if on {
                taints.push(json!({ "key": keys::UNSETTLED, "effect": "NoSchedule" }));
            }
            let version = &found["metadata"]["resourceVersion"];
            let body =
                json!({ "metadata": { "resourceVersion": version }, "spec": { "taints": taints } });
            match self.merge(&path, &body).await {
                Err(Failure::Conflict(_)) => {}
                Err(why) => {
                    tracing::warn!(node, %why, "failed to write the taint {}", keys::UNSETTLED);
                    return Err(why);
                }
                Ok(()) => return Ok(()),
            }
        }
        Err(Failure::Unclear("the node changes all the time".to_owned()))
    }
}
