//! Where the pod templates and their counts stand in objects of other projects: a table of rules, which
//! users can extend.

use crate::documents::untyped;
use crate::manifest::Template;
use crate::problem::short;
use serde::Deserialize;
use serde_json::Value;

/// The rules that come with divvy.
const BUILT_IN: &str = include_str!("../pods-of.yaml");
/// What a rule looks like, for whoever wrote one that cannot be read.
const EXAMPLE: &str =
    "- {kind: Lab, group: example.com, pods: [{template: spec.template, count: spec.replicas}]}";
/// More pods of one part than this are refused elsewhere.
const MOST: i64 = i32::MAX as i64;

/// Rules for the kinds that divvy does not know by itself.
#[derive(Clone, Debug, Default)]
pub struct PodRules(Vec<PodRule>);

/// Where the pods of one kind are described.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PodRule {
    /// As in manifests.
    kind: String,
    /// The API group, in any version; empty for the core group.
    #[serde(default)]
    group: String,
    /// A field: while it is true, no pods are made.
    #[serde(default)]
    suspend: Option<String>,
    /// A field: who places the pods whose template names nobody.
    #[serde(default)]
    scheduler: Option<String>,
    /// The parts of such an object that make pods.
    pods: Vec<PodPart>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PodPart {
    /// A list or map, each item of which makes pods; the other paths begin in it then.
    #[serde(default)]
    each: Option<String>,
    /// What is put behind the object's name; of items without it their name, key or number.
    #[serde(default)]
    name: Option<String>,
    /// The pod template: the first of these that is there.
    template: OneOrMore<String>,
    /// How many pods: the product of these. Paths begin at the object if they begin with a slash.
    #[serde(default)]
    count: OneOrMore<Count>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "template and count are the name of a field or a list of such")]
enum OneOrMore<T> {
    More(Vec<T>),
    One(T),
}

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self::More(Vec::new())
    }
}

impl<T> OneOrMore<T> {
    fn as_slice(&self) -> &[T] {
        match self {
            Self::More(all) => all,
            Self::One(one) => std::slice::from_ref(one),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "count is a field, or field, default, less, atMost and atLeast")]
enum Count {
    /// A field; 1 if it is absent.
    Field(String),
    Detailed(DetailedCount),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DetailedCount {
    field: String,
    /// If it is absent.
    #[serde(default)]
    default: Option<i64>,
    /// So many of them are no pods of this part.
    #[serde(default)]
    less: i64,
    /// Another field: no more than it says.
    #[serde(default)]
    at_most: Option<String>,
    /// Another field: no fewer than it says.
    #[serde(default)]
    at_least: Option<String>,
}

/// Pods of an object.
#[derive(Clone, Debug)]
pub struct TemplatePods {
    /// What is put behind the object's name.
    pub name: String,
    /// What they are like.
    pub template: Template,
    /// How many there are.
    pub count: i64,
}

impl PodRules {
    /// Those that come with divvy.
    pub fn built_in() -> Result<Self, String> {
        Self::read(BUILT_IN).map_err(|why| format!("the rules of divvy: {why}"))
    }

    /// Reads a file of rules.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for document in untyped(text)? {
            let Value::Array(items) = document else {
                return Err(format!("a list of rules is expected, such as {EXAMPLE}"));
            };
            for (at, item) in items.into_iter().enumerate() {
                rules.push(rule(&item).map_err(|why| {
                    let kind = item.get("kind").and_then(Value::as_str);
                    let kind = kind.map_or_else(String::new, |kind| format!(" ({})", short(kind)));
                    format!("rule {}{kind}: {why}; a rule is such as {EXAMPLE}", at + 1)
                })?);
            }
        }
        Ok(Self(rules))
    }

