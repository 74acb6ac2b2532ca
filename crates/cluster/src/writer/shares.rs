//! What hands a card to a container: the annotations of the binding, and the reservation pod that
//! keeps the card from everybody else.

use super::Writer;
use crate::state::HandOff;
use divvy_api::Failure;
use divvy_api::resources::PODS;
use divvy_engine::ObjectKey;
use divvy_ledger::CardShare;
use divvy_words::cards::{self, CardName, NamedShare};
use divvy_words::{keys, reservation};
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
    let HandOff { cards, portion, devices, device_allocated, .. } = hand_off;
    let device = |share: &NamedShare| match cdi {
        true => format!("{CDI_KIND}={}", share.card),
        false => share.card.to_string(),
    };
    let usual = || cards.iter().map(device).collect::<Vec<_>>().join(",");
    let mut annotations = json!({
        keys::CARDS: cards::print(cards),
        keys::VISIBLE_DEVICES: devices.clone().unwrap_or_else(usual),
        keys::PORTION: portion,
        keys::RECEIVED_TYPE: "Fraction",
    });
    if let Some(text) = device_allocated {
        annotations[keys::DEVICE_ALLOCATED] = json!(text);
    }
    annotations
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

    pub(super) async fn unreserve(&self, key: &ObjectKey, uid: &str) -> Result<(), Failure> {
        let path = PODS.path_of(key.namespace(), key.name());
        let mut options = json!({ "gracePeriodSeconds": 0 });
        if !uid.is_empty() {
            options["preconditions"] = json!({ "uid": uid });
        }
        let body = options.to_string().into_bytes();
        self.patiently(|| self.api.delete(&path, body.clone())).await.map(|_| ())
    }
}
