//! Steps of a JSON Patch (RFC 6902), as far as they are needed.

use serde::Serialize;
use serde_json::Value;

/// Steps in order.
pub type Patch = Vec<Step>;

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Step {
    /// Sets a member of an object, whether it was there or not, or puts an entry into a list, in
    /// front of the one that is there.
    Add {
        /// Where, as a JSON pointer.
        path: String,
        /// What.
        value: Value,
    },
    /// Removes a member of an object or an entry of a list.
    Remove {
        /// Where, as a JSON pointer.
        path: String,
    },
}

/// The pointer to the member `key` of the object at `parent`.
pub(super) fn member(parent: &str, key: &str) -> String {
    format!("{parent}/{}", key.replace('~', "~0").replace('/', "~1"))
}
