//! Labels, annotations and resource lists: small maps, read into sorted vectors.

use super::lenient::Key;
use crate::keys;
use crate::mistakes::{Suspects, may_be_gpu};
use crate::problem::short;
use crate::quantity::{Quantity, WrittenAmount, WrittenQuantity};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// A value that should be a string, and remembers if it was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    text: Box<str>,
    written: Written,
}

/// What a [`Text`] was in the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    String,
    Number,
    Boolean,
    List,
    Object,
}

impl Text {
    /// The text, also of a number or a boolean.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What is wrong if it was not a string; `what` is what such values are called.
    fn problem(&self, what: &str) -> Option<String> {
        let (text, written) = (&self.text, self.written);
        Some(match written {
            Written::String => return None,
            Written::Number => format!("{text} is a number; {what} are strings, write \"{text}\""),
            // What was written may have been `y` or `off`: YAML reads those as booleans too.
            Written::Boolean => {
                format!("{text} is a boolean; {what} are strings, put it in quotes")
            }
            Written::List => format!("a list is given; {what} are strings"),
            Written::Object => format!("an object is given; {what} are strings"),
        })
    }
}

/// `None` for `null`.
#[derive(Default)]
pub(super) struct MaybeText(Option<Text>);

impl MaybeText {
    /// The text, also of a number or a boolean; empty if absent.
    pub(super) fn into_text(self) -> Box<str> {
        self.0.map(|text| text.text).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for MaybeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        fn some<E>(text: impl Into<Box<str>>, written: Written) -> Result<MaybeText, E> {
            Ok(MaybeText(Some(Text { text: text.into(), written })))
        }
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = MaybeText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E>(self, text: &str) -> Result<MaybeText, E> {
                some(text, Written::String)
            }
            fn visit_string<E>(self, text: String) -> Result<MaybeText, E> {
                some(text, Written::String)
            }
            fn visit_bool<E>(self, b: bool) -> Result<MaybeText, E> {
                some(if b { "true" } else { "false" }, Written::Boolean)
            }
            fn visit_i64<E>(self, n: i64) -> Result<MaybeText, E> {
                some(n.to_string(), Written::Number)
            }
            fn visit_u64<E>(self, n: u64) -> Result<MaybeText, E> {
                some(n.to_string(), Written::Number)
            }
            fn visit_f64<E>(self, n: f64) -> Result<MaybeText, E> {
                // `Debug` writes 1e300 where `Display` would write 301 digits.
                some(format!("{n:?}"), Written::Number)
            }
            fn visit_unit<E>(self) -> Result<MaybeText, E> {
                Ok(MaybeText(None))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<MaybeText, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                some("", Written::List)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MaybeText, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                some("", Written::Object)
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// Strings by key, sorted: labels, annotations, node selectors.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    kept: Box<[(Box<str>, Text)]>,
    bytes: usize,
}

/// How much else there was is no part of what they say.
impl PartialEq for Texts {
    fn eq(&self, other: &Self) -> bool {
        self.kept == other.kept
    }
}
impl Eq for Texts {}

impl Texts {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.kept.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok()?;
        self.kept.get(at).map(|(_, text)| text.as_str())
    }

    /// How long all keys and values are together, also those that were not kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.kept.iter().map(|(key, text)| (key.as_ref(), text.as_str()))
    }

    /// The same without some keys, and with others set.
    #[must_use]
    pub fn with(&self, drops: impl Fn(&str) -> bool, set: Vec<(String, String)>) -> Self {
        let kept = self.kept.iter().filter(|(key, _)| !drops(key)).cloned();
        let new = set
            .into_iter()
            .map(|(key, text)| (key.into(), Text { text: text.into(), written: Written::String }));
        let mut all: Vec<(Box<str>, Text)> = kept.chain(new).collect();
        tidy(&mut all);
        Self { kept: all.into(), bytes: self.bytes }
    }

    /// What is wrong with the first value that is no string. `field` is where the map stands and
    /// `what` is what its values are called.
    pub fn problem(&self, field: &str, what: &str) -> Option<String> {
        self.kept.iter().find_map(|(key, text)| {
            Some(format!("{field}[\"{}\"]: {}", short(key), text.problem(what)?))
        })
    }
}

/// Reads string values and leaves out those whose key `keep` does not want, but for the first one
/// that is no string.
fn read_texts<'de, D, K>(d: D, keep: K) -> Result<Texts, D::Error>
where
    D: Deserializer<'de>,
    K: FnMut(&str) -> bool,
{
    struct TextsVisitor<K>(K);
    impl<'de, K: FnMut(&str) -> bool> Visitor<'de> for TextsVisitor<K> {
        type Value = Texts;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of strings")
        }
        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Texts, A::Error> {
            let mut all: Vec<(Box<str>, Text)> = Vec::new();
            let mut wrong: Option<(Box<str>, Text)> = None;
            let mut bytes = 0;
            while let Some(key) = map.next_key::<Key<'de>>()? {
                let Some(text) = map.next_value::<MaybeText>()?.0 else {
                    bytes += key.as_str().len();
                    continue;
                };
                bytes += key.as_str().len() + text.text.len();
                if (self.0)(key.as_str()) {
                    if all.len() == all.capacity() {
                        make_room(&mut all);
                    }
                    all.push((key.as_str().into(), text));
                } else if text.written != Written::String
                    && wrong.as_ref().is_none_or(|(first, _)| key.as_str() < first)
                {
                    wrong = Some((key.as_str().into(), text));
                }
            }
            all.extend(wrong);
            tidy(&mut all);
            Ok(Texts { kept: all.into(), bytes })
        }
        fn visit_unit<E>(self) -> Result<Texts, E> {
            Ok(Texts::default())
        }
    }
    d.deserialize_any(TextsVisitor(keep))
}

