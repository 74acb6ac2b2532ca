//! JSON documents, one after another, and the items of JSON Lists.

use super::{Entry, Fault, Piece, Refused, Shape, flatten, malformed};
use crate::manifest::{Kind, Object};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The documents of the text; with `cut`, Lists as items.
pub(super) fn pieces<'a>(text: &'a str, cut: bool) -> Result<Vec<Piece<'a>>, Refused<'a>> {
    let mut pieces = Vec::new();
    let documents = serde_json::Deserializer::from_str(text).into_iter::<&'a RawValue>();
    for (index, raw) in documents.enumerate() {
        let document = index + 1;
        let raw = match raw {
            Ok(raw) => raw.get(),
            Err(error) => {
                let all = Piece { text, start: 0, document, shape: Shape::Json };
                return Err((all, fault(&error)));
            }
        };
        let piece =
            |part: &'a str, shape| Piece { text: part, start: offset(text, part), document, shape };
        match items(raw).filter(|_| cut) {
            Some(items) => {
                pieces.extend(items.iter().map(|item| piece(item.get(), Shape::JsonItem)));
            }
            None => pieces.push(piece(raw, Shape::Json)),
        }
    }
    Ok(pieces)
}

/// Where `part`, which is a part of `text`, begins in it.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// The items, if this is a List of objects that say their kind themselves.
fn items(raw: &str) -> Option<Vec<&RawValue>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a> {
        kind: String,
        #[serde(default)]
        api_version: Option<String>,
        #[serde(borrow)]
        items: Option<Vec<&'a RawValue>>,
    }
    // A derived struct would also take its fields from a list.
    let list: List<'_> = raw.starts_with('{').then(|| serde_json::from_str(raw).ok())??;
    let api_version = list.api_version.unwrap_or_default();
    list.items.filter(|_| Kind::of(&list.kind, &api_version) == Some(Kind::List))
}

/// Reads a document or an item.
pub(super) fn read_value(text: &str, entries: &mut Vec<Entry>) -> Result<(), Fault> {
    if let Ok(object) = serde_json::from_str::<Option<Object>>(text) {
        object.into_iter().for_each(|object| flatten(object, entries));
        return Ok(());
    }
    let value: Value = serde_json::from_str(text).map_err(|error| fault(&error))?;
    malformed::entries(value, entries).map_err(Fault::at_start)
}

fn fault(error: &serde_json::Error) -> Fault {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    Fault { message: format!("not JSON: {message}"), line: error.line(), column: error.column() }
}
