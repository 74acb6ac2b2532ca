//! What the engine is told of a pod, by how far the pod is.

use super::cards::Cards;
use super::context::Context;
use crate::objects::PodItem;
use divvy_engine::{Bound, BoundCards, PodRecord};
use divvy_words::cards::{self, BoundPod, Held};
use divvy_words::{Priorities, reservation};
use std::sync::Arc;

/// A pod of another scheduler, which makes room for it on a node: that room is not ours to give.
pub(super) fn nominated(pod: &PodItem) -> Option<PodRecord> {
    let node = &*pod.status.nominated_node_name;
    if node.is_empty() || pod.is_ending() {
        return None;
    }
    let mut record = waiting(pod);
    let cards = match record.spec.request.whole_cards() {
        0 => BoundCards::Nothing,
        _ => BoundCards::Choose,
    };
    record.invalid = None;
    record.bound = Some(Bound { nominated: true, ..Bound::new(node, cards) });
    Some(record)
}

/// The record of a pod that is not bound.
pub(super) fn waiting(pod: &PodItem) -> PodRecord {
    let mut record =
        divvy_words::pod(&pod.metadata, &pod.spec, Some(&pod.status), None, &Priorities::default());
    record.uid = pod.metadata.uid.clone();
    let nominated = Some(&pod.status.nominated_node_name).filter(|node| !node.is_empty());
    record.nominated = nominated.cloned();
    if let Some(why) = &pod.unreadable {
        record.invalid = Some(why.clone());
    }
    record
}

/// The record of a pod that is bound. What KAI gave it counts as far as it is known which cards that
/// are; of whole cards the device plugin chose which.
pub(super) fn bound(
    pod: &PodItem,
    gets_shares: bool,
    known: &mut Cards,
    cx: &Context,
) -> PodRecord {
    let mut record = waiting(pod);
    let node = Arc::make_mut(&mut record.spec.rules).node_name.take().unwrap_or_default();
    if let Some(isolation) = cx.isolation() {
        isolation.enter_bound(&pod.metadata, &mut record.spec);
    }
    let groups = known.groups_of(pod);
    let (metadata, unreadable) = (&pod.metadata, pod.unreadable.as_deref());
    let held = BoundPod { metadata, unreadable, groups, gets_shares }.held(&mut record.spec);
    let cards = match held {
        Held::Nothing => BoundCards::Nothing,
        Held::Whole | Held::Unnamed => BoundCards::Choose,
        Held::Shares(shares) => {
            let groups = reservation::groups(&pod.metadata);
            known.named_cards(&node, &groups, &shares, cx)
        }
        Held::Groups(_) => BoundCards::Named(known.shares_by_group(pod, &record.spec.request, cx)),
        Held::Unrecorded => {
            // Once: it is news as often as it changes.
            if cx.scheduler.holding(&record.key).is_none() {
                tracing::info!(pod = %record.key, %node, "{}", cards::UNRECORDED);
            }
            BoundCards::Nothing
        }
        Held::Unreadable(why) => {
            tracing::warn!(pod = %record.key, %node, "{why}: no GPU is given on its node");
            BoundCards::Unknown
        }
    };
    // What is wrong with its request does not matter any more, and where it might run neither.
    record.invalid = None;
    let terminating = pod.is_ending();
    let devices = pod.status.devices_on();
    record.bound = Some(Bound { terminating, devices, ..Bound::new(node, cards) });
    record
}