    /// These rules win over the ones before.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.0.splice(0..0, other.0);
        self
    }

    /// Whether there is a rule for this kind.
    pub fn knows(&self, kind: &str, api_version: &str) -> bool {
        self.rule(kind, api_version).is_some()
    }

    /// Where the templates of such an object stand: paths of which the first counts that is there, and the
    /// list or map in whose items they begin, if they do.
    pub fn templates(
        &self,
        kind: &str,
        api_version: &str,
    ) -> impl Iterator<Item = (Option<&str>, &[String])> {
        let parts = self.rule(kind, api_version).map_or(&[][..], |rule| rule.pods.as_slice());
        parts.iter().map(|part| (part.each.as_deref(), part.template.as_slice()))
    }

    /// The field that names the scheduler of the pods whose template names none, if there is one.
    pub fn scheduler(&self, kind: &str, api_version: &str) -> Option<&str> {
        self.rule(kind, api_version)?.scheduler.as_deref()
    }

    /// Whether an object of which only `spec` is known makes no pods for now.
    pub fn is_suspended(&self, kind: &str, api_version: &str, spec: &Value) -> bool {
        let field = self.rule(kind, api_version).and_then(|rule| rule.suspend.as_deref());
        let object = serde_json::json!({ "spec": spec });
        let value = field.and_then(|field| at(&object, &object, field));
        value.and_then(Value::as_bool).unwrap_or_default()
    }

    fn rule(&self, kind: &str, api_version: &str) -> Option<&PodRule> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        self.0.iter().find(|rule| rule.kind == kind && rule.group == group)
    }

    /// The pods of an object of which only `spec` is known; `None` without a rule. What cannot be read
    /// is a reason.
    pub fn pods(
        &self,
        kind: &str,
        api_version: &str,
        spec: &Value,
    ) -> Option<Result<Vec<TemplatePods>, String>> {
        let rule = self.rule(kind, api_version)?;
        let object = serde_json::json!({ "spec": spec });
        let found = rule.pods.iter().map(|part| part.find(&object));
        let found: Result<Vec<Vec<TemplatePods>>, String> = found.collect();
        let is_suspended = self.is_suspended(kind, api_version, spec);
        Some(found.map(|found| {
            let mut found: Vec<TemplatePods> = found.into_iter().flatten().collect();
            found.iter_mut().filter(|_| is_suspended).for_each(|pods| pods.count = 0);
            found
        }))
    }
}

/// Reads one rule, part by part: then it is known where something is wrong.
fn rule(item: &Value) -> Result<PodRule, String> {
    let parts = item.get("pods").and_then(Value::as_array);
    for (at, part) in parts.into_iter().flatten().enumerate() {
        PodPart::deserialize(part).map_err(|why| format!("pods[{at}]: {why}"))?;
    }
    PodRule::deserialize(item).map_err(|why| why.to_string())
}

impl PodPart {
    fn find(&self, object: &Value) -> Result<Vec<TemplatePods>, String> {
        let Some(each) = &self.each else {
            let name = self.name.clone().unwrap_or_default();
            return Ok(self.of(object, object, name)?.into_iter().collect());
        };
        let items: Vec<(String, &Value)> = match at(object, object, each) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => items.iter().enumerate().map(named).collect(),
            Some(Value::Object(items)) => {
                items.iter().map(|(k, v)| (k.to_lowercase(), v)).collect()
            }
            Some(_) => return Err(format!("{each}: expected a list or a map")),
        };
        let found = items.into_iter().map(|(name, item)| self.of(object, item, name));
        Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    fn of(
        &self,
        object: &Value,
        item: &Value,
        name: String,
    ) -> Result<Option<TemplatePods>, String> {
        let mut templates = self.template.as_slice().iter();
        let template = templates.find_map(|path| Some((path, at(object, item, path)?)));
        let Some((path, template)) = template.filter(|(_, value)| !value.is_null()) else {
            return Ok(None);
        };
        let template: Template =
            serde_json::from_value(template.clone()).map_err(|why| format!("{path}: {why}"))?;
        let mut count = 1i64;
        for factor in self.count.as_slice() {
            count = count.saturating_mul(factor.of(object, item)?).clamp(-MOST, MOST);
        }
        Ok(Some(TemplatePods { name, template, count }))
    }
}

