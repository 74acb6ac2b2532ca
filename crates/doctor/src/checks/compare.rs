//! What differs between what divvy brings and what stands in the cluster.

use serde_json::Value;

/// Where divvy's manifests put it.
const NAMESPACE: &str = "divvy-system";
/// What the API server fills in itself.
const DEFAULTS: [(&str, &str); 6] = [
    ("matchPolicy", "Equivalent"),
    ("reinvocationPolicy", "Never"),
    ("scope", "*"),
    ("failurePolicy", "Fail"),
    ("timeoutSeconds", "10"),
    ("parameterNotFoundAction", "Deny"),
];
/// More differences of one object say nothing more.
const MOST: usize = 3;

/// The fields that differ, by their path; none if the one is the other, but for what the API server
/// fills in and the namespace that divvy is in.
pub(super) fn differences(ours: &Value, theirs: &Value, namespace: &str) -> Vec<String> {
    let mut found = Vec::new();
    differ(ours, theirs, namespace, "", &mut found);
    found.truncate(MOST);
    found
}

fn differ(ours: &Value, theirs: &Value, namespace: &str, at: &str, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in ours {
                let at = format!("{at}.{key}");
                match theirs.get(key) {
                    Some(other) => differ(value, other, namespace, &at, found),
                    None if is_empty(value) => {}
                    None => found.push(format!("{} is missing", at.trim_start_matches('.'))),
                }
            }
            for (key, value) in theirs.iter().filter(|(key, _)| !ours.contains_key(*key)) {
                if !is_empty(value) && !is_default(key, value) {
                    found.push(format!(
                        "{} is more than divvy has",
                        format!("{at}.{key}").trim_start_matches('.')
                    ));
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            for (nth, (one, other)) in ours.iter().zip(theirs).enumerate() {
                differ(one, other, namespace, &format!("{at}[{nth}]"), found);
            }
        }
        (Value::String(one), Value::String(other)) => {
            let one = one.trim_end();
            let other = other.trim_end();
            if one != other && one.replace(NAMESPACE, namespace) != other {
                found.push(format!("{} is another", at.trim_start_matches('.')));
            }
        }
        (one, other) if one == other => {}
        _ => found.push(format!("{} is another", at.trim_start_matches('.'))),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn is_default(key: &str, value: &Value) -> bool {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    DEFAULTS.contains(&(key, &text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_api_server_fills_in_is_no_difference_and_what_a_person_changes_is() {
        let ours =
            json!({"rules": [{"resources": ["pods"]}], "expression": "a in ['divvy-system']"});
        let stored = json!({
            "rules": [{"resources": ["pods"], "scope": "*"}], "expression": "a in ['divvy-system']",
            "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
        });
        assert_eq!(differences(&ours, &stored, NAMESPACE), [""; 0]);
        let mut moved = stored.clone();
        moved["expression"] = json!("a in ['gpus']");
        assert_eq!(differences(&ours, &moved, "gpus"), [""; 0]);
        assert_eq!(differences(&ours, &moved, NAMESPACE), ["expression is another"]);
        let mut less = stored.clone();
        less["namespaceSelector"] = json!({"matchLabels": {"a": "b"}});
        less["rules"] = json!([]);
        assert_eq!(
            differences(&ours, &less, NAMESPACE),
            ["rules is another", "namespaceSelector is more than divvy has"]
        );
        assert_eq!(
            differences(&ours, &json!({"rules": ours["rules"]}), ""),
            ["expression is missing"]
        );
    }
}
