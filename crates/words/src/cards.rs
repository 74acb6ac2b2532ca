//! The cards that a pod holds, as divvy writes them on the pod: `card:bytes[,card:bytes...]`.
//!
//! A card is named by its UUID; by its index on the node only where nothing hands cards out, such
//! as on nodes that exist in the API alone.

use crate::device_allocated;
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

/// A bound pod, as far as it decides what it has of its node's cards.
#[derive(Clone, Debug)]
pub struct BoundPod<'a> {
    /// Who it is, with what bindings wrote on it.
    pub metadata: &'a Metadata,
    /// Why the rest of it cannot be read.
    pub unreadable: Option<&'a str>,
    /// The groups of the cards that KAI gave it, as [`crate::reservation::given_groups`] or KAI itself says.
    pub groups: Vec<&'a str>,
    /// Whether its scheduler gives shares: what others leave on pods is no word of theirs.
    pub gets_shares: bool,
}

/// What a bound pod has of its node's cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// It has none.
    Nothing,
    /// It has whole ones; the device plugin chose which.
    Whole,
    /// It has shares of these.
    Shares(Vec<NamedShare>),
    /// KAI gave it a share of the card of each of these groups, as far as reservations keep them.
    Groups(Vec<Box<str>>),
    /// It has shares, and the cards have no names: whichever they are, it has the room.
    Unnamed,
    /// It asks for shares, and nobody has written that it got any: it has none.
    Unrecorded,
    /// It may have any: why nobody can say.
    Unreadable(String),
}

/// What is said of a pod that has [`Held::Unrecorded`].
pub const UNRECORDED: &str =
    "it was bound without a record of the cards that it asks for, so it is counted on none";

impl BoundPod<'_> {
    /// What it has. Whoever may change a pod can change how many cards it asks, but not what is
    /// recorded: that many it has.
    pub fn held(&self, spec: &mut PodSpec) -> Held {
        let Self { metadata, unreadable, groups, gets_shares } = self;
        if let Some(why) = unreadable {
            return Held::Unreadable((*why).to_owned());
        }
        let Some(part) = spec.request.part() else {
            return if spec.request.asks_cards() { Held::Whole } else { Held::Nothing };
        };
        match metadata.annotations.get(keys::CARDS).map(parse) {
            None if !groups.is_empty() => {
                let asked = groups.iter().take(spec.request.cards() as usize);
                Held::Groups(asked.map(|group| (*group).into()).collect())
            }
            None if !gets_shares => Held::Nothing,
            None => koordinators(metadata),
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
}

/// The shares of a pod that Koordinator bound: of each card that it names, what the pod asks.
fn koordinators(metadata: &Metadata) -> Held {
    let Some(text) = metadata.annotations.get(keys::DEVICE_ALLOCATED) else {
        return Held::Unrecorded;
    };
    let share = |name: String| {
        let card = is_uuid(&name).then(|| CardName::Uuid(name.into()))?;
        Some(NamedShare { card, bytes: Bytes(0) })
    };
    match device_allocated::parse(text) {
        Ok(names) if names.is_empty() => Held::Unnamed,
        Ok(names) => {
            let shares: Option<Vec<NamedShare>> = names.into_iter().map(share).collect();
            shares.map_or(Held::Unnamed, Held::Shares)
        }
        Err(why) => Held::Unreadable(why),
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
    use crate::reservation;
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

    /// What a pod with this metadata has.
    fn held(metadata: &str, gets_shares: bool) -> Held {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, {metadata}}}\n\
             spec: {{containers: [{{name: c}}]}}\n"
        );
        let (metadata, spec) = crate::testing::pod(&text);
        let record = crate::pod(&metadata, &spec, None, None, &crate::Priorities::default());
        let groups = reservation::given_groups(&metadata);
        let pod = BoundPod { metadata: &metadata, unreadable: None, groups, gets_shares };
        let why = "spec is odd";
        let odd = BoundPod { unreadable: Some(why), ..pod.clone() }.held(&mut record.spec.clone());
        assert_eq!(odd, Held::Unreadable(why.to_owned()));
        pod.held(&mut { record.spec })
    }

    #[test]
    fn what_a_bound_pod_has_is_what_divvy_kai_or_koordinator_wrote_and_nothing_without() {
        let share = |card: &str, bytes| match CardName::read(card) {
            Some(card) => Held::Shares(vec![NamedShare { card, bytes: Bytes(bytes) }]),
            None => panic!("{card}"),
        };
        let groups = |all: &[&str]| Held::Groups(all.iter().map(|g| (*g).into()).collect());
        let koordinators = |gpus: &str| {
            let key = keys::DEVICE_ALLOCATED;
            format!("annotations: {{gpu-fraction: '0.5', {key}: '{{\"gpu\":[{gpus}]}}'}}")
        };
        let (named, by_number) =
            (koordinators(r#"{"id":"GPU-1"}"#), koordinators(r#"{"minor":3}"#));
        let odd = koordinators("5");
        for (metadata, expected) in [
            ("", Held::Nothing),
            ("annotations: {gpu-fraction: '0.5'}", Held::Unrecorded),
            ("annotations: {gpu-fraction: '0.5', divvy.dev/cards: 'GPU-1:7'}", share("GPU-1", 7)),
            ("annotations: {gpu-fraction: '0.5', divvy.dev/cards: '3:7'}", share("3", 7)),
            (
                "annotations: {gpu-fraction: '0.5', received-resource-type: Fraction}, \
                 labels: {runai-gpu-group: g}",
                groups(&["g"]),
            ),
            (
                "annotations: {gpu-fraction: '0.5', received-resource-type: Fraction}, \
                 labels: {runai-gpu-group/g: g, runai-gpu-group/h: h}",
                groups(&["g"]),
            ),
            // Anybody may write labels.
            ("annotations: {gpu-fraction: '0.5'}, labels: {runai-gpu-group: g}", Held::Unrecorded),
            (
                "annotations: {gpu-fraction: '0.5', received-resource-type: Fraction, \
                 divvy.dev/cards: 'GPU-1:7'}, labels: {runai-gpu-group: g}",
                share("GPU-1", 7),
            ),
            (&named, share("GPU-1", 0)),
            (&by_number, Held::Unnamed),
        ] {
            assert_eq!(held(metadata, true), expected, "{metadata}");
        }
        for wrong in [
            "annotations: {gpu-fraction: '0.5', divvy.dev/cards: ''}",
            "annotations: {gpu-fraction: '0.5', divvy.dev/cards: odd}",
            &odd,
        ] {
            assert!(matches!(held(wrong, true), Held::Unreadable(_)), "{wrong}");
        }
        for others in ["annotations: {gpu-fraction: '0.5'}", &named] {
            assert_eq!(held(others, false), Held::Nothing, "its scheduler gives no shares");
        }
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
