//! The cards that a pod holds, as divvy writes them on the pod: `card:bytes[,card:bytes...]`.
//!
//! A card is named by its UUID; by its index on the node only where nothing hands cards out, such
//! as on nodes that exist in the API alone.

use crate::problem::short;
use divvy_ledger::Bytes;
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
        let (key, text) = (crate::keys::CARDS, short(text));
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
