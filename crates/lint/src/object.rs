//! The objects of a text, and the pods in them.

use crate::edit::{Edit, Gone, Leave, New, SourceText, are_apart};
use crate::scheduler::SchedulerPlace;
use crate::tree::{Map, TreeNode};
use divvy_words::mistakes::{Mistake, shown};
use divvy_words::{Entry, Kind, PodRules};
use std::fmt;

/// An object, and where it stands.
pub(crate) struct WrittenObject<'a> {
    pub(crate) node: &'a TreeNode,
    pub(crate) kind: String,
    pub(crate) api_version: String,
    /// What it means, if the text was read in the same order.
    pub(crate) entry: Option<&'a Entry>,
    /// Whether it makes pods from templates.
    pub(crate) is_workload: bool,
    /// These templates, and what stands before their fields.
    templates: Vec<(&'a TreeNode, String)>,
    usual_scheduler: Option<SchedulerPlace<'a>>,
}

/// The pod, or a template of pods, in an object.
#[derive(Clone)]
pub(crate) struct WrittenPod<'a> {
    /// The map with `metadata` and `spec`.
    pub(crate) node: &'a TreeNode,
    /// What stands before these in the names of fields: nothing, or `spec.template.`.
    pub(crate) path: String,
    /// What makes the pods, and what that makes on the way, if it has metadata; with what stands before
    /// the names of its fields.
    pub(crate) owners: Vec<(&'a TreeNode, String)>,
    /// Where what makes them names their scheduler for those that name none themselves.
    usual_scheduler: Option<SchedulerPlace<'a>>,
}

/// What is wrong with an object.
#[derive(Debug)]
pub(crate) struct Found {
    /// Where in the text.
    pub(crate) at: usize,
    pub(crate) name: &'static str,
    pub(crate) field: String,
    pub(crate) what: String,
    pub(crate) next: String,
    /// How to mend it; nothing if that is for people.
    pub(crate) edits: Vec<Edit>,
}

impl Found {
    pub(crate) fn new(
        name: &'static str,
        at: &TreeNode,
        field: String,
        what: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        let (what, next) = (what.into(), next.into());
        Self { at: at.at.start, name, field, what, next, edits: Vec::new() }
    }

    pub(crate) fn of(mistake: Mistake, at: &TreeNode, field: String) -> Self {
        Self::new(mistake.name, at, field, mistake.what, mistake.next)
    }

    pub(crate) fn mended(mut self, edits: Option<Vec<Edit>>) -> Self {
        self.edits = edits.filter(|edits| are_apart(edits)).unwrap_or_default();
        self
    }
}

/// What a rule is given: the text, one of its objects, and the list of what was found.
pub(crate) struct Look<'a, 'f> {
    pub(crate) source: SourceText<'a>,
    pub(crate) object: &'a WrittenObject<'a>,
    found: &'f mut Vec<Found>,
}

/// More about one object helps nobody.
const MOST: usize = 100;

impl<'a, 'f> Look<'a, 'f> {
    pub(crate) fn new(
        source: SourceText<'a>,
        object: &'a WrittenObject<'a>,
        found: &'f mut Vec<Found>,
    ) -> Self {
        Self { source, object, found }
    }

    pub(crate) fn note(&mut self, found: Found) {
        if !self.is_full() {
            self.found.push(found);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.found.len() >= MOST
    }

    /// Whether one of these was found already.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        self.found.iter().any(|found| names.contains(&found.name))
    }
}

impl<'a> WrittenObject<'a> {
    fn new(node: &'a TreeNode, inherited: Option<(&str, &str)>, rules: &PodRules) -> Option<Self> {
        node.as_map()?;
        let text = |field: &str| node.get(field).and_then(TreeNode::text).map(str::to_owned);
        let kind = text("kind").or_else(|| inherited.map(|(kind, _)| kind.to_owned()))?;
        let of_list = || inherited.map(|(_, version)| version.to_owned());
        let api_version = text("apiVersion").or_else(of_list).unwrap_or_default();
        let mut object = Self {
            node,
            kind,
            api_version,
            entry: None,
            is_workload: false,
            templates: Vec::new(),
            usual_scheduler: None,
        };
        object.find_templates(rules);
        let field = rules.scheduler(&object.kind, &object.api_version);
        object.usual_scheduler =
            field.and_then(|field| SchedulerPlace::of_kind(node, field, object.group()));
        Some(object)
    }

