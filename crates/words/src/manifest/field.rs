//! How a field of a manifest is read follows from its type.

use super::environment::kept_variables;
use super::lenient::{boolean, integer, length, list, optional, or_default, text, texts};
use super::{Annotations, Anything, ResourceList, Texts, Variable};
use crate::quantity::WrittenAmount;
use serde::de::{Deserialize, DeserializeOwned, Deserializer};

/// Objects as they stand in manifests: a field that is absent has its default, the others are read
/// by [`Field`].
macro_rules! manifest {
    ($(
        $(#[$about:meta])*
        $vis:vis struct $name:ident {
            $($(#[$of_field:meta])* $field_vis:vis $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase", expecting = "an object")]
        $vis struct $name {
            $(
                $(#[$of_field])*
                #[serde(deserialize_with = "crate::manifest::field::Field::read")]
                $field_vis $field: $type,
            )*
        }

        impl crate::manifest::field::Manifest for $name {}
    )*};
}
pub(crate) use manifest;

/// An object made by [`manifest!`].
pub(crate) trait Manifest: DeserializeOwned + Default {}

impl<T: Manifest> Manifest for Box<T> {}

/// The type of a field of [`manifest!`].
pub(crate) trait Field: Sized {
    /// Reads the field.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

impl<T: Manifest> Field for T {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_default(deserializer)
    }
}

impl<T: Manifest> Field for Option<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        optional(deserializer)
    }
}

impl<T: Manifest> Field for Vec<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        list(deserializer)
    }
}

/// Types with one reader each.
macro_rules! fields {
    ($($type:ty => $reader:expr,)*) => {$(
        impl Field for $type {
            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $reader(deserializer)
            }
        }
    )*};
}

fields! {
    Box<str> => text,
    Vec<Box<str>> => texts,
    bool => boolean,
    Option<i32> => integer,
    // A list of which only the length counts.
    usize => length,
    Texts => Texts::deserialize,
    Annotations => Annotations::deserialize,
    ResourceList => ResourceList::deserialize,
    Vec<Variable> => kept_variables,
    Option<i64> => optional,
    Option<Box<str>> => optional,
    Option<ResourceList> => optional,
    Option<WrittenAmount> => optional,
    Option<Anything> => optional,
}
