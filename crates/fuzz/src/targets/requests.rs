//! The annotations by which a pod asks for a share: what is accepted is a share of a card, and
//! says so again when it is printed.

use divvy_engine::PodRecord;
use divvy_ledger::{Bytes, Portion};
use divvy_words::manifest::{Metadata, PodManifest};
use divvy_words::{Priorities, keys};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A line for each annotation, and one for the limit of GPUs; an empty one for none.
pub fn requests(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.split('\n');
    let mut annotations = Map::new();
    for key in keys::REQUEST {
        if let Some(value) = lines.next().filter(|value| !value.is_empty()) {
            annotations.insert(key.to_owned(), value.into());
        }
    }
    let limit = lines.next().filter(|value| !value.is_empty());
    let record = record(&annotations, limit);
    let Some(why) = &record.invalid else {
        return check(&record, &annotations);
    };
    assert!(why.len() < 8_192, "{} bytes are said about {text:?}", why.len());
}

fn record(annotations: &Map<String, Value>, limit: Option<&str>) -> PodRecord {
    let limits = limit.map(|limit| json!({ keys::GPU: limit })).unwrap_or_default();
    let metadata = json!({ "namespace": "ml", "name": "p", "annotations": annotations });
    let spec = json!({ "containers": [{ "name": "main", "resources": { "limits": limits } }] });
    let metadata = Metadata::deserialize(&metadata).unwrap_or_default();
    let spec = PodManifest::deserialize(&spec).unwrap_or_default();
    divvy_words::pod(&metadata, &spec, None, None, &Priorities::default())
}

fn check(record: &PodRecord, annotations: &Map<String, Value>) {
    let is_asked = |key: &str| annotations.contains_key(key);
    let is_share = is_asked(keys::GPU_FRACTION) || is_asked(keys::GPU_MEMORY);
    let (Some(portion), cards) = (record.spec.request.portion(), record.spec.request.cards())
    else {
        assert!(!is_share, "{annotations:?} is accepted and asks for no share");
        return;
    };
    assert!(is_share && (1..=64).contains(&cards), "{annotations:?}: {cards} cards");
    let mut printed = Map::new();
    match portion {
        Portion::Fraction(fraction) => {
            printed.insert(keys::GPU_FRACTION.to_owned(), json!(fraction.to_string()));
            for card in [Bytes(1 << 30), Bytes(81_559 << 20)] {
                let share = portion.of(card);
                assert!(Bytes(0) < share && share < card, "{annotations:?}: {share:?}");
            }
        }
        Portion::Memory(bytes) => {
            assert!(bytes.0 > 0 && bytes.0.is_multiple_of(Bytes::MIB), "{annotations:?}");
            printed.insert(keys::GPU_MEMORY.to_owned(), json!(bytes.mib().to_string()));
        }
    }
    printed.insert(keys::FRACTION_DEVICES.to_owned(), json!(cards.to_string()));
    let again = self::record(&printed, None);
    assert_eq!((again.invalid, &again.spec.request), (None, &record.spec.request), "{printed:?}");
}
