//! How single fields are read: `null` is the same as absent, a wrong type is an error that says
//! what is expected. Strings are strings: YAML libraries would take `name: 1` as "1", the
//! Kubernetes API does not.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// A field whose `null` is its default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(optional(deserializer)?.unwrap_or_default())
}

/// A field that may be absent.
pub(crate) fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<NoList<T>>::deserialize(deserializer)?.map(|NoList(value)| value))
}

/// A value whose derived struct is read from an object only: by itself it would also take a list
/// and give its fields the elements in their order.
pub(crate) struct NoList<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NoList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(StructFromMap(deserializer)).map(Self)
    }
}

struct StructFromMap<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for StructFromMap<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        struct MapOnly<V>(V);
        impl<'de, V: Visitor<'de>> Visitor<'de> for MapOnly<V> {
            type Value = V::Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.expecting(f)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
                self.0.visit_map(map)
            }
        }
        self.0.deserialize_struct(name, fields, MapOnly(visitor))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct enum identifier ignored_any
    }
}

/// A string; empty if absent.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<str>, D::Error> {
    struct Text;
    impl Visitor<'_> for Text {
        type Value = Box<str>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_str<E>(self, text: &str) -> Result<Box<str>, E> {
            Ok(text.into())
        }
        fn visit_string<E>(self, text: String) -> Result<Box<str>, E> {
            Ok(text.into())
        }
        fn visit_unit<E>(self) -> Result<Box<str>, E> {
            Ok(Box::default())
        }
    }
    deserializer.deserialize_any(Text)
}

/// A list of strings.
pub(crate) fn texts<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Box<str>>, D::Error> {
    #[derive(Default)]
    struct Item(Box<str>);
    impl<'de> Deserialize<'de> for Item {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            text(d).map(Self)
        }
    }
    Ok(list::<D, Item>(d)?.into_iter().map(|item| item.0).collect())
}

/// A list; `null` in it is an empty element.
pub(crate) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    struct List<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = seq.next_element::<Option<NoList<T>>>()? {
                items.push(item.map(|NoList(item)| item).unwrap_or_default());
            }
            items.shrink_to_fit();
            Ok(items)
        }
        fn visit_unit<E>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }
    }
    deserializer.deserialize_any(List(PhantomData))
}

/// How many elements a list has.
pub(crate) fn length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    #[derive(Default, serde::Deserialize)]
    #[serde(expecting = "an object")]
    struct Nothing {}
    Ok(list::<D, Nothing>(deserializer)?.len())
}

/// A 32-bit integer, as all counts in Kubernetes manifests are.
pub(crate) fn integer<'de, D: Deserializer<'de>>(d: D) -> Result<Option<i32>, D::Error> {
    struct Integer;
    impl Visitor<'_> for Integer {
        type Value = Option<i32>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an integer from -2147483648 to 2147483647")
        }
        fn visit_i64<E: de::Error>(self, n: i64) -> Result<Option<i32>, E> {
            let refused = |_| E::invalid_value(de::Unexpected::Signed(n), &self);
            i32::try_from(n).map(Some).map_err(refused)
        }
        fn visit_u64<E: de::Error>(self, n: u64) -> Result<Option<i32>, E> {
            let refused = |_| E::invalid_value(de::Unexpected::Unsigned(n), &self);
            i32::try_from(n).map(Some).map_err(refused)
        }
        fn visit_f64<E: de::Error>(self, n: f64) -> Result<Option<i32>, E> {
            // `3.0` is written `3`, as Kubernetes makes of it.
            let refused = |_| E::invalid_value(de::Unexpected::Float(n), &self);
            n.to_string().parse().map(Some).map_err(refused)
        }
        fn visit_unit<E>(self) -> Result<Option<i32>, E> {
            Ok(None)
        }
    }
    d.deserialize_any(Integer)
}

/// `true` or `false`.
pub(crate) fn boolean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    struct Boolean;
    impl Visitor<'_> for Boolean {
        type Value = bool;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("true or false")
        }
        fn visit_bool<E>(self, b: bool) -> Result<bool, E> {
            Ok(b)
        }
        fn visit_unit<E>(self) -> Result<bool, E> {
            Ok(false)
        }
    }
    deserializer.deserialize_any(Boolean)
}

/// A key of an object, borrowed from the text where the format can: most keys are only compared.
pub(crate) enum Key<'de> {
    Borrowed(&'de str),
    Owned(String),
}

impl Key<'_> {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }
}

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string as key")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key::Borrowed(text))
            }
            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key::Owned(text.to_owned()))
            }
            fn visit_string<E>(self, text: String) -> Result<Key<'de>, E> {
                Ok(Key::Owned(text))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}
