//! Objects that are as they should be, with every field that divvy reads: where changes begin.

use serde_json::Value;
use std::sync::LazyLock;

/// A pod that asks for whole cards, with all that can stand in one.
pub const POD: &str = include_str!("../objects/pod.yaml");
/// A pod that has a share, of two cards.
pub const SHARE: &str = include_str!("../objects/share.yaml");
/// A pod that holds a card.
pub const RESERVATION: &str = include_str!("../objects/reservation.yaml");
/// A node with cards.
pub const NODE: &str = include_str!("../objects/node.yaml");
/// What makes pods.
pub const WORKLOAD: &str = include_str!("../objects/workload.yaml");
/// All other kinds.
pub const OTHERS: &str = include_str!("../objects/storage.yaml");

/// One object of each kind; pods of three.
pub static ALL: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let texts = [POD, SHARE, RESERVATION, NODE, WORKLOAD, OTHERS];
    let read = |text| serde_saphyr::from_multiple::<Value>(text).unwrap_or_default();
    texts.into_iter().flat_map(read).collect()
});

/// Those of this kind.
pub fn of_kind(kind: &str) -> impl Iterator<Item = &'static Value> {
    ALL.iter().filter(move |object| object["kind"] == kind)
}
