//! The cards that a pod holds, as divvy writes them on the pod: `index:bytes[,index:bytes...]`.

use crate::problem::short;
use divvy_ledger::{Bytes, CardShare};

/// The value of the annotation [`crate::keys::CARDS`].
pub fn print(cards: &[CardShare]) -> String {
    let parts: Vec<String> =
        cards.iter().map(|card| format!("{}:{}", card.index, card.bytes.0)).collect();
    parts.join(",")
}

/// Reads what [`print`] wrote.
pub fn parse(text: &str) -> Result<Vec<CardShare>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(card).collect::<Option<_>>().ok_or_else(|| {
        let (key, text) = (crate::keys::CARDS, short(text));
        format!(
            "metadata.annotations[\"{key}\"]: {text:?}; allowed is index:bytes[,index:bytes...]"
        )
    })
}

fn card(part: &str) -> Option<CardShare> {
    let (index, bytes) = part.split_once(':')?;
    // `parse` alone would also take a plus sign.
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !digits(index) || !digits(bytes) {
        return None;
    }
    Some(CardShare { index: index.parse().ok()?, bytes: Bytes(bytes.parse().ok()?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_share_of_a_card_is_index_and_bytes() {
        let card = CardShare { index: 4, bytes: Bytes(21_474_836_480) };
        assert_eq!(print(&[card]), "4:21474836480");
        assert_eq!(parse("4:21474836480"), Ok(vec![card]));
    }

    #[test]
    fn what_divvy_did_not_write_is_refused() {
        for text in ["4", "4:", ":4", "4:5,", ",", "4:-1", "+4:1", "4: 5", "4294967296:1", "a:b"] {
            assert!(parse(text).unwrap_err().contains(&format!("{text:?}")), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(cards in prop::collection::vec((any::<u32>(), any::<u64>()), 0..9)) {
            let share = |(index, bytes)| CardShare { index, bytes: Bytes(bytes) };
            let cards: Vec<_> = cards.into_iter().map(share).collect();
            prop_assert_eq!(parse(&print(&cards)), Ok(cards));
        }

        #[test]
        fn no_text_panics(text in "[0-9:,]{0,40}|.*") {
            let _ = parse(&text);
        }
    }
}
