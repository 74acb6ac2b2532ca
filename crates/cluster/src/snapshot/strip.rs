//! Leaves of an object what its kind keeps.

use super::SavedCollection;
use super::kept::Kept;
use serde_json::{Map, Value};

/// The object with its type, which items of a list lack, and of the rest only what is kept.
pub fn strip(saved: &SavedCollection, object: Value) -> Value {
    let kept = keep(saved.kept, object).filter(Value::is_object);
    let mut object = kept.unwrap_or_else(|| Value::Object(Map::new()));
    object["apiVersion"] = saved.resource.api_version.into();
    object["kind"] = saved.resource.kind.into();
    object
}

fn keep(kept: &Kept, value: Value) -> Option<Value> {
    Some(match (kept, value) {
        (Kept::Plain, Value::Array(items)) => items.into_iter().filter(is_plain).collect(),
        (Kept::Plain, value) if is_plain(&value) => value,
        (Kept::Phrase(words), Value::String(text)) if text.contains(words) => (*words).into(),
        (Kept::Map, Value::Object(entries)) => {
            entries.into_iter().filter(|(_, value)| is_plain(value)).collect()
        }
        (Kept::Keys(keys), Value::Object(entries)) => entries
            .into_iter()
            .filter(|(key, value)| keys.contains(&key.as_str()) && is_plain(value))
            .collect(),
        (Kept::Fields(fields), Value::Object(mut object)) => fields
            .iter()
            .filter_map(|(name, kept)| Some((*name, keep(kept, object.remove(*name)?)?)))
            .collect(),
        (Kept::Fields(_), Value::Array(items)) => {
            items.into_iter().filter_map(|item| keep(kept, item)).collect()
        }
        _ => return None,
    })
}

/// Whether nothing can be hidden further down.
fn is_plain(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

#[cfg(test)]
mod tests;
