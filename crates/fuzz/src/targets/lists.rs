//! Lists of the API, which are taken apart while they come.

use crate::cost::Bound;
use crate::edit::odd;
use crate::input::Input;
use divvy_api::Split;
use serde_json::{Value, json};

const BOUND: Bound = Bound { base: 64 << 10, each: 64 };

/// A list in pieces: its objects are those that it has, wherever it is cut.
pub fn lists(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let sizes = [input.byte(), input.byte(), input.byte()];
    let text = if input.once_in(2) { list(&mut input).into_bytes() } else { input.rest().to_vec() };
    let whole = BOUND.hold(text.len(), || split([&text[..]]));
    let cut = BOUND.hold(text.len(), || split(pieces(&text, sizes)));
    assert_eq!(whole, cut, "{:?}", String::from_utf8_lossy(&text));
    let Ok((items, rest)) = whole else { return };
    let told: usize = items.iter().map(Vec::len).sum::<usize>() + rest.len();
    assert!(told <= text.len(), "more is told than there is");
    if let Some((expected, mut others)) = read(&text) {
        let items = items.iter().map(|item| serde_json::from_slice(item));
        assert_eq!(items.collect::<Result<Vec<Value>, _>>().ok(), Some(expected));
        others["items"] = json!([]);
        assert_eq!(serde_json::from_slice(&rest).ok(), Some(others));
    }
}

/// The objects of a list that comes in pieces, and the rest of it.
fn split<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(Vec<Vec<u8>>, Vec<u8>), &'static str> {
    let (mut split, mut items) = (Split::default(), Vec::new());
    for piece in pieces {
        split.push(piece, |item| items.push(item.to_vec()))?;
    }
    Ok((items, split.rest().to_vec()))
}

fn list(input: &mut Input<'_>) -> String {
    let items: Vec<Value> =
        (0..input.below(5)).map(|_| json!({ "metadata": odd(input, 3) })).collect();
    let (first, last) = (odd(input, 2), odd(input, 2));
    let list = json!({ "a": first, "items": items, "metadata": last });
    if input.once_in(2) { format!("{list:#}") } else { list.to_string() }
}

fn pieces(text: &[u8], sizes: [u8; 3]) -> Vec<&[u8]> {
    let mut rest = text;
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, later) = rest.split_at(rest.len().min(usize::from(*size) + 1));
        pieces.push(piece);
        rest = later;
    }
    pieces
}

/// The objects of a list and the rest, if it is one and names nothing twice.
fn read(text: &[u8]) -> Option<(Vec<Value>, Value)> {
    let list: Value = serde_json::from_slice(text).ok()?;
    let is_plain = |text: &str| !text.contains('\\');
    let once = std::str::from_utf8(text).ok()?.matches("\"items\"").count() == 1;
    let items = list.get("items")?.as_array()?.clone();
    let is_list = items.iter().all(Value::is_object) && once;
    (is_list && is_plain(std::str::from_utf8(text).ok()?)).then_some((items, list))
}
