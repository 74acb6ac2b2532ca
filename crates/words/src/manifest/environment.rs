//! `env` of a container, of which only the variables that hand over a card are kept.

use super::lenient::{list, optional};
use super::map::MaybeText;
use crate::keys;
use serde::{Deserialize, Deserializer};

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

/// An entry as written. What is no string is refused by the API, and by nobody here: most
/// variables do not matter.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct Entry {
    name: MaybeText,
    value: MaybeText,
    #[serde(deserialize_with = "optional")]
    value_from: Option<ValueFrom>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct ValueFrom {
    #[serde(deserialize_with = "optional")]
    field_ref: Option<FieldRef>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct FieldRef {
    field_path: MaybeText,
}

pub(super) fn hand_off<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Variable>, D::Error> {
    let entries = list::<D, Entry>(d)?.into_iter();
    Ok(entries.filter_map(variable).collect())
}

fn variable(entry: Entry) -> Option<Variable> {
    let name = entry.name.into_text();
    keys::HAND_OFF_VARIABLES.iter().find(|(known, _)| *known == &*name)?;
    let source = match entry.value_from {
        None => Source::Literal(entry.value.into_text()),
        Some(ValueFrom { field_ref: Some(field) }) => Source::Field(field.field_path.into_text()),
        Some(ValueFrom { field_ref: None }) => Source::Other,
    };
    Some(Variable { name, source })
}
