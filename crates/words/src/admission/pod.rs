//! The parts of a pod that decisions look at.

use super::Settings;
use super::container::{ContainerFacts, asks_gpu, containers};
use super::raw::part;
use crate::keys;
use crate::manifest::lenient::{Key, length, optional, text};
use crate::manifest::{
    Container, Metadata, PodManifest, ResourceList, ReviewedAnnotations, gpu_resources,
};
use crate::mistakes::Suspects;
use crate::request::is_share;
use crate::reservation::is_group;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::fmt;

/// A share has a label for each of its cards; more of them are nobody's copy.
const MOST_STRAYS: usize = 100;

/// A pod whose metadata and spec make sense. Fields that nothing here is decided by are empty.
pub(super) struct ReviewedPod<'a> {
    pub(super) metadata: Metadata,
    pub(super) spec: PodManifest,
    /// Of init containers, then of containers.
    pub(super) parts: Vec<ContainerFacts>,
    /// Containers for debugging.
    ephemeral: (Vec<ContainerFacts>, Vec<Container>),
    /// Its runtime class; empty for that of the node.
    pub(super) runtime_class: Box<str>,
    /// Labels that only a binding may bring.
    pub(super) stray_labels: BTreeSet<Box<str>>,
    /// Keys of annotations and of labels that may be mistakes.
    pub(super) suspects: [Suspects; 2],
    /// Whether it has labels at all.
    pub(super) has_labels: bool,
    /// Its level of isolation, as the label says it.
    pub(super) level: Option<Box<str>>,
    /// Its provider of isolation, as the label says it.
    pub(super) provider: Option<Box<str>>,
    /// The whole spec.
    pub(super) text: Option<&'a RawValue>,
}

impl<'a> ReviewedPod<'a> {
    pub(super) fn read(text: Option<&'a RawValue>) -> Result<Self, String> {
        let Whole { metadata, spec: text } = part("the pod", text)?;
        let metadata: Meta = part("metadata", metadata)?;
        let spec: Spec<'_> = part("spec", text)?;
        let (mut parts, init) = containers("initContainers", spec.init_containers)?;
        let (more, main) = containers("containers", spec.containers)?;
        parts.extend(more);
        Ok(Self {
            metadata: Metadata {
                name: metadata.name,
                generate_name: metadata.generate_name,
                namespace: metadata.namespace,
                annotations: metadata.annotations.kept,
                ..Metadata::default()
            },
            spec: PodManifest {
                init_containers: init,
                containers: main,
                node_name: spec.node_name,
                scheduler_name: spec.scheduler_name,
                termination_grace_period_seconds: spec.termination_grace_period_seconds,
                overhead: spec.overhead,
                resource_claims: spec.resource_claims,
                ..PodManifest::default()
            },
            parts,
            ephemeral: containers("ephemeralContainers", spec.ephemeral_containers)?,
            runtime_class: spec.runtime_class_name,
            stray_labels: metadata.labels.strays,
            suspects: [metadata.annotations.suspects, metadata.labels.suspects],
            has_labels: metadata.labels.is_there,
            level: metadata.labels.level,
            provider: metadata.labels.provider,
            text,
        })
    }

    /// Whether divvy places it.
    pub(super) fn is_ours(&self, settings: &Settings) -> bool {
        settings.places(&self.spec.scheduler_name)
    }

    /// Whether divvy places it, and it asks for a share.
    pub(super) fn is_our_share(&self, settings: &Settings) -> bool {
        self.is_ours(settings) && is_share(&self.metadata, &self.spec)
    }

    /// Init containers, then containers.
    pub(super) fn containers(&self) -> impl Iterator<Item = (&ContainerFacts, &Container)> {
        self.parts.iter().zip(crate::request::containers(&self.spec))
    }

    /// Containers for debugging that `old` does not have; the others cannot be changed any more.
    pub(super) fn new_ephemeral(
        &self,
        old: &Self,
    ) -> impl Iterator<Item = (&ContainerFacts, &Container)> {
        let known: BTreeSet<Box<str>> = old.ephemeral.1.iter().map(|c| c.name.clone()).collect();
        let all = self.ephemeral.0.iter().zip(&self.ephemeral.1);
        all.filter(move |(_, container)| !known.contains(&container.name))
    }

    /// Whether its containers run under a runtime that gives out devices, as far as one can see.
    pub(super) fn has_gpu_runtime(&self, settings: &Settings) -> bool {
        let class = &*self.runtime_class;
        let is_gpu_class =
            class.starts_with("nvidia") || (!class.is_empty() && class == settings.runtime_class);
        is_gpu_class || self.containers().any(|(_, c)| asks_gpu(c))
    }
}

#[derive(Default, Deserialize)]
#[serde(default, expecting = "an object")]
struct Whole<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct Meta {
    #[serde(deserialize_with = "text")]
    name: Box<str>,
    #[serde(deserialize_with = "text")]
    generate_name: Box<str>,
    #[serde(deserialize_with = "text")]
    namespace: Box<str>,
    annotations: ReviewedAnnotations,
    #[serde(deserialize_with = "reviewed_labels")]
    labels: Reviewed,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct Spec<'a> {
    #[serde(borrow)]
    init_containers: Option<&'a RawValue>,
    #[serde(borrow)]
    containers: Option<&'a RawValue>,
    #[serde(borrow)]
    ephemeral_containers: Option<&'a RawValue>,
    #[serde(deserialize_with = "text")]
    node_name: Box<str>,
    #[serde(deserialize_with = "text")]
    scheduler_name: Box<str>,
    #[serde(deserialize_with = "text")]
    runtime_class_name: Box<str>,
    #[serde(deserialize_with = "optional")]
    termination_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "gpu_resources")]
    overhead: ResourceList,
    #[serde(deserialize_with = "length")]
    resource_claims: usize,
}

/// What of a pod's labels is decided on.
#[derive(Default)]
struct Reviewed {
    is_there: bool,
    /// The keys of those that only a binding may bring.
    strays: BTreeSet<Box<str>>,
    suspects: Suspects,
    level: Option<Box<str>>,
    provider: Option<Box<str>>,
}

fn reviewed_labels<'de, D: Deserializer<'de>>(d: D) -> Result<Reviewed, D::Error> {
    struct Labels;
    impl<'de> Visitor<'de> for Labels {
        type Value = Reviewed;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of strings")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut labels = Reviewed { is_there: true, ..Reviewed::default() };
            while let Some(key) = map.next_key::<Key<'de>>()? {
                let kept = match key.as_str() {
                    keys::ISOLATION_LEVEL => &mut labels.level,
                    keys::ISOLATION_PROVIDER => &mut labels.provider,
                    _ => {
                        map.next_value::<IgnoredAny>()?;
                        labels.suspects.see(key.as_str());
                        if is_group(key.as_str()) {
                            labels.strays.insert(key.as_str().into());
                        }
                        if labels.strays.len() > MOST_STRAYS {
                            let group = keys::GPU_GROUP;
                            let why = format!("more than {MOST_STRAYS} labels {group}/...");
                            return Err(A::Error::custom(why));
                        }
                        continue;
                    }
                };
                // What is no string is refused by the API, and by nobody here.
                *kept = map.next_value::<Value>()?.as_str().map(Into::into);
            }
            Ok(labels)
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Reviewed::default())
        }
    }
    d.deserialize_any(Labels)
}
