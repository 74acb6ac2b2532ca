//! The cards that a pod holds, as divvy writes them on the pod: `card:bytes[,card:bytes...]`.
//!
//! A card is named by its UUID; by its index on the node only where nothing hands cards out, such
//! as on nodes that exist in the API alone.

use crate::keys;
use crate::manifest::Metadata;
use crate::problem::short;
use divvy_engine::PodSpec;
use divvy_ledger::{Bytes, Each};
use std::fmt;

/// What a card is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CardName {
    /// Its index on the node.
    Index(u32),
    /// The UUID that the driver gives it.
    Uuid(Box<str>),
}

/// A share of a named card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedShare {
    /// Which card.
    pub card: CardName,
    /// How much of it.
    pub bytes: Bytes,
}

/// What a bound pod's own manifest says of its cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// It has none.
    Nothing,
    /// It has whole ones; the device plugin chose which.
    Whole,
    /// It has shares of these.
    Shares(Vec<NamedShare>),
    /// It has shares, and nothing is recorded of them.
    Unrecorded,
    /// It has shares, and its record cannot be read: why.
    Unreadable(String),
}

/// The cards of a bound pod, by what it asks and by its record. Whoever may change the pod can
/// change how many cards it asks, but not the record: that many it has.
pub fn held(metadata: &Metadata, spec: &mut PodSpec) -> Held {
    let Some(part) = spec.request.part() else {
        return if spec.request.asks_cards() { Held::Whole } else { Held::Nothing };
    };
    match metadata.annotations.get(keys::CARDS).map(parse) {
        None => Held::Unrecorded,
        Some(Ok(cards)) if cards.is_empty() => {
            Held::Unreadable(format!("metadata.annotations[\"{}\"] names no card", keys::CARDS))
        }
        Some(Ok(cards)) => {
            let count = u32::try_from(cards.len()).unwrap_or(u32::MAX);
            spec.request = std::mem::take(&mut spec.request).and(count, Each::Share(part));
            Held::Shares(cards)
        }
        Some(Err(why)) => Held::Unreadable(why),
    }
}

/// UUIDs are `GPU-` and 36 characters; this leaves room for others to come.
const MAX_UUID: usize = 128;

/// The value of the annotation [`crate::keys::CARDS`].
pub fn print(cards: &[NamedShare]) -> String {
    let parts: Vec<String> =
        cards.iter().map(|share| format!("{}:{}", share.card, share.bytes.0)).collect();
    parts.join(",")
}

/// Reads what [`print`] wrote.
pub fn parse(text: &str) -> Result<Vec<NamedShare>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(share).collect::<Option<_>>().ok_or_else(|| {
        let (key, text) = (keys::CARDS, short(text));
        format!("metadata.annotations[\"{key}\"]: {text:?}; allowed is card:bytes[,card:bytes...], a card being a UUID or an index")
    })
}

fn share(part: &str) -> Option<NamedShare> {
    let (card, bytes) = part.split_once(':')?;
    let bytes = digits(bytes).then(|| bytes.parse().ok())??;
    Some(NamedShare { card: CardName::read(card)?, bytes: Bytes(bytes) })
}

/// `parse` alone would also take a plus sign.
fn digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

impl CardName {
    fn read(text: &str) -> Option<Self> {
        match digits(text) {
            true => text.parse().ok().map(Self::Index),
            false => is_uuid(text).then(|| Self::Uuid(text.into())),
        }
    }
}

/// Whether this can be the UUID of a card: nothing that would mean more than one device, or
/// something else, where devices are listed.
pub fn is_uuid(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    text.len() <= MAX_UUID && text.starts_with("GPU-") && text.bytes().all(is_plain)
}

impl fmt::Display for CardName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "{index}"),
            Self::Uuid(uuid) => f.write_str(uuid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UUID: &str = "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76";

    #[test]
    fn a_share_of_a_card_is_its_name_and_bytes() {
        let bytes = Bytes(21_474_836_480);
        for (card, text) in [
            (CardName::Index(4), "4:21474836480".to_owned()),
            (CardName::Uuid(UUID.into()), format!("{UUID}:21474836480")),
        ] {
            let share = NamedShare { card, bytes };
            assert_eq!(print(std::slice::from_ref(&share)), text);
            assert_eq!(parse(&text), Ok(vec![share]));
        }
    }

    #[test]
    fn what_divvy_did_not_write_is_refused() {
        for text in [
            "4",
            "4:",
            ":4",
            "4:5,",
            ",",
            "4:-1",
            "+4:1",
            "4: 5",
            "4294967296:1",
            "a:b",
            "all:1",
            "GPU-1,all:1",
            "GPU-1 :1",
            "MIG-1:1",
            "GPU-é:1",
        ] {
            assert!(parse(text).unwrap_err().contains(&format!("{text:?}")), "{text}");
        }
        assert!(parse(&format!("GPU-{}:1", "a".repeat(200))).is_err());
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(cards in prop::collection::vec((any::<u32>(), any::<bool>(), any::<u64>()), 0..9)) {
            let share = |(number, named, bytes): (u32, bool, u64)| NamedShare {
                card: if named {
                    CardName::Uuid(format!("GPU-{number:08x}").into())
                } else {
                    CardName::Index(number)
                },
                bytes: Bytes(bytes),
            };
            let cards: Vec<_> = cards.into_iter().map(share).collect();
            prop_assert_eq!(parse(&print(&cards)), Ok(cards));
        }

        #[test]
        fn no_text_panics(text in "[0-9:,GPU-]{0,40}|.*") {
            let _ = parse(&text);
        }
    }
}
