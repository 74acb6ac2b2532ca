//! Names of cards as pods, reservations and kubelets write them: what is read is one card, and is
//! printed as it was read.

use crate::input::Input;
use divvy_ledger::Bytes;
use divvy_words::cards::{self, CardName};
use divvy_words::manifest::{Metadata, PodStatus};
use divvy_words::{ghosts, keys, reservation};
use serde::Deserialize;
use serde_json::json;

/// The record of a pod's cards, of vanished pods, or the name of a reservation's card.
pub fn devices(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let which = input.below(3);
    let Ok(text) = std::str::from_utf8(input.rest()) else { return };
    match which {
        0 => records(text),
        1 => vanished(text),
        _ => reserved(text),
    }
}

fn records(text: &str) {
    let Ok(shares) = cards::parse(text) else { return };
    let printed = cards::print(&shares);
    assert_eq!(cards::parse(&printed), Ok(shares.clone()), "{text:?}");
    for share in &shares {
        if let CardName::Uuid(uuid) = &share.card {
            assert!(is_one_device(uuid), "{text:?} names {uuid:?}");
        }
    }
    assert_eq!(shares.is_empty(), text.is_empty(), "{text:?}");
}

/// Nothing that a runtime would take for several devices, for all of them, or for none.
fn is_one_device(uuid: &str) -> bool {
    let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    uuid.starts_with("GPU-") && uuid.len() <= 128 && !uuid.contains(is_other)
}

fn vanished(text: &str) {
    let found = ghosts::parse(text);
    assert!(found.len() <= text.split(',').count());
    assert_eq!(ghosts::parse(&ghosts::print(&found)), found, "{text:?}");
    for ghost in &found {
        // No pod can have such a name, so that it is never taken for one.
        assert!(ghost.key().name().ends_with(')'), "{text:?}");
        assert!(ghost.bytes <= Bytes(u64::MAX));
    }
}

fn reserved(text: &str) {
    let (id, written) = text.split_once('\n').unwrap_or((text, text));
    let device = json!({ "resourceID": id });
    let given = json!([{ "name": keys::GPU, "resources": [device] }]);
    let status = json!({
        "phase": "Running",
        "containerStatuses": [{ "name": "c", "allocatedResourcesStatus": given }],
    });
    let metadata = json!({
        "namespace": reservation::NAMESPACE,
        "labels": { "app": reservation::NAMESPACE, keys::GPU_GROUP: written },
        "annotations": { keys::RESERVED_CARD: written },
    });
    let metadata = Metadata::deserialize(&metadata).unwrap_or_default();
    let status = PodStatus::deserialize(&status).unwrap_or_default();
    if let Some(card) = reservation::card(&metadata, &status) {
        assert!(is_one_device(card), "{text:?} is {card:?}");
        assert!(text.contains(card), "{text:?} is {card:?}");
    }
    assert_eq!(reservation::group(&metadata), Some(written));
    assert_eq!(reservation::groups(&metadata), [written]);
    assert!(reservation::name("n1", written).len() <= 63);
    let labels = reservation::labels(&[written.into()]);
    assert_eq!(labels[keys::GPU_GROUP], written);
}
