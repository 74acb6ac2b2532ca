//! What differs between what divvy brings and what stands in the cluster.

use crate::fix::{Fix, fix};
use crate::observed::{Observed, Release};
use divvy_words::reservation::NAMESPACE as RESERVATIONS;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Of this binary, and of the manifests that it knows.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
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

/// The names of divvy's schedulers, as the expressions of `deploy/` have them.
const NAMES: &str = "'divvy-scheduler', 'kai-scheduler', 'koord-scheduler'";
/// A namespace whose pods may see all cards, if the values name no other.
const OPERATOR: &str = "gpu-operator";
/// Files with workloads, whose image and gates are values too.
const WORKLOADS: [&str; 3] = ["scheduler.yaml", "admission.yaml", "provider.yaml"];

/// What an installation has otherwise than `deploy/`, as its values may say.
pub(super) struct Expected {
    namespace: String,
    /// The RuntimeClass of shares.
    runtime: String,
    /// The names of its schedulers, as expressions have them.
    names: String,
    /// The namespaces whose pods may see all cards; none if nothing says so.
    gpu_system: Vec<String>,
    /// Whether pods may name their devices themselves.
    may_name_devices: bool,
    /// The image of its scheduler, or of its webhooks.
    image: String,
    /// Its feature gates, as an option has them.
    gates: String,
    /// Whether it puts an isolation provider on nodes.
    has_provider: bool,
    /// The release of Helm that it is of.
    release: Option<Release>,
}

impl Expected {
    pub(super) fn seen(cluster: &Observed) -> Self {
        let names: Vec<String> =
            cluster.scheduler_names().iter().map(|name| format!("'{name}'")).collect();
        let works = || cluster.schedulers().chain(cluster.admissions());
        Self {
            namespace: cluster.own_namespace(),
            runtime: cluster.runtime_class().to_owned(),
            names: names.join(", "),
            gpu_system: cluster.exempt().map(str::to_owned).collect(),
            may_name_devices: cluster
                .admissions()
                .any(|one| one.option("block-nvidia-visible-devices") == Some("false")),
            image: works().next().map_or_else(usual_image, |one| one.image().to_owned()),
            gates: works().find_map(|one| one.option("feature-gates")).unwrap_or("").to_owned(),
            has_provider: cluster.providers().next().is_some(),
            release: cluster.release(),
        }
    }

