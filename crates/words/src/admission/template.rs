//! The strategy that a Deployment or another owner of pods asks for, brought into its template: a pod
//! says by itself how it is to be placed, to the scheduler and to every rehearsal, and nobody has to
//! look for its owner.

use super::patch::member;
use super::raw::part;
use super::{Mutation, Settings, Step};
use crate::manifest::lenient::{Key, text};
use crate::problem::short;
use crate::{keys, strategy};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::fmt;

/// Gives the pods of an owner its strategy, as long as their template has none of its own; what came
/// from here follows the owner. An error is why the owner is refused: it cannot be read.
pub fn template(
    object: Option<&RawValue>,
    old: Option<&RawValue>,
    settings: &Settings,
) -> Result<Mutation, String> {
    let mut mutation = Mutation::default();
    let (now, before) = (Owner::read(object)?, Owner::read(old)?);
    if !settings.places(&now.scheduler) {
        return Ok(mutation);
    }
    let is_ours = now.of_pods.is_none() || now.of_pods == before.own;
    if now.own == now.of_pods || !is_ours {
        return Ok(mutation);
    }
    let metadata = format!("{}/metadata", now.place);
    let annotations = format!("{metadata}/annotations");
    let path = member(&annotations, keys::STRATEGY);
    let Some(own) = now.own else {
        mutation.patch.push(Step::Remove { path });
        return Ok(mutation);
    };
    if strategy::parse(&own).is_none() {
        let (field, allowed) = (keys::STRATEGY, strategy::ALLOWED);
        mutation.warnings.push(format!(
            "metadata.annotations[\"{field}\"]: {:?} is not passed on to its pods; allowed are {allowed}",
            short(&own)
        ));
        return Ok(mutation);
    }
    if !now.has_metadata {
        mutation.patch.push(Step::Add { path: metadata, value: json!({}) });
    }
    if !now.has_annotations {
        mutation.patch.push(Step::Add { path: annotations, value: json!({}) });
    }
    mutation.patch.push(Step::Add { path, value: Value::from(&*own) });
    Ok(mutation)
}

/// What makes pods from a template.
#[derive(Default)]
struct Owner {
    /// The strategy that it asks for.
    own: Option<Box<str>>,
    /// The strategy that its template asks for.
    of_pods: Option<Box<str>>,
    /// Where the template is.
    place: &'static str,
    has_metadata: bool,
    has_annotations: bool,
    scheduler: Box<str>,
}

impl Owner {
    fn read(text: Option<&RawValue>) -> Result<Self, String> {
        let Templated { metadata, place, template } = templated(text)?;
        let metadata: Meta = part("metadata", metadata)?;
        let template: Whole<'_> = part("template", template)?;
        let of_pods: Meta = part("template.metadata", template.metadata)?;
        let pods: PodSpec = part("template.spec", template.spec)?;
        Ok(Self {
            own: metadata.annotations.strategy,
            of_pods: of_pods.annotations.strategy,
            place,
            has_metadata: template.metadata.is_some_and(|text| text.get() != "null"),
            has_annotations: of_pods.annotations.is_there,
            scheduler: pods.scheduler_name,
        })
    }
}

/// An object that may make pods from a template.
pub(super) struct Templated<'a> {
    metadata: Option<&'a RawValue>,
    /// Where the template would be.
    pub(super) place: &'static str,
    pub(super) template: Option<&'a RawValue>,
}

/// Where an object has the template of its pods.
pub(super) fn templated(text: Option<&RawValue>) -> Result<Templated<'_>, String> {
    let whole: Whole<'_> = part("the object", text)?;
    let mut spec: Spec<'_> = part("spec", whole.spec)?;
    let mut place = "/spec/template";
    if let Some(job) = spec.job_template {
        place = "/spec/jobTemplate/spec/template";
        let job: Whole<'_> = part("spec.jobTemplate", Some(job))?;
        spec = part("spec.jobTemplate.spec", job.spec)?;
    }
    Ok(Templated { metadata: whole.metadata, place, template: spec.template })
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
struct Spec<'a> {
    #[serde(borrow)]
    template: Option<&'a RawValue>,
    #[serde(borrow)]
    job_template: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct PodSpec {
    #[serde(deserialize_with = "text")]
    scheduler_name: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default, expecting = "an object")]
struct Meta {
    #[serde(deserialize_with = "annotations")]
    annotations: Annotations,
}

#[derive(Default)]
struct Annotations {
    is_there: bool,
    strategy: Option<Box<str>>,
}

fn annotations<'de, D: Deserializer<'de>>(d: D) -> Result<Annotations, D::Error> {
    struct Texts;
    impl<'de> Visitor<'de> for Texts {
        type Value = Annotations;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of strings")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = Annotations { is_there: true, strategy: None };
            while let Some(key) = map.next_key::<Key<'de>>()? {
                if key.as_str() == keys::STRATEGY {
                    found.strategy = Some(map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Annotations::default())
        }
    }
    d.deserialize_any(Texts)
}

#[cfg(test)]
mod tests;
