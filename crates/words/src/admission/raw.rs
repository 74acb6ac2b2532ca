//! JSON that is read where something is asked of it. Lists are shown element by element and none is
//! kept: a tenant can make them as long as the API server allows, and each element of a tree of
//! values takes some hundred bytes.

use crate::manifest::lenient::NoList;
use crate::problem::shortened;
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::marker::PhantomData;

/// Reads an object; one that is absent or `null` is the default.
pub(super) fn part<'a, T>(field: &str, text: Option<&'a RawValue>) -> Result<T, String>
where
    T: Deserialize<'a> + Default,
{
    let Some(text) = text else { return Ok(T::default()) };
    let read = serde_json::from_str::<Option<NoList<T>>>(text.get());
    let read = read.map_err(|why| format!("{field}: {}", plain(&why)))?;
    Ok(read.map(|NoList(part)| part).unwrap_or_default())
}

/// Shows the objects of a list to `look`, with their places; none if the list is absent or `null`.
pub(super) fn each<'a, T: Deserialize<'a>>(
    field: &str,
    list: Option<&'a RawValue>,
    look: impl FnMut(usize, T) -> Result<(), String>,
) -> Result<(), String> {
    let Some(list) = list else { return Ok(()) };
    let mut wrong = None;
    let each = Each { field, look, wrong: &mut wrong, element: PhantomData };
    let read = serde_json::Deserializer::from_str(list.get()).deserialize_any(each);
    read.map_err(|why| wrong.unwrap_or_else(|| format!("{field}: {}", plain(&why))))
}

struct Each<'w, T, F> {
    field: &'w str,
    look: F,
    /// What is wrong with an element, or about it.
    wrong: &'w mut Option<String>,
    element: PhantomData<T>,
}

impl<'de, T, F> Visitor<'de> for Each<'_, T, F>
where
    T: Deserialize<'de>,
    F: FnMut(usize, T) -> Result<(), String>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        for at in 0.. {
            let element = seq.next_element::<NoList<T>>().inspect_err(|why| {
                *self.wrong = Some(format!("{}[{at}]: {}", self.field, plain(why)));
            })?;
            let Some(NoList(element)) = element else { break };
            (self.look)(at, element).map_err(|why| {
                *self.wrong = Some(why);
                A::Error::custom("")
            })?;
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// The text without the place, which is one in a part that nobody sees. It may repeat a text of the
/// pod.
fn plain(error: &impl fmt::Display) -> String {
    let text = shortened(error);
    text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text).to_owned()
}
