//! Takes a list apart while it comes: its objects one by one, and the rest of it. A page of a list
//! may be as large as whoever makes the objects likes; one object may not.

/// What is told of a list besides its objects is a few hundred bytes.
const MOST_REST: usize = 64 * 1024;
/// The API server takes objects of up to 3 MB, and may hand them out larger.
pub(crate) const MOST_ITEM: usize = 16 << 20;

/// The state between two pieces of a list.
#[derive(Debug, Default)]
pub struct Split {
    /// How many brackets and braces are open.
    depth: u32,
    in_text: bool,
    is_escaped: bool,
    /// The last text on the outermost level, which may be the name of what follows.
    name: Vec<u8>,
    in_items: bool,
    /// The part of an object that came with earlier pieces.
    item: Vec<u8>,
    /// All but the objects.
    rest: Vec<u8>,
}

impl Split {
    /// Takes the next piece; each object that is complete now goes to `tell`.
    pub fn push(&mut self, piece: &[u8], mut tell: impl FnMut(&[u8])) -> Result<(), &'static str> {
        // Where the object begins that is being read, if it does in this piece.
        let mut begin = if self.is_inside() { Some(0) } else { None };
        for (at, byte) in piece.iter().enumerate() {
            let was_inside = self.is_inside();
            if !was_inside && self.in_items && matches!(byte, b'{' | b'[') && !self.in_text {
                begin = Some(at);
            }
            self.step(*byte);
            if self.is_inside() {
                continue;
            }
            if was_inside {
                let end = piece.get(begin.unwrap_or(0)..=at).unwrap_or_default();
                begin = None;
                if self.item.is_empty() {
                    tell(end);
                } else {
                    self.item.extend_from_slice(end);
                    tell(&std::mem::take(&mut self.item));
                }
            } else if !self.in_items || self.depth < 2 || *byte == b'[' {
                self.rest.push(*byte);
            }
        }
        if let Some(begin) = begin {
            self.item.extend_from_slice(piece.get(begin..).unwrap_or_default());
        }
        if self.item.len() > MOST_ITEM {
            return Err("an object of the list is too large");
        }
        if self.rest.len() > MOST_REST {
            return Err("the list is no list of objects");
        }
        Ok(())
    }

    /// The list without its objects.
    pub fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// Whether an object of the list is being read.
    const fn is_inside(&self) -> bool {
        self.in_items && self.depth > 2
    }

    fn step(&mut self, byte: u8) {
        if self.in_text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_text = false,
                _ if self.depth == 1 && self.name.len() < 16 => self.name.push(byte),
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_text = true;
                if self.depth == 1 {
                    self.name.clear();
                }
            }
            b'{' | b'[' => {
                self.in_items |= self.depth == 1 && byte == b'[' && self.name == b"items";
                self.depth = self.depth.saturating_add(1);
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.in_items &= self.depth > 1;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn split(text: &str, pieces: &[usize]) -> (Vec<Value>, Value) {
        let (mut split, mut items) = (Split::default(), Vec::new());
        let mut rest = text.as_bytes();
        let mut tell = |item: &[u8]| items.push(serde_json::from_slice(item).unwrap());
        for piece in pieces.iter().cycle() {
            let (now, later) = rest.split_at((*piece).max(1).min(rest.len()));
            split.push(now, &mut tell).unwrap();
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        (items, serde_json::from_slice(split.rest()).unwrap())
    }

    #[test]
    fn objects_and_the_rest_are_told_apart_wherever_they_stand() {
        let odd = json!({"a\"}{[": ["]}", {"items": [1, {"x": "\\"}]}], "n": null});
        for (text, count) in [
            (json!({"kind": "PodList", "items": [odd, odd], "metadata": {"continue": "c"}}), 2),
            (json!({"metadata": {"continue": "c", "items": [{}]}, "items": []}), 0),
            (json!({"items": null, "metadata": {"continue": "c"}}), 0),
            (json!({"items": [{}], "metadata": {"continue": "c"}}), 1),
        ] {
            for size in [1, 2, 3, 7, 1000] {
                let (items, rest) = split(&text.to_string(), &[size]);
                assert_eq!(items.len(), count, "{text}");
                assert!(items.iter().all(|item| *item == odd || *item == json!({})), "{items:?}");
                assert_eq!(rest["metadata"]["continue"], "c", "{rest}");
            }
        }
    }

    /// Found by fuzzing: what was told of such a list depended on where it was cut.
    #[test]
    fn an_item_that_is_no_object_is_told_as_it_is() {
        for size in [1, 3, 7, 1000] {
            let (items, rest) = split(r#"{"a":[{}],"items":[{},[1,{"b":[]}],{}]}"#, &[size]);
            assert_eq!(items, [json!({}), json!([1, {"b": []}]), json!({})]);
            assert_eq!(rest, json!({"a": [{}], "items": []}));
        }
    }

    #[test]
    fn what_is_no_list_or_has_an_absurd_object_ends_it() {
        let mut split = Split::default();
        assert!(split.push("x".repeat(MOST_REST + 1).as_bytes(), |_| {}).is_err());
        let mut split = Split::default();
        let begun = format!("{{\"items\":[{{\"a\":\"{}", "x".repeat(MOST_ITEM));
        assert!(split.push(begun.as_bytes(), |_| panic!("not complete")).is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::from),
            "[ -~é\\n]{0,8}".prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ -~]{0,6}|items", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_objects_are_those_of_the_list(
            items in prop::collection::vec(prop::collection::btree_map("[ -~]{0,6}", any_json(), 0..4), 0..5),
            more in any_json(),
            pieces in prop::collection::vec(1usize..40, 1..6),
            pretty in any::<bool>(),
        ) {
            let objects: Vec<Value> = items.iter().map(|item| json!(item)).collect();
            let list = json!({"apiVersion": "v1", "items": objects, "more": more});
            let text = if pretty { format!("{list:#}") } else { list.to_string() };
            let (found, rest) = split(&text, &pieces);
            prop_assert_eq!(found, objects);
            prop_assert_eq!(&rest["more"], &list["more"]);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Split::default().push(&bytes, |_| {});
        }
    }
}
