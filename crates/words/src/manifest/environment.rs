//! `env` of a container, of which only the variables that hand over a card are kept, and from the first
//! one on that reads a limit all: the last entry of a name wins.

use super::lenient::{Key, NoList, optional};
use super::map::MaybeText;
use crate::keys;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use std::borrow::Cow;
use std::fmt;

/// One of a container's `env`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name.
    pub name: Cow<'static, str>,
    /// What it is set to.
    pub source: VariableSource,
    /// Where it stands among all entries, from 0.
    pub at: usize,
}

/// What a variable is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableSource {
    /// The text itself; empty if none is given.
    Literal(Box<str>),
    /// A field of the pod, by its path.
    Field(Box<str>),
    /// A ConfigMap, a Secret or anything else.
    Other,
}

impl VariableSource {
    /// Whether it is the annotation `key` of the pod.
    pub fn is_annotation(&self, key: &str) -> bool {
        matches!(self, Self::Field(path) if annotation_key(path) == Some(key))
    }

    /// Whether it is this text.
    pub(crate) fn is_literal(&self, text: &str) -> bool {
        matches!(self, Self::Literal(given) if **given == *text)
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

/// An entry, if it has a name. What is no string is refused by the API, and by nobody here.
pub(crate) struct EnvironmentEntry(pub(crate) Option<(Box<str>, VariableSource)>);

impl<'de> Deserialize<'de> for EnvironmentEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ReadEntry { is_all_kept: true }.deserialize(deserializer)
    }
}

/// Without `is_all_kept` the text is not read of those that hand over no card, where the name stands
/// first, as in what the API writes.
struct ReadEntry {
    is_all_kept: bool,
}

impl<'de> DeserializeSeed<'de> for ReadEntry {
    type Value = EnvironmentEntry;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<EnvironmentEntry, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ReadEntry {
    type Value = EnvironmentEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EnvironmentEntry, A::Error> {
        let (mut name, mut value, mut from) = (None::<Box<str>>, MaybeText::default(), None);
        while let Some(key) = map.next_key::<Key<'de>>()? {
            let is_other = name.as_deref().is_some_and(|name| kept(name).is_none());
            match key.as_str() {
                "name" if name.is_some() => return Err(A::Error::duplicate_field("name")),
                "name" => name = Some(map.next_value::<MaybeText>()?.into_text()),
                "value" if self.is_all_kept || !is_other => value = map.next_value()?,
                "valueFrom" => {
                    from = map.next_value::<Option<NoList<ValueFrom>>>()?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let source = match from {
            None => VariableSource::Literal(value.into_text()),
            Some(NoList(ValueFrom { field_ref: Some(field) })) => {
                VariableSource::Field(field.field_path.into_text())
            }
            Some(NoList(ValueFrom { field_ref: None })) => VariableSource::Other,
        };
        Ok(EnvironmentEntry(name.map(|name| (name, source))))
    }
    fn visit_unit<E>(self) -> Result<EnvironmentEntry, E> {
        Ok(EnvironmentEntry(None))
    }
}

fn kept(name: &str) -> Option<&'static str> {
    let mut known = keys::HAND_OFF_VARIABLES.iter().map(|(known, _)| *known);
    known.find(|known| *known == name)
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

/// `env` of a container.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// Whether there is a list, if only an empty one.
    pub(crate) is_there: bool,
    /// The variables of [`crate::keys::HAND_OFF_VARIABLES`], those that read a limit, and all that is
    /// set after the first of these.
    pub(crate) kept: Vec<Variable>,
}

impl<'de> Deserialize<'de> for Environment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EnvironmentVisitor;
        impl<'de> Visitor<'de> for EnvironmentVisitor {
            type Value = Environment;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Environment, A::Error> {
                let (mut all, mut is_all_kept) = (Vec::new(), false);
                let mut at = 0;
                while let Some(EnvironmentEntry(entry)) =
                    seq.next_element_seed(ReadEntry { is_all_kept })?
                {
                    if let Some((name, source)) = entry {
                        is_all_kept |= keys::LIMITS.iter().any(|key| source.is_annotation(key));
                        let name = kept(&name)
                            .map(Cow::Borrowed)
                            .or_else(|| is_all_kept.then(|| Cow::Owned(name.into())));
                        all.extend(name.map(|name| Variable { name, source, at }));
                    }
                    at += 1;
                }
                all.shrink_to_fit();
                Ok(Environment { is_there: true, kept: all })
            }
            fn visit_unit<E>(self) -> Result<Environment, E> {
                Ok(Environment::default())
            }
        }
        deserializer.deserialize_any(EnvironmentVisitor)
    }
}

pub(super) fn kept_variables<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Variable>, D::Error> {
    Ok(Environment::deserialize(d)?.kept)
}
