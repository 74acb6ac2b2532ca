//! JSON Patch (RFC 6902) as the API server applies it: all steps, or an error.

use serde_json::Value;

/// The object with these steps done.
pub fn patched(mut object: Value, steps: &Value) -> Result<Value, String> {
    let steps = steps.as_array().ok_or("the patch is no list")?;
    for step in steps {
        apply(&mut object, step).map_err(|why| format!("{why}: {step}"))?;
    }
    Ok(object)
}

fn apply(object: &mut Value, step: &Value) -> Result<(), String> {
    let path = step["path"].as_str().ok_or("no path")?;
    let (parent, last) = path.rsplit_once('/').ok_or("the path names the whole object")?;
    let last = last.replace("~1", "/").replace("~0", "~");
    let target = object.pointer_mut(parent).ok_or("there is no parent")?;
    let value = step.get("value").cloned();
    match (step["op"].as_str().unwrap_or_default(), target) {
        ("add", Value::Object(members)) => {
            members.insert(last, value.ok_or("no value")?);
        }
        ("add", Value::Array(items)) => {
            let at = if last == "-" { items.len() } else { index(&last)? };
            if at > items.len() {
                return Err("the place is beyond the end".to_owned());
            }
            items.insert(at, value.ok_or("no value")?);
        }
        ("remove", Value::Object(members)) => {
            members.remove(&last).ok_or("there is nothing to remove")?;
        }
        ("remove", Value::Array(items)) => {
            let at = index(&last)?;
            if at >= items.len() {
                return Err("there is nothing to remove".to_owned());
            }
            items.remove(at);
        }
        ("replace", Value::Object(members)) => {
            *members.get_mut(&last).ok_or("there is nothing to replace")? =
                value.ok_or("no value")?;
        }
        ("replace", Value::Array(items)) => {
            *items.get_mut(index(&last)?).ok_or("there is nothing to replace")? =
                value.ok_or("no value")?;
        }
        ("test", target) => {
            let found = match target {
                Value::Object(members) => members.get(&last),
                Value::Array(items) => items.get(index(&last)?),
                _ => None,
            };
            if found != value.as_ref() {
                return Err("it is not as it was".to_owned());
            }
        }
        (op, _) => return Err(format!("{op:?} cannot be done there")),
    }
    Ok(())
}

/// Digits only, without zeros in front.
fn index(text: &str) -> Result<usize, String> {
    let is_plain =
        text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let index = text.parse().ok().filter(|_| is_plain);
    index.ok_or_else(|| format!("{text:?} is no place in a list"))
}
