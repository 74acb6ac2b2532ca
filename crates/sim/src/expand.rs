//! The pods that controllers would make.

use divvy_engine::{
    Effect, ObjectKey, PodRecord, Requirement, Scheduler, Term, Test as Condition, Toleration,
};
use divvy_words::isolation::Isolation;
use divvy_words::manifest::{Template, WorkloadManifest};
use divvy_words::{Content, Metadata, Object, PodGroups, PodManifest, Priorities, TemplatePods};
use std::sync::Arc;

/// More pods of one controller than this are refused: it is a slip of the keyboard.
pub const MAX_REPLICAS: u32 = 1_000_000;

/// The pods that one object stands for.
pub(crate) enum MadePods {
    /// One record many times, under these names.
    Copies(Box<PodRecord>, CopyNames),
    /// Records of their own.
    Each(Vec<PodRecord>),
}

/// The names of the copies.
pub(crate) enum CopyNames {
    /// The record's own.
    Own,
    /// The record's own and a number, `count` of them from `start` on, with leading zeros or not.
    Numbered { start: u32, count: u32, padded: bool },
}

/// What the pods are made with.
pub(crate) struct Expansion<'a> {
    pub(crate) priorities: &'a Priorities,
    pub(crate) groups: &'a PodGroups,
    /// Instead of what the manifests say.
    pub(crate) replicas: Option<u32>,
    /// For DaemonSets: the nodes there are.
    pub(crate) cluster: &'a Scheduler,
    /// Who enforces which level, if levels are told apart.
    pub(crate) isolation: Option<&'a Isolation>,
}

impl Expansion<'_> {
    /// The pods of an object, `None` if its kind makes none.
    pub(crate) fn pods(&self, object: &Object) -> Option<MadePods> {
        match &object.content {
            Content::Pod(spec, _) => {
                let record = self.record(&object.metadata, spec, None);
                let names = match self.replicas {
                    Some(count) => CopyNames::Numbered { start: 0, count, padded: true },
                    None => CopyNames::Own,
                };
                Some(MadePods::Copies(Box::new(record), names))
            }
            Content::Workload(workload) => Some(self.of_workload(object, workload)),
            Content::Node(_)
            | Content::PriorityClass { .. }
            | Content::Namespace
            | Content::Storage(..)
            | Content::PodGroup(_)
            | Content::ConfigMap(_)
            | Content::ClusterPolicy(_)
            | Content::List(_)
            | Content::Foreign(_)
            | Content::Other => None,
        }
    }

    /// The pods of a part of an object that a rule has found.
    pub(crate) fn found(&self, object: &Object, found: &TemplatePods) -> MadePods {
        let mut record = self.template(object, &found.template);
        if !found.name.is_empty() {
            record.key = numbered(&record.key, &found.name);
        }
        self.copies(record, "pods", found.count, 0, true)
    }

    fn of_workload(&self, object: &Object, workload: &WorkloadManifest) -> MadePods {
        let record = self.template(object, &workload.template);
        if &*object.kind == "DaemonSet" {
            let host_network = workload.template.spec.host_network;
            return MadePods::Each(self.one_per_node(&record, host_network));
        }
        let (field, count) = match &*object.kind {
            "Job" if workload.suspend => ("suspend", 0),
            "Job" => {
                let at_once = workload.parallelism.unwrap_or(1);
                ("parallelism", workload.completions.map_or(at_once, |all| all.min(at_once)))
            }
            _ => ("replicas", workload.replicas.unwrap_or(1)),
        };
        // Only a StatefulSet numbers its pods; the others' names are random, so leading zeros keep
        // them in order.
        let padded = &*object.kind != "StatefulSet";
        let start = workload.ordinals.start.filter(|_| !padded).unwrap_or(0);
        self.copies(record, field, count.into(), u32::try_from(start).unwrap_or(0), padded)
    }

    /// So many pods of one record, unless that is more than there can be.
    fn copies(
        &self,
        record: PodRecord,
        field: &str,
        count: i64,
        start: u32,
        padded: bool,
    ) -> MadePods {
        let asked = self.replicas.map_or(count, i64::from);
        match u32::try_from(asked).ok().filter(|n| *n <= MAX_REPLICAS) {
            Some(count) => {
                MadePods::Copies(Box::new(record), CopyNames::Numbered { start, count, padded })
            }
            None => {
                let why = format!("spec.{field}: {asked} given, allowed are 0 to {MAX_REPLICAS}");
                MadePods::Each(vec![PodRecord { invalid: Some(why), ..record }])
            }
        }
    }

    /// A pod of the controller, under the controller's name.
    fn template(&self, object: &Object, template: &Template) -> PodRecord {
        let mut metadata = template.metadata.clone();
        metadata.name = object.metadata.name.clone();
        metadata.namespace = object.metadata.namespace.clone();
        metadata.creation_timestamp = object.metadata.creation_timestamp.clone();
        self.record(&metadata, &template.spec, Some(&object.metadata))
    }

    fn record(
        &self,
        metadata: &Metadata,
        spec: &PodManifest,
        owner: Option<&Metadata>,
    ) -> PodRecord {
        let mut record = divvy_words::pod(metadata, spec, None, owner, self.priorities);
        self.groups.refuse(metadata, spec, &mut record);
        if let Some(isolation) = self.isolation {
            isolation.enter_pod(metadata, &mut record);
        }
        if record.invalid.is_none() && spec.containers.is_empty() {
            let field = if owner.is_some() { "spec.template.spec" } else { "spec" };
            record.invalid =
                Some(format!("{field}.containers: none given, at least one is needed"));
        }
        record
    }

    /// As the DaemonSet controller does: a pod for each node whose taints it tolerates and whose
    /// labels match, tied to that node by name.
    fn one_per_node(&self, record: &PodRecord, host_network: bool) -> Vec<PodRecord> {
        let mut record = record.clone();
        Arc::make_mut(&mut record.spec.rules).tolerations.extend(daemon_tolerations(host_network));
        if record.invalid.is_some() {
            return vec![record];
        }
        let mut plain = record.clone();
        Arc::make_mut(&mut plain.spec.rules).required = None;
        let mut pods = Vec::new();
        for (name, id) in self.cluster.nodes() {
            let facts = self.cluster.facts(id);
            if facts.is_none_or(|f| record.spec.rules.judge(name, f).is_err()) {
                continue;
            }
            let mut pod = PodRecord { key: numbered(&record.key, name), ..plain.clone() };
            let here = Requirement {
                key: "metadata.name".into(),
                test: Condition::In(vec![(**name).into()].into()),
            };
            // The rest of the affinity has been asked already.
            let rules = Arc::make_mut(&mut pod.spec.rules);
            rules.required = Some(vec![Term { labels: Vec::new(), fields: vec![here] }]);
            pods.push(pod);
        }
        pods
    }
}

