//! The cards of a pod as Koordinator writes them, in the annotation [`crate::keys::DEVICE_ALLOCATED`]:
//! `{"gpu":[{"minor":0,"id":"GPU-..","resources":{"koordinator.sh/gpu-memory":"8Gi"}}]}`.

use crate::cards::is_uuid;
use crate::keys;
use crate::manifest::lenient::NoList;
use crate::problem::short;
use divvy_ledger::{Bytes, Percent};
use serde::Deserialize;
use serde_json::{Value, json};

/// A card that a pod has, to be written.
#[derive(Clone, Copy, Debug)]
pub struct WrittenCard<'a> {
    /// The number of its device node, if that is known.
    pub minor: Option<u32>,
    /// Its UUID.
    pub uuid: &'a str,
    /// How much of its memory.
    pub bytes: Bytes,
    /// All its memory.
    pub capacity: Bytes,
    /// How much of its compute, if any was asked.
    pub compute: Percent,
}

/// The value of the annotation. `None` unless the number of every card is known: to koordlet one that
/// is missing is 0, which is another card.
pub fn print(cards: &[WrittenCard<'_>]) -> Option<String> {
    let card = |grant: &WrittenCard<'_>| {
        let ratio = u128::from(grant.bytes.0) * 100 / u128::from(grant.capacity.0.max(1));
        let mut resources = json!({
            keys::KOORDINATOR_MEMORY: grant.bytes.0.to_string(),
            keys::KOORDINATOR_RATIO: ratio.to_string(),
        });
        if grant.compute.0 > 0 {
            resources[keys::KOORDINATOR_CORE] = json!(grant.compute.0.to_string());
        }
        Some(json!({"minor": grant.minor?, "id": grant.uuid, "resources": resources}))
    };
    let cards: Vec<Value> = cards.iter().map(card).collect::<Option<_>>()?;
    Some(json!({ "gpu": cards }).to_string())
}

/// More cards than any machine has; a tenant of another scheduler may write what it likes.
const MOST: usize = 1024;

/// What the cards are called that are named there: by UUID, else by number. Nothing if there are none.
pub fn parse(text: &str) -> Result<Vec<String>, String> {
    let wrong = || {
        let (key, text) = (keys::DEVICE_ALLOCATED, short(text));
        format!(
            "metadata.annotations[\"{key}\"]: {text:?}; allowed is a JSON object of devices by kind"
        )
    };
    let NoList(Allocated { gpu }) = serde_json::from_str(text).map_err(|_| wrong())?;
    if gpu.len() > MOST {
        return Err(wrong());
    }
    let name = |card: &AllocatedCard| match card.id.as_deref() {
        Some(id) if is_uuid(id) => Some(id.to_owned()),
        Some(_) => None,
        None => Some(format!("minor-{}", card.minor)),
    };
    gpu.iter().map(name).collect::<Option<_>>().ok_or_else(wrong)
}

#[derive(Deserialize)]
struct Allocated {
    #[serde(default)]
    gpu: Vec<AllocatedCard>,
}

#[derive(Deserialize)]
struct AllocatedCard {
    #[serde(default)]
    minor: u32,
    id: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_written_as_koordinator_does_and_only_with_their_number() {
        let grant = |minor| WrittenCard {
            minor,
            uuid: "GPU-1",
            bytes: Bytes(8 << 30),
            capacity: Bytes(16 << 30),
            compute: Percent(30),
        };
        assert_eq!(
            print(&[grant(Some(3))]).unwrap(),
            r#"{"gpu":[{"id":"GPU-1","minor":3,"resources":{"koordinator.sh/gpu-core":"30","koordinator.sh/gpu-memory":"8589934592","koordinator.sh/gpu-memory-ratio":"50"}}]}"#
        );
        assert_eq!(print(&[grant(Some(3)), grant(None)]), None);
        assert_eq!(parse(&print(&[grant(Some(3))]).unwrap()), Ok(vec!["GPU-1".to_owned()]));
    }

    #[test]
    fn what_koordinator_wrote_is_read_and_what_is_none_is_refused() {
        let sample = r#"{"gpu":[{"minor":3,"resources":{"koordinator.sh/gpu-core":"50"}},{"id":"GPU-57"}],"rdma":[{}]}"#;
        assert_eq!(parse(sample), Ok(vec!["minor-3".to_owned(), "GPU-57".to_owned()]));
        assert_eq!(parse("{}"), Ok(Vec::new()));
        for wrong in ["", "x", "[]", r#"{"gpu":[{"id":"all"}]}"#, r#"{"gpu":[{"minor":-1}]}"#] {
            assert!(parse(wrong).unwrap_err().contains("allowed is a JSON object"), "{wrong}");
        }
    }
}