    fn find_templates(&mut self, rules: &PodRules) {
        let own = self.template().map(|path| vec![path.to_owned()]);
        let own = own.iter().map(|paths| (None, &**paths));
        let parts: Vec<_> = own.chain(rules.templates(&self.kind, &self.api_version)).collect();
        let of_part = |(each, paths): &(Option<&str>, &[String])| {
            let start = self.node;
            let of_item = |(item, before): (&'a TreeNode, String)| {
                let found = paths.iter().find_map(|path| match path.strip_prefix('/') {
                    Some(path) => Some((start.at_field(path)?, format!("{path}."))),
                    None => Some((item.at_field(path)?, format!("{before}{path}."))),
                });
                found.filter(|(node, _)| node.as_map().is_some())
            };
            items(start, *each).into_iter().filter_map(of_item).collect::<Vec<_>>()
        };
        let (is_workload, templates) =
            (!parts.is_empty(), parts.iter().flat_map(of_part).collect());
        (self.is_workload, self.templates) = (is_workload, templates);
    }

    pub(crate) fn name(&self) -> Option<&'a str> {
        let metadata = self.node.get("metadata")?;
        metadata.get("name").or_else(|| metadata.get("generateName")).and_then(TreeNode::text)
    }

    pub(crate) fn namespace(&self) -> Option<&'a str> {
        self.node.find(&["metadata", "namespace"]).and_then(TreeNode::text)
    }

    /// The group of its `apiVersion`.
    pub(crate) fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The path from a workload to its pods, for kinds of Kubernetes that are in no table.
    fn template(&self) -> Option<&'static str> {
        let is_own = matches!(self.group(), "" | "apps" | "batch" | "extensions");
        match &*self.kind {
            "Deployment"
            | "StatefulSet"
            | "ReplicaSet"
            | "DaemonSet"
            | "ReplicationController"
            | "Job"
                if is_own =>
            {
                Some("spec.template")
            }
            // Its version is to be found wrong, which is in no table then.
            "CronJob" if is_own && self.group() != "batch" => {
                Some("spec.jobTemplate.spec.template")
            }
            _ => None,
        }
    }

    /// The pod that it is, or those that it makes.
    pub(crate) fn pods(&self) -> Vec<WrittenPod<'a>> {
        if self.kind == "Pod" && matches!(self.group(), "" | "apps") {
            let (node, path) = (self.node, String::new());
            return vec![WrittenPod { node, path, owners: Vec::new(), usual_scheduler: None }];
        }
        let pods = self.templates.iter();
        let of_template = |(node, path): &(&'a TreeNode, String)| WrittenPod {
            node,
            path: path.clone(),
            owners: self.owners(path),
            usual_scheduler: self.usual_scheduler.clone(),
        };
        pods.map(of_template).collect()
    }
}

impl<'a> WrittenObject<'a> {
    /// Of a template at a path.
    fn owners(&self, path: &str) -> Vec<(&'a TreeNode, String)> {
        let ends = path.match_indices('.').map(|(end, _)| end);
        let between = ends.filter_map(|end| path.get(..end)).filter(|before| {
            // That of the template itself is the pod's.
            before.len() + 1 < path.len()
        });
        let before = between.map(|before| format!("{before}."));
        let all = std::iter::once(String::new()).chain(before);
        let owner = |before: String| {
            let node = self.node.at_field(before.trim_end_matches('.'))?;
            node.get("metadata").map(|_| (node, before))
        };
        all.filter_map(owner).collect()
    }
}

/// Where templates are looked for: in the object, or in each item of a list or map of it. With what
/// stands before their fields.
fn items<'a>(object: &'a TreeNode, each: Option<&str>) -> Vec<(&'a TreeNode, String)> {
    let Some(each) = each else { return vec![(object, String::new())] };
    let Some(node) = object.at_field(each) else { return Vec::new() };
    let list = node.as_list().unwrap_or_default().iter().enumerate();
    let list = list.map(|(at, item)| (item, format!("{each}[{at}].")));
    let map = node.as_map().into_iter().flat_map(Map::named);
    list.chain(map.map(|(name, _, item)| (item, format!("{each}.{}.", shown(name))))).collect()
}

