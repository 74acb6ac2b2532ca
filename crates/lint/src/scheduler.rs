//! Who places pods, and where that stands.

use crate::edit::{Edit, New, SourceText};
use crate::tree::TreeNode;
use divvy_words::mistakes::is_others_scheduler;

/// Where a scheduler is named, or may be.
#[derive(Clone)]
pub(crate) struct SchedulerPlace<'a> {
    map: &'a TreeNode,
    key: String,
    /// With what stands before it.
    pub(crate) field: String,
    /// The project whose scheduler it is if nobody is named.
    project: Option<String>,
}

/// Who places pods that name nobody.
const DEFAULT: &str = "default-scheduler";

impl<'a> SchedulerPlace<'a> {
    /// In the spec of a pod.
    pub(crate) fn of_pod(spec: &'a TreeNode, path: &str) -> Self {
        let key = "schedulerName".to_owned();
        Self { map: spec, field: format!("{path}spec.{key}"), key, project: None }
    }

    /// In a field of what makes pods, for those that name nobody.
    pub(crate) fn of_kind(object: &'a TreeNode, field: &str, group: &str) -> Option<Self> {
        let (before, key) = field.rsplit_once('.').unwrap_or(("", field));
        let map = object.at_field(before).filter(|map| map.as_map().is_some())?;
        let project = Some(group.to_owned());
        Some(Self { map, key: key.to_owned(), field: field.to_owned(), project })
    }

    /// The name, where it stands.
    pub(crate) fn node(&self) -> Option<&'a TreeNode> {
        self.map.get(&self.key)
    }

    pub(crate) fn name(&self) -> Option<&'a str> {
        self.node().and_then(TreeNode::text).filter(|name| !name.is_empty())
    }

    /// Whether it is known that who places the pods knows nothing of shares.
    pub(crate) fn is_others(&self) -> bool {
        match self.name() {
            Some(name) => name == DEFAULT || is_others_scheduler(name),
            None => self.node().is_some() || !self.map.is_open(),
        }
    }

    /// Whether the pods are left to the scheduler of Kubernetes.
    pub(crate) fn is_default(&self) -> bool {
        self.name().map_or(self.project.is_none(), |name| name == DEFAULT)
    }

    /// Who places the pods, behind the word scheduler.
    pub(crate) fn who(&self) -> String {
        match (self.name(), &self.project) {
            (None, Some(project)) => format!("of {project}"),
            (name, _) => name.unwrap_or(DEFAULT).to_owned(),
        }
    }

    /// Names another.
    pub(crate) fn write(&self, source: &SourceText<'_>, name: &str) -> Option<Edit> {
        match self.node() {
            Some(node) if node.at.is_empty() => source.fill(self.map, &self.key, name),
            Some(node) => source.replace(node, name),
            None => source.insert_first(self.map, &[(&self.key, New::Plain(name))]),
        }
    }
}
