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

/// The object with the patch applied, as RFC 6902 says.
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
pub(super) fn patched(object: &Value, patch: &[Step]) -> Value {
    let mut object = object.clone();
    for step in patch {
        let path = match step {
            Step::Add { path, .. } | Step::Remove { path } => path,
        };
        let (parent, key) = path.rsplit_once('/').unwrap();
        let key = key.replace("~1", "/").replace("~0", "~");
        match (object.pointer_mut(parent).unwrap(), step) {
            (Value::Object(map), Step::Add { value, .. }) => drop(map.insert(key, value.clone())),
            (Value::Object(map), Step::Remove { .. }) => drop(map.remove(&key).unwrap()),
            (Value::Array(list), Step::Add { value, .. }) => {
                list.insert(key.parse().unwrap(), value.clone());
            }
            (Value::Array(list), Step::Remove { .. }) => drop(list.remove(key.parse().unwrap())),
            (other, _) => panic!("{path}: {other} has no members"),
        }
    }
    object
}