impl<'a> WrittenPod<'a> {
    pub(crate) fn metadata(&self, field: &str) -> Option<&'a TreeNode> {
        self.node.find(&["metadata", field])
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&'a TreeNode> {
        self.metadata("annotations")?.get(key)
    }

    pub(crate) fn label(&self, key: &str) -> Option<&'a TreeNode> {
        self.metadata("labels")?.get(key)
    }

    pub(crate) fn spec(&self) -> Option<&'a TreeNode> {
        self.node.get("spec")
    }

    /// Where its scheduler is named, or may be.
    pub(crate) fn scheduler(&self) -> Option<SchedulerPlace<'a>> {
        let spec = self.spec().filter(|spec| spec.as_map().is_some())?;
        let own = SchedulerPlace::of_pod(spec, &self.path);
        let usual = self.usual_scheduler.clone().filter(|_| own.name().is_none());
        Some(usual.unwrap_or(own))
    }

    /// Whether its annotations may be others than those to be seen.
    pub(crate) fn is_open(&self, field: &str) -> bool {
        let metadata = self.node.get("metadata");
        self.node.is_open()
            || metadata.is_some_and(TreeNode::is_open)
            || self.metadata(field).is_some_and(TreeNode::is_open)
    }

    /// Init containers, then the others, with the names of their fields.
    pub(crate) fn containers(&self) -> impl Iterator<Item = (String, &'a TreeNode)> + '_ {
        let spec = self.spec();
        ["initContainers", "containers"].into_iter().flat_map(move |list| {
            let items = spec.and_then(|spec| spec.get(list)).and_then(TreeNode::as_list);
            let items = items.unwrap_or_default().iter().enumerate();
            items.map(move |(at, item)| (format!("{}spec.{list}[{at}]", self.path), item))
        })
    }

    /// Sets annotations or labels, which are not there, in the place of what `gone` takes out: what was
    /// said of that goes along, if it can.
    pub(crate) fn set(
        &self,
        source: &SourceText<'_>,
        field: &str,
        entries: &[(&str, &str)],
        gone: &dyn Fn(Leave) -> Option<Gone>,
    ) -> Option<Vec<Edit>> {
        let metadata = self.node.get("metadata").filter(|metadata| !metadata.is_null());
        let has_lines = match metadata {
            Some(metadata) => source.has_lines(metadata, field),
            None => source.has_lines(self.node, "metadata"),
        };
        let Gone { edits: beside, comments } =
            gone(if has_lines { Leave::Nothing } else { Leave::Comments })?;
        let mut entries: Vec<(&str, New<'_>)> =
            entries.iter().map(|(key, value)| (*key, New::Text(value))).collect();
        if let Some((_, first)) = entries.first_mut()
            && let New::Text(text) = *first
        {
            *first = New::Moved(text, &comments);
        }
        let with = |edit: Option<Edit>| {
            let all: Vec<Edit> = beside.iter().cloned().chain([edit?]).collect();
            are_apart(&all).then_some(all)
        };
        let inner = [(field, New::Map(&entries))];
        let Some(metadata) = metadata else {
            return match self.node.get("metadata") {
                Some(_) => with(source.insert_in(self.node, "metadata", &inner)),
                None => with(source.insert_first(self.node, &[("metadata", New::Map(&inner))])),
            };
        };
        let usual = with(source.insert_in(metadata, field, &entries));
        usual.or_else(|| {
            let is_there = metadata.get(field).is_some();
            (!is_there).then(|| with(source.insert_first(metadata, &inner))).flatten()
        })
    }
}

impl fmt::Display for WrittenObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = (shown(&self.kind), shown(self.name().unwrap_or("unnamed")));
        match self.namespace() {
            Some(namespace) => write!(f, "{kind} {}/{name}", shown(namespace)),
            None => write!(f, "{kind} {name}"),
        }
    }
}

/// The objects of documents, Lists taken apart, as they are read for their meaning.
pub(crate) fn objects<'a>(
    documents: &'a [TreeNode],
    entries: &'a [Entry],
    rules: &PodRules,
) -> Vec<WrittenObject<'a>> {
    let mut all = Vec::new();
    documents.iter().for_each(|document| flatten(document, None, rules, &mut all));
    if all.len() == entries.len() {
        for (object, entry) in all.iter_mut().zip(entries) {
            object.entry = Some(entry);
        }
    }
    all
}

fn flatten<'a>(
    node: &'a TreeNode,
    inherited: Option<(&str, &str)>,
    rules: &PodRules,
    into: &mut Vec<WrittenObject<'a>>,
) {
    let Some(object) = WrittenObject::new(node, inherited, rules) else { return };
    if Kind::of(&object.kind, &object.api_version) != Some(Kind::List) {
        into.push(object);
        return;
    }
    let of_items = object.kind.strip_suffix("List").unwrap_or_default();
    let inherited = (!of_items.is_empty()).then_some((of_items, &*object.api_version));
    for item in object.node.get("items").and_then(TreeNode::as_list).unwrap_or_default() {
        flatten(item, inherited, rules, into);
    }
}