/// An item of a list: by its name, which Ray calls otherwise, or its number.
fn named((at, item): (usize, &Value)) -> (String, &Value) {
    let name = ["name", "groupName"].iter().find_map(|key| item.get(key)?.as_str());
    (name.map_or_else(|| at.to_string(), str::to_owned), item)
}

impl Count {
    fn of(&self, object: &Value, item: &Value) -> Result<i64, String> {
        let number = |path: &str| match at(object, item, path) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_i64()
                .map(Some)
                .ok_or_else(|| format!("{path}: {value} is given, expected an integer")),
        };
        match self {
            Self::Field(path) => Ok(number(path)?.unwrap_or(1)),
            Self::Detailed(count) => {
                let given = number(&count.field)?;
                let most = count.at_most.as_deref().map(number).transpose()?.flatten();
                let least = count.at_least.as_deref().map(number).transpose()?.flatten();
                let all = given.unwrap_or(count.default.unwrap_or(1));
                let all = most.map_or(all, |most| all.min(most));
                let all = least.map_or(all, |least| all.max(least));
                Ok(all.saturating_sub(count.less).max(0))
            }
        }
    }
}

/// The value at `a.b.c`, of the object if the path begins with a slash.
fn at<'v>(object: &'v Value, item: &'v Value, path: &str) -> Option<&'v Value> {
    let (start, path) = match path.strip_prefix('/') {
        Some(path) => (object, path),
        None => (item, path),
    };
    path.split('.').filter(|part| !part.is_empty()).try_fold(start, |value, part| value.get(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name x count` of the pods of an object.
    fn pods(rules: &PodRules, text: &str) -> Vec<String> {
        let object: Value = serde_saphyr::from_str(text).unwrap();
        let text = |key: &str| object[key].as_str().unwrap();
        let found = rules.pods(text("kind"), text("apiVersion"), &object["spec"]).unwrap().unwrap();
        found.iter().map(|pods| format!("{} x {}", pods.name, pods.count)).collect()
    }

    const POD: &str = "{spec: {containers: [{name: c}]}}";

    #[test]
    fn the_rules_of_divvy_know_the_kinds_of_other_projects() {
        let rules = PodRules::built_in().unwrap();
        for (kind, group, spec, expected) in [
            (
                "CronJob",
                "batch/v1",
                format!(
                    "{{jobTemplate: {{spec: {{parallelism: 4, completions: 3, template: {POD}}}}}}}"
                ),
                &[" x 3"][..],
            ),
            (
                "JobSet",
                "jobset.x-k8s.io/v1alpha2",
                format!(
                    "{{replicatedJobs: [{{name: driver, template: {{spec: {{template: {POD}}}}}}}, {{name: workers, \
                     replicas: 2, template: {{spec: {{parallelism: 4, template: {POD}}}}}}}]}}"
                ),
                &["driver x 1", "workers x 8"],
            ),
            (
                "Job",
                "batch.volcano.sh/v1alpha1",
                format!(
                    "{{tasks: [{{name: ps, replicas: 1, template: {POD}}}, {{replicas: 2, template: {POD}}}, \
                     {{name: none, template: {POD}}}]}}"
                ),
                &["ps x 1", "1 x 2", "none x 0"],
            ),
            (
                "LeaderWorkerSet",
                "leaderworkerset.x-k8s.io/v1",
                format!(
                    "{{replicas: 2, leaderWorkerTemplate: {{size: 4, workerTemplate: {POD}}}}}"
                ),
                &["leader x 2", "worker x 6"],
            ),
            (
                "RayCluster",
                "ray.io/v1",
                format!(
                    "{{headGroupSpec: {{template: {POD}}}, workerGroupSpecs: [{{groupName: gpu, replicas: 3, \
                     numOfHosts: 2, template: {POD}}}, {{groupName: idle, template: {POD}}}, \
                     {{groupName: kept, minReplicas: 2, template: {POD}}}]}}"
                ),
                &["head x 1", "gpu x 6", "idle x 0", "kept x 2"],
            ),
            (
                "RayJob",
                "ray.io/v1",
                format!("{{rayClusterSpec: {{headGroupSpec: {{template: {POD}}}}}}}"),
                &["head x 1"],
            ),
            (
                "PyTorchJob",
                "kubeflow.org/v1",
                format!(
                    "{{pytorchReplicaSpecs: {{Master: {{template: {POD}}}, Worker: {{replicas: 7, template: {POD}}}}}}}"
                ),
                &["master x 1", "worker x 7"],
            ),
            (
                "MPIJob",
                "kubeflow.org/v2beta1",
                format!(
                    "{{mpiReplicaSpecs: {{Launcher: {{template: {POD}}}, Worker: {{replicas: 2, template: {POD}}}}}}}"
                ),
                &["launcher x 1", "worker x 2"],
            ),
        ] {
            let text = format!("{{kind: {kind}, apiVersion: {group}, spec: {spec}}}");
            assert_eq!(pods(&rules, &text), expected, "{kind}");
        }
        assert!(
            rules.pods("JobSet", "example.com/v1", &Value::Null).is_none(),
            "another project's"
        );
    }

    #[test]
    fn what_is_suspended_makes_no_pods() {
        let rules = PodRules::built_in().unwrap();
        for (kind, group, spec) in [
            (
                "CronJob",
                "batch/v1",
                format!("suspend: true, jobTemplate: {{spec: {{template: {POD}}}}}"),
            ),
            (
                "JobSet",
                "jobset.x-k8s.io/v1alpha2",
                format!(
                    "suspend: true, replicatedJobs: [{{name: a, template: {{spec: {{template: {POD}}}}}}}]"
                ),
            ),
            (
                "PyTorchJob",
                "kubeflow.org/v1",
                format!(
                    "runPolicy: {{suspend: true}}, pytorchReplicaSpecs: {{Worker: {{template: {POD}}}}}"
                ),
            ),
        ] {
            let text =
                |spec: &str| format!("{{kind: {kind}, apiVersion: {group}, spec: {{{spec}}}}}");
            assert!(pods(&rules, &text(&spec))[0].ends_with(" x 0"), "{kind}");
            let resumed = spec.replace("true", "false");
            assert!(pods(&rules, &text(&resumed))[0].ends_with(" x 1"), "{kind}");
        }
    }

    #[test]
    fn a_users_rule_wins_over_that_of_divvy() {
        let own = "- {kind: JobSet, group: jobset.x-k8s.io, pods: [{template: spec.pod, count: /spec.n}]}\n";
        let rules = PodRules::built_in().unwrap().with(PodRules::read(own).unwrap());
        let text =
            format!("{{kind: JobSet, apiVersion: jobset.x-k8s.io/v1, spec: {{n: 5, pod: {POD}}}}}");
        assert_eq!(pods(&rules, &text), [" x 5"]);
    }

    #[test]
    fn what_a_rule_cannot_read_is_told_by_its_field() {
        let rules = PodRules::built_in().unwrap();
        let told = |spec: &str| {
            let spec: Value = serde_saphyr::from_str(spec).unwrap();
            rules.pods("JobSet", "jobset.x-k8s.io/v1alpha2", &spec).unwrap().unwrap_err()
        };
        assert_eq!(told("{replicatedJobs: 3}"), "spec.replicatedJobs: expected a list or a map");
        let lots = format!(
            "{{replicatedJobs: [{{replicas: lots, template: {{spec: {{template: {POD}}}}}}}]}}"
        );
        assert_eq!(told(&lots), "replicas: \"lots\" is given, expected an integer");
        let why = PodRules::read("- {kind: X, pods: [{templates: a}]}").unwrap_err();
        assert!(why.contains("templates"), "{why}");
    }
}
