//! What is wrong with a document that does not fit the types.

use super::{Entry, flatten};
use crate::manifest::{Kind, Object};
use crate::problem::{short, visible};
use serde::Deserialize;
use serde_json::Value;

/// Reads an untyped document into entries, Lists item by item.
pub(super) fn entries(value: Value, into: &mut Vec<Entry>) -> Result<(), String> {
    item(value, None, into)
}

/// Kind and apiVersion of the items of a list like PodList, which do not say it themselves.
type Inherited<'a> = Option<(&'a str, &'a str)>;

fn item(value: Value, inherited: Inherited<'_>, into: &mut Vec<Entry>) -> Result<(), String> {
    let mut map = match value {
        Value::Null => return Ok(()),
        Value::Object(map) => map,
        other => return Err(format!("{}, expected a Kubernetes object", show(&other))),
    };
    map.retain(|_, field| !field.is_null());
    match (map.get("kind"), inherited) {
        (Some(Value::String(kind)), _) if !kind.is_empty() => {}
        (None, Some((kind, api_version))) if !kind.is_empty() => {
            map.insert("kind".to_owned(), kind.into());
            map.entry("apiVersion").or_insert_with(|| api_version.into());
        }
        (Some(other), _) => return Err(format!("kind: {}, expected a name", show(other))),
        (None, _) => return Err("no Kubernetes object: kind is missing".to_owned()),
    }
    let text = |field: &str| map.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    // Only a List has items; in other kinds they are whatever they are.
    let items = map.remove("items");
    if Kind::of(&kind, &api_version) == Some(Kind::List) {
        let items = match items {
            None => return Ok(()),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(format!("items: {}, expected a list", show(&other))),
        };
        let inherited = (kind.strip_suffix("List").unwrap_or_default(), api_version.as_str());
        for (index, value) in items.into_iter().enumerate() {
            item(value, Some(inherited), into).map_err(|e| format!("items[{index}]: {e}"))?;
        }
        return Ok(());
    }
    let value = Value::Object(map);
    match Object::deserialize(&value) {
        Ok(object) => flatten(object, into),
        Err(_) => {
            let text = |pointer: &str| {
                let text = value.pointer(pointer).and_then(Value::as_str);
                visible(text.unwrap_or_default()).into_owned()
            };
            let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
            let (node, scheduler) = (text("/spec/nodeName"), text("/spec/schedulerName"));
            let kind = visible(&kind).into_owned();
            let error = locate(value);
            into.push(Entry::Malformed { kind, namespace, name, node, scheduler, error });
        }
    }
    Ok(())
}

enum Step {
    Key(String),
    Index,
}

/// Names the first field that is wrong: the one that is refused when all others are left out.
fn locate(mut root: Value) -> String {
    let mut path = String::new();
    let mut steps: Vec<Step> = Vec::new();
    while let Some((name, step)) = descend(&mut root, &steps) {
        path.push_str(&name);
        steps.push(step);
    }
    let expected = match Object::deserialize(&root) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    let expected = expected.rsplit_once(", expected ").map_or(expected.as_str(), |(_, e)| e);
    let given = at(&mut root, &steps).map_or_else(String::new, |value| show(value));
    format!("{path}: {given}, expected {expected}")
}

/// Leaves in the value at `steps` only its first wrong child, and returns how to get there.
fn descend(root: &mut Value, steps: &[Step]) -> Option<(String, Step)> {
    match std::mem::take(at(root, steps)?) {
        Value::Object(map) => {
            let fields = map.iter().filter(|(key, value)| is_head(steps, key, value));
            let head = fields.map(|(key, value)| (key.clone(), value.clone())).collect();
            *at(root, steps)? = Value::Object(head);
            if Object::deserialize(&*root).is_err() {
                return None;
            }
            for (key, child) in map {
                if is_head(steps, &key, &child) {
                    continue;
                }
                let Value::Object(only) = at(root, steps)? else { return None };
                only.insert(key.clone(), child);
                if Object::deserialize(&*root).is_err() {
                    return Some((field_name(steps, &key), Step::Key(key)));
                }
                let Value::Object(only) = at(root, steps)? else { return None };
                only.remove(&key);
            }
            None
        }
        Value::Array(items) => {
            *at(root, steps)? = Value::Array(Vec::new());
            if Object::deserialize(&*root).is_err() {
                return None;
            }
            for (index, child) in items.into_iter().enumerate() {
                *at(root, steps)? = Value::Array(vec![child]);
                if Object::deserialize(&*root).is_err() {
                    return Some((format!("[{index}]"), Step::Index));
                }
            }
            *at(root, steps)? = Value::Array(Vec::new());
            None
        }
        scalar => {
            *at(root, steps)? = scalar;
            None
        }
    }
}

/// Whether this field says what the others mean, and so always stays.
fn is_head(steps: &[Step], key: &str, value: &Value) -> bool {
    steps.is_empty() && (key == "kind" || key == "apiVersion") && value.is_string()
}

fn field_name(steps: &[Step], key: &str) -> String {
    let plain = key.bytes().all(|b| b.is_ascii_alphanumeric());
    match (plain, steps.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!(".{key}"),
        (false, _) => format!("[{:?}]", short(key)),
    }
}

fn at<'a>(root: &'a mut Value, steps: &[Step]) -> Option<&'a mut Value> {
    steps.iter().try_fold(root, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index => value.get_mut(0),
    })
}

/// A value and its type, short.
fn show(value: &Value) -> String {
    let kind = match value {
        Value::Null => return "null".to_owned(),
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => return "a list".to_owned(),
        Value::Object(_) => return "an object".to_owned(),
    };
    format!("{} is {kind}", short(&value.to_string()))
}
