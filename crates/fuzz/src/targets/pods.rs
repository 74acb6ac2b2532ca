//! Pods with any field changed: a record that can be kept, whatever they say.

use crate::cost::Bound;
use crate::edit::edit;
use crate::input::Input;
use crate::objects;
use divvy_engine::{Config, Event, Scheduler};
use divvy_words::manifest::{Metadata, PodManifest, PodStatus};
use divvy_words::{Priorities, hand_off_ready};
use serde::Deserialize;
use serde_json::Value;

const BOUND: Bound = Bound { base: 1 << 20, each: 256 };
/// What a record may weigh that is kept for a pod, however large the pod is.
const MOST: usize = 32 << 10;

/// A pod with changes.
pub fn pods(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut pod = input.pick(&objects::of_kind("Pod").collect::<Vec<_>>()).clone();
    edit(&mut input, &mut pod);
    let text = pod.to_string();
    let Some((metadata, spec, status)) = BOUND.hold(text.len(), || parts(&pod)) else { return };
    let priorities = Priorities::default();
    let read = || divvy_words::pod(&metadata, &spec, Some(&status), None, &priorities);
    let record = BOUND.hold(text.len(), read);
    assert_eq!(record, read(), "{text}");
    let weight = record.spec.weight();
    assert!(weight <= MOST, "{weight} bytes are kept of {text}");
    if let Some(why) = &record.invalid {
        assert!(why.len() < 8_192 && !why.contains('\u{1b}'), "{why:?}");
    }
    let request = &record.spec.request;
    assert!(!request.is_share() || (1..=64).contains(&request.cards()), "{text}");
    let _ = hand_off_ready(&metadata, &spec);
    // It can be entered, twice, and leaves nothing.
    let mut scheduler = Scheduler::new(Config::default());
    for _ in 0..2 {
        let _ = scheduler.apply(Event::Pod(Box::new(record.clone())));
        scheduler.pass(usize::MAX);
    }
    let _ = scheduler.apply(Event::PodGone(record.key.clone()));
    assert!(scheduler.holders().is_empty() && scheduler.request(&record.key).is_none());
}

fn parts(pod: &Value) -> Option<(Metadata, PodManifest, PodStatus)> {
    let metadata = Metadata::deserialize(&pod["metadata"]).ok()?;
    let spec = PodManifest::deserialize(&pod["spec"]).ok()?;
    let status = PodStatus::deserialize(&pod["status"]).unwrap_or_default();
    Some((metadata, spec, status))
}