/// What the DaemonSet controller adds to every pod.
fn daemon_tolerations(host_network: bool) -> impl Iterator<Item = Toleration> {
    let own_network = host_network.then_some(("network-unavailable", Effect::NoSchedule));
    let tolerated = [
        ("not-ready", Effect::NoExecute),
        ("unreachable", Effect::NoExecute),
        ("disk-pressure", Effect::NoSchedule),
        ("memory-pressure", Effect::NoSchedule),
        ("pid-pressure", Effect::NoSchedule),
        ("unschedulable", Effect::NoSchedule),
    ];
    tolerated.into_iter().chain(own_network).map(|(condition, effect)| Toleration {
        key: Some(format!("node.kubernetes.io/{condition}").into()),
        value: None,
        effect: Some(effect),
    })
}

impl MadePods {
    /// What one more of them would be, if there may be more: there are no two of a DaemonSet on a node.
    pub(crate) fn template(&self) -> Option<PodRecord> {
        match self {
            Self::Copies(record, _) => Some((**record).clone()),
            // One that cannot be read, or of which too many are asked.
            Self::Each(pods) => pods.first().filter(|pod| pod.invalid.is_some()).cloned(),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Copies(_, CopyNames::Own) => 1,
            Self::Copies(_, CopyNames::Numbered { count, .. }) => *count as usize,
            Self::Each(pods) => pods.len(),
        }
    }

    /// Whether their names are made here, and may be made otherwise.
    pub(crate) fn are_named_here(&self) -> bool {
        match self {
            Self::Copies(record, CopyNames::Own) => record.key.name().ends_with('-'),
            Self::Copies(_, CopyNames::Numbered { .. }) | Self::Each(_) => true,
        }
    }

    /// The records, one after another.
    pub(crate) fn into_records(self) -> Box<dyn Iterator<Item = PodRecord>> {
        match self {
            Self::Copies(record, CopyNames::Own) => Box::new(std::iter::once(*record)),
            Self::Copies(record, CopyNames::Numbered { start, count, padded }) => {
                let digits = if padded { count.saturating_sub(1).to_string().len() } else { 1 };
                Box::new((start..start.saturating_add(count)).map(move |i| PodRecord {
                    key: numbered(&record.key, &format!("{i:0digits$}")),
                    ..(*record).clone()
                }))
            }
            Self::Each(pods) => Box::new(pods.into_iter()),
        }
    }
}

fn numbered(key: &ObjectKey, suffix: &str) -> ObjectKey {
    ObjectKey::new(key.namespace(), &format!("{}-{suffix}", key.name()))
}
