//! Snapshots: what is kept of an object is kept again, and says to a rehearsal what the object
//! says to the scheduler.

use crate::edit::edit;
use crate::input::Input;
use crate::objects;
use divvy_cluster::snapshot::{EVERYTHING, Snapshot, strip};
use divvy_words::{Content, Entry, Object, Priorities, read};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Objects of any kind with changes.
pub fn snapshots(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut snapshot = Snapshot::default();
    for _ in 0..=input.below(3) {
        let mut object = input.pick(&objects::ALL.iter().collect::<Vec<_>>()).clone();
        let kind = object["kind"].clone();
        edit(&mut input, &mut object);
        for saved in EVERYTHING.iter().filter(|saved| kind == saved.resource.kind) {
            let kept = strip(saved, object.clone());
            assert_eq!(strip(saved, kept.clone()), kept, "{object}");
            if let Some(given) = as_given(saved.resource.kind, &object) {
                same_record(&given, &strip(saved, given.clone()));
            }
            snapshot.objects.push(kept.to_string());
        }
    }
    let text = snapshot.to_json();
    let entries = read("snapshot", &text, &|_| ()).unwrap_or_else(|why| panic!("{why}: {text}"));
    assert_eq!(entries.len(), snapshot.objects.len(), "{text}");
    assert!(entries.iter().all(is_readable), "{entries:?}");
}

fn is_readable(entry: &Entry) -> bool {
    // Values of the right form can still be of the wrong type: a text where a number belongs.
    matches!(entry, Entry::Object(_) | Entry::Malformed { .. })
}

/// The object as the API would give it, which knows its fields and their types; none if it would
/// not have taken it.
fn as_given(kind: &str, object: &Value) -> Option<Value> {
    fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Option<Value> {
        serde_json::to_value(T::deserialize(object).ok()?).ok()
    }
    match kind {
        "Pod" => through::<Pod>(object),
        "Node" => through::<Node>(object),
        "PersistentVolume" => through::<PersistentVolume>(object),
        "PersistentVolumeClaim" => through::<PersistentVolumeClaim>(object),
        "StorageClass" => through::<StorageClass>(object),
        "CSINode" => through::<CSINode>(object),
        "CSIDriver" => through::<CSIDriver>(object),
        "CSIStorageCapacity" => through::<CSIStorageCapacity>(object),
        "VolumeAttachment" => through::<VolumeAttachment>(object),
        _ => None,
    }
}

fn same_record(object: &Value, kept: &Value) {
    let Ok(full) = Object::deserialize(object) else { return };
    let rest = match Object::deserialize(kept) {
        Ok(rest) => rest,
        Err(why) => panic!("{why}: {object} becomes {kept}"),
    };
    match (&full.content, &rest.content) {
        (Content::Pod(spec, status), Content::Pod(kept_spec, kept_status)) => {
            let priorities = Priorities::default();
            let record = divvy_words::pod(&full.metadata, spec, Some(status), None, &priorities);
            let again =
                divvy_words::pod(&rest.metadata, kept_spec, Some(kept_status), None, &priorities);
            assert_eq!(record, again, "{object} becomes {kept}");
        }
        (Content::Node(_), Content::Node(_)) => {
            assert_eq!(divvy_words::node(&full), divvy_words::node(&rest), "{object}");
        }
        (Content::Storage(kind, manifest), Content::Storage(_, again)) => {
            let (record, again) =
                (divvy_words::storage(*kind, manifest), divvy_words::storage(*kind, again));
            assert_eq!(format!("{record:?}"), format!("{again:?}"), "{object} becomes {kept}");
        }
        _ => {}
    }
}