    /// The values of the chart that its objects tell of, where they are others than usual: those of all
    /// files, and those of the workloads.
    fn values(&self) -> [Vec<(&'static str, Value)>; 2] {
        let (mut of_all, mut of_workloads) = (Vec::new(), Vec::new());
        if self.names != NAMES {
            let names = self.names.split(", ").map(|name| name.trim_matches('\''));
            of_all.push(("schedulerNames", names.collect()));
        }
        if !self.runtime.is_empty() && self.runtime != "nvidia" {
            of_all.push(("runtimeClass.name", json!(self.runtime)));
        }
        let always = ["kube-system", &self.namespace, RESERVATIONS];
        let more = self.gpu_system.iter().filter(|place| !always.contains(&&***place));
        let more: Vec<&str> = more.map(String::as_str).collect();
        if !self.gpu_system.is_empty() && more != [OPERATOR] {
            of_all.push(("gpuSystemNamespaces", json!(more)));
        }
        if self.may_name_devices {
            of_all.push(("policies.visibleDevices", json!(false)));
        }
        if self.image != usual_image() {
            let (rest, digest) = self.image.split_once('@').unwrap_or((&self.image, ""));
            let tagged = rest.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
            let (repository, tag) = tagged.unwrap_or((rest, ""));
            let image = json!({"repository": repository, "tag": tag, "digest": digest});
            of_workloads.push(("image", image));
        }
        let gates: serde_json::Map<String, Value> = self
            .gates
            .split(',')
            .filter_map(|gate| gate.split_once('='))
            .map(|(name, is_on)| (name.to_owned(), json!(is_on == "true")))
            .collect();
        if !gates.is_empty() {
            of_workloads.push(("featureGates", Value::Object(gates)));
        }
        [of_all, of_workloads]
    }

    /// Whether policies know the RuntimeClass by its name alone.
    fn is_named(&self) -> bool {
        !self.runtime.is_empty() && !self.runtime.starts_with("nvidia")
    }

    /// A text of `deploy/` as it is here.
    fn text(&self, ours: &str) -> String {
        let text = ours.trim_end().replace(NAMESPACE, &self.namespace).replace(NAMES, &self.names);
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

    /// Whether this is the list of namespaces whose pods may see all cards: the same wherever it stands,
    /// and with those that have to be there.
    fn is_gpu_system(&self, ours: &[Value], theirs: &[Value]) -> bool {
        if !ours.iter().any(|value| value == OPERATOR) {
            return false;
        }
        let texts = |values: &[Value]| -> BTreeSet<String> {
            values.iter().filter_map(Value::as_str).map(|text| self.text(text)).collect()
        };
        let (mut least, theirs) = (texts(ours), texts(theirs));
        least.remove(OPERATOR);
        let here: BTreeSet<String> = self.gpu_system.iter().cloned().collect();
        least.is_subset(&theirs) && theirs == here
    }

    /// Whether these files of `deploy/`, or all of them, say what this installation has.
    pub(super) fn is_as_in(&self, files: &[&'static str]) -> bool {
        let [of_all, of_workloads] = self.values();
        let has_workload = files.is_empty() || files.iter().any(|file| WORKLOADS.contains(file));
        self.release.is_none()
            && self.namespace == NAMESPACE
            && of_all.is_empty()
            && (of_workloads.is_empty() || !has_workload)
    }

    /// What brings files of `deploy/` back, all if none is named, without moving anything to another
    /// namespace.
    pub(super) fn apply(&self, files: &[&'static str]) -> Fix {
        if let Some(release) = &self.release {
            let fix = release.upgrade();
            return match self.is_named() {
                true => fix.then(&fix!(" --set runtimeClass.name={name}", name = self.runtime)),
                false => fix,
            };
        }
        if self.is_as_in(files) && !files.is_empty() {
            let apply = Fix::from("kubectl apply");
            return files.iter().fold(apply, |fix, file| fix.and(" -f deploy/").and(file));
        }
        let chart = fix!(
            "helm template divvy charts/divvy -n {namespace} --no-hooks --set gpuSharing.enabled=true",
            namespace = self.namespace
        );
        let needs_provider = files.iter().any(|file| file.ends_with("provider.yaml"));
        let provider = ("isolation.installer.enabled", json!(true));
        let provider = Some(provider).filter(|_| self.has_provider || needs_provider);
        let values = self.values().into_iter().flatten().chain(provider);
        let chart = values.fold(chart, |chart, (name, value)| {
            chart.then(&fix!(" --set-json {value}", value = format!("{name}={value}")))
        });
        let chart = files.iter().fold(chart, |chart, file| chart.and(" -s templates/").and(file));
        chart.and(
            " | kubectl apply -f -   # and -f VALUES, if it was installed with more than these",
        )
    }

    /// The same where somebody has changed fields by hand, which Helm 4 leaves alone unless it is told.
    pub(super) fn apply_over(&self, files: &[&'static str]) -> Fix {
        let fix = self.apply(files);
        match &self.release {
            Some(_) => fix.and(" --force-conflicts   # Helm 3 has no such option, and needs none"),
            None => fix,
        }
    }

    /// The same as `apply`, where something smaller does it without Helm.
    pub(super) fn apply_or(&self, otherwise: Fix) -> Fix {
        match &self.release {
            Some(_) => self.apply(&[]),
            None => otherwise,
        }
    }

    /// The same as `apply`, with a value of the chart that has to be another; without Helm `otherwise` mends it.
    pub(super) fn set(&self, value: &'static str, otherwise: Fix) -> Fix {
        match &self.release {
            Some(release) => release.upgrade().and(" --set ").and(value),
            None => otherwise,
        }
    }
}

/// That of `deploy/`.
fn usual_image() -> String {
    format!("divvy:{VERSION}")
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
        (Value::Array(ours), Value::Array(theirs)) if here.is_gpu_system(ours, theirs) => {}
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            for (nth, (one, other)) in ours.iter().zip(theirs).enumerate() {
                differ(one, other, here, &format!("{at}[{nth}]"), found);
            }
        }
        (Value::String(one), Value::String(other)) => {
            let is_table =
                behind_providers(one).is_some_and(|rest| behind_providers(other) == Some(rest));
            if here.text(one) != other.trim_end() && !is_table {
                found.push(format!("{} is another", at.trim_start_matches('.')));
            }
        }
        (one, other) if one == other => {}
        _ => found.push(format!("{} is another", at.trim_start_matches('.'))),
    }
}

/// What an expression does with its table of isolation providers, which values of the chart make.
fn behind_providers(text: &str) -> Option<&str> {
    let (table, rest) = text.split_once("[?variables.provider]")?;
    table.trim_start().starts_with('{').then(|| rest.trim_end())
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

    fn usual() -> Expected {
        Expected {
            namespace: NAMESPACE.into(),
            runtime: String::new(),
            names: NAMES.into(),
            gpu_system: ["kube-system", NAMESPACE, "kai-resource-reservation", OPERATOR]
                .map(str::to_owned)
                .into(),
            may_name_devices: false,
            image: usual_image(),
            gates: String::new(),
            has_provider: false,
            release: None,
        }
    }

    #[test]
    fn lists_that_values_change_are_no_difference_where_they_are_the_same_everywhere() {
        let ours = json!({"values": ["kube-system", NAMESPACE, OPERATOR], "text": format!("a in [{NAMES}]")});
        let theirs =
            json!({"values": ["kube-system", "gpus", "a", "b"], "text": "a in ['x', 'y']"});
        let here = Expected {
            namespace: "gpus".into(),
            names: "'x', 'y'".into(),
            gpu_system: ["kube-system", "gpus", "a", "b"].map(str::to_owned).into(),
            ..usual()
        };
        assert_eq!(differences(&ours, &theirs, &here), [""; 0]);
        assert_eq!(differences(&ours, &theirs, &usual()), ["text is another", "values is another"]);
        // Another one than elsewhere, and one without what has to be there.
        let mut wrong = theirs.clone();
        wrong["values"] = json!(["kube-system", "gpus", "a"]);
        assert_eq!(differences(&ours, &wrong, &here), ["values[2] is another"]);
        let less = Expected { gpu_system: vec!["gpus".into()], ..here };
        wrong["values"] = json!(["gpus"]);
        assert_eq!(differences(&ours, &wrong, &less), ["values is another"]);
        // A list that no value changes.
        let other = json!({"values": ["kube-system", NAMESPACE]});
        assert_eq!(differences(&other, &json!({"values": ["a"]}), &less), ["values is another"]);
    }

    #[test]
    fn the_table_of_isolation_providers_is_what_values_say() {
        let of = |table: &str, rest: &str| json!({"expression": format!("{table}[?variables.provider]{rest}")});
        let ours = of("{\"HAMi-core\": []}", ".orValue([])\n");
        assert_eq!(
            differences(&ours, &of("{\"mine\": [\"/x/\"]}", ".orValue([])"), &usual()),
            [""; 0]
        );
        for wrong in [of("{}", ".orValue([]) || true"), of("true || {}", ".orValue([])")] {
            assert_eq!(differences(&ours, &wrong, &usual()), ["expression is another"]);
        }
    }

    #[test]
    fn what_brings_a_file_back_moves_nothing_to_another_namespace() {
        let text = |here: &Expected| String::from(here.apply(&["a.yaml", "b.yaml"]));
        assert_eq!(text(&usual()), "kubectl apply -f deploy/a.yaml -f deploy/b.yaml");
        let chart = |namespace: &str| {
            format!(
                "helm template divvy charts/divvy -n {namespace} --no-hooks --set gpuSharing.enabled=true"
            )
        };
        let end = "-s templates/a.yaml -s templates/b.yaml | kubectl apply -f -   # and -f VALUES, if it was installed with more than these";
        let moved = Expected {
            namespace: "gpus".into(),
            gpu_system: ["kube-system", "gpus", "kai-resource-reservation", OPERATOR]
                .map(str::to_owned)
                .into(),
            ..usual()
        };
        assert_eq!(text(&moved), format!("{} {end}", chart("gpus")));
        let named = Expected { names: "'x', 'y'".into(), ..usual() };
        let names = r#"--set-json 'schedulerNames=["x","y"]'"#;
        assert_eq!(text(&named), format!("{} {names} {end}", chart("divvy-system")));
        // What only workloads have does not keep a policy from being brought back by its file.
        let image = Expected {
            image: "r:5/divvy:1@sha256:2".into(),
            gates: "A=true,B=false".into(),
            ..usual()
        };
        assert_eq!(text(&image), text(&usual()));
        let of_workload = String::from(image.apply(&["scheduler.yaml"]));
        for value in [
            r#"'image={"digest":"sha256:2","repository":"r:5/divvy","tag":"1"}'"#,
            r#"'featureGates={"A":true,"B":false}'"#,
        ] {
            assert!(of_workload.contains(&format!(" --set-json {value}")), "{of_workload}");
        }
        let release = || Some(Release { name: "my gpus".into(), namespace: "gpus".into() });
        let upgrade = "helm upgrade 'my gpus' charts/divvy -n gpus --reuse-values";
        assert_eq!(text(&Expected { release: release(), ..usual() }), upgrade);
        let runtime = Expected { release: release(), runtime: "gpu".into(), ..usual() };
        assert_eq!(text(&runtime), format!("{upgrade} --set runtimeClass.name=gpu"));
    }

    #[test]
    fn what_the_api_server_fills_in_is_no_difference_and_what_a_person_changes_is() {
        let ours =
            json!({"rules": [{"resources": ["pods"]}], "expression": "a in ['divvy-system']"});
        let stored = json!({
            "rules": [{"resources": ["pods"], "scope": "*"}], "expression": "a in ['divvy-system']",
            "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
        });
        let of = |namespace: &str| Expected { namespace: namespace.into(), ..usual() };
        let usual = usual();
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
        let of = |runtime: &str| Expected { runtime: runtime.into(), ..usual() };
        assert_eq!(differences(&ours, &theirs, &of("gpu")), [""; 0]);
        assert_eq!(differences(&ours, &ours, &of("gpu")), ["expression is another"]);
        for usual in ["", "nvidia", "nvidia-legacy"] {
            assert_eq!(differences(&ours, &ours, &of(usual)), [""; 0]);
        }
    }
}
