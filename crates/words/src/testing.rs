//! What tests of several modules use.

use crate::{Content, Entry, Metadata, Object, PodManifest, read};

/// The only object of a text.
pub(crate) fn object(text: &str) -> Object {
    match read("test", text, &|_| ()).unwrap().swap_remove(0) {
        Entry::Object(object) => object,
        malformed @ Entry::Malformed { .. } => panic!("{malformed:?}"),
    }
}

/// The only pod of a text.
pub(crate) fn pod(text: &str) -> (Metadata, PodManifest) {
    let object = object(text);
    match object.content {
        Content::Pod(spec, _) => (object.metadata, *spec),
        other => panic!("{other:?}"),
    }
}
