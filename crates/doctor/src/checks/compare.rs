//! What differs between what divvy brings and what stands in the cluster.

use crate::fix::{Fix, fix};
use crate::observed::Observed;
use serde_json::Value;

/// Where divvy's manifests put it.
const NAMESPACE: &str = "divvy-system";
/// How they know NVIDIA's runtime.
const NVIDIAS: &str = "object.spec.?runtimeClassName.orValue('').startsWith('nvidia')";
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

/// What an installation has otherwise than `deploy/`.
pub(super) struct Expected {
    namespace: String,
    /// The RuntimeClass of shares.
    runtime: String,
}

impl Expected {
    pub(super) fn seen(cluster: &Observed) -> Self {
        Self { namespace: cluster.own_namespace(), runtime: cluster.runtime_class().to_owned() }
    }

    /// Whether policies know the RuntimeClass by its name alone.
    fn is_named(&self) -> bool {
        !self.runtime.is_empty() && !self.runtime.starts_with("nvidia")
    }

    /// A text of `deploy/` as it is here.
    fn text(&self, ours: &str) -> String {
        let text = ours.trim_end().replace(NAMESPACE, &self.namespace);
        match self.is_named() {
            true => {
                let name = &self.runtime;
                let or =
                    format!("{NVIDIAS} || object.spec.?runtimeClassName.orValue('') == '{name}'");
                text.replace(NVIDIAS, &or)
            }
            false => text,
        }
    }

    /// What brings a file of `deploy/` back.
    pub(super) fn apply(&self, file: &str) -> Fix {
        let (namespace, runtime) = (&self.namespace, &self.runtime);
        match namespace == NAMESPACE && !self.is_named() {
            true => fix!("kubectl apply -f deploy/{file}", file),
            false => fix!(
                "helm upgrade divvy charts/divvy -n {namespace} --reuse-values --set runtimeClass.name={runtime}",
                namespace,
                runtime
            ),
        }
    }
}

/// The fields that differ, by their path; none if the one is the other, but for what the API server
/// fills in and what is otherwise in this installation.
pub(super) fn differences(ours: &Value, theirs: &Value, here: &Expected) -> Vec<String> {
    let mut found = Vec::new();
    differ(ours, theirs, here, "", &mut found);
    found.truncate(MOST);
    found
}

fn differ(ours: &Value, theirs: &Value, here: &Expected, at: &str, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in ours {
                let at = format!("{at}.{key}");
                match theirs.get(key) {
                    Some(other) => differ(value, other, here, &at, found),
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
                differ(one, other, here, &format!("{at}[{nth}]"), found);
            }
        }
        (Value::String(one), Value::String(other)) => {
            if here.text(one) != other.trim_end() {
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
        let of = |namespace: &str| Expected { namespace: namespace.into(), runtime: String::new() };
        let usual = of(NAMESPACE);
        assert_eq!(differences(&ours, &stored, &usual), [""; 0]);
        let mut moved = stored.clone();
        moved["expression"] = json!("a in ['gpus']");
        assert_eq!(differences(&ours, &moved, &of("gpus")), [""; 0]);
        assert_eq!(differences(&ours, &moved, &usual), ["expression is another"]);
        let mut less = stored.clone();
        less["namespaceSelector"] = json!({"matchLabels": {"a": "b"}});
        less["rules"] = json!([]);
        assert_eq!(
            differences(&ours, &less, &usual),
            ["rules is another", "namespaceSelector is more than divvy has"]
        );
        assert_eq!(
            differences(&ours, &json!({"rules": ours["rules"]}), &usual),
            ["expression is missing"]
        );
    }

    #[test]
    fn a_runtime_class_of_another_name_has_to_be_in_the_expressions() {
        let ours = json!({"expression": format!("size(asking) > 0 || {NVIDIAS}")});
        let theirs = json!({"expression": format!(
            "size(asking) > 0 || {NVIDIAS} || object.spec.?runtimeClassName.orValue('') == 'gpu'"
        )});
        let of = |runtime: &str| Expected { namespace: NAMESPACE.into(), runtime: runtime.into() };
        assert_eq!(differences(&ours, &theirs, &of("gpu")), [""; 0]);
        assert_eq!(differences(&ours, &ours, &of("gpu")), ["expression is another"]);
        for usual in ["", "nvidia", "nvidia-legacy"] {
            assert_eq!(differences(&ours, &ours, &of(usual)), [""; 0]);
        }
    }
}
