//! `env` of a container, of which only the variables that hand over a card are kept.

use super::lenient::{Key, NoList, list, optional};
use super::map::MaybeText;
use crate::keys;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::fmt;

/// One of a container's `env`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name.
    pub name: Box<str>,
    /// What it is set to.
    pub source: Source,
}

/// What a variable is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The text itself; empty if none is given.
    Literal(Box<str>),
    /// A field of the pod, by its path.
    Field(Box<str>),
    /// A ConfigMap, a Secret or anything else.
    Other,
}

impl Source {
    /// Whether it is the annotation `key` of the pod.
    pub fn is_annotation(&self, key: &str) -> bool {
        matches!(self, Self::Field(path) if annotation_key(path) == Some(key))
    }

    /// Whether NVIDIA's container runtime gives no device to a container with it.
    pub fn is_no_device(&self) -> bool {
        matches!(self, Self::Literal(text) if matches!(&**text, "void" | "none"))
    }
}

/// The field path of an annotation.
pub(crate) fn annotation_path(key: &str) -> String {
    format!("metadata.annotations['{key}']")
}

fn annotation_key(path: &str) -> Option<&str> {
    path.strip_prefix("metadata.annotations['")?.strip_suffix("']")
}

/// An entry, if its variable is kept. Of others nothing but the name is read, which stands first in
/// what the API writes. What is no string is refused by the API, and by nobody here.
#[derive(Default)]
struct Entry(Option<Variable>);

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntryVisitor;
        impl<'de> Visitor<'de> for EntryVisitor {
            type Value = Entry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
                let (mut name, mut value, mut from) =
                    (None::<Box<str>>, MaybeText::default(), None);
                while let Some(key) = map.next_key::<Key<'de>>()? {
                    let is_other = name.as_ref().is_some_and(|name| !is_kept(name));
                    match key.as_str() {
                        "name" if name.is_some() => return Err(A::Error::duplicate_field("name")),
                        "name" => name = Some(map.next_value::<MaybeText>()?.into_text()),
                        "value" if !is_other => value = map.next_value()?,
                        "valueFrom" if !is_other => {
                            from = map.next_value::<Option<NoList<ValueFrom>>>()?;
                        }
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                let source = match from {
                    None => Source::Literal(value.into_text()),
                    Some(NoList(ValueFrom { field_ref: Some(field) })) => {
                        Source::Field(field.field_path.into_text())
                    }
                    Some(NoList(ValueFrom { field_ref: None })) => Source::Other,
                };
                let name = name.filter(|name| is_kept(name));
                Ok(Entry(name.map(|name| Variable { name, source })))
            }
        }
        deserializer.deserialize_map(EntryVisitor)
    }
}

fn is_kept(name: &str) -> bool {
    keys::HAND_OFF_VARIABLES.iter().any(|(known, _)| *known == name)
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct ValueFrom {
    #[serde(deserialize_with = "optional")]
    field_ref: Option<FieldRef>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct FieldRef {
    field_path: MaybeText,
}

pub(super) fn hand_off<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Variable>, D::Error> {
    let entries = list::<D, Entry>(d)?.into_iter();
    Ok(entries.filter_map(|Entry(variable)| variable).collect())
}