/// Sorts by key. Of one that is given twice the last counts, as in JSON.
fn tidy(all: &mut Vec<(Box<str>, Text)>) {
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.reverse();
    all.dedup_by(|later, first| later.0 == first.0);
    all.reverse();
}

/// So that a key takes its memory once, however often it is given.
fn make_room(all: &mut Vec<(Box<str>, Text)>) {
    tidy(all);
    if all.len() > all.capacity() / 2 {
        all.reserve(all.len());
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_texts(deserializer, |_| true)
    }
}

/// Annotations are often far larger than the rest of a pod: only those that divvy reads are kept,
/// and the first that is no string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations(Texts);

impl Annotations {
    /// The same without some keys.
    #[must_use]
    pub fn without(&self, drops: impl Fn(&str) -> bool) -> Self {
        Self(self.0.with(drops, Vec::new()))
    }
}

impl Deref for Annotations {
    type Target = Texts;

    fn deref(&self) -> &Texts {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_texts(deserializer, |key| keys::ANNOTATIONS.contains(&key)).map(Self)
    }
}

/// Annotations of a pod in a review: those that admission decides on, the first that is wrong, and keys
/// that may be mistakes.
#[derive(Debug, Default)]
pub(crate) struct ReviewedAnnotations {
    pub(crate) kept: Annotations,
    pub(crate) suspects: Suspects,
}

impl<'de> Deserialize<'de> for ReviewedAnnotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut suspects = Suspects::default();
        let kept = read_texts(deserializer, |key| {
            let is_kept = keys::REQUEST.contains(&key)
                || keys::HAND_OFF.contains(&key)
                || key == keys::KAI_CONFIG_MAPS;
            if !is_kept {
                suspects.see(key);
            }
            is_kept
        })?;
        Ok(Self { kept: Annotations(kept), suspects })
    }
}

/// The name of a resource; the frequent ones take no memory.
pub type ResourceName = Cow<'static, str>;

/// Amounts by resource name, in the order of the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceList {
    kept: Box<[(ResourceName, WrittenQuantity)]>,
    is_cut: bool,
}

impl ResourceList {
    /// No node has so many kinds of resources; further ones are not kept.
    pub const MOST: usize = 256;

    /// Whether there were more.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The amount of a resource as written.
    pub fn amount(&self, name: &str) -> Option<&WrittenQuantity> {
        self.kept.iter().find(|(n, _)| n == name).map(|(_, amount)| amount)
    }

    /// The quantity of a resource, if there is one and it is valid.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.amount(name)?.as_ref().ok().copied()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &WrittenQuantity)> {
        self.kept.iter().map(|(name, amount)| (name.as_ref(), amount))
    }

    /// Whether none is given.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The same without some resources, and with others added.
    #[must_use]
    pub fn with(&self, drops: impl Fn(&str) -> bool, added: &[(String, u64)]) -> Self {
        let kept = self.kept.iter().filter(|(name, _)| !drops(name)).cloned();
        let amount = |count: u64| Ok(Quantity::from_units(count.into()));
        let new = added.iter().map(|(name, count)| (Cow::Owned(name.clone()), amount(*count)));
        Self { kept: kept.chain(new).collect(), is_cut: self.is_cut }
    }
}

fn resource_name(key: &Key<'_>) -> ResourceName {
    keys::USUAL_RESOURCES
        .into_iter()
        .find(|known| *known == key.as_str())
        .map_or_else(|| Cow::Owned(key.as_str().to_owned()), Cow::Borrowed)
}

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_resources(deserializer, |_| true)
    }
}

/// GPUs, their replicas and slices alone, and what may be meant for them.
pub(crate) fn gpu_resources<'de, D: Deserializer<'de>>(d: D) -> Result<ResourceList, D::Error> {
    read_resources(d, |name| {
        name.starts_with(keys::GPU)
            || name.starts_with(keys::MIG_PREFIX)
            || keys::KOORDINATOR.contains(&name)
            || may_be_gpu(name)
    })
}

/// Reads amounts and leaves out those whose name `keep` does not want.
fn read_resources<'de, D: Deserializer<'de>>(
    deserializer: D,
    keep: fn(&str) -> bool,
) -> Result<ResourceList, D::Error> {
    struct ListVisitor(fn(&str) -> bool);
    impl<'de> Visitor<'de> for ListVisitor {
        type Value = ResourceList;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of quantities")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResourceList, A::Error> {
            let mut all: Vec<(ResourceName, WrittenQuantity)> = Vec::new();
            let mut is_cut = false;
            while let Some(key) = map.next_key::<Key<'de>>()? {
                let Some(WrittenAmount(amount)) = map.next_value()? else { continue };
                if !(self.0)(key.as_str()) {
                    continue;
                }
                let name = resource_name(&key);
                all.retain(|(n, _)| *n != name);
                if all.len() < ResourceList::MOST || keys::is_usual_resource(&name) {
                    all.push((name, amount));
                } else {
                    is_cut = true;
                }
            }
            Ok(ResourceList { kept: all.into(), is_cut })
        }
        fn visit_unit<E>(self) -> Result<ResourceList, E> {
            Ok(ResourceList::default())
        }
    }
    deserializer.deserialize_any(ListVisitor(keep))
}
